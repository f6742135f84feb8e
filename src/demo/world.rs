//! The clusters of the demonstration: objects that change as the story wants it.
//!
//! Objects are kept as they would be stored in a cluster. What is told of them goes the way of manifest files: they are
//! parsed, converted and told as differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::story::{Act, NewPod, Pod, Step};
use crate::index::{Change, Kind, ObjectChange};
use crate::model::{ClusterFacts, ClusterName, ClusterRole, EndpointKind, SessionId, Text};
use crate::publish::{Connection, KindStatus, StatusBoard};
use crate::sources::file::manifest::{self, Manifest};
use crate::sources::file::{Edits, LinkSecret, Links};

/// Name of the home cluster.
pub(super) const HOME: &str = "home";
/// Trust domain of the home cluster.
pub(super) const TRUST_DOMAIN: &str = "cluster.local";
/// Namespace of the control plane.
pub(super) const CONTROL_PLANE_NAMESPACE: &str = "linkerd";

const MANIFESTS: [(&str, &str); 3] = [
    (HOME, include_str!("manifests/home.yaml")),
    ("west", include_str!("manifests/west.yaml")),
    ("east", include_str!("manifests/east.yaml")),
];

/// Every cluster's objects, and how they are being told.
#[derive(Debug)]
pub(super) struct World {
    clusters: BTreeMap<&'static str, Cluster>,
    trust_domains: BTreeMap<ClusterName, Text>,
    sessions: u64,
    board: StatusBoard,
}

#[derive(Debug, Default)]
struct Cluster {
    objects: Vec<Value>,
    session: Option<SessionId>,
}

// === impl World ===

impl World {
    /// The clusters as the story finds them.
    pub(super) fn new(board: StatusBoard) -> anyhow::Result<Self> {
        let mut clusters = BTreeMap::new();
        for (name, text) in MANIFESTS {
            let cluster = Cluster {
                objects: objects(text)?,
                session: None,
            };
            clusters.insert(name, cluster);
        }
        let mut world = Self {
            clusters,
            trust_domains: BTreeMap::new(),
            sessions: 0,
            board,
        };
        world.trust_domains = world.links()?;
        Ok(world)
    }

    /// Everything, told for the first time.
    pub(super) fn open(&mut self) -> anyhow::Result<Vec<Change>> {
        let linked: Vec<_> = self.trust_domains.keys().cloned().collect();
        let mut changes: Vec<_> = linked
            .iter()
            .map(|cluster| Change::Linked {
                cluster: cluster.clone(),
            })
            .collect();
        changes.push(Change::LinksKnown);
        changes.extend(self.open_cluster(HOME)?);
        for cluster in linked {
            changes.extend(self.open_cluster(cluster.as_str())?);
        }
        Ok(changes)
    }

    /// Lets a step happen; returns what has to be told of it.
    pub(super) fn act(&mut self, step: &Step) -> anyhow::Result<Vec<Change>> {
        let name = ClusterName::from(step.cluster);
        match step.act {
            Act::Unlink => {
                self.board.remove(&name);
                let cluster = self.cluster(step.cluster)?;
                cluster.session = None;
                Ok(vec![Change::Unlinked { cluster: name }])
            }
            Act::Link => {
                let mut changes = vec![Change::Linked { cluster: name }];
                changes.extend(self.open_cluster(step.cluster)?);
                Ok(changes)
            }
            act => {
                let cluster = self.cluster(step.cluster)?;
                let edits = cluster.change(act)?;
                let Some(session) = cluster.session else {
                    return Ok(Vec::new());
                };
                Ok(say(&name, session, edits.into_changes()))
            }
        }
    }

    /// Which clusters the home cluster's Secrets link, with their trust domains.
    fn links(&mut self) -> anyhow::Result<BTreeMap<ClusterName, Text>> {
        let mut secrets = Vec::new();
        for manifest in parsed(&self.cluster(HOME)?.objects)? {
            if let Manifest::Secret(secret) = manifest {
                secrets.extend(LinkSecret::of(*secret));
            }
        }
        let secrets = secrets.iter().collect();
        Ok(Links::of(secrets, CONTROL_PLANE_NAMESPACE, &HOME.into()).trust_domains)
    }

    fn open_cluster(&mut self, cluster: &str) -> anyhow::Result<Vec<Change>> {
        let name = ClusterName::from(cluster);
        let (role, trust_domain) = match self.trust_domains.get(&name) {
            Some(trust_domain) => (ClusterRole::Linked, trust_domain.clone()),
            None => (ClusterRole::Home, TRUST_DOMAIN.into()),
        };
        self.sessions += 1;
        let session = SessionId(self.sessions);
        let known = self.cluster(cluster)?;
        known.session = Some(session);
        let mut edits = Edits::default();
        tell(&known.objects, &mut edits)?;

        let endpoints = EndpointKind::EndpointSlice;
        let watched = Kind::watched_in(role, endpoints);
        self.board.add(&name, role, endpoints);
        self.board.report(&name, Connection::Connected);
        for kind in watched {
            self.board.report_kind(&name, *kind, KindStatus::Watched);
        }
        let facts = Arc::new(ClusterFacts {
            name: name.clone(),
            role,
            trust_domain,
            endpoint_kind: endpoints,
        });
        let mut changes = vec![Change::Opened { facts, session }];
        changes.extend(say(&name, session, edits.into_resyncs(watched)));
        Ok(changes)
    }

