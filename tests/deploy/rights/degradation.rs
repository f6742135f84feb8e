//! Each right of the home cluster, taken away: what is lost is what the manifests say, and nothing else.

use anyhow::Result;
use futures::future::try_join_all;

use super::Grant;
use super::world::{
    Addresses, COMPARED, CRON_JOB, DEPLOYMENT, EXTERNAL_WORKLOAD, Facts, IDENTITY, LINKS, OPAQUE,
    ROUTES, ZONE, facts, fill, until_series,
};
use crate::support::bed::Bed;
use crate::support::services::{Local, federated};
use crate::support::tributary::Tributary;
use crate::support::{http, run};
use crate::tools::read;

const NAMESPACE: &str = "rights";
const HOME: Addresses = Addresses("10.50.80");
const EAST: Addresses = Addresses("10.60.80");

/// What is lost without the right to a resource.
enum Lost {
    /// Everything: it is never ready.
    Everything,
    /// These.
    Only(&'static [&'static str]),
}

const ALL: [&str; 9] = [
    COMPARED,
    IDENTITY,
    ZONE,
    DEPLOYMENT,
    CRON_JOB,
    EXTERNAL_WORKLOAD,
    OPAQUE,
    ROUTES,
    LINKS,
];

const RESOURCES: [(&str, Lost); 11] = [
    ("services", Lost::Everything),
    ("endpointslices", Lost::Everything),
    (
        "pods",
        Lost::Only(&[IDENTITY, DEPLOYMENT, CRON_JOB, OPAQUE]),
    ),
    ("nodes", Lost::Only(&[ZONE])),
    ("replicasets", Lost::Only(&[DEPLOYMENT])),
    ("jobs", Lost::Only(&[CRON_JOB])),
    ("externalworkloads", Lost::Only(&[EXTERNAL_WORKLOAD])),
    ("servers", Lost::Only(&[OPAQUE])),
    ("serviceprofiles", Lost::Only(&[ROUTES])),
    ("links", Lost::Only(&[COMPARED])),
    ("secrets", Lost::Only(&[LINKS])),
];

/// Starts a server with all rights but one, and compares what is lost.
async fn check(bed: &Bed, manifest: &str, resource: &str, lost: &Lost) -> Result<()> {
    let account = format!(
        "without-{}",
        if resource.is_empty() {
            "nothing"
        } else {
            resource
        }
    );
    let grant = Grant::of(&[manifest], "linkerd", &account)?.without(resource, None);
    let access = grant.apply(&bed.home).await?;
    let kubeconfig = bed
        .home
        .write_file(&format!("{account}.kubeconfig"), &access.to_yaml())?;
    let tributary =
        Tributary::launch(&kubeconfig, &["--outbound-transport-mode=transport-header"])?;
    if let Lost::Everything = lost {
        let forbidden = format!(
            "tributary_source_failures_total{{cluster=\"home\",reason=\"forbidden\",resource=\"{resource}\"}}"
        );
        // Longer than an API server that has just started would say so to everyone.
        until_series(&tributary, &forbidden, |count| count >= 3.0).await?;
        let answer = http::get(tributary.admin(), "/ready").await?;
        assert_eq!(answer.status, 503, "{account}: {}", answer.body);
        assert!(answer.body.contains(resource), "{account}: {}", answer.body);
        return Ok(());
    }
    tributary.until_ready().await?;
    if resource != "secrets" {
        until_series(
            &tributary,
            "tributary_cluster_synced{cluster=\"east\"}",
            |value| value > 0.0,
        )
        .await?;
    }
    let Lost::Only(lost) = lost else {
        unreachable!()
    };
    let expected: Facts = ALL
        .into_iter()
        .filter(|fact| !lost.contains(fact))
        .collect();
    assert_eq!(
        facts(&tributary, NAMESPACE, HOME, EAST.socket(1)).await?,
        expected,
        "{account}"
    );
    Ok(())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn without_a_right_what_it_is_for_is_lost_and_nothing_else() {
    run(async {
        let bed = Bed::shared().await?;
        fill(&bed.home, NAMESPACE, HOME).await?;
        fill(&bed.east, NAMESPACE, EAST).await?;
        bed.home
            .apply(&federated(NAMESPACE, "web", Local::Member, &["east"]))
            .await?;
        let manifest = read("deploy/rbac-read.yaml")?;
        let granted = Grant::of(&[&manifest], "linkerd", "x")?.resources();
        let tested = RESOURCES
            .iter()
            .map(|(resource, _)| (*resource).to_owned())
            .collect();
        assert_eq!(granted, tested, "each resource has a row");

        check(bed, &manifest, "", &Lost::Only(&[])).await?;
        // A few at a time: each is a process, and each has to be refused for a while.
        for rows in RESOURCES.chunks(5) {
            try_join_all(
                rows.iter()
                    .map(|(resource, lost)| check(bed, &manifest, resource, lost)),
            )
            .await?;
        }
        Ok(())
    });
}
