//! One list-and-watch of one resource, for ever.
//!
//! A watch lists everything once, streamed where the server can and in pages where it cannot, and then follows changes in
//! requests that end after some 20 s, each preceded by a bookmark: a connection that has silently died is noticed soon,
//! and a quiet one still gives signs of life. A request that ends is resumed at the version reached; only a server that
//! does not know that version any more makes it list again. Lists are consistent reads: a server that lags waits, so what
//! is listed later is never older.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyDataStream, BodyExt as _, Limited};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::connect::Access;
use super::failure::{Failure, FailureClass};
use super::objects::HasMetadata;
use super::wire::{ApiStatus, Line, LineBuffer, Undecodable, decode_line, decode_page};
use crate::index::Kind;

/// How long the server keeps one request open, drawn anew each time so that requests do not end together.
const WATCH_SECONDS: std::ops::Range<u32> = 18..24;

/// EndpointSlices that no writer of this kind made, be it here or in another cluster: theirs are never read, and with many clusters
/// that write for one another they would be most of the traffic.
const SLICES_OF_OTHERS: &str =
    "endpointslice.kubernetes.io/managed-by!=endpointslice-writer.tributary.dev";

/// Silence after which a watch is dead: its request should have ended before.
const SILENCE_MAX: Duration = Duration::from_secs(28);

/// How long the server may take for a streamed list.
const STREAMED_LIST_SECONDS: u32 = 240;

/// Wait for the beginning of an answer, and between parts of a list.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(12);

/// Waits between attempts: short at first, and never so long that an API server's return goes unnoticed.
const BACKOFF: std::ops::Range<Duration> = Duration::from_millis(100)..Duration::from_secs(2);

/// Longest wait where the server is there and says no: that may be so for ever.
const REFUSED_BACKOFF_MAX: Duration = Duration::from_secs(4);

/// A watch that ends sooner than this and says nothing has failed.
const SHORT_LIVED: Duration = Duration::from_secs(1);

/// Bytes of one page of a list.
const PAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes that are read of an answer that says what went wrong.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// What is watched.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    path: String,
    fields: Option<&'static str>,
    labels: Option<&'static str>,
    content: Content,
    page_size: u32,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    Whole,
    MetadataOnly,
}

/// What a watch reports.
#[derive(Debug)]
pub(super) enum Event<K> {
    /// A list of everything begins, perhaps once more.
    ListStarted,
    /// The list has this object.
    Listed(K),
    /// The list is complete.
    ListEnded,
    /// An object was made or changed.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// The server is there and nothing else has happened.
    Alive,
    /// An object that cannot be decoded was left out.
    Undecodable(Undecodable),
}

/// A list-and-watch of one resource.
#[derive(Debug)]
pub(super) struct Watch<K> {
    access: Arc<Access>,
    resource: Resource,
    streams_lists: Arc<AtomicBool>,
    state: State<K>,
    /// Failures since something was last heard.
    failures: u32,
    /// Whether the last failure was that no answer came.
    is_away: bool,
    /// How long to wait first.
    wait: Option<Duration>,
    object: PhantomData<fn() -> K>,
}

#[derive(Debug)]
enum State<K> {
    /// Everything has to be listed.
    List,
    /// A streamed list is coming in.
    Streaming(Lines),
    /// A list is coming in by pages.
    Paging {
        page: std::vec::IntoIter<Result<K, Undecodable>>,
        next: Option<String>,
        version: String,
    },
    /// Everything up to this version is known.
    Listed(String),
    /// Changes since this version are coming in.
    Watching(String, Lines),
}

/// The lines of an answer.
struct Lines {
    body: BodyDataStream<Body>,
    buffer: LineBuffer,
    since: Instant,
    /// Whether there was any line.
    any: bool,
    /// Whether the answer broke off.
    broken: bool,
}

// === impl Resource ===

