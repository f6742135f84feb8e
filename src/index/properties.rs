//! Properties of the whole core, over random histories of a home cluster and its linked clusters.
//!
//! Names come from small pools, so that everything collides with everything. Beside the index runs a naive model that
//! keeps raw facts and answers by looking through all of them; it shares nothing with the index but the model's types.

mod history;
mod naive;
mod retell;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;

use super::{
    Address, Change, ClusterSummary, Counts, Families, Holder, Index, Joined, Kind, Mesh,
    MeshPolicy, Object, ObjectChange, Protocol, ProxyUnreadable, SelectPolicy, ServiceSnapshot,
    Touched, View, ViewEndpoint, ViewKey, apply, diff, explain, select,
};
use crate::model::{NodeName, ProfileFacts, ProfileName, ServiceName, Workload, Zone};
use crate::testing::{ClusterBuilder, HOME, cluster};
use history::{Query, Saying, Speaker, Step, addresses, history, nodes, profiles, services};
use naive::{Naive, Row, Session};
use retell::{Chance, retold, withheld};

/// An index, and a model of it that has heard the same.
struct Run {
    index: Index,
    naive: Naive,
    picture: Picture,
    sessions: BTreeMap<&'static str, Vec<u64>>,
}

impl Run {
    fn new() -> Self {
        let index = Index::new(HOME.into());
        Self {
            picture: Picture::of(&index),
            index,
            naive: Naive::new(),
            sessions: BTreeMap::new(),
        }
    }

    fn changes(&mut self, step: Step) -> Vec<Change> {
        match step {
            Step::Link(name) => vec![cluster(name).linked()],
            Step::Unlink(name) => vec![cluster(name).unlinked()],
            Step::LinksKnown => vec![Change::LinksKnown],
            Step::Withhold(name, all) => vec![withheld(name, all)],
            Step::Open(name, domain) => {
                let ids = self.sessions.entry(name).or_default();
                let id = ids.len() as u64 + 1;
                ids.push(id);
                vec![teller(name).trusting(domain).session(id).opened()]
            }
            Step::Say(name, speaker, saying) => {
                let latest = self.sessions.get(name).map_or(0, |ids| ids.len() as u64);
                let id = match speaker {
                    Speaker::Latest => latest,
                    Speaker::Previous => latest.saturating_sub(1),
                };
                let session = teller(name).session(id);
                let watched = session.kinds();
                let is_watched = |object: &Object| watched.contains(&object.name().kind());
                let change = match *saying {
                    Saying::Apply(object) => is_watched(&object).then(|| session.apply(object)),
                    Saying::Delete(object) => is_watched(&object).then(|| session.delete(object)),
                    Saying::Resync(kind, objects) => watched
                        .contains(&kind)
                        .then(|| session.resync(kind, objects)),
                    Saying::Unreadable(kind) => {
                        watched.contains(&kind).then(|| session.unreadable(kind))
                    }
                };
                change.into_iter().collect()
            }
            Step::Settle(name) => {
                let latest = self
                    .naive
                    .clusters
                    .get(name)
                    .and_then(|known| known.pending.as_ref().or(known.current.as_ref()));
                let Some(latest) = latest else {
                    return Vec::new();
                };
                let session = teller(name).session(latest.id.0);
                session
                    .kinds()
                    .iter()
                    .filter(|kind| latest.kinds.iter().all(|(known, _)| known != *kind))
                    .map(|kind| session.resync(*kind, of_kind(latest, *kind)))
                    .collect()
            }
        }
    }

    /// Takes in a change, and checks that whatever differs afterwards has been touched.
    fn hear(&mut self, change: Change) {
        let said = change.clone();
        let mut touched = Touched::default();
        self.index.apply(change.clone(), &mut touched);
        self.naive.hear(change);
        let after = Picture::of(&self.index);
        let before = std::mem::replace(&mut self.picture, after);
        let after = &self.picture;
        for (service, now) in &after.snapshots {
            let was = &before.snapshots[service];
            let same = was.same(now) || (was.facts.is_none() && now.facts.is_none());
            assert!(
                same || touched.services.contains(service),
                "{service} changed untouched by {said:?}: {was:?} to {now:?}",
            );
        }
        for (ip, now) in &after.addresses {
            assert!(
                before.addresses[ip] == *now || touched.addresses.contains(ip),
                "{ip} changed untouched by {said:?}",
            );
        }
        for (name, now) in &after.profiles {
            assert!(
                before.profiles[name] == *now || touched.profiles.contains(name),
                "{name} changed untouched by {said:?}",
            );
        }
        for (node, now) in &after.zones {
            assert!(
                before.zones[node] == *now || touched.nodes.contains(node),
                "{node} changed untouched by {said:?}",
            );
        }
        assert!(
            touched.clusters || before.states() == after.states(),
            "{said:?}"
        );
        let sizes = touched.sizes || touched.clusters;
        assert!(sizes || before.clusters == after.clusters, "{said:?}");
    }

