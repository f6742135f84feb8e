//! What has come of earlier writes, where it matters for the next: what was written last, what is refused, who fights us.
//!
//! Pure: it is told the time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

use super::copy::{Content, Copy};
use super::plan::{Action, Refused};
use super::requests::Reason;
use crate::model::SliceName;

/// How often what we wrote may be changed by others within [`CONTEST_WINDOW`] before we leave it to them for a while.
const CONTESTS_MAX: usize = 5;
/// How long a change by others counts.
const CONTEST_WINDOW: Duration = Duration::from_mins(1);
/// How long a copy waits that a namespace has no room for.
const QUOTA_WAIT: Duration = Duration::from_mins(1);

/// Copies by name, and what has come of writing them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<SliceName, Entry>,
    /// Names that strangers' slices have.
    taken: BTreeSet<SliceName>,
    /// Endpoints that were refused, by the copy that they were in.
    refused: BTreeMap<SliceName, Refused>,
}

#[derive(Debug, Default)]
struct Entry {
    written: Option<u64>,
    /// When we found that what we had written was changed.
    contests: Vec<Instant>,
    /// What is refused, and until when, if it may be taken one day.
    parked: Option<(u64, Option<Instant>)>,
}

// === impl Ledger ===

impl Ledger {
    /// Names that strangers' slices have.
    pub(super) fn taken(&self) -> &BTreeSet<SliceName> {
        &self.taken
    }

    /// A stranger's slice has the name.
    pub(super) fn name_taken(&mut self, name: SliceName) {
        self.taken.insert(name);
    }

    /// Endpoints that were refused, by the copy that they were in.
    pub(super) fn refused(&self) -> &BTreeMap<SliceName, Refused> {
        &self.refused
    }

    /// The API server refuses the endpoints at these places of a copy. False if that is no news, or none of them is there: to leave
    /// them out would not help.
    pub(super) fn refuse(&mut self, copy: &Copy, places: &[usize]) -> bool {
        let source = (copy.source.uid.clone(), copy.source.generation);
        let refused = self.refused.entry(copy.name.clone()).or_default();
        if refused.source != source {
            refused.source = source;
            refused.addresses.clear();
        }
        let before = refused.addresses.len();
        let endpoints = &copy.content.endpoints;
        let named = places.iter().filter_map(|place| endpoints.get(*place));
        refused
            .addresses
            .extend(named.map(|endpoint| endpoint.address));
        refused.addresses.len() > before
    }

    /// The copy is as it is to be.
    pub(super) fn written(&mut self, copy: &Copy) {
        let entry = self.entries.entry(copy.name.clone()).or_default();
        entry.written = Some(digest(&copy.content));
        entry.parked = None;
    }

    /// There is no copy of this name any more.
    pub(super) fn forget(&mut self, name: &SliceName) {
        self.refused.remove(name);
        if let Some(entry) = self.entries.get_mut(name) {
            entry.written = None;
        }
    }

    /// The API server does not take the copy as it is.
    pub(super) fn park(&mut self, copy: &Copy, reason: Reason, now: Instant) {
        let until = (reason == Reason::QuotaExceeded).then_some(now + QUOTA_WAIT);
        let entry = self.entries.entry(copy.name.clone()).or_default();
        entry.parked = Some((digest(&copy.content), until));
    }

    /// Whether it would be refused again.
    fn is_parked(&self, copy: &Copy, now: Instant) -> bool {
        let parked = self.entries.get(&copy.name).and_then(|entry| entry.parked);
        parked.is_some_and(|(content, until)| {
            until.is_none_or(|until| now < until) && content == digest(&copy.content)
        })
    }

    /// Leaves out what would be refused, or fought about, again. Returns the rest, and the copies that are fought about.
    pub(super) fn admit(
        &mut self,
        actions: Vec<Action>,
        now: Instant,
    ) -> (Vec<Action>, Vec<SliceName>) {
        let (mut admitted, mut contested) = (Vec::with_capacity(actions.len()), Vec::new());
        let mut is_held = false;
        for action in actions {
            match &action {
                Action::Apply { copy, over, .. } => {
                    if self.is_parked(copy, now) {
                        is_held = true;
                        continue;
                    }
                    if over.is_some() && self.is_contested(copy, now) {
                        is_held = true;
                        contested.push(copy.name.clone());
                        continue;
                    }
                }
                // What is to take its place is not there.
                Action::Delete { .. } if is_held => continue,
                Action::Delete { .. } => {}
            }
            admitted.push(action);
        }
        (admitted, contested)
    }

