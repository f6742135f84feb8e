//! What Services were before, and when they changed: recent states, for people who ask what happened.
//!
//! A past state is the very snapshot that was published then, which shares every slice that has not changed since. What
//! changed from one to the next is worked out when somebody asks. How much is kept is bounded for each Service and for all
//! together; the oldest goes first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::catalog::Catalog;
use super::channel::Published;
use crate::index::ServiceSnapshot;
use crate::model::ServiceName;

/// Past states that are kept of one Service.
const STATES_MAX: usize = 32;
/// What may be kept of all Services together: endpoints that only past states still hold, and as many more for each state as
/// it takes itself. A few megabytes.
const WEIGHT_MAX: usize = 40_000;
/// What a state weighs without any endpoint.
const STATE_WEIGHT: usize = 8;

/// Recent states of every Service. The writer adds, whoever asks reads.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_service: HashMap<ServiceName, VecDeque<Past>>,
    /// The Service of each state, by the state's number: the first is the oldest.
    order: BTreeMap<u64, ServiceName>,
    weight: usize,
}

/// A state that was published once.
#[derive(Debug)]
struct Past {
    /// Its number among all states of all Services.
    number: u64,
    weight: usize,
    /// When another one took its place.
    replaced: Instant,
    published: Arc<Published>,
}

/// One change of a Service.
#[derive(Debug)]
pub struct Replacement {
    /// When it happened.
    pub at: Instant,
    /// What was known before.
    pub before: ServiceSnapshot,
    /// What was known after.
    pub after: ServiceSnapshot,
}

// === impl History ===

impl History {
    /// A state has been replaced by another one. Cost: O(slices of the Service).
    pub(super) fn replaced(&self, before: Arc<Published>, after: &ServiceSnapshot) {
        let weight = STATE_WEIGHT + endpoints_gone(&before.snapshot, after);
        let service = before.snapshot.service.clone();
        let mut kept = self.0.lock();
        let number = before.revision;
        let past = Past {
            number,
            weight,
            replaced: Instant::now(),
            published: before,
        };
        kept.weight += weight;
        kept.order.insert(number, service.clone());
        let states = kept.by_service.entry(service).or_default();
        states.push_back(past);
        if states.len() > STATES_MAX {
            let oldest = states.front().map(|oldest| oldest.number);
            kept.forget(oldest);
        }
        while kept.weight > WEIGHT_MAX {
            let oldest = kept.order.keys().next().copied();
            kept.forget(oldest);
        }
    }

    fn states(&self, service: &ServiceName) -> Vec<(Instant, Arc<Published>)> {
        let kept = self.0.lock();
        let states = kept.by_service.get(service).into_iter().flatten();
        states
            .map(|past| (past.replaced, Arc::clone(&past.published)))
            .collect()
    }
}

// === impl Kept ===

impl Kept {
    /// Drops a state, which is the oldest of its Service.
    fn forget(&mut self, number: Option<u64>) {
        let Some(service) = number.and_then(|number| self.order.remove(&number)) else {
            // There is nothing left that could weigh anything.
            self.weight = 0;
            return;
        };
        let Some(states) = self.by_service.get_mut(&service) else {
            return;
        };
        if let Some(oldest) = states.pop_front() {
            self.weight -= oldest.weight;
        }
        if states.is_empty() {
            self.by_service.remove(&service);
        }
    }
}

/// Endpoints of slices that a later state does not share.
fn endpoints_gone(before: &ServiceSnapshot, after: &ServiceSnapshot) -> usize {
    let shared: std::collections::HashSet<_> = after
        .members
        .iter()
        .flat_map(|member| member.chunks.iter())
        .map(Arc::as_ptr)
        .collect();
    before
        .members
        .iter()
        .flat_map(|member| member.chunks.iter())
        .filter(|chunk| !shared.contains(&Arc::as_ptr(chunk)))
        .map(|chunk| chunk.facts.endpoints.len())
        .sum()
}

// === impl Catalog ===

impl Catalog {
    /// Recent changes of a Service, whether or not it is there now, the latest first.
    pub fn history(&self, service: &ServiceName) -> Vec<Replacement> {
        // The present before the past: a change in between is then left out, and not told without its end.
        let present = {
            let services = self.shared().services.read();
            let channel = services.get(service);
            channel.map(|channel| channel.latest())
        };
        let states = self.shared().history.states(service);
        let mut changes = Vec::new();
        for (at, (replaced, before)) in states.iter().enumerate() {
            let after = states
                .get(at + 1)
                .map(|(_, next)| next)
                .or(present.as_ref());
            let Some(after) = after.filter(|after| after.revision > before.revision) else {
                continue;
            };
            changes.push(Replacement {
                at: *replaced,
                before: before.snapshot.clone(),
                after: after.snapshot.clone(),
            });
        }
        changes.reverse();
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::MemberState;

    fn state(service: &str, revision: u64) -> Arc<Published> {
        Arc::new(Published {
            revision,
            sequence: revision,
            since: Instant::now(),
            snapshot: ServiceSnapshot::missing(
                ServiceName::new("shop", service),
                MemberState::Synced,
            ),
        })
    }

    fn numbers(history: &History, service: &str) -> Vec<u64> {
        let states = history.states(&ServiceName::new("shop", service));
        states.iter().map(|(_, past)| past.revision).collect()
    }

    #[tokio::test]
    async fn a_busy_service_keeps_its_latest_and_takes_nothing_from_others() {
        let history = History::default();
        history.replaced(state("quiet", 1), &state("quiet", 2).snapshot);
        for revision in 3..200 {
            history.replaced(
                state("busy", revision),
                &state("busy", revision + 1).snapshot,
            );
        }
        assert_eq!(numbers(&history, "quiet"), [1]);
        let last = 200 - STATES_MAX as u64..200;
        assert_eq!(numbers(&history, "busy"), last.collect::<Vec<_>>());
        let kept = history.0.lock();
        assert_eq!(kept.order.len(), 1 + STATES_MAX);
        assert_eq!(kept.weight, kept.order.len() * STATE_WEIGHT);
    }

    #[tokio::test]
    async fn all_together_are_bounded_and_the_oldest_goes_first() {
        let history = History::default();
        let most = WEIGHT_MAX / STATE_WEIGHT;
        for revision in 0..most as u64 + 10 {
            let name = format!("web-{revision}");
            history.replaced(state(&name, revision), &state(&name, revision).snapshot);
        }
        assert_eq!(numbers(&history, "web-9"), [0; 0]);
        assert_eq!(numbers(&history, "web-10"), [10]);
        let kept = history.0.lock();
        assert_eq!((kept.order.len(), kept.by_service.len()), (most, most));
    }
}
