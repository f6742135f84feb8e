//! What keeps EndpointSlices from being written.

use anyhow::Result;

use super::Story;
use crate::rights::{Grant, until_series};
use crate::support::cluster::Cluster;
use crate::support::kubeconfig::Access;
use crate::support::link::link;
use crate::support::run;
use crate::support::services::{Backend, flat_mirror, workload};
use crate::support::tributary::Tributary;
use crate::tools::read;

/// A writer with the access of an account, which is ready.
async fn writer(home: &Cluster, access: &Access, more: &[&str]) -> Result<Tributary> {
    let kubeconfig = home.write_file("writer.kubeconfig", &access.to_yaml())?;
    let mut arguments = vec![
        "--endpoint-slices=on",
        "--cluster-name=hub",
        "--endpoint-slices-batch=50ms",
    ];
    arguments.extend(more);
    let tributary = Tributary::launch(&kubeconfig, &arguments)?;
    tributary.until_ready().await?;
    let synced = "tributary_cluster_synced{cluster=\"east\"}";
    until_series(&tributary, synced, |value| value > 0.0).await?;
    Ok(tributary)
}

#[test]
#[ignore = "needs promtool and kube-apiserver: scripts/test deploy"]
fn slices_are_not_written_refused_and_left_over() {
    run(async {
        let [home, east] = Cluster::start_all(["alerts-hub", "alerts-spoke"]).await?;
        for cluster in [&home, &east] {
            cluster.define_linkerd_kinds().await?;
            cluster.ensure_namespace("shop").await?;
        }
        link(&home, &east, "east").await?;
        let manifests = [
            read("deploy/rbac-read.yaml")?,
            read("deploy/rbac-write.yaml")?,
        ];
        let manifests = manifests.each_ref().map(String::as_str);
        let full = Grant::of(&manifests, "linkerd", "full")?
            .apply(&home)
            .await?;
        let leads = async |tributary: &Tributary| {
            tributary.until_metric("tributary_writer_leader", 1.0).await
        };

        // All is well; then the next release may not have the Lease.
        let tributary = writer(&home, &full, &[]).await?;
        leads(&tributary).await?;
        let story = Story::of_a_writer().then(&[&tributary]).await?;
        tributary.terminate().await?;
        let grant = Grant::of(&manifests, "linkerd", "leaderless")?.without("leases", None);
        let tributary = writer(&home, &grant.apply(&home).await?, &[]).await?;
        tributary
            .log_line("the Lease cannot be renewed or taken")
            .await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryWriterIdle"])?;
        tributary.terminate().await?;

        // It leads, and may not write.
        let grant = Grant::of(&manifests, "linkerd", "writeless")?
            .without("endpointslices", Some(&["patch"]));
        let access = grant.apply(&home).await?;
        let tributary = writer(&home, &access, &[]).await?;
        leads(&tributary).await?;
        let story = Story::of_a_writer().then(&[&tributary]).await?;
        let web = [Backend::ready("web-0", "10.60.91.1")];
        east.apply(&workload("shop", "web", &web)).await?;
        home.apply(&flat_mirror("shop", "web", "east")).await?;
        let refused = "tributary_writer_actions_total{verb=\"apply\",result=\"forbidden\"}";
        until_series(&tributary, refused, |count| count >= 1.0).await?;
        tributary
            .until_metric("tributary_writer_backoff_services", 1.0)
            .await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryWriterBehind", "TributaryWriterRefused"])?;
        tributary.terminate().await?;

        // It writes. One that has a range for the cluster's addresses leaves this one out.
        let tributary = writer(&home, &full, &[]).await?;
        tributary
            .until_metric("tributary_writer_backoff_services", 0.0)
            .await?;
        until_series(
            &tributary,
            "tributary_writer_slices{cluster=\"east\"}",
            |slices| slices >= 1.0,
        )
        .await?;
        let story = Story::of_a_writer().then(&[&tributary]).await?;
        tributary.terminate().await?;
        let tributary = writer(
            &home,
            &full,
            &["--endpoint-slices-pod-cidrs=east=10.99.0.0/16"],
        )
        .await?;
        let skipped = "tributary_writer_skipped_endpoints{reason=\"cidr\"}";
        until_series(&tributary, skipped, |count| count >= 1.0).await?;
        leads(&tributary).await?;
        let skips = story.then(&[&tributary]).await?;
        skips.raises(&["TributaryWriterSkips"])?;
        tributary.terminate().await?;

        // It is turned off, and what it wrote is there.
        let tributary = writer(&home, &full, &[]).await?;
        until_series(
            &tributary,
            "tributary_writer_slices{cluster=\"east\"}",
            |slices| slices >= 1.0,
        )
        .await?;
        leads(&tributary).await?;
        let story = Story::default().then(&[&tributary]).await?;
        tributary.terminate().await?;
        let tributary = Tributary::start(&home, &["--cluster-name=hub"]).await?;
        let synced = "tributary_cluster_synced{cluster=\"east\"}";
        until_series(&tributary, synced, |value| value > 0.0).await?;
        until_series(&tributary, "tributary_writer_leftover_slices", |slices| {
            slices >= 1.0
        })
        .await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryLeftoverSlices"])
    });
}
