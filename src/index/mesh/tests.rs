use super::{IdentityForm, MeshPolicy, Protocol};
use crate::testing::{
    ExternalWorkloadBuilder, PodBuilder, World, external_workload, home, pod, server, service,
    slice,
};

fn policy() -> MeshPolicy {
    MeshPolicy {
        controller_namespace: "linkerd".into(),
        default_opaque_ports: std::iter::once(25.into()).collect(),
        h2_upgrade: true,
        transport_header: false,
    }
}

/// What the only endpoint means on a port: `meshed`, protocol, inbound port, identity; `-` if it is not served.
fn check_with(policy: MeshPolicy, pod: PodBuilder, port: u16, expected: &str) {
    let mut world = World::default();
    world.policy.mesh = policy;
    world.say(home().begins_with([
        service("shop/web").object(),
        slice("web").endpoint("10.0.0.1").pod("shop/web-0").object(),
        pod.object(),
    ]));
    assert_eq!(say(&world, port), expected, "port {port}");
}

fn check(pod: PodBuilder, port: u16, expected: &str) {
    check_with(policy(), pod, port, expected);
}

fn say(world: &World, port: u16) -> String {
    let view = world.view("shop/web", port);
    let Some(endpoint) = view.endpoints.first() else {
        return "-".to_owned();
    };
    let mesh = world.policy.mesh.mesh(endpoint).unwrap();
    let mut parts = vec![if mesh.meshed { "meshed" } else { "plain" }.to_owned()];
    if mesh.protocol != Protocol::Unknown {
        parts.push(mesh.protocol.as_str().to_owned());
    }
    parts.extend(mesh.inbound_port.map(|port| port.to_string()));
    if let Some(identity) = mesh.identity {
        if identity.form == IdentityForm::Uri {
            parts.push("uri".to_owned());
        }
        parts.push(match &identity.server_name {
            Some(name) if *name == identity.name => identity.name,
            Some(name) => format!("{}!={name}", identity.name),
            None => format!("{} without server name", identity.name),
        });
    }
    parts.join(" ")
}

const WEB: &str = "default.shop.serviceaccount.identity.linkerd.home.example";

fn web() -> PodBuilder {
    pod("shop/web-0").ip("10.0.0.1").meshed()
}

#[test]
fn pods_outside_the_mesh_and_skipped_ports_say_nothing() {
    check(pod("shop/web-0").ip("10.0.0.1"), 80, "plain");
    check(web().skipping("80,90-99"), 80, "plain");
    check(web().skipping("80,90-99"), 95, "plain");
    check(web().skipping("80,90-99"), 81, &format!("meshed h2 {WEB}"));
    check(web().skipping("80").proxy(None, None, None), 80, "plain");
}

#[test]
fn a_proxy_that_cannot_be_read_takes_the_endpoint_away() {
    check(web().proxy(Some(4143), None, Some(4190)), 80, "-");
    check(web().proxy(Some(4143), Some(4191), None), 80, "-");
    check(
        web().proxy(None, Some(4191), Some(4190)),
        80,
        &format!("meshed h2 {WEB}"),
    );
    check(web().proxy(None, Some(4191), Some(4190)), 25, "-");
    check(web().proxy(Some(0), Some(4191), Some(4190)), 25, "-");
}

#[test]
fn opaque_ports_and_the_transport_header_go_to_the_inbound_port() {
    check(web(), 25, &format!("meshed opaque 4143 {WEB}"));
    check(web().opaque("80"), 80, &format!("meshed opaque 4143 {WEB}"));
    check(web().opaque("80"), 25, &format!("meshed h2 {WEB}"));
    check(web().opaque(""), 25, &format!("meshed h2 {WEB}"));
    check(web().opaque("4191"), 4191, &format!("meshed opaque {WEB}"));
    let header = || MeshPolicy {
        transport_header: true,
        ..policy()
    };
    check_with(header(), web(), 80, &format!("meshed h2 4143 {WEB}"));
    check_with(header(), web(), 4190, &format!("meshed h2 {WEB}"));
    check_with(header(), web().proxy(None, Some(4191), Some(4190)), 80, "-");
}

#[test]
fn http_2_is_asked_for_only_if_upgrades_are_on() {
    let without = || MeshPolicy {
        h2_upgrade: false,
        ..policy()
    };
    check_with(without(), web(), 80, &format!("meshed {WEB}"));
    check_with(without(), web(), 25, &format!("meshed opaque 4143 {WEB}"));
}

#[test]
fn identity_needs_the_own_control_plane_and_a_pod_that_has_the_address() {
    check(
        web().account("web"),
        80,
        "meshed h2 web.shop.serviceaccount.identity.linkerd.home.example",
    );
    check(web().meshed_by("other"), 80, "meshed h2");
    check(pod("shop/web-0").ip("10.0.0.9").meshed(), 80, "meshed h2");
    // Not served until it is known to have an address.
    check(pod("shop/web-0").meshed(), 80, "-");
}

