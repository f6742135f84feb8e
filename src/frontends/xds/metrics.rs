//! What xDS counts. No label names a client, a Service or an address.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::resource::{Kind, Variant};
use super::session::Verdict;

/// Counters of xDS.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    streams: Family<OfVariant, Gauge>,
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
struct OfRequest {
    kind: &'static str,
    verdict: &'static str,
}

/// One stream, counted for as long as it lives.
#[derive(Debug)]
pub(super) struct OpenStream {
    streams: Gauge,
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
        OpenStream { streams }
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

    pub(super) fn names(&self, count: usize) {
        self.names.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn bad_name(&self) {
        self.bad_names.inc();
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
    }
}

// === impl OpenStream ===

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.dec();
    }
}
