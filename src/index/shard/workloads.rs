//! What one cluster has behind its addresses: Pods with their owners, ExternalWorkloads, and what Servers say of both.
//!
//! Whatever changes here is worked into the workloads at once, and those that differ are reported.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::index::change::{Kind, ObjectName};
use crate::index::claims::Claim;
use crate::model::{
    ExternalWorkload, ExternalWorkloadFacts, ExternalWorkloadName, Namespace, Owner, OwnerKind,
    OwnerName, PodFacts, PodName, PortRange, PortSet, Selector, ServerFacts, ServerName, Text,
    Traits, Workload,
};

/// The workloads of one cluster, as they stand behind endpoints.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    pods: Namespaced<Arc<Workload>>,
    external: Namespaced<Arc<ExternalWorkload>>,
    servers: Namespaced<(Text, ServerFacts)>,
    owners: HashMap<OwnerName, Option<Arc<Owner>>>,
    /// How many of the owners are Jobs.
    job_count: usize,
    /// Names of Pods, which are of their owner's namespace.
    pods_by_owner: HashMap<OwnerName, HashSet<Text>>,
}

/// A workload that differs from what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkloadName {
    Pod(PodName),
    External(ExternalWorkloadName),
}

/// Objects by namespace and name, so that one namespace can be looked through without the others.
#[derive(Debug)]
struct Namespaced<T> {
    by_namespace: HashMap<Namespace, HashSet<ByName<T>>>,
    len: usize,
}

/// An object that is told from others by its name alone.
#[derive(Debug)]
struct ByName<T>(T);

/// Has a name within its namespace.
trait Named {
    fn name(&self) -> &Text;
}

/// Which of a Server's selectors is meant.
type Selects = fn(&ServerFacts) -> Option<&Selector>;

const PODS: Selects = |server| server.pods.as_ref();
const EXTERNAL_WORKLOADS: Selects = |server| server.external_workloads.as_ref();

// === impl Workloads ===

impl Workloads {
    pub(super) fn pod(&self, name: &PodName) -> Option<&Arc<Workload>> {
        self.pods.get(&name.namespace, &name.name)
    }

    pub(super) fn external(
        &self,
        namespace: &Namespace,
        name: &Text,
    ) -> Option<&Arc<ExternalWorkload>> {
        self.external.get(namespace, name)
    }

    /// The addresses that a workload claims: none once it has finished. They may repeat themselves.
    pub(super) fn claimed_by(&self, name: &WorkloadName) -> Vec<IpAddr> {
        match name {
            WorkloadName::Pod(name) => self
                .pod(name)
                .filter(|pod| !pod.facts.is_finished())
                .map_or(Vec::new(), |pod| pod.facts.reachable_at().collect()),
            WorkloadName::External(name) => self
                .external(&name.namespace, &name.name)
                .map_or(Vec::new(), |workload| workload.facts.ips.to_vec()),
        }
    }

    /// Names of the objects of a kind; none for kinds that are kept elsewhere.
    pub(super) fn names(&self, kind: Kind) -> Vec<ObjectName> {
        match kind {
            Kind::Pod => self
                .pods
                .names(|namespace, name| ObjectName::Pod(PodName::new(namespace, name))),
            Kind::ExternalWorkload => self.external.names(|namespace, name| {
                ObjectName::ExternalWorkload(ExternalWorkloadName::new(namespace, name))
            }),
            Kind::Server => self
                .servers
                .names(|namespace, name| ObjectName::Server(ServerName::new(namespace, name))),
            Kind::ReplicaSet | Kind::Job => self
                .owners
                .keys()
                .filter(|name| Kind::from(name.kind) == kind)
                .cloned()
                .map(ObjectName::Owner)
                .collect(),
            Kind::Service
            | Kind::EndpointSlice
            | Kind::Endpoints
            | Kind::Node
            | Kind::ServiceProfile => Vec::new(),
        }
    }

