//! What is made of endpoints is valid for the strictest client, and equal for equal facts.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;
use prost::Message as _;

use super::{Assignment, Kind, Member, Resource, named};
use crate::frontends::xds::client::Detail;
use crate::frontends::xds::resource::Version;
use crate::proto::xds::endpoint::{ClusterLoadAssignment, lb_endpoint};

fn read(resource: &Resource) -> ClusterLoadAssignment {
    resource.message()
}

fn member(ip: &str, zone: &str, priority: u32) -> Member {
    Member::sample(
        SocketAddr::new(ip.parse().unwrap(), 8080),
        zone,
        priority,
        None,
    )
}

/// `priority zone weight: addresses` of each locality.
fn lines(assignment: &ClusterLoadAssignment) -> Vec<String> {
    let line = |locality: &crate::proto::xds::endpoint::LocalityLbEndpoints| {
        let addresses: Vec<_> = locality.lb_endpoints.iter().map(address).collect();
        format!(
            "{} {} {}: {}",
            locality.priority,
            locality.locality.as_ref().unwrap().zone,
            locality.load_balancing_weight.unwrap().value,
            addresses.join(" ")
        )
    };
    assignment.endpoints.iter().map(line).collect()
}

fn address(endpoint: &crate::proto::xds::endpoint::LbEndpoint) -> String {
    use crate::proto::xds::core::address::Address;
    let Some(lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else {
        panic!("no endpoint");
    };
    let Some(Address::SocketAddress(socket)) = &endpoint.address.as_ref().unwrap().address else {
        panic!("no address");
    };
    socket.address.clone()
}

#[test]
fn localities_are_in_order_and_weigh_what_they_hold() {
    let members = vec![
        member("10.0.0.3", "b", 0),
        member("10.0.0.1", "b", 0),
        member("10.0.0.2", "a", 0),
        member("10.1.0.1", "a", 1),
    ];
    let resource = Assignment::new(members, Detail::Lean).resource("web");
    let expected = [
        "0 a 1: 10.0.0.2",
        "0 b 2: 10.0.0.1 10.0.0.3",
        "1 a 1: 10.1.0.1",
    ];
    assert_eq!(lines(&read(&resource)), expected);
}

#[test]
fn priorities_have_no_gaps() {
    let members = vec![member("10.0.0.1", "a", 1), member("10.0.0.2", "a", 5)];
    let resource = Assignment::new(members, Detail::Lean).resource("web");
    assert_eq!(
        lines(&read(&resource)),
        ["0 a 1: 10.0.0.1", "1 a 1: 10.0.0.2"]
    );
}

#[test]
fn nothing_is_a_name_without_endpoints() {
    let resource = named(Kind::Assignment, "web", "web");
    let expected = ClusterLoadAssignment {
        cluster_name: "web".to_owned(),
        ..Default::default()
    };
    assert_eq!(read(&resource), expected);
    let emptied = Assignment::new(Vec::new(), Detail::Rich).resource("web");
    assert_eq!(emptied.version, resource.version);
}

#[test]
fn a_lean_answer_leaves_out_what_its_clients_make_nothing_of() {
    let identity = "web.shop.serviceaccount.identity.linkerd.cluster.local";
    let socket = "10.0.0.1:80".parse().unwrap();
    let members = || vec![Member::sample(socket, "a", 0, Some(identity))];
    let rich = Assignment::new(members(), Detail::Rich).resource("web");
    let lean = Assignment::new(members(), Detail::Lean).resource("web");
    let size = read(&lean).encoded_len();
    assert!(size < 60, "{size}");
    let message = read(&rich);
    let endpoint = &message.endpoints[0].lb_endpoints[0];
    let Some(lb_endpoint::HostIdentifier::Endpoint(host)) = &endpoint.host_identifier else {
        panic!("no endpoint");
    };
    assert_eq!(host.hostname, identity);
    let metadata = &endpoint.metadata.as_ref().unwrap().filter_metadata;
    assert!(metadata.contains_key("envoy.transport_socket_match"));
    assert_ne!(rich.version, lean.version);
}

/// Clients of gRPC accept 4 MiB in one message.
#[test]
fn a_lean_answer_of_very_many_endpoints_is_within_what_grpc_accepts() {
    let ips = (0..150_000).map(|n| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)));
    let identity = Some("web.shop.serviceaccount.identity.linkerd.cluster.local");
    let members: Vec<_> = ips
        .map(|ip| Member::sample(SocketAddr::new(ip, 8080), "a", 0, identity))
        .collect();
    let lean = Assignment::new(members.clone(), Detail::Lean).resource("web");
    assert!(lean.len() < 4 * 1024 * 1024, "{}", lean.len());
    let rich = Assignment::new(members, Detail::Rich).resource("web");
    assert!(rich.len() > 4 * 1024 * 1024, "{}", rich.len());
}

#[test]
fn versions_say_what_is_said_and_nothing_else() {
    let of = |members, name| -> Version {
        Assignment::new(members, Detail::Lean)
            .resource(name)
            .version
    };
    let one = of(
        vec![member("10.0.0.1", "a", 0), member("::1", "b", 0)],
        "web",
    );
    let two = of(
        vec![member("::1", "b", 0), member("10.0.0.1", "a", 0)],
        "web",
    );
    assert_eq!(one, two, "the order in which they are found means nothing");
    assert_ne!(one, of(vec![member("10.0.0.1", "a", 0)], "web"));
    assert_ne!(
        one,
        of(
            vec![member("10.0.0.1", "a", 0), member("::1", "a", 0)],
            "web"
        )
    );
    assert_ne!(
        one,
        of(
            vec![member("10.0.0.1", "a", 0), member("::1", "b", 0)],
            "api"
        )
    );
}

fn some_members() -> impl Strategy<Value = Vec<Member>> {
    let ip = prop_oneof![
        (0_u32..40).prop_map(|n| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n))),
        (0_u128..10).prop_map(|n| IpAddr::V6(Ipv6Addr::from((0xfd << 120) + n))),
    ];
    let member =
        (ip, "[abc]?", 0_u32..200, any::<bool>()).prop_map(|(ip, zone, priority, meshed)| {
            Member::sample(
                SocketAddr::new(ip, 80),
                &zone,
                priority,
                meshed.then_some("x.y.serviceaccount.identity.linkerd.cluster.local"),
            )
        });
    proptest::collection::vec(member, 0..40).prop_map(|mut members| {
        // Views list an address once.
        let mut seen = BTreeSet::new();
        members.retain(|member| seen.insert(member.socket()));
        members
    })
}

proptest! {
    #[test]
    fn every_client_accepts_it(members in some_members(), rich: bool) {
        let count = members.len();
        let detail = if rich { Detail::Rich } else { Detail::Lean };
        let message = read(&Assignment::new(members, detail).resource("web"));
        let mut places = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        let mut priorities = BTreeSet::new();
        for locality in &message.endpoints {
            let place = locality.locality.as_ref().expect("a locality");
            prop_assert!(places.insert((locality.priority, place.zone.clone())), "a locality twice");
            prop_assert!(locality.load_balancing_weight.is_some_and(|weight| weight.value > 0));
            prop_assert!(!locality.lb_endpoints.is_empty());
            priorities.insert(locality.priority);
            for endpoint in &locality.lb_endpoints {
                prop_assert!(addresses.insert(address(endpoint)), "an address twice");
            }
        }
        prop_assert_eq!(addresses.len(), count);
        let gapless: BTreeSet<u32> = (0..u32::try_from(priorities.len()).unwrap()).collect();
        prop_assert_eq!(priorities, gapless);
    }
}
