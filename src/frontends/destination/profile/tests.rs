use super::*;
use crate::index::{AddressOwner, MeshPolicy};
use crate::model::{PortSet, RequestMatch, Route, SignedDuration};
use crate::testing::{
    PodBuilder, World, cluster, external_workload, home, pod, replica_set, server,
};

fn translation() -> Translation {
    Translation {
        mesh: MeshPolicy {
            controller_namespace: "linkerd".into(),
            default_opaque_ports: PortSet::parse("3306", |_| None).0,
            h2_upgrade: true,
            transport_header: false,
        },
        zone_weights: true,
        http2: Some(pb::Http2ClientParams::default()),
    }
}

fn world(pod: PodBuilder) -> World {
    let mut world = World::default();
    world.say(home().begins_with([
        pod.object(),
        replica_set("shop/web-5d", Some(("Deployment", "web"))),
    ]));
    world
}

/// An endpoint profile in short: opaque or not, labels, hints, identity.
fn check_at(world: &World, socket: &str, expected: &str) {
    let socket: SocketAddr = socket.parse().unwrap();
    let owner = world.index.address(socket.ip());
    let tenant = match owner.owner(socket.ip(), socket.port()).unwrap() {
        AddressOwner::Workload(tenant) => Some(tenant),
        AddressOwner::Nobody | AddressOwner::Service(_) => None,
    };
    let profile = translation().profile(&Subject::Endpoint { socket, tenant });
    let endpoint = profile.endpoint.unwrap();
    assert_eq!(endpoint.addr, Some(tcp_address(socket)));
    assert_eq!(endpoint.weight, WEIGHT);
    assert_eq!(
        (
            profile.fully_qualified_name,
            profile.parent_ref,
            profile.profile_ref
        ),
        (String::new(), None, None)
    );
    let mut parts: Vec<String> = Vec::new();
    if profile.opaque_protocol {
        parts.push("opaque".to_owned());
    }
    let labels = endpoint.metric_labels;
    parts.extend(labels.iter().map(|(key, value)| format!("{key}={value}")));
    if let Some(hint) = endpoint.protocol_hint {
        parts.push(match hint.protocol {
            Some(pb::protocol_hint::Protocol::H2(_)) => "h2".to_owned(),
            Some(pb::protocol_hint::Protocol::Opaque(_)) => "bytes".to_owned(),
            None => "any".to_owned(),
        });
        if let Some(transport) = hint.opaque_transport {
            parts.push(format!("via {}", transport.inbound_port));
        }
        assert!(endpoint.http2.is_some());
    } else {
        assert!(endpoint.http2.is_none());
    }
    match endpoint.tls_identity.and_then(|identity| identity.strategy) {
        Some(pb::tls_identity::Strategy::DnsLikeIdentity(identity)) => parts.push(identity.name),
        Some(pb::tls_identity::Strategy::UriLikeIdentity(identity)) => parts.push(identity.uri),
        None => {}
    }
    assert_eq!(parts.join(" "), expected, "{socket}");
}

#[test]
fn an_address_is_known_by_its_pod() {
    let web = pod("shop/web-0")
        .ip("10.0.0.1")
        .owned_by("ReplicaSet", "web-5d")
        .account("web")
        .opaque("5000")
        .meshed();
    let world = world(web);
    let labels =
        "control_plane_ns=linkerd deployment=web namespace=shop pod=web-0 serviceaccount=web zone=";
    let identity = "web.shop.serviceaccount.identity.linkerd.home.example";
    check_at(&world, "10.0.0.1:8080", &format!("{labels} h2 {identity}"));
    check_at(
        &world,
        "10.0.0.1:5000",
        &format!("opaque {labels} bytes via 4143 {identity}"),
    );
    // The Pod's own list replaces the default one, and the proxy's own ports are reached directly.
    check_at(&world, "10.0.0.1:3306", &format!("{labels} h2 {identity}"));
    check_at(&world, "10.0.0.1:4191", &format!("{labels} h2 {identity}"));
    check_at(&world, "10.0.0.2:8080", "");
    check_at(&world, "10.0.0.2:3306", "opaque");
}

#[test]
fn an_unmeshed_pod_has_labels_only() {
    let world = world(pod("shop/web-0").ip("10.0.0.1"));
    let labels = "namespace=shop pod=web-0 serviceaccount=default zone=";
    check_at(&world, "10.0.0.1:8080", labels);
    check_at(&world, "10.0.0.1:3306", &format!("opaque {labels}"));
}

#[test]
fn an_address_whose_proxy_cannot_be_read_is_bare() {
    let world = world(
        pod("shop/web-0")
            .ip("10.0.0.1")
            .meshed_by("linkerd")
            .skipping("9000"),
    );
    check_at(&world, "10.0.0.1:8080", "");
    check_at(&world, "10.0.0.1:3306", "opaque");
    check_at(
        &world,
        "10.0.0.1:9000",
        "control_plane_ns=linkerd namespace=shop pod=web-0 serviceaccount=default zone=",
    );
}

