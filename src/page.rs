//! The status page of the admin listener: what people look at first.
//!
//! Everything on it comes through `tributary.v1`, called in the process. It is one document with nothing outside of it, made
//! whole on the server, so that it works without a script; with one, the parts that have changed are sent as server-sent
//! events and put in their places. Nothing is decided in the browser.

mod clusters;
mod look;
mod service;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::header::{RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::proto::tributary_v1::introspection_server::Introspection;
use look::{Look, Wanted};

/// A body that is there or comes bit by bit.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// Between two looks for somebody who watches.
const INTERVAL: Duration = Duration::from_secs(2);
/// How many may watch at once: the listener has connections for probes and scrapers, too.
const WATCHERS_MAX: usize = 24;

/// Settings that the page has to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Domain that short names are completed with.
    pub cluster_domain: String,
    /// How old a linked cluster may become before its endpoints are withheld; `None` means as old as it likes.
    pub staleness_ttl: Option<Duration>,
}

/// The page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Page<A> {
    api: A,
    settings: Arc<Settings>,
    policy: HeaderValue,
    watchers: Arc<Semaphore>,
    shutdown: CancellationToken,
}

/// A part of the page that is replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    id: &'static str,
    html: String,
}

// === impl Page ===

impl<A: Introspection + Clone> Page<A> {
    /// A page that shows what `api` says; when `shutdown` is cancelled, whoever watches is let go.
    pub fn new(api: A, settings: Settings, shutdown: CancellationToken) -> Self {
        Self {
            api,
            settings: Arc::new(settings),
            policy: content_policy(),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            shutdown,
        }
    }

    /// Answers a GET request for a path; `None` if it is none of ours.
    pub async fn answer(&self, path: &str, query: Option<&str>) -> Option<Response<Body>> {
        let wanted = || Wanted::parse(query.unwrap_or_default());
        match path {
            "/" => Some(self.document(&wanted()).await),
            "/page/events" => Some(self.events(wanted())),
            _ => None,
        }
    }

    async fn document(&self, wanted: &Wanted) -> Response<Body> {
        let look = Look::take(&self.api, &self.settings, wanted).await;
        let regions = regions(&look, wanted, &self.settings);
        let text = document(&regions, wanted, &look).into_string();
        let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Parts of the page as they change, for ever.
    fn events(&self, wanted: Wanted) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.watchers).try_acquire_owned() else {
            let text = format!("{WATCHERS_MAX} are watching already; reload the page to look\n");
            let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            let retry = HeaderValue::from_static("30");
            response.headers_mut().insert(RETRY_AFTER, retry);
            return response;
        };
        let frames = self
            .clone()
            .changes(wanted, permit)
            .map(|text| Ok(Frame::data(Bytes::from(text))));
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn changes(
        self,
        wanted: Wanted,
        permit: OwnedSemaphorePermit,
    ) -> impl Stream<Item = String> + Send + use<A> {
        let state = (self, wanted, permit, Vec::new(), false);
        futures::stream::unfold(state, |state| async move {
            let (page, wanted, permit, shown, waits) = state;
            if waits {
                tokio::select! {
                    () = page.shutdown.cancelled() => return None,
                    () = tokio::time::sleep(INTERVAL) => {}
                }
            }
            let look = Look::take(&page.api, &page.settings, &wanted).await;
            let regions = regions(&look, &wanted, &page.settings);
            // A comment keeps the connection alive where nothing has changed.
            let mut text = ":\n\n".to_owned();
            for region in regions.iter().filter(|region| !shown.contains(*region)) {
                text.push_str(&event(region));
            }
            Some((text, (page, wanted, permit, regions, true)))
        })
    }
}

fn event(region: &Region) -> String {
    let data = serde_json::json!({ "id": region.id, "html": region.html });
    format!("data: {data}\n\n")
}

/// Only what is in the page may run or look; nothing may be loaded from anywhere.
fn content_policy() -> HeaderValue {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    // Base64 is fit for a header.
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
}

fn regions(look: &Look, wanted: &Wanted, settings: &Settings) -> Vec<Region> {
    let region = |id, markup: Markup| Region {
        id,
        html: markup.into_string(),
    };
    vec![
        region("summary", clusters::summary(look)),
        region("clusters", clusters::cards(look, settings)),
        region("findings", clusters::findings(look)),
        region("service", service::service(look, wanted)),
        region("streams", clusters::streams(look)),
    ]
}

fn document(regions: &[Region], wanted: &Wanted, look: &Look) -> Markup {
    let region = |id: &str| {
        let found = regions.iter().find(|region| region.id == id);
        let html = found.map(|region| region.html.clone()).unwrap_or_default();
        html! { div id=(id) { (PreEscaped(html)) } }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                link rel="icon" href="data:,";
                title { "Tributary" @if !wanted.authority.is_empty() { ": " (wanted.authority) } }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#search" { "Skip to search" }
                header {
                    h1 { "Tributary" }
                    (region("summary"))
                    small { "This page is " span id="live" role="status" { "as of its loading" } "." }
                }
                main {
                    section aria-labelledby="of-clusters" {
                        h2 id="of-clusters" { "Clusters" }
                        (region("clusters"))
                        (region("findings"))
                    }
                    section aria-labelledby="of-service" {
                        h2 id="of-service" { "Services" }
                        (service::search(look, wanted))
                        (region("service"))
                    }
                    section aria-labelledby="of-streams" {
                        h2 id="of-streams" { "Streams" }
                        (region("streams"))
                    }
                }
                footer.dim {
                    "The same from a terminal: "
                    code { "tributary clusters" } ", " code { "check" } ", " code { "explain" } ", " code { "top" }
                    ". Machines read " a href="/metrics" { "/metrics" } "; probes " a href="/ready" { "/ready" } "."
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}
