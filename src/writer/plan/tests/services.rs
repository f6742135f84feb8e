//! Which Services get copies.

use super::*;

#[test]
fn a_member_that_leaves_loses_its_copies_at_once() {
    let mut scene = Scene::federated(&[
        ("east", &[one()]),
        ("west", &[web("web-2").endpoint("10.8.0.1")]),
    ]);
    scene.settle("shop/web-federated");
    scene.say([home().apply(web_federated(&[("west", &[])]))]);
    check(scene, "shop/web-federated", "- web-federated-east");
}

#[test]
fn a_service_that_is_not_eligible_any_more_loses_its_copies() {
    let cases: [(&str, ServiceBuilder); 5] = [
        (
            "label lost",
            service("shop/web-east")
                .port(80, "http")
                .mirrors("web@east"),
        ),
        (
            "gateway mirror",
            service("shop/web-east")
                .port(80, "http")
                .mirror("uid-1", |_| {}),
        ),
        (
            "selector",
            web_east().mirror("uid-1", |details| details.has_selector = true),
        ),
        (
            "exported",
            web_east().mirror("uid-1", |details| details.is_exported = true),
        ),
        (
            "opted out",
            web_east().mirror("uid-1", |details| {
                details.endpoint_slices = Some("disabled".into());
            }),
        ),
    ];
    for (what, changed) in cases {
        let mut scene = Scene::mirror([one()]);
        scene.settle("shop/web-east");
        scene.say([home().apply(changed)]);
        assert_eq!(scene.settle("shop/web-east"), "- web-east-east", "{what}");
    }
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.say([home().delete(web_east())]);
    check(scene, "shop/web-east", "- web-east-east");
}

#[test]
fn a_service_that_is_being_deleted_is_left_to_the_garbage_collector() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.copies.clear();
    let going = web_east().mirror("uid-1", |details| details.is_going = true);
    scene.say([home().apply(going)]);
    check(scene, "shop/web-east", "");
}

#[test]
fn a_service_made_anew_takes_its_copies_over() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.say([home().apply(web_east().mirror("uid-2", |_| {}))]);
    let scene = check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
    assert_eq!(
        scene.copies.values().next().unwrap().owners,
        [Uid::from("uid-2")]
    );
}

#[test]
fn selection_is_by_annotation_namespace_and_label() {
    let annotated = |scene: &mut Scene| scene.settings.select = Select::Annotated;
    let mut scene = Scene::mirror([one()]);
    annotated(&mut scene);
    assert_eq!(scene.settle("shop/web-east"), "");
    let enabled = web_east().mirror("uid-1", |details| {
        details.endpoint_slices = Some("enabled".into());
    });
    scene.say([home().apply(enabled)]);
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");

    let mut scene = Scene::mirror([one()]);
    scene.settings.namespaces = ["other".into()].into();
    check(scene, "shop/web-east", "");
}

/// Who sees the only copy.
fn audience(scene: &Scene) -> Audience {
    let copy = scene.copies.values().next().unwrap();
    match copy.content.as_ref().unwrap().origin {
        Origin::Cluster { audience, .. } => audience,
        Origin::Workloads { .. } => panic!("no copy: {copy:?}"),
    }
}

#[test]
fn the_audience_may_be_chosen_by_annotation() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    assert_eq!(audience(&scene), Audience::Gateways);
    let everyone = web_east().mirror("uid-1", |details| {
        details.audience = Some("everyone".into());
    });
    scene.say([home().apply(everyone)]);
    let scene = check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
    assert_eq!(audience(&scene), Audience::Everyone);
}

#[test]
fn slices_of_others_stop_the_writer_and_make_it_yield_in_the_end() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    let stray = slice("web-east-abc")
        .of("shop/web-east")
        .managed_by("endpointslice-controller.k8s.io")
        .endpoint("10.1.0.1");
    scene.say([
        home().apply(stray.clone()),
        cluster("east").apply(web("web-1").endpoint("10.9.0.7")),
    ]);
    let plan = scene.plan("shop/web-east");
    assert!(plan.is_empty() && plan.waits_for_others);
    assert_eq!(
        reports(&plan),
        "ForeignSlices([(\"web-east-abc\", \"endpointslice-controller.k8s.io\")])"
    );
    scene.moment.yield_to_others = true;
    assert_eq!(scene.settle("shop/web-east"), "- web-east-east");
    scene.say([home().delete(stray)]);
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.7");
}

#[test]
fn a_copy_that_lost_its_label_is_no_strangers_slice() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    let name = scene.copies.keys().next().unwrap().name.clone();
    scene.copies.clear();
    let lost = |manager: &str| {
        let slice = slice(&name).of("shop/web-east").endpoint("10.9.0.1");
        home().apply(slice.managed_by(manager))
    };
    scene.say([lost("somebody.example")]);
    assert!(scene.plan("shop/web-east").waits_for_others);
    scene.say([lost("")]);
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn a_federated_service_without_remote_members_keeps_its_home_member() {
    let mut scene = Scene::empty();
    let mut objects = with_web([web("web-h").endpoint("10.1.0.1")]);
    objects.push(
        service("shop/web-federated")
            .port(80, "http")
            .federated("web", "")
            .mirror("uid-1", |_| {})
            .into(),
    );
    scene.say(home().begins_with(objects));
    check(
        scene,
        "shop/web-federated",
        "+ web-h@home http=8080 | 10.1.0.1",
    );
}