impl Resource {
    /// All objects of a kind.
    pub(super) fn of(kind: Kind) -> Self {
        let (path, content, page_size) = match kind {
            Kind::Service => ("/api/v1/services", Content::Whole, 500),
            // Each may have a hundred endpoints, and a thousand at most.
            Kind::EndpointSlice => (
                "/apis/discovery.k8s.io/v1/endpointslices",
                Content::Whole,
                50,
            ),
            // Each may have a thousand endpoints.
            Kind::Endpoints => ("/api/v1/endpoints", Content::Whole, 50),
            Kind::Pod => ("/api/v1/pods", Content::Whole, 250),
            Kind::Node => ("/api/v1/nodes", Content::MetadataOnly, 500),
            Kind::ReplicaSet => ("/apis/apps/v1/replicasets", Content::MetadataOnly, 500),
            Kind::Job => ("/apis/batch/v1/jobs", Content::MetadataOnly, 500),
            Kind::ServiceProfile => (
                "/apis/linkerd.io/v1alpha2/serviceprofiles",
                Content::Whole,
                100,
            ),
            Kind::ExternalWorkload => (
                "/apis/workload.linkerd.io/v1beta1/externalworkloads",
                Content::Whole,
                500,
            ),
            Kind::Server => (
                "/apis/policy.linkerd.io/v1beta3/servers",
                Content::Whole,
                500,
            ),
        };
        Self {
            path: path.to_owned(),
            fields: None,
            labels: (kind == Kind::EndpointSlice).then_some(SLICES_OF_OTHERS),
            content,
            page_size,
        }
    }

    /// Secrets of one namespace: of some types, and with a label if one is given.
    pub(super) fn secrets(
        namespace: &str,
        type_selector: &'static str,
        label: Option<&'static str>,
    ) -> Self {
        Self {
            path: format!("/api/v1/namespaces/{namespace}/secrets"),
            fields: Some(type_selector),
            labels: label,
            content: Content::Whole,
            page_size: 50,
        }
    }

    /// Linkerd's `Link`s, of every namespace.
    pub(super) fn links() -> Self {
        Self {
            path: "/apis/multicluster.linkerd.io/v1alpha3/links".to_owned(),
            fields: None,
            labels: None,
            content: Content::Whole,
            page_size: 100,
        }
    }

    /// The metadata of Pods of one namespace with a label.
    pub(super) fn pods(namespace: &str, label: &'static str) -> Self {
        Self {
            path: format!("/api/v1/namespaces/{namespace}/pods"),
            fields: None,
            labels: Some(label),
            content: Content::MetadataOnly,
            page_size: 100,
        }
    }

    fn list(&self, next: Option<String>) -> Result<http::Request<Vec<u8>>, Failure> {
        let parameters = ListParams {
            field_selector: self.fields.map(str::to_owned),
            label_selector: self.labels.map(str::to_owned),
            limit: Some(self.page_size),
            continue_token: next,
            ..ListParams::default()
        };
        let request = Request::new(self.path.as_str());
        match self.content {
            Content::Whole => request.list(&parameters),
            Content::MetadataOnly => request.list_metadata(&parameters),
        }
        .map_err(|error| Failure::of(&error))
    }

    /// Without a version, everything is listed first.
    fn watch(
        &self,
        version: Option<&str>,
        seconds: u32,
    ) -> Result<http::Request<Vec<u8>>, Failure> {
        let parameters = WatchParams {
            field_selector: self.fields.map(str::to_owned),
            label_selector: self.labels.map(str::to_owned),
            timeout: Some(seconds),
            bookmarks: true,
            send_initial_events: version.is_none(),
        };
        let request = Request::new(self.path.as_str());
        // An empty version asks for a consistent read.
        let version = version.unwrap_or_default();
        match self.content {
            Content::Whole => request.watch(&parameters, version),
            Content::MetadataOnly => request.watch_metadata(&parameters, version),
        }
        .map_err(|error| Failure::of(&error))
    }
}

// === impl Watch ===

impl<K: HasMetadata + DeserializeOwned> Watch<K> {
    /// A watch that has not begun. `streams_lists` remembers whether the server can stream lists.
    pub(super) fn new(
        access: Arc<Access>,
        resource: Resource,
        streams_lists: Arc<AtomicBool>,
    ) -> Self {
        Self {
            access,
            resource,
            streams_lists,
            state: State::List,
            failures: 0,
            is_away: false,
            wait: None,
            object: PhantomData,
        }
    }