    /// Number of objects of a kind; none for kinds that are kept elsewhere.
    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pod => self.pods.len,
            Kind::ExternalWorkload => self.external.len,
            Kind::Server => self.servers.len,
            Kind::ReplicaSet => self.owners.len() - self.job_count,
            Kind::Job => self.job_count,
            Kind::Service
            | Kind::EndpointSlice
            | Kind::Endpoints
            | Kind::Node
            | Kind::ServiceProfile => 0,
        }
    }

    pub(super) fn set_pod(&mut self, name: PodName, facts: Option<PodFacts>) -> Vec<WorkloadName> {
        let old = self.pod(&name).map(|pod| &pod.facts);
        if old == facts.as_ref() {
            return Vec::new();
        }
        let old_owner = old.and_then(|facts| owner_name(&name, facts));
        let new_owner = facts.as_ref().and_then(|facts| owner_name(&name, facts));
        if old_owner != new_owner {
            if let Some(owner) = old_owner
                && let Some(pods) = self.pods_by_owner.get_mut(&owner)
            {
                pods.remove(&name.name);
                if pods.is_empty() {
                    self.pods_by_owner.remove(&owner);
                }
            }
            if let Some(owner) = new_owner {
                self.pods_by_owner
                    .entry(owner)
                    .or_default()
                    .insert(name.name.clone());
            }
        }
        let workload = facts.map(|facts| {
            Arc::new(Workload {
                owner: self.owner(&name, &facts),
                server_opaque: self.opaque_ports(&name.namespace, &facts.template.traits, PODS),
                pod: name.clone(),
                facts,
            })
        });
        self.pods.set(&name.namespace, &name.name, workload);
        vec![WorkloadName::Pod(name)]
    }

    pub(super) fn set_external(
        &mut self,
        name: ExternalWorkloadName,
        facts: Option<ExternalWorkloadFacts>,
    ) -> Vec<WorkloadName> {
        let old = self.external(&name.namespace, &name.name);
        if old.map(|workload| &*workload.facts) == facts.as_ref() {
            return Vec::new();
        }
        let workload = facts.map(|facts| {
            Arc::new(ExternalWorkload {
                server_opaque: self.opaque_ports(
                    &name.namespace,
                    &facts.traits,
                    EXTERNAL_WORKLOADS,
                ),
                name: name.clone(),
                facts: Arc::new(facts),
            })
        });
        self.external.set(&name.namespace, &name.name, workload);
        vec![WorkloadName::External(name)]
    }

    /// Takes in what owns a ReplicaSet or Job.
    pub(super) fn set_owner(
        &mut self,
        name: &OwnerName,
        of_owner: Option<Owner>,
    ) -> Vec<WorkloadName> {
        let of_owner = of_owner.map(Arc::new);
        if self.owners.get(name) == Some(&of_owner) {
            return Vec::new();
        }
        let before = self.owners.insert(name.clone(), of_owner);
        if before.is_none() && name.kind == OwnerKind::Job {
            self.job_count += 1;
        }
        self.rename_owned(name)
    }

    /// Takes in that a ReplicaSet or Job is gone.
    pub(super) fn remove_owner(&mut self, name: &OwnerName) -> Vec<WorkloadName> {
        if self.owners.remove(name).is_none() {
            return Vec::new();
        }
        if name.kind == OwnerKind::Job {
            self.job_count -= 1;
        }
        self.rename_owned(name)
    }

    /// Looks up again who owns the Pods of a ReplicaSet or Job.
    fn rename_owned(&mut self, owner: &OwnerName) -> Vec<WorkloadName> {
        let pods = self.pods_by_owner.get(owner);
        let differ: Vec<Workload> = pods
            .into_iter()
            .flatten()
            .filter_map(|name| {
                let pod = self.pods.get(&owner.namespace, name)?;
                let owner = self.owner(&pod.pod, &pod.facts);
                (pod.owner != owner).then(|| Workload {
                    owner,
                    ..(**pod).clone()
                })
            })
            .collect();
        self.replace_pods(differ).collect()
    }

    /// Takes in a Server, or that it is gone.
    ///
    /// All workloads of its namespace are looked at, those that it selects or used to select with all its Servers: how
    /// many Services and how many other namespaces there are does not matter.
    pub(super) fn set_server(
        &mut self,
        name: &ServerName,
        facts: Option<ServerFacts>,
    ) -> Vec<WorkloadName> {
        let namespace = &name.namespace;
        let old = self.servers.get(namespace, &name.name);
        if old.map(|(_, facts)| facts) == facts.as_ref() {
            return Vec::new();
        }
        let server = facts.map(|facts| (name.name.clone(), facts));
        let old = self.servers.set(namespace, &name.name, server);
        let new = self.servers.get(namespace, &name.name);
        let opaque_ports = |traits: &Traits, before: &PortSet, selects: Selects| {
            let versions = old.iter().chain(new);
            let mut selectors = versions.filter_map(|(_, server)| selects(server));
            if !selectors.any(|selector| selector.matches(&traits.labels)) {
                return None;
            }
            let now = self.opaque_ports(namespace, traits, selects);
            (now != *before).then_some(now)
        };
        let pods = self.pods.of(namespace).filter_map(|pod| {
            let ports = opaque_ports(&pod.facts.template.traits, &pod.server_opaque, PODS)?;
            Some(Workload {
                server_opaque: ports,
                ..(**pod).clone()
            })
        });
        let pods: Vec<_> = pods.collect();
        let external = self.external.of(namespace).filter_map(|workload| {
            let (traits, before) = (&workload.facts.traits, &workload.server_opaque);
            let ports = opaque_ports(traits, before, EXTERNAL_WORKLOADS)?;
            Some(ExternalWorkload {
                server_opaque: ports,
                ..(**workload).clone()
            })
        });
        let external: Vec<_> = external.collect();
        let mut differ: Vec<_> = self.replace_pods(pods).collect();
        for workload in external {
            let name = workload.name.clone();
            let workload = Some(Arc::new(workload));
            self.external.set(&name.namespace, &name.name, workload);
            differ.push(WorkloadName::External(name));
        }
        differ
    }

    fn replace_pods(&mut self, pods: Vec<Workload>) -> impl Iterator<Item = WorkloadName> {
        pods.into_iter().map(|pod| {
            let name = pod.pod.clone();
            self.pods
                .set(&name.namespace, &name.name, Some(Arc::new(pod)));
            WorkloadName::Pod(name)
        })
    }

    /// The owner to name a Pod by.
    fn owner(&self, pod: &PodName, facts: &PodFacts) -> Option<Arc<Owner>> {
        let owner = facts.template.owner.as_ref()?;
        let passed_on = owner_name(pod, facts).and_then(|name| {
            let of_owner = self.owners.get(&name)?.as_ref()?;
            name.kind.passes_on(of_owner).then_some(of_owner)
        });
        Some(passed_on.unwrap_or(owner).clone())
    }

    /// Ports of a workload that some Server of its namespace says are opaque.
    fn opaque_ports(&self, namespace: &Namespace, traits: &Traits, selects: Selects) -> PortSet {
        self.servers
            .of(namespace)
            .map(|(_, server)| server)
            .filter(|server| {
                selects(server).is_some_and(|selector| selector.matches(&traits.labels))
            })
            .flat_map(|server| server.port.numbers(traits))
            .map(PortRange::from)
            .collect()
    }
}

