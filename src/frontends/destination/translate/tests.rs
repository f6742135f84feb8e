use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::{Http2Params, Translation};
use crate::frontends::grpc::PREFIX_LEN;
use crate::index::{MeshPolicy, View, diff};
use crate::proto::destination::update::Update as Kind;
use crate::proto::destination::{Update, WeightedAddr, WeightedAddrSet};
use crate::testing::{
    SliceBuilder, World, cluster, external_workload, home, job, node_in, pod, replica_set, service,
    slice,
};

fn translation() -> Translation {
    Translation {
        mesh: MeshPolicy {
            controller_namespace: "linkerd".into(),
            h2_upgrade: true,
            ..MeshPolicy::default()
        },
        zone_weights: false,
        http2: Some(Http2Params::default()),
    }
}

fn world(slices: impl IntoIterator<Item = SliceBuilder>) -> World {
    let mut objects = vec![
        service("shop/web").port(80, "http").object(),
        node_in("a", "n0"),
        replica_set("shop/web-5d", Some(("Deployment", "web"))),
        job("shop/once", None),
        pod("shop/web-0")
            .ip("10.0.0.1")
            .owned_by("ReplicaSet", "web-5d")
            .template_hash("5d")
            .account("web")
            .meshed()
            .object(),
        pod("shop/web-1")
            .ip("10.0.0.2")
            .owned_by("Job", "once")
            .object(),
        pod("shop/web-2").ip("10.0.0.3").object(),
    ];
    objects.extend(slices.into_iter().map(SliceBuilder::object));
    let mut world = World::default();
    world.policy.mesh = translation().mesh;
    world.say(home().begins_with(objects));
    world
}

fn decode(frames: &[Bytes]) -> Vec<Kind> {
    frames
        .iter()
        .map(|frame| {
            let len = u32::from_be_bytes(frame[1..PREFIX_LEN].try_into().unwrap());
            assert_eq!((frame[0], len as usize), (0, frame.len() - PREFIX_LEN));
            Update::decode(&frame[PREFIX_LEN..])
                .unwrap()
                .update
                .unwrap()
        })
        .collect()
}

fn frames(translation: &Translation, before: Option<&View>, after: &View) -> Vec<Kind> {
    decode(&translation.frames(&diff(before, after), after, before))
}

fn only_add(kinds: &[Kind]) -> &WeightedAddrSet {
    match kinds {
        [Kind::Add(set)] => set,
        other => panic!("expected one add, got {other:?}"),
    }
}

fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(" ")
}

/// Messages in short.
fn check(kinds: &[Kind], expected: &str) {
    let texts: Vec<String> = kinds
        .iter()
        .map(|kind| match kind {
            Kind::Add(set) => format!("add {}", set.addrs.len()),
            Kind::Remove(set) => format!("remove {}", set.addrs.len()),
            Kind::NoEndpoints(none) => format!("no_endpoints {}", none.exists),
        })
        .collect();
    assert_eq!(texts.join(", "), expected);
}

/// Labels of the set, then those of each address.
fn check_labels(world: &World, node: &str, expected: &[&str]) {
    let kinds = frames(&translation(), None, &world.view_from(node, "shop/web", 80));
    let set = only_add(&kinds);
    let mut texts = vec![labels(&set.metric_labels)];
    texts.extend(set.addrs.iter().map(|addr| labels(&addr.metric_labels)));
    assert_eq!(texts, expected);
}

#[test]
fn pods_are_labelled_by_what_they_are_and_where() {
    let slice = slice("web")
        .endpoint("10.0.0.1")
        .pod("shop/web-0")
        .zone("a")
        .endpoint("10.0.0.2")
        .pod("shop/web-1")
        .zone("b")
        .endpoint("10.0.0.3")
        .pod("shop/web-2")
        .endpoint("10.0.0.4")
        .zone("a");
    let world = world([slice]);
    check_labels(
        &world,
        "n0",
        &[
            "namespace=shop service=web",
            "control_plane_ns=linkerd deployment=web pod=web-0 pod_template_hash=5d serviceaccount=web zone=a zone_locality=local",
            "k8s_job=once pod=web-1 serviceaccount=default zone=b zone_locality=remote",
            "pod=web-2 serviceaccount=default zone= zone_locality=unknown",
            "zone_locality=unknown",
        ],
    );
    check_labels(
        &world,
        "n9",
        &[
            "namespace=shop service=web",
            "control_plane_ns=linkerd deployment=web pod=web-0 pod_template_hash=5d serviceaccount=web zone=a zone_locality=unknown",
            "k8s_job=once pod=web-1 serviceaccount=default zone=b zone_locality=unknown",
            "pod=web-2 serviceaccount=default zone= zone_locality=unknown",
            "zone_locality=unknown",
        ],
    );
}

