//! What is known of clusters besides their objects: since when they are out of contact or not linked, which are the same, and
//! which may have been exchanged for another.
//!
//! Pure: it is told the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Judgement, Standing};
use crate::index::{ClusterState, ClusterSummary};
use crate::model::copying::{OnStale, Pace};
use crate::model::{ClusterName, ClusterRole, Uid};

/// How long a cluster has to be in contact without a break to count as healthy again.
const RECOVERY: Duration = Duration::from_secs(30);
/// How often another cluster's copies are acted upon at most.
const ACT_INTERVAL: Duration = Duration::from_mins(1);
/// Losses that are never doubted.
const LOSS_BELIEVED: usize = 20;

/// What is known of every cluster besides its objects.
#[derive(Debug)]
pub(super) struct Standings {
    pace: Pace,
    on_stale: OnStale,
    clusters: BTreeMap<ClusterName, Known>,
    /// Clusters that Services name and nobody links, and since when.
    unlinked: BTreeMap<ClusterName, Instant>,
    acted: Option<Instant>,
    settled: BTreeMap<ClusterName, Standing>,
}

#[derive(Debug)]
struct Known {
    role: ClusterRole,
    is_synced: bool,
    uid: Uid,
    contact: Contact,
    is_acted_upon: bool,
    judged: Option<(Uid, Judgement)>,
}

/// Whether a cluster is in contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// It is.
    Healthy,
    /// It has not been for too long; since then, and, if it is again, since when.
    Stale {
        /// Since when it counts as out of contact.
        since: Instant,
        /// Since when it is in contact again.
        back: Option<Instant>,
    },
}

// === impl Standings ===

impl Standings {
    pub(super) fn new(pace: Pace, on_stale: OnStale) -> Self {
        Self {
            pace,
            on_stale,
            clusters: BTreeMap::new(),
            unlinked: BTreeMap::new(),
            acted: None,
            settled: BTreeMap::new(),
        }
    }

    /// Every cluster's standing, by name.
    pub(super) fn all(&self) -> &BTreeMap<ClusterName, Standing> {
        &self.settled
    }

    /// Whether a cluster is in contact; `None` if it is not known.
    pub(super) fn contact(&self, cluster: &ClusterName) -> Option<Contact> {
        self.clusters.get(cluster).map(|known| known.contact)
    }

    /// Takes in which clusters there are and how long ago each gave a sign of life. Returns those whose standing is another now.
    pub(super) fn update(
        &mut self,
        summaries: &[ClusterSummary],
        age: impl Fn(&ClusterName) -> Option<Duration>,
        now: Instant,
    ) -> BTreeSet<ClusterName> {
        self.clusters
            .retain(|name, _| summaries.iter().any(|summary| summary.name == *name));
        for summary in summaries {
            self.unlinked.remove(&summary.name);
            let known = self.clusters.entry(summary.name.clone()).or_insert(Known {
                role: summary.role,
                is_synced: false,
                uid: Uid::default(),
                contact: Contact::Healthy,
                is_acted_upon: false,
                judged: None,
            });
            known.is_synced = summary.state == ClusterState::Synced;
            if let Some(uid) = &summary.uid {
                known.uid.clone_from(uid);
            }
            let is_silent = age(&summary.name).is_some_and(|age| age > self.pace.stale_after);
            known.contact = known.contact.after(is_silent, now);
            if known.contact == Contact::Healthy {
                known.is_acted_upon = false;
            }
        }
        self.act(now);
        self.settle(now)
    }

    /// Chooses the next cluster whose copies are acted upon.
    fn act(&mut self, now: Instant) {
        let Some(act_after) = self
            .pace
            .act_after
            .filter(|_| self.on_stale != OnStale::Keep)
        else {
            return;
        };
        let linked = || {
            let linked = self.clusters.values();
            linked.filter(|known| known.role == ClusterRole::Linked && known.is_synced)
        };
        // If all are silent at once, the fault is ours.
        let somebody_speaks = linked().any(|known| known.contact == Contact::Healthy);
        let too_soon = self.acted.is_some_and(|acted| now < acted + ACT_INTERVAL);
        if !somebody_speaks || too_soon {
            return;
        }
        let next = self.clusters.values_mut().find(|known| {
            let is_due =
                matches!(known.contact, Contact::Stale { since, .. } if now >= since + act_after);
            known.role == ClusterRole::Linked && is_due && !known.is_acted_upon
        });
        if let Some(known) = next {
            known.is_acted_upon = true;
            self.acted = Some(now);
        }
    }

