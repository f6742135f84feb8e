//! One turn of work for one Service: a plan's actions, one after the other.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::copy::{Copy, Existing};
use super::lease::Leadership;
use super::limiter::Limiter;
use super::metrics::Metrics;
use super::plan::Action;
use super::requests::{Effect, Reason, Refusal, Requests};
use crate::model::{ServiceName, SliceName, Text};

/// Requests of one turn. What is left is decided anew, so that nobody else waits for long.
const ACTIONS_MAX: usize = 20;

/// What every turn works with. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) requests: Requests,
    pub(super) limiter: Arc<Limiter>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) metrics: Metrics,
}

/// What became of a turn.
#[derive(Debug)]
pub(super) struct Finished {
    /// The Service.
    pub(super) service: ServiceName,
    /// What the API server has told, in order.
    pub(super) results: Vec<ActionResult>,
    /// Whether something is left to do.
    pub(super) is_cut: bool,
}

/// What became of one action.
#[derive(Debug)]
pub(super) enum ActionResult {
    /// The copy is there, as the server tells it.
    Applied(Box<Copy>, Option<Box<Existing>>),
    /// The copy is gone; it had this version.
    Deleted(SliceName, Text),
    /// It was refused.
    Refused(Box<Action>, Refusal),
    /// We may not write any more.
    NotLeading,
}

/// Carries out the actions of each unit in order. When one fails, the rest of its unit is left: what is removed must have
/// been added elsewhere before.
pub(super) async fn run(tools: Tools, service: ServiceName, units: Vec<Vec<Action>>) -> Finished {
    let mut finished = Finished {
        service,
        results: Vec::new(),
        is_cut: false,
    };
    for action_list in units {
        for action in action_list {
            if finished.results.len() >= ACTIONS_MAX {
                finished.is_cut = true;
                return finished;
            }
            let result = act(&tools, action).await;
            let goes_on = matches!(
                result,
                ActionResult::Applied(..) | ActionResult::Deleted(..)
            );
            let stops = matches!(&result, ActionResult::NotLeading)
                || matches!(&result, ActionResult::Refused(_, refusal) if refusal.reason.concerns_all());
            finished.results.push(result);
            if stops {
                return finished;
            }
            if !goes_on {
                break;
            }
        }
    }
    finished
}

async fn act(tools: &Tools, action: Action) -> ActionResult {
    tools.limiter.wait().await;
    // Looked at as late as can be: whoever was frozen meanwhile does not write.
    let leadership = *tools.leadership.borrow();
    let Some(deadline) = leadership.deadline(Instant::now()) else {
        return ActionResult::NotLeading;
    };
    let began = Instant::now();
    let verb = match &action {
        Action::Apply { .. } => "apply",
        Action::Delete { .. } => "delete",
    };
    let answer = match &action {
        Action::Apply { copy, over, .. } => {
            let request = tools.requests.apply(copy, over.as_ref(), Effect::Real);
            timeout_at(deadline, request)
                .await
                .map(|answer| answer.map(|there| there.map(Box::new)))
        }
        Action::Delete {
            name,
            uid,
            resource_version,
        } => {
            let request = tools.requests.delete(name, uid, resource_version);
            timeout_at(deadline, request)
                .await
                .map(|answer| answer.map(|()| None))
        }
    };
    let Ok(answer) = answer else {
        tools.metrics.acted(verb, "cancelled");
        return ActionResult::NotLeading;
    };
    tools
        .metrics
        .apply_seconds
        .observe(began.elapsed().as_secs_f64());
    match (answer, action) {
        (Ok(there), Action::Apply { copy, .. }) => {
            tools.metrics.acted(verb, "ok");
            debug!(slice = %copy.name, service = %copy.content.service, endpoints = copy.content.endpoints.len(), "EndpointSlice written");
            ActionResult::Applied(copy, there)
        }
        (
            Ok(_),
            Action::Delete {
                name,
                resource_version,
                ..
            },
        ) => {
            tools.metrics.acted(verb, "ok");
            debug!(slice = %name, "EndpointSlice deleted");
            ActionResult::Deleted(name, resource_version)
        }
        (Err(refusal), action) => {
            tools.metrics.acted(verb, refusal.reason.word());
            if let Reason::Throttled(retry_after) = refusal.reason {
                tools.limiter.throttled(retry_after);
            }
            ActionResult::Refused(Box::new(action), refusal)
        }
    }
}

// === impl Reason ===

impl Reason {
    /// Whether whatever is asked next would be refused too.
    fn concerns_all(self) -> bool {
        match self {
            Self::NamespaceGone | Self::Forbidden | Self::Throttled(_) | Self::Unavailable => true,
            Self::Outdated
            | Self::NameTaken
            | Self::QuotaExceeded
            | Self::Rejected
            | Self::Absent => false,
        }
    }
}

// === impl Action ===

impl Action {
    /// The copy's name.
    pub fn name(&self) -> &SliceName {
        match self {
            Self::Apply { copy, .. } => &copy.name,
            Self::Delete { name, .. } => name,
        }
    }
}
