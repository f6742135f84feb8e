//! The writer: the only owner of the index.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tracing::{info, warn};

use super::catalog::Catalog;
use super::channel::{Channel, Published};
use super::published::ViewTable;
use super::said::SaidOnce;
use super::sender::{ChangeReceiver, Received, Reception};
use super::status::StatusBoard;
use super::tables::Topic;
use crate::index::{
    Address, Clash, ClusterState, ClusterSummary, Index, MemberState, SelectPolicy,
    ServiceSnapshot, Touched,
};
use crate::model::{ClusterName, ClusterRole, ServiceName};
use crate::readiness::Readiness;

/// Changes applied before what they touched is published.
const BATCH_MAX: usize = 256;

/// Different warnings about what clusters say that are logged; more are only counted.
const WARNINGS_MAX: usize = 200;

/// Applies changes and publishes what they touched, in batches: whatever arrived meanwhile is one batch.
#[derive(Debug)]
pub struct Indexer {
    index: Index,
    catalog: Catalog,
    readiness: Readiness,
    metrics: IndexMetrics,
    said: SaidOnce,
    pub(super) revision: u64,
    /// From one publication to the next there is at least this time.
    interval: Duration,
    /// When the next publication may be.
    earliest: Instant,
    /// What was touched since the last publication.
    touched: Touched,
    /// When the changes were received that have been applied since the last publication.
    waiting: Vec<Instant>,
}

/// What the writer counts.
#[derive(Clone, Debug)]
pub struct IndexMetrics {
    changes: Counter,
    published: Counter,
    batch_seconds: Histogram,
    lag_seconds: Histogram,
    clashes: Family<Between, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Between {
    between: &'static str,
}

// === impl Indexer ===

impl Indexer {
    /// An indexer that knows nothing, and the catalog that it will publish to.
    ///
    /// The home cluster's gate stays closed until every kind it needs has been read.
    pub fn new(
        home: ClusterName,
        policy: SelectPolicy,
        board: StatusBoard,
        readiness: Readiness,
        metrics: IndexMetrics,
    ) -> (Self, Catalog) {
        let reasons = (board.clone(), home.clone());
        readiness.explain(gate(&home), move || {
            let (board, home) = &reasons;
            board.status(home)?.waits_for()
        });
        let catalog = Catalog::new(policy, board);
        let indexer = Self {
            index: Index::new(home),
            catalog: catalog.clone(),
            readiness,
            metrics,
            said: SaidOnce::up_to(WARNINGS_MAX),
            revision: 0,
            interval: Duration::ZERO,
            earliest: Instant::now(),
            touched: Touched::default(),
            waiting: Vec::new(),
        };
        indexer.publish_clusters();
        (indexer, catalog)
    }

