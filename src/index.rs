//! The pure core: facts in, immutable snapshots out.
//!
//! [`Index`] is what every cluster has said so far. It is owned by one writer, which feeds it [`Change`]s and asks it for
//! the [`ServiceSnapshot`]s that a change touched. [`select`](select::select) turns a snapshot into the [`View`] of one
//! kind of client, [`diff`](diff::diff) two views into the [`Delta`] between them. There is no clock, I/O, randomness or
//! protocol in here: every answer is a function of what is known and who asks.

mod address;
mod cause;
mod change;
mod claims;
mod cluster;
mod counts;
mod diff;
mod explain;
mod intern;
mod join;
mod mesh;
mod select;
mod shard;
mod snapshot;
mod withhold;

#[cfg(test)]
mod properties;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

pub use address::{Address, AddressOwner, Claimants, Clash, Conflict, Holder, Tenant};
pub use cause::{Cause, causes};
pub use change::{Change, Kind, Object, ObjectChange, ObjectName};
pub use cluster::{ClusterState, ClusterSummary};
pub use counts::Counts;
pub use diff::{Delta, apply, diff};
pub use explain::{ExplainedMember, ExplainedSlice, Rule, explain};
pub use join::{Chunk, Held, Joined};
pub use mesh::{Identity, IdentityForm, Mesh, MeshPolicy, Protocol, ProxyUnreadable};
pub use select::{
    Candidate, ClientLocality, Collision, Exclusion, Families, Locality, SelectPolicy, Silence,
    View, ViewEndpoint, ViewKey, examine, select,
};
pub use snapshot::{Member, MemberState, ServiceSnapshot};
pub use withhold::{Withheld, Withholding};

use crate::model::{
    CLUSTER_SERVICE, ClusterFacts, ClusterName, ClusterRole, Membership, NodeName, ProfileFacts,
    ProfileName, ServiceName, SessionId, Text, Zone,
};
use cluster::{Cluster, Session};
use intern::Interner;
use shard::Shard;

/// Everything that the home cluster and its linked clusters have said.
#[derive(Debug)]
pub struct Index {
    home: ClusterName,
    clusters: BTreeMap<ClusterName, Cluster>,
    links_known: bool,
    /// Kept for the home cluster's contributing session only; empty until the home cluster is synced.
    dependents: Dependents,
    interner: Interner,
}

/// What a batch of changes may have altered; an over-approximation, in name order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Home Services whose snapshot has to be made again.
    pub services: BTreeSet<ServiceName>,
    /// Addresses of which has to be asked again who has them.
    pub addresses: BTreeSet<IpAddr>,
    /// ServiceProfiles of the home cluster that have to be looked at again.
    pub profiles: BTreeSet<ProfileName>,
    /// Nodes of the home cluster whose zones have to be looked at again.
    pub nodes: BTreeSet<NodeName>,
    /// Whether a cluster came, went, or changed its state.
    pub clusters: bool,
    /// Whether something that is counted of a cluster changed.
    pub sizes: bool,
}

/// Which home Services look at a Service of a cluster, other than the Service itself.
type Dependents = BTreeMap<ClusterName, HashMap<ServiceName, BTreeSet<ServiceName>>>;

// === impl Index ===

impl Index {
    /// An index that knows nothing but the home cluster's name.
    pub fn new(home: ClusterName) -> Self {
        let clusters = BTreeMap::from([(home.clone(), Cluster::new(ClusterRole::Home))]);
        Self {
            home,
            clusters,
            links_known: false,
            dependents: Dependents::new(),
            interner: Interner::default(),
        }
    }

