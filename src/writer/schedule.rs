//! Which Service is looked at when.
//!
//! Pure: it is told the time. What adds endpoints waits for more of its kind; what takes them away does not, and goes first.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::requests::Reason;
use crate::model::ServiceName;

/// How often one Service is written at most, however urgent it is.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Waits after failures: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// Services that have to be looked at, and when.
#[derive(Debug)]
pub(super) struct Schedule {
    batch: Duration,
    entries: BTreeMap<ServiceName, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    /// When it has to be looked at; `None` if nothing has happened since it was.
    due: Option<Instant>,
    urgent: bool,
    busy: bool,
    /// When it was looked at last.
    started: Option<Instant>,
    failures: u32,
    /// Not before this: it has failed.
    held: Option<Instant>,
}

/// How work on a Service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All was done.
    Done,
    /// There is more to do, at once.
    More,
    /// It has to be decided anew.
    Again,
    /// It failed, and is tried again later.
    Failed,
    /// It will fail until something is done about it.
    Hopeless,
}

// === impl Schedule ===

impl Schedule {
    pub(super) fn new(batch: Duration) -> Self {
        Self {
            batch,
            entries: BTreeMap::new(),
        }
    }

    /// Something about a Service has changed.
    pub(super) fn touch(&mut self, service: &ServiceName, now: Instant) {
        let due = now + self.batch;
        let entry = self.entries.entry(service.clone()).or_default();
        entry.due = Some(entry.due.map_or(due, |known| known.min(due)));
    }

    /// A Service has to be looked at no later than this.
    pub(super) fn touch_at(&mut self, service: &ServiceName, due: Instant) {
        let entry = self.entries.entry(service.clone()).or_default();
        entry.due = Some(entry.due.map_or(due, |known| known.min(due)));
    }

    /// The change cannot wait.
    pub(super) fn hasten(&mut self, service: &ServiceName, now: Instant) {
        let entry = self.entries.entry(service.clone()).or_default();
        let earliest = entry
            .started
            .map_or(now, |started| (started + INTERVAL_MIN).max(now));
        entry.due = Some(entry.due.map_or(earliest, |known| known.min(earliest)));
        entry.urgent = true;
    }

    /// Whether a Service is known to have something that cannot wait.
    pub(super) fn is_urgent(&self, service: &ServiceName) -> bool {
        self.entries.get(service).is_some_and(|entry| entry.urgent)
    }

    /// The Service to be looked at now, the urgent ones first; it is busy from now on.
    pub(super) fn start(&mut self, now: Instant) -> Option<ServiceName> {
        let due = self.entries.iter().filter(|(_, entry)| entry.is_due(now));
        let (service, _) = due.min_by_key(|(_, entry)| (!entry.urgent, entry.due))?;
        let service = service.clone();
        let entry = self.entries.get_mut(&service)?;
        entry.due = None;
        entry.urgent = false;
        entry.busy = true;
        entry.started = Some(now);
        Some(service)
    }

    /// Work on a Service has ended.
    pub(super) fn finish(&mut self, service: &ServiceName, outcome: Outcome, now: Instant) {
        let Some(entry) = self.entries.get_mut(service) else {
            return;
        };
        entry.busy = false;
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                entry.held = None;
                if entry.due.is_none() {
                    self.entries.remove(service);
                }
            }
            Outcome::More | Outcome::Again => {
                entry.failures = 0;
                entry.held = (outcome == Outcome::Again).then_some(now + INTERVAL_MIN);
                entry.due = Some(now);
            }
            Outcome::Failed | Outcome::Hopeless => {
                entry.failures = match outcome {
                    Outcome::Hopeless => u32::MAX,
                    _ => entry.failures.saturating_add(1),
                };
                let (first, longest) = BACKOFF;
                let factor = 2_u32.saturating_pow(entry.failures.saturating_sub(1).min(16));
                // Services that fail together are not all tried again at the same moment.
                let spread = first.mul_f64(f64::from(spread(service)) / 256.0);
                entry.held = Some(now + first.saturating_mul(factor).min(longest) + spread);
                entry.due = Some(now);
            }
        }
    }

    /// Nothing is busy any more: whoever worked was stopped.
    pub(super) fn abandon(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if std::mem::take(&mut entry.busy) {
                entry.due = Some(now);
            }
        }
    }

    /// When there will be something to start, if nothing else happens.
    pub(super) fn next(&self) -> Option<Instant> {
        let waiting = self.entries.values().filter(|entry| !entry.busy);
        waiting.filter_map(Entry::ready_at).min()
    }

    /// Number of Services that have to be looked at.
    pub(super) fn waiting(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.due.is_some())
            .count()
    }

    /// Number of Services that have failed and wait.
    pub(super) fn held(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.failures > 0)
            .count()
    }
}

