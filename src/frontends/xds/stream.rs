//! The life of one stream: requests, news of its names, responses.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Display as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{debug, warn};

use super::client::{Client, Style, Wildcard};
use super::entries::{Entries, Hold, Mailbox};
use super::listing::{Following, Listing};
use super::metrics::{End, Metrics, OpenStream};
use super::peers::{Full, Share};
use super::resource::{Kind, Known, Variant};
use super::roster::{self, Place, Roster};
use super::session::{Outcome, Request, Session, Verdict};
use super::wire;
use crate::frontends::ending::Ending;
use crate::proto::xds::core::Node;
use crate::proto::xds::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use crate::proto::xds::rpc;

/// Names that one stream may subscribe to.
const NAMES_MAX: usize = 100_000;

/// A request of either variant.
#[derive(Debug)]
pub(super) struct Incoming {
    node: Option<Node>,
    type_url: String,
    error: Option<rpc::Status>,
    request: Request,
}

/// What a stream may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every kind.
    Aggregated,
    /// Endpoints only, whether or not a request says so.
    Endpoints,
}

/// One stream.
pub(super) struct Running<S> {
    requests: S,
    half_closed: bool,
    scope: Scope,
    variant: Variant,
    session: Session,
    client: Option<Client>,
    style: Arc<Style>,
    share: Share,
    place: Place,
    /// There if a wildcard of the client stands for something.
    list: Option<Following>,
    holds: HashMap<Arc<str>, Hold>,
    mailbox: Arc<Mailbox>,
    /// What is to be sent, in pieces.
    outgoing: VecDeque<Bytes>,
    entries: Entries,
    listing: Listing,
    identifier: Arc<str>,
    metrics: Metrics,
    ending: Ending,
    open: OpenStream,
}

/// What every stream has in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) entries: Entries,
    pub(super) listing: Listing,
    pub(super) roster: Roster,
    pub(super) identifier: Arc<str>,
    pub(super) metrics: Metrics,
    pub(super) shutdown: CancellationToken,
    /// Over how long open streams are ended at shutdown.
    pub(super) drain: Duration,
}

enum Next {
    Request(Option<Result<Box<Incoming>, Status>>),
    News(Vec<Arc<str>>),
    List,
    Shutdown,
}

// === impl Running ===