    /// The same change; a resync of a kind that is read already, object by object.
    fn in_pieces(&self, change: &Change) -> Vec<Change> {
        let Change::Object {
            cluster: name,
            session,
            change: ObjectChange::Resync(kind, objects),
        } = change
        else {
            return vec![change.clone()];
        };
        let known = self.naive.clusters.get(name).and_then(|known| {
            let sessions = [&known.current, &known.pending];
            sessions
                .into_iter()
                .flatten()
                .find(|known| known.id == *session)
        });
        let Some(known) = known.filter(|known| known.kinds.contains(&(*kind, true))) else {
            return vec![change.clone()];
        };
        let says = cluster(name.as_str()).session(session.0);
        let listed: Vec<_> = objects.iter().map(Object::name).collect();
        let gone = of_kind(known, *kind)
            .into_iter()
            .map(|object| object.name())
            .filter(|name| !listed.contains(name))
            .map(|name| says.delete_named(name));
        gone.chain(objects.iter().map(|object| says.apply(object.clone())))
            .collect()
    }

    /// Compares who has which address with the model.
    fn check_addresses(&self) {
        for (ip, address) in &self.picture.addresses {
            let holders = |holders: &[Holder]| -> Vec<String> {
                let name = |holder: &Holder| {
                    let Workload { pod, owner, .. } = &*holder.workload;
                    format!("{} {pod} {owner:?}", holder.cluster.name)
                };
                holders.iter().map(name).collect()
            };
            let said = [
                address.services.iter().map(ToString::to_string).collect(),
                holders(&address.pods),
                holders(&address.host_ports),
                address
                    .external
                    .iter()
                    .map(|workload| workload.name.to_string())
                    .collect(),
                holders(&address.remote),
            ];
            assert_eq!(said, self.naive.address(*ip), "{ip}");
        }
        for (name, profile) in &self.picture.profiles {
            assert_eq!(profile.as_deref(), self.naive.profile(name), "{name}");
        }
    }

    /// Compares with the model.
    fn check(&self, query: &Query) -> View {
        let snapshot = self.index.snapshot(&query.service);
        let view = view(&snapshot, query);
        let (exists, complete, rows) = self.naive.answer(query);
        assert_eq!(
            view.endpoints.iter().map(row).collect::<Vec<_>>(),
            flat(rows),
            "{query:?}"
        );
        assert_eq!(
            (view.exists, view.complete),
            (exists, complete),
            "{query:?}"
        );
        let mut anywhere = query.clone();
        anywhere.zone = None;
        assert!(
            !view.endpoints.is_empty() || self::view(&snapshot, &anywhere).endpoints.is_empty(),
            "hints left nothing: {query:?}"
        );
        view
    }
}

/// All that an index says.
struct Picture {
    snapshots: BTreeMap<ServiceName, ServiceSnapshot>,
    clusters: Vec<ClusterSummary>,
    zones: BTreeMap<NodeName, Option<Zone>>,
    addresses: BTreeMap<IpAddr, Address>,
    profiles: BTreeMap<ProfileName, Option<Arc<ProfileFacts>>>,
}

impl Picture {
    fn of(index: &Index) -> Self {
        let snapshot = |name: ServiceName| (name.clone(), index.snapshot(&name));
        let zone = |node: NodeName| (node.clone(), index.zone_of(&node).cloned());
        Self {
            snapshots: services().into_iter().map(snapshot).collect(),
            clusters: index.clusters(),
            zones: nodes().into_iter().map(zone).collect(),
            addresses: addresses()
                .into_iter()
                .map(|ip| (ip, index.address(ip)))
                .collect(),
            profiles: profiles()
                .into_iter()
                .map(|name| (name.clone(), index.profile(&name).cloned()))
                .collect(),
        }
    }