#[test]
fn labels_that_not_all_addresses_share_stand_on_the_addresses() {
    let mirror = slice("m")
        .mirrored_from("east", "web.store.svc.cluster.local", "gateway.example")
        .endpoint("10.9.0.1");
    check_labels(
        &world([mirror.clone()]),
        "",
        &[
            "namespace=shop service=web target_cluster=east target_service=web target_service_namespace=store",
            "zone_locality=unknown",
        ],
    );
    check_labels(
        &world([mirror, slice("web").endpoint("10.0.0.4")]),
        "",
        &[
            "namespace=shop service=web",
            "zone_locality=unknown",
            "target_cluster=east target_service=web target_service_namespace=store zone_locality=unknown",
        ],
    );
    check_labels(
        &world([slice("m")
            .mirrored_from("east", "web", "")
            .endpoint("10.9.0.1")]),
        "",
        &[
            "namespace=shop service=web target_cluster=east",
            "zone_locality=unknown",
        ],
    );
    check_labels(
        &world([slice("m")
            .mirrored_from("", "web.store", "")
            .endpoint("10.9.0.1")]),
        "",
        &["namespace=shop service=web", "zone_locality=unknown"],
    );
}

#[test]
fn addresses_of_several_clusters_say_which() {
    let mut world = world([slice("l").of("shop/local").endpoint("10.0.0.4")]);
    world.say([
        home().apply(service("shop/web").federated("local", "there@east")),
        home().apply(service("shop/local")),
    ]);
    let there = slice("t").of("shop/there").endpoint("10.1.0.1").object();
    world.say(cluster("east").begins_with([service("shop/there").object(), there]));
    check_labels(
        &world,
        "",
        &[
            "namespace=shop",
            "service=local target_cluster=home zone_locality=unknown",
            "service=there target_cluster=east zone_locality=unknown",
        ],
    );
}

fn first_addr(translation: &Translation, world: &World, node: &str) -> WeightedAddr {
    let kinds = frames(translation, None, &world.view_from(node, "shop/web", 80));
    only_add(&kinds).addrs[0].clone()
}

#[test]
fn http_2_settings_go_to_meshed_pods_and_gateways() {
    let gateway = |identity| {
        slice("m")
            .mirrored_from("", "web.store", identity)
            .endpoint("10.9.0.1")
    };
    let meshed = slice("web").endpoint("10.0.0.1").pod("shop/web-0");
    let plain = slice("web").endpoint("10.0.0.3").pod("shop/web-2");
    let without_upgrade = {
        let mut translation = translation();
        translation.mesh.h2_upgrade = false;
        translation
    };
    for (translation, slice, expected) in [
        (translation(), meshed, (true, true, false)),
        (translation(), plain, (false, false, false)),
        (
            translation(),
            gateway("gateway.example"),
            (true, true, true),
        ),
        (
            without_upgrade,
            gateway("gateway.example"),
            (true, false, true),
        ),
        (translation(), gateway(""), (false, false, true)),
    ] {
        let addr = first_addr(&translation, &world([slice]), "");
        let got = (
            addr.http2.is_some(),
            addr.protocol_hint.is_some(),
            addr.authority_override.is_some(),
        );
        assert_eq!(got, expected);
        if let Some(authority) = addr.authority_override {
            assert_eq!(authority.authority_override, "web.store:80");
        }
    }
}

#[test]
fn weights_follow_zones_only_where_that_is_asked_for() {
    let slice = slice("web")
        .endpoint("10.0.0.1")
        .pod("shop/web-0")
        .zone("a");
    let world = world([slice]);
    let weighted = Translation {
        zone_weights: true,
        ..translation()
    };
    for (translation, node, weight) in [
        (translation(), "n0", 10_000),
        (weighted.clone(), "n0", 100_000),
        (weighted, "n9", 10_000),
    ] {
        assert_eq!(first_addr(&translation, &world, node).weight, weight);
    }
}

