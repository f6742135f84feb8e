//! How many requests may be made: a bucket of tokens, which the API server may shrink.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// How long a refusal for too many requests slows us down.
const PENALTY: Duration = Duration::from_secs(30);
/// By how much it does.
const PENALTY_FACTOR: f64 = 0.5;
/// However much we were refused, this share of the rate is left.
const RATE_SHARE_MIN: f64 = 0.05;

/// Gives out the right to make requests, in the order it was asked for it.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Negative while somebody waits.
    tokens: f64,
    at: Instant,
    /// Share of the rate that is used.
    share: f64,
    slow_until: Instant,
    closed_until: Instant,
}

// === impl Limiter ===

impl Limiter {
    /// So many requests per second in the long run, and so many at once.
    pub(super) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        Self {
            rate: f64::from(per_second.max(1)),
            burst: f64::from(burst.max(1)),
            bucket: Mutex::new(Bucket {
                tokens: f64::from(burst.max(1)),
                at: now,
                share: 1.0,
                slow_until: now,
                closed_until: now,
            }),
        }
    }

    /// Waits until one more request may be made.
    pub(super) async fn wait(&self) {
        let turn = self.reserve(Instant::now());
        sleep_until(turn).await;
    }

    /// When the next request may be made, if it is asked for now.
    fn reserve(&self, now: Instant) -> Instant {
        let mut bucket = self.bucket.lock();
        if now >= bucket.slow_until {
            bucket.share = 1.0;
        }
        let rate = self.rate * bucket.share;
        let passed = now.saturating_duration_since(bucket.at);
        bucket.tokens = (bucket.tokens + passed.as_secs_f64() * rate).min(self.burst);
        bucket.at = now;
        bucket.tokens -= 1.0;
        let missing = Duration::from_secs_f64((-bucket.tokens).max(0.0) / rate);
        (now + missing).max(bucket.closed_until)
    }

    /// The API server has refused a request for being one too many: none is made for this time, and fewer for a while.
    pub(super) fn throttled(&self, retry_after: Duration) {
        self.throttled_at(retry_after, Instant::now());
    }

    fn throttled_at(&self, retry_after: Duration, now: Instant) {
        let mut bucket = self.bucket.lock();
        bucket.share = (bucket.share * PENALTY_FACTOR).max(RATE_SHARE_MIN);
        bucket.slow_until = now + PENALTY;
        bucket.closed_until = bucket.closed_until.max(now + retry_after);
        bucket.tokens = bucket.tokens.min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(limiter: &Limiter, now: Instant, count: usize) -> Vec<u128> {
        (0..count)
            .map(|_| (limiter.reserve(now) - now).as_millis())
            .collect()
    }

    #[test]
    fn a_burst_is_free_and_the_rest_comes_at_the_rate() {
        let now = Instant::now();
        let limiter = Limiter::new(10, 3, now);
        assert_eq!(waits(&limiter, now, 5), [0, 0, 0, 100, 200]);
        let later = now + Duration::from_secs(10);
        assert_eq!(waits(&limiter, later, 4), [0, 0, 0, 100]);
    }

    #[test]
    fn a_refusal_closes_and_then_slows() {
        let now = Instant::now();
        let limiter = Limiter::new(10, 3, now);
        limiter.throttled_at(Duration::from_secs(2), now);
        assert_eq!(waits(&limiter, now, 1), [2000]);
        let open = now + Duration::from_secs(20);
        assert_eq!(waits(&limiter, open, 5), [0, 0, 0, 200, 400]);
        let healed = now + Duration::from_mins(2);
        assert_eq!(waits(&limiter, healed, 5), [0, 0, 0, 100, 200]);
    }
}
