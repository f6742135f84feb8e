//! What sources count.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::model::ClusterName;

/// Counters of every source. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SourceMetrics {
    events: Family<KindLabels, Counter>,
    resyncs: Family<KindLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    warnings: Family<WarningLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    cluster: String,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    cluster: String,
    resource: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WarningLabels {
    warning: &'static str,
}

// === impl SourceMetrics ===

impl SourceMetrics {
    /// Registers the counters; the registry may add a prefix.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "source_events",
            "Objects that a cluster listed, changed or deleted",
            self.events.clone(),
        );
        registry.register(
            "source_resyncs",
            "Complete lists received from a cluster",
            self.resyncs.clone(),
        );
        registry.register(
            "source_failures",
            "Requests and watches that failed, by reason",
            self.failures.clone(),
        );
        registry.register(
            "source_warnings",
            "Parts of objects that were left out, by what was wrong with them",
            self.warnings.clone(),
        );
    }

    /// Counts an object that was listed, changed or deleted.
    pub(super) fn event(&self, cluster: &ClusterName, resource: &'static str) {
        self.events
            .get_or_create(&KindLabels::new(cluster, resource))
            .inc();
    }

    /// Counts a complete list.
    pub(super) fn resync(&self, cluster: &ClusterName, resource: &'static str) {
        self.resyncs
            .get_or_create(&KindLabels::new(cluster, resource))
            .inc();
    }

    /// Counts a failure.
    pub(super) fn failure(
        &self,
        cluster: &ClusterName,
        resource: &'static str,
        reason: &'static str,
    ) {
        let labels = FailureLabels {
            cluster: cluster.to_string(),
            resource,
            reason,
        };
        self.failures.get_or_create(&labels).inc();
    }

    /// Counts something that was left out.
    pub(super) fn warning(&self, warning: &'static str) {
        self.warnings
            .get_or_create(&WarningLabels { warning })
            .inc();
    }

    /// Forgets a cluster that is not linked any more.
    pub(super) fn forget(
        &self,
        cluster: &ClusterName,
        resources: &[&'static str],
        reasons: &[&'static str],
    ) {
        for resource in resources {
            let labels = KindLabels::new(cluster, resource);
            self.events.remove(&labels);
            self.resyncs.remove(&labels);
            for reason in reasons {
                self.failures.remove(&FailureLabels {
                    cluster: cluster.to_string(),
                    resource,
                    reason,
                });
            }
        }
    }
}

// === impl KindLabels ===

impl KindLabels {
    fn new(cluster: &ClusterName, resource: &'static str) -> Self {
        Self {
            cluster: cluster.to_string(),
            resource,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_cluster_leaves_no_series() {
        let metrics = SourceMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        for cluster in ["east", "west"] {
            let cluster = ClusterName::from(cluster);
            metrics.event(&cluster, "pods");
            metrics.resync(&cluster, "pods");
            metrics.failure(&cluster, "pods", "unreachable");
        }
        metrics.forget(&ClusterName::from("east"), &["pods"], &["unreachable"]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        assert!(
            text.contains("source_events_total{cluster=\"west\",resource=\"pods\"} 1"),
            "{text}"
        );
        assert!(!text.contains("east"), "{text}");
    }
}
