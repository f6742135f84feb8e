//! A gRPC listener: TLS, limits, keep-alive, health, reflection in both its versions, drain, and what is counted of calls.
//!
//! What is served beside health and reflection is handed in by `app`.

mod calls;
mod connection;
mod cork;
mod departures;
mod greeted;
mod incoming;
mod messages;
mod requests;
mod routes;
mod services;
mod streams;
mod tls;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hyper_util::rt::TokioTimer;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_rustls::Accept;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic_health::ServingStatus;
use tracing::{debug, info};

use calls::Calls;
use connection::Connection;
use greeted::Greeted;
pub use incoming::raise_open_files;
use requests::Requests;
pub use routes::Routes;
use services::{Offer, Services};
pub use tls::{Expected, Reload, Tls, TlsError, TlsFiles};

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

/// How long a client may take to begin speaking HTTP/2, and before that to agree on TLS.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are as old as they may get end after up to this much more or less of that time, not all at once.
const AGE_JITTER: f64 = 0.1;

/// After the last request has ended, wait this long for connections to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// After the drain, wait this long for clients to read what is left of their answers.
const OVERDUE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the gRPC listener counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    accept_errors: Counter,
    connections: connection::Metrics,
    calls: Calls,
    tls: tls::Metrics,
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
            connections: connection::Metrics {
                stalled: Counter::default(),
                lag_seconds: Histogram::new(exponential_buckets(0.000_25, 4.0, 9)),
            },
            tls: tls::Metrics::register(ours),
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
        ours.register(
            "grpc_stalled",
            "Streams and connections cut because their clients did not read what they were sent",
            metrics.connections.stalled.clone(),
        );
        ours.register_with_unit(
            "grpc_lag",
            "Time from receiving a change to having handed it to the kernel, once each time that a connection writes",
            Unit::Seconds,
            metrics.connections.lag_seconds.clone(),
        );
        Ok(metrics)
    }
}

/// How clients are served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How connections are secured, if they are.
    pub tls: Option<Tls>,
    /// How long a connection may be open, or for ever. When it is up, the connection takes leave, and its
    /// [`CancellationToken`], which each request has among its extensions, is cancelled.
    pub age_max: Option<Duration>,
    /// How long after `shutdown` requests may take to end by themselves.
    pub drain: Duration,
    /// How long a client may take to make room for what it is sent, before the stream is cut.
    pub stall_timeout: Duration,
}

/// Serves until `shutdown`, then lets requests to `routes` end, which they do by themselves within the drain time.
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
    settings: Settings,
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
    let beside = Routes::default()
        .serving(health_service)
        .serving(descriptors().build_v1()?)
        .serving(descriptors().build_v1alpha()?);
    let offer = Offer {
        routes,
        beside,
        calls: metrics.calls.clone(),
        requests: requests.clone(),
    };
    let drain = settings.drain;
    let serving = connections(listener, offer, metrics, settings, shutdown.clone());
    tokio::select! {
        () = serving => Ok(()),
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

/// Accepts connections until `shutdown`, and ends when all of them have.
async fn connections(
    listener: tokio::net::TcpListener,
    offer: Offer,
    metrics: Metrics,
    settings: Settings,
    shutdown: CancellationToken,
) {
    let offer = Arc::new(offer);
    let mut connections = JoinSet::new();
    {
        let mut incoming = pin!(incoming::incoming(listener, metrics.accept_errors.clone()));
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = incoming.next() => {
                    let Some((socket, permit)) = accepted else {
                        break;
                    };
                    let accepted = Accepted {
                        client: socket.connect_info(),
                        offer: Arc::clone(&offer),
                        metrics: metrics.clone(),
                        settings: settings.clone(),
                        // Each connection may also end by itself.
                        leaving: shutdown.child_token(),
                    };
                    connections.spawn(accepted.run(socket, permit));
                }
            }
        }
        // Here nobody listens any more.
    }
    while connections.join_next().await.is_some() {}
}

/// What a connection is served with.
struct Accepted {
    client: TcpConnectInfo,
    offer: Arc<Offer>,
    metrics: Metrics,
    settings: Settings,
    leaving: CancellationToken,
}

// === impl Accepted ===

impl Accepted {
    async fn run(self, socket: TcpStream, permit: OwnedSemaphorePermit) {
        match &self.settings.tls {
            None => self.speak(socket, permit).await,
            Some(tls) => {
                let accept = tls.acceptor().accept(socket);
                // Boxed, so that connections without TLS take no room for it.
                Box::pin(self.secure(accept, permit)).await;
            }
        }
    }

    async fn secure(self, accept: Accept<TcpStream>, permit: OwnedSemaphorePermit) {
        let handshake = tokio::time::timeout(GREETING_TIMEOUT, accept);
        let failed = match self.leaving.run_until_cancelled(handshake).await {
            None => return,
            Some(Ok(Ok(socket))) => return self.speak(socket, permit).await,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(late)) => late.to_string(),
        };
        self.metrics.tls.handshakes_failed.inc();
        debug!(client = ?self.client.remote_addr(), error = failed, "TLS handshake failed");
    }

    /// Serves a connection for as long as it is open.
    async fn speak<S>(self, socket: S, permit: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Self {
            client,
            offer,
            metrics,
            settings,
            leaving,
        } = self;
        let mut connection = Connection::new(
            Greeted::new(socket, GREETING_TIMEOUT, permit),
            |io, births| {
                let services = Services::new(offer, client, births.clone(), leaving.clone());
                http2(births).serve_connection(io, services)
            },
            leaving.clone(),
            settings.stall_timeout,
            metrics.connections,
        );
        if let Some(age_max) = settings.age_max {
            let jitter = 1.0 + AGE_JITTER * (2.0 * rand::random::<f64>() - 1.0);
            tokio::select! {
                () = &mut connection => return,
                () = tokio::time::sleep(age_max.mul_f64(jitter)) => leaving.cancel(),
            }
        }
        connection.await;
    }
}

/// Settings of every connection.
fn http2<E>(executor: E) -> hyper::server::conn::http2::Builder<E>
where
    E: Clone,
{
    let mut builder = hyper::server::conn::http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        // Counted over the whole life of a connection, of many clients perhaps: the limit above is the one that ends it.
        .max_local_error_reset_streams(None::<usize>)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
    builder
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
