use super::MemberState;
use crate::index::Change;
use crate::testing::{World, cluster, describe, home, service, slice};

/// Members of `shop/web`, whether that is all there is, and what a client is told.
fn check(world: &World, members: &str, complete: bool, view: &str) {
    let snapshot = world.snapshot("shop/web");
    let texts: Vec<String> = snapshot
        .members
        .iter()
        .map(|member| {
            let state = match member.state {
                MemberState::Synced => "",
                MemberState::Syncing => "?",
                MemberState::NotLinked => "!",
            };
            format!("{}@{}{state}", member.service.name, member.cluster.name)
        })
        .collect();
    assert_eq!(texts.join(" "), members);
    assert_eq!(snapshot.is_complete(), complete);
    assert_eq!(describe(&world.view("shop/web", 80)), view);
}

fn federated() -> World {
    let mut world = World::default();
    world.say(
        home().begins_with([
            service("shop/web")
                .federated("local", "web@west,web@east")
                .object(),
            service("shop/local").object(),
            slice("l").of("shop/local").endpoint("10.0.0.1").object(),
        ]),
    );
    world
}

fn remote(name: &str, session: u64, address: &str) -> Vec<Change> {
    let slice = slice("web").endpoint(address).object();
    cluster(name)
        .session(session)
        .begins_with([service("shop/web").object(), slice])
}

#[test]
fn nothing_is_known_before_the_home_cluster_is() {
    let mut world = World::default();
    world.say([
        home().opened(),
        home().apply(service("shop/web").mirrors("web@east")),
    ]);
    world.say(remote("east", 1, "10.1.0.1"));
    check(&world, "", false, "-");
    assert_eq!(world.touched_services(), "");
    world.say(
        home()
            .session(2)
            .begins_with([service("shop/web").mirrors("web@east").object()]),
    );
    check(&world, "web@east", true, "10.1.0.1:80@east");
    assert_eq!(world.touched_services(), "shop/web");
}

#[test]
fn members_come_and_go_with_their_clusters() {
    let mut world = federated();
    check(
        &world,
        "local@home web@east? web@west?",
        false,
        "10.0.0.1:80",
    );
    world.say([cluster("east").linked(), Change::LinksKnown]);
    check(
        &world,
        "local@home web@east? web@west!",
        false,
        "10.0.0.1:80",
    );
    world.say(remote("east", 1, "10.1.0.1"));
    check(
        &world,
        "local@home web@east web@west!",
        true,
        "10.0.0.1:80, 10.1.0.1:80@east",
    );
    world.say([cluster("west").linked()]);
    assert_eq!(world.touched_services(), "shop/web");
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.1.0.1:80@east",
    );
    world.say([cluster("east").unlinked(), cluster("west").unlinked()]);
    check(
        &world,
        "local@home web@east! web@west!",
        true,
        "10.0.0.1:80",
    );
}

#[test]
fn a_new_session_takes_over_at_once_when_it_is_synced() {
    let mut world = federated();
    world.say(remote("east", 1, "10.1.0.1"));
    let mut second = remote("east", 2, "10.2.0.1");
    let last = second.pop().unwrap();
    world.say(second);
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.1.0.1:80@east",
    );
    world.say([cluster("east").apply(slice("web").endpoint("10.1.0.2"))]);
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.1.0.2:80@east",
    );
    world.say([last]);
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.2.0.1:80@east",
    );
    world.say([cluster("east").apply(slice("web").endpoint("10.1.0.3"))]);
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.2.0.1:80@east",
    );
    assert_eq!(world.touched_services(), "");
}

#[test]
fn a_cluster_that_is_unlinked_while_a_session_is_pending_leaves_nothing() {
    let mut world = federated();
    world.say(remote("east", 1, "10.1.0.1"));
    world.say([
        cluster("east").session(2).opened(),
        cluster("east").unlinked(),
    ]);
    world.say(
        cluster("east")
            .session(2)
            .synced([service("shop/web").object()]),
    );
    check(
        &world,
        "local@home web@east? web@west?",
        false,
        "10.0.0.1:80",
    );
    world.say([
        cluster("east").session(3).opened(),
        cluster("east").linked(),
    ]);
    world.say(remote("east", 4, "10.4.0.1"));
    check(
        &world,
        "local@home web@east web@west?",
        false,
        "10.0.0.1:80, 10.4.0.1:80@east",
    );
}

#[test]
fn memberships_follow_the_home_session() {
    let mut world = federated();
    world.say(remote("east", 1, "10.1.0.1"));
    world.say(home().session(2).begins_with([
        service("shop/web").object(),
        service("shop/api").mirrors("web@east").object(),
    ]));
    check(&world, "web@home", true, "-");
    assert_eq!(world.touched_services(), "shop/api shop/local shop/web");
    world.say([cluster("east").apply(slice("web").endpoint("10.1.0.2"))]);
    assert_eq!(world.touched_services(), "shop/api");
    world.say([home()
        .session(2)
        .apply(service("shop/web").federated("", "web@east"))]);
    world.say([cluster("east").apply(slice("web").endpoint("10.1.0.3"))]);
    assert_eq!(world.touched_services(), "shop/api shop/web");
    check(&world, "web@east", true, "10.1.0.3:80@east");
}

#[test]
fn a_local_member_touches_the_union() {
    let mut world = federated();
    world.say([home().apply(slice("l").of("shop/local").endpoint("10.0.0.2"))]);
    assert_eq!(world.touched_services(), "shop/local shop/web");
}

#[test]
fn members_that_are_external_names_or_missing_contribute_nothing() {
    let mut world = federated();
    world.say([home().apply(service("shop/local").external_name())]);
    check(&world, "local@home web@east? web@west?", false, "-");
    world.say([home().delete(service("shop/local"))]);
    check(&world, "local@home web@east? web@west?", false, "-");
}
