//! How old news is when it leaves for its clients.

use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

/// More different news than this between two writes to the socket are not looked at.
const DIFFERENT_MAX: usize = 64;

/// What the streams of one connection have said and the kernel has not been given yet: when each piece of news was learnt.
#[derive(Debug, Default)]
pub(super) struct Departures(Mutex<Vec<Instant>>);

// === impl Departures ===

impl Departures {
    /// A stream tells of something that was learnt then.
    pub(super) fn add(&self, since: Instant) {
        let mut waiting = self.0.lock();
        // Streams that are told the same run one after the other.
        if waiting.last() != Some(&since) && waiting.len() < DIFFERENT_MAX {
            waiting.push(since);
        }
    }

    /// All of it has been given to the kernel. One observation for each piece of news, however many streams told it.
    pub(super) fn leave(&self, lag_seconds: &Histogram) {
        let mut waiting = self.0.lock();
        if waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        for since in waiting.drain(..) {
            lag_seconds.observe(now.saturating_duration_since(since).as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn what_many_streams_tell_is_observed_once_and_when_it_leaves() {
        let (departures, lag_seconds) = (Departures::default(), Histogram::new([1.0]));
        let mut registry = Registry::default();
        registry.register("lag", "", lag_seconds.clone());
        let check = |within_a_second: usize, all: usize| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let count = |line: String| assert!(text.contains(&line), "{line} {text}");
            count(format!("lag_bucket{{le=\"1.0\"}} {within_a_second}\n"));
            count(format!("lag_count {all}\n"));
        };
        let (now, earlier) = (Instant::now(), Instant::now() - Duration::from_mins(1));
        for since in [earlier, earlier, now, now] {
            departures.add(since);
        }
        check(0, 0);
        departures.leave(&lag_seconds);
        check(1, 2);
        departures.leave(&lag_seconds);
        check(1, 2);
        let many = (0..10 * DIFFERENT_MAX as u64).map(Duration::from_micros);
        many.for_each(|age| departures.add(now + age));
        departures.leave(&lag_seconds);
        check(1 + DIFFERENT_MAX, 2 + DIFFERENT_MAX);
    }
}
