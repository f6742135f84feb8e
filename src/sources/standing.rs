//! How much of each linked cluster is withheld from clients now: since contact has been lost for longer than is tolerated,
//! or since it is being drained.
//!
//! The index has no clock: this tells it, step by step. While nothing is withheld, nothing is said.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::index::{Change, Withheld, Withholding};
use crate::model::{ClusterName, ClusterRole};
use crate::publish::{ChangeSender, ClusterStatus, Drain, StatusBoard};

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// A drain goes in so many steps.
const STEPS: u32 = 20;

/// Tells the index what to withhold, until `shutdown` or until the index is gone.
///
/// `staleness_ttl` is how long a cluster may be out of contact; `None` means for ever.
pub async fn keep_standing(
    board: StatusBoard,
    changes: ChangeSender,
    staleness_ttl: Option<Duration>,
    shutdown: CancellationToken,
) {
    let mut said: BTreeMap<ClusterName, Withheld> = BTreeMap::new();
    loop {
        let mut now = BTreeMap::new();
        for status in board.all() {
            if status.role == ClusterRole::Linked {
                now.insert(status.name.clone(), withheld(&status, staleness_ttl));
            }
        }
        for (cluster, withheld) in &now {
            let before = said.get(cluster).copied().unwrap_or_default();
            if before == *withheld {
                continue;
            }
            log(cluster, before, *withheld);
            let change = Change::Withheld {
                cluster: cluster.clone(),
                withheld: *withheld,
            };
            if changes.send(change).await.is_err() {
                return;
            }
        }
        said = now;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

fn withheld(status: &ClusterStatus, staleness_ttl: Option<Duration>) -> Withheld {
    let is_too_stale = status
        .out_of_contact
        .zip(staleness_ttl)
        .is_some_and(|(lost, ttl)| lost >= ttl);
    let drained = status.drain.map_or(Withheld::NOTHING, drained);
    if is_too_stale && drained.per_mille() < Withheld::all(Withholding::Draining).per_mille() {
        return Withheld::all(Withholding::OutOfContact);
    }
    drained
}

/// How far a drain has come.
fn drained(drain: Drain) -> Withheld {
    let Drain { since, over } = drain;
    if since >= over {
        return Withheld::all(Withholding::Draining);
    }
    // The first step is taken at once: whoever drains sees that it has begun.
    let step = since.as_millis() * u128::from(STEPS) / over.as_millis().max(1) + 1;
    let per_mille = step * 1000 / u128::from(STEPS);
    Withheld::part(
        u16::try_from(per_mille).unwrap_or(1000),
        Withholding::Draining,
    )
}

fn log(cluster: &ClusterName, before: Withheld, now: Withheld) {
    let all = |withheld: Withheld| withheld.per_mille() >= 1000;
    match now.why() {
        _ if now == Withheld::NOTHING => {
            info!(%cluster, "nothing of cluster is withheld any more");
        }
        Withholding::OutOfContact => warn!(
            %cluster,
            "cluster out of contact for too long, its endpoints are withheld where others are left"
        ),
        Withholding::Draining if all(now) => {
            info!(%cluster, "cluster drained: its endpoints are withheld where others are left");
        }
        Withholding::Draining if before == Withheld::NOTHING => {
            info!(%cluster, "draining cluster: its endpoints are withheld bit by bit");
        }
        Withholding::Draining => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(since: u64, over: u64, per_mille: u16) {
        let drain = Drain {
            since: Duration::from_secs(since),
            over: Duration::from_secs(over),
        };
        assert_eq!(drained(drain).per_mille(), per_mille, "{since} of {over} s");
    }

    #[test]
    fn a_drain_goes_in_even_steps_and_comes_to_an_end() {
        check(0, 0, 1000);
        check(0, 100, 50);
        check(4, 100, 50);
        check(5, 100, 100);
        check(50, 100, 550);
        check(99, 100, 1000);
        check(100, 100, 1000);
        check(1000, 100, 1000);
    }
}
