//! The life of one `Get` stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::dispatch::{Dispatch, Refusal};
use super::metrics::OpenStream;
use super::translate::Translation;
use crate::answer::Piece;
use crate::frontends::ending::Ending;
use crate::index::{MemberState, ServiceSnapshot};
use crate::model::{ClusterName, NodeName, ServiceName, Text};
use crate::publish::{Catalog, Frames, ViewSubscription, ViewVersion};

/// What a client asked for, and from where.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) service: ServiceName,
    pub(super) instance: Option<Text>,
    pub(super) port: u16,
    pub(super) node: Option<NodeName>,
}

/// Why a stream does not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotOpened {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the home cluster has not been read yet")]
    HomeNotSynced,
    #[error("nothing is known yet of {0} in cluster {1}, which has not been read")]
    NothingKnown(ServiceName, ClusterName),
    #[error("shutting down")]
    ShuttingDown,
}

/// A subscription that has something to say.
#[derive(Debug)]
pub(super) struct Opened {
    first: Arc<ViewVersion>,
    dispatch: Dispatch,
    subscription: ViewSubscription,
}

/// Subscribes to a Service and waits until there is an answer that may be given.
///
/// That is a complete one; or, when some cluster has not been read within the grace time, one that has endpoints at least.
/// A cluster's grace time begins when the cluster is linked, and no request waits longer than one grace time.
/// Response headers are held back until then, so that a client that gets none backs off.
pub(super) async fn open(
    request: Request,
    catalog: &Catalog,
    grace: Duration,
    shutdown: &CancellationToken,
) -> Result<Opened, NotOpened> {
    let patience = Instant::now() + grace;
    home_known(catalog, patience, shutdown).await?;
    let Some(subscription) = catalog.subscribe(&request.service) else {
        return Err(Refusal::ServiceNotFound(request.service).into());
    };
    let place = catalog.place(request.node);
    let mut subscription = subscription.for_client(request.port, request.instance, place);
    loop {
        let (dispatch, unread) = subscription.with_snapshot(|snapshot| {
            Ok::<_, Refusal>((Dispatch::of(snapshot)?, youngest_unread(snapshot, catalog)))
        })?;
        let first = subscription.view();
        let waits_until = unread
            .as_ref()
            .map(|(since, _)| patience.min(*since + grace));
        match (unread, waits_until) {
            (Some(_), Some(until)) if until > Instant::now() => tokio::select! {
                () = shutdown.cancelled() => return Err(NotOpened::ShuttingDown),
                () = tokio::time::sleep_until(until) => {}
                () = subscription.changed() => {}
            },
            (Some((_, cluster)), _) if first.view().endpoints.is_empty() => {
                return Err(NotOpened::NothingKnown(request.service, cluster));
            }
            _ => {
                return Ok(Opened {
                    first,
                    dispatch,
                    subscription,
                });
            }
        }
    }
}

/// Waits until the home cluster has been read, but not longer than until `patience`.
pub(super) async fn home_known(
    catalog: &Catalog,
    patience: Instant,
    shutdown: &CancellationToken,
) -> Result<(), NotOpened> {
    if catalog.is_home_synced() {
        return Ok(());
    }
    tokio::select! {
        () = shutdown.cancelled() => Err(NotOpened::ShuttingDown),
        () = tokio::time::sleep_until(patience) => Err(NotOpened::HomeNotSynced),
        () = catalog.home_synced() => Ok(()),
    }
}

/// The cluster known for the shortest time, of those that may have endpoints nobody knows of yet, and since when it is.
fn youngest_unread(
    snapshot: &ServiceSnapshot,
    catalog: &Catalog,
) -> Option<(Instant, ClusterName)> {
    snapshot
        .members
        .iter()
        .filter(|member| member.state == MemberState::Syncing)
        .map(|member| &member.cluster.name)
        .map(|cluster| (catalog.known_since(cluster), cluster))
        .max()
        .map(|(since, cluster)| (since, cluster.clone()))
}

// === impl Opened ===

impl Opened {
    /// The messages of the stream, framed, until the client leaves, the process shuts down, or the Service becomes
    /// something else. It remembers what it sent by one pointer and sends the difference to what is true now.
    pub(super) fn run(
        self,
        translation: Arc<Translation>,
        ending: Ending,
        open_stream: OpenStream,
    ) -> impl Stream<Item = Piece> + Send {
        Running {
            unsent: Unsent::default(),
            next: Some(self.first),
            sent: None,
            dispatch: self.dispatch,
            subscription: self.subscription,
            translation,
            ending,
            open_stream,
        }
    }
}

struct Running {
    /// Of `sent`.
    unsent: Unsent,
    next: Option<Arc<ViewVersion>>,
    sent: Option<Arc<ViewVersion>>,
    dispatch: Dispatch,
    subscription: ViewSubscription,
    translation: Arc<Translation>,
    ending: Ending,
    open_stream: OpenStream,
}

/// Messages that have not been handed over yet.
#[derive(Debug, Default)]
struct Unsent {
    /// All that belong together, as long as some of them are left.
    frames: Option<Frames>,
    /// Of the next one.
    place: usize,
    since: Option<Instant>,
}

// === impl Unsent ===

impl Unsent {
    fn take_next(&mut self) -> Option<Piece> {
        let frames = self.frames.as_ref()?;
        let message = frames.get(self.place).map(|bytes| Piece {
            bytes: bytes.clone(),
            since: self.since,
        });
        self.place += 1;
        if self.place >= frames.len() {
            self.frames = None;
        }
        message
    }
}

// === impl Running ===

impl Stream for Running {
    type Item = Piece;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = &mut *self;
        loop {
            if let Some(message) = this.unsent.take_next() {
                this.open_stream.sent(message.bytes.len());
                return Poll::Ready(Some(message));
            }
            if let Some(next) = this.next.take() {
                this.unsent = Unsent {
                    frames: Some(this.frames_to(&next)),
                    place: 0,
                    since: this.sent.is_some().then(|| next.since()),
                };
                this.sent = Some(next);
                continue;
            }
            if this.ending.poll_ended(context).is_ready() {
                return Poll::Ready(None);
            }
            ready!(this.subscription.poll_changed(context));
            if !this.still_holds() {
                return Poll::Ready(None);
            }
            let view = this.subscription.view();
            if this
                .sent
                .as_ref()
                .is_none_or(|sent| !Arc::ptr_eq(sent, &view))
            {
                this.next = Some(view);
            }
        }
    }
}

impl Running {
    /// Whether the Service is still what it was when the stream was opened.
    fn still_holds(&self) -> bool {
        let holds = self
            .subscription
            .with_snapshot(|snapshot| self.dispatch.still_holds(snapshot));
        if !holds {
            let client = self.open_stream.client();
            debug!(
                client = &*client.name,
                authority = &*client.authority,
                age_seconds = client.age_seconds(),
                "service became something else, stream ends"
            );
        }
        holds
    }

    fn frames_to(&self, next: &ViewVersion) -> Frames {
        next.frames_since(self.sent.as_deref(), |delta, after, before| {
            self.translation.frames(delta, after, before)
        })
    }
}

#[cfg(test)]
mod tests;
