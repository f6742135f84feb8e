//! What the writer counts.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::plan::{Rejection, Tally};
use crate::model::ClusterName;

/// What is counted. Clones share it.
#[derive(Clone, Debug)]
pub struct Metrics {
    leader: Gauge,
    workload_leader: Gauge,
    workload_slices: Gauge,
    workload_endpoints: Gauge,
    slices: Family<ClusterLabels, Gauge>,
    endpoints: Family<EndpointLabels, Gauge>,
    actions: Family<ActionLabels, Counter>,
    skipped: Family<ReasonLabels, Gauge>,
    member_state: Family<StateLabels, Gauge>,
    member_age: Family<ClusterLabels, Gauge<f64, AtomicU64>>,
    queue: Gauge,
    backoff: Gauge,
    leftover: Gauge,
    stock_destination: Gauge,
    /// Time to decide about one Service.
    pub(super) plan_seconds: Histogram,
    /// Time until a request was answered.
    pub(super) apply_seconds: Histogram,
    /// Time from learning of a change to the API server's having taken the copy.
    pub(super) propagation_seconds: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    cluster: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    cluster: String,
    state: &'static str,
}

/// How a cluster is known to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// Not read yet: its copies are left alone.
    Unknown,
    /// Read and in contact.
    Synced,
    /// Read, and out of contact.
    Stale,
}

// === impl MemberState ===

impl MemberState {
    const ALL: [Self; 3] = [Self::Unknown, Self::Synced, Self::Stale];

    fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Synced => "synced",
            Self::Stale => "stale",
        }
    }
}

// === impl Metrics ===

