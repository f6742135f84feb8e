//! Needs kube-apiserver and etcd: run by `scripts/test observed`.
//!
//! Replays recordings of what Linkerd's destination controller answered on real API servers, and compares. The recordings
//! and the rules of the comparison are described in `tests/fixtures/observed/README.md`. Hand-written cases that ask for it
//! (`tests/fixtures/golden/README.md`) are replayed too. `TRIBUTARY_OBSERVED=text` runs the cases whose names contain
//! the text, `TRIBUTARY_OBSERVED_LANES=n` that many at a time.
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

mod replay;
mod support;

// Cargo takes files in `tests/` for tests of their own; this is a part of this one.
#[path = "observed/servers.rs"]
mod servers;

use std::sync::Arc;

use crate::replay::asker::TypedClient;
use crate::replay::lanes::Plan;
use crate::replay::{golden, recorded};
use crate::servers::Servers;
use crate::support::{peers, run};

/// Cases from both collections, in one go: clusters take longer to start than most cases do.
#[test]
#[ignore = "needs kube-apiserver: scripts/test observed"]
fn cases_are_answered_alike_on_api_servers() {
    run(async {
        let wanted = peers::environment("TRIBUTARY_OBSERVED").unwrap_or_default();
        let mut cases = recorded::load_all(&wanted)?;
        let written = golden::load_all(&wanted)?.into_iter();
        cases.extend(written.filter(|case| case.on_api_servers));
        let plan = Plan {
            title: "observed",
            askers: vec![Arc::new(TypedClient)],
            lanes: lanes(),
        };
        plan.replay(cases, Servers::start).await
    });
}

fn lanes() -> usize {
    peers::environment("TRIBUTARY_OBSERVED_LANES")
        .and_then(|lanes| lanes.parse().ok())
        .unwrap_or(3)
}
