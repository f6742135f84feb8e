//! The read side: which Services there are, and how to follow one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::changed::{ChangedServices, Feeds};
use super::channel::{Channel, Subscription};
use super::history::History;
use super::published::Delivery;
use super::reader::{Place, Reader};
use super::said::SaidOnce;
use super::status::StatusBoard;
use super::tables::Tables;
use crate::index::{
    Address, Chunk, ClusterState, ClusterSummary, SelectPolicy, ServiceSnapshot, View,
};
use crate::model::{ClusterName, ClusterRole, NodeName, ServiceFacts, ServiceName, Zone};

/// Different warnings about what clients ask for that are logged.
const WARNINGS_MAX: usize = 200;

/// Services, Nodes and clusters as last published. Cheap to clone; reading never waits for the writer.
#[derive(Clone, Debug)]
pub struct Catalog(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) services: RwLock<HashMap<ServiceName, Arc<Channel>>>,
    pub(super) tables: Tables,
    pub(super) feeds: Feeds,
    pub(super) clusters: watch::Sender<Arc<[ClusterSummary]>>,
    pub(super) history: History,
    /// When something was published last, and how long that took from being received.
    pub(super) last_lag: Mutex<Option<(Instant, Duration)>>,
    /// Told of after Services have come, gone, or say something else of themselves.
    pub(super) service_news: watch::Sender<()>,
    pub(super) policy: SelectPolicy,
    pub(super) board: StatusBoard,
    pub(super) delivery: Delivery,
    said: Mutex<SaidOnce>,
    started: Instant,
}

// === impl Catalog ===

