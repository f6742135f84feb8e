use super::*;
use crate::index::{Change, ClientLocality, View};
use crate::testing::{World, cluster, home, pod, service, slice};

/// Checks that an explanation has every endpoint of every slice once, and keeps exactly those of the answer.
pub(in crate::index) fn check_agreement(
    snapshot: &ServiceSnapshot,
    key: &ViewKey,
    policy: &SelectPolicy,
    view: &View,
) {
    let mut kept = Vec::new();
    for explained in explain(snapshot, key, policy) {
        for slice in &explained.slices {
            let listed = slice.chunk.facts.endpoints.len();
            assert!(slice.candidates.len() == listed || slice.port.is_none());
            for candidate in &slice.candidates {
                match candidate.excluded {
                    None => kept.push(candidate.endpoint.socket),
                    Some(why) => assert!(explained.rules.contains(&why.rule()), "{why:?}"),
                }
            }
        }
    }
    kept.sort_unstable();
    let told = view.endpoints.iter().map(|endpoint| endpoint.socket);
    assert_eq!(kept, told.collect::<Vec<_>>());
}

/// Members, slices and endpoints of `shop/web`, port 80, in short.
fn check(world: &World, expected: &[&str]) {
    let snapshot = world.snapshot("shop/web");
    let key = ViewKey::new(&snapshot, 80, None, &ClientLocality::default());
    let mut lines = Vec::new();
    for member in explain(&snapshot, &key, &world.policy) {
        let cluster = &member.member.cluster.name;
        match member.silence {
            Some(silence) => lines.push(format!("{cluster}: {silence:?}")),
            None => lines.push(cluster.to_string()),
        }
        for slice in &member.slices {
            lines.push(format!("  {} {:?}", slice.chunk.name, slice.port));
            for candidate in &slice.candidates {
                let socket = candidate.endpoint.socket;
                let became = match candidate.excluded {
                    None => "kept".to_owned(),
                    Some(why) => why.rule().as_str().to_owned(),
                };
                lines.push(format!("    {socket} {became}"));
            }
        }
    }
    assert_eq!(lines, expected);
}

#[test]
fn every_member_slice_and_endpoint_is_accounted_for() {
    let mut world = World::default();
    let federated = service("shop/web")
        .port(80, "http")
        .federated("web-here", "web@east,web@west,web@nowhere");
    world.say(
        home().begins_with([
            federated.object(),
            service("shop/web-here").port(80, "http").object(),
            slice("a")
                .of("shop/web-here")
                .endpoint("10.0.0.1")
                .endpoint("10.0.0.2")
                .not_ready()
                .object(),
            slice("b")
                .of("shop/web-here")
                .port(9, "other")
                .endpoint("10.0.0.3")
                .object(),
        ]),
    );
    world.say(
        cluster("east").begins_with([
            service("shop/web").port(80, "http").object(),
            pod("shop/web-1").ip("10.1.0.1").object(),
            slice("e")
                .in_cluster("east")
                .endpoint("10.1.0.1")
                .pod("shop/web-1")
                .endpoint("10.1.0.2")
                .pod("shop/web-2")
                .endpoint("10.0.0.1")
                .object(),
        ]),
    );
    world.say([cluster("west").linked(), Change::LinksKnown]);
    check(
        &world,
        &[
            "home",
            "  a Some(8080)",
            "    10.0.0.1:8080 kept",
            "    10.0.0.2:8080 ready",
            "  b None",
            "east",
            "  e Some(8080)",
            "    10.0.0.1:8080 unique",
            "    10.1.0.1:8080 kept",
            "    10.1.0.2:8080 workload",
            "nowhere: NotLinked",
            "west: Syncing",
        ],
    );
}