    /// Publishes at most once in this time: changes that come in between are told as one.
    #[must_use]
    pub fn at_most_every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Works until every sender is gone. Blocks its thread: a large resync may take a while.
    pub fn run(mut self, mut changes: ChangeReceiver) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let until = (!self.waiting.is_empty()).then_some(self.earliest);
            match changes.blocking_receive(&mut batch, BATCH_MAX, until) {
                Reception::Changes => self.apply(&mut batch),
                Reception::Nothing => self.publish_waiting(),
                Reception::Over => break,
            }
        }
        self.publish_waiting();
    }

    /// Takes in changes as one batch.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn say(&mut self, changes: impl IntoIterator<Item = crate::index::Change>) {
        let at = Instant::now();
        let received = |change| Received { change, at };
        self.apply(&mut changes.into_iter().map(received).collect());
        self.publish_waiting();
    }

    fn apply(&mut self, batch: &mut Vec<Received>) {
        let started = Instant::now();
        self.metrics.changes.inc_by(batch.len() as u64);
        for Received { change, at } in batch.drain(..) {
            self.waiting.push(at);
            self.index.apply(change, &mut self.touched);
        }
        if started >= self.earliest {
            self.publish_waiting();
        }
        self.metrics
            .batch_seconds
            .observe(seconds(started.elapsed()));
    }

    /// Publishes what was applied and has not been published yet.
    fn publish_waiting(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        self.publish(&touched);
        let now = Instant::now();
        self.earliest = now + self.interval;
        if let Some(oldest) = self.waiting.first() {
            *self.catalog.shared().last_lag.lock() = Some((now, now - *oldest));
        }
        for at in self.waiting.drain(..) {
            self.metrics.lag_seconds.observe(seconds(now - at));
        }
    }

    fn publish(&mut self, touched: &Touched) {
        let mut news = Vec::new();
        for service in &touched.services {
            if self.publish_service(service) {
                news.push(Topic::Service(service.clone()));
            }
        }
        if !news.is_empty() {
            self.catalog.shared().service_news.send_replace(());
        }
        self.publish_tables(touched, &mut news);
        self.catalog
            .shared()
            .tables
            .topics
            .tell(&news, self.since());
        if touched.clusters {
            self.publish_clusters();
        } else if touched.sizes {
            self.publish_sizes();
        }
    }

    /// Publishes what is looked up rather than followed as a whole, and notes what of it is news.
    fn publish_tables(&mut self, touched: &Touched, news: &mut Vec<Topic>) {
        let catalog = self.catalog.clone();
        let tables = &catalog.shared().tables;
        for service in &touched.services {
            tables.instances.set(service, self.index.instances(service));
        }
        for node in &touched.nodes {
            let zone = self.index.zone_of(node);
            if tables.zones.get(node).as_deref() != zone {
                tables.zones.set(node, zone.cloned().map(Arc::new));
                news.push(Topic::Node(node.clone()));
            }
        }
        for ip in &touched.addresses {
            let address = self.index.address(*ip);
            let address = (!address.is_free()).then(|| Arc::new(address));
            let before = tables.addresses.get(ip);
            if before != address {
                self.note_clashes(*ip, before.as_deref(), address.as_deref());
                tables.addresses.set(ip, address);
                news.push(Topic::Address(*ip));
            }
        }
        for name in &touched.profiles {
            let profile = self.index.profile(name).cloned();
            if tables.profiles.get(name) != profile {
                tables.profiles.set(name, profile);
                news.push(Topic::Profile(name.clone()));
            }
        }
    }

    /// Counts the clashes that are there now, and logs those that are news.
    fn note_clashes(&mut self, ip: IpAddr, before: Option<&Address>, after: Option<&Address>) {
        for clash in before.map(Address::clashes).unwrap_or_default() {
            self.metrics.clashes(clash).dec();
        }
        let Some(after) = after else { return };
        for clash in after.clashes() {
            self.metrics.clashes(clash).inc();
            let claimants = after.claimants(clash);
            if !self.said.is_news(&(ip, clash, &claimants)) {
                continue;
            }
            let claimants = claimants.join(", ");
            match clash {
                Clash::Services => warn!(
                    address = %ip,
                    claimants,
                    "services have one cluster IP, profiles of it are refused"
                ),
                Clash::Pods => warn!(
                    address = %ip,
                    claimants,
                    "pods have one IP, profiles of it are refused"
                ),
                Clash::PodAndExternalWorkload => warn!(
                    address = %ip,
                    claimants,
                    "external workload is registered on the IP of a pod, the pod counts"
                ),
                Clash::ExternalWorkloads => warn!(
                    address = %ip,
                    claimants,
                    "external workloads list one port of one IP, profiles of it are refused"
                ),
            }
        }
    }

    /// Logs members in clusters that are not linked, where it is news.
    fn note_unlinked_members(&mut self, snapshot: &ServiceSnapshot) {
        for member in &snapshot.members {
            let cluster = &member.cluster.name;
            if member.state == MemberState::NotLinked
                && self.said.is_news(&(&snapshot.service, cluster))
            {
                warn!(
                    service = %snapshot.service,
                    %cluster,
                    "service names a cluster that is not linked"
                );
            }
        }
    }

    /// Publishes what is known of a Service; true if it says something else of itself now.
    fn publish_service(&mut self, service: &ServiceName) -> bool {
        let snapshot = self.index.snapshot(service);
        self.note_unlinked_members(&snapshot);
        let known = self.catalog.shared().services.read().get(service).cloned();
        match known {
            Some(channel) => {
                let before = channel.latest();
                let was_multicluster;
                let facts_differ = {
                    let before = &before.snapshot;
                    if before.same(&snapshot) {
                        return false;
                    }
                    was_multicluster = before.is_multicluster();
                    before.facts != snapshot.facts
                };
                let is_multicluster = was_multicluster || snapshot.is_multicluster();
                let gone = snapshot.facts.is_none();
                let next = self.next(snapshot, before.sequence + 1);
                channel.publish(Arc::clone(&next));
                // What is read for the first time is no change of anything.
                if self.catalog.is_home_synced() {
                    let history = &self.catalog.shared().history;
                    history.replaced(before, &next.snapshot);
                }
                if gone {
                    self.catalog.shared().forget(service);
                }
                if is_multicluster {
                    self.catalog.shared().feeds.tell(service);
                }
                facts_differ
            }
            None if snapshot.facts.is_none() => false,
            None => {
                let is_multicluster = snapshot.is_multicluster();
                let views = ViewTable::new(self.catalog.delivery());
                let channel = Arc::new(Channel::new(self.next(snapshot, 0), views));
                self.catalog
                    .shared()
                    .services
                    .write()
                    .insert(service.clone(), channel);
                if is_multicluster {
                    self.catalog.shared().feeds.tell(service);
                }
                true
            }
        }
    }

    fn next(&mut self, snapshot: ServiceSnapshot, sequence: u64) -> Arc<Published> {
        self.revision += 1;
        self.metrics.published.inc();
        Arc::new(Published {
            revision: self.revision,
            sequence,
            since: self.since(),
            snapshot,
        })
    }

    /// When the oldest change was received that has not been published yet.
    fn since(&self) -> Instant {
        self.waiting.first().copied().unwrap_or_else(Instant::now)
    }

    fn publish_clusters(&self) {
        let clusters = self.index.clusters();
        log_synced(&self.catalog.clusters(), &clusters);
        for cluster in &clusters {
            let gate = gate(&cluster.name);
            if cluster.role == ClusterRole::Home {
                match cluster.state {
                    ClusterState::Synced => self.readiness.open(&gate),
                    ClusterState::Syncing => self.readiness.close(gate),
                }
            }
        }
        self.catalog.shared().clusters.send_replace(clusters.into());
    }

    /// Publishes how large the clusters are now. Nobody is woken for that.
    fn publish_sizes(&self) {
        let clusters = self.index.clusters();
        self.catalog
            .shared()
            .clusters
            .send_if_modified(|published| {
                *published = clusters.into();
                false
            });
    }
}