    /// Notes that a copy has to be written over. True if what it is to be is what we wrote last, so that somebody else must have
    /// changed it, and has done so too often.
    fn is_contested(&mut self, copy: &Copy, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(&copy.name) else {
            return false;
        };
        entry
            .contests
            .retain(|at| now.saturating_duration_since(*at) < CONTEST_WINDOW);
        if entry.written != Some(digest(&copy.content)) {
            return false;
        }
        if entry.contests.len() >= CONTESTS_MAX {
            return true;
        }
        entry.contests.push(now);
        false
    }

    /// Forgets what does not matter any more.
    pub(super) fn expire(&mut self, now: Instant) {
        self.entries.retain(|_, entry| {
            entry
                .contests
                .retain(|at| now.saturating_duration_since(*at) < CONTEST_WINDOW);
            entry.written.is_some() || entry.parked.is_some() || !entry.contests.is_empty()
        });
    }
}

/// A number that is another one for another content, as good as certainly.
fn digest(content: &Content) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::copying::Audience;
    use crate::model::{AddressFamily, Conditions, ServiceName};
    use crate::writer::copy::{CopyEndpoint, Origin, Provenance};

    fn copy(cluster: &str) -> Copy {
        Copy {
            name: SliceName::new("shop", "web"),
            content: Content {
                service: ServiceName::new("shop", "web"),
                origin: Origin::Cluster {
                    name: cluster.into(),
                    audience: Audience::Gateways,
                },
                is_headless: false,
                family: AddressFamily::V4,
                ports: Vec::new(),
                endpoints: Vec::new(),
            },
            owner: "uid-1".into(),
            source: Provenance::default(),
        }
    }

    #[test]
    fn what_is_changed_too_often_is_left_alone_for_a_while() {
        let mut ledger = Ledger::default();
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        assert!(!ledger.is_contested(&copy("a"), at(0)), "never written");
        ledger.written(&copy("a"));
        for second in 1..=5 {
            assert!(!ledger.is_contested(&copy("a"), at(second)));
        }
        assert!(ledger.is_contested(&copy("a"), at(6)));
        assert!(
            !ledger.is_contested(&copy("b"), at(7)),
            "the source has changed"
        );
        assert!(
            !ledger.is_contested(&copy("a"), at(61)),
            "the first change is long ago"
        );
    }

    #[test]
    fn refused_endpoints_are_remembered_for_the_state_of_the_source() {
        let mut ledger = Ledger::default();
        let endpoint = |ip: &str| CopyEndpoint {
            address: ip.parse().unwrap(),
            conditions: Conditions::READY,
            hostname: None,
            node: None,
            zone: None,
            hints: Vec::new(),
            target: None,
        };
        let mut copy = copy("a");
        copy.content.endpoints = vec![endpoint("10.9.0.1"), endpoint("10.9.0.2")];
        assert!(!ledger.refuse(&copy, &[]) && !ledger.refuse(&copy, &[7]));
        assert!(ledger.refuse(&copy, &[1]));
        assert!(!ledger.refuse(&copy, &[1]), "it does not help");
        let refused = &ledger.refused()[&copy.name];
        assert_eq!(refused.addresses, ["10.9.0.2".parse().unwrap()].into());
        copy.source.generation += 1;
        assert!(ledger.refuse(&copy, &[0]));
        let refused = &ledger.refused()[&copy.name];
        assert_eq!(refused.addresses, ["10.9.0.1".parse().unwrap()].into());
    }

    #[test]
    fn what_is_refused_is_not_sent_again() {
        let mut ledger = Ledger::default();
        let now = Instant::now();
        ledger.park(&copy("a"), Reason::Rejected, now);
        assert!(ledger.is_parked(&copy("a"), now + Duration::from_hours(9)));
        assert!(!ledger.is_parked(&copy("b"), now));
        ledger.park(&copy("a"), Reason::QuotaExceeded, now);
        assert!(ledger.is_parked(&copy("a"), now));
        assert!(!ledger.is_parked(&copy("a"), now + QUOTA_WAIT));
        ledger.written(&copy("a"));
        assert!(!ledger.is_parked(&copy("a"), now));
        ledger.forget(&SliceName::new("shop", "web"));
        ledger.expire(now);
        assert!(ledger.entries.is_empty());
    }
}