// === impl WorkloadName ===

impl From<&WorkloadName> for Claim {
    fn from(name: &WorkloadName) -> Self {
        match name {
            WorkloadName::Pod(name) => Self::Pod(name.clone()),
            WorkloadName::External(name) => Self::External(name.clone()),
        }
    }
}

// === impl Namespaced ===

impl<T> Default for Namespaced<T> {
    fn default() -> Self {
        Self {
            by_namespace: HashMap::new(),
            len: 0,
        }
    }
}

impl<T: Named> Namespaced<T> {
    fn get(&self, namespace: &Namespace, name: &Text) -> Option<&T> {
        let object = self.by_namespace.get(namespace)?.get(name.as_str())?;
        Some(&object.0)
    }

    /// Puts an object in its place, or none there; returns what was there.
    fn set(&mut self, namespace: &Namespace, name: &Text, object: Option<T>) -> Option<T> {
        if let Some(object) = object {
            let objects = self.by_namespace.entry(namespace.clone()).or_default();
            let old = objects.replace(ByName(object));
            self.len += usize::from(old.is_none());
            return old.map(|old| old.0);
        }
        let objects = self.by_namespace.get_mut(namespace)?;
        let old = objects.take(name.as_str());
        if objects.is_empty() {
            self.by_namespace.remove(namespace);
        }
        self.len -= usize::from(old.is_some());
        old.map(|old| old.0)
    }

    /// The objects of a namespace, in no particular order.
    fn of(&self, namespace: &Namespace) -> impl Iterator<Item = &T> {
        let objects = self.by_namespace.get(namespace).into_iter().flatten();
        objects.map(|object| &object.0)
    }

    fn names<N>(&self, name: impl Fn(Namespace, Text) -> N) -> Vec<N> {
        let all = self.by_namespace.iter().flat_map(|(namespace, objects)| {
            objects
                .iter()
                .map(|object| name(namespace.clone(), object.0.name().clone()))
        });
        all.collect()
    }
}

// === impl ByName ===

impl<T: Named> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl<T: Named> Eq for ByName<T> {}

impl<T: Named> Hash for ByName<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().as_str().hash(state);
    }
}

impl<T: Named> Borrow<str> for ByName<T> {
    fn borrow(&self) -> &str {
        self.0.name()
    }
}

// === impl Named ===

impl Named for Arc<Workload> {
    fn name(&self) -> &Text {
        &self.pod.name
    }
}

impl Named for Arc<ExternalWorkload> {
    fn name(&self) -> &Text {
        &self.name.name
    }
}

impl Named for (Text, ServerFacts) {
    fn name(&self) -> &Text {
        &self.0
    }
}

/// The ReplicaSet or Job that owns a Pod, if one does.
fn owner_name(pod: &PodName, facts: &PodFacts) -> Option<OwnerName> {
    let owner = facts.template.owner.as_ref()?;
    Some(OwnerName {
        kind: OwnerKind::of(owner)?,
        namespace: pod.namespace.clone(),
        name: owner.name.clone(),
    })
}
