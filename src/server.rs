//! The gRPC listener: limits, keep-alive, health, reflection in both its versions, drain, and what is counted of calls.
//!
//! What is served beside health and reflection is handed in by `app`.

mod calls;
mod greeted;
mod incoming;
mod messages;
mod requests;

use std::net::SocketAddr;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tracing::info;

use calls::Calls;
pub use incoming::raise_open_files;
use requests::Requests;

use crate::proto::FILE_DESCRIPTOR_SET;
use crate::readiness::Readiness;

/// Ask an idle peer for a sign of life this often; with the time-out, a vanished one is noticed within a minute.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Wait this long for the sign of life.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Streams on one connection; control planes multiplex many proxies' lookups over few connections.
const STREAMS_PER_CONNECTION_MAX: u32 = 100_000;
/// Requests that a client has taken back before they were looked at, on one connection; beyond that the whole connection is
/// ended, with the streams of everybody on it. Far more than the library's 20: a proxy in front of us carries many clients.
const RESETS_PENDING_MAX: usize = 1024;
/// Requests are short: an authority and a token.
const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// After the last request has ended, wait this long for connections to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// After the drain, wait this long for clients to read what is left of their answers.
const OVERDUE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the gRPC listener counts.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    accept_errors: Counter,
    calls: Calls,
}

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The listener has no address.
    #[error("reading the address of the gRPC listener failed")]
    Address(#[source] std::io::Error),
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

// === impl Metrics ===

impl Metrics {
    /// Registers the counters: those of calls, which have names that Linkerd uses too, in a registry of their own.
    ///
    /// Fails only if a descriptor that we were built with cannot be read.
    pub fn register(
        ours: &mut Registry,
        linkerd: &mut Registry,
    ) -> Result<Self, prost::DecodeError> {
        let metrics = Self {
            accept_errors: Counter::default(),
            calls: Calls::register(
                linkerd,
                &[
                    FILE_DESCRIPTOR_SET,
                    tonic_health::pb::FILE_DESCRIPTOR_SET,
                    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
                    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
                ],
            )?,
        };
        ours.register(
            "grpc_accept_errors",
            "Times that a gRPC connection could not be accepted",
            metrics.accept_errors.clone(),
        );
        Ok(metrics)
    }
}

/// Serves until `shutdown`, then lets requests to `routes` end, which they do by themselves within `drain`.
///
/// Connections that are left open then, and answers that are not read, hold it up for a short time only.
///
/// `health` names the services whose health is reported: serving when ready.
pub async fn serve(
    listener: tokio::net::TcpListener,
    routes: Routes,
    health_of: &[&str],
    readiness: Readiness,
    metrics: Metrics,
    drain: Duration,
    shutdown: CancellationToken,
) -> Result<(), ServerError> {
    let addr = listener.local_addr().map_err(ServerError::Address)?;
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    let requests = Requests::default();
    info!(%addr, "gRPC server listening");
    let Metrics {
        accept_errors,
        calls,
    } = metrics;
    let server = tonic::transport::Server::builder()
        .layer(calls)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_max_header_list_size(Some(HEADER_BYTES_MAX))
        .http2_max_pending_accept_reset_streams(Some(RESETS_PENDING_MAX))
        .max_concurrent_streams(Some(STREAMS_PER_CONNECTION_MAX))
        .add_routes(routes.into_axum_router().layer(requests.clone()).into())
        .add_service(health_service)
        .add_service(descriptors().build_v1()?)
        .add_service(descriptors().build_v1alpha()?);
    let incoming = incoming::incoming(listener, accept_errors);
    let serving = server.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    tokio::select! {
        result = serving => result.map_err(|source| ServerError::Serve { addr, source }),
        () = report_health(&health, health_of, &readiness) => Ok(()),
        () = async {
            shutdown.cancelled().await;
            let over = tokio::time::timeout(drain + OVERDUE_TIMEOUT, requests.none()).await;
            if over.is_ok() {
                tokio::time::sleep(CLOSE_TIMEOUT).await;
            }
        } => Ok(()),
    }
}

/// Keeps `grpc.health.v1` in step with readiness, for ever.
async fn report_health(
    health: &tonic_health::server::HealthReporter,
    services: &[&str],
    readiness: &Readiness,
) {
    let mut pending = readiness.watch();
    loop {
        let status = if pending.borrow_and_update().is_empty() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        health.set_service_status("", status).await;
        for service in services {
            health.set_service_status(*service, status).await;
        }
        if pending.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