// === impl IndexMetrics ===

impl IndexMetrics {
    /// Registers the writer's metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            changes: Counter::default(),
            published: Counter::default(),
            batch_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 9)),
            lag_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 9)),
            clashes: Family::default(),
        };
        for clash in Clash::ALL {
            metrics.clashes(clash).set(0);
        }
        registry.register(
            "changes",
            "Changes applied to the index",
            metrics.changes.clone(),
        );
        registry.register(
            "published_snapshots",
            "Service snapshots published because something in them changed",
            metrics.published.clone(),
        );
        registry.register_with_unit(
            "batch_duration",
            "Time to apply one batch of changes and publish what it touched",
            Unit::Seconds,
            metrics.batch_seconds.clone(),
        );
        registry.register_with_unit(
            "publish_lag",
            "Time from receiving a change to publishing what it touched",
            Unit::Seconds,
            metrics.lag_seconds.clone(),
        );
        registry.register(
            "address_clashes",
            "Addresses that several claim who should not, by who they are",
            metrics.clashes.clone(),
        );
        metrics
    }

    fn clashes(&self, clash: Clash) -> Gauge {
        let between = clash.as_str();
        self.clashes.get_or_create_owned(&Between { between })
    }
}

/// Logs the clusters that count from now on.
fn log_synced(before: &[ClusterSummary], now: &[ClusterSummary]) {
    for cluster in now {
        let was_synced = before
            .iter()
            .any(|known| known.name == cluster.name && known.state == ClusterState::Synced);
        if cluster.state == ClusterState::Synced && !was_synced {
            info!(
                cluster = %cluster.name,
                services = cluster.services,
                endpoints = cluster.endpoints,
                "cluster synced"
            );
        }
    }
}

/// The gate that is closed until a cluster has been read.
fn gate(cluster: &ClusterName) -> String {
    format!("cluster {cluster}")
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
