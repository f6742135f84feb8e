//! What is known of each name that some stream wants. It is worked out once for each change, and shared by all streams alike.

mod follow;

use std::borrow::Cow;
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::client::Style;
use super::metrics::Metrics;
use super::resource::{Completeness, Kind, Known, Resource};
use super::resource_name::{NameError, Target};
use super::translate;
use crate::publish::Catalog;

/// Names that have been asked for and not been looked at yet; a client that asks for more waits.
const STARTS_MAX: usize = 256;

/// Every name that is wanted. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Entries(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    catalog: Catalog,
    cluster_domain: Arc<str>,
    by_key: Mutex<HashMap<Key, Arc<Entry>>>,
    starts: mpsc::Sender<Arc<Entry>>,
    metrics: Metrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    name: Arc<str>,
    style: Arc<Style>,
}

/// What is known of one name, for clients of one style.
#[derive(Debug)]
struct Entry {
    key: Key,
    target: Target,
    /// What listeners and routes of the name send to.
    cluster_name: Arc<str>,
    known: Mutex<State>,
    /// The resources that say nothing but that the name is there.
    named: [OnceLock<Arc<Resource>>; 4],
    /// By where their mailboxes are, so that one that leaves is found among many.
    readers: Mutex<BTreeMap<usize, Weak<Mailbox>>>,
    holds: AtomicUsize,
    abandoned: Notify,
}

/// What was found out last.
#[derive(Clone, Debug, Default)]
struct State {
    /// Whether there is such a Service; `None` if that is not known yet.
    exists: Option<bool>,
    /// The endpoints, from when it is known whether there is such a Service.
    assignment: Option<(Arc<Resource>, Completeness)>,
}

/// Where a stream learns which of its names have news.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    names: Mutex<Vec<Arc<str>>>,
    news: Notify,
}

/// One stream's hold on a name.
#[derive(Debug)]
pub(super) struct Hold(Held);

#[derive(Debug)]
enum Held {
    Entry {
        entry: Arc<Entry>,
        mailbox: Arc<Mailbox>,
    },
    /// The name stands for nothing that could ever be.
    Nothing(Arc<Resource>),
}

/// Looks at the names that are wanted; has to run for anything to be known.
#[derive(Debug)]
pub(super) struct Follower {
    entries: Entries,
    starts: mpsc::Receiver<Arc<Entry>>,
}

// === impl Entries ===

impl Entries {
    pub(super) fn new(
        catalog: Catalog,
        cluster_domain: &str,
        metrics: Metrics,
    ) -> (Self, Follower) {
        let (sender, starts) = mpsc::channel(STARTS_MAX);
        let entries = Self(Arc::new(Shared {
            catalog,
            cluster_domain: cluster_domain.into(),
            by_key: Mutex::default(),
            starts: sender,
            metrics,
        }));
        let follower = Follower {
            entries: entries.clone(),
            starts,
        };
        (entries, follower)
    }

    /// Follows a name for a stream, which finds it in its mailbox when there is news, and once to begin with.
    pub(super) async fn hold(
        &self,
        name: &Arc<str>,
        style: &Arc<Style>,
        mailbox: &Arc<Mailbox>,
    ) -> (Hold, Option<NameError>) {
        let shared = &*self.0;
        let target = match Target::parse(name, &shared.cluster_domain) {
            Ok(target) => target,
            Err(error) => {
                let empty = translate::named(Kind::Assignment, name, name);
                return (Hold(Held::Nothing(empty)), Some(error));
            }
        };
        let key = Key {
            name: Arc::clone(name),
            style: Arc::clone(style),
        };
        let (entry, new) = {
            let mut by_key = shared.by_key.lock();
            let (entry, new) = match by_key.entry(key) {
                Slot::Occupied(slot) => (Arc::clone(slot.get()), false),
                Slot::Vacant(slot) => {
                    let key = slot.key().clone();
                    let entry = Arc::new(Entry::new(key, target, &shared.cluster_domain));
                    (Arc::clone(slot.insert(entry)), true)
                }
            };
            // Under the lock: an entry is only given up under it, and only while nobody holds it.
            entry.holds.fetch_add(1, Ordering::Relaxed);
            let reader = Arc::downgrade(mailbox);
            entry.readers.lock().insert(mailbox.place(), reader);
            shared.metrics.names(by_key.len());
            (entry, new)
        };
        let hold = Hold(Held::Entry {
            entry: Arc::clone(&entry),
            mailbox: Arc::clone(mailbox),
        });
        if new {
            // Fails only when nothing is followed any more, at the end.
            shared.starts.send(entry).await.ok();
        }
        (hold, None)
    }

