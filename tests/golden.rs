//! Needs nothing: replays cases on folders of manifests.
//!
//! Hand-written cases, described in `tests/fixtures/golden/README.md`, and the recordings of what Linkerd's destination controller
//! answered, described in `tests/fixtures/observed/README.md`, as far as they make sense without API servers.
//! With a client in Python they are replayed by `scripts/test clients`, which needs grpcio.
//! `TRIBUTARY_GOLDEN=text` runs the cases whose names contain the text, `TRIBUTARY_GOLDEN_LANES=n` that many at a time.
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

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "clients/asker.rs"]
mod asker;
#[path = "golden/folders.rs"]
mod folders;
#[path = "golden/notices.rs"]
mod notices;
#[path = "clients/python.rs"]
mod python;

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::folders::Folders;
use crate::python::Python;
use crate::replay::asker::{Asker, TypedClient};
use crate::replay::case::Case;
use crate::replay::lanes::Plan;
use crate::replay::{golden, recorded};
use crate::support::{peers, run};

/// Recorded cases that are not replayed here, and why. Where there are only files, a linked cluster is the folder of its name, whatever
/// its credentials say.
const NEEDS_API_SERVERS: &[(&str, &str)] = &[
    (
        "content/external-workload-own-slices",
        "EndpointSlices are written, and read again",
    ),
    (
        "multicluster/relink-other-cluster",
        "the credentials of a linked cluster are exchanged for those of another",
    ),
    (
        "multicluster/secret-relabelled",
        "a cluster that is linked by another name than its own",
    ),
    (
        "multicluster/secret-rules",
        "one cluster is linked by several names",
    ),
    (
        "multicluster/secret-unreachable-then-corrected",
        "the address in the credentials is wrong at first",
    ),
];

#[test]
fn cases_are_answered_alike_from_files() {
    run(replay_all("golden", vec![Arc::new(TypedClient)]));
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn a_client_in_python_is_told_the_same() {
    run(async {
        let python = Python::start()?;
        let askers: Vec<Arc<dyn Asker>> = vec![Arc::new(TypedClient), Arc::new(python)];
        replay_all("two clients", askers).await
    });
}

async fn replay_all(title: &str, askers: Vec<Arc<dyn Asker>>) -> Result<()> {
    let wanted = peers::environment("TRIBUTARY_GOLDEN").unwrap_or_default();
    let mut cases = golden::load_all(&wanted)?;
    cases.extend(without_api_servers(recorded::load_all(&wanted)?, &wanted)?);
    let plan = Plan {
        title,
        askers,
        lanes: lanes(),
    };
    plan.replay(cases, async |_| Folders::new()).await
}

/// The cases that make sense without API servers.
fn without_api_servers(mut cases: Vec<Case>, wanted: &str) -> Result<Vec<Case>> {
    for (name, _) in NEEDS_API_SERVERS {
        let before = cases.len();
        cases.retain(|case| case.name != *name);
        ensure!(
            cases.len() < before || !name.contains(wanted),
            "there is no recorded case {name}"
        );
    }
    Ok(cases)
}

fn lanes() -> usize {
    peers::environment("TRIBUTARY_GOLDEN_LANES")
        .and_then(|lanes| lanes.parse().ok())
        .unwrap_or(12)
}
