//! The gRPC listener: the destination API, introspection, health, and reflection in both its versions.

use std::net::SocketAddr;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;

use crate::frontends::destination::Destination;
use crate::frontends::introspection::Introspection;
use crate::proto::FILE_DESCRIPTOR_SET;
use crate::proto::tributary_v1::introspection_server::IntrospectionServer;
use crate::readiness::Readiness;

/// Ask an idle peer for a sign of life this often; with the time-out, a vanished one is noticed within a minute.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Wait this long for the sign of life.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Streams on one connection; control planes multiplex many proxies' lookups over few connections.
const STREAMS_PER_CONNECTION_MAX: u32 = 100_000;
/// Requests are short: an authority and a token.
const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// What the listener serves.
#[derive(Clone, Debug)]
pub struct Services {
    /// Linkerd's destination API.
    pub destination: Destination,
    /// `tributary.v1`.
    pub introspection: Introspection,
}

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The reflection service could not be built from our descriptors.
    #[error("building the reflection service failed")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The listener failed.
    #[error("serving gRPC on {addr} failed")]
    Serve {
        /// Where it listened.
        addr: SocketAddr,
        /// Why.
        source: tonic::transport::Error,
    },
}

/// Serves until `shutdown`, then lets requests end for at most `drain`.
pub async fn serve(
    listener: tokio::net::TcpListener,
    addr: SocketAddr,
    services: Services,
    readiness: Readiness,
    drain: Duration,
    shutdown: CancellationToken,
) -> Result<(), ServerError> {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    let router = tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(Some(HEADER_BYTES_MAX))
        .max_concurrent_streams(Some(STREAMS_PER_CONNECTION_MAX))
        .add_service(services.destination)
        .add_service(IntrospectionServer::new(services.introspection))
        .add_service(health_service)
        .add_service(descriptors().build_v1()?)
        .add_service(descriptors().build_v1alpha()?);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = router.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    tokio::select! {
        result = serving => result.map_err(|source| ServerError::Serve { addr, source }),
        () = report_health(&health, &readiness) => Ok(()),
        () = async {
            shutdown.cancelled().await;
            tokio::time::sleep(drain).await;
        } => Ok(()),
    }
}

/// Keeps `grpc.health.v1` in step with readiness, for ever.
async fn report_health(health: &tonic_health::server::HealthReporter, readiness: &Readiness) {
    let mut pending = readiness.watch();
    loop {
        let status = if pending.borrow_and_update().is_empty() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in [
            "",
            "io.linkerd.proxy.destination.Destination",
            "tributary.v1.Introspection",
        ] {
            health.set_service_status(service, status).await;
        }
        if pending.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
