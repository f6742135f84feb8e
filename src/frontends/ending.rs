//! How streams end at shutdown, whatever they speak.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// When a stream ends at shutdown: not all at once, so that their clients do not all ask another replica at once.
#[derive(Debug)]
pub(super) struct Ending {
    /// Kept while the stream waits for other things: waiting for it anew each time is dear.
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    delay: Duration,
    /// There once shutdown has begun.
    end: Option<Pin<Box<Sleep>>>,
}

// === impl Ending ===

impl Ending {
    /// Ends at a random moment of the `window` after `shutdown`.
    pub(super) fn new(shutdown: CancellationToken, window: Duration) -> Self {
        Self {
            shutdown: Box::pin(shutdown.cancelled_owned()),
            delay: window.mul_f64(rand::random()),
            end: None,
        }
    }

    /// Resolves when the stream has to end. May be dropped and called again.
    pub(super) async fn ended(&mut self) {
        std::future::poll_fn(|context| self.poll_ended(context)).await;
    }

    /// Ready when the stream has to end.
    pub(super) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.end.is_none() {
            ready!(self.shutdown.as_mut().poll(context));
        }
        let delay = self.delay;
        let end = self
            .end
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
        end.as_mut().poll(context)
    }
}
