mod content;
mod hints;
mod limits;
mod order;
mod services;
mod twice;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::super::copy::{Content, CopyEndpoint, Existing, Origin};
use super::{Action, HomeAddresses, Inputs, Judgement, Moment, Plan, Refused, Standing, plan};
use crate::index::{Change, Object};
use crate::model::copying::{
    Audience, Hints, HomeMembers, Hostnames, NodeNames, OnStale, Select, Settings, Zones,
};
use crate::model::{ClusterName, IpFamilies, ServiceDetails, SliceName, Transport, Uid};
use crate::testing::{HOME, ServiceBuilder, SliceBuilder, World, cluster, home, service, slice};

/// A home cluster, linked clusters, and the copies that are there.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) copies: BTreeMap<SliceName, Existing>,
    pub(super) settings: Settings,
    pub(super) clusters: BTreeMap<ClusterName, Standing>,
    pub(super) moment: Moment,
    pub(super) home_addresses: Addresses,
    versions: u64,
}

#[derive(Debug, Default)]
pub(super) struct Addresses(pub(super) BTreeSet<IpAddr>);

impl HomeAddresses for Addresses {
    fn contains(&self, ip: IpAddr) -> bool {
        self.0.contains(&ip)
    }
}

fn cluster_of(content: &Content) -> &ClusterName {
    match &content.origin {
        Origin::Cluster { name, .. } => name,
        Origin::Workloads { .. } => panic!("no copy: {content:?}"),
    }
}

impl Scene {
    pub(super) fn empty() -> Self {
        Self {
            world: World::default(),
            copies: BTreeMap::new(),
            settings: Settings::new(HOME.into()),
            clusters: BTreeMap::new(),
            moment: Moment::default(),
            home_addresses: Addresses::default(),
            versions: 0,
        }
    }

    /// `shop/web-east` mirrors `shop/web` of the linked cluster east, which has these slices.
    fn mirror(slices: impl IntoIterator<Item = SliceBuilder>) -> Self {
        let mut scene = Self::empty();
        scene.say(home().begins_with([web_east().into()]));
        scene.say([Change::LinksKnown, cluster("east").linked()]);
        scene.say(cluster("east").begins_with(with_web(slices)));
        scene
    }

    /// `shop/web-federated` of the home cluster and the linked ones, each with its slices of `shop/web`.
    fn federated(members: &[(&str, &[SliceBuilder])]) -> Self {
        let mut scene = Self::empty();
        let mut home_objects = vec![web_federated(members)];
        for (name, slices) in members {
            if *name == HOME {
                home_objects.extend(with_web(slices.to_vec()));
            }
        }
        scene.say(home().begins_with(home_objects));
        scene.say([Change::LinksKnown]);
        for (name, slices) in members {
            if *name != HOME {
                scene.say([cluster(name).linked()]);
                scene.say(cluster(name).begins_with(with_web(slices.to_vec())));
            }
        }
        scene
    }

    pub(super) fn say(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.world.say(changes);
    }

    pub(super) fn plan(&self, service: &str) -> Plan {
        let snapshot = self.world.snapshot(service);
        let existing: BTreeMap<_, _> = self
            .copies
            .iter()
            .filter(|(_, copy)| copy.service == snapshot.service)
            .map(|(name, copy)| (name.clone(), copy.clone()))
            .collect();
        plan(&Inputs {
            snapshot: &snapshot,
            existing: &existing,
            settings: &self.settings,
            clusters: &self.clusters,
            moment: &self.moment,
            is_home: &self.home_addresses,
        })
    }

    /// Carries out a plan, as an API server would.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for action in plan.units.values().flatten() {
            self.versions += 1;
            match action {
                Action::Apply { copy, over, .. } => {
                    let uid = over
                        .clone()
                        .unwrap_or_else(|| Uid::from(format!("copy-{}", self.versions).as_str()));
                    let there = Existing {
                        name: copy.name.clone(),
                        uid,
                        resource_version: self.versions.to_string().into(),
                        is_going: false,
                        service: copy.content.service.clone(),
                        cluster: cluster_of(&copy.content).clone(),
                        addresses: copy.content.endpoints.len(),
                        content: Some(copy.content.clone()),
                        owners: vec![copy.owner.clone()],
                        source: copy.source.clone(),
                    };
                    self.copies.insert(copy.name.clone(), there);
                }
                Action::Delete { name, uid, .. } => {
                    let gone = self.copies.remove(name);
                    assert_eq!(gone.map(|gone| gone.uid).as_ref(), Some(uid));
                }
            }
        }
    }

    /// Plans and carries out until there is nothing to do; says what was done.
    pub(super) fn settle(&mut self, service: &str) -> String {
        let plan = self.plan(service);
        let done = describe(&plan);
        self.carry_out(&plan);
        let again = self.plan(service);
        assert!(
            again.is_empty(),
            "a second plan finds more to do: {}",
            describe(&again)
        );
        done
    }

    fn edit(&mut self, edit: impl Fn(&mut Content)) {
        for copy in self.copies.values_mut() {
            if let Some(content) = &mut copy.content {
                edit(content);
            }
        }
    }

    fn addresses(&self) -> String {
        let contents = self
            .copies
            .values()
            .filter_map(|copy| copy.content.as_ref());
        let mut all: Vec<_> = contents
            .flat_map(|content| &content.endpoints)
            .map(|endpoint| endpoint.address.to_string())
            .collect();
        all.sort();
        all.join(" ")
    }
}

