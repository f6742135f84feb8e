//! The streams that are open and how each of them goes, for people who ask.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::Client;
use super::resource::{Kind, Variant, Version};
use super::stream::Scope;

/// Names of one kind on one stream that are shown.
pub(super) const NAMES_SHOWN_MAX: usize = 100;
/// A response that is not answered for this long is out of the ordinary.
pub(super) const LATE: Duration = Duration::from_secs(30);
/// Longest piece of a refusal that is kept: Envoy puts the whole resource into it.
const REFUSAL_LEN_MAX: usize = 1024;

/// Every stream. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    next: AtomicU64,
    by_number: Mutex<BTreeMap<u64, Arc<Mutex<Standing>>>>,
}

/// One stream's place in the roster; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    roster: Roster,
    number: u64,
    standing: Arc<Mutex<Standing>>,
}

/// How a stream goes.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) address: Option<SocketAddr>,
    pub(super) variant: Variant,
    pub(super) scope: Scope,
    pub(super) since: Instant,
    /// Known from the first request on.
    pub(super) client: Option<Client>,
    /// By the order of kinds.
    pub(super) kinds: [Option<Subscription>; 4],
}

/// How it goes with one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscription {
    pub(super) names: Vec<Arc<str>>,
    pub(super) names_total: usize,
    pub(super) wildcard: bool,
    /// The last response and when it was sent.
    pub(super) sent: Option<(Version, Instant)>,
    /// Whether the client has not answered it.
    pub(super) waiting: bool,
    /// The last response that was accepted.
    pub(super) accepted: Option<(Version, Instant)>,
    /// The last one that was refused, and the client's words.
    pub(super) refused: Option<(Version, Instant, String)>,
}

// === impl Roster ===

impl Roster {
    /// Enters a stream.
    pub(super) fn enter(
        &self,
        address: Option<SocketAddr>,
        variant: Variant,
        scope: Scope,
    ) -> Place {
        let standing = Arc::new(Mutex::new(Standing {
            address,
            variant,
            scope,
            since: Instant::now(),
            client: None,
            kinds: Default::default(),
        }));
        let number = self.0.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.0
            .by_number
            .lock()
            .insert(number, Arc::clone(&standing));
        Place {
            roster: self.clone(),
            number,
            standing,
        }
    }

    /// Number of streams.
    pub(super) fn len(&self) -> usize {
        self.0.by_number.lock().len()
    }

    /// Streams after the one with this number, by number.
    pub(super) fn after(&self, number: u64) -> Vec<(u64, Arc<Mutex<Standing>>)> {
        let by_number = self.0.by_number.lock();
        let after = (Bound::Excluded(number), Bound::Unbounded);
        by_number
            .range(after)
            .map(|(number, standing)| (*number, Arc::clone(standing)))
            .collect()
    }

    /// Number of responses that clients have not answered for longer than is usual.
    pub(super) fn late(&self) -> usize {
        let now = Instant::now();
        let late = |standing: &Arc<Mutex<Standing>>| {
            let standing = standing.lock();
            let kinds = standing.kinds.iter().flatten();
            kinds.filter(|kind| kind.is_late(now)).count()
        };
        let streams: Vec<_> = self.0.by_number.lock().values().cloned().collect();
        streams.iter().map(late).sum()
    }
}

// === impl Place ===

impl Place {
    /// Notes who the client is.
    pub(super) fn introduce(&self, client: &Client) {
        self.standing.lock().client = Some(client.clone());
    }

