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
