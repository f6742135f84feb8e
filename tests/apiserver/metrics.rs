//! Metrics that only API servers can move.

use anyhow::Result;

use crate::support::bed::Bed;
use crate::support::link::unlink;
use crate::support::services::{Backend, Condition, authority, slice, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::victim::{GOES, HOME, STAYS, Victim};

/// The value of one series, written as it is shown.
async fn series(tributary: &Tributary, series: &str) -> Result<Option<f64>> {
    let metrics = tributary.metrics().await?;
    let value = metrics
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .find_map(|(known, value)| (known == series).then_some(value));
    Ok(value.map(str::parse).transpose()?)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn changes_are_timed_and_lists_are_not() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "metrics-lag";
        let web = [Backend::ready("web-0", "10.50.61.1")];
        bed.home.apply(&workload(namespace, "web", &web)).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web"));
        stream.wait_for_exactly(&["10.50.61.1:8080"]).await;

        // Others write to the same API server meanwhile, so nothing can be said of what it was before.
        let gone = [web[0].condition(Condition::Unready)];
        bed.home.apply(&slice(namespace, "web", &gone)).await?;
        stream.wait_for_exactly(&[]).await;
        let observed = |part: &str| format!("endpointslices_informer_lag_seconds_{part}");
        let count = series(&tributary, &observed("count")).await?;
        assert!(count.is_some_and(|count| count >= 1.0), "{count:?}");
        // A list of what was written long ago would be far beyond.
        let soon = series(&tributary, &observed("bucket{le=\"50.0\"}")).await?;
        assert_eq!(
            soon,
            series(&tributary, &observed("bucket{le=\"+Inf\"}")).await?
        );

        let answered = "http_client_requests_total{client=\"k8s\",code=\"200\",method=\"get\"}";
        let answered = series(&tributary, answered).await?;
        assert!(answered.is_some_and(|count| count >= 9.0), "{answered:?}");
        let pods = series(&tributary, "pod_cache_size{cluster=\"local\"}").await?;
        assert!(pods.is_some_and(|pods| pods >= 1.0), "{pods:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_that_is_unlinked_takes_its_series_along() {
    run(async {
        let victim = Victim::shared("metrics-leaving").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let pods = format!("pod_cache_size{{cluster=\"{}\"}}", victim.name);
        assert!(series(&tributary, &pods).await?.is_some());
        tributary.log_line("cluster linked").await?;

        unlink(victim.home, victim.name).await?;
        let label = format!("cluster=\"{}\"", victim.name);
        wait_for("no series of the cluster", || async {
            let metrics = tributary.metrics().await.ok()?;
            (!metrics.contains(&label)).then_some(())
        })
        .await?;
        victim.leave().await
    });
}
