use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::super::copy::{Content, CopyEndpoint, Existing};
use super::{Action, HomeAddresses, Inputs, Judgement, Moment, Plan, Standing, plan};
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
                        cluster: copy.content.cluster.clone(),
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
                source(&copy.source.slice, &copy.content.cluster),
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

// --- what is copied ---

#[test]
fn a_mirror_gets_one_copy_per_slice_under_its_own_port_names() {
    let slices = [
        one().zone("za").node("n0").pod("shop/web-0"),
        web("web-2")
            .endpoint("10.9.0.3")
            .endpoint("10.9.0.2")
            .not_ready(),
    ];
    let scene = check(
        Scene::mirror(slices),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1 zone:za
         + web-2@east http=8080 | 10.9.0.2 unready, 10.9.0.3",
    );
    for (name, copy) in &scene.copies {
        assert!(name.name.starts_with("web-east-east-"), "{name}");
        assert_eq!(copy.owners, [Uid::from("uid-1")]);
    }
}

#[test]
fn order_and_annotations_of_the_source_do_not_matter() {
    let mut scene = Scene::mirror([web("web-1").endpoint("10.9.0.1").endpoint("10.9.0.2")]);
    scene.settle("shop/web-east");
    let reordered = web("web-1")
        .endpoint("10.9.0.2")
        .endpoint("10.9.0.1")
        .object_of("other", 7);
    scene.say([cluster("east").apply(reordered)]);
    check(scene, "shop/web-east", "");
}

#[test]
fn ports_are_joined_by_number_and_renamed() {
    let mut scene = Scene::empty();
    let mirror = service("shop/web-east")
        .port(80, "http")
        .speaking("kubernetes.io/h2c")
        .port(81, "also-http")
        .port(53, "dns")
        .over(Transport::Udp)
        .port(9, "absent")
        .mirrors("web@east")
        .mirror("uid-1", |_| {});
    let member = service("shop/web")
        .port(80, "main")
        .port(81, "main")
        .speaking("http")
        .port(53, "main");
    scene.say(home().begins_with([mirror.into()]));
    scene.say([Change::LinksKnown, cluster("east").linked()]);
    let slice = slice("web-1")
        .of("shop/web")
        .port(8080, "main")
        .endpoint("10.9.0.1");
    scene.say(cluster("east").begins_with([member.into(), slice.into()]));
    // 53 is there over TCP only.
    check(
        scene,
        "shop/web-east",
        "+ web-1@east also-http=8080/http,http=8080/kubernetes.io/h2c | 10.9.0.1",
    );
}

#[test]
fn a_slice_without_any_of_the_ports_is_not_copied() {
    let scene = Scene::mirror([slice("web-1")
        .of("shop/web")
        .port(8080, "other")
        .endpoint("10.9.0.1")]);
    let plan = scene.plan("shop/web-east");
    assert!(plan.is_empty());
    assert!(
        reports(&plan).contains("PortNotExported(\"east\")"),
        "{}",
        reports(&plan)
    );
    let numberless = web("web-1").numberless().endpoint("10.9.0.1");
    check(Scene::mirror([numberless]), "shop/web-east", "");
}

#[test]
fn conditions_are_copied_and_always_explicit() {
    let slice = web("web-1")
        .endpoint("10.9.0.1")
        .conditions(false, true, true)
        .endpoint("10.9.0.2")
        .conditions(true, true, true)
        .endpoint("10.9.0.3")
        .conditions(false, false, false);
    check(
        Scene::mirror([slice]),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1 unready serving terminating, 10.9.0.2 terminating, 10.9.0.3 unready",
    );
}

#[test]
fn families_that_the_home_service_lacks_are_left_out() {
    let slices = || [one(), web("web-6").ipv6().endpoint("fd00::1")];
    check(
        Scene::mirror(slices()),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1",
    );
    let mut scene = Scene::mirror(slices());
    let only_v6 = |details: &mut ServiceDetails| {
        details.families = IpFamilies {
            v4: false,
            v6: true,
        }
    };
    scene.say([home().apply(web_east().mirror("uid-1", only_v6))]);
    check(scene, "shop/web-east", "+ web-6@east http=8080 | fd00::1");
}

#[test]
fn home_endpoints_keep_node_and_target_and_remote_ones_lose_them() {
    let endpoint =
        |slice: SliceBuilder, ip: &str| slice.endpoint(ip).node("n0").pod("shop/web-0").zone("za");
    let members: &[(&str, &[SliceBuilder])] = &[
        (HOME, &[endpoint(web("web-h"), "10.1.0.1")]),
        ("west", &[endpoint(web("web-w"), "10.9.0.1")]),
    ];
    check(
        Scene::federated(members),
        "shop/web-federated",
        "+ web-h@home http=8080 | 10.1.0.1 node:n0 zone:za pod:web-0
         + web-w@west http=8080 | 10.9.0.1 zone:za",
    );
    let mut scene = Scene::federated(members);
    scene.settings.node_names = NodeNames::Keep;
    scene.settings.home_members = HomeMembers::LeftOut;
    check(
        scene,
        "shop/web-federated",
        "+ web-w@west http=8080 | 10.9.0.1 node:n0 zone:za",
    );
}