    /// Takes in one change and notes what it may have altered.
    ///
    /// What is said in a session that has ended or been replaced is ignored.
    pub fn apply(&mut self, change: Change, touched: &mut Touched) {
        match change {
            Change::Linked { cluster } => {
                if cluster != self.home && !self.clusters.contains_key(&cluster) {
                    self.clusters
                        .insert(cluster.clone(), Cluster::new(ClusterRole::Linked));
                    touched.clusters = true;
                    self.touch_dependents_of_cluster(&cluster, touched);
                }
            }
            Change::Unlinked { cluster } => {
                if cluster != self.home
                    && let Some(gone) = self.clusters.remove(&cluster)
                {
                    touched.addresses.extend(gone.addresses());
                    touched.clusters = true;
                    touched.sizes = true;
                    self.touch_dependents_of_cluster(&cluster, touched);
                }
            }
            Change::LinksKnown => {
                if !self.links_known {
                    self.links_known = true;
                    touched.clusters = true;
                    self.touch_every_remote_member(touched);
                }
            }
            Change::Opened { facts, session } => self.open(facts, session, touched),
            Change::Withheld { cluster, withheld } => {
                let known = self.clusters.get_mut(&cluster);
                if let Some(known) = known.filter(|known| known.role == ClusterRole::Linked) {
                    touched.clusters |= known.withheld != withheld;
                    known.withheld = withheld;
                    self.touch_dependents_of_cluster(&cluster, touched);
                }
            }
            Change::Object {
                cluster,
                session,
                change,
            } => self.apply_object(&cluster, session, change, touched),
        }
    }

    /// What is known of a Service of the home cluster, over all its members.
    ///
    /// A Service that the home cluster does not have gives a snapshot that says so; until the home cluster is synced, it
    /// has none.
    pub fn snapshot(&self, service: &ServiceName) -> ServiceSnapshot {
        let Some(home) = self.home_shard() else {
            return ServiceSnapshot::missing(service.clone(), MemberState::Syncing);
        };
        let Some(facts) = home.service(service) else {
            return ServiceSnapshot::missing(service.clone(), MemberState::Synced);
        };
        let members = match &facts.membership {
            Membership::Local => vec![self.local_member(service.clone())],
            Membership::Remote(remote) => match &remote.service {
                Some(name) => {
                    let member = ServiceName::new(service.namespace.clone(), name.clone());
                    vec![self.remote_member(&remote.cluster, member)]
                }
                None => Vec::new(),
            },
            Membership::Federated(federation) => {
                let local = federation.local.iter().map(|name| {
                    self.local_member(ServiceName::new(service.namespace.clone(), name.clone()))
                });
                let remote = federation.remote.iter().map(|(cluster, name)| {
                    let member = ServiceName::new(service.namespace.clone(), name.clone());
                    self.remote_member(cluster, member)
                });
                local.chain(remote).collect()
            }
        };
        let beside = match &facts.membership {
            Membership::Local => Arc::default(),
            Membership::Remote(_) | Membership::Federated(_) => home.chunks(service),
        };
        ServiceSnapshot {
            service: service.clone(),
            home: MemberState::Synced,
            facts: Some(Arc::clone(facts)),
            members: members.into(),
            beside,
        }
    }

    /// Who has an address, over every synced cluster; nobody until the home cluster is.
    pub fn address(&self, ip: IpAddr) -> Address {
        let Some(home) = self.home_session() else {
            return Address::default();
        };
        let has_it = |holder: &Holder| {
            let pod = &holder.workload.facts;
            !pod.host_network && pod.has_ip(ip)
        };
        let (pods, host_ports): (Vec<_>, Vec<_>) = home.holders(ip).partition(has_it);
        let linked = self
            .clusters
            .values()
            .filter(|cluster| cluster.role == ClusterRole::Linked)
            .filter_map(Cluster::synced_session)
            .flat_map(|session| session.holders(ip))
            .filter(has_it);
        Address {
            services: home.shard.services_at(ip),
            pods: pods.into(),
            host_ports: host_ports.into(),
            external: home.shard.external_at(ip).cloned().collect(),
            remote: linked.collect(),
        }
    }

    /// What a ServiceProfile of the home cluster says, if it is there.
    pub fn profile(&self, name: &ProfileName) -> Option<&Arc<ProfileFacts>> {
        self.home_shard()?.profile(name)
    }

    /// The slices of the home cluster that name a Service, whether or not it exists, if any endpoint in them has a hostname.
    pub fn instances(&self, service: &ServiceName) -> Option<Arc<[Arc<Chunk>]>> {
        self.home_shard()?.instances(service)
    }

    /// Every Service of the home cluster, in no particular order; none until it is synced.
    pub fn home_services(&self) -> impl Iterator<Item = &ServiceName> {
        self.home_shard().into_iter().flat_map(Shard::service_names)
    }

