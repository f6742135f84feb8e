//! How many requests are under way, up to the end of their answers.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts requests. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<watch::Sender<usize>>);

/// A request that is under way for as long as this is there.
#[derive(Debug)]
pub(super) struct UnderWay(Requests);

// === impl Requests ===

impl Default for Requests {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Requests {
    /// Resolves when no request is under way.
    pub(super) async fn none(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }

    /// A request comes in.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.send_modify(|count| *count += 1);
        UnderWay(self.clone())
    }
}

// === impl UnderWay ===

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
