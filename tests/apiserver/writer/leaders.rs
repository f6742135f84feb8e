//! Who writes.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::json;

use super::{applies, copies, turn, versions, wait_for_copies, writer};
use crate::support::cluster::Cluster;
use crate::support::services::{Backend, flat_mirror, slice, workload};
use crate::support::{run, wait_for};

const LEASE: &str = "tributary-endpointslice-writer";

async fn holder(home: &Cluster) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(home.client(), "linkerd");
    let lease = leases.get(LEASE).await.ok()?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn of_two_replicas_one_writes_and_the_other_takes_over_at_once() {
    run(async {
        let turn = turn().await?;
        let bed = turn.bed;
        let namespace = "writer-replicas";
        bed.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.49.1")],
            ))
            .await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let first = writer(&bed.home, namespace, &[]).await?;
        let line = |last: u8| {
            format!("web-east from east: http=8080 | 10.60.49.{last} ready serving zone:za")
        };
        wait_for_copies(&first, &bed.home, namespace, &line(1)).await?;
        let second = writer(&bed.home, namespace, &[]).await?;
        bed.east
            .apply(&slice(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.49.2")],
            ))
            .await?;
        wait_for_copies(&first, &bed.home, namespace, &line(2)).await?;
        assert!(second.metric("tributary_writer_leader").await?.abs() < 0.5);
        let held_by = holder(&bed.home).await;

        first.terminate().await?;
        bed.east
            .apply(&slice(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.49.3")],
            ))
            .await?;
        let before = wait_for_copies(&second, &bed.home, namespace, &line(3)).await?;
        let now_held_by = holder(&bed.home).await;
        assert!(
            now_held_by.is_some() && now_held_by != held_by,
            "{now_held_by:?}"
        );
        assert_eq!(
            versions(&before),
            versions(&copies(&bed.home, namespace).await?)
        );
        second.terminate().await?;
        assert_eq!(holder(&bed.home).await, None, "given up");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_thaws() {
    run(async {
        let turn = turn().await?;
        let bed = turn.bed;
        let namespace = "writer-frozen";
        bed.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.50.1")],
            ))
            .await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let line = |last: u8| {
            format!("web-east from east: http=8080 | 10.60.50.{last} ready serving zone:za")
        };
        let first = writer(&bed.home, namespace, &[]).await?;
        wait_for_copies(&first, &bed.home, namespace, &line(1)).await?;
        let second = writer(&bed.home, namespace, &[]).await?;
        let held_by = holder(&bed.home).await;
        first.freeze()?;
        // As if its last renewal were long ago: the other one takes over without half a minute of waiting.
        let expired = json!({"spec": {"leaseDurationSeconds": 1}});
        bed.home.patch("Lease", "linkerd", LEASE, expired).await?;
        wait_for("the other one to lead", || async {
            let holder = holder(&bed.home).await;
            (holder.is_some() && holder != held_by).then_some(())
        })
        .await?;
        bed.east
            .apply(&slice(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.50.2")],
            ))
            .await?;
        wait_for_copies(&second, &bed.home, namespace, &line(2)).await?;
        // Longer than a leader trusts its Lease without renewing it.
        wait_for("the frozen one's time to run out", || async {
            let age = first.frozen_for()?;
            (age > std::time::Duration::from_secs(11)).then_some(())
        })
        .await?;
        let before = copies(&bed.home, namespace).await?;
        let asked = applies(&bed.home).await?;
        first.thaw()?;
        first.until_metric("tributary_writer_leader", 0.0).await?;
        first.log_line("state=following").await?;
        assert_eq!(
            versions(&before),
            versions(&copies(&bed.home, namespace).await?)
        );
        assert!((applies(&bed.home).await? - asked).abs() < 0.5);
        first.terminate().await?;
        second.terminate().await?;
        Ok(())
    });
}
