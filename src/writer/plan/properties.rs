//! Whatever is known and whatever is there: one plan is enough, and it does what it says.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::tests::Scene;
use super::{Action, Standing};
use crate::index::{Change, Object};
use crate::model::ClusterName;
use crate::model::copying::{Hints, Hostnames, OnStale, Zones};
use crate::testing::{SliceBuilder, cluster, home, service, slice};

const CLUSTERS: [&str; 3] = ["home", "east", "west"];
const SERVICE: &str = "shop/web-federated";

#[derive(Clone, Debug)]
struct EndpointSpec {
    ip: u8,
    conditions: (bool, bool, bool),
    zone: Option<&'static str>,
    hostname: Option<&'static str>,
    pod: bool,
}

#[derive(Clone, Debug)]
struct MemberSpec {
    synced: bool,
    slices: Vec<(u8, &'static str, Vec<EndpointSpec>)>,
}

#[derive(Clone, Debug)]
struct WorldSpec {
    members: Vec<MemberSpec>,
    mirror: bool,
    foreign: bool,
}

fn endpoint() -> impl Strategy<Value = EndpointSpec> {
    (
        0_u8..6,
        any::<(bool, bool, bool)>(),
        select(vec![
            None,
            Some("za"),
            Some("zb"),
            Some("odd zone"),
            Some(""),
        ]),
        select(vec![None, Some("web-0"), Some("Bad")]),
        any::<bool>(),
    )
        .prop_map(|(ip, conditions, zone, hostname, pod)| EndpointSpec {
            ip,
            conditions,
            zone,
            hostname,
            pod,
        })
}

fn member() -> impl Strategy<Value = MemberSpec> {
    let slice = (
        0_u8..4,
        select(vec!["http-main", "other"]),
        prop::collection::vec(endpoint(), 0..4),
    );
    (
        prop::bool::weighted(0.8),
        prop::collection::vec(slice, 0..4),
    )
        .prop_map(|(synced, slices)| MemberSpec { synced, slices })
}

fn world() -> impl Strategy<Value = WorldSpec> {
    (
        prop::collection::vec(member(), 3),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(members, mirror, foreign)| WorldSpec {
            members,
            mirror,
            foreign,
        })
}

fn objects(spec: &MemberSpec) -> Vec<Object> {
    let mut objects = vec![service("shop/web").port(80, "http-main").object()];
    for (number, port, endpoints) in &spec.slices {
        let mut built: SliceBuilder = slice(&format!("web-{number}"))
            .of("shop/web")
            .port(8080, port);
        for spec in endpoints {
            built = built.endpoint(&format!("10.9.0.{}", spec.ip + 1));
            let (ready, serving, terminating) = spec.conditions;
            built = built.conditions(ready, serving, terminating);
            if let Some(zone) = spec.zone {
                built = built.zone(zone);
            }
            if let Some(hostname) = spec.hostname {
                built = built.hostname(hostname);
            }
            if spec.pod {
                built = built.pod("shop/web-0");
            }
        }
        objects.push(built.object());
    }
    objects
}

/// Everything is said anew, as after a restart; the copies stay.
fn restart(scene: &mut Scene, spec: &WorldSpec) {
    scene.world = crate::testing::World::default();
    let federated = service(SERVICE)
        .port(80, "http")
        .federated("web", "web@east,web@west");
    let federated = if spec.mirror {
        federated.mirror("uid-1", |_| {})
    } else {
        federated
    };
    let mut at_home = objects(&spec.members[0]);
    at_home.push(federated.into());
    if spec.foreign {
        at_home.push(slice("stranger").of(SERVICE).endpoint("10.1.1.1").object());
    }
    scene.say(home().begins_with(at_home));
    scene.say([Change::LinksKnown]);
    for (name, member) in CLUSTERS.iter().zip(&spec.members).skip(1) {
        scene.say([cluster(name).linked(), cluster(name).opened()]);
        if member.synced {
            scene.say(cluster(name).synced(objects(member)));
        }
    }
}

fn addresses_of(scene: &Scene, name: &str) -> BTreeSet<String> {
    let copies = scene.copies.values();
    copies
        .filter(|copy| copy.cluster.as_str() == name)
        .filter_map(|copy| copy.content.as_ref())
        .flat_map(|content| &content.endpoints)
        .map(|endpoint| endpoint.address.to_string())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn one_plan_is_enough_and_leaves_unknown_clusters_alone(
        worlds in prop::collection::vec(world(), 1..4),
        hints in select(vec![Hints::Off, Hints::Copy, Hints::Zone, Hints::LocalFirst]),
        hostnames in select(vec![Hostnames::Auto, Hostnames::Keep, Hostnames::Drop, Hostnames::Suffix]),
        zones in select(vec![Zones::Keep, Zones::Prefix, Zones::Cluster, Zones::Drop]),
        stale in select(vec![OnStale::Keep, OnStale::NotReady, OnStale::Remove]),
        stock in any::<bool>(),
    ) {
        let mut scene = Scene::empty();
        scene.settings.hints = hints;
        scene.settings.hostnames = hostnames;
        scene.settings.default_zones = zones;
        scene.moment.stock_destination = stock;
        let standing = Standing { stale, ..Standing::default() };
        scene.clusters.insert(ClusterName::from("east"), standing);
        for spec in worlds {
            restart(&mut scene, &spec);
            let before: Vec<_> = CLUSTERS.iter().map(|name| addresses_of(&scene, name)).collect();
            let plan = scene.plan(SERVICE);
            for actions in plan.units.values() {
                // Whoever follows the steps one by one loses nothing before everything new is there.
                let order: Vec<_> = actions.iter().map(|action| match action {
                    Action::Apply { only_grows: true, .. } => 0,
                    Action::Apply { .. } => 1,
                    Action::Delete { .. } => 2,
                }).collect();
                prop_assert!(order.is_sorted());
            }
            scene.carry_out(&plan);
            let again = scene.plan(SERVICE);
            prop_assert!(again.is_empty(), "{again:?}");
            for (number, name) in CLUSTERS.iter().enumerate() {
                let after = addresses_of(&scene, name);
                if spec.mirror && (spec.foreign || !spec.members[number].synced && number > 0) {
                    prop_assert_eq!(&after, &before[number]);
                }
                if !spec.mirror {
                    prop_assert!(after.is_empty());
                }
            }
            for copy in scene.copies.values() {
                for endpoint in copy.content.iter().flat_map(|content| &content.endpoints) {
                    let is_remote = copy.cluster.as_str() != "home";
                    prop_assert!(!(is_remote && (endpoint.target.is_some() || endpoint.node.is_some())));
                }
            }
        }
    }
}
