//! What one session with one cluster has said.

mod mentions;
mod stale;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::change::{Kind, Object, ObjectChange, ObjectName};
use super::claims::{Claim, Claims};
use super::counts::{BehindEndpoints, Counts};
use super::intern::Interner;
use super::join::{Chunk, PodsReadable, join};
use crate::model::{
    ClusterFacts, ExternalWorkload, Membership, NodeFacts, NodeName, ProfileFacts, ProfileName,
    ServiceFacts, ServiceName, SliceFacts, SliceName, Workload, Zone,
};
use mentions::{Mention, Mentions, mentions};
use stale::Stale;
use workloads::{WorkloadName, Workloads};

/// The objects of one cluster, joined with one another once every kind has been read.
#[derive(Debug)]
pub(super) struct Shard {
    kinds: BTreeMap<Kind, KindState>,
    services: HashMap<ServiceName, Arc<ServiceFacts>>,
    slices: HashMap<SliceName, Arc<SliceFacts>>,
    /// How many of the slices are subsets of each Endpoints object; empty where EndpointSlices are read.
    subsets: HashMap<ServiceName, usize>,
    /// Joined slices, in name order, by the Service they belong to; empty until the shard is synced.
    chunks_by_service: HashMap<ServiceName, Arc<[Arc<Chunk>]>>,
    workloads: Workloads,
    mentions: Mentions,
    nodes: HashMap<NodeName, NodeFacts>,
    /// Who claims which address.
    claims: Claims,
    profiles: HashMap<ProfileName, Arc<ProfileFacts>>,
    endpoint_count: usize,
    /// What is wrong with endpoints of the chunks.
    behind_endpoints: BehindEndpoints,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KindState {
    Pending,
    Read,
    /// May not be read (any more); what was known stays.
    Unreadable,
}

/// What a change altered.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Services whose endpoints or facts may differ.
    pub(super) services: BTreeSet<ServiceName>,
    /// Services whose membership differs: before and after.
    pub(super) memberships: Vec<(ServiceName, Option<Membership>, Option<Membership>)>,
    /// Addresses of which something differs: who has them, or what is said of those.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// ServiceProfiles that differ.
    pub(super) profiles: BTreeSet<ProfileName>,
    /// Nodes that differ.
    pub(super) nodes: BTreeSet<NodeName>,
    /// Whether a kind became read or unreadable.
    pub(super) sync_changed: bool,
    /// Whether something that is counted differs.
    pub(super) sizes: bool,
    stale: Stale,
}

// === impl Shard ===

impl Shard {
    pub(super) fn new(facts: &ClusterFacts) -> Self {
        Self {
            kinds: Kind::watched_in(facts.role, facts.endpoint_kind)
                .iter()
                .map(|kind| (*kind, KindState::Pending))
                .collect(),
            services: HashMap::new(),
            slices: HashMap::new(),
            subsets: HashMap::new(),
            chunks_by_service: HashMap::new(),
            workloads: Workloads::default(),
            mentions: Mentions::default(),
            nodes: HashMap::new(),
            claims: Claims::default(),
            profiles: HashMap::new(),
            endpoint_count: 0,
            behind_endpoints: BehindEndpoints::default(),
        }
    }

    /// Whether every kind has been read, or may not be.
    pub(super) fn is_synced(&self) -> bool {
        self.kinds
            .values()
            .all(|state| *state != KindState::Pending)
    }

    /// Kinds that have not been read yet, in order.
    pub(super) fn pending(&self) -> Vec<Kind> {
        self.kinds
            .iter()
            .filter(|(_, state)| **state == KindState::Pending)
            .map(|(kind, _)| *kind)
            .collect()
    }

    pub(super) fn service(&self, name: &ServiceName) -> Option<&Arc<ServiceFacts>> {
        self.services.get(name)
    }

    pub(super) fn services(&self) -> impl Iterator<Item = (&ServiceName, &Arc<ServiceFacts>)> {
        self.services.iter()
    }