    /// The clusters without their sizes.
    fn states(&self) -> Vec<ClusterSummary> {
        let stripped = |summary: &ClusterSummary| ClusterSummary {
            services: 0,
            endpoints: 0,
            counts: Counts::default(),
            ..summary.clone()
        };
        self.clusters.iter().map(stripped).collect()
    }

    fn text(&self) -> String {
        format!(
            "{:#?} {:#?} {:?} {:#?} {:#?}",
            self.snapshots, self.clusters, self.zones, self.addresses, self.profiles
        )
    }
}

/// A session with a cluster. One of the clusters is read from Endpoints objects, which no real set of clusters would be.
fn teller(name: &str) -> ClusterBuilder {
    match name {
        "west" => cluster(name).of_endpoints(),
        _ => cluster(name),
    }
}

fn of_kind(session: &Session, kind: Kind) -> Vec<Object> {
    let objects = session.objects.iter();
    objects
        .filter(|object| object.name().kind() == kind)
        .cloned()
        .collect()
}

fn policy(families: Families) -> SelectPolicy {
    SelectPolicy {
        families,
        mesh: MeshPolicy {
            controller_namespace: "linkerd".into(),
            ..MeshPolicy::default()
        },
    }
}

fn view(snapshot: &ServiceSnapshot, query: &Query) -> View {
    let key = ViewKey {
        port: query.port,
        instance: query.instance.clone(),
        zone: query.zone.clone(),
        node: query.node.clone(),
    };
    let policy = policy(query.families);
    let view = select(snapshot, &key, &policy);
    explain::tests::check_agreement(snapshot, &key, &policy, &view);
    view
}

fn row(endpoint: &ViewEndpoint) -> String {
    let slice = endpoint.slice();
    let behind = match endpoint.joined() {
        Joined::Pod(workload) => {
            format!(
                " {} {:?} {:?} {}",
                workload.pod,
                workload.owner,
                workload.facts.template.owner,
                workload.server_opaque.contains(endpoint.socket.port()),
            )
        }
        Joined::ExternalWorkload(workload) => {
            let mesh = policy(Families::Ipv4).mesh.mesh(endpoint).unwrap();
            format!(
                " {} {:?} {} {}",
                workload.name,
                workload.facts.owner,
                mesh.protocol == Protocol::Opaque,
                mesh.identity.is_some(),
            )
        }
        Joined::Address => " address".to_owned(),
        Joined::Unreadable => " unreadable".to_owned(),
        Joined::Held(held) => panic!("{held:?} is served"),
    };
    format!(
        "{} {} {} {} {:?} {:?}{behind}",
        endpoint.socket,
        endpoint.cluster.name,
        endpoint.cluster.trust_domain,
        slice.service,
        slice.mirror,
        endpoint.endpoint().zone,
    )
}

fn flat(rows: Vec<Row>) -> Vec<String> {
    rows.into_iter()
        .map(|row| {
            format!(
                "{} {} {} {}",
                row.socket, row.cluster, row.trust_domain, row.text
            )
        })
        .collect()
}

/// Everything that a client may be told of an endpoint.
fn told(view: &View, endpoint: &ViewEndpoint) -> (String, Result<Mesh, ProxyUnreadable>) {
    let pod = endpoint.pod().map(|workload| {
        let template = &workload.facts.template;
        let labels = (
            &template.service_account,
            &template.control_plane_namespace,
            &template.template_hash,
        );
        format!("{} {:?} {labels:?}", workload.pod, workload.owner)
    });
    let kind = std::mem::discriminant(endpoint.joined());
    let external = match endpoint.joined() {
        Joined::ExternalWorkload(workload) => Some((&workload.name, &workload.facts.owner)),
        _ => None,
    };
    let locality = endpoint.locality(view.zone.as_ref());
    let text = format!(
        "{} {:?} {} {:?} {:?} {pod:?} {external:?} {kind:?} {locality:?} {} {}",
        endpoint.socket,
        endpoint.cluster,
        endpoint.slice().service,
        endpoint.slice().mirror,
        endpoint.endpoint().zone,
        view.port,
        view.multicluster,
    );
    (text, policy(Families::Ipv4).mesh.mesh(endpoint))
}

