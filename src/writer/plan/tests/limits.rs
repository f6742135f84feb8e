//! What a cluster may not say.

use super::*;

#[test]
fn addresses_that_are_no_pods_of_that_cluster_are_left_out() {
    let slice = web("web-1")
        .endpoint("10.9.0.1")
        .endpoint("10.1.0.1")
        .endpoint("10.2.0.1")
        .endpoint("127.0.0.1")
        .endpoint("169.254.169.254")
        .endpoint("224.1.1.1")
        .endpoint("255.255.255.255")
        .endpoint("192.168.0.1");
    let mut scene = Scene::mirror([slice]);
    scene.home_addresses.0.insert("10.1.0.1".parse().unwrap());
    scene.settings.home_ranges = ["10.2.0.0/16".parse().unwrap()].into();
    scene
        .settings
        .pod_ranges
        .insert("east".into(), vec!["10.0.0.0/8".parse().unwrap()]);
    let plan = scene.plan("shop/web-east");
    assert_eq!(
        reports(&plan),
        "Rejected(\"east\", Range, 1, 192.168.0.1)\nRejected(\"east\", Home, 2, 10.1.0.1)\nRejected(\"east\", NoPod, 4, 127.0.0.1)"
    );
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn a_cluster_that_says_too_much_stays_as_it_is() {
    let mut scene = Scene::mirror([
        one(),
        web("web-2").endpoint("10.9.0.2").endpoint("10.9.0.3"),
    ]);
    scene.settle("shop/web-east");
    let full = Standing {
        room: 3,
        ..Standing::default()
    };
    scene.clusters.insert("east".into(), full);
    scene.say([
        cluster("east").apply(one().endpoint("10.9.0.4")),
        cluster("east").apply(web("web-2").endpoint("10.9.0.2")),
        cluster("east").apply(web("web-3").endpoint("10.9.0.5")),
    ]);
    assert!(reports(&scene.plan("shop/web-east")).contains("Full(\"east\")"));
    check(scene, "shop/web-east", "~ web-2@east http=8080 | 10.9.0.2");
}

#[test]
fn slices_of_host_names_are_not_copied_and_are_told() {
    let scene = Scene::mirror([one(), web("web-2").of_host_names()]);
    let plan = scene.plan("shop/web-east");
    assert_eq!(reports(&plan), "SliceSkipped(\"east\", Fqdn, \"web-2\")");
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn endpoints_that_were_refused_are_left_out_until_their_slice_changes() {
    let source = || one().endpoint("10.9.0.2");
    let mut scene = Scene::mirror([]);
    scene.say([cluster("east").apply(source().object_of("slice-1", 4))]);
    let all = scene.plan("shop/web-east");
    let name = all.copied[0].copy.clone();
    let refused = Refused {
        source: ("slice-1".into(), 4),
        addresses: ["10.9.0.2".parse().unwrap()].into(),
    };
    scene.moment.refused.insert(name.clone(), refused);
    let plan = scene.plan("shop/web-east");
    let left_out: Vec<_> = plan
        .left_out
        .iter()
        .map(|left_out| {
            format!(
                "{} {} {:?}",
                left_out.slice, left_out.address, left_out.reason
            )
        })
        .collect();
    assert_eq!(left_out, ["shop/web-1 10.9.0.2 Refused"]);
    let mut scene = check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
    scene.say([cluster("east").apply(source().object_of("slice-1", 5))]);
    check(
        scene,
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1, 10.9.0.2",
    );
}

#[test]
fn gke_is_warned_of() {
    let mut scene = Scene::mirror([one()]);
    let annotated = web_east().mirror("uid-1", |details| details.has_neg = true);
    scene.say([home().apply(annotated)]);
    assert_eq!(reports(&scene.plan("shop/web-east")), "Neg");
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}
