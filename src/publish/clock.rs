//! How far the clock of an API server is from ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// The difference between a server's clock and ours, as its answers show it. Clones share it.
///
/// Answers are dated to the second, and take a moment to arrive: differences of a second or two mean nothing.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicI64>);

/// No answer has been dated yet.
const UNKNOWN: i64 = i64::MIN;

// === impl Clock ===

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(UNKNOWN)))
    }
}

impl Clock {
    /// An answer that arrived at `ours` was sent at `theirs`, by the server's clock.
    pub fn compare(&self, theirs: SystemTime, ours: SystemTime) {
        let millis =
            |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = match theirs.duration_since(ours) {
            Ok(ahead) => millis(ahead),
            Err(behind) => -millis(behind.duration()),
        };
        self.0.store(ahead, Ordering::Relaxed);
    }

    /// Milliseconds that the server's clock is ahead; negative if it is behind, `None` if it is not known.
    pub fn ahead_millis(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|ahead| *ahead != UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_answer_counts() {
        let clock = Clock::default();
        assert_eq!(clock.ahead_millis(), None);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        clock.compare(now + Duration::from_secs(90), now);
        assert_eq!(clock.ahead_millis(), Some(90_000));
        clock.compare(now, now + Duration::from_secs(2));
        assert_eq!(clock.ahead_millis(), Some(-2_000));
    }
}
