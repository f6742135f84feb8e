//! What sources count.

mod requests;

use std::time::SystemTime;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub(super) use requests::RequestMetrics;

use crate::index::Kind;
use crate::model::ClusterName;

/// Upper bounds of the buckets of the time from a change of an object to its arrival. Linkerd's controller has the same.
const LAG_SECONDS: [f64; 10] = [0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0];

/// Counters of every source. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SourceMetrics {
    events: Family<KindLabels, Counter>,
    resyncs: Family<KindLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    warnings: Family<WarningLabels, Counter>,
    lag_seconds: LagMetrics,
    pub(super) requests: RequestMetrics,
}

/// How late changes of objects arrive.
#[derive(Clone, Debug)]
struct LagMetrics {
    services: Histogram,
    slices: Histogram,
    endpoints: Histogram,
    pods: Histogram,
    external_workloads: Histogram,
    servers: Histogram,
    profiles: Histogram,
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
    /// Registers the counters: those that have the names of Linkerd's controller in a registry of their own.
    pub fn register(&self, registry: &mut Registry, linkerd: &mut Registry) {
        self.lag_seconds.register(linkerd);
        self.requests.register(linkerd);
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

    /// Observes that a change of an object has arrived, which was written at `written`.
    ///
    /// The clock of the API server may be ahead of ours: nothing arrives before it was written.
    pub(super) fn lag(&self, kind: Kind, written: SystemTime) {
        if let Some(histogram) = self.lag_seconds.of(kind) {
            let lag = SystemTime::now().duration_since(written);
            histogram.observe(lag.unwrap_or_default().as_secs_f64());
        }
    }

    /// Counts something that was left out.
    pub(super) fn warning(&self, warning: &'static str) {
        self.warnings
            .get_or_create(&WarningLabels { warning })
            .inc();
    }

    /// Counts something of everything, so that all of it is shown.
    #[cfg(test)]
    pub(crate) fn touch(&self) {
        let home = ClusterName::from("home");
        self.event(&home, "pods");
        self.resync(&home, "pods");
        self.failure(&home, "pods", "touched");
        self.warning("touched");
        self.requests.begin().answered(http::StatusCode::OK);
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

// === impl LagMetrics ===

impl Default for LagMetrics {
    fn default() -> Self {
        let histogram = || Histogram::new(LAG_SECONDS);
        Self {
            services: histogram(),
            slices: histogram(),
            endpoints: histogram(),
            pods: histogram(),
            external_workloads: histogram(),
            servers: histogram(),
            profiles: histogram(),
        }
    }
}

impl LagMetrics {
    fn register(&self, linkerd: &mut Registry) {
        let named = [
            ("services", &self.services),
            ("endpointslices", &self.slices),
            ("endpoints", &self.endpoints),
            ("pods", &self.pods),
            ("externalworkload", &self.external_workloads),
            ("servers", &self.servers),
            ("serviceprofiles", &self.profiles),
        ];
        for (name, histogram) in named {
            linkerd.register_with_unit(
                format!("{name}_informer_lag"),
                "Time from a change of an object of this kind, known to the second, to its arrival",
                Unit::Seconds,
                histogram.clone(),
            );
        }
    }

    /// Of kinds whose changes hardly ever alter an answer, nobody wants to know.
    fn of(&self, kind: Kind) -> Option<&Histogram> {
        match kind {
            Kind::Service => Some(&self.services),
            Kind::EndpointSlice => Some(&self.slices),
            Kind::Endpoints => Some(&self.endpoints),
            Kind::Pod => Some(&self.pods),
            Kind::ExternalWorkload => Some(&self.external_workloads),
            Kind::Server => Some(&self.servers),
            Kind::ServiceProfile => Some(&self.profiles),
            Kind::Node | Kind::ReplicaSet | Kind::Job => None,
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_forgotten_cluster_leaves_no_series() {
        let metrics = SourceMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry, &mut Registry::default());
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

    #[test]
    fn what_arrives_late_or_early_is_observed() {
        let (metrics, mut linkerd) = (SourceMetrics::default(), Registry::default());
        metrics.register(&mut Registry::default(), &mut linkerd);
        let now = SystemTime::now();
        metrics.lag(Kind::Pod, now - Duration::from_secs(7));
        metrics.lag(Kind::Pod, now + Duration::from_hours(1));
        metrics.lag(Kind::Node, now);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &linkerd).expect("text");
        for line in [
            "pods_informer_lag_seconds_count 2",
            "pods_informer_lag_seconds_bucket{le=\"0.5\"} 1",
            "pods_informer_lag_seconds_bucket{le=\"5.0\"} 1",
            "pods_informer_lag_seconds_bucket{le=\"1000.0\"} 2",
            "services_informer_lag_seconds_count 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }

    #[test]
    fn requests_are_counted_when_they_are_answered_or_given_up() {
        let (metrics, mut linkerd) = (SourceMetrics::default(), Registry::default());
        metrics.register(&mut Registry::default(), &mut linkerd);
        let check = |expected: &[&str]| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &linkerd).expect("text");
            for line in expected {
                let line = format!("http_client_{line}");
                assert!(text.lines().any(|known| known == line), "{line}: {text}");
            }
        };
        let (answered, given_up) = (metrics.requests.begin(), metrics.requests.begin());
        check(&["in_flight_requests{client=\"k8s\"} 2"]);
        answered.answered(http::StatusCode::OK);
        drop(given_up);
        check(&[
            "in_flight_requests{client=\"k8s\"} 0",
            "errors_total{client=\"k8s\",method=\"get\"} 1",
            "requests_total{client=\"k8s\",code=\"200\",method=\"get\"} 1",
            "request_latency_seconds_count{client=\"k8s\",code=\"200\",method=\"get\"} 1",
        ]);
    }
}
