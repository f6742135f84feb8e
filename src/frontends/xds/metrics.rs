//! What xDS counts. No label names a client, a Service or an address.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::peers::Full;
use super::resource::{Kind, Variant};
use super::session::Verdict;

/// Upper bounds of the buckets of the time until a response is accepted: Envoy takes 4 ms for 100 endpoints, and waits for
/// up to 15 s while it warms.
const ACCEPTANCE_SECONDS: [f64; 6] = [0.005, 0.02, 0.1, 1.0, 5.0, 30.0];

/// Counters of xDS.
#[derive(Clone, Debug)]
pub struct Metrics {
    streams: Family<OfVariant, Gauge>,
    streams_ended: Family<OfEnd, Counter>,
    limits: Family<OfLimit, Counter>,
    acks: Family<OfKind, Histogram, fn() -> Histogram>,
    late: Gauge,
    requests: Family<OfRequest, Counter>,
    responses: Family<OfKind, Counter>,
    bytes: Family<OfKind, Counter>,
    resources: Family<OfKind, Counter>,
    names: Gauge,
    bad_names: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVariant {
    variant: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEnd {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRequest {
    kind: &'static str,
    verdict: &'static str,
}

/// One stream, counted for as long as it lives.
#[derive(Debug)]
pub(super) struct OpenStream {
    streams: Gauge,
    ended: Family<OfEnd, Counter>,
    end: End,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client left, was cut off, or had its one question answered.
    Left,
    /// The connection was old enough, or the process shuts down.
    Drained,
    /// The client asked for something that it may not.
    Failed,
}

// === impl Metrics ===

impl Metrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "streams_open",
            "Streams open now, by variant of the protocol",
            metrics.streams.clone(),
        );
        registry.register(
            "streams_ended",
            "Streams that have ended, by reason: left (by the client, or cut since it reads nothing), drained (the connection \
             was old enough, or the process shuts down), or failed (the client asked for what it may not)",
            metrics.streams_ended.clone(),
        );
        registry.register(
            "limits_met",
            "Streams refused or ended since a limit was met: streams, peer_streams, names or peer_names",
            metrics.limits.clone(),
        );
        registry.register_with_unit(
            "acceptance",
            "Time from a response to the client's word that it has it, by kind of resource",
            Unit::Seconds,
            metrics.acks.clone(),
        );
        registry.register(
            "responses_late",
            "Responses that their clients have not answered for more than 30 s",
            metrics.late.clone(),
        );
        registry.register(
            "requests",
            "Requests by kind of resource and by what they say of the response before: none, accepted, refused (NACK), \
             stale, or again",
            metrics.requests.clone(),
        );
        registry.register(
            "responses",
            "Responses by kind of resource",
            metrics.responses.clone(),
        );
        registry.register_with_unit(
            "response",
            "Size of responses by kind of resource",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "resources_sent",
            "Resources in responses by kind",
            metrics.resources.clone(),
        );
        registry.register(
            "names_followed",
            "Names that streams have subscribed to, each counted once for clients that are told the same",
            metrics.names.clone(),
        );
        registry.register(
            "bad_names",
            "Names that no resource could have, each counted when a stream subscribes to it",
            metrics.bad_names.clone(),
        );
        metrics
    }

    pub(super) fn open(&self, variant: Variant) -> OpenStream {
        let variant = match variant {
            Variant::StateOfTheWorld => "sotw",
            Variant::Delta => "delta",
        };
        let streams = self.streams.get_or_create(&OfVariant { variant }).clone();
        streams.inc();
        OpenStream {
            streams,
            ended: self.streams_ended.clone(),
            end: End::Left,
        }
    }

    /// Number of open streams.
    pub(super) fn open_count(&self) -> i64 {
        ["sotw", "delta"]
            .map(|variant| self.streams.get_or_create(&OfVariant { variant }).get())
            .into_iter()
            .sum()
    }

    pub(super) fn request(&self, kind: Kind, verdict: Verdict) {
        let labels = OfRequest {
            kind: label(kind),
            verdict: match verdict {
                Verdict::None => "none",
                Verdict::Accepted => "accepted",
                Verdict::Refused => "refused",
                Verdict::Stale => "stale",
                Verdict::Again => "again",
            },
        };
        self.requests.get_or_create(&labels).inc();
    }

    pub(super) fn response(&self, kind: Kind, resources: usize, bytes: usize) {
        let labels = OfKind { kind: label(kind) };
        self.responses.get_or_create(&labels).inc();
        self.resources
            .get_or_create(&labels)
            .inc_by(resources as u64);
        self.bytes.get_or_create(&labels).inc_by(bytes as u64);
    }

    /// Counts that a limit was met.
    pub(super) fn full(&self, full: Full) {
        let limit = full.label();
        self.limits.get_or_create(&OfLimit { limit }).inc();
    }

    /// Counts a response that was accepted after so long.
    pub(super) fn accepted(&self, kind: Kind, after: Duration) {
        let labels = OfKind { kind: label(kind) };
        self.acks
            .get_or_create(&labels)
            .observe(after.as_secs_f64());
    }

    pub(super) fn late(&self, count: usize) {
        self.late.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn names(&self, count: usize) {
        self.names.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn bad_name(&self) {
        self.bad_names.inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            streams: Family::default(),
            streams_ended: Family::default(),
            limits: Family::default(),
            acks: Family::new_with_constructor(|| Histogram::new(ACCEPTANCE_SECONDS)),
            late: Gauge::default(),
            requests: Family::default(),
            responses: Family::default(),
            bytes: Family::default(),
            resources: Family::default(),
            names: Gauge::default(),
            bad_names: Counter::default(),
        }
    }
}

fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster",
        Kind::Assignment => "endpoints",
        Kind::Listener => "listener",
        Kind::Route => "route",
    }
}

#[cfg(test)]
impl Metrics {
    /// Counts something of everything, so that all of it is shown.
    pub(crate) fn touch(&self) {
        drop(self.open(Variant::Delta));
        self.request(Kind::Cluster, Verdict::None);
        self.response(Kind::Cluster, 1, 1);
        self.accepted(Kind::Cluster, Duration::ZERO);
        self.full(Full::Streams(0));
    }
}

// === impl OpenStream ===

impl OpenStream {
    /// Says how it ends, if not by the client.
    pub(super) fn ends(&mut self, end: End) {
        self.end = end;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.dec();
        let reason = match self.end {
            End::Left => "left",
            End::Drained => "drained",
            End::Failed => "failed",
        };
        self.ended.get_or_create(&OfEnd { reason }).inc();
    }
}
