//! What goes wrong with clusters. Each test has a bed of its own, since all must be well before.

use std::cell::Cell;

use anyhow::Result;

use super::Story;
use crate::rights::{Grant, until_series};
use crate::support::cluster::Cluster;
use crate::support::kubeconfig::Credentials;
use crate::support::link::{self, Link};
use crate::support::services::{Backend, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::tools::read;

const NAMESPACE: &str = "shop";

/// A home cluster, one that is linked to it as `east`, and the product.
struct Scene {
    home: std::sync::Arc<Cluster>,
    east: std::sync::Arc<Cluster>,
    tributary: Tributary,
}

async fn scene() -> Result<Scene> {
    let [home, east] = Cluster::start_all(["alerts-home", "alerts-east"]).await?;
    for (cluster, ip) in [(&home, "10.50.90.1"), (&east, "10.60.90.1")] {
        cluster.define_linkerd_kinds().await?;
        cluster
            .apply(&workload(NAMESPACE, "web", &[Backend::ready("web-0", ip)]))
            .await?;
    }
    link::link(&home, &east, "east").await?;
    let tributary = Tributary::start(&home, &[]).await?;
    until(&tributary, "tributary_cluster_synced", "east", 1.0).await?;
    Ok(Scene {
        home,
        east,
        tributary,
    })
}

async fn until(tributary: &Tributary, metric: &str, cluster: &str, wanted: f64) -> Result<()> {
    let series = format!("{metric}{{cluster=\"{cluster}\"}}");
    until_series(tributary, &series, |value| value.total_cmp(&wanted).is_eq()).await
}

/// Waits until a request for Pods has failed.
async fn until_failed(tributary: &Tributary, cluster: &str, reason: &str) -> Result<()> {
    until_series(tributary, &failures(cluster, reason), |count| count >= 1.0).await
}

fn failures(cluster: &str, reason: &str) -> String {
    format!(
        "tributary_source_failures_total{{cluster=\"{cluster}\",reason=\"{reason}\",resource=\"pods\"}}"
    )
}

/// Waits until more requests for Pods have failed than now.
async fn until_more_failed(tributary: &Tributary, cluster: &str, reason: &str) -> Result<()> {
    let first = Cell::new(None);
    let is_more = |count: f64| {
        let first_count = first.get().unwrap_or(count);
        first.set(Some(first_count));
        count > first_count
    };
    until_series(tributary, &failures(cluster, reason), is_more).await
}

/// Links `east` again, under another name and with other credentials.
async fn link_as(scene: &Scene, name: &str, credentials: Credentials) -> Result<()> {
    let mut link = Link::to(&scene.east, name).await?;
    link.access.credentials = credentials;
    link.store(&scene.home).await
}

/// Takes a link away, and waits until nothing is said of it any more.
async fn unlink(scene: &Scene, name: &str) -> Result<()> {
    link::unlink(&scene.home, name).await?;
    let series = format!("tributary_cluster_connected{{cluster=\"{name}\"}}");
    wait_for("no series of the cluster", || async {
        let metrics = scene.tributary.metrics().await.ok()?;
        (!metrics.contains(&series)).then_some(())
    })
    .await
}

#[test]
#[ignore = "needs promtool and kube-apiserver: scripts/test deploy"]
fn clusters_go_away_reject_and_forbid() {
    run(async {
        let scene = scene().await?;
        let tributary = &scene.tributary;

        // Credentials that were never any good: nothing is read, and everything is refused.
        let story = Story::default().then(&[tributary]).await?;
        let expired = Credentials::Token("expired".to_owned());
        link_as(&scene, "rejecting", expired).await?;
        until_failed(tributary, "rejecting", "unauthorized").await?;
        // A series that is new has not increased, to Prometheus: the second state is when it is there.
        let story = story.then(&[tributary]).await?;
        until_more_failed(tributary, "rejecting", "unauthorized").await?;
        story.then(&[tributary]).await?.raises(&[
            "TributaryClusterNotSynced",
            "TributaryClusterUnreachable",
            "TributaryCredentialsRejected",
        ])?;
        unlink(&scene, "rejecting").await?;

        // An account that may read everything but Pods.
        let story = Story::default().then(&[tributary]).await?;
        let manifest = read("deploy/rbac-linked.yaml")?;
        let grant = Grant::of(&[&manifest], "linkerd-multicluster", "forbidding")?;
        let access = grant.without("pods", None).apply(&scene.east).await?;
        link_as(&scene, "forbidding", access.credentials).await?;
        let without = "tributary_cluster_endpoints_without_pods";
        until(tributary, without, "forbidding", 1.0).await?;
        until(tributary, "tributary_cluster_synced", "forbidding", 1.0).await?;
        until(tributary, "tributary_cluster_connected", "forbidding", 1.0).await?;
        let story = story.then(&[tributary]).await?;
        until_more_failed(tributary, "forbidding", "forbidden").await?;
        story.then(&[tributary]).await?.raises(&[
            "TributaryAccessForbidden",
            "TributaryEndpointsWithoutIdentity",
        ])?;
        unlink(&scene, "forbidding").await?;

        // Its API server goes.
        let story = Story::default().then(&[tributary]).await?;
        scene.east.kill_apiserver();
        until(tributary, "tributary_cluster_connected", "east", 0.0).await?;
        let age = "tributary_cluster_age_seconds{cluster=\"east\"}";
        until_series(tributary, age, |age| age > 1.0).await?;
        story
            .then(&[tributary])
            .await?
            .growing("tributary_cluster_age_seconds")
            .raises(&["TributaryClusterStale", "TributaryClusterUnreachable"])
    });
}

#[test]
#[ignore = "needs promtool and kube-apiserver: scripts/test deploy"]
fn an_object_cannot_be_used() {
    run(async {
        let scene = scene().await?;
        let tributary = &scene.tributary;

        // A Server whose selector is not one.
        let story = Story::default().then(&[tributary]).await?;
        let server = "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: odd, namespace: shop}, \
                      spec: {podSelector: {matchExpressions: [{key: a, operator: Near}]}, port: 8080}}";
        scene.home.apply(server).await?;
        tributary.log_line("object used in part").await?;
        story
            .then(&[tributary])
            .await?
            .raises(&["TributaryObjectsUnusable"])
    });
}