    /// Waits for what happens next. After a failure it goes on by itself, having waited a little.
    ///
    /// Not to be dropped half-way if it is to go on.
    pub(super) async fn next(&mut self) -> Result<Event<K>, Failure> {
        if let Some(wait) = self.wait.take() {
            sleep(wait).await;
        }
        loop {
            match self.step().await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(failure) => {
                    let was_away = std::mem::replace(&mut self.is_away, failure.class.is_silence());
                    self.failures = match (was_away, self.is_away) {
                        // It is back, if not well yet: that may be a matter of moments.
                        (true, false) => 1,
                        _ => self.failures.saturating_add(1),
                    };
                    self.wait = Some(backoff(self.failures, failure.class));
                    self.on_failure(&failure);
                    return Err(failure);
                }
            }
        }
    }

    /// Lists everything again, whatever is known.
    pub(super) fn relist(&mut self) {
        self.state = State::List;
    }

    fn on_failure(&mut self, failure: &Failure) {
        let state = std::mem::replace(&mut self.state, State::List);
        self.state = match (failure.class, state) {
            // Asking the same question again would bring the same answer.
            (FailureClass::Expired | FailureClass::Unsupported | FailureClass::Garbled, _)
            | (_, State::List | State::Streaming(_) | State::Paging { .. }) => State::List,
            (_, State::Listed(version) | State::Watching(version, _)) => State::Listed(version),
        };
        match failure.class {
            FailureClass::Unauthorized | FailureClass::Untrusted | FailureClass::Unusable => {
                self.access.refresh();
            }
            _ => {}
        }
    }

    /// One step; `None` if there is nothing to report. A failure leaves the state as it was.
    async fn step(&mut self) -> Result<Option<Event<K>>, Failure> {
        match &mut self.state {
            State::List if self.streams_lists.load(Ordering::Relaxed) => {
                let request = self.resource.watch(None, STREAMED_LIST_SECONDS)?;
                match open(&self.access, request).await {
                    Ok(body) => self.state = State::Streaming(Lines::new(body)),
                    Err(failure) if failure.class == FailureClass::Unsupported => {
                        self.streams_lists.store(false, Ordering::Relaxed);
                        return Ok(None);
                    }
                    Err(failure) => return Err(failure),
                }
                Ok(Some(Event::ListStarted))
            }
            State::List => {
                self.fetch_page(None).await?;
                Ok(Some(Event::ListStarted))
            }
            State::Streaming(_) => self.stream_list().await,
            State::Paging {
                page,
                next,
                version,
            } => {
                if let Some(item) = page.next() {
                    return Ok(Some(match item {
                        Ok(object) => Event::Listed(object),
                        Err(undecodable) => Event::Undecodable(undecodable),
                    }));
                }
                let Some(next) = next.take() else {
                    self.state = State::Listed(std::mem::take(version));
                    return Ok(Some(Event::ListEnded));
                };
                self.fetch_page(Some(next)).await?;
                Ok(None)
            }
            State::Listed(version) => {
                let seconds = rand::random_range(WATCH_SECONDS);
                let request = self.resource.watch(Some(version), seconds)?;
                let version = version.clone();
                let body = open(&self.access, request).await?;
                self.state = State::Watching(version, Lines::new(body));
                Ok(Some(Event::Alive))
            }
            State::Watching(version, lines) => {
                let Some(line) = lines.next_line(SILENCE_MAX).await? else {
                    let failed = !lines.any && lines.since.elapsed() < SHORT_LIVED;
                    let version = std::mem::take(version);
                    self.state = State::Listed(version);
                    return if failed {
                        Err(Failure::new(
                            FailureClass::Unreachable,
                            "connection closed as soon as it was opened",
                        ))
                    } else {
                        Ok(None)
                    };
                };
                let line = decode_line::<K>(&line).map_err(|error| Failure::garbled(&error))?;
                let (reached, event) = match line {
                    Line::Failed(status) => return Err(Failure::answered(&status)),
                    Line::Applied(object) => (
                        object.metadata().resource_version.clone(),
                        Event::Applied(object),
                    ),
                    Line::Deleted(object) => (
                        object.metadata().resource_version.clone(),
                        Event::Deleted(object),
                    ),
                    Line::Bookmark { version, .. } => (version, Event::Alive),
                    Line::Undecodable(bad) => (bad.version.clone(), Event::Undecodable(bad)),
                };
                if !reached.is_empty() {
                    *version = reached;
                }
                self.failures = 0;
                Ok(Some(event))
            }
        }
    }

    async fn stream_list(&mut self) -> Result<Option<Event<K>>, Failure> {
        let State::Streaming(lines) = &mut self.state else {
            return Ok(None);
        };
        let line = lines.next_line(RESPONSE_TIMEOUT).await;
        if matches!(line, Ok(None) | Err(_)) && !lines.broken {
            // A server that never says that the list is complete may not know what it was asked for.
            self.streams_lists.store(false, Ordering::Relaxed);
        }
        let Some(line) = line? else {
            return Err(Failure::new(
                FailureClass::Unreachable,
                "connection closed before the list was complete",
            ));
        };
        match decode_line::<K>(&line).map_err(|error| Failure::garbled(&error))? {
            Line::Failed(status) => Err(Failure::answered(&status)),
            Line::Applied(object) => Ok(Some(Event::Listed(object))),
            Line::Deleted(object) => Ok(Some(Event::Deleted(object))),
            Line::Undecodable(undecodable) => Ok(Some(Event::Undecodable(undecodable))),
            Line::Bookmark {
                ends_list: false, ..
            } => Ok(None),
            // The rest is watched in short requests.
            Line::Bookmark { version, .. } => {
                self.state = State::Listed(version);
                Ok(Some(Event::ListEnded))
            }
        }
    }

    async fn fetch_page(&mut self, token: Option<String>) -> Result<(), Failure> {
        let body = open(&self.access, self.resource.list(token)?).await?;
        let collected = collect(body, PAGE_BYTES_MAX).await?;
        let fetched = decode_page(&collected).map_err(|error| Failure::garbled(&error))?;
        self.state = State::Paging {
            page: fetched.items.into_iter(),
            next: fetched.next,
            version: fetched.version,
        };
        Ok(())
    }
}

