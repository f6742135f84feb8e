//! Named gates: the process is ready when none is left closed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The gates that still keep the process from being ready. Clones share them.
#[derive(Clone)]
pub struct Readiness {
    pending: Arc<watch::Sender<BTreeSet<String>>>,
    reasons: Arc<Mutex<BTreeMap<String, Reason>>>,
}

/// Says why a gate is closed at the moment, if that is known.
type Reason = Box<dyn Fn() -> Option<String> + Send>;

// === impl Readiness ===

impl Default for Readiness {
    fn default() -> Self {
        Self {
            pending: Arc::new(watch::Sender::new(BTreeSet::new())),
            reasons: Arc::default(),
        }
    }
}

impl Readiness {
    /// Closes a gate: not ready until it is opened again. The name is shown to operators.
    pub fn close(&self, gate: impl Into<String>) {
        let gate = gate.into();
        self.pending
            .send_if_modified(|pending| pending.insert(gate));
    }

    /// Opens a gate; a gate that was not closed stays open.
    pub fn open(&self, gate: &str) {
        self.pending
            .send_if_modified(|pending| pending.remove(gate));
    }

    /// Whether every gate is open.
    pub fn is_ready(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// Names of the closed gates, in order.
    pub fn pending(&self) -> Vec<String> {
        self.pending.borrow().iter().cloned().collect()
    }

    /// Sets what is asked why a gate is closed.
    pub fn explain(
        &self,
        gate: impl Into<String>,
        reason: impl Fn() -> Option<String> + Send + 'static,
    ) {
        self.reasons.lock().insert(gate.into(), Box::new(reason));
    }

    /// The closed gates, in order, each with the reason if there is one: `GATE: REASON`.
    pub fn explained(&self) -> Vec<String> {
        let reasons = self.reasons.lock();
        let explained = |gate: String| match reasons.get(&gate).and_then(|reason| reason()) {
            Some(reason) => format!("{gate}: {reason}"),
            None => gate,
        };
        self.pending().into_iter().map(explained).collect()
    }

    /// Waits until every gate is open.
    pub async fn ready(&self) {
        let mut pending = self.pending.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(pending.wait_for(BTreeSet::is_empty).await);
    }

    /// Follows whether every gate is open.
    pub fn watch(&self) -> watch::Receiver<BTreeSet<String>> {
        self.pending.subscribe()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("pending", &*self.pending.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_no_gate_is_closed() {
        let readiness = Readiness::default();
        assert!(readiness.is_ready());
        readiness.close("home cluster");
        readiness.close("links");
        readiness.open("links");
        assert_eq!(readiness.pending(), ["home cluster"]);
        readiness.explain("home cluster", || Some("unreachable".to_owned()));
        assert_eq!(readiness.explained(), ["home cluster: unreachable"]);
        readiness.open("home cluster");
        assert!(readiness.is_ready());
    }
}