    /// The zone of a Node of the home cluster, as far as it is known; `None` until the cluster is synced.
    pub fn zone_of(&self, node: &NodeName) -> Option<&Zone> {
        self.home_shard()?.zone_of(node)
    }

    /// Whether every link has been reported: a cluster that is not known now is not linked.
    pub fn links_known(&self) -> bool {
        self.links_known
    }

    /// Every known cluster, in name order.
    pub fn clusters(&self) -> Vec<ClusterSummary> {
        self.clusters
            .iter()
            .map(|(name, cluster)| cluster.summary(name))
            .collect()
    }

    fn home_session(&self) -> Option<&Session> {
        self.clusters[&self.home].synced_session()
    }

    fn home_shard(&self) -> Option<&Shard> {
        self.home_session().map(|session| &session.shard)
    }

    fn open(&mut self, facts: Arc<ClusterFacts>, session: SessionId, touched: &mut Touched) {
        let name = facts.name.clone();
        let role = if name == self.home {
            ClusterRole::Home
        } else {
            ClusterRole::Linked
        };
        if facts.role != role {
            return;
        }
        let known = self.clusters.contains_key(&name);
        let cluster = self
            .clusters
            .entry(name.clone())
            .or_insert_with(|| Cluster::new(role));
        let opened = Session {
            id: session,
            shard: Shard::new(&facts),
            facts,
        };
        if cluster.state() == ClusterState::Synced {
            cluster.next = Some(opened);
        } else {
            cluster.next = None;
            cluster.live = Some(opened);
        }
        touched.clusters = true;
        touched.sizes = true;
        if !known {
            self.touch_dependents_of_cluster(&name, touched);
        }
    }

    fn apply_object(
        &mut self,
        name: &ClusterName,
        session: SessionId,
        change: ObjectChange,
        touched: &mut Touched,
    ) {
        let Some(cluster) = self.clusters.get_mut(name) else {
            return;
        };
        let home = cluster.role == ClusterRole::Home;
        if let Some(live) = cluster.live.as_mut().filter(|live| live.id == session) {
            let was_synced = live.shard.is_synced();
            let outcome = live.shard.apply(change, &mut self.interner);
            touched.clusters |= outcome.sync_changed;
            touched.sizes |= outcome.sizes;
            if was_synced {
                touched.addresses.extend(outcome.addresses);
                touched.clusters |= outcome.services.iter().any(is_cluster_service);
                if home {
                    touched.nodes.extend(outcome.nodes);
                    touched.profiles.extend(outcome.profiles);
                    for (service, before, after) in &outcome.memberships {
                        self.dependents_replace(service, before.as_ref(), after.as_ref());
                    }
                }
                for service in outcome.services {
                    self.touch_service(name, service, touched);
                }
            } else if live.shard.is_synced() {
                self.begin_contributing(name, touched);
            }
        } else if let Some(next) = cluster.next.as_mut().filter(|next| next.id == session) {
            next.shard.apply(change, &mut self.interner);
            if next.shard.is_synced() {
                let next = cluster.next.take();
                touched.addresses.extend(cluster.addresses());
                if home {
                    // Services that only the old session knows are gone now.
                    self.touch_cluster(name, touched);
                }
                if let Some(cluster) = self.clusters.get_mut(name) {
                    cluster.live = next;
                }
                touched.clusters = true;
                touched.sizes = true;
                self.begin_contributing(name, touched);
            }
        }
    }

    /// A session has read everything: all that it has said counts from now on.
    fn begin_contributing(&mut self, name: &ClusterName, touched: &mut Touched) {
        if *name == self.home {
            self.rebuild_dependents();
            // Nobody had any address before.
            let everywhere = self.clusters.values().flat_map(Cluster::addresses);
            touched.addresses.extend(everywhere);
        }
        self.touch_cluster(name, touched);
    }

    fn local_member(&self, service: ServiceName) -> Member {
        self.clusters[&self.home].member(&self.home, service)
    }

    fn remote_member(&self, cluster: &ClusterName, service: ServiceName) -> Member {
        match self.clusters.get(cluster) {
            Some(known) if known.role == ClusterRole::Linked => known.member(cluster, service),
            _ if self.links_known => {
                Member::without_cluster(cluster, service, MemberState::NotLinked)
            }
            _ => Member::without_cluster(cluster, service, MemberState::Syncing),
        }
    }

