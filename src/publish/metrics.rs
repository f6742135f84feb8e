//! What scrapers are told of clusters and views, read from the catalog when they ask.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::catalog::Catalog;
use super::published::Delivery;
use super::status::Connection;
use super::tables::Sort;
use crate::index::{ClusterState, Held, Kind};
use crate::model::ClusterRole;

/// Describes the clusters at each scrape; the number of series follows the number of clusters.
#[derive(Debug)]
pub struct ClusterCollector(Catalog);

/// What Linkerd's destination controller says of its caches and its watchers, under the names it has there.
///
/// No label names a Service or a client, as some do there: a sum over all of them is what is left.
#[derive(Debug)]
pub struct LinkerdCollector(Catalog);

/// What the home cluster is called there.
const LOCAL: &str = "local";

/// Name, help, unit, and the value of each cluster.
type ClusterGauge<'a> = (&'a str, &'a str, Option<Unit>, Vec<(String, f64)>);

/// One gauge with a value per cluster.
struct PerCluster<'a>(&'a [(String, f64)]);

// === impl ClusterCollector ===

impl ClusterCollector {
    /// A collector that reads a catalog.
    pub fn new(catalog: Catalog) -> Self {
        Self(catalog)
    }
}

impl Collector for ClusterCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let summaries = self.0.clusters();
        let states = self.0.board().all();
        let summarised = |value: fn(&crate::index::ClusterSummary) -> f64| -> Vec<(String, f64)> {
            summaries
                .iter()
                .map(|summary| (summary.name.to_string(), value(summary)))
                .collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let gauges: [ClusterGauge<'_>; 6] = [
            (
                "cluster_services",
                "Services known of each cluster",
                None,
                summarised(|summary| summary.services as f64),
            ),
            (
                "cluster_endpoints",
                "Addresses that each cluster's EndpointSlices list",
                None,
                summarised(|summary| summary.endpoints as f64),
            ),
            (
                "cluster_endpoints_without_pods",
                "Addresses that are served without identity, since the cluster's Pods may not be read",
                None,
                summarised(|summary| summary.counts.unreadable() as f64),
            ),
            (
                "cluster_synced",
                "1 if every kind of the cluster's objects has been read, else 0",
                None,
                summarised(|summary| f64::from(summary.state == ClusterState::Synced)),
            ),
            (
                "cluster_connected",
                "1 if the cluster's API server can be used now, else 0",
                None,
                states
                    .iter()
                    .map(|status| {
                        let connected = status.connection == Connection::Connected;
                        (status.name.to_string(), f64::from(connected))
                    })
                    .collect(),
            ),
            (
                "cluster_age",
                "Time since the last sign of life of the cluster's quietest watch",
                Some(Unit::Seconds),
                states
                    .iter()
                    .filter_map(|status| Some((status.name.to_string(), status.age?.as_secs_f64())))
                    .collect(),
            ),
        ];
        for (name, help, unit, values) in &gauges {
            let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            PerCluster(values).encode(metric)?;
        }
        let mut metric = encoder.encode_descriptor(
            "cluster_endpoints_held",
            "Addresses that are not served though EndpointSlices list them, by what keeps them back",
            None,
            MetricType::Gauge,
        )?;
        for summary in summaries.iter() {
            for reason in Held::ALL {
                let labels = [
                    ("cluster", summary.name.as_str()),
                    ("reason", reason.as_str()),
                ];
                let held = summary.counts.held(reason) as u64;
                metric.encode_family(&labels)?.encode_gauge(&held)?;
            }
        }
        self.encode_shared(&mut encoder)
    }
}

impl ClusterCollector {
    /// What is there of everything together.
    fn encode_shared(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Delivery {
            coalesced,
            pinned_bytes,
        } = self.0.delivery();
        encoder
            .encode_descriptor(
                "coalesced_changes",
                "States of Services that streams were not told by themselves, since a newer one was there when they were ready",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, u64>(&coalesced.get(), None)?;
        let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let gauges = [
            (
                "views",
                "Views that streams share now",
                None,
                count(self.0.view_count()),
            ),
            (
                "pinned",
                "Views that are kept for streams only which have not been told the latest",
                Some(Unit::Bytes),
                pinned_bytes.get(),
            ),
            (
                "followed",
                "Services, addresses, ServiceProfiles and Nodes that streams follow one by one now",
                None,
                count(self.0.followed_count()),
            ),
            (
                "services",
                "Services of the home cluster, and those gone that streams still wait for",
                None,
                count(self.0.service_count()),
            ),
        ];
        for (name, help, unit, value) in &gauges {
            encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?
                .encode_gauge(value)?;
        }
        Ok(())
    }
}

// === impl LinkerdCollector ===

impl LinkerdCollector {
    /// A collector that reads a catalog.
    pub fn new(catalog: Catalog) -> Self {
        Self(catalog)
    }
}

impl Collector for LinkerdCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let clusters = self.0.clusters();
        let linked = clusters
            .iter()
            .filter(|cluster| cluster.role == ClusterRole::Linked)
            .count();
        let topics = &self.0.shared().tables.topics;
        let gauges = [
            ("cluster_store_size", "Linked clusters", linked),
            (
                "service_subscribers",
                "Profile streams that follow a Service, once for each that they follow",
                topics.reader_count(Sort::Service),
            ),
            (
                "workload_subscribers",
                "Profile streams that follow an address",
                topics.reader_count(Sort::Address),
            ),
            (
                "profile_subscribers",
                "Profile streams that follow a ServiceProfile, once for each that they follow",
                topics.reader_count(Sort::Profile),
            ),
        ];
        for (name, help, value) in gauges {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&(value as u64))?;
        }
        for kind in Kind::ALL {
            let name = format!("{}_cache_size", cache_name(kind));
            let mut metric = encoder.encode_descriptor(
                &name,
                "Objects of this kind that are kept of each cluster",
                None,
                MetricType::Gauge,
            )?;
            for cluster in clusters.iter() {
                // What is not watched is not known to be nought.
                let Some(objects) = cluster.counts.objects(kind) else {
                    continue;
                };
                let name = match cluster.role {
                    ClusterRole::Home => LOCAL,
                    ClusterRole::Linked => cluster.name.as_str(),
                };
                metric
                    .encode_family(&[("cluster", name)])?
                    .encode_gauge(&(objects as u64))?;
            }
        }
        Ok(())
    }
}

/// How a kind's cache is called there.
fn cache_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Service => "service",
        Kind::EndpointSlice => "endpointslices",
        Kind::Endpoints => "endpoints",
        Kind::Pod => "pod",
        Kind::Node => "node",
        Kind::ReplicaSet => "replicaset",
        Kind::Job => "job",
        Kind::ExternalWorkload => "externalworkload",
        Kind::Server => "server",
        Kind::ServiceProfile => "serviceprofile",
    }
}

// === impl PerCluster ===

impl EncodeMetric for PerCluster<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (cluster, value) in self.0 {
            let labels = [("cluster", cluster.as_str())];
            encoder.encode_family(&labels)?.encode_gauge(value)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