impl<S> Running<S>
where
    S: Stream<Item = Result<Box<Incoming>, Status>> + Send + Unpin,
{
    /// A stream that ends when `leaving` is cancelled.
    pub(super) fn new(
        requests: S,
        (scope, variant): (Scope, Variant),
        (share, place): (Share, Place),
        leaving: CancellationToken,
        common: &Common,
    ) -> Self {
        Self {
            requests,
            half_closed: false,
            scope,
            variant,
            session: Session::new(variant),
            client: None,
            style: Arc::default(),
            share,
            place,
            list: None,
            holds: HashMap::new(),
            mailbox: Arc::default(),
            outgoing: VecDeque::new(),
            entries: common.entries.clone(),
            listing: common.listing.clone(),
            identifier: Arc::clone(&common.identifier),
            metrics: common.metrics.clone(),
            ending: Ending::new(leaving, common.drain),
            open: common.metrics.open(variant),
        }
    }

    /// The messages of the stream, framed, in pieces.
    pub(super) fn run(self) -> impl Stream<Item = Result<Bytes, Status>> + Send {
        futures::stream::unfold(Some(self), |state| async move {
            let mut state = state?;
            match state.next_piece().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(state))),
                Ok(None) => None,
                Err(status) => {
                    state.open.ends(End::Failed);
                    Some((Err(status), None))
                }
            }
        })
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(piece) = self.outgoing.pop_front() {
                return Ok(Some(piece));
            }
            self.answer();
            if !self.outgoing.is_empty() {
                continue;
            }
            if self.half_closed && self.session.is_answered() {
                return Ok(None);
            }
            let next = tokio::select! {
                () = self.ending.ended() => Next::Shutdown,
                request = self.requests.next(), if !self.half_closed => Next::Request(request),
                names = self.mailbox.take() => Next::News(names),
                () = listed(self.list.as_mut()) => Next::List,
            };
            match next {
                Next::Shutdown => {
                    self.open.ends(End::Drained);
                    return Ok(None);
                }
                Next::News(names) => {
                    for name in names {
                        self.session.on_change(&name);
                    }
                }
                Next::List => self.cover().await?,
                Next::Request(Some(request)) => self.on_request(request?).await?,
                Next::Request(None) => self.half_closed = true,
            }
            if self.half_closed {
                self.session.on_half_close();
            }
        }
    }

    /// Encodes what has to be said now.
    fn answer(&mut self) {
        let holds = &self.holds;
        let responses = self.session.responses(|kind, name| {
            holds
                .get(name)
                .map_or(Known::NotYet, |hold| hold.known(kind))
        });
        for response in responses {
            let pieces = wire::pieces(self.variant, &response, &self.identifier);
            let bytes = pieces.iter().map(Bytes::len).sum();
            self.metrics
                .response(response.kind, response.resources.len(), bytes);
            self.place.sent(response.kind, response.version);
            self.outgoing.extend(pieces);
        }
        if self.half_closed {
            self.session.on_half_close();
        }
        for name in self.session.let_go() {
            self.let_go(&name);
        }
    }

    /// Lets go of a name that nothing on the stream wants any more.
    fn let_go(&mut self, name: &Arc<str>) {
        if !self.session.wants(name) {
            self.holds.remove(name);
        }
    }

    /// Brings the session up to what its wildcard stands for.
    async fn cover(&mut self) -> Result<(), Status> {
        let Some((list, client)) = self.list.as_mut().zip(self.client.as_ref()) else {
            return Ok(());
        };
        if !self.session.is_wildcard(Kind::Cluster) {
            return Ok(());
        }
        if let Some(names) = list.names(&client.wildcard) {
            let added = self.session.cover(names);
            self.ensure_room()?;
            self.hold(Kind::Cluster, added).await;
            self.place
                .subscribed(Kind::Cluster, self.session.names(Kind::Cluster), true);
        }
        Ok(())
    }

    async fn on_request(&mut self, incoming: Box<Incoming>) -> Result<(), Status> {
        let Incoming {
            node,
            type_url,
            error,
            request,
        } = *incoming;
        if self.client.is_none() {
            let client = Client::new(node.as_ref());
            debug!(%client, variant = ?self.variant, "stream begins");
            self.place.introduce(&client);
            if client.wildcard != Wildcard::Nothing {
                self.session.expect_list();
                self.list = Some(self.listing.follow());
            }
            self.style = Arc::new(client.style.clone());
            self.client = Some(client);
        }
        let Some(kind) = self.kind_of(&type_url)? else {
            self.on_unknown_kind(&type_url, &request);
            return Ok(());
        };
        let outcome = self.session.on_request(kind, request);
        self.metrics.request(kind, outcome.verdict);
        self.ensure_room()?;
        self.note(kind, &outcome, error);
        for name in &outcome.dropped {
            self.let_go(name);
        }
        self.hold(kind, outcome.added).await;
        if kind == Kind::Cluster {
            self.cover().await?;
        }
        Ok(())
    }

    /// Follows names that are new on the stream.
    async fn hold(&mut self, kind: Kind, names: Vec<Arc<str>>) {
        for name in names {
            if self.holds.contains_key(&name) {
                continue;
            }
            let (hold, error) = self.entries.hold(&name, &self.style, &self.mailbox).await;
            if let Some(error) = error {
                self.metrics.bad_name();
                debug!(client = %self.client_name(), ?kind, ?name, %error, "name stands for nothing");
            }
            self.holds.insert(name, hold);
        }
    }

    fn kind_of(&self, type_url: &str) -> Result<Option<Kind>, Status> {
        match self.scope {
            Scope::Aggregated if type_url.is_empty() => {
                Err(Status::invalid_argument("type_url is missing"))
            }
            Scope::Aggregated => Ok(Kind::from_type_url(type_url)),
            Scope::Endpoints if type_url.is_empty() => Ok(Some(Kind::Assignment)),
            Scope::Endpoints => match Kind::from_type_url(type_url) {
                Some(Kind::Assignment) => Ok(Some(Kind::Assignment)),
                _ => Err(Status::invalid_argument(format!(
                    "this stream is for {}",
                    Kind::Assignment.type_url()
                ))),
            },
        }
    }

    /// Says of resources of a kind that we do not have that they are not there, where that can be said.
    fn on_unknown_kind(&mut self, type_url: &str, request: &Request) {
        debug!(client = %self.client_name(), type_url, "unknown kind");
        if self.variant == Variant::Delta && !request.names.is_empty() {
            let names = request.names.iter().map(ToString::to_string).collect();
            self.outgoing
                .push_back(wire::unknown_kind(type_url, names, &self.identifier));
        }
    }

    /// Fails if the stream wants more names than it may.
    fn ensure_room(&mut self) -> Result<(), Status> {
        let names = self.session.name_count();
        let room = if names > NAMES_MAX {
            Err(Full::Names(NAMES_MAX))
        } else {
            self.share.set_names(names)
        };
        room.map_err(|full| {
            self.metrics.full(full);
            warn!(client = %self.client_name(), ip = ?self.share.ip(), reason = %full, "stream ended");
            Status::resource_exhausted(full.to_string())
        })
    }

    /// Notes what a request says, for people who ask.
    fn note(&self, kind: Kind, outcome: &Outcome, error: Option<rpc::Status>) {
        if outcome.verdict == Verdict::None
            || !outcome.added.is_empty()
            || !outcome.dropped.is_empty()
        {
            let names = self.session.names(kind);
            self.place
                .subscribed(kind, names, self.session.is_wildcard(kind));
        }
        match outcome.verdict {
            Verdict::Accepted => {
                if let Some(after) = self.place.accepted(kind) {
                    self.metrics.accepted(kind, after);
                }
            }
            Verdict::Refused => {
                let reason = error.map_or_else(String::new, |error| error.message);
                let reason = roster::shortened(&reason);
                warn!(client = %self.client_name(), ?kind, reason, "response refused");
                self.place.refused(kind, reason);
            }
            Verdict::None | Verdict::Stale | Verdict::Again => {}
        }
    }

    fn client_name(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| match &self.client {
            Some(client) => client.fmt(f),
            None => f.write_str("anonymous"),
        })
    }
}

