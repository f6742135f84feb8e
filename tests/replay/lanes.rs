//! Many cases, several at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, ensure};
use parking_lot::Mutex;

use super::asker::Asker;
use super::case::Case;
use super::stage::{Stage, replay};

/// How cases are replayed.
pub struct Plan<'a> {
    /// What the cases are called together.
    pub title: &'a str,
    /// Who asks.
    pub askers: Vec<Arc<dyn Asker>>,
    /// How many cases at a time. Nearly all of a case's time is waiting for nothing more to happen.
    pub lanes: usize,
}

// === impl Plan ===

impl Plan<'_> {
    /// Replays cases, each lane on a stage of its own, and fails if one is not as it should be.
    pub async fn replay<S: Stage>(
        &self,
        cases: Vec<Case>,
        stage: impl AsyncFn(usize) -> Result<S>,
    ) -> Result<()> {
        ensure!(!cases.is_empty(), "no case has that name");
        let total = cases.len();
        let lanes = self.lanes.min(total);
        let queue = Mutex::new(VecDeque::from(cases));
        let work = (0..lanes).map(async |lane| self.work(stage(lane).await?, &queue).await);
        let equal: usize = futures::future::try_join_all(work).await?.into_iter().sum();
        let title = self.title;
        say(&format!("{title}: {equal} of {total} cases equal"));
        let wrong = total - equal;
        ensure!(wrong == 0, "{wrong} cases are not as they should be");
        Ok(())
    }

    /// Replays cases from the queue until none is left, and counts those that are answered as they should be.
    async fn work(&self, mut stage: impl Stage, queue: &Mutex<VecDeque<Case>>) -> Result<usize> {
        let mut equal = 0;
        loop {
            // In a statement of its own: the lock must not be held while the case runs.
            let next = queue.lock().pop_front();
            let Some(case) = next else {
                return Ok(equal);
            };
            let name = &case.name;
            match replay(&mut stage, &self.askers, &case).await {
                Ok(()) => {
                    equal += 1;
                    say(&format!("{name}: equal"));
                }
                Err(difference) => say(&format!("{name}: DIFFERENT\n{difference:#}")),
            }
        }
    }
}

#[allow(
    clippy::print_stdout,
    reason = "a line for every case, while the others are still running"
)]
fn say(text: &str) {
    println!("{text}");
}
