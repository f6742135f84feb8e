use super::{MeshPolicy, Protocol};
use crate::testing::{PodBuilder, World, home, pod, service, slice};

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
