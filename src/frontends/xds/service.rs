//! xDS as gRPC services: aggregated discovery and endpoint discovery, each in both variants.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use parking_lot::Mutex;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tracing::{debug, warn};

use super::entries::{Entries, Follower};
use super::introspection::XdsIntrospection;
use super::listing::Listing;
use super::metrics::Metrics;
use super::peers::{Full, Limits, Peers, Share};
use super::resource::Variant;
use super::roster::Roster;
use super::stream::{Common, Incoming, Running, Scope};
use crate::answer::{Answer, Piece};
use crate::frontends::grpc::questions;
use crate::proto::xds::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use crate::publish::{Catalog, SaidOnce};

/// Largest request: names of everything a client has can be many.
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Different warnings about clients that are logged; more are only counted.
const WARNINGS_MAX: usize = 200;
/// How often it is counted who has not answered for long.
const LATE_INTERVAL: Duration = Duration::from_secs(10);

/// Settings of xDS.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Domain that Service names end in.
    pub cluster_domain: String,
    /// What clients are told that this replica is called.
    pub identifier: String,
    /// Streams that may be open at once.
    pub streams_max: usize,
    /// Of these, streams of one client address.
    pub peer_streams_max: usize,
    /// Names that all streams of one client address may subscribe to, taken together.
    pub peer_names_max: usize,
    /// Over how long open streams are ended at shutdown.
    pub drain: Duration,
}

/// What both services have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Xds {
    common: Common,
    streams_max: usize,
    peers: Peers,
    said: Arc<Mutex<SaidOnce>>,
}

/// Follows the names that clients ask for, and how clients take it; has to run.
#[derive(Debug)]
pub struct Task {
    follower: Follower,
    listing: Listing,
    catalog: Catalog,
    cluster_domain: String,
    roster: Roster,
    metrics: Metrics,
}

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
        let (listing, roster) = (Listing::default(), Roster::default());
        let (entries, follower) =
            Entries::new(catalog.clone(), &settings.cluster_domain, metrics.clone());
        let xds = Self {
            common: Common {
                entries,
                listing: listing.clone(),
                roster: roster.clone(),
                identifier: settings.identifier.as_str().into(),
                metrics: metrics.clone(),
                shutdown,
                drain: settings.drain,
            },
            streams_max: settings.streams_max,
            peers: Peers::new(Limits {
                streams: settings.peer_streams_max,
                names: settings.peer_names_max,
            }),
            said: Arc::new(Mutex::new(SaidOnce::up_to(WARNINGS_MAX))),
        };
        let task = Task {
            follower,
            listing,
            catalog,
            cluster_domain: settings.cluster_domain.clone(),
            roster,
            metrics,
        };
        (xds, task)
    }

    /// The service that serves every kind on one stream.
    pub fn aggregated(&self) -> Aggregated {
        Aggregated(self.clone())
    }

    /// The service that shows people who is connected.
    pub fn introspection(&self) -> XdsIntrospection {
        XdsIntrospection::new(self.common.roster.clone())
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

    /// Counts a stream, unless it would be one too many.
    fn ensure_room(&self, address: Option<SocketAddr>) -> Result<Share, Status> {
        let Common {
            metrics, shutdown, ..
        } = &self.common;
        if shutdown.is_cancelled() {
            return Err(Status::unavailable("shutting down"));
        }
        let ip = address.map(|address| address.ip());
        let open = usize::try_from(metrics.open_count()).unwrap_or(usize::MAX);
        let room = if open >= self.streams_max {
            Err(Full::Streams(self.streams_max))
        } else {
            self.peers.open(ip)
        };
        room.map_err(|full| {
            metrics.full(full);
            if self.said.lock().is_news(&(ip, full)) {
                warn!(?ip, reason = %full, "stream refused");
            } else {
                debug!(?ip, reason = %full, "stream refused");
            }
            Status::resource_exhausted(full.to_string())
        })
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
    let requests = questions::<D>(request, Some(REQUEST_BYTES_MAX))?;
    let address = requests.remote_addr();
    let share = xds.ensure_room(address)?;
    // Ends with the connection, where that may end by itself.
    let leaving = requests.extensions().get::<CancellationToken>();
    let leaving = leaving.unwrap_or(&xds.common.shutdown).clone();
    let place = xds.common.roster.enter(address, variant, scope);
    let requests = requests
        .into_inner()
        .map(|request| request.map(|request| Box::new(request.into())));
    let running = Running::new(
        requests,
        (scope, variant),
        (share, place),
        leaving,
        &xds.common,
    );
    let pieces = running.run().map(|bytes| bytes.map(Piece::known));
    Ok(Answer::of(Box::pin(pieces)))
}

// === impl Task ===

impl Task {
    /// Works until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let count_late = async {
            loop {
                tokio::time::sleep(LATE_INTERVAL).await;
                self.metrics.late(self.roster.late());
            }
        };
        tokio::select! {
            () = self.follower.run(shutdown) => {}
            () = self.listing.run(self.catalog, &self.cluster_domain) => {}
            () = count_late => {}
        }
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
