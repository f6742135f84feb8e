//! What operators are told about each cluster: whether it can be reached, since when, and how fresh it is.
//!
//! Sources write it, one line per change of state goes to the log; admin pages, metrics and the introspection API read it.
//! Answers to proxies never depend on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::clock::Clock;
use super::survey::Survey;
use crate::index::Kind;
use crate::model::{ClusterName, ClusterRole, EndpointKind};

/// The state of every cluster. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StatusBoard {
    clusters: Arc<Mutex<BTreeMap<ClusterName, Entry>>>,
    survey: Arc<Mutex<Survey>>,
}

/// Whether a cluster's API server can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Nothing is known yet.
    Connecting,
    /// Every kind that may be read is being watched.
    Connected,
    /// The API server cannot be reached or does not answer; what it said last is being served.
    Unreachable(String),
    /// The credentials cannot be used, or the API server refuses them; what it said last is being served.
    Rejected(String),
}

/// How one kind of a cluster's objects is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindStatus {
    /// Not read yet.
    Syncing,
    /// Read and watched.
    Watched,
    /// We may not read it: answers go without what it would add.
    Denied,
    /// The cluster does not have it.
    Absent,
}

/// The state of one cluster at one moment.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// The cluster.
    pub name: ClusterName,
    /// Home or linked.
    pub role: ClusterRole,
    /// Whether it can be used.
    pub connection: Connection,
    /// How long it has been in that state.
    pub since: Duration,
    /// How long ago it last gave a sign of life: the oldest over its kinds; `None` if some kind never did.
    pub age: Option<Duration>,
    /// Its kinds, in order: state, and how long ago each last gave a sign of life.
    pub kinds: Vec<(Kind, KindStatus, Option<Duration>)>,
    /// For how long contact with it has been lost; `None` while it is not, and before there was any.
    pub out_of_contact: Option<Duration>,
    /// Since when, and how, its endpoints are being taken away from clients; `None` if they are not.
    pub drain: Option<Drain>,
    /// The link that it is read by; `None` if there is none, or it cannot be used.
    pub link: Option<Arc<LinkInfo>>,
    /// The clock of its API server.
    pub clock: Clock,
}

/// That a cluster is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// For how long so far.
    pub since: Duration,
    /// How long it takes until everything has been taken away.
    pub over: Duration,
}

/// What a link says of how its cluster is reached, as far as it is nobody's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The Secret, as `namespace/name`.
    pub secret: String,
    /// The address of the API server.
    pub server: String,
    /// How we show who we are.
    pub proof: Proof,
    /// Tells one version of the credentials from another; nothing can be read from it.
    pub fingerprint: String,
    /// When the credentials end by what they say themselves.
    pub expires: Option<SystemTime>,
    /// When the last of the certificates ends that the API server is checked against.
    pub authority_expires: Option<SystemTime>,
    /// Whether the API server is checked at all; if not, anybody may pose as it.
    pub is_verified: bool,
}

/// How we show a linked cluster who we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By a bearer token.
    Token,
    /// By a client certificate.
    Certificate,
}

#[derive(Debug)]
struct Entry {
    role: ClusterRole,
    added: Instant,
    connection: Connection,
    since: Instant,
    kinds: BTreeMap<Kind, KindEntry>,
    link: Option<Arc<LinkInfo>>,
    clock: Clock,
    /// Since when it has been out of contact, after it was in contact.
    lost: Option<Instant>,
    /// Since when it is drained, and over how long.
    drain: Option<(Instant, Duration)>,
}

#[derive(Debug)]
struct KindEntry {
    status: KindStatus,
    heard: Option<Instant>,
}

// === impl StatusBoard ===