/// A number that is another one for another Service.
fn spread(service: &ServiceName) -> u8 {
    let bytes = service
        .namespace
        .as_str()
        .bytes()
        .chain(service.name.bytes());
    bytes.fold(7_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
}

// === impl Outcome ===

impl Outcome {
    /// The one of two that asks for more patience.
    pub(super) fn worse(self, other: Self) -> Self {
        let rank = |outcome: Self| match outcome {
            Self::Done => 0,
            Self::More => 1,
            Self::Again => 2,
            Self::Failed => 3,
            Self::Hopeless => 4,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

// === impl Reason ===

impl Reason {
    /// How work ends that is refused for this.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::NamespaceGone => Outcome::Done,
            Self::Outdated | Self::Absent | Self::NameTaken => Outcome::Again,
            Self::QuotaExceeded | Self::Rejected | Self::Throttled(_) | Self::Unavailable => {
                Outcome::Failed
            }
            Self::Forbidden => Outcome::Hopeless,
        }
    }
}

// === impl Entry ===

impl Entry {
    fn ready_at(&self) -> Option<Instant> {
        let due = self.due?;
        Some(self.held.map_or(due, |held| held.max(due)))
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.busy && self.ready_at().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clock {
        schedule: Schedule,
        zero: Instant,
    }

    impl Clock {
        fn new() -> Self {
            Self {
                schedule: Schedule::new(Duration::from_millis(500)),
                zero: Instant::now(),
            }
        }

        fn at(&self, ms: u64) -> Instant {
            self.zero + Duration::from_millis(ms)
        }

        fn touch(&mut self, name: &str, ms: u64) {
            let at = self.at(ms);
            self.schedule.touch(&service(name), at);
        }

        fn hasten(&mut self, name: &str, ms: u64) {
            let at = self.at(ms);
            self.schedule.hasten(&service(name), at);
        }

        fn start(&mut self, ms: u64) -> String {
            let at = self.at(ms);
            let started = std::iter::from_fn(|| self.schedule.start(at));
            started
                .map(|service| service.name.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        }

        fn finish(&mut self, name: &str, outcome: Outcome, ms: u64) {
            let at = self.at(ms);
            self.schedule.finish(&service(name), outcome, at);
        }
    }

    fn service(name: &str) -> ServiceName {
        ServiceName::new("shop", name)
    }

    #[test]
    fn additions_wait_for_their_kind_from_the_first_one_on() {
        let mut clock = Clock::new();
        clock.touch("web", 0);
        clock.touch("web", 400);
        assert_eq!(clock.start(499), "");
        assert_eq!(clock.start(500), "web");
        assert_eq!(clock.start(9000), "", "it is busy");
        clock.finish("web", Outcome::Done, 9000);
        assert_eq!(clock.schedule.next(), None);
    }

    #[test]
    fn losses_go_at_once_and_first_but_not_more_often_than_the_interval() {
        let mut clock = Clock::new();
        clock.touch("old", 0);
        clock.touch("web", 400);
        clock.hasten("web", 600);
        assert_eq!(clock.start(600), "web old");
        clock.finish("web", Outcome::Done, 610);
        clock.touch("web", 620);
        clock.hasten("web", 620);
        assert_eq!(clock.start(699), "web", "what is done is forgotten");

        clock.touch("web", 699);
        clock.hasten("web", 700);
        clock.finish("web", Outcome::Done, 710);
        assert_eq!(clock.start(798), "");
        assert_eq!(clock.start(799), "web");
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let mut clock = Clock::new();
        clock.touch("web", 0);
        let mut now = 500;
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(clock.start(now), "web");
            clock.finish("web", Outcome::Failed, now);
            let next = clock.schedule.next().unwrap();
            let wait = u64::try_from((next - clock.at(now)).as_millis()).unwrap();
            waits.push(wait / 500 * 500);
            now += wait + 1;
        }
        assert_eq!(
            waits,
            [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
        );
        assert_eq!(clock.schedule.held(), 1);
        clock.start(now);
        clock.finish("web", Outcome::Done, now);
        assert_eq!((clock.schedule.held(), clock.schedule.waiting()), (0, 0));
    }

    #[test]
    fn what_happens_during_the_work_is_looked_at_after_it() {
        let mut clock = Clock::new();
        clock.touch("web", 0);
        clock.start(500);
        clock.touch("web", 600);
        clock.finish("web", Outcome::Done, 700);
        assert_eq!(clock.start(1100), "web");
        clock.schedule.abandon(clock.zero);
        assert_eq!(clock.start(1200), "web");
    }
}