#[test]
fn emptiness_is_told_once_and_never_in_between() {
    let one = world([slice("web").endpoint("10.0.0.4")]).view("shop/web", 80);
    let other = world([slice("web").endpoint("10.0.0.5")]).view("shop/web", 80);
    let none = world([]).view("shop/web", 80);
    let translation = translation();
    check(&frames(&translation, None, &none), "no_endpoints true");
    check(
        &frames(&translation, Some(&one), &none),
        "no_endpoints true",
    );
    check(&frames(&translation, Some(&none), &none), "");
    check(&frames(&translation, None, &one), "add 1");
    check(&frames(&translation, Some(&one), &other), "add 1, remove 1");
    check(&frames(&translation, Some(&one), &one), "");
    check(
        &frames(&translation, None, &World::default().view("shop/web", 80)),
        "no_endpoints false",
    );
}

#[test]
fn large_answers_are_split_below_what_clients_accept() {
    let mut objects = vec![service("shop/web").port(80, "http").object()];
    for block in 0..200 {
        let mut slice = slice(&format!("web-{block}"));
        for last in 0..100 {
            let name = format!("shop/web-7c9d8f6b5d-{block:03}-{last:03}");
            let ip = format!("10.{}.{}.{last}", block / 100, block % 100);
            objects.push(
                pod(&name)
                    .ip(&ip)
                    .meshed()
                    .template_hash("7c9d8f6b5d")
                    .object(),
            );
            slice = slice.endpoint(&ip).pod(&name).zone("europe-west1-b");
        }
        objects.push(slice.object());
    }
    let mut world = World::default();
    world.say(home().begins_with(objects));
    let all = world.view("shop/web", 80);
    assert_eq!(all.endpoints.len(), 20_000);
    let translation = translation();
    let frames = translation.frames(&diff(None, &all), &all, None);
    assert!(frames.len() > 1 && frames.iter().all(|frame| frame.len() < 3_500_000));
    let added: usize = decode(&frames)
        .iter()
        .map(|kind| match kind {
            Kind::Add(set) => set.addrs.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(added, 20_000);
}

#[test]
fn external_workloads_say_a_uri_and_their_own_labels() {
    use crate::proto::destination::tls_identity::Strategy;

    let slice = slice("vm")
        .endpoint("10.0.0.9")
        .external_workload("vm-0")
        .zone("a")
        .endpoint("10.0.0.8")
        .external_workload("vm-1");
    let mut world = world([slice]);
    world.say([
        home().apply(
            external_workload("shop/vm-0")
                .ip("10.0.0.9")
                .owned_by("Job", "vms"),
        ),
        home().apply(external_workload("shop/vm-1").ip("10.0.0.8")),
    ]);
    check_labels(
        &world,
        "n0",
        &[
            "namespace=shop service=web",
            "external_workload=vm-1 zone= zone_locality=unknown",
            "external_workload=vm-0 job=vms zone=a zone_locality=local",
        ],
    );
    let kinds = frames(&translation(), None, &world.view("shop/web", 80));
    let addr = &only_add(&kinds).addrs[1];
    let tls = addr.tls_identity.as_ref().unwrap();
    match tls.strategy.as_ref().unwrap() {
        Strategy::UriLikeIdentity(identity) => assert_eq!(identity.uri, "spiffe://root/vm-0"),
        other @ Strategy::DnsLikeIdentity(_) => panic!("{other:?}"),
    }
    assert_eq!(tls.server_name.as_ref().unwrap().name, "vm-0.external");
    assert!(addr.http2.is_some() && addr.authority_override.is_none());
}

#[test]
fn what_clients_cannot_see_is_not_sent_to_them() {
    let lists = |zone: &str| {
        slice("web")
            .endpoint("10.0.0.9")
            .zone(zone)
            .endpoint("10.0.0.1")
            .pod("shop/web-0")
            .zone(zone)
    };
    let mut world = world([lists("a")]);
    let before = world.view("shop/web", 80);
    world.say([home().apply(lists("b"))]);
    let after = world.view("shop/web", 80);
    assert_eq!(diff(Some(&before), &after).add.len(), 2);
    let kinds = frames(&translation(), Some(&before), &after);
    check(&kinds, "add 1");
    check(&frames(&translation(), None, &after), "add 2");
}
