//! Requests to API servers, counted under the names that Linkerd's controllers use.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

/// The only client there is; API servers of all clusters are asked by it.
const CLIENT: &str = "k8s";

/// The only method: we only read.
const METHOD: &str = "get";

/// Upper bounds of the buckets of the time to the beginning of an answer.
const LATENCY_SECONDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Counters of requests. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::sources) struct RequestMetrics {
    requests: Family<AnsweredLabels, Counter>,
    latency_seconds: Family<AnsweredLabels, Histogram, fn() -> Histogram>,
    errors: Family<MethodLabels, Counter>,
    in_flight: Family<ClientLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientLabels {
    client: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    client: &'static str,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredLabels {
    client: &'static str,
    code: u16,
    method: &'static str,
}

/// A request that nobody has answered yet. Dropped without an answer, it counts as an error.
#[derive(Debug)]
pub(in crate::sources) struct InFlight {
    metrics: RequestMetrics,
    since: Instant,
    code: Option<u16>,
}

// === impl RequestMetrics ===

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            latency_seconds: Family::new_with_constructor(|| Histogram::new(LATENCY_SECONDS)),
            errors: Family::default(),
            in_flight: Family::default(),
        }
    }
}

impl RequestMetrics {
    pub(super) fn register(&self, linkerd: &mut Registry) {
        linkerd.register(
            "http_client_requests",
            "Requests to API servers that were answered, by the status of the answer",
            self.requests.clone(),
        );
        linkerd.register_with_unit(
            "http_client_request_latency",
            "Time from a request to an API server to the beginning of the answer",
            Unit::Seconds,
            self.latency_seconds.clone(),
        );
        linkerd.register(
            "http_client_errors",
            "Requests to API servers that were not answered",
            self.errors.clone(),
        );
        linkerd.register(
            "http_client_in_flight_requests",
            "Requests to API servers that have not been answered yet",
            self.in_flight.clone(),
        );
        self.in_flight().set(0);
        self.errors().inc_by(0);
    }

    /// A request is on its way.
    pub(in crate::sources) fn begin(&self) -> InFlight {
        self.in_flight().inc();
        InFlight {
            metrics: self.clone(),
            since: Instant::now(),
            code: None,
        }
    }

    fn in_flight(&self) -> Gauge {
        let labels = ClientLabels { client: CLIENT };
        self.in_flight.get_or_create_owned(&labels)
    }

    fn errors(&self) -> Counter {
        self.errors.get_or_create_owned(&MethodLabels {
            client: CLIENT,
            method: METHOD,
        })
    }
}

// === impl InFlight ===

impl InFlight {
    /// The answer begins, with this status.
    pub(in crate::sources) fn answered(mut self, code: http::StatusCode) {
        self.code = Some(code.as_u16());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight().dec();
        let Some(code) = self.code else {
            self.metrics.errors().inc();
            return;
        };
        let labels = AnsweredLabels {
            client: CLIENT,
            code,
            method: METHOD,
        };
        self.metrics.requests.get_or_create(&labels).inc();
        self.metrics
            .latency_seconds
            .get_or_create(&labels)
            .observe(self.since.elapsed().as_secs_f64());
    }
}