impl Metrics {
    /// Registers the metrics; the registry adds a prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            leader: Gauge::default(),
            workload_leader: Gauge::default(),
            workload_slices: Gauge::default(),
            workload_endpoints: Gauge::default(),
            slices: Family::default(),
            endpoints: Family::default(),
            actions: Family::default(),
            skipped: Family::default(),
            member_state: Family::default(),
            member_age: Family::default(),
            queue: Gauge::default(),
            backoff: Gauge::default(),
            leftover: Gauge::default(),
            stock_destination: Gauge::default(),
            plan_seconds: Histogram::new(exponential_buckets(0.000_01, 4.0, 9)),
            apply_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            propagation_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
        };
        metrics.register_gauges(registry);
        registry.register(
            "actions",
            "Requests that changed EndpointSlices or should have, by verb and result",
            metrics.actions.clone(),
        );
        for (name, help, histogram) in [
            (
                "plan",
                "Time to decide what to write for one Service",
                &metrics.plan_seconds,
            ),
            (
                "apply",
                "Time until the API server answered a write",
                &metrics.apply_seconds,
            ),
            (
                "propagation",
                "Time from learning of a change to the API server's having taken the EndpointSlice",
                &metrics.propagation_seconds,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        metrics
    }

    fn register_gauges(&self, registry: &mut Registry) {
        registry.register(
            "leader",
            "Whether this process writes EndpointSlices",
            self.leader.clone(),
        );
        registry.register(
            "workload_leader",
            "Whether this process writes EndpointSlices of ExternalWorkloads",
            self.workload_leader.clone(),
        );
        registry.register(
            "workload_slices",
            "EndpointSlices of ExternalWorkloads that this process keeps",
            self.workload_slices.clone(),
        );
        registry.register(
            "workload_endpoints",
            "Endpoints in the EndpointSlices of ExternalWorkloads that this process keeps",
            self.workload_endpoints.clone(),
        );
        registry.register(
            "slices",
            "EndpointSlices written, by the cluster they come from",
            self.slices.clone(),
        );
        registry.register(
            "endpoints",
            "Endpoints in the EndpointSlices written, by the cluster they come from and their state",
            self.endpoints.clone(),
        );
        registry.register(
            "skipped_endpoints",
            "Endpoints and slices that are not written, by reason",
            self.skipped.clone(),
        );
        registry.register(
            "member_state",
            "1 for the state that a cluster is in",
            self.member_state.clone(),
        );
        registry.register_with_unit(
            "member_age",
            "Time since a cluster gave its last sign of life",
            Unit::Seconds,
            self.member_age.clone(),
        );
        registry.register(
            "queue_services",
            "Services that have to be looked at",
            self.queue.clone(),
        );
        registry.register(
            "backoff_services",
            "Services whose last write failed",
            self.backoff.clone(),
        );
        registry.register(
            "leftover_slices",
            "EndpointSlices of ours that are still to be removed",
            self.leftover.clone(),
        );
        registry.register(
            "stock_destination",
            "Whether Linkerd's own destination controller runs here, so that hostnames of linked clusters are left out",
            self.stock_destination.clone(),
        );
    }

    /// Counts something of everything that has labels, so that a scrape shows it.
    #[cfg(test)]
    pub(crate) fn touch(&self) {
        let cluster = ClusterName::from("east");
        self.written(&BTreeMap::from([(cluster.clone(), Tally::default())]));
        self.skipped(&BTreeMap::from([(Rejection::Port, 1)]));
        self.members([(&cluster, MemberState::Synced, Some(1.0))]);
        self.acted("apply", "ok");
    }

    /// Whether this process writes slices of ExternalWorkloads.
    pub(super) fn leading_workloads(&self, leads: bool) {
        self.workload_leader.set(leads.into());
    }

    /// What is written of ExternalWorkloads.
    pub(super) fn workloads(&self, slices: usize, endpoints: usize) {
        self.workload_slices.set(gauge(slices));
        self.workload_endpoints.set(gauge(endpoints));
    }

    pub(super) fn leading(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    pub(super) fn stock_destination(&self, runs: bool) {
        self.stock_destination.set(runs.into());
    }

    pub(super) fn leftover(&self, slices: usize) {
        self.leftover.set(gauge(slices));
    }

    pub(super) fn queue(&self, waiting: usize, failed: usize) {
        self.queue.set(gauge(waiting));
        self.backoff.set(gauge(failed));
    }

    /// One request was answered.
    pub(super) fn acted(&self, verb: &'static str, result: &'static str) {
        self.actions
            .get_or_create(&ActionLabels { verb, result })
            .inc();
    }

    /// What is written of every cluster.
    pub(super) fn written(&self, tallies: &BTreeMap<ClusterName, Tally>) {
        self.slices.clear();
        self.endpoints.clear();
        for (cluster, tally) in tallies {
            let cluster = cluster.to_string();
            let labels = ClusterLabels {
                cluster: cluster.clone(),
            };
            self.slices.get_or_create(&labels).set(gauge(tally.copies));
            for (state, count) in [
                ("ready", tally.ready),
                ("not_ready", tally.not_ready),
                ("terminating", tally.terminating),
            ] {
                let labels = EndpointLabels {
                    cluster: cluster.clone(),
                    state,
                };
                self.endpoints.get_or_create(&labels).set(gauge(count));
            }
        }
    }

    /// What is not written.
    pub(super) fn skipped(&self, counts: &BTreeMap<Rejection, usize>) {
        self.skipped.clear();
        for (reason, count) in counts {
            let labels = ReasonLabels {
                reason: reason.word(),
            };
            self.skipped.get_or_create(&labels).set(gauge(*count));
        }
    }

    /// How every cluster is known.
    pub(super) fn members<'a>(
        &self,
        members: impl IntoIterator<Item = (&'a ClusterName, MemberState, Option<f64>)>,
    ) {
        self.member_state.clear();
        self.member_age.clear();
        for (cluster, state, age) in members {
            for known in MemberState::ALL {
                let labels = StateLabels {
                    cluster: cluster.to_string(),
                    state: known.word(),
                };
                self.member_state
                    .get_or_create(&labels)
                    .set((known == state).into());
            }
            if let Some(age) = age {
                let labels = ClusterLabels {
                    cluster: cluster.to_string(),
                };
                self.member_age.get_or_create(&labels).set(age);
            }
        }
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