    /// Forgets an entry that nobody holds; whether it did.
    fn give_up(&self, entry: &Entry) -> bool {
        let mut by_key = self.0.by_key.lock();
        let unused = entry.holds.load(Ordering::Relaxed) == 0;
        if unused {
            by_key.remove(&entry.key);
            self.0.metrics.names(by_key.len());
        }
        unused
    }
}

// === impl Follower ===

impl Follower {
    /// Works until `shutdown`.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut following = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                started = self.starts.recv() => match started {
                    Some(entry) => following.push(follow::follow(self.entries.clone(), entry)),
                    None => return,
                },
                Some(()) = following.next() => {}
            }
        }
    }
}

// === impl Entry ===

impl Entry {
    fn new(key: Key, target: Target, domain: &str) -> Self {
        let cluster_name = match target.cluster_name(&key.name, domain) {
            Cow::Borrowed(_) => Arc::clone(&key.name),
            Cow::Owned(name) => name.into(),
        };
        Self {
            cluster_name,
            key,
            target,
            known: Mutex::default(),
            named: Default::default(),
            readers: Mutex::default(),
            holds: AtomicUsize::new(0),
            abandoned: Notify::new(),
        }
    }

    /// Replaces what is known, and tells the streams if it is something else.
    fn publish(&self, state: State) {
        {
            let mut known = self.known.lock();
            if known.says_same(&state) {
                return;
            }
            *known = state;
        }
        self.readers.lock().retain(|_, reader| {
            let Some(mailbox) = reader.upgrade() else {
                return false;
            };
            mailbox.put(&self.key.name);
            true
        });
    }

    fn known(&self, kind: Kind) -> Known {
        let known = self.known.lock();
        match (kind, known.exists) {
            (_, None) => Known::NotYet,
            (Kind::Assignment, Some(_)) => match &known.assignment {
                Some((resource, completeness)) => {
                    Known::Present(Arc::clone(resource), *completeness)
                }
                None => Known::NotYet,
            },
            (_, Some(false)) => Known::Absent,
            (_, Some(true)) => {
                let named = self.named[kind.index()]
                    .get_or_init(|| translate::named(kind, &self.key.name, &self.cluster_name));
                Known::Present(Arc::clone(named), Completeness::Complete)
            }
        }
    }
}

// === impl State ===

impl State {
    fn says_same(&self, other: &Self) -> bool {
        let said = |state: &Self| {
            let assignment = state.assignment.as_ref();
            assignment.map(|(resource, completeness)| (resource.version, *completeness))
        };
        self.exists == other.exists && said(self) == said(other)
    }
}

// === impl Mailbox ===

impl Mailbox {
    /// Where it is: no two that are there at the same time have the same.
    fn place(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    fn put(&self, name: &Arc<str>) {
        self.names.lock().push(Arc::clone(name));
        self.news.notify_one();
    }

    /// Waits for news, and takes the names that have some.
    pub(super) async fn take(&self) -> Vec<Arc<str>> {
        loop {
            let names = std::mem::take(&mut *self.names.lock());
            if !names.is_empty() {
                return names;
            }
            self.news.notified().await;
        }
    }
}

// === impl Hold ===

impl Hold {
    /// What can be said of the name now.
    pub(super) fn known(&self, kind: Kind) -> Known {
        match &self.0 {
            Held::Entry { entry, .. } => entry.known(kind),
            Held::Nothing(empty) if kind == Kind::Assignment => {
                Known::Present(Arc::clone(empty), Completeness::Complete)
            }
            Held::Nothing(_) => Known::Absent,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Held::Entry { entry, mailbox } = &self.0 else {
            return;
        };
        entry.readers.lock().remove(&mailbox.place());
        if entry.holds.fetch_sub(1, Ordering::Relaxed) == 1 {
            entry.abandoned.notify_one();
        }
    }
}
