//! Repairs, names, and the order of things.

use super::*;

#[test]
fn what_strangers_change_is_put_right() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.edit(|content| content.endpoints[0].address = "10.6.6.6".parse().unwrap());
    assert_eq!(
        scene.settle("shop/web-east"),
        "~ web-1@east http=8080 | 10.9.0.1"
    );
    for copy in scene.copies.values_mut() {
        copy.content = None;
    }
    assert_eq!(
        scene.settle("shop/web-east"),
        "~ web-1@east http=8080 | 10.9.0.1"
    );
    for copy in scene.copies.values_mut() {
        copy.owners.clear();
    }
    assert_eq!(
        scene.settle("shop/web-east"),
        "+ web-1@east http=8080 | 10.9.0.1"
    );
    scene.copies.clear();
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn a_name_that_a_stranger_has_is_left_to_him() {
    let mut scene = Scene::mirror([one()]);
    let plan = scene.plan("shop/web-east");
    let [Action::Apply { copy, .. }] = &plan.units[&ClusterName::from("east")][..] else {
        panic!("{plan:?}");
    };
    scene.moment.taken.insert(copy.name.clone());
    let taken = copy.name.clone();
    scene.settle("shop/web-east");
    assert!(!scene.copies.contains_key(&taken));
    assert_eq!(scene.copies.len(), 1);
}

#[test]
fn an_endpoint_that_moves_between_slices_is_added_before_it_is_removed() {
    let mut scene = Scene::mirror([
        web("web-1").endpoint("10.9.0.1").endpoint("10.9.0.2"),
        web("web-2"),
    ]);
    scene.settle("shop/web-east");
    scene.say([
        cluster("east").apply(one()),
        cluster("east").apply(web("web-2").endpoint("10.9.0.2")),
    ]);
    check(
        scene,
        "shop/web-east",
        "+ web-2@east http=8080 | 10.9.0.2\n~ web-1@east http=8080 | 10.9.0.1",
    );
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    scene.say([
        cluster("east").delete(one()),
        cluster("east").apply(web("web-2").endpoint("10.9.0.1")),
    ]);
    check(
        scene,
        "shop/web-east",
        "+ web-2@east http=8080 | 10.9.0.1\n- web-east-east",
    );
}

#[test]
fn only_loss_is_urgent() {
    let mut scene = Scene::mirror([one()]);
    assert!(!scene.plan("shop/web-east").is_urgent);
    scene.settle("shop/web-east");
    let changed = |scene: &mut Scene, slice: SliceBuilder| {
        scene.say([cluster("east").apply(slice)]);
        scene.plan("shop/web-east").is_urgent
    };
    assert!(!changed(&mut scene, one().endpoint("10.9.0.2")));
    assert!(changed(&mut scene, one().not_ready()));
    assert!(changed(&mut scene, web("web-1")));
    assert!(!changed(&mut scene, one().zone("zb")));
}

#[test]
fn an_older_state_of_a_slice_is_not_written_over_a_later_one() {
    let mut scene = Scene::mirror([one().object_of("slice-1", 7)]);
    scene.settle("shop/web-east");
    scene.say([cluster("east").apply(one().object_of("slice-1", 6).endpoint("10.9.0.9"))]);
    assert_eq!(scene.settle("shop/web-east"), "");
    scene.say([cluster("east").apply(one().object_of("slice-2", 1).endpoint("10.9.0.9"))]);
    check(
        scene,
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1, 10.9.0.9",
    );
}

#[test]
fn a_copy_that_is_going_is_waited_for() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    for copy in scene.copies.values_mut() {
        copy.is_going = true;
    }
    assert_eq!(scene.settle("shop/web-east"), "");
    scene.copies.clear();
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}