    /// Keeps the ages of clusters low: what is known of them is all there is.
    pub(super) fn note_alive(&self) {
        for status in self.board.all() {
            for (kind, ..) in status.kinds {
                self.board.heard(&status.name, kind);
            }
        }
    }

    fn cluster(&mut self, name: &str) -> anyhow::Result<&mut Cluster> {
        let cluster = self.clusters.get_mut(name);
        cluster.with_context(|| format!("there is no cluster {name}"))
    }
}

// === impl Cluster ===

impl Cluster {
    /// Changes objects, and says what is different.
    fn change(&mut self, act: Act) -> anyhow::Result<Edits> {
        let mut edits = Edits::default();
        match act {
            Act::Start(new) => self.start(new, &mut edits)?,
            Act::Ready(pod, ready) => {
                let conditions = json!({"ready": ready, "serving": ready, "terminating": false});
                self.condition(pod, conditions, &mut edits)?;
            }
            Act::Terminate(pod) => {
                let conditions = json!({"ready": false, "serving": true, "terminating": true});
                self.condition(pod, conditions, &mut edits)?;
            }
            Act::Delete(pod) => {
                let endpoints = self.endpoints(pod.service)?;
                endpoints.retain(|endpoint| endpoint["targetRef"]["name"] != pod.name);
                tell([&*self.slice(pod.service)?], &mut edits)?;
                let place = self.place("Pod", pod.name)?;
                delete(&[self.objects.remove(place)], &mut edits)?;
            }
            Act::Apply(text) => {
                let new = objects(text)?;
                tell(&new, &mut edits)?;
                self.objects.extend(new);
            }
            Act::Withdraw(text) => {
                let old = objects(text)?;
                delete(&old, &mut edits)?;
                self.objects.retain(|object| !old.contains(object));
            }
            Act::Unlink | Act::Link => bail!("a cluster cannot link itself"),
        }
        Ok(edits)
    }

    fn start(&mut self, new: NewPod, edits: &mut Edits) -> anyhow::Result<()> {
        let NewPod { pod, like, ip } = new;
        let mut object = self.objects[self.place("Pod", like)?].clone();
        object["metadata"]["name"] = pod.name.into();
        object["status"]["podIP"] = ip.into();
        object["status"]["podIPs"] = json!([{"ip": ip}]);
        tell([&object], edits)?;
        self.objects.push(object);

        let mut endpoint = self.endpoint(pod.service, like)?.clone();
        endpoint["targetRef"]["name"] = pod.name.into();
        endpoint["addresses"] = json!([ip]);
        endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
        self.endpoints(pod.service)?.push(endpoint);
        tell([&*self.slice(pod.service)?], edits)
    }

    fn condition(&mut self, pod: Pod, conditions: Value, edits: &mut Edits) -> anyhow::Result<()> {
        self.endpoint(pod.service, pod.name)?["conditions"] = conditions;
        tell([&*self.slice(pod.service)?], edits)
    }

    fn endpoint(&mut self, service: &str, pod: &str) -> anyhow::Result<&mut Value> {
        let endpoints = self.endpoints(service)?;
        let found = endpoints
            .iter_mut()
            .find(|endpoint| endpoint["targetRef"]["name"] == pod);
        found.with_context(|| format!("no EndpointSlice of {service} lists {pod}"))
    }

    fn endpoints(&mut self, service: &str) -> anyhow::Result<&mut Vec<Value>> {
        let endpoints = self.slice(service)?["endpoints"].as_array_mut();
        endpoints.with_context(|| format!("the EndpointSlice of {service} has no endpoints"))
    }

    fn slice(&mut self, service: &str) -> anyhow::Result<&mut Value> {
        let found = self.objects.iter_mut().find(|object| {
            object["kind"] == "EndpointSlice"
                && object["metadata"]["labels"]["kubernetes.io/service-name"] == service
        });
        found.with_context(|| format!("{service} has no EndpointSlice"))
    }

    fn place(&self, kind: &str, name: &str) -> anyhow::Result<usize> {
        let found = self
            .objects
            .iter()
            .position(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.with_context(|| format!("there is no {kind} {name}"))
    }
}

/// The documents of a manifest file.
fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(text)?)
}

fn parsed<'a>(objects: impl IntoIterator<Item = &'a Value>) -> anyhow::Result<Vec<Manifest>> {
    let text: String = objects.into_iter().map(Value::to_string).collect();
    Ok(manifest::parse_json(&text)?)
}

/// These objects are there.
fn tell<'a>(objects: impl IntoIterator<Item = &'a Value>, edits: &mut Edits) -> anyhow::Result<()> {
    for manifest in parsed(objects)? {
        if let Manifest::Object(converted) = manifest {
            match converted.object {
                Some(object) => edits.apply(converted.name, object),
                None => edits.delete(converted.name),
            }
        }
    }
    Ok(())
}

/// These objects are not there any more.
fn delete(objects: &[Value], edits: &mut Edits) -> anyhow::Result<()> {
    for manifest in parsed(objects)? {
        if let Manifest::Object(converted) = manifest {
            edits.delete(converted.name);
        }
    }
    Ok(())
}

fn say(cluster: &ClusterName, session: SessionId, changes: Vec<ObjectChange>) -> Vec<Change> {
    changes
        .into_iter()
        .map(|change| Change::Object {
            cluster: cluster.clone(),
            session,
            change,
        })
        .collect()
}