/// Waits until a list has changed, if there is one.
async fn listed(list: Option<&mut Following>) {
    match list {
        Some(list) => list.changed().await,
        None => std::future::pending().await,
    }
}

impl From<DiscoveryRequest> for Incoming {
    fn from(request: DiscoveryRequest) -> Self {
        Self {
            node: request.node,
            type_url: request.type_url,
            request: Request {
                refused: request.error_detail.is_some(),
                names: request.resource_names.into_iter().map(Arc::from).collect(),
                answered_before: !request.version_info.is_empty(),
                nonce: request.response_nonce,
                ..Request::default()
            },
            error: request.error_detail,
        }
    }
}

impl From<DeltaDiscoveryRequest> for Incoming {
    fn from(request: DeltaDiscoveryRequest) -> Self {
        let names = |names: Vec<String>| names.into_iter().map(Arc::from).collect();
        Self {
            node: request.node,
            type_url: request.type_url,
            request: Request {
                refused: request.error_detail.is_some(),
                names: names(request.resource_names_subscribe),
                unwanted: names(request.resource_names_unsubscribe),
                has: request
                    .initial_resource_versions
                    .into_iter()
                    .map(|(name, version)| (Arc::from(name), version))
                    .collect(),
                answered_before: false,
                nonce: request.response_nonce,
            },
            error: request.error_detail,
        }
    }
}
