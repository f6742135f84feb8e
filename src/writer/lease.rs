//! Who may write: the holder of one Lease of the home cluster.
//!
//! A candidate judges by its own clock, from when it first saw a record, whether the holder is gone. The holder trusts itself
//! only for as long as its last renewal is recent: a process that was frozen writes nothing when it thaws.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use kube::api::{GetParams, PostParams};
use kube::core::Request;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::requests::{Reason, Refusal, Requests};

/// How long a Lease holds after it was renewed.
const DURATION: Duration = Duration::from_secs(30);
/// How long its holder trusts it.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Between attempts to renew it, or to get it.
const RETRY: Duration = Duration::from_secs(2);
/// How long the release at shutdown may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether this process may write, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else may, or nobody knows.
    Following,
    /// This process may until then.
    Leading {
        /// The last moment.
        until: Instant,
    },
}

/// Candidacy for the Lease.
#[derive(Debug)]
pub(super) struct Candidate {
    requests: Requests,
    /// The Lease's name.
    lease: &'static str,
    namespace: String,
    identity: String,
    seen: Option<Seen>,
    leadership: watch::Sender<Leadership>,
    /// What was said last of what stands in the way.
    trouble: Option<Reason>,
}

/// The record of somebody else, and since when it has been the same.
#[derive(Debug)]
struct Seen {
    version: String,
    at: Instant,
}

/// What to do about a record.
#[derive(Debug, PartialEq, Eq)]
enum Move {
    /// There is none: make one.
    Make,
    /// It is ours, or free, or its holder is gone: write it.
    Take,
    /// Somebody else has it.
    Wait,
}

// === impl Leadership ===

impl Leadership {
    /// The moment until which something may be written, if it may be now.
    pub fn deadline(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Leading { until } if now < until => Some(until),
            Self::Leading { .. } | Self::Following => None,
        }
    }
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Following => "following",
            Self::Leading { .. } => "leading",
        })
    }
}

// === impl Candidate ===

impl Candidate {
    /// A candidate under a name that nobody else has, and where it tells whether it leads.
    pub(super) fn new(
        requests: Requests,
        lease: &'static str,
        namespace: String,
        host: &str,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(Leadership::Following);
        let candidate = Self {
            requests,
            lease,
            namespace,
            identity: format!("{host}_{:016x}", rand::random::<u64>()),
            seen: None,
            leadership,
            trouble: None,
        };
        (candidate, receiver)
    }