    /// A Service names a cluster that nobody links.
    pub(super) fn not_linked(&mut self, cluster: &ClusterName, now: Instant) {
        if !self.clusters.contains_key(cluster) {
            self.unlinked.entry(cluster.clone()).or_insert(now);
        }
    }

    /// Judges a cluster that has another uid than the one its copies were made from, by what its copies would lose.
    ///
    /// Scaling to nothing is legitimate; to lose most of what there was just when the cluster has become another one is not.
    pub(super) fn judge(
        &mut self,
        cluster: &ClusterName,
        uid: &Uid,
        before: usize,
        lost: usize,
    ) -> Judgement {
        let judgement = if lost > LOSS_BELIEVED && lost * 2 > before {
            Judgement::Doubted
        } else {
            Judgement::Believed
        };
        if let Some(known) = self.clusters.get_mut(cluster) {
            known.judged = Some((uid.clone(), judgement));
        }
        judgement
    }

    /// Clusters that are doubted, and the uids they have.
    pub(super) fn doubted(&self) -> Vec<(ClusterName, Uid)> {
        let standings = self.settled.iter();
        let doubted = standings.filter_map(|(name, standing)| match &standing.judged {
            Some((uid, Judgement::Doubted)) => Some((name.clone(), uid.clone())),
            _ => None,
        });
        doubted.collect()
    }

    /// Makes the standings what is known now. Returns those that are different.
    pub(super) fn settle(&mut self, now: Instant) -> BTreeSet<ClusterName> {
        let mut next: BTreeMap<ClusterName, Standing> = BTreeMap::new();
        for (name, known) in &self.clusters {
            let standing = Standing {
                twin_of: self.twin_of(name, known),
                stale: if known.is_acted_upon {
                    self.on_stale
                } else {
                    OnStale::Keep
                },
                judged: known.judged.clone(),
                ..Standing::default()
            };
            next.insert(name.clone(), standing);
        }
        for (name, since) in &self.unlinked {
            let standing = Standing {
                is_gone: now >= *since + self.pace.unlink_grace,
                ..Standing::default()
            };
            next.insert(name.clone(), standing);
        }
        let names = next.keys().chain(self.settled.keys());
        let changed = names.filter(|name| next.get(*name) != self.settled.get(*name));
        let changed = changed.cloned().collect();
        self.settled = next;
        changed
    }

    /// The cluster that this one is, under another name that goes first: the home cluster's, else the first in order.
    fn twin_of(&self, name: &ClusterName, known: &Known) -> Option<ClusterName> {
        if known.role == ClusterRole::Home || known.uid.is_empty() {
            return None;
        }
        let mut same = self
            .clusters
            .iter()
            .filter(|(_, other)| other.uid == known.uid);
        let first = same
            .clone()
            .find(|(_, other)| other.role == ClusterRole::Home)
            .or_else(|| same.next());
        first
            .map(|(first, _)| first)
            .filter(|first| *first != name)
            .cloned()
    }
}

// === impl Contact ===