fn web_east() -> ServiceBuilder {
    service("shop/web-east")
        .port(80, "http")
        .mirrors("web@east")
        .mirror("uid-1", |_| {})
}

fn web_federated(members: &[(&str, &[SliceBuilder])]) -> Object {
    let is_home = |name: &str| name == HOME;
    let remote: Vec<_> = members
        .iter()
        .filter(|(name, _)| !is_home(name))
        .map(|(name, _)| format!("web@{name}"))
        .collect();
    let local = if members.iter().any(|(name, _)| is_home(name)) {
        "web"
    } else {
        ""
    };
    service("shop/web-federated")
        .port(80, "http")
        .federated(local, &remote.join(","))
        .mirror("uid-1", |_| {})
        .into()
}

/// `shop/web` with port 80, called http-main there, and its slices.
fn with_web(slices: impl IntoIterator<Item = SliceBuilder>) -> Vec<Object> {
    let mut objects = vec![service("shop/web").port(80, "http-main").object()];
    objects.extend(slices.into_iter().map(SliceBuilder::object));
    objects
}

/// A slice of `shop/web` whose port http-main is 8080.
fn web(name: &str) -> SliceBuilder {
    slice(name).of("shop/web").port(8080, "http-main")
}

/// What is done, one action a line: `+ name ports | endpoints`, `~` for a change that takes something away.
fn describe(plan: &Plan) -> String {
    let lines = plan.units.values().flatten().map(|action| match action {
        Action::Apply {
            copy, only_grows, ..
        } => {
            let sign = if *only_grows { '+' } else { '~' };
            format!(
                "{sign} {} {}",
                source(&copy.source.slice, cluster_of(&copy.content)),
                say(&copy.content)
            )
        }
        Action::Delete { name, .. } => {
            let name = name.name.as_str();
            let readable = name.rsplit_once('-').map_or(name, |(readable, _)| readable);
            format!("- {readable}")
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn source(slice: &str, cluster: &ClusterName) -> String {
    let name = slice.rsplit_once('/').map_or(slice, |(_, name)| name);
    format!("{name}@{cluster}")
}

fn say(content: &Content) -> String {
    let ports: Vec<_> = content
        .ports
        .iter()
        .map(|port| {
            let spoken = port.app_protocol.as_ref().map(|text| format!("/{text}"));
            let over = if port.transport == Transport::Tcp {
                ""
            } else {
                "/udp"
            };
            format!(
                "{}={}{over}{}",
                port.name,
                port.port,
                spoken.unwrap_or_default()
            )
        })
        .collect();
    let endpoints: Vec<_> = content.endpoints.iter().map(say_endpoint).collect();
    format!("{} | {}", ports.join(","), endpoints.join(", "))
        .trim_end()
        .to_owned()
}

fn say_endpoint(endpoint: &CopyEndpoint) -> String {
    let mut text = endpoint.address.to_string();
    let conditions = endpoint.conditions;
    for (holds, word) in [
        (!conditions.ready, " unready"),
        (
            conditions.ready != conditions.serving,
            if conditions.serving {
                " serving"
            } else {
                " silent"
            },
        ),
        (conditions.terminating, " terminating"),
    ] {
        if holds {
            text.push_str(word);
        }
    }
    for (what, value) in [
        ("host", endpoint.hostname.as_ref().map(ToString::to_string)),
        ("node", endpoint.node.as_ref().map(ToString::to_string)),
        ("zone", endpoint.zone.as_ref().map(ToString::to_string)),
        (
            "for",
            (!endpoint.hints.is_empty()).then(|| format!("{:?}", endpoint.hints)),
        ),
        (
            "pod",
            endpoint
                .target
                .as_ref()
                .map(|target| target.name.to_string()),
        ),
    ] {
        if let Some(value) = value {
            text.extend([" ", what, ":", &value]);
        }
    }
    text
}

fn reports(plan: &Plan) -> String {
    let reports = plan.reports.iter().map(|report| format!("{report:?}"));
    reports.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(mut scene: Scene, service: &str, expected: &str) -> Scene {
    let trimmed: Vec<_> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(scene.settle(service), trimmed.join("\n"));
    scene
}

fn one() -> SliceBuilder {
    web("web-1").endpoint("10.9.0.1")
}

fn service_web() -> ServiceBuilder {
    service("shop/web").port(80, "http-main")
}

/// The copies that a scene has, seen by a process that has read the home cluster and nothing of west.
fn restart(scene: &Scene) -> Scene {
    let mut restarted = Scene::empty();
    let slices = [web("web-h")
        .endpoint("10.1.0.1")
        .zone("za")
        .for_zones(&["za"])
        .endpoint("10.1.0.9")
        .not_ready()];
    let mut objects = with_web(slices);
    objects.push(web_federated(&[(HOME, &[]), ("west", &[])]));
    restarted.say(home().begins_with(objects));
    restarted.copies.clone_from(&scene.copies);
    restarted
}