#[test]
fn zones_are_kept_or_changed_as_chosen() {
    let zones = |zones: Zones, expected: &str| {
        let mut scene = Scene::mirror([
            one().zone("za"),
            web("web-2").endpoint("10.9.0.2").zone("not/a label"),
            web("web-3").endpoint("10.9.0.3").zone(""),
        ]);
        scene.settings.zones.insert("east".into(), zones);
        scene.settle("shop/web-east");
        let said: Vec<_> = scene
            .copies
            .values()
            .flat_map(|copy| copy.content.iter().flat_map(|content| &content.endpoints))
            .map(say_endpoint)
            .collect();
        let mut said: Vec<_> = said
            .iter()
            .map(|text| text.replace("10.9.0.", ""))
            .collect();
        said.sort();
        assert_eq!(said.join(", "), expected);
    };
    zones(Zones::Keep, "1 zone:za, 2, 3");
    zones(Zones::Prefix, "1 zone:east.za, 2, 3");
    zones(Zones::Cluster, "1 zone:east, 2 zone:east, 3 zone:east");
    zones(Zones::Drop, "1, 2, 3");
    zones(
        Zones::Map(BTreeMap::from([("za".into(), "eu-1a".into())])),
        "1 zone:eu-1a, 2, 3",
    );
}

#[test]
fn hostnames_follow_the_policy() {
    let hostnames = |mode: Hostnames, stock: bool, expected: &str| {
        let mut scene = Scene::federated(&[
            (
                HOME,
                &[web("web-h")
                    .endpoint("10.1.0.1")
                    .hostname("web-0")
                    .pod("shop/web-0")
                    .endpoint("10.1.0.2")
                    .hostname("vm")],
            ),
            (
                "west",
                &[web("web-w")
                    .endpoint("10.9.0.1")
                    .hostname("web-0")
                    .pod("shop/web-0")
                    .endpoint("10.9.0.2")
                    .hostname("Bad_Name")],
            ),
        ]);
        scene.settings.hostnames = mode;
        scene.moment.stock_destination = stock;
        scene.settle("shop/web-federated");
        let endpoints = scene
            .copies
            .values()
            .flat_map(|copy| copy.content.iter().flat_map(|content| &content.endpoints));
        let mut said: Vec<_> = endpoints
            .map(|endpoint| {
                format!(
                    "{} {}",
                    endpoint.address,
                    endpoint.hostname.clone().unwrap_or_default()
                )
            })
            .collect();
        said.sort();
        assert_eq!(said.join(", "), expected, "{mode:?}");
    };
    hostnames(
        Hostnames::Auto,
        false,
        "10.1.0.1 web-0, 10.1.0.2 vm, 10.9.0.1 web-0, 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Auto,
        true,
        "10.1.0.1 web-0, 10.1.0.2 , 10.9.0.1 , 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Keep,
        true,
        "10.1.0.1 web-0, 10.1.0.2 vm, 10.9.0.1 web-0, 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Drop,
        false,
        "10.1.0.1 , 10.1.0.2 , 10.9.0.1 , 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Suffix,
        false,
        "10.1.0.1 web-0-home, 10.1.0.2 vm-home, 10.9.0.1 web-0-west, 10.9.0.2 ",
    );
}

#[test]
fn a_suffixed_hostname_that_is_too_long_is_left_out() {
    let mut scene = Scene::mirror([web("web-1").endpoint("10.9.0.1").hostname(&"h".repeat(59))]);
    scene.settings.hostnames = Hostnames::Suffix;
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn empty_slices_are_copied_empty() {
    check(
        Scene::mirror([web("web-1")]),
        "shop/web-east",
        "+ web-1@east http=8080 |",
    );
}

#[test]
fn a_thousand_endpoints_fit_and_more_do_not() {
    let mut slice = web("web-1");
    for number in 0..1003_u32 {
        slice = slice.endpoint(&format!("10.9.{}.{}", number / 250, number % 250 + 1));
    }
    let scene = Scene::mirror([slice]);
    let plan = scene.plan("shop/web-east");
    let [Action::Apply { copy, .. }] = &plan.units[&ClusterName::from("east")][..] else {
        panic!("{plan:?}");
    };
    assert_eq!(copy.content.endpoints.len(), 1000);
    assert!(reports(&plan).contains("TooMany, 3"), "{}", reports(&plan));
}

// --- hints ---

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
        if content.cluster.as_str() == "west" {
            content.endpoints[0].hints.clear();
        }
    });
    assert_eq!(
        restarted.settle("shop/web-federated"),
        "+ web-h@home http=8080 | 10.1.0.1 zone:za, 10.1.0.9 unready"
    );
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

// --- what is not known ---

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

fn service_web() -> ServiceBuilder {
    service("shop/web").port(80, "http-main")
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

// --- which Services ---

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

#[test]
fn the_audience_may_be_chosen_by_annotation() {
    let mut scene = Scene::mirror([one()]);
    scene.settle("shop/web-east");
    assert_eq!(
        scene
            .copies
            .values()
            .next()
            .unwrap()
            .content
            .as_ref()
            .unwrap()
            .audience,
        Audience::Gateways
    );
    let everyone = web_east().mirror("uid-1", |details| {
        details.audience = Some("everyone".into());
    });
    scene.say([home().apply(everyone)]);
    let scene = check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
    assert_eq!(
        scene
            .copies
            .values()
            .next()
            .unwrap()
            .content
            .as_ref()
            .unwrap()
            .audience,
        Audience::Everyone
    );
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

// --- counting twice ---

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

// --- what a cluster may not say ---

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

// --- repairs and order ---

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
