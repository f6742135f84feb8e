//! The read side: which Services there are, and how to follow one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::changed::{ChangedServices, Feeds};
use super::news::{Follower, News};
use super::published::{ViewTable, ViewVersion};
use super::reader::Reader;
use super::said::SaidOnce;
use super::status::StatusBoard;
use super::tables::Tables;
use crate::index::{
    Address, Chunk, ClientLocality, ClusterState, ClusterSummary, SelectPolicy, ServiceSnapshot,
    View, ViewKey,
};
use crate::model::{ClusterName, ClusterRole, NodeName, ServiceFacts, ServiceName, Text, Zone};

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
    pub(super) node_zones: watch::Sender<Arc<HashMap<NodeName, Zone>>>,
    /// Of `node_zones`.
    pub(super) zone_news: Arc<News>,
    pub(super) clusters: watch::Sender<Arc<[ClusterSummary]>>,
    pub(super) policy: SelectPolicy,
    pub(super) board: StatusBoard,
    said: Mutex<SaidOnce>,
    started: Instant,
}

/// One published state of a Service.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) revision: u64,
    pub(super) snapshot: ServiceSnapshot,
}

/// How one Service reaches its readers: always the latest state, and the views they share.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) latest: watch::Sender<Arc<Published>>,
    /// Of `latest`; told of after it is replaced.
    pub(super) news: Arc<News>,
    pub(super) views: ViewTable,
}

/// One reader's hold on a Service. The last one to let go takes what was kept for readers along.
#[derive(Debug)]
pub struct Subscription {
    channel: Arc<Channel>,
    /// Always there, but for the end of `drop`.
    latest: Option<watch::Receiver<Arc<Published>>>,
    news: Follower,
    zone_news: Follower,
    catalog: Catalog,
}

// === impl Catalog ===

impl Catalog {
    pub(super) fn new(policy: SelectPolicy, board: StatusBoard) -> Self {
        Self(Arc::new(Shared {
            services: RwLock::default(),
            tables: Tables::default(),
            feeds: Feeds::default(),
            node_zones: watch::Sender::default(),
            zone_news: Arc::default(),
            clusters: watch::Sender::default(),
            policy,
            board,
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
        let latest = channel.latest.subscribe();
        latest.borrow().snapshot.facts.as_ref()?;
        Some(Subscription {
            channel: Arc::clone(channel),
            latest: Some(latest),
            news: channel.news.follow(),
            zone_news: self.0.zone_news.follow(),
            catalog: self.clone(),
        })
    }

    /// What is known of a Service now; `None` if the home cluster does not have it.
    pub fn snapshot(&self, service: &ServiceName) -> Option<ServiceSnapshot> {
        let services = self.0.services.read();
        let published = Arc::clone(&services.get(service)?.latest.borrow());
        drop(services);
        published.snapshot.facts.as_ref()?;
        Some(published.snapshot.clone())
    }

    /// Follows every Service whose endpoints are looked for elsewhere than in its own slices, or were until it changed.
    pub fn follow_multicluster(&self) -> ChangedServices {
        let (changed, feed) = self.0.feeds.open();
        let services = self.0.services.read();
        let multicluster = services
            .iter()
            .filter(|(_, channel)| channel.latest.borrow().snapshot.is_multicluster());
        feed.tell(multicluster.map(|(service, _)| service.clone()));
        changed
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
        let latest = services.get(name)?.latest.borrow();
        latest.snapshot.facts.clone()
    }

    /// Logs that somebody asks for a port that no member of a Service defines, where it is news.
    fn note_undefined_port(&self, snapshot: &ServiceSnapshot, port: u16, before: Option<&View>) {
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
        self.0.node_zones.borrow().get(node).cloned()
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

    /// Number of Services, addresses and ServiceProfiles that readers follow one by one.
    pub fn followed_count(&self) -> usize {
        self.0.tables.topics.len()
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

// === impl Subscription ===

impl Subscription {
    fn published(&self) -> Arc<Published> {
        Arc::clone(&self.channel.latest.borrow())
    }

    /// What is known of the Service now.
    pub fn snapshot(&self) -> ServiceSnapshot {
        self.published().snapshot.clone()
    }

    /// Looks at what is known of the Service now, without copying it.
    pub fn with_snapshot<T>(&self, look: impl FnOnce(&ServiceSnapshot) -> T) -> T {
        look(&self.published().snapshot)
    }

    /// What a client is to be told now. Clients that are told the same share one version.
    pub fn view(
        &self,
        port: u16,
        instance: Option<&Text>,
        client: &ClientLocality,
    ) -> Arc<ViewVersion> {
        let published = self.published();
        let snapshot = &published.snapshot;
        let key = ViewKey::new(snapshot, port, instance.cloned(), client);
        let policy = self.catalog.policy();
        self.channel.views.view(
            published.revision,
            snapshot,
            &key,
            policy,
            |view, before| {
                self.catalog.note_undefined_port(snapshot, port, before);
                for collision in &view.collisions {
                    if before.is_none_or(|before| !before.collisions.contains(collision)) {
                        warn!(
                            service = %snapshot.service,
                            address = %collision.socket,
                            serving = %collision.winner,
                            ignoring = %collision.loser,
                            "two clusters claim one address"
                        );
                    }
                }
            },
        )
    }

    /// Waits until the Service, or the zone of any Node, may have changed.
    pub async fn changed(&mut self) {
        std::future::poll_fn(|context| self.poll_changed(context)).await;
    }

    /// Ready when the Service, or the zone of any Node, may have changed since this was ready last.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Both, so that whichever comes next wakes.
        let news = self.news.poll_news(context);
        let zone_news = self.zone_news.poll_news(context);
        if news.is_ready() || zone_news.is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Let go first, look then: the writer publishes first and counts the readers then, so one of the two notices.
        self.latest = None;
        if self.channel.latest.receiver_count() > 0 {
            return;
        }
        self.channel.views.sweep();
        let published = self.published();
        if published.snapshot.facts.is_none() {
            self.catalog.shared().forget(&published.snapshot.service);
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Drops the channel of a Service that is gone, unless somebody still reads it and waits for it to come back.
    pub(super) fn forget(&self, service: &ServiceName) {
        let mut services = self.services.write();
        let unused = services.get(service).is_some_and(|channel| {
            channel.latest.receiver_count() == 0 && channel.latest.borrow().snapshot.facts.is_none()
        });
        if unused {
            services.remove(service);
        }
    }
}