    pub(super) fn service_names(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    pub(super) fn service_count(&self) -> usize {
        self.services.len()
    }

    pub(super) fn endpoint_count(&self) -> usize {
        self.endpoint_count
    }

    pub(super) fn counts(&self) -> Counts {
        Counts::new(self.behind_endpoints, |kind| {
            self.kinds.contains_key(&kind).then(|| self.count(kind))
        })
    }

    fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Service => self.services.len(),
            Kind::EndpointSlice => self.slices.len(),
            Kind::Endpoints => self.subsets.len(),
            Kind::Node => self.nodes.len(),
            Kind::ServiceProfile => self.profiles.len(),
            Kind::Pod | Kind::ReplicaSet | Kind::Job | Kind::ExternalWorkload | Kind::Server => {
                self.workloads.count(kind)
            }
        }
    }

    pub(super) fn zone_of(&self, node: &NodeName) -> Option<&Zone> {
        self.nodes.get(node)?.zone.as_ref()
    }

    pub(super) fn node_names(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    /// Every address that somebody claims, in no particular order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.claims.addresses()
    }

    /// Services that claim an address, in name order.
    pub(super) fn services_at(&self, ip: IpAddr) -> Box<[ServiceName]> {
        self.claims.services(ip).cloned().collect()
    }

    /// Pods that claim an address, be it their own or one with a host port, in name order.
    pub(super) fn pods_at(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<Workload>> {
        self.claims
            .pods(ip)
            .filter_map(|pod| self.workloads.pod(pod))
    }

    /// ExternalWorkloads that claim an address, in name order.
    pub(super) fn external_at(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<ExternalWorkload>> {
        self.claims
            .external(ip)
            .filter_map(|name| self.workloads.external(&name.namespace, &name.name))
    }

    pub(super) fn profile(&self, name: &ProfileName) -> Option<&Arc<ProfileFacts>> {
        self.profiles.get(name)
    }

    pub(super) fn profile_names(&self) -> impl Iterator<Item = &ProfileName> {
        self.profiles.keys()
    }

    /// The joined slices of a Service, in name order.
    pub(super) fn chunks(&self, service: &ServiceName) -> Arc<[Arc<Chunk>]> {
        self.chunks_by_service
            .get(service)
            .cloned()
            .unwrap_or_default()
    }

    /// Every Service that a slice names, whether or not it exists, in no particular order.
    pub(super) fn services_with_slices(&self) -> impl Iterator<Item = &ServiceName> {
        self.chunks_by_service.keys()
    }

    /// The joined slices of a Service if any endpoint in them has a hostname, in name order.
    pub(super) fn instances(&self, service: &ServiceName) -> Option<Arc<[Arc<Chunk>]>> {
        let chunks = self.chunks_by_service.get(service)?;
        let named = chunks
            .iter()
            .flat_map(|chunk| &chunk.facts.endpoints)
            .any(|endpoint| endpoint.hostname.is_some());
        named.then(|| Arc::clone(chunks))
    }

    /// Takes in what the session says.
    pub(super) fn apply(&mut self, change: ObjectChange, interner: &mut Interner) -> Outcome {
        let was_synced = self.is_synced();
        let sizes = (self.endpoint_count, self.counts());
        let mut outcome = Outcome::default();
        match change {
            ObjectChange::Apply(object) => self.upsert(object, interner, &mut outcome),
            ObjectChange::Delete(name) => self.remove(&name, &mut outcome),
            ObjectChange::Resync(kind, objects) => {
                self.resync(kind, objects, interner, &mut outcome);
                self.set_kind(kind, KindState::Read, &mut outcome);
            }
            ObjectChange::Unreadable(kind) => {
                if kind.is_optional() {
                    self.set_kind(kind, KindState::Unreadable, &mut outcome);
                }
            }
        }
        if self.is_synced() {
            if !was_synced {
                outcome.stale = Stale::EverySlice;
            }
            self.rejoin(&mut outcome);
        }
        outcome.sizes = sizes != (self.endpoint_count, self.counts());
        outcome
    }

    fn set_kind(&mut self, kind: Kind, state: KindState, outcome: &mut Outcome) {
        let Some(current) = self.kinds.get_mut(&kind) else {
            return;
        };
        if *current == state {
            return;
        }
        *current = state;
        outcome.sync_changed = true;
        if kind == Kind::Pod {
            outcome.stale = Stale::EverySlice;
        }
    }

    fn resync(
        &mut self,
        kind: Kind,
        objects: Vec<Object>,
        interner: &mut Interner,
        outcome: &mut Outcome,
    ) {
        let listed: HashSet<ObjectName> = objects.iter().map(Object::name).collect();
        for name in self.names(kind) {
            if !listed.contains(&name) {
                self.remove(&name, outcome);
            }
        }
        for object in objects {
            self.upsert(object, interner, outcome);
        }
    }

    fn names(&self, kind: Kind) -> Vec<ObjectName> {
        match kind {
            Kind::Service => self
                .services
                .keys()
                .cloned()
                .map(ObjectName::Service)
                .collect(),
            Kind::EndpointSlice => self.slices.keys().cloned().map(ObjectName::Slice).collect(),
            Kind::Endpoints => self
                .subsets
                .keys()
                .cloned()
                .map(ObjectName::Endpoints)
                .collect(),
            Kind::Node => self.nodes.keys().cloned().map(ObjectName::Node).collect(),
            Kind::ServiceProfile => self
                .profiles
                .keys()
                .cloned()
                .map(ObjectName::Profile)
                .collect(),
            Kind::Pod | Kind::ReplicaSet | Kind::Job | Kind::ExternalWorkload | Kind::Server => {
                self.workloads.names(kind)
            }
        }
    }

    fn upsert(&mut self, object: Object, interner: &mut Interner, outcome: &mut Outcome) {
        match object {
            Object::Service(name, facts) => {
                let name = interner.service(&name);
                self.set_service(name, Some(facts), outcome);
            }
            Object::Slice(name, mut facts) => {
                interner.slice(&mut facts);
                let name = SliceName::new(interner.text(name.namespace.text()), name.name);
                self.set_slice(name, Some(facts), outcome);
            }
            Object::Endpoints(name, mut subsets) => {
                for facts in &mut subsets {
                    interner.slice(facts);
                }
                let name = interner.service(&name);
                self.set_endpoints(&name, subsets, outcome);
            }
            Object::Pod(name, mut facts) => {
                interner.pod_facts(&mut facts);
                let name = interner.pod(&name);
                self.set_workload(&WorkloadName::Pod(name.clone()), outcome, |workloads| {
                    workloads.set_pod(name, Some(facts))
                });
            }
            Object::ExternalWorkload(name, mut facts) => {
                facts.traits = interner.traits(&facts.traits);
                self.set_workload(
                    &WorkloadName::External(name.clone()),
                    outcome,
                    |workloads| workloads.set_external(name, Some(facts)),
                );
            }
            Object::Server(name, facts) => {
                let differ = self.workloads.set_server(&name, Some(facts));
                self.mark(&differ, outcome);
            }
            Object::Node(name, facts) => {
                if self.nodes.get(&name) != Some(&facts) {
                    self.nodes.insert(name.clone(), facts);
                    outcome.nodes.insert(name);
                }
            }
            Object::Owner(name, owner) => {
                let owner = owner.map(|owner| interner.owner(&owner));
                let name = interner.owner_name(&name);
                let differ = self.workloads.set_owner(&name, owner);
                self.mark(&differ, outcome);
            }
            Object::Profile(name, facts) => {
                if self.profiles.get(&name).map(|known| &**known) != Some(&facts) {
                    self.profiles.insert(name.clone(), Arc::new(facts));
                    outcome.profiles.insert(name);
                }
            }
        }
    }

    fn remove(&mut self, name: &ObjectName, outcome: &mut Outcome) {
        match name {
            ObjectName::Service(name) => self.set_service(name.clone(), None, outcome),
            ObjectName::Slice(name) => self.set_slice(name.clone(), None, outcome),
            ObjectName::Endpoints(name) => self.set_endpoints(name, Box::default(), outcome),
            ObjectName::Node(name) => {
                if self.nodes.remove(name).is_some() {
                    outcome.nodes.insert(name.clone());
                }
            }
            ObjectName::Pod(name) => {
                self.set_workload(&WorkloadName::Pod(name.clone()), outcome, |workloads| {
                    workloads.set_pod(name.clone(), None)
                });
            }
            ObjectName::Owner(name) => {
                let differ = self.workloads.remove_owner(name);
                self.mark(&differ, outcome);
            }
            ObjectName::ExternalWorkload(name) => {
                self.set_workload(
                    &WorkloadName::External(name.clone()),
                    outcome,
                    |workloads| workloads.set_external(name.clone(), None),
                );
            }
            ObjectName::Server(name) => {
                let differ = self.workloads.set_server(name, None);
                self.mark(&differ, outcome);
            }
            ObjectName::Profile(name) => {
                if self.profiles.remove(name).is_some() {
                    outcome.profiles.insert(name.clone());
                }
            }
        }
    }

    fn set_service(
        &mut self,
        name: ServiceName,
        facts: Option<ServiceFacts>,
        outcome: &mut Outcome,
    ) {
        let before = self.services.get(&name);
        if before.map(|facts| &**facts) == facts.as_ref() {
            return;
        }
        let ips = |facts: Option<&ServiceFacts>| {
            facts.map_or(Vec::new(), |facts| facts.cluster_ips.to_vec())
        };
        let moved = (ips(before.map(|facts| &**facts)), ips(facts.as_ref()));
        let before = before.map(|facts| &facts.membership);
        let after = facts.as_ref().map(|facts| &facts.membership);
        if before != after {
            outcome
                .memberships
                .push((name.clone(), before.cloned(), after.cloned()));
        }
        if moved.0 != moved.1 {
            self.claims
                .replace(&Claim::Service(name.clone()), &moved.0, &moved.1);
            outcome.addresses.extend(moved.0.into_iter().chain(moved.1));
        }
        match facts {
            Some(facts) => self.services.insert(name.clone(), Arc::new(facts)),
            None => self.services.remove(&name),
        };
        outcome.services.insert(name);
    }

    fn set_slice(&mut self, name: SliceName, facts: Option<SliceFacts>, outcome: &mut Outcome) {
        let old = self.slices.get(&name).cloned();
        if old.as_deref() == facts.as_ref() {
            return;
        }
        self.mentions.set(&name, old.as_deref(), facts.as_ref());
        if let Some(old) = old {
            self.endpoint_count -= old.endpoints.len();
            if facts.as_ref().is_none_or(|new| new.service != old.service) {
                self.drop_chunk(&name, &old.service);
            }
            outcome.services.insert(old.service.clone());
        }
        let Some(facts) = facts else {
            self.slices.remove(&name);
            return;
        };
        self.endpoint_count += facts.endpoints.len();
        self.slices.insert(name.clone(), Arc::new(facts));
        outcome.stale.add(name);
    }

    /// Makes these the subsets of an Endpoints object; one without any says nothing and is not remembered.
    fn set_endpoints(
        &mut self,
        name: &ServiceName,
        subsets: Box<[SliceFacts]>,
        outcome: &mut Outcome,
    ) {
        let after = subsets.len();
        let before = match after {
            0 => self.subsets.remove(name),
            _ => self.subsets.insert(name.clone(), after),
        };
        for (place, facts) in subsets.into_iter().enumerate() {
            self.set_slice(SliceName::of_subset(name, place), Some(facts), outcome);
        }
        for place in after..before.unwrap_or(0) {
            self.set_slice(SliceName::of_subset(name, place), None, outcome);
        }
    }

    /// Takes in what a workload says now, and which addresses it claims.
    fn set_workload(
        &mut self,
        name: &WorkloadName,
        outcome: &mut Outcome,
        set: impl FnOnce(&mut Workloads) -> Vec<WorkloadName>,
    ) {
        let before = self.workloads.claimed_by(name);
        let differ = set(&mut self.workloads);
        if differ.is_empty() {
            return;
        }
        let after = self.workloads.claimed_by(name);
        self.claims.replace(&Claim::from(name), &before, &after);
        outcome.addresses.extend(before);
        self.mark(&differ, outcome);
    }

    /// Something else is said of these workloads now: slices that mention them have to be joined again.
    fn mark(&self, workloads: &[WorkloadName], outcome: &mut Outcome) {
        for workload in workloads {
            outcome
                .addresses
                .extend(self.workloads.claimed_by(workload));
            let workload = Mention::from(workload);
            for slice in self.mentions.slices_of(workload) {
                if outcome.stale.contains(slice) {
                    continue;
                }
                let facts = self.slices.get(slice);
                if facts.is_some_and(|facts| mentions(facts).any(|mention| mention == workload)) {
                    outcome.stale.add(slice.clone());
                }
            }
        }
    }

    /// Joins the stale slices with what is known now.
    fn rejoin(&mut self, outcome: &mut Outcome) {
        let readable = match self.kinds.get(&Kind::Pod) {
            Some(KindState::Unreadable) => PodsReadable::No,
            _ => PodsReadable::Yes,
        };
        let slices: Vec<SliceName> = match std::mem::take(&mut outcome.stale) {
            Stale::Slices(slices) => slices.into_iter().collect(),
            Stale::EverySlice => self.slices.keys().cloned().collect(),
        };
        for slice in slices {
            let Some(facts) = self.slices.get(&slice) else {
                continue;
            };
            let namespace = &facts.service.namespace;
            let chunk = join(
                slice.name,
                Arc::clone(facts),
                readable,
                |pod| self.workloads.pod(pod).cloned(),
                |external| self.workloads.external(namespace, external).cloned(),
            );
            let service = facts.service.clone();
            self.put_chunk(service.clone(), Arc::new(chunk));
            outcome.services.insert(service);
        }
    }

    fn put_chunk(&mut self, service: ServiceName, chunk: Arc<Chunk>) {
        self.behind_endpoints.add(&chunk);
        let chunks = self.chunks_by_service.entry(service).or_default();
        match chunks.binary_search_by(|known| known.name.cmp(&chunk.name)) {
            Ok(place) => {
                self.behind_endpoints.subtract(&chunks[place]);
                Arc::make_mut(chunks)[place] = chunk;
            }
            Err(place) => {
                let (before, after) = chunks.split_at(place);
                *chunks = [before, &[chunk], after].concat().into();
            }
        }
    }

    fn drop_chunk(&mut self, slice: &SliceName, service: &ServiceName) {
        if let Some(chunks) = self.chunks_by_service.get_mut(service) {
            let (others, dropped): (Vec<_>, Vec<_>) = chunks
                .iter()
                .cloned()
                .partition(|chunk| chunk.name != slice.name);
            for chunk in dropped {
                self.behind_endpoints.subtract(&chunk);
            }
            *chunks = others.into();
            if chunks.is_empty() {
                self.chunks_by_service.remove(service);
            }
        }
    }
}

#[cfg(test)]
mod tests;
