//! The admin listener: whether the process lives, whether it is ready, its metrics, and pages that others make.
//!
//! `app` starts it first and stops it last, so that probes are answered for as long as there is a process. Nothing here
//! looks at the index.

mod exposition;
mod process;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use process::ProcessCollector;

use crate::readiness::Readiness;

/// Connections served at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// How long a client may take to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const CLASSIC_METRICS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Everything that scrapers are told.
#[derive(Debug)]
pub struct Registries {
    /// Names that only we use; they begin with `tributary_`.
    pub ours: Registry,
    /// Names that Linkerd's destination controller uses, with the labels and the meaning that they have there, so that
    /// dashboards and alerts made for it go on working.
    pub linkerd: Registry,
}

/// A body that is there or comes bit by bit.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Answers GET requests that this module has no answer for, by path and query; `None` where it has none either.
pub type MorePages =
    Arc<dyn Fn(String, Option<String>) -> BoxFuture<'static, Option<Response<Body>>> + Send + Sync>;

struct Pages {
    readiness: Readiness,
    registries: Registries,
    more: MorePages,
}

/// Answers on `listener` until `shutdown` is cancelled; requests under way then are still answered.
///
/// `/live` and `/ping` say that the process runs, `/ready` whether traffic may come, and if not, what is waited for;
/// `/metrics` is the registries in `OpenMetrics` text; `more` answers what else there is.
pub async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    registries: Registries,
    more: MorePages,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let pages = Arc::new(Pages {
        readiness,
        registries,
        more,
    });
    info!(addr = %listener.local_addr()?, "admin server listening");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&pages), shutdown.clone()));
                }
                Err(error) => {
                    warn!(%error, "admin connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn connection(stream: TcpStream, pages: Arc<Pages>, shutdown: CancellationToken) {
    let service = service_fn(move |request| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "admin connection ended");
    }
}

// === impl Registries ===

impl Default for Registries {
    fn default() -> Self {
        Self {
            ours: Registry::with_prefix("tributary"),
            linkerd: Registry::default(),
        }
    }
}

impl Registries {
    /// All metrics as they are now, in `OpenMetrics` text.
    pub(crate) fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut body = String::new();
        text::encode_registry(&mut body, &self.ours)?;
        text::encode_registry(&mut body, &self.linkerd)?;
        text::encode_eof(&mut body)?;
        Ok(body)
    }
}

// === impl Pages ===

impl Pages {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/live" => plain(StatusCode::OK, "ok\n"),
            "/ping" => plain(StatusCode::OK, "pong\n"),
            "/ready" => self.ready(),
            "/metrics" => self.metrics(request.headers()),
            path => {
                let query = request.uri().query().map(str::to_owned);
                let answer = (self.more)(path.to_owned(), query).await;
                answer.unwrap_or_else(|| {
                    plain(
                        StatusCode::NOT_FOUND,
                        "nothing here; try /, /live, /ready or /metrics\n",
                    )
                })
            }
        }
    }

    fn ready(&self) -> Response<Body> {
        let pending = self.readiness.explained();
        if pending.is_empty() {
            return plain(StatusCode::OK, "ok\n");
        }
        let mut body = String::from("not ready\n");
        for gate in pending {
            body.push_str(&gate);
            body.push('\n');
        }
        plain(StatusCode::SERVICE_UNAVAILABLE, body)
    }

    fn metrics(&self, headers: &HeaderMap) -> Response<Body> {
        match self.registries.encode() {
            Ok(body) if exposition::wants_open_metrics(headers) => {
                respond(StatusCode::OK, OPEN_METRICS, body)
            }
            Ok(body) => respond(StatusCode::OK, CLASSIC_METRICS, exposition::classic(&body)),
            Err(error) => {
                tracing::error!(%error, "metrics not encoded");
                plain(StatusCode::INTERNAL_SERVER_ERROR, "metrics not encoded\n")
            }
        }
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    respond(status, TEXT, body)
}

fn respond(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server, and what it takes to ask it and to end it.
    struct Running {
        address: SocketAddr,
        readiness: Readiness,
        shutdown: CancellationToken,
        tasks: JoinSet<io::Result<()>>,
    }

    async fn start() -> Running {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (readiness, shutdown) = (Readiness::default(), CancellationToken::new());
        let mut registries = Registries::default();
        let looks = Counter::<u64>::default();
        registries
            .ours
            .register("looks", "Times somebody looked", looks.clone());
        registries.linkerd.register("glances", "The same", looks);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(
            listener,
            readiness.clone(),
            registries,
            Arc::new(|_, _| Box::pin(std::future::ready(None))),
            shutdown.clone(),
        ));
        Running {
            address,
            readiness,
            shutdown,
            tasks,
        }
    }

    impl Running {
        /// The whole response to a request on a connection of its own.
        async fn ask(&self, request: &str) -> String {
            self.ask_for(request, "*/*").await
        }

        async fn ask_for(&self, request: &str, accept: &str) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!(
                "{request} HTTP/1.1\r\nhost: admin\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        }

        async fn check(&self, request: &str, status: &str, body: &str) {
            let response = self.ask(request).await;
            let (head, got) = response.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {head}"
            );
            assert_eq!(got, body, "{request}");
        }
    }

    #[tokio::test]
    async fn readiness_names_the_gates_that_are_waited_for() {
        let running = start().await;
        running.check("GET /ready", "200", "ok\n").await;
        running.readiness.close("home cluster: pods");
        running.readiness.close("home cluster: services");
        let gates = "not ready\nhome cluster: pods\nhome cluster: services\n";
        running.check("GET /ready", "503", gates).await;
        running.check("GET /live", "200", "ok\n").await;
    }

    #[tokio::test]
    async fn pages_are_what_probes_and_scrapers_expect() {
        let running = start().await;
        running.check("GET /ping?x=1", "200", "pong\n").await;
        running.check("HEAD /ping", "200", "").await;
        running
            .check("POST /ping", "405", "only GET and HEAD\n")
            .await;
        let hint = "nothing here; try /, /live, /ready or /metrics\n";
        running.check("GET /x", "404", hint).await;
        let metrics = running.ask("GET /metrics").await;
        assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
        assert!(
            metrics.contains("\n# TYPE tributary_looks_total counter\ntributary_looks_total 0\n")
        );
        assert!(metrics.ends_with("\nglances_total 0\n"), "{metrics}");
        let accept = "application/openmetrics-text; version=1.0.0";
        let metrics = running.ask_for("GET /metrics", accept).await;
        assert!(
            metrics.contains(
                "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"
            )
        );
        assert!(
            metrics.contains("\ntributary_looks_total 0\n")
                && metrics.ends_with("\nglances_total 0\n# EOF\n"),
            "{metrics}"
        );
        assert_eq!(metrics.matches("# EOF").count(), 1, "{metrics}");
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_idle_connections() {
        let mut running = start().await;
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        running.check("GET /ping", "200", "pong\n").await;
        running.shutdown.cancel();
        running.tasks.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
    }
}