impl Contact {
    fn after(self, is_silent: bool, now: Instant) -> Self {
        match (self, is_silent) {
            (Self::Healthy, false) => Self::Healthy,
            (Self::Healthy, true) => Self::Stale {
                since: now,
                back: None,
            },
            (Self::Stale { since, .. }, true) => Self::Stale { since, back: None },
            (
                Self::Stale {
                    back: Some(back), ..
                },
                false,
            ) if now >= back + RECOVERY => Self::Healthy,
            (Self::Stale { since, back }, false) => Self::Stale {
                since,
                back: back.or(Some(now)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Counts;
    use crate::testing::HOME;

    struct Clock {
        standings: Standings,
        zero: Instant,
        silent: BTreeMap<ClusterName, Duration>,
        uids: Vec<(&'static str, &'static str)>,
    }

    impl Clock {
        fn new(uids: &[(&'static str, &'static str)]) -> Self {
            let pace = Pace {
                act_after: Some(Duration::from_mins(10)),
                ..Pace::default()
            };
            Self {
                standings: Standings::new(pace, OnStale::Remove),
                zero: Instant::now(),
                silent: BTreeMap::new(),
                uids: uids.to_vec(),
            }
        }

        /// Seconds after the start; says which standings changed.
        fn at(&mut self, seconds: u64) -> String {
            let summaries: Vec<_> = self
                .uids
                .iter()
                .map(|(name, uid)| ClusterSummary {
                    name: (*name).into(),
                    role: if *name == HOME {
                        ClusterRole::Home
                    } else {
                        ClusterRole::Linked
                    },
                    state: ClusterState::Synced,
                    pending: Vec::new(),
                    services: 0,
                    endpoints: 0,
                    counts: Counts::default(),
                    withheld: crate::index::Withheld::NOTHING,
                    uid: Some((*uid).into()),
                })
                .collect();
            let now = self.zero + Duration::from_secs(seconds);
            let silent = &self.silent;
            let changed = self
                .standings
                .update(&summaries, |name| silent.get(name).copied(), now);
            changed
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        }

        fn silence(&mut self, name: &str) {
            self.silent.insert(name.into(), Duration::from_hours(1));
        }

        fn of(&self, name: &str) -> Standing {
            self.standings.all()[&ClusterName::from(name)].clone()
        }
    }

    #[test]
    fn one_cluster_under_two_names_counts_under_the_first() {
        let mut clock = Clock::new(&[
            ("a-self", "h"),
            ("east", "e"),
            ("home", "h"),
            ("zeast", "e"),
        ]);
        clock.at(0);
        assert_eq!(clock.of("a-self").twin_of, Some("home".into()));
        assert_eq!(clock.of("zeast").twin_of, Some("east".into()));
        assert_eq!(clock.of("east").twin_of, None);
        assert_eq!(clock.of("home").twin_of, None);
    }

    #[test]
    fn a_cluster_is_gone_when_it_has_not_been_linked_for_the_grace() {
        let mut clock = Clock::new(&[("home", "h")]);
        clock.standings.not_linked(&"east".into(), clock.zero);
        assert_eq!(clock.at(0), "east home");
        assert_eq!(clock.at(59), "");
        clock
            .standings
            .not_linked(&"east".into(), clock.zero + Duration::from_secs(59));
        assert_eq!(clock.at(60), "east");
        assert!(clock.of("east").is_gone);
        clock.uids.push(("east", "e"));
        clock.at(61);
        assert!(!clock.of("east").is_gone);
    }

    #[test]
    fn silence_is_acted_upon_late_one_by_one_and_never_everywhere() {
        let mut clock = Clock::new(&[("home", "h"), ("east", "e"), ("west", "w"), ("north", "n")]);
        clock.at(0);
        clock.silence("east");
        clock.silence("west");
        clock.at(1);
        assert_eq!(clock.at(600), "", "not yet");
        assert_eq!(clock.at(601), "east");
        assert_eq!(clock.of("east").stale, OnStale::Remove);
        assert_eq!(clock.at(660), "");
        assert_eq!(clock.at(661), "west");
        clock.silence("north");
        clock.at(662);
        assert_eq!(clock.at(9000), "", "nobody would be left to ask");

        clock.silent.clear();
        assert_eq!(clock.at(9001), "");
        clock.silence("east");
        clock.at(9010);
        clock.silent.clear();
        assert_eq!(clock.at(9011), "", "contact was broken again");
        assert_eq!(clock.at(9031), "west");
        assert_eq!(clock.at(9041), "east");
        assert_eq!(clock.of("east").stale, OnStale::Keep);
    }

    #[test]
    fn a_cluster_that_becomes_another_and_loses_most_is_doubted() {
        let mut clock = Clock::new(&[("home", "h"), ("east", "e")]);
        clock.at(0);
        let (east, uid) = (ClusterName::from("east"), Uid::from("e2"));
        let mut judge = |before, lost| clock.standings.judge(&east, &uid, before, lost);
        assert_eq!(judge(100, 50), Judgement::Believed);
        assert_eq!(judge(20, 20), Judgement::Believed);
        assert_eq!(judge(40, 21), Judgement::Doubted);
        assert_eq!(clock.at(1), "east");
        assert_eq!(clock.standings.doubted(), [(east, uid)]);
    }
}
