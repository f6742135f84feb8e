//! Nothing is counted twice.

use super::*;

#[test]
fn of_two_clusters_with_one_address_the_first_is_written() {
    let mut scene = Scene::federated(&[
        (HOME, &[web("web-h").endpoint("10.9.0.1")]),
        (
            "east",
            &[web("web-e").endpoint("10.9.0.1").endpoint("10.9.0.2")],
        ),
        (
            "west",
            &[web("web-w").endpoint("10.9.0.2").endpoint("10.9.0.3")],
        ),
    ]);
    let plan = scene.plan("shop/web-federated");
    assert!(
        reports(&plan).contains("Rejected(\"east\", Overlap, 1, 10.9.0.1)"),
        "{}",
        reports(&plan)
    );
    assert_eq!(
        scene.settle("shop/web-federated"),
        "+ web-e@east http=8080 | 10.9.0.2\n+ web-h@home http=8080 | 10.9.0.1\n+ web-w@west http=8080 | 10.9.0.3"
    );
}

#[test]
fn one_address_in_two_slices_of_a_cluster_is_no_conflict() {
    check(
        Scene::mirror([one(), web("web-2").endpoint("10.9.0.1")]),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1\n+ web-2@east http=8080 | 10.9.0.1",
    );
}

#[test]
fn copies_are_not_copied_whoever_made_them() {
    for slice in [
        one().managed_by("endpointslice-mesh-controller.cilium.io"),
        one().managed_by("lighthouse-agent.submariner.io"),
        one().imported(),
    ] {
        let scene = Scene::mirror([slice]);
        assert!(reports(&scene.plan("shop/web-east")).contains("Import"));
        check(scene, "shop/web-east", "");
    }
    let mut scene = Scene::mirror([one()]);
    scene.say([cluster("east").apply(service_web().mirror("uid-9", |_| {}))]);
    assert_eq!(reports(&scene.plan("shop/web-east")), "Loop(\"east\")");
    check(scene, "shop/web-east", "");
}

#[test]
fn a_cluster_linked_twice_counts_once() {
    let mut scene = Scene::federated(&[("east", &[one()]), ("east-too", &[one()])]);
    let twin = Standing {
        twin_of: Some("east".into()),
        ..Standing::default()
    };
    scene.clusters.insert("east-too".into(), twin);
    assert!(reports(&scene.plan("shop/web-federated")).contains("Twin(\"east-too\", \"east\")"));
    check(
        scene,
        "shop/web-federated",
        "+ web-1@east http=8080 | 10.9.0.1",
    );
}