    // --- who looks at what ---

    fn touch_service(&self, cluster: &ClusterName, service: ServiceName, touched: &mut Touched) {
        if let Some(dependents) = self
            .dependents
            .get(cluster)
            .and_then(|by_service| by_service.get(&service))
        {
            touched.services.extend(dependents.iter().cloned());
        }
        if *cluster == self.home {
            touched.services.insert(service);
        }
    }

    fn touch_cluster(&self, cluster: &ClusterName, touched: &mut Touched) {
        if *cluster == self.home {
            let home = self.home_shard();
            let profiles = home.into_iter().flat_map(Shard::profile_names);
            // Instances are found by their slices alone, so that a Service of theirs need not exist.
            let sliced = home.into_iter().flat_map(Shard::services_with_slices);
            touched.services.extend(self.home_services().cloned());
            touched.services.extend(sliced.cloned());
            touched.profiles.extend(profiles.cloned());
            let nodes = home.into_iter().flat_map(Shard::node_names);
            touched.nodes.extend(nodes.cloned());
        }
        if let Some(known) = self.clusters.get(cluster) {
            touched.addresses.extend(known.addresses());
        }
        self.touch_dependents_of_cluster(cluster, touched);
    }

    fn touch_dependents_of_cluster(&self, cluster: &ClusterName, touched: &mut Touched) {
        if let Some(by_service) = self.dependents.get(cluster) {
            touched
                .services
                .extend(by_service.values().flatten().cloned());
        }
    }

    fn touch_every_remote_member(&self, touched: &mut Touched) {
        for cluster in self.dependents.keys() {
            self.touch_dependents_of_cluster(cluster, touched);
        }
    }

    fn rebuild_dependents(&mut self) {
        self.dependents.clear();
        let services: Vec<_> = self
            .home_shard()
            .into_iter()
            .flat_map(Shard::services)
            .filter(|(_, facts)| facts.membership != Membership::Local)
            .map(|(name, facts)| (name.clone(), Arc::clone(facts)))
            .collect();
        for (service, facts) in services {
            self.dependents_replace(&service, None, Some(&facts.membership));
        }
    }

    fn dependents_replace(
        &mut self,
        service: &ServiceName,
        before: Option<&Membership>,
        after: Option<&Membership>,
    ) {
        for (cluster, member) in before
            .into_iter()
            .flat_map(|m| members_of(m, &self.home, service))
        {
            if let Some(by_service) = self.dependents.get_mut(&cluster) {
                if let Some(dependents) = by_service.get_mut(&member) {
                    dependents.remove(service);
                    if dependents.is_empty() {
                        by_service.remove(&member);
                    }
                }
                if by_service.is_empty() {
                    self.dependents.remove(&cluster);
                }
            }
        }
        for (cluster, member) in after
            .into_iter()
            .flat_map(|m| members_of(m, &self.home, service))
        {
            self.dependents
                .entry(cluster)
                .or_default()
                .entry(member)
                .or_default()
                .insert(service.clone());
        }
    }
}

/// The Services, other than `service` itself, that make up its answer.
fn members_of(
    membership: &Membership,
    home: &ClusterName,
    service: &ServiceName,
) -> Vec<(ClusterName, ServiceName)> {
    let named = |name: &Text| ServiceName::new(service.namespace.clone(), name.clone());
    match membership {
        Membership::Local => Vec::new(),
        Membership::Remote(remote) => remote
            .service
            .iter()
            .map(|name| (remote.cluster.clone(), named(name)))
            .collect(),
        Membership::Federated(federation) => federation
            .local
            .iter()
            .map(|name| (home.clone(), named(name)))
            .chain(
                federation
                    .remote
                    .iter()
                    .map(|(cluster, name)| (cluster.clone(), named(name))),
            )
            .collect(),
    }
}

/// Whether it is the Service whose uid tells clusters apart.
fn is_cluster_service(service: &ServiceName) -> bool {
    let (namespace, name) = CLUSTER_SERVICE;
    service.namespace.as_str() == namespace && service.name.as_str() == name
}
