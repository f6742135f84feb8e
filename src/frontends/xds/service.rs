//! xDS as gRPC services: aggregated discovery and endpoint discovery, each in both variants.

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use futures::{Stream, StreamExt};
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use super::entries::{Entries, Follower};
use super::metrics::Metrics;
use super::session::Variant;
use super::stream::{Common, Incoming, Running, Scope};
use crate::proto::xds::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use crate::publish::Catalog;

/// Largest request: names of everything a client has can be many.
const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Settings of xDS.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Domain that Service names end in.
    pub cluster_domain: String,
    /// What clients are told that this replica is called.
    pub identifier: String,
    /// Streams that may be open at once.
    pub streams_max: usize,
    /// Over how long open streams are ended at shutdown.
    pub drain: Duration,
}

/// What both services have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Xds {
    common: Common,
    streams_max: usize,
}

/// Follows the names that clients ask for; has to run.
#[derive(Debug)]
pub struct Task(Follower);

/// `AggregatedDiscoveryService`.
#[derive(Clone, Debug)]
pub struct Aggregated(Xds);

/// `EndpointDiscoveryService`.
#[derive(Clone, Debug)]
pub struct Endpoints(Xds);

type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

// === impl Xds ===

impl Xds {
    /// Services that answer from a catalog, and the task that has to run beside them; when `shutdown` is cancelled streams end.
    pub fn new(
        catalog: Catalog,
        settings: &Settings,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> (Self, Task) {
        let (entries, follower) = Entries::new(catalog, &settings.cluster_domain, metrics.clone());
        let xds = Self {
            common: Common {
                entries,
                identifier: settings.identifier.as_str().into(),
                metrics,
                shutdown,
                drain: settings.drain,
            },
            streams_max: settings.streams_max,
        };
        (xds, Task(follower))
    }

    /// The service that serves every kind on one stream.
    pub fn aggregated(&self) -> Aggregated {
        Aggregated(self.clone())
    }

    /// The service that serves endpoints only.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints(self.clone())
    }

    fn answer(&self, scope: Scope, request: http::Request<Body>) -> Answer {
        let method = request.uri().path().rsplit('/').next();
        let variant = match (scope, method) {
            (Scope::Aggregated, Some("StreamAggregatedResources"))
            | (Scope::Endpoints, Some("StreamEndpoints")) => Some(Variant::StateOfTheWorld),
            (Scope::Aggregated, Some("DeltaAggregatedResources"))
            | (Scope::Endpoints, Some("DeltaEndpoints")) => Some(Variant::Delta),
            _ => None,
        };
        let xds = self.clone();
        Box::pin(async move {
            Ok(match variant {
                Some(Variant::StateOfTheWorld) => {
                    serve::<DiscoveryRequest>(xds, scope, Variant::StateOfTheWorld, request).await
                }
                Some(Variant::Delta) => {
                    serve::<DeltaDiscoveryRequest>(xds, scope, Variant::Delta, request).await
                }
                None => Status::unimplemented("resources are streamed; there is no such method")
                    .into_http(),
            })
        })
    }
}

async fn serve<D>(
    xds: Xds,
    scope: Scope,
    variant: Variant,
    request: http::Request<Body>,
) -> http::Response<Body>
where
    D: Message + Default + Into<Incoming> + 'static,
{
    let call = Call {
        xds,
        scope,
        variant,
    };
    tonic::server::Grpc::new(SharedCodec::<D>::default())
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .streaming(call, request)
        .await
}

// === impl Task ===

impl Task {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        self.0.run(shutdown).await;
    }
}

/// A service of its own name for each scope: a listener finds it by that.
macro_rules! services {
    ($($service:ident: $scope:expr, $name:literal;)+) => {$(
        impl NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl tower::Service<http::Request<Body>> for $service {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = Answer;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Answer {
                self.0.answer($scope, request)
            }
        }
    )+};
}

services! {
    Aggregated: Scope::Aggregated, "envoy.service.discovery.v3.AggregatedDiscoveryService";
    Endpoints: Scope::Endpoints, "envoy.service.endpoint.v3.EndpointDiscoveryService";
}

#[derive(Debug)]
struct Call {
    xds: Xds,
    scope: Scope,
    variant: Variant,
}

impl<D> StreamingService<D> for Call
where
    D: Into<Incoming> + Send + 'static,
{
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Messages>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<D>>) -> Self::Future {
        let Self {
            xds,
            scope,
            variant,
        } = self;
        let (common, streams_max) = (xds.common.clone(), xds.streams_max);
        let (scope, variant) = (*scope, *variant);
        Box::pin(async move {
            if common.shutdown.is_cancelled() {
                return Err(Status::unavailable("shutting down"));
            }
            let open = common.metrics.open_count();
            if usize::try_from(open).is_ok_and(|open| open >= streams_max) {
                return Err(Status::resource_exhausted(format!(
                    "{streams_max} streams are open, which is the limit"
                )));
            }
            let requests = request
                .into_inner()
                .map(|request| request.map(|request| Box::new(request.into())));
            let running = Running::new(requests, scope, variant, &common);
            let messages: Messages = Box::pin(running.run());
            Ok(Response::new(messages))
        })
    }
}

/// Requests are decoded; responses are already encoded.
#[derive(Clone, Copy, Debug)]
struct SharedCodec<D>(PhantomData<fn() -> D>);

impl<D> Default for SharedCodec<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D: Message + Default + 'static> Codec for SharedCodec<D> {
    type Encode = Bytes;
    type Decode = D;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<D> Encoder for SharedCodec<D> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl<D: Message + Default> Decoder for SharedCodec<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        D::decode(bytes)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("malformed request: {error}")))
    }
}
