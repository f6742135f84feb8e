//! Hints: for all or for none.

use super::*;

fn hinted(mode: Hints, zones: [&str; 2]) -> Scene {
    let endpoint = |slice: SliceBuilder, ip: &str, zone: &str| {
        let slice = slice.endpoint(ip);
        let slice = if zone.is_empty() {
            slice
        } else {
            slice.zone(zone).for_zones(&[zone])
        };
        slice.endpoint(&ip.replace(".0.1", ".0.9")).not_ready()
    };
    let mut scene = Scene::federated(&[
        (HOME, &[endpoint(web("web-h"), "10.1.0.1", zones[0])]),
        ("west", &[endpoint(web("web-w"), "10.9.0.1", zones[1])]),
    ]);
    scene.settings.hints = mode;
    scene
}

#[test]
fn hints_are_given_to_every_ready_endpoint_or_to_none() {
    for (mode, remote) in [
        (Hints::Zone, "zb"),
        (Hints::Copy, "zb"),
        (Hints::LocalFirst, "west"),
    ] {
        check(
            hinted(mode, ["za", "zb"]),
            "shop/web-federated",
            &format!(
                "+ web-h@home http=8080 | 10.1.0.1 zone:za for:[\"za\"], 10.1.0.9 unready
                 + web-w@west http=8080 | 10.9.0.1 zone:zb for:[\"{remote}\"], 10.9.0.9 unready"
            ),
        );
    }
    for mode in [Hints::Zone, Hints::Copy] {
        let scene = hinted(mode, ["za", ""]);
        assert!(!scene.plan("shop/web-federated").hints_possible);
        check(
            scene,
            "shop/web-federated",
            "+ web-h@home http=8080 | 10.1.0.1 zone:za, 10.1.0.9 unready
             + web-w@west http=8080 | 10.9.0.1, 10.9.0.9 unready",
        );
    }
    assert!(
        hinted(Hints::LocalFirst, ["za", ""])
            .plan("shop/web-federated")
            .hints_possible
    );
    assert!(
        !hinted(Hints::LocalFirst, ["", "zb"])
            .plan("shop/web-federated")
            .hints_possible
    );
}

#[test]
fn hints_can_be_suspended_and_a_lost_zone_turns_all_of_them_off() {
    let mut scene = hinted(Hints::Zone, ["za", "zb"]);
    scene.moment.hints_suspended = true;
    let plan = scene.plan("shop/web-federated");
    assert!(
        plan.hints_possible && !describe(&plan).contains("for:"),
        "{}",
        describe(&plan)
    );
    scene.moment.hints_suspended = false;
    scene.settle("shop/web-federated");
    scene.say([cluster("west").apply(web("web-w").endpoint("10.9.0.1"))]);
    check(
        scene,
        "shop/web-federated",
        "+ web-h@home http=8080 | 10.1.0.1 zone:za, 10.1.0.9 unready
         ~ web-w@west http=8080 | 10.9.0.1",
    );
}

#[test]
fn copies_of_a_cluster_that_is_not_known_count_for_hints_as_they_are() {
    let mut scene = hinted(Hints::Zone, ["za", "zb"]);
    scene.settle("shop/web-federated");
    let mut restarted = restart(&scene);
    restarted.settings.hints = Hints::Zone;
    assert_eq!(restarted.settle("shop/web-federated"), "");
    restarted.edit(|content| {
        if cluster_of(content).as_str() == "west" {
            content.endpoints[0].hints.clear();
        }
    });
    assert_eq!(
        restarted.settle("shop/web-federated"),
        "+ web-h@home http=8080 | 10.1.0.1 zone:za, 10.1.0.9 unready"
    );
}

#[test]
fn whoever_is_marked_as_out_of_contact_needs_no_hint() {
    let mut scene = hinted(Hints::Zone, ["za", ""]);
    assert!(!scene.plan("shop/web-federated").hints_possible);
    let stale = Standing {
        stale: OnStale::NotReady,
        ..Standing::default()
    };
    scene.clusters.insert("west".into(), stale);
    check(
        scene,
        "shop/web-federated",
        "+ web-h@home http=8080 | 10.1.0.1 zone:za for:[\"za\"], 10.1.0.9 unready
         + web-w@west http=8080 | 10.9.0.1 unready, 10.9.0.9 unready",
    );
}