impl Catalog {
    pub(super) fn new(policy: SelectPolicy, board: StatusBoard) -> Self {
        Self(Arc::new(Shared {
            services: RwLock::default(),
            tables: Tables::default(),
            feeds: Feeds::default(),
            clusters: watch::Sender::default(),
            history: History::default(),
            last_lag: Mutex::default(),
            service_news: watch::Sender::default(),
            policy,
            board,
            delivery: Delivery::default(),
            said: Mutex::new(SaidOnce::up_to(WARNINGS_MAX)),
            started: Instant::now(),
        }))
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Follows a Service; `None` if the home cluster does not have it.
    ///
    /// Never creates anything for a name that nobody has.
    pub fn subscribe(&self, service: &ServiceName) -> Option<Subscription> {
        // All under the lock: a channel is only dropped under it, and only while nobody reads it.
        let services = self.0.services.read();
        let channel = services.get(service)?;
        channel.latest().snapshot.facts.as_ref()?;
        Some(Subscription::new(channel, self))
    }

    /// What is known of a Service now; `None` if the home cluster does not have it.
    pub fn snapshot(&self, service: &ServiceName) -> Option<ServiceSnapshot> {
        let services = self.0.services.read();
        let published = services.get(service)?.latest();
        drop(services);
        published.snapshot.facts.as_ref()?;
        Some(published.snapshot.clone())
    }

    /// What every Service of the home cluster says of itself, in no order.
    pub fn service_facts(&self) -> Vec<(ServiceName, Arc<ServiceFacts>)> {
        let services = self.0.services.read();
        let facts = services.iter().filter_map(|(service, channel)| {
            let facts = channel.latest().snapshot.facts.clone()?;
            Some((service.clone(), facts))
        });
        facts.collect()
    }

    /// Tells when [`Self::service_facts`] may be something else.
    pub fn watch_services(&self) -> watch::Receiver<()> {
        self.0.service_news.subscribe()
    }

    /// Follows every Service whose endpoints are looked for elsewhere than in its own slices, or were until it changed.
    pub fn follow_multicluster(&self) -> ChangedServices {
        let (changed, feed) = self.0.feeds.open();
        let services = self.0.services.read();
        let multicluster = services
            .iter()
            .filter(|(_, channel)| channel.latest().snapshot.is_multicluster());
        feed.tell(multicluster.map(|(service, _)| service.clone()));
        changed
    }

    /// Where a client on a Node is, from now on; a Node that nobody has is nowhere, until it is there.
    pub fn place(&self, node: Option<NodeName>) -> Place {
        Place::new(self, node)
    }

    /// A reader that follows whatever it looks at.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }

    /// The slices of the home cluster that name a Service, whether or not it exists; none if no endpoint in them has a
    /// hostname.
    pub fn instances(&self, service: &ServiceName) -> Option<Arc<[Arc<Chunk>]>> {
        self.0.tables.instances.get(service)
    }

    /// Who has an address; nobody is the answer for one that nobody has.
    pub fn address(&self, ip: IpAddr) -> Arc<Address> {
        self.0.tables.addresses.get(&ip).unwrap_or_default()
    }

    /// What a Service of the home cluster says, if it is there.
    pub(super) fn service(&self, name: &ServiceName) -> Option<Arc<ServiceFacts>> {
        let services = self.0.services.read();
        services.get(name)?.latest().snapshot.facts.clone()
    }

    /// Logs that somebody asks for a port that no member of a Service defines, where it is news.
    pub(super) fn note_undefined_port(
        &self,
        snapshot: &ServiceSnapshot,
        port: u16,
        before: Option<&View>,
    ) {
        let defined = |facts: &ServiceFacts| facts.ports.iter().any(|known| known.port == port);
        let mut members = snapshot
            .members
            .iter()
            .filter_map(|member| member.facts.as_deref());
        // A Service without any port may be asked for all of them.
        let is_odd = before.is_none()
            && members.clone().any(|facts| !facts.ports.is_empty())
            && !members.any(defined);
        let service = &snapshot.service;
        if is_odd && self.0.said.lock().is_news(&(service, port)) {
            warn!(%service, port, "service has no such port, its endpoints are served at that number");
        }
    }

    /// The zone of a Node of the home cluster, as far as it is known.
    pub fn zone_of(&self, node: &NodeName) -> Option<Zone> {
        let zone = self.0.tables.zones.get(node)?;
        Some(Zone::clone(&zone))
    }

    /// Every cluster, in name order.
    pub fn clusters(&self) -> Arc<[ClusterSummary]> {
        Arc::clone(&self.0.clusters.borrow())
    }

    /// Follows the clusters: which there are and how far they are known.
    pub fn watch_clusters(&self) -> watch::Receiver<Arc<[ClusterSummary]>> {
        self.0.clusters.subscribe()
    }

    /// Whether every kind of the home cluster has been read.
    pub fn is_home_synced(&self) -> bool {
        home_synced(&self.0.clusters.borrow())
    }

    /// Waits until every kind of the home cluster has been read.
    pub async fn home_synced(&self) {
        let mut clusters = self.0.clusters.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        clusters
            .wait_for(|clusters| home_synced(clusters))
            .await
            .ok();
    }

    /// Since when a cluster has been known; since the start, if it is not.
    pub fn known_since(&self, cluster: &ClusterName) -> Instant {
        self.0.board.known_since(cluster).unwrap_or(self.0.started)
    }

    /// What operators are told about the clusters.
    pub fn board(&self) -> &StatusBoard {
        &self.0.board
    }

    /// Settings that every answer is made with.
    pub fn policy(&self) -> &SelectPolicy {
        &self.0.policy
    }

    /// Number of Services of the home cluster, and of those gone that still have readers.
    pub fn service_count(&self) -> usize {
        self.0.services.read().len()
    }

    /// Number of Services, addresses, ServiceProfiles and Nodes that readers follow one by one.
    pub fn followed_count(&self) -> usize {
        self.0.tables.topics.len()
    }

    /// What is counted of telling streams.
    pub(super) fn delivery(&self) -> &Delivery {
        &self.0.delivery
    }

    /// Number of views that are kept for streams to share.
    pub fn view_count(&self) -> usize {
        let services = self.0.services.read();
        services.values().map(|channel| channel.views.len()).sum()
    }
}

fn home_synced(clusters: &[ClusterSummary]) -> bool {
    clusters
        .iter()
        .any(|known| known.role == ClusterRole::Home && known.state == ClusterState::Synced)
}

// === impl Shared ===

impl Shared {
    /// Drops the channel of a Service that is gone, unless somebody still reads it and waits for it to come back.
    pub(super) fn forget(&self, service: &ServiceName) {
        let mut services = self.services.write();
        let unused = services.get(service).is_some_and(|channel| {
            channel.followers() == 0 && channel.latest().snapshot.facts.is_none()
        });
        if unused {
            services.remove(service);
        }
    }
}