#[test]
fn identity_needs_a_trust_domain_and_is_that_of_the_pods_own_namespace() {
    let mut world = World::default();
    world.policy.mesh = policy();
    world.say(home().trusting("").begins_with([
        service("shop/web").object(),
        slice("web").endpoint("10.0.0.1").pod("shop/web-0").object(),
        web().object(),
    ]));
    assert_eq!(say(&world, 80), "meshed h2");
    world.say(
        home().session(2).begins_with([
            service("shop/web").object(),
            slice("web")
                .endpoint("10.0.0.1")
                .pod("other/web-0")
                .object(),
            pod("other/web-0").ip("10.0.0.1").meshed().object(),
        ]),
    );
    assert_eq!(
        say(&world, 80),
        "meshed h2 default.other.serviceaccount.identity.linkerd.home.example"
    );
}

#[test]
fn a_gateway_has_the_identity_that_its_slice_says() {
    let gateway = |identity| {
        slice("web")
            .mirrored_from("east", "web.shop", identity)
            .endpoint("10.9.0.1")
    };
    for (h2_upgrade, identity, expected) in [
        (
            true,
            "gateway.example",
            "meshed h2 gateway.example without server name",
        ),
        (
            false,
            "gateway.example",
            "plain gateway.example without server name",
        ),
        (true, "", "plain"),
    ] {
        let mut world = World::default();
        world.policy.mesh = MeshPolicy {
            h2_upgrade,
            ..policy()
        };
        let objects = [service("shop/web").object(), gateway(identity).object()];
        world.say(home().begins_with(objects));
        assert_eq!(say(&world, 80), expected);
    }
}

/// What the only endpoint, behind an ExternalWorkload, means on a port.
fn check_external(
    policy: MeshPolicy,
    workload: ExternalWorkloadBuilder,
    port: u16,
    expected: &str,
) {
    let mut world = World::default();
    world.policy.mesh = policy;
    world.say(
        home().begins_with([
            service("shop/web").object(),
            slice("vm")
                .endpoint("10.0.0.1")
                .external_workload("vm-0")
                .object(),
            server("shop/named", "db")
                .external_workloads("app=vm")
                .object(),
            workload.object(),
        ]),
    );
    assert_eq!(say(&world, port), expected, "port {port}");
}

fn vm() -> ExternalWorkloadBuilder {
    external_workload("shop/vm-0").ip("10.0.0.1")
}

#[test]
fn external_workloads_always_have_a_proxy_that_speaks_http_2() {
    const VM: &str = "uri spiffe://root/vm-0!=vm-0.external";
    for h2_upgrade in [true, false] {
        let with = || MeshPolicy {
            h2_upgrade,
            ..policy()
        };
        check_external(with(), vm(), 80, &format!("meshed h2 {VM}"));
        check_external(with(), vm(), 25, &format!("meshed opaque 4143 {VM}"));
    }
    let proxy = || vm().port(5143, "linkerd-proxy");
    check_external(policy(), proxy(), 25, &format!("meshed opaque 5143 {VM}"));
    let annotated = || proxy().opaque("80-90");
    check_external(policy(), annotated(), 25, &format!("meshed h2 {VM}"));
    let opaque = format!("meshed opaque 5143 {VM}");
    check_external(policy(), annotated(), 85, &opaque);
    let header = MeshPolicy {
        transport_header: true,
        ..policy()
    };
    check_external(header, proxy(), 80, &format!("meshed h2 5143 {VM}"));
    let selected = || annotated().port(7000, "db").label("app=vm");
    check_external(policy(), selected(), 7000, &opaque);
    check_external(policy(), selected(), 7001, &format!("meshed h2 {VM}"));
}

#[test]
fn the_identity_of_an_external_workload_is_for_its_own_addresses() {
    let elsewhere = external_workload("shop/vm-0").ip("10.0.0.9");
    check_external(policy(), elsewhere, 80, "meshed h2");
    check_external(policy(), vm().identity(""), 80, "meshed h2");
}

#[test]
fn servers_only_ever_add_opaque_ports() {
    let mut world = World::default();
    world.policy.mesh = policy();
    world.say(home().begins_with([
        service("shop/web").object(),
        slice("web").endpoint("10.0.0.1").pod("shop/web-0").object(),
        server("shop/web", "80").pods("").object(),
        web().opaque("90").object(),
    ]));
    assert_eq!(say(&world, 80), format!("meshed opaque 4143 {WEB}"));
    assert_eq!(say(&world, 90), format!("meshed opaque 4143 {WEB}"));
    assert_eq!(say(&world, 25), format!("meshed h2 {WEB}"));
    world.say([home().apply(web().opaque("90").skipping("80"))]);
    assert_eq!(say(&world, 80), "plain");
    world.say([home().apply(pod("shop/web-0").ip("10.0.0.1"))]);
    assert_eq!(say(&world, 80), "plain");
}
