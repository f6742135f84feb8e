//! What the destination API counts. No label names a client, a Service or an address.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{debug, trace};

use super::client::Client;
use super::token::TokenFlaw;

/// Counters of the destination API.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(super) get: MethodMetrics,
    pub(super) get_profile: MethodMetrics,
    bad_tokens: Counter,
    legacy_tokens: Counter,
}

/// Counters of one method.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodMetrics {
    requests: Family<Outcome, Counter>,
    open: Gauge,
    messages: Counter,
    bytes: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    code: &'static str,
}

/// One stream, counted for as long as it lives.
#[derive(Debug)]
pub(super) struct OpenStream {
    metrics: MethodMetrics,
    client: Client,
}

// === impl Metrics ===

impl Metrics {
    /// Registers the counters: those that have the names of Linkerd's controller in a registry of their own.
    pub fn register(registry: &mut Registry, linkerd: &mut Registry) -> Self {
        let metrics = Self {
            get: MethodMetrics::register(registry, "get", "Get"),
            get_profile: MethodMetrics::register(registry, "get_profile", "GetProfile"),
            bad_tokens: Counter::default(),
            legacy_tokens: Counter::default(),
        };
        registry.register(
            "bad_context_tokens",
            "Context tokens that could not be read, or not all of them",
            metrics.bad_tokens.clone(),
        );
        registry.register(
            "legacy_context_tokens",
            "Context tokens in the old form ns:NAMESPACE, which says nothing of a node",
            metrics.legacy_tokens.clone(),
        );
        linkerd.register(
            "endpoints_subscribers",
            "Get streams open now",
            metrics.get.open.clone(),
        );
        metrics
    }

    pub(super) fn token(&self, flaw: TokenFlaw) {
        match flaw {
            TokenFlaw::Unreadable => self.bad_tokens.inc(),
            TokenFlaw::Legacy => self.legacy_tokens.inc(),
        };
    }

    /// Number of open streams.
    pub(super) fn open_count(&self) -> i64 {
        self.get.open.get() + self.get_profile.open.get()
    }
}

#[cfg(test)]
impl Metrics {
    /// Counts something of everything, so that all of it is shown.
    pub(crate) fn touch(&self) {
        self.get.answered(tonic::Code::Ok);
        self.get_profile.answered(tonic::Code::Ok);
    }
}

// === impl MethodMetrics ===

impl MethodMetrics {
    fn register(registry: &mut Registry, prefix: &str, method: &str) -> Self {
        let metrics = Self::default();
        registry.register(
            format!("{prefix}_requests"),
            format!(
                "{method} requests by the status they were answered with; OK when the stream began"
            ),
            metrics.requests.clone(),
        );
        registry.register(
            format!("{prefix}_streams_open"),
            format!("{method} streams open now"),
            metrics.open.clone(),
        );
        registry.register(
            format!("{prefix}_messages_sent"),
            format!("Messages handed to {method} streams"),
            metrics.messages.clone(),
        );
        registry.register(
            format!("{prefix}_bytes_sent"),
            format!("Bytes handed to {method} streams"),
            metrics.bytes.clone(),
        );
        metrics
    }

    pub(super) fn answered(&self, code: tonic::Code) {
        let code = code_name(code);
        self.requests.get_or_create(&Outcome { code }).inc();
    }

    pub(super) fn open(&self, client: Client) -> OpenStream {
        self.open.inc();
        OpenStream {
            metrics: self.clone(),
            client,
        }
    }
}

// === impl OpenStream ===

impl OpenStream {
    pub(super) fn sent(&self, bytes: usize) {
        self.metrics.messages.inc();
        self.metrics.bytes.inc_by(bytes as u64);
        trace!(
            client = &*self.client.name,
            authority = &*self.client.authority,
            bytes,
            "message sent"
        );
    }

    /// Whose it is.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.metrics.open.dec();
        debug!(
            client = &*self.client.name,
            authority = &*self.client.authority,
            age_seconds = self.client.age_seconds(),
            "stream is over"
        );
    }
}

fn code_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::NotFound => "NOT_FOUND",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Unavailable => "UNAVAILABLE",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => "OTHER",
    }
}
