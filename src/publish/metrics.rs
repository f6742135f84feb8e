//! What scrapers are told of clusters and views, read from the catalog when they ask.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::catalog::Catalog;
use super::status::Connection;
use crate::index::ClusterState;

/// Describes the clusters at each scrape; the number of series follows the number of clusters.
#[derive(Debug)]
pub struct ClusterCollector(Catalog);

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
        let gauges: [ClusterGauge<'_>; 5] = [
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
        let views = i64::try_from(self.0.view_count()).unwrap_or(i64::MAX);
        let mut metric = encoder.encode_descriptor(
            "views",
            "Views that streams share now",
            None,
            MetricType::Gauge,
        )?;
        metric.encode_gauge(&views)?;
        let followed = i64::try_from(self.0.followed_count()).unwrap_or(i64::MAX);
        let mut metric = encoder.encode_descriptor(
            "followed",
            "Services, addresses and ServiceProfiles that profile streams follow now",
            None,
            MetricType::Gauge,
        )?;
        metric.encode_gauge(&followed)?;
        let services = i64::try_from(self.0.service_count()).unwrap_or(i64::MAX);
        let mut metric = encoder.encode_descriptor(
            "services",
            "Services of the home cluster, and those gone that streams still wait for",
            None,
            MetricType::Gauge,
        )?;
        metric.encode_gauge(&services)
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