#[test]
fn a_host_port_is_known_by_the_pod_behind_it() {
    let world = world(
        pod("shop/web-0")
            .ip("10.0.0.1")
            .host_port("10.1.0.1", 9000)
            .meshed(),
    );
    check_at(
        &world,
        "10.1.0.1:9000",
        "control_plane_ns=linkerd namespace=shop pod=web-0 serviceaccount=default zone= h2 \
         default.shop.serviceaccount.identity.linkerd.home.example",
    );
    check_at(&world, "10.1.0.1:9001", "");
}

#[test]
fn an_address_of_a_linked_cluster_says_which() {
    let mut world = world(pod("shop/web-0"));
    world.say(cluster("east").begins_with([pod("shop/web-9").ip("10.9.0.1").meshed().object()]));
    check_at(
        &world,
        "10.9.0.1:8080",
        "control_plane_ns=linkerd namespace=shop pod=web-9 serviceaccount=default target_cluster=east zone= h2 \
         default.shop.serviceaccount.identity.linkerd.east.example",
    );
}

#[test]
fn an_external_workload_has_an_identity_of_its_own() {
    let mut world = world(pod("shop/web-0"));
    let vm = external_workload("shop/vm")
        .ip("10.3.0.1")
        .port(8080, "http")
        .port(3306, "db")
        .owned_by("ExternalGroup", "vms");
    world.say([home().apply(vm)]);
    let labels = "ExternalGroup=vms external_workload=vm namespace=shop zone=";
    check_at(
        &world,
        "10.3.0.1:8080",
        &format!("{labels} h2 spiffe://root/vm"),
    );
    check_at(
        &world,
        "10.3.0.1:3306",
        &format!("opaque {labels} bytes via 4143 spiffe://root/vm"),
    );
    check_at(&world, "10.3.0.1:9", "");
}

#[test]
fn a_server_makes_a_port_opaque_while_it_is_there() {
    let mut world = world(pod("shop/web-0").ip("10.0.0.1").label("app=web"));
    let labels = "namespace=shop pod=web-0 serviceaccount=default zone=";
    let opaque = server("shop/raw", "8080").pods("app=web");
    world.say([home().apply(opaque.clone())]);
    check_at(&world, "10.0.0.1:8080", &format!("opaque {labels}"));
    world.say([home().delete(opaque)]);
    check_at(&world, "10.0.0.1:8080", labels);
}

#[test]
fn a_port_that_is_not_defined_has_an_empty_profile() {
    let profile = translation().profile(&Subject::UndefinedPort);
    assert_eq!(profile, pb::DestinationProfile::default());
}

#[test]
fn a_service_has_its_name_and_the_default_budget() {
    let subject = |profile| Subject::Service {
        service: ServiceName::new("shop", "web"),
        fqn: "web.shop.svc.cluster.local".into(),
        port: 80,
        opaque: true,
        profile,
    };
    let bare = translation().profile(&subject(None));
    assert!(bare.opaque_protocol);
    assert_eq!(bare.fully_qualified_name, "web.shop.svc.cluster.local");
    assert_eq!(bare.profile_ref, None);
    let budget = pb::RetryBudget {
        retry_ratio: 0.2,
        min_retries_per_second: 10,
        ttl: Some(prost_types::Duration {
            seconds: 10,
            nanos: 0,
        }),
    };
    assert_eq!(bare.retry_budget, Some(budget));

    let facts = ProfileFacts {
        routes: [Route {
            name: "all".into(),
            condition: RequestMatch::Path("/.*".into()),
            classes: Box::default(),
            retryable: true,
            timeout: SignedDuration::parse("1.5s"),
        }]
        .into(),
        retry_budget: Some(RetryBudget {
            ttl: SignedDuration::default(),
            ..RetryBudget::default()
        }),
        overrides: Box::default(),
    };
    let name = ProfileName::new("bank", "web.shop.svc.cluster.local");
    let told = translation().profile(&subject(Some((name, Arc::new(facts)))));
    let [route] = &told.routes[..] else {
        panic!("one route")
    };
    assert_eq!(route.metrics_labels["route"], "all");
    assert_eq!(
        route.timeout,
        Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000
        })
    );
    assert_eq!(told.retry_budget.unwrap().ttl, None);
    let Some(meta::metadata::Kind::Resource(reference)) = told.profile_ref.unwrap().kind else {
        panic!("a resource")
    };
    assert_eq!(
        (reference.kind.as_str(), reference.namespace.as_str()),
        ("ServiceProfile", "bank")
    );
}
