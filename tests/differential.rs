//! Random histories of clusters, played to the product and to rules that are written down apart from it. Needs nothing.
//!
//! Kubernetes objects go in as JSON, and out comes gRPC, decoded by Linkerd's own types and folded as proxies fold it. What
//! an open stream has been told, what a new one is told, and what the rules say are the same at every step. A history that
//! fails is made as short as it can be, and printed with its seed.
//!
//! `TRIBUTARY_DIFFERENTIAL_STEPS` is how many steps are played in each test, `TRIBUTARY_DIFFERENTIAL_SEED` plays the one
//! history of a seed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that panics has failed, and says why"
)]

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "differential/answer.rs"]
mod answer;
#[path = "differential/history.rs"]
mod history;
#[path = "differential/objects.rs"]
mod objects;
#[path = "differential/play.rs"]
mod play;
#[path = "differential/reader.rs"]
mod reader;
#[path = "differential/rules.rs"]
mod rules;

use std::io::Write as _;

use history::History;
use play::{Failure, Patience, Seen, play};

/// Steps in each test, unless somebody asks for more.
const STEPS: usize = 50_000;
/// Steps of one history: many short ones find more than a long one does.
const HISTORY_STEPS: usize = 60;

#[test]
fn streams_follow_the_rules_where_clients_wait_for_what_has_not_been_read() {
    let seen = run(Patience::Endless);
    check_seen(&seen, &["Get: waiting", "GetProfile: waiting"]);
}

#[test]
fn streams_follow_the_rules_where_clients_do_not_wait() {
    let seen = run(Patience::None);
    check_seen(&seen, &["Get: refused, Unavailable"]);
}

/// Plays histories until there have been enough steps.
fn run(patience: Patience) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    if let Some(seed) = number("TRIBUTARY_DIFFERENTIAL_SEED") {
        return play_seed(seed, patience);
    }
    let steps = number("TRIBUTARY_DIFFERENTIAL_STEPS");
    let steps = steps.map_or(STEPS, |steps| usize::try_from(steps).unwrap());
    let mut seen = Seen::new();
    for seed in 0..steps.div_ceil(HISTORY_STEPS) {
        for (what, count) in play_seed(seed as u64, patience) {
            *seen.entry(what).or_default() += count;
        }
    }
    report(patience, steps, &seen);
    seen
}

/// Says how much was played, also when the output of tests that pass is kept back.
fn report(patience: Patience, steps: usize, seen: &Seen) {
    let all: Vec<String> = seen
        .iter()
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    let report = format!(
        "differential, patience {patience:?}: {steps} steps; {}\n",
        all.join(", ")
    );
    std::io::stderr().write_all(report.as_bytes()).unwrap();
}

fn play_seed(seed: u64, patience: Patience) -> Seen {
    let history = History::of(seed, patience == Patience::None, HISTORY_STEPS);
    match play(&history, patience) {
        Ok(met) => met,
        Err(failure) => {
            let (shorter, error) = shortened(history, failure, patience);
            let steps = shorter.steps.iter().map(|step| format!("{step:?}\n"));
            panic!(
                "seed {seed}, clients with patience {patience:?}: {error}\n{:?}\n{}",
                shorter.setting,
                steps.collect::<String>()
            );
        }
    }
}

/// Leaves out steps, longer runs of them first, for as long as the history fails in some way.
fn shortened(mut history: History, failure: Failure, patience: Patience) -> (History, String) {
    let mut error = failure.error;
    history.steps = failure.steps;
    let mut run = history.steps.len() / 2;
    while run > 0 {
        let mut start = 0;
        while start < history.steps.len() {
            let mut shorter = history.clone();
            let end = (start + run).min(shorter.steps.len());
            shorter.steps.drain(start..end);
            match play(&shorter, patience) {
                Err(now) => (history, error) = (shorter, now.error),
                Ok(_) => start += run,
            }
        }
        run /= 2;
    }
    (history, error)
}

/// A run that has not met all of this has shown little.
fn check_seen(seen: &Seen, also: &[&str]) {
    let steps = number("TRIBUTARY_DIFFERENTIAL_STEPS").unwrap_or(u64::MAX);
    if number("TRIBUTARY_DIFFERENTIAL_SEED").is_some() || steps < STEPS as u64 {
        return;
    }
    let wanted = [
        "Get: endpoints",
        "Get: no endpoints",
        "Get: ended",
        "Get: refused, NotFound",
        "Get: refused, InvalidArgument",
        "Get: refused, FailedPrecondition",
        "Get: something else than before",
        "Get: a Pod",
        "Get: an ExternalWorkload",
        "Get: a gateway",
        "Get: a linked cluster",
        "Get: an identity",
        "Get: hint of HTTP/2",
        "Get: hint of opacity",
        "Get: a port of a proxy",
        "GetProfile: of a Service",
        "GetProfile: of an address",
        "GetProfile: empty",
        "GetProfile: ended",
        "GetProfile: with a ServiceProfile",
        "GetProfile: with routes",
        "GetProfile: refused, NotFound",
        "GetProfile: refused, InvalidArgument",
        "GetProfile: refused, FailedPrecondition",
        "GetProfile: something else than before",
        "GetProfile: a Pod",
        "GetProfile: an ExternalWorkload",
        "GetProfile: a linked cluster",
        "GetProfile: an identity",
    ];
    let missed: Vec<_> = wanted
        .iter()
        .chain(also)
        .filter(|what| seen.get(**what).is_none_or(|count| *count < 10))
        .collect();
    assert!(missed.is_empty(), "hardly met: {missed:?} in {seen:#?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "settings of tests are not those of the product"
)]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap())
}