    /// Notes what is subscribed.
    pub(super) fn subscribed<'a>(
        &self,
        kind: Kind,
        names: impl ExactSizeIterator<Item = &'a Arc<str>>,
        wildcard: bool,
    ) {
        self.with(kind, |subscription| {
            subscription.names_total = names.len();
            subscription.names = names.take(NAMES_SHOWN_MAX).cloned().collect();
            subscription.wildcard = wildcard;
        });
    }

    /// Notes a response.
    pub(super) fn sent(&self, kind: Kind, version: Version) {
        self.with(kind, |subscription| {
            subscription.sent = Some((version, Instant::now()));
            subscription.waiting = true;
        });
    }

    /// Notes that the last response was accepted, and returns how long that took.
    pub(super) fn accepted(&self, kind: Kind) -> Option<Duration> {
        self.with(kind, |subscription| {
            let (version, at) = subscription.answered()?;
            subscription.accepted = Some((version, Instant::now()));
            Some(at.elapsed())
        })
    }

    /// Notes that the last response was refused, and why.
    pub(super) fn refused(&self, kind: Kind, reason: &str) {
        self.with(kind, |subscription| {
            if let Some((version, _)) = subscription.answered() {
                let reason = shortened(reason).to_owned();
                subscription.refused = Some((version, Instant::now(), reason));
            }
        });
    }

    fn with<T>(&self, kind: Kind, note: impl FnOnce(&mut Subscription) -> T) -> T {
        let mut standing = self.standing.lock();
        note(standing.kinds[kind.index()].get_or_insert_default())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.roster.0.by_number.lock().remove(&self.number);
    }
}

// === impl Standing ===

impl Standing {
    /// Whether something was refused last, or has not been answered for long.
    pub(super) fn is_troubled(&self, now: Instant) -> bool {
        self.kinds
            .iter()
            .flatten()
            .any(|kind| kind.is_refused() || kind.is_late(now))
    }
}

// === impl Subscription ===

impl Subscription {
    fn answered(&mut self) -> Option<(Version, Instant)> {
        self.waiting = false;
        self.sent
    }

    /// Whether the last answer of the client was a refusal.
    pub(super) fn is_refused(&self) -> bool {
        let accepted = self.accepted.map(|(_, at)| at);
        self.refused
            .as_ref()
            .is_some_and(|(_, at, _)| accepted.is_none_or(|accepted| accepted < *at))
    }

    fn is_late(&self, now: Instant) -> bool {
        self.waiting
            && self
                .sent
                .is_some_and(|(_, at)| now.saturating_duration_since(at) > LATE)
    }
}

/// A refusal as far as it is kept and logged.
pub(super) fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REFUSAL_LEN_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_shown_from_its_beginning_to_its_end() {
        let roster = Roster::default();
        let one = roster.enter(None, Variant::Delta, Scope::Aggregated);
        let two = roster.enter(None, Variant::Delta, Scope::Endpoints);
        let numbers = |after| -> Vec<u64> {
            let found = roster.after(after);
            found.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(0), [1, 2]);
        assert_eq!(numbers(1), [2]);
        drop(one);
        assert_eq!((roster.len(), numbers(0)), (1, vec![2]));
        drop(two);
        assert_eq!(roster.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_a_refusal_or_a_long_silence_until_something_is_accepted() {
        let roster = Roster::default();
        let place = roster.enter(None, Variant::StateOfTheWorld, Scope::Aggregated);
        let troubled = || place.standing.lock().is_troubled(Instant::now());
        let kind = Kind::Assignment;
        place.sent(kind, Version(1));
        assert!(!troubled());
        tokio::time::advance(LATE + Duration::from_secs(1)).await;
        assert_eq!((troubled(), roster.late()), (true, 1));
        assert_eq!(place.accepted(kind), Some(LATE + Duration::from_secs(1)));
        assert_eq!((troubled(), roster.late()), (false, 0));

        place.sent(kind, Version(2));
        tokio::time::advance(Duration::from_secs(1)).await;
        let endless = "no ".repeat(1000);
        place.refused(kind, &endless);
        assert!(troubled());
        let standing = place.standing.lock();
        let subscription = standing.kinds[kind.index()].as_ref().unwrap();
        assert_eq!(subscription.accepted.unwrap().0, Version(1));
        let (version, _, reason) = subscription.refused.as_ref().unwrap();
        assert_eq!((*version, reason.len()), (Version(2), REFUSAL_LEN_MAX));
    }
}
