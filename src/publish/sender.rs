//! The way into the index: bounded, so that a busy index slows the sources instead of growing a queue.

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::index::Change;

/// Changes that may wait for the index.
const QUEUE_MAX: usize = 1024;

/// Hands changes to the index. Clones feed the same one; changes of one clone are applied in order.
#[derive(Clone, Debug)]
pub struct ChangeSender(mpsc::Sender<Received>);

/// The index is gone: the process is shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index has stopped")]
pub struct IndexStopped;

/// A change and when it was received.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) change: Change,
    pub(super) at: Instant,
}

/// What came of waiting for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reception {
    /// There are some.
    Changes,
    /// There are none yet.
    Nothing,
    /// There will be no more.
    Over,
}

/// The other end of a [`ChangeSender`]; the indexer empties it.
#[derive(Debug)]
pub struct ChangeReceiver(mpsc::Receiver<Received>);

/// A way into the index, and its other end.
pub fn change_channel() -> (ChangeSender, ChangeReceiver) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    (ChangeSender(sender), ChangeReceiver(receiver))
}

// === impl ChangeSender ===

impl ChangeSender {
    /// Hands over a change, waiting while the index is busy.
    pub async fn send(&self, change: Change) -> Result<(), IndexStopped> {
        let received = Received {
            change,
            at: Instant::now(),
        };
        self.0.send(received).await.map_err(|_| IndexStopped)
    }
}

// === impl ChangeReceiver ===

impl ChangeReceiver {
    /// Waits for changes, but not longer than `until`, and moves up to `max` of them to `batch`.
    pub(super) fn blocking_receive(
        &mut self,
        batch: &mut Vec<Received>,
        max: usize,
        until: Option<Instant>,
    ) -> Reception {
        let received = match until {
            None => self.0.blocking_recv_many(batch, max),
            Some(until) => {
                let changes = self.0.recv_many(batch, max);
                let waiting = tokio::time::timeout_at(until, changes);
                match tokio::runtime::Handle::current().block_on(waiting) {
                    Ok(received) => received,
                    Err(_) => return Reception::Nothing,
                }
            }
        };
        if received == 0 {
            Reception::Over
        } else {
            Reception::Changes
        }
    }
}
