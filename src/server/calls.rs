//! The calls of the listener, counted under the names that gRPC servers written in Go use, and so Linkerd's controllers.
//!
//! The counters of a method are looked up once, when a call begins; a message costs an addition. A call is over when its status has been sent, or when nobody wants the answer any more: a client
//! that leaves, a connection that breaks and a handler that is dropped are all counted as `Canceled`. So the calls under
//! way are those that were started, less those that were handled.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::time::Instant;
use tonic::Code;

use super::messages::MessageCounter;

/// Upper bounds of the buckets of a call's duration: most calls are streams that live for minutes or hours.
const HANDLING_SECONDS: [f64; 4] = [0.1, 1.0, 300.0, 3600.0];

/// Codes in order of their numbers, as they are written in labels.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// What gRPC puts the number of a code in.
const STATUS: &str = "grpc-status";

/// Counters of every method that is served. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<HashMap<String, Arc<Method>>>);

/// Counters of one method.
#[derive(Debug)]
struct Method {
    started: Counter,
    /// By the number of the code.
    handled: [Counter; CODES.len()],
    received: Counter,
    sent: Counter,
    seconds: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(clippy::struct_field_names, reason = "they name the labels")]
struct MethodLabels {
    grpc_type: &'static str,
    grpc_service: String,
    grpc_method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(clippy::struct_field_names, reason = "they name the labels")]
struct HandledLabels {
    grpc_type: &'static str,
    grpc_service: String,
    grpc_method: String,
    grpc_code: &'static str,
}

/// Every counter, as it is registered.
struct Families {
    started: Family<MethodLabels, Counter>,
    handled: Family<HandledLabels, Counter>,
    received: Family<MethodLabels, Counter>,
    sent: Family<MethodLabels, Counter>,
    seconds: Family<MethodLabels, Histogram, fn() -> Histogram>,
}

/// The body of a request, whose messages are counted.
#[derive(Debug)]
pub(super) struct Asked<B> {
    body: B,
    messages: MessageCounter,
    /// None for methods that nobody serves.
    method: Option<Arc<Method>>,
}

/// A call that is under way. Counted as handled when it is dropped.
#[derive(Debug)]
pub(super) struct Call {
    method: Arc<Method>,
    since: Instant,
    /// Of the answer.
    messages: MessageCounter,
    /// How it ended, once that is known.
    code: Option<Code>,
}

// === impl Calls ===

impl Calls {
    /// Registers counters for every method of these encoded descriptor sets. All of them are there from the start, so
    /// that a first failure is a change from nought.
    pub(super) fn register(
        registry: &mut Registry,
        descriptors: &[&[u8]],
    ) -> Result<Self, prost::DecodeError> {
        let families = Families::register(registry);
        let mut methods = HashMap::new();
        for set in descriptors {
            for file in FileDescriptorSet::decode(*set)?.file {
                for service in &file.service {
                    let service_name = format!("{}.{}", file.package(), service.name());
                    for method in &service.method {
                        let labels = MethodLabels {
                            grpc_type: call_type(
                                method.client_streaming(),
                                method.server_streaming(),
                            ),
                            grpc_service: service_name.clone(),
                            grpc_method: method.name().to_owned(),
                        };
                        let path = format!("/{service_name}/{}", method.name());
                        methods.insert(path, Arc::new(families.method(&labels)));
                    }
                }
            }
        }
        Ok(Self(Arc::new(methods)))
    }

    /// A call begins, if somebody serves that method.
    pub(super) fn begin(&self, path: &str) -> Option<Call> {
        let method = Arc::clone(self.0.get(path)?);
        method.started.inc();
        Some(Call {
            method,
            since: Instant::now(),
            messages: MessageCounter::default(),
            code: None,
        })
    }
}

fn call_type(client_streams: bool, server_streams: bool) -> &'static str {
    match (client_streams, server_streams) {
        (false, false) => "unary",
        (true, false) => "client_stream",
        (false, true) => "server_stream",
        (true, true) => "bidi_stream",
    }
}

// === impl Families ===

impl Families {
    fn register(registry: &mut Registry) -> Self {
        let families = Self {
            started: Family::default(),
            handled: Family::default(),
            received: Family::default(),
            sent: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(HANDLING_SECONDS)),
        };
        registry.register(
            "grpc_server_started",
            "Calls that were started",
            families.started.clone(),
        );
        registry.register(
            "grpc_server_handled",
            "Calls that are over, by how they ended; Canceled if the client left",
            families.handled.clone(),
        );
        registry.register(
            "grpc_server_msg_received",
            "Messages that clients sent",
            families.received.clone(),
        );
        registry.register(
            "grpc_server_msg_sent",
            "Messages that clients were sent",
            families.sent.clone(),
        );
        registry.register_with_unit(
            "grpc_server_handling",
            "Time from the start to the end of a call",
            Unit::Seconds,
            families.seconds.clone(),
        );
        families
    }

    fn method(&self, labels: &MethodLabels) -> Method {
        Method {
            started: self.started.get_or_create_owned(labels),
            handled: CODES.map(|grpc_code| {
                self.handled.get_or_create_owned(&HandledLabels {
                    grpc_type: labels.grpc_type,
                    grpc_service: labels.grpc_service.clone(),
                    grpc_method: labels.grpc_method.clone(),
                    grpc_code,
                })
            }),
            received: self.received.get_or_create_owned(labels),
            sent: self.sent.get_or_create_owned(labels),
            seconds: self.seconds.get_or_create_owned(labels),
        }
    }
}

// === impl Asked ===

impl<B> Asked<B> {
    /// The body of the request that began a call.
    pub(super) fn new(body: B, call: Option<&Call>) -> Self {
        Self {
            body,
            messages: MessageCounter::default(),
            method: call.map(|call| Arc::clone(&call.method)),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Asked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if let (Poll::Ready(Some(Ok(frame))), Some(method)) = (&frame, &this.method)
            && let Some(bytes) = frame.data_ref()
        {
            method.received.inc_by(this.messages.count(bytes));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Call ===

impl Call {
    /// A part of the answer is sent.
    pub(super) fn sends(&mut self, frame: &Frame<Bytes>) {
        if let Some(bytes) = frame.data_ref() {
            self.method.sent.inc_by(self.messages.count(bytes));
        } else if let Some(trailers) = frame.trailers_ref() {
            self.sends_fields(trailers);
        }
    }

    /// Headers or trailers are sent, which may have the status with them: an answer without messages has it in its headers.
    pub(super) fn sends_fields(&mut self, fields: &HeaderMap) {
        if let Some(status) = fields.get(STATUS) {
            self.code = Some(Code::from_bytes(status.as_bytes()));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.method.handled[code as usize].inc();
        self.method
            .seconds
            .observe(self.since.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
