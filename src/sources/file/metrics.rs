//! What the file source counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::model::ClusterName;

/// Counters of the file source. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FileMetrics {
    broken: Family<Cluster, Gauge>,
    failures: Counter,
    warnings: Family<Class, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Class {
    class: &'static str,
}

// === impl FileMetrics ===

impl FileMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "broken_manifest_files",
            "Manifest files whose last good version is in use, since the present one cannot be",
            metrics.broken.clone(),
        );
        registry.register(
            "manifest_file_failures",
            "Versions of manifest files that could not be used",
            metrics.failures.clone(),
        );
        registry.register(
            "manifest_warnings",
            "Parts of manifests that were left out",
            metrics.warnings.clone(),
        );
        metrics
    }

    pub(super) fn broken(&self, cluster: &ClusterName, files: usize) {
        let cluster = cluster.to_string();
        let files = i64::try_from(files).unwrap_or(i64::MAX);
        self.broken.get_or_create(&Cluster { cluster }).set(files);
    }

    pub(super) fn forget(&self, cluster: &ClusterName) {
        let cluster = cluster.to_string();
        self.broken.remove(&Cluster { cluster });
    }

    /// Counts something of everything, so that all of it is shown.
    #[cfg(test)]
    pub(crate) fn touch(&self) {
        self.broken(&ClusterName::from("home"), 1);
        self.warned("touched");
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }

    pub(super) fn warned(&self, class: &'static str) {
        self.warnings.get_or_create(&Class { class }).inc();
    }
}
