//! Credentials → a client of one API server.
//!
//! The stack is kube's without its own retries, which would hide an outage, and without its tracing, which would log
//! every failed attempt as an error. Timeouts are the callers' business, except for establishing a connection.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::DATE;
use http::{HeaderValue, Response, Uri};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::Kubeconfig;
use parking_lot::Mutex;
use tower::{BoxError, Service, ServiceBuilder};
use tracing::warn;

use super::failure::{Failure, FailureClass};
use crate::publish::Clock;
use crate::sources::metrics::RequestMetrics;

/// Short enough that an API server is noticed within seconds of its return, after attempts that nobody answered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Lets the kernel notice a peer that is gone, besides our own deadlines.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Connections are reused between one watch and the next, not longer: a pooled one may be dead.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A way to one API server. Clients are made on demand, and anew from files that may have changed.
#[derive(Debug)]
pub(super) struct Access {
    origin: Origin,
    pub(super) requests: RequestMetrics,
    clock: Clock,
    current: Mutex<Option<Current>>,
    /// Whether it has been said that the server's certificate is not checked.
    warned: AtomicBool,
}

/// Where credentials come from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// They are given and do not change.
    Fixed(Box<kube::Config>),
    /// A kubeconfig file, which is trusted: it may name other files and commands.
    Kubeconfig(PathBuf),
    /// The service account of the Pod we run in.
    InCluster,
}

#[derive(Clone)]
struct Current {
    client: kube::Client,
    address: String,
    unverified: bool,
}

/// What stands in the way of a client.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("cannot use the kubeconfig {}", .0.display())]
    Kubeconfig(PathBuf, #[source] kube::config::KubeconfigError),
    #[error("no kubeconfig is given and this is no Pod with a service account")]
    InCluster(#[source] kube::config::InClusterError),
    #[error("cannot make a client")]
    Client(#[source] kube::Error),
    #[error("making a client was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

// === impl Access ===

impl Access {
    /// `clock` is told the time by which the API server dates its answers.
    pub(super) fn new(origin: Origin, requests: RequestMetrics, clock: Clock) -> Self {
        Self {
            origin,
            requests,
            clock,
            current: Mutex::new(None),
            warned: AtomicBool::new(false),
        }
    }

    /// A client, the same one until [`Self::refresh`].
    pub(super) async fn client(&self) -> Result<kube::Client, Failure> {
        let current = self.current.lock().clone();
        if let Some(current) = current {
            return Ok(current.client);
        }
        let (origin, clock) = (self.origin.clone(), self.clock.clone());
        // Files are read and commands may be run.
        let made = tokio::task::spawn_blocking(move || origin.connect(clock))
            .await
            .unwrap_or_else(|error| Err(ConnectError::Interrupted(error)));
        let made = made.map_err(|error| Failure::new(FailureClass::Unusable, chain(&error)))?;
        if made.unverified && !self.warned.swap(true, Ordering::Relaxed) {
            warn!(
                server = %made.address,
                "certificate of the API server is not checked, anybody may pose as it; replace insecure-skip-tls-verify by \
                 certificate-authority-data"
            );
        }
        Ok(self.current.lock().insert(made).client.clone())
    }

    /// Reads the credentials again before the next request, where they come from files.
    pub(super) fn refresh(&self) {
        match self.origin {
            Origin::Fixed(_) => {}
            Origin::Kubeconfig(_) | Origin::InCluster => *self.current.lock() = None,
        }
    }

    /// Address of the API server, once it is known.
    pub(super) fn address(&self) -> Option<String> {
        match &self.origin {
            Origin::Fixed(config) => Some(config.cluster_url.to_string()),
            Origin::Kubeconfig(_) | Origin::InCluster => self
                .current
                .lock()
                .as_ref()
                .map(|current| current.address.clone()),
        }
    }
}

// === impl Origin ===

impl Origin {
    fn connect(self, clock: Clock) -> Result<Current, ConnectError> {
        let config = match self {
            Self::Fixed(config) => *config,
            Self::Kubeconfig(path) => Kubeconfig::read_from(&path)
                .and_then(kube::Config::try_from)
                .map_err(|error| ConnectError::Kubeconfig(path, error))?,
            Self::InCluster => kube::Config::incluster().map_err(ConnectError::InCluster)?,
        };
        Ok(Current {
            client: client(&config, clock).map_err(ConnectError::Client)?,
            address: config.cluster_url.to_string(),
            unverified: config.accept_invalid_certs,
        })
    }
}

// === impl Current ===

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn client(config: &kube::Config, clock: Clock) -> kube::Result<kube::Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    let Some(proxy) = &config.proxy_url else {
        return stack(config, tcp, clock);
    };
    match proxy.scheme_str() {
        Some("http") => stack(config, tunnel(proxy, tcp), clock),
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            stack(config, tunnel(proxy, tls), clock)
        }
        _ => Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy.clone()),
        }),
    }
}

fn stack<C>(config: &kube::Config, connector: C, clock: Clock) -> kube::Result<kube::Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + std::error::Error + Send + Sync + 'static,
{
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: hyper_util::client::legacy::Client<_, Body> =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_response(move |response| note_date(response, &clock))
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Compares the date of an answer with our clock.
fn note_date<B>(response: Response<B>, clock: &Clock) -> Response<B> {
    let date = response.headers().get(DATE);
    let date = date.and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    if let Some(date) = date {
        clock.compare(date, SystemTime::now());
    }
    response
}

fn tunnel<C>(proxy: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let user_info = proxy
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'))
        .map(|(user_info, _)| format!("Basic {}", STANDARD.encode(percent_decoded(user_info))));
    match user_info.map(HeaderValue::try_from) {
        Some(Ok(header)) => tunnel.with_auth(header),
        _ => tunnel,
    }
}

/// A URI's user and password, as they were meant.
fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digit = |offset: usize| {
            bytes
                .get(at + offset)
                .and_then(|digit| char::from(*digit).to_digit(16))
        };
        if let (b'%', Some(high), Some(low)) = (byte, digit(1), digit(2)) {
            decoded.extend(u8::try_from(high * 16 + low));
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    decoded
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        // Some errors print their cause themselves.
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_info_is_decoded() {
        for (text, decoded) in [
            ("user:pa%40ss%3Aword", "user:pa@ss:word"),
            ("plain", "plain"),
            ("%+A%", "%+A%"),
            ("%4", "%4"),
        ] {
            assert_eq!(percent_decoded(text), decoded.as_bytes(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let access = Access::new(
            Origin::Kubeconfig("/nonexistent/config".into()),
            RequestMetrics::default(),
            Clock::default(),
        );
        let failure = access.client().await.err().expect("a failure");
        assert_eq!(failure.class, FailureClass::Unusable);
        assert!(
            failure
                .reason
                .starts_with("cannot use the kubeconfig /nonexistent/config: "),
            "{failure:?}"
        );
    }
}
