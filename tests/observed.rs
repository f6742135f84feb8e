//! Needs kube-apiserver and etcd: run by `scripts/test observed`.
//!
//! Replays recordings of what Linkerd's destination controller answered, and compares. The recordings and the rules of the
//! comparison are described in `tests/fixtures/observed/README.md`. `TRIBUTARY_OBSERVED=text` runs the cases whose
//! names contain the text, `TRIBUTARY_OBSERVED_LANES=n` that many at a time.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]
#![allow(
    unreachable_pub,
    reason = "nothing is reachable from outside of a test"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "observed/answer.rs"]
mod answer;
#[path = "observed/case.rs"]
mod case;
#[path = "observed/client.rs"]
mod client;
#[path = "observed/profile.rs"]
mod profile;
#[path = "observed/replay.rs"]
mod replay;

use std::collections::VecDeque;
use std::path::Path;

use parking_lot::Mutex;

use crate::case::Case;
use crate::replay::Stage;
use crate::support::{peers, run};

/// Cases in which we knowingly answer otherwise, and why. A case in this list that turns equal has to leave it.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[(
    "get/endpoint-kinds",
    "a Pod that has finished is not served, whatever its slice says: its address may be another Pod's by now",
)];

/// What came of one case.
enum Verdict {
    Equal,
    Known(&'static str),
    KnownButEqual,
    Different(String),
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test observed"]
fn recordings_are_answered_alike() {
    run(async {
        let wanted = peers::environment("TRIBUTARY_OBSERVED").unwrap_or_default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/observed");
        let cases = Case::load_all(&folder, &wanted)?;
        anyhow::ensure!(!cases.is_empty(), "no case is called {wanted:?}");
        let total = cases.len();
        let lanes = lanes().min(total);
        let queue = Mutex::new(VecDeque::from(cases));
        let verdicts = Mutex::new(Vec::new());
        let work = (0..lanes).map(|lane| work(lane, &queue, &verdicts));
        futures::future::try_join_all(work).await?;

        let verdicts = verdicts.into_inner();
        let equal = verdicts
            .iter()
            .filter(|verdict| matches!(verdict, Verdict::Equal))
            .count();
        say(&format!("observed: {equal} of {total} cases equal"));
        let wrong = verdicts
            .iter()
            .filter(|verdict| matches!(verdict, Verdict::Different(_) | Verdict::KnownButEqual))
            .count();
        anyhow::ensure!(wrong == 0, "{wrong} cases are not as they should be");
        Ok(())
    });
}

/// Replays cases from the queue on clusters of its own until none is left.
///
/// Nearly all of a case's time is waiting for nothing more to happen, so that several lanes take a fraction of the time of one.
async fn work(
    lane: usize,
    queue: &Mutex<VecDeque<Case>>,
    verdicts: &Mutex<Vec<Verdict>>,
) -> anyhow::Result<()> {
    let stage = Stage::start(lane).await?;
    loop {
        // In a statement of its own: the lock must not be held while the case runs.
        let next = queue.lock().pop_front();
        let Some(case) = next else {
            return Ok(());
        };
        let outcome = stage.replay(&case).await;
        let known = KNOWN_DIFFERENCES
            .iter()
            .find_map(|(name, reason)| (*name == case.name).then_some(*reason));
        let verdict = match (outcome, known) {
            (Ok(()), None) => Verdict::Equal,
            (Ok(()), Some(_)) => Verdict::KnownButEqual,
            (Err(_), Some(reason)) => Verdict::Known(reason),
            (Err(difference), None) => Verdict::Different(format!("{difference:#}")),
        };
        let name = &case.name;
        say(&match &verdict {
            Verdict::Equal => format!("{name}: equal"),
            Verdict::Known(reason) => format!("{name}: different, as we know: {reason}"),
            Verdict::KnownButEqual => {
                format!("{name}: EQUAL, though KNOWN_DIFFERENCES has it")
            }
            Verdict::Different(difference) => format!("{name}: DIFFERENT\n{difference}"),
        });
        verdicts.lock().push(verdict);
    }
}

fn lanes() -> usize {
    peers::environment("TRIBUTARY_OBSERVED_LANES")
        .and_then(|lanes| lanes.parse().ok())
        .unwrap_or(3)
}

#[allow(
    clippy::print_stdout,
    reason = "a line for every case, while the others are still running"
)]
fn say(text: &str) {
    println!("{text}");
}