    /// Tries to get the Lease and to keep it, until told to stop; gives it up then.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            let began = Instant::now();
            let attempt = timeout(RENEW_DEADLINE, self.attempt(began));
            let Some(attempted) = shutdown.run_until_cancelled(attempt).await else {
                break;
            };
            match attempted {
                Ok(Ok(holds)) => {
                    self.trouble = None;
                    self.tell(holds.then_some(began + RENEW_DEADLINE));
                }
                Ok(Err(refusal)) => self.complain(&refusal),
                Err(_) => self.complain(&Refusal {
                    reason: Reason::Unavailable,
                    message: format!("no answer within {RENEW_DEADLINE:?}"),
                    endpoints: Vec::new(),
                }),
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = sleep(RETRY) => {}
            }
        }
        let led = *self.leadership.borrow() != Leadership::Following;
        self.tell(None);
        if led && timeout(RELEASE_TIMEOUT, self.release()).await.is_err() {
            warn!(
                "the Lease could not be given up in time; the next writer waits until it runs out"
            );
        }
    }

    /// One look at the record; true if it is ours after it.
    async fn attempt(&mut self, now: Instant) -> Result<bool, Refusal> {
        let current = self.read().await?;
        let decision = self.decide(current.as_ref(), now);
        let written = match (decision, current) {
            (Move::Wait, _) => return Ok(false),
            (Move::Make, _) | (Move::Take, None) => {
                let lease = self.record(None, Some(&self.identity));
                let request = self.path().create(&PostParams::default(), json(&lease)?);
                self.requests.send::<Lease>(request).await
            }
            (Move::Take, Some(current)) => {
                let lease = self.record(Some(current), Some(&self.identity));
                self.replace(&lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.see(&lease, now);
                Ok(true)
            }
            // Somebody was first.
            Err(refusal) if refusal.reason == Reason::Outdated => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    fn decide(&mut self, current: Option<&Lease>, now: Instant) -> Move {
        let Some(current) = current else {
            return Move::Make;
        };
        let spec = current.spec.as_ref();
        let holder = spec
            .and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return Move::Take;
        }
        let since = self.see(current, now);
        let seconds = spec
            .and_then(|spec| spec.lease_duration_seconds)
            .unwrap_or_default();
        let lasts = u64::try_from(seconds).map_or(DURATION, Duration::from_secs);
        if now.saturating_duration_since(since) > lasts {
            Move::Take
        } else {
            Move::Wait
        }
    }

    /// Notes a record; returns since when it has been the same.
    fn see(&mut self, lease: &Lease, now: Instant) -> Instant {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some(seen) if seen.version == version => seen.at,
            _ => {
                self.seen = Some(Seen { version, at: now });
                now
            }
        }
    }

    /// The record as we write it; `holder` is empty to give it up.
    fn record(&self, current: Option<Lease>, holder: Option<&str>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = current
            .as_ref()
            .and_then(|lease| lease.spec.clone())
            .unwrap_or_default();
        let holder = holder.unwrap_or_default();
        let is_same = before.holder_identity.as_deref() == Some(holder);
        let transitions = before.lease_transitions.unwrap_or_default();
        Lease {
            metadata: match current {
                Some(lease) => ObjectMeta {
                    managed_fields: None,
                    ..lease.metadata
                },
                None => ObjectMeta {
                    name: Some(self.lease.to_owned()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time: if is_same {
                    before.acquire_time
                } else {
                    Some(now.clone())
                },
                renew_time: Some(now),
                lease_transitions: Some(if is_same {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..LeaseSpec::default()
            }),
        }
    }

    async fn read(&self) -> Result<Option<Lease>, Refusal> {
        let request = self.path().get(self.lease, &GetParams::default());
        match self.requests.send(request).await {
            Ok(lease) => Ok(Some(lease)),
            Err(refusal) if refusal.reason == Reason::Absent => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Writes over exactly the version that `lease` names.
    async fn replace(&self, lease: &Lease) -> Result<Lease, Refusal> {
        let request = self
            .path()
            .replace(self.lease, &PostParams::default(), json(lease)?);
        self.requests.send(request).await
    }

    /// Lets the next candidate have it at once.
    async fn release(&self) {
        let Ok(Some(current)) = self.read().await else {
            return;
        };
        let holder = current
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(&self.identity) {
            return;
        }
        match self.replace(&self.record(Some(current), None)).await {
            Ok(_) => info!(
                lease = self.lease,
                "no longer writing EndpointSlices: Lease given up"
            ),
            Err(error) => warn!(%error, "the Lease could not be given up"),
        }
    }

    fn tell(&self, until: Option<Instant>) {
        let now = until.map_or(Leadership::Following, |until| Leadership::Leading { until });
        self.leadership.send_if_modified(|known| {
            let changed = *known != now;
            let is_news = std::mem::discriminant(known) != std::mem::discriminant(&now);
            if is_news {
                info!(lease = self.lease, identity = %self.identity, state = %now, "EndpointSlice writer");
            }
            *known = now;
            changed
        });
    }

    /// A renewal has failed: we stay what we are until the deadline runs out.
    fn complain(&mut self, refusal: &Refusal) {
        if self.trouble != Some(refusal.reason) {
            self.trouble = Some(refusal.reason);
            warn!(lease = self.lease, namespace = %self.namespace, error = %refusal, "the Lease cannot be renewed or taken, trying on");
        }
        let now = Instant::now();
        if self.leadership.borrow().deadline(now).is_none() {
            self.tell(None);
        }
    }

    fn path(&self) -> Request {
        Request::new(Lease::url_path(&(), Some(&self.namespace)))
    }
}

fn json(lease: &Lease) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(lease).map_err(|error| Refusal {
        reason: Reason::Rejected,
        message: error.to_string(),
        endpoints: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;

    use super::*;
    use crate::writer::requests::Access;

    #[derive(Debug)]
    struct Nowhere;

    impl Access for Nowhere {
        fn client(&self) -> BoxFuture<'_, Result<kube::Client, String>> {
            Box::pin(std::future::ready(Err("nowhere".to_owned())))
        }

        fn refresh(&self) {}
    }

    fn candidate() -> Candidate {
        Candidate::new(
            Requests::new(Arc::new(Nowhere)),
            "lease",
            "linkerd".to_owned(),
            "pod",
        )
        .0
    }

    fn lease(holder: &str, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(30),
                ..LeaseSpec::default()
            }),
        }
    }

    #[test]
    fn a_holder_is_gone_when_its_record_has_been_the_same_for_the_whole_duration_here() {
        let mut candidate = candidate();
        let zero = Instant::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        assert_eq!(
            candidate.decide(Some(&lease("other", "1")), at(0)),
            Move::Wait
        );
        assert_eq!(
            candidate.decide(Some(&lease("other", "1")), at(29)),
            Move::Wait
        );
        assert_eq!(
            candidate.decide(Some(&lease("other", "2")), at(31)),
            Move::Wait
        );
        assert_eq!(
            candidate.decide(Some(&lease("other", "2")), at(60)),
            Move::Wait
        );
        assert_eq!(
            candidate.decide(Some(&lease("other", "2")), at(62)),
            Move::Take
        );
    }

    #[test]
    fn a_free_record_is_taken_at_once_and_a_missing_one_made() {
        let mut candidate = candidate();
        let now = Instant::now();
        let ours = candidate.identity.clone();
        assert_eq!(candidate.decide(Some(&lease("", "1")), now), Move::Take);
        assert_eq!(candidate.decide(Some(&lease(&ours, "1")), now), Move::Take);
        assert_eq!(candidate.decide(None, now), Move::Make);
    }

    #[test]
    fn the_record_tells_of_changes_of_hands() {
        let candidate = candidate();
        let taken = candidate.record(Some(lease("other", "7")), Some(&candidate.identity));
        let spec = taken.spec.as_ref().unwrap();
        assert_eq!(spec.lease_transitions, Some(1));
        assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"));
        let renewed = candidate.record(Some(taken.clone()), Some(&candidate.identity));
        let again = renewed.spec.as_ref().unwrap();
        assert_eq!(again.lease_transitions, Some(1));
        assert_eq!(again.acquire_time, spec.acquire_time);
        let given_up = candidate.record(Some(renewed), None);
        assert_eq!(given_up.spec.unwrap().holder_identity.as_deref(), Some(""));
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_by_itself() {
        let mut candidate = candidate();
        let refusal = || Refusal {
            reason: Reason::Unavailable,
            message: String::new(),
            endpoints: Vec::new(),
        };
        let now = Instant::now();
        let until = now + RENEW_DEADLINE;
        candidate.tell(Some(until));
        candidate.complain(&refusal());
        let leadership = *candidate.leadership.borrow();
        assert_eq!(leadership.deadline(now), Some(until));
        assert_eq!(leadership.deadline(until), None);
        candidate.tell(Some(now));
        candidate.complain(&refusal());
        assert_eq!(*candidate.leadership.borrow(), Leadership::Following);
    }
}
