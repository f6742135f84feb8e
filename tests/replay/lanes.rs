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
    /// Cases that are known to differ, and why. One that does not has to leave the list.
    pub known: &'a [(&'a str, &'a str)],
}

/// What came of one case.
enum Verdict {
    Equal,
    Known,
    Wrong,
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
        let verdicts = futures::future::try_join_all(work).await?;
        let title = self.title;
        let (mut equal, mut wrong) = (0, 0);
        for verdict in verdicts.into_iter().flatten() {
            match verdict {
                Verdict::Equal => equal += 1,
                Verdict::Known => {}
                Verdict::Wrong => wrong += 1,
            }
        }
        say(&format!("{title}: {equal} of {total} cases equal"));
        ensure!(wrong == 0, "{wrong} cases are not as they should be");
        Ok(())
    }

    /// Replays cases from the queue until none is left.
    async fn work(
        &self,
        mut stage: impl Stage,
        queue: &Mutex<VecDeque<Case>>,
    ) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        loop {
            // In a statement of its own: the lock must not be held while the case runs.
            let next = queue.lock().pop_front();
            let Some(case) = next else {
                return Ok(verdicts);
            };
            let outcome = replay(&mut stage, &self.askers, &case).await;
            verdicts.push(self.judge(&case.name, &outcome));
        }
    }

    fn judge(&self, name: &str, outcome: &Result<()>) -> Verdict {
        let known = self.known.iter().find(|(known, _)| *known == name);
        let (text, verdict) = match (outcome, known) {
            (Ok(()), None) => ("equal".to_owned(), Verdict::Equal),
            (Ok(()), Some(_)) => (
                "EQUAL, though it is known to differ".to_owned(),
                Verdict::Wrong,
            ),
            (Err(_), Some((_, reason))) => {
                (format!("different, as we know: {reason}"), Verdict::Known)
            }
            (Err(difference), None) => (format!("DIFFERENT\n{difference:#}"), Verdict::Wrong),
        };
        say(&format!("{name}: {text}"));
        verdict
    }
}

#[allow(
    clippy::print_stdout,
    reason = "a line for every case, while the others are still running"
)]
fn say(text: &str) {
    println!("{text}");
}