impl StatusBoard {
    /// Puts a cluster on the board, if it is not there.
    pub fn add(&self, cluster: &ClusterName, role: ClusterRole, endpoints: EndpointKind) {
        self.clusters
            .lock()
            .entry(cluster.clone())
            .or_insert_with(|| Entry {
                role,
                added: Instant::now(),
                connection: Connection::Connecting,
                since: Instant::now(),
                kinds: Kind::watched_in(role, endpoints)
                    .iter()
                    .map(|kind| {
                        let entry = KindEntry {
                            status: KindStatus::Syncing,
                            heard: None,
                        };
                        (*kind, entry)
                    })
                    .collect(),
                link: None,
                clock: Clock::default(),
                lost: None,
                drain: None,
            });
    }

    /// Notes the link that a cluster is read by from now on.
    pub fn describe(&self, cluster: &ClusterName, link: LinkInfo) {
        if let Some(entry) = self.clusters.lock().get_mut(cluster) {
            entry.link = Some(Arc::new(link));
        }
    }

    /// Notes whether a cluster is to be drained, and over how long. A drain that has begun goes on as it began.
    pub fn drain(&self, cluster: &ClusterName, over: Option<Duration>) {
        let mut clusters = self.clusters.lock();
        let Some(entry) = clusters.get_mut(cluster) else {
            return;
        };
        entry.drain = match (over, entry.drain) {
            (None, _) => None,
            (Some(over), Some((since, before))) if before == over => Some((since, over)),
            (Some(over), _) => Some((Instant::now(), over)),
        };
    }

    /// Notes that a cluster has been drained before anybody looked.
    pub fn drained(&self, cluster: &ClusterName, over: Duration) {
        if let Some(entry) = self.clusters.lock().get_mut(cluster) {
            let now = Instant::now();
            entry.drain = Some((now.checked_sub(over).unwrap_or(now), over));
        }
    }

    /// Where to note what a cluster's API server says of the time; nobody's, if the cluster is not on the board.
    pub fn clock(&self, cluster: &ClusterName) -> Clock {
        let clusters = self.clusters.lock();
        let entry = clusters.get(cluster);
        entry.map(|entry| entry.clock.clone()).unwrap_or_default()
    }

    /// Takes a cluster off the board.
    pub fn remove(&self, cluster: &ClusterName) {
        self.clusters.lock().remove(cluster);
    }

    /// Notes whether a cluster can be used, and logs it if that is news.
    pub fn report(&self, cluster: &ClusterName, connection: Connection) {
        let mut clusters = self.clusters.lock();
        let Some(entry) = clusters.get_mut(cluster) else {
            return;
        };
        if entry.connection == connection {
            return;
        }
        let same_state =
            std::mem::discriminant(&entry.connection) == std::mem::discriminant(&connection);
        if !same_state {
            entry.since = Instant::now();
        }
        match (&entry.connection, &connection) {
            (_, Connection::Connected) => entry.lost = None,
            // Credentials that are tried do not make it any fresher.
            (_, Connection::Connecting) => {}
            (Connection::Connected, _) => entry.lost = Some(Instant::now()),
            _ => {}
        }
        entry.connection = connection.clone();
        let role = entry.role;
        drop(clusters);
        match connection {
            Connection::Connecting => {}
            Connection::Connected => info!(%cluster, ?role, "cluster connected"),
            Connection::Unreachable(reason) => {
                warn!(%cluster, %reason, "cluster unreachable, serving what is known of it and retrying");
            }
            Connection::Rejected(reason) => {
                warn!(%cluster, %reason, "cluster rejected, serving what is known of it and retrying");
            }
        }
    }

    /// Notes how a kind of a cluster's objects is known, and logs it if that is news worth a line.
    pub fn report_kind(&self, cluster: &ClusterName, kind: Kind, status: KindStatus) {
        let mut clusters = self.clusters.lock();
        let Some(entry) = clusters
            .get_mut(cluster)
            .and_then(|entry| entry.kinds.get_mut(&kind))
        else {
            return;
        };
        let before = std::mem::replace(&mut entry.status, status);
        if status == KindStatus::Watched {
            entry.heard = Some(Instant::now());
        }
        drop(clusters);
        if before == status {
            return;
        }
        let resource = kind.resource();
        match status {
            KindStatus::Denied => warn!(
                %cluster,
                resource,
                "not allowed to list and watch; grant it, or answers go without what it adds"
            ),
            KindStatus::Watched if before == KindStatus::Denied => {
                info!(%cluster, resource, "allowed to list and watch again");
            }
            KindStatus::Watched | KindStatus::Syncing | KindStatus::Absent => {}
        }
    }