fn check_diff(before: &View, after: &View) {
    let delta = diff(Some(before), after);
    for removed in &delta.remove {
        assert!(
            delta.add.iter().all(|added| added.socket != *removed),
            "{removed} twice"
        );
    }
    let folded = apply(&before.endpoints, &delta);
    let all = |view: &View, endpoints: &[ViewEndpoint]| -> Vec<_> {
        endpoints
            .iter()
            .map(|endpoint| told(view, endpoint))
            .collect()
    };
    let was = all(before, &before.endpoints);
    // What is in no delta is what the client was told before, in the words of then.
    let has: Vec<_> = folded
        .iter()
        .map(|endpoint| {
            let added = delta
                .add
                .iter()
                .any(|added| added.socket == endpoint.socket);
            told(if added { after } else { before }, endpoint)
        })
        .collect();
    assert_eq!(has, all(after, &after.endpoints));
    for added in &delta.add {
        assert!(
            !was.contains(&told(after, added)),
            "{} says nothing new",
            added.socket
        );
    }
    assert!(diff(Some(after), after).is_empty());
}

fn everywhere() -> impl Iterator<Item = Query> {
    services().into_iter().flat_map(|service| {
        [None, Some("z0")].map(|zone| Query {
            service: service.clone(),
            port: 80,
            instance: None,
            zone: zone.map(Into::into),
            node: Some("n0".into()),
            families: if zone.is_some() {
                Families::Ipv6First
            } else {
                Families::Ipv4
            },
        })
    })
}

/// Histories that are tried, unless `PROPTEST_CASES` asks for another number than proptest's own default.
const CASES: u32 = 2000;

fn cases() -> ProptestConfig {
    let config = ProptestConfig {
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match config.cases {
        256 => ProptestConfig {
            cases: CASES,
            ..config
        },
        _ => config,
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever happens, the index says what the model says, and says what has changed.
    #[test]
    fn every_state_is_what_the_facts_mean(history in history()) {
        let mut run = Run::new();
        let mut last: Option<View> = None;
        for (step, query) in history {
            let before = view(&run.index.snapshot(&query.service), &query);
            for change in run.changes(step) {
                run.hear(change);
            }
            let after = run.check(&query);
            run.check_addresses();
            check_diff(&before, &after);
            if let Some(last) = &last {
                check_diff(last, &after);
            }
            last = Some(after);
        }
        for query in everywhere() {
            run.check(&query);
        }
        run.check_addresses();
        let dependents = &run.index.dependents;
        let multicluster = run.picture.snapshots.values().any(ServiceSnapshot::is_multicluster);
        assert!(multicluster || dependents.is_empty(), "left over: {dependents:?}");
    }

    /// What counts is what has been said in the end: not in which order, nor in how many pieces.
    #[test]
    fn every_way_to_tell_the_same_gives_the_same(history in history(), seed in 1..u64::MAX) {
        let mut run = Run::new();
        let mut piecemeal = Index::new(HOME.into());
        let mut links_known = false;
        for (step, _) in history {
            for change in run.changes(step) {
                for piece in run.in_pieces(&change) {
                    piecemeal.apply(piece, &mut Touched::default());
                }
                links_known |= matches!(change, Change::LinksKnown);
                run.index.apply(change.clone(), &mut Touched::default());
                run.naive.hear(change);
            }
        }
        let text = Picture::of(&run.index).text();
        assert_eq!(Picture::of(&piecemeal).text(), text, "resyncs told piece by piece");
        let mut chance = Chance(seed);
        let mut again = Index::new(HOME.into());
        for change in retold(&run.naive, links_known, &mut chance) {
            again.apply(change, &mut Touched::default());
        }
        assert_eq!(Picture::of(&again).text(), text, "the same facts in another order");
        run.picture = Picture::of(&run.index);

        for name in ["east", "west"] {
            let before = Picture::of(&run.index);
            run.hear(cluster(name).unlinked());
            for (service, was) in &before.snapshots {
                let members = was.members.iter().zip(&run.picture.snapshots[service].members);
                for (was, now) in members.filter(|(was, _)| was.cluster.name.as_str() != name) {
                    assert_eq!(format!("{was:?}"), format!("{now:?}"), "without {name}");
                }
            }
            for query in everywhere() {
                run.check(&query);
            }
        }
    }
}