/// Sends a request and waits for the beginning of the answer.
async fn open(access: &Access, request: http::Request<Vec<u8>>) -> Result<Body, Failure> {
    let client = access.client().await?;
    let in_flight = access.requests.begin();
    let sent = client.send(request.map(Body::from));
    let response = timeout(RESPONSE_TIMEOUT, sent)
        .await
        .map_err(|_| Failure::silent())?
        .map_err(|error| Failure::of(&error))?;
    let code = response.status();
    in_flight.answered(code);
    if code.is_success() {
        return Ok(response.into_body());
    }
    // Proxies answer with anything; only a Status has words worth repeating.
    let body = collect(response.into_body(), ERROR_BYTES_MAX).await;
    let status = body
        .ok()
        .and_then(|body| serde_json::from_slice::<ApiStatus>(&body).ok());
    Err(Failure::answered(&ApiStatus {
        code: code.as_u16(),
        message: status.map(|status| status.message).unwrap_or_default(),
    }))
}

async fn collect(body: Body, bytes_max: usize) -> Result<Bytes, Failure> {
    timeout(PAGE_TIMEOUT, Limited::new(body, bytes_max).collect())
        .await
        .map_err(|_| Failure::silent())?
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| Failure::of(&*error))
}

/// Wait for the whole of one page.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// The wait before the next attempt after so many failures in a row: doubled each time, up to a half of it by chance.
fn backoff(failures: u32, class: FailureClass) -> Duration {
    let longest = match class {
        FailureClass::Forbidden | FailureClass::Absent => REFUSED_BACKOFF_MAX,
        _ => BACKOFF.end,
    };
    let doubled = BACKOFF.start * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    doubled.min(longest).mul_f64(rand::random_range(0.5..1.0))
}

// === impl Lines ===

impl Lines {
    fn new(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            buffer: LineBuffer::default(),
            since: Instant::now(),
            any: false,
            broken: false,
        }
    }

    /// The next line; `None` at the end, be it orderly or not: what is missing is asked for again.
    async fn next_line(&mut self, silence_max: Duration) -> Result<Option<Bytes>, Failure> {
        loop {
            let line = self.buffer.next_line();
            if let Some(line) =
                line.map_err(|error| Failure::new(FailureClass::Garbled, error.to_string()))?
            {
                self.any = true;
                return Ok(Some(line));
            }
            match timeout(silence_max, self.body.next()).await {
                Ok(Some(Ok(chunk))) => self.buffer.push(&chunk),
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => {
                    self.broken = true;
                    return Ok(None);
                }
                Err(_) => return Err(Failure::silent()),
            }
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
