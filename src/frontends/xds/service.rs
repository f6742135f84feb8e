//! xDS as gRPC services: aggregated discovery and endpoint discovery, each in both variants.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;

use super::entries::{Entries, Follower};
use super::metrics::Metrics;
use super::resource::Variant;
use super::stream::{Common, Incoming, Running, Scope};
use crate::answer::{Answer, Piece};
use crate::frontends::grpc::questions;
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

type Answering = std::future::Ready<Result<http::Response<Answer>, Infallible>>;

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

    fn answer(&self, scope: Scope, request: http::Request<Body>) -> Answering {
        let method = request.uri().path().rsplit('/').next();
        let variant = match (scope, method) {
            (Scope::Aggregated, Some("StreamAggregatedResources"))
            | (Scope::Endpoints, Some("StreamEndpoints")) => Some(Variant::StateOfTheWorld),
            (Scope::Aggregated, Some("DeltaAggregatedResources"))
            | (Scope::Endpoints, Some("DeltaEndpoints")) => Some(Variant::Delta),
            _ => None,
        };
        let served = match variant {
            Some(Variant::StateOfTheWorld) => {
                serve::<DiscoveryRequest>(self, scope, Variant::StateOfTheWorld, request)
            }
            Some(Variant::Delta) => {
                serve::<DeltaDiscoveryRequest>(self, scope, Variant::Delta, request)
            }
            None => Err(Status::unimplemented(
                "resources are streamed; there is no such method",
            )),
        };
        std::future::ready(Ok(
            served.unwrap_or_else(|status| status.into_http().map(Answer::Generated))
        ))
    }

    /// Refuses a stream that would be one too many.
    fn ensure_room(&self) -> Result<(), Status> {
        if self.common.shutdown.is_cancelled() {
            return Err(Status::unavailable("shutting down"));
        }
        let open = self.common.metrics.open_count();
        let streams_max = self.streams_max;
        if usize::try_from(open).is_ok_and(|open| open >= streams_max) {
            return Err(Status::resource_exhausted(format!(
                "{streams_max} streams are open, which is the limit"
            )));
        }
        Ok(())
    }
}

/// Opens a stream, whose requests are of type `D`.
fn serve<D>(
    xds: &Xds,
    scope: Scope,
    variant: Variant,
    request: http::Request<Body>,
) -> Result<http::Response<Answer>, Status>
where
    D: Message + Default + Into<Incoming> + 'static,
{
    let requests = questions::<D>(request, Some(REQUEST_BYTES_MAX))?.into_inner();
    xds.ensure_room()?;
    let requests = requests.map(|request| request.map(|request| Box::new(request.into())));
    let running = Running::new(requests, scope, variant, &xds.common);
    let pieces = running.run().map(|bytes| bytes.map(Piece::known));
    Ok(Answer::of(Box::pin(pieces)))
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
            type Response = http::Response<Answer>;
            type Error = Infallible;
            type Future = Answering;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Answering {
                self.0.answer($scope, request)
            }
        }
    )+};
}

services! {
    Aggregated: Scope::Aggregated, "envoy.service.discovery.v3.AggregatedDiscoveryService";
    Endpoints: Scope::Endpoints, "envoy.service.endpoint.v3.EndpointDiscoveryService";
}
