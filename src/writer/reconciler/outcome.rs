//! What became of the work.

use tokio::time::Instant;
use tracing::warn;

use super::super::copy::Copy;
use super::super::plan::Action;
use super::super::requests::{Reason, Refusal};
use super::super::schedule::Outcome;
use super::super::turn::{ActionResult, Finished};
use super::Reconciler;
use crate::model::ServiceName;

// === impl Reconciler ===

impl Reconciler {
    pub(super) fn on_finished(&mut self, finished: Finished) {
        let now = Instant::now();
        let Finished {
            service,
            results,
            is_cut,
        } = finished;
        let mut outcome = if is_cut { Outcome::More } else { Outcome::Done };
        let mut wrote = false;
        for result in results {
            match result {
                ActionResult::Applied(copy, there) => {
                    wrote = true;
                    self.ledger.written(&copy);
                    if let Some(there) = there {
                        self.store.set(*there);
                    }
                }
                ActionResult::Deleted(name, version) => {
                    self.ledger.forget(&name);
                    self.store.deleted(&name, &version);
                }
                ActionResult::NotLeading => outcome = Outcome::Again,
                ActionResult::Refused(action, refusal) => {
                    outcome = outcome.worse(self.on_refused(&service, &action, &refusal, now));
                }
            }
        }
        if wrote {
            self.is_forbidden = false;
            self.on_written(&service, now);
        }
        self.schedule.finish(&service, outcome, now);
    }

    fn on_written(&mut self, service: &ServiceName, now: Instant) {
        if let Some(known) = self.services.get_mut(service)
            && let Some(changed) = known.changed.take()
        {
            let passed = now.saturating_duration_since(changed);
            self.tools
                .metrics
                .propagation_seconds
                .observe(passed.as_secs_f64());
        }
        if !self.announcer.has_said(service, "EndpointSlicesSynced") {
            let note =
                "EndpointSlices with the endpoints of linked clusters are kept for this Service."
                    .to_owned();
            self.announce(service, "EndpointSlicesSynced", note, false, now);
        }
    }

    fn on_refused(
        &mut self,
        service: &ServiceName,
        action: &Action,
        refusal: &Refusal,
        now: Instant,
    ) -> Outcome {
        let slice = action.name();
        let copy = match action {
            Action::Apply { copy, .. } => Some(&**copy),
            Action::Delete { .. } => None,
        };
        match refusal.reason {
            Reason::NameTaken => {
                self.ledger.name_taken(slice.clone());
                warn!(%slice, "somebody else's EndpointSlice has the name of a copy, taking another name");
            }
            // The others of the slice are written without them.
            Reason::Rejected
                if copy.is_some_and(|copy| self.ledger.refuse(copy, &refusal.endpoints)) =>
            {
                warn!(%slice, error = %refusal, "endpoints of an EndpointSlice refused, leaving them out");
                return Outcome::Again;
            }
            Reason::QuotaExceeded | Reason::Rejected => {
                self.park(copy, refusal.reason, now);
                warn!(%slice, error = %refusal, "EndpointSlice refused");
                let reason = if refusal.reason == Reason::Rejected {
                    "Rejected"
                } else {
                    "QuotaExceeded"
                };
                let note = format!(
                    "EndpointSlice {} is refused: {}",
                    slice.name, refusal.message
                );
                self.announce(service, reason, note, true, now);
            }
            Reason::Forbidden => {
                if !std::mem::replace(&mut self.is_forbidden, true) {
                    warn!(error = %refusal, "not allowed to write EndpointSlices; apply deploy/rbac-write.yaml");
                }
                let note = format!("EndpointSlices cannot be written: {}", refusal.message);
                self.announce(service, "WriteForbidden", note, true, now);
            }
            Reason::Outdated
            | Reason::Absent
            | Reason::NamespaceGone
            | Reason::Throttled(_)
            | Reason::Unavailable => {}
        }
        refusal.reason.outcome()
    }

    fn park(&mut self, copy: Option<&Copy>, reason: Reason, now: Instant) {
        if let Some(copy) = copy {
            self.ledger.park(copy, reason, now);
        }
    }
}
