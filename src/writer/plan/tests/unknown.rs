//! Clusters that are not known, not linked, out of contact, or others than before.

use super::*;

#[test]
fn nothing_is_done_before_the_home_cluster_is_read() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    let mut restarted = Scene::empty();
    restarted.copies.clone_from(&scene.copies);
    assert_eq!(restarted.settle("shop/web-east"), "");
}

#[test]
fn a_cluster_that_is_not_read_yet_keeps_its_copies() {
    let mut scene = Scene::federated(&[
        (HOME, &[web("web-h").endpoint("10.1.0.1")]),
        ("west", &[one()]),
    ]);
    scene.settle("shop/web-federated");
    for linked in [false, true] {
        let mut restarted = restart(&scene);
        if linked {
            restarted.say([
                cluster("west").linked(),
                cluster("west").opened(),
                Change::LinksKnown,
            ]);
        }
        // The home cluster's part goes on.
        let done = restarted.settle("shop/web-federated");
        assert!(
            done.starts_with("+ web-h@home") && !done.contains("west"),
            "{done}"
        );
        assert!(restarted.addresses().contains("10.9.0.1"));
    }
}

#[test]
fn a_cluster_that_is_read_and_has_nothing_loses_its_copies() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    let service = service("shop/web").port(80, "http-main").object();
    scene.say(cluster("east").session(2).begins_with([service]));
    check(scene, "shop/web-east", "- web-east-east");

    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.say([cluster("east").delete(service_web())]);
    check(scene, "shop/web-east", "- web-east-east");
}

#[test]
fn an_unlinked_cluster_keeps_its_copies_for_the_grace_and_no_longer() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.say([cluster("east").unlinked()]);
    assert_eq!(scene.settle("shop/web-east"), "");
    let gone = Standing {
        is_gone: true,
        ..Standing::default()
    };
    scene.clusters.insert("east".into(), gone);
    check(scene, "shop/web-east", "- web-east-east");
}

#[test]
fn a_cluster_out_of_contact_is_marked_or_removed_if_asked_for_and_others_are_left() {
    let stale = |policy: OnStale, others: &[SliceBuilder]| {
        let mut scene = Scene::federated(&[(HOME, others), ("west", &[one()])]);
        scene.settle("shop/web-federated");
        let standing = Standing {
            stale: policy,
            ..Standing::default()
        };
        scene.clusters.insert("west".into(), standing);
        scene.settle("shop/web-federated")
    };
    let others = [web("web-h").endpoint("10.1.0.1")];
    assert_eq!(stale(OnStale::Keep, &others), "");
    assert_eq!(
        stale(OnStale::NotReady, &others),
        "~ web-1@west http=8080 | 10.9.0.1 unready"
    );
    assert_eq!(stale(OnStale::Remove, &others), "- web-federated-west");
    // Nobody would be left.
    assert_eq!(stale(OnStale::Remove, &[]), "");
    assert_eq!(
        stale(
            OnStale::NotReady,
            &[web("web-h").endpoint("10.1.0.1").not_ready()]
        ),
        ""
    );
}

/// East is the cluster with this uid, and has these slices.
fn east_with_uid(
    session: u64,
    uid: &str,
    slices: impl IntoIterator<Item = SliceBuilder>,
) -> Vec<Change> {
    let mut objects = with_web(slices);
    let tells_apart =
        service("default/kubernetes").mirror(uid, |details| details.is_mirror = false);
    objects.push(tells_apart.object());
    cluster("east").session(session).begins_with(objects)
}

fn judged(uid: &str, judgement: Judgement) -> Standing {
    Standing {
        judged: Some((uid.into(), judgement)),
        ..Standing::default()
    }
}

#[test]
fn a_cluster_that_has_become_another_takes_nothing_away_until_it_is_believed() {
    let mut scene = Scene::mirror([]);
    let two = || web("web-2").endpoint("10.9.0.2");
    scene.say(east_with_uid(2, "cluster-1", [one(), two()]));
    scene.settle("shop/web-east");
    // The very snapshot that lacks a slice says that it is another cluster: there is no moment between.
    scene.say(east_with_uid(
        3,
        "cluster-2",
        [two(), web("web-3").endpoint("10.9.0.3")],
    ));
    let east = ClusterName::from("east");
    for standing in [
        Standing::default(),
        judged("cluster-1", Judgement::Believed),
    ] {
        scene.clusters.insert(east.clone(), standing);
        let plan = scene.plan("shop/web-east");
        assert_eq!(describe(&plan), "+ web-3@east http=8080 | 10.9.0.3");
        assert_eq!(reports(&plan), "Doubted(\"east\")");
        assert_eq!(plan.unjudged[&east], Uid::from("cluster-2"));
        assert_eq!(
            (plan.tallies[&east].before, plan.tallies[&east].lost),
            (2, 1)
        );
    }
    scene
        .clusters
        .insert(east.clone(), judged("cluster-2", Judgement::Doubted));
    assert!(scene.plan("shop/web-east").unjudged.is_empty());
    assert_eq!(
        scene.settle("shop/web-east"),
        "+ web-3@east http=8080 | 10.9.0.3"
    );
    scene
        .clusters
        .insert(east.clone(), judged("cluster-2", Judgement::Believed));
    assert_eq!(
        scene.settle("shop/web-east"),
        "+ web-2@east http=8080 | 10.9.0.2\n- web-east-east"
    );
    let plan = scene.plan("shop/web-east");
    assert!(
        !plan.tallies[&east].is_other_cluster,
        "the copies say so now"
    );
}