    /// Notes a sign of life of one kind's watch.
    pub fn heard(&self, cluster: &ClusterName, kind: Kind) {
        if let Some(entry) = self
            .clusters
            .lock()
            .get_mut(cluster)
            .and_then(|entry| entry.kinds.get_mut(&kind))
        {
            entry.heard = Some(Instant::now());
        }
    }

    /// Since when a cluster has been on the board; `None` if it is not.
    pub fn known_since(&self, cluster: &ClusterName) -> Option<Instant> {
        self.clusters.lock().get(cluster).map(|entry| entry.added)
    }

    /// Changes what is known of the objects that links are made by.
    pub fn survey(&self, change: impl FnOnce(&mut Survey)) {
        change(&mut self.survey.lock());
    }

    /// What is known of the objects that links are made by.
    pub fn surveyed(&self) -> Survey {
        self.survey.lock().clone()
    }

    /// The state of one cluster; `None` if it is not on the board.
    pub fn status(&self, cluster: &ClusterName) -> Option<ClusterStatus> {
        let clusters = self.clusters.lock();
        clusters.get(cluster).map(|entry| entry.status(cluster))
    }

    /// Every cluster, the home cluster first, then by name.
    pub fn all(&self) -> Vec<ClusterStatus> {
        let clusters = self.clusters.lock();
        let mut all: Vec<_> = clusters
            .iter()
            .map(|(name, entry)| entry.status(name))
            .collect();
        all.sort_by(|one, two| (one.role, &one.name).cmp(&(two.role, &two.name)));
        all
    }
}

// === impl ClusterStatus ===

impl ClusterStatus {
    /// What keeps the cluster from being known, in one line: its trouble, or else the kinds that have not been read.
    pub fn waits_for(&self) -> Option<String> {
        if let Connection::Unreachable(reason) | Connection::Rejected(reason) = &self.connection {
            return Some(reason.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        let unread: Vec<_> = self
            .kinds
            .iter()
            .filter(|(_, status, _)| *status == KindStatus::Syncing)
            .map(|(kind, ..)| kind.resource())
            .collect();
        (!unread.is_empty()).then(|| format!("reading {}", unread.join(", ")))
    }
}

// === impl Entry ===

impl Entry {
    fn status(&self, name: &ClusterName) -> ClusterStatus {
        let watched = || {
            self.kinds
                .values()
                .filter(|kind| matches!(kind.status, KindStatus::Syncing | KindStatus::Watched))
        };
        let age = if watched().all(|kind| kind.heard.is_some()) {
            watched()
                .filter_map(|kind| kind.heard)
                .min()
                .map(|heard| heard.elapsed())
        } else {
            None
        };
        ClusterStatus {
            name: name.clone(),
            role: self.role,
            connection: self.connection.clone(),
            since: self.since.elapsed(),
            age,
            kinds: self
                .kinds
                .iter()
                .map(|(kind, entry)| {
                    (
                        *kind,
                        entry.status,
                        entry.heard.map(|heard| heard.elapsed()),
                    )
                })
                .collect(),
            out_of_contact: self.lost.map(|lost| lost.elapsed()),
            drain: self.drain.map(|(since, over)| Drain {
                since: since.elapsed(),
                over,
            }),
            link: self.link.clone(),
            clock: self.clock.clone(),
        }
    }
}

// === impl Proof ===

impl Proof {
    /// The proof in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        }
    }
}
