//! The charts' accounts in use: every watch works, and an API server says that nothing more is allowed.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

use super::{Grant, Right, expand};
use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::link::{Link, unlink};
use crate::support::objects::parse;
use crate::support::peers::Peer;
use crate::support::rbac::CONTROL_PLANE_NAMESPACE;
use crate::support::run;
use crate::support::services::{Backend, Local, authority, federated, workload};
use crate::support::tributary::Tributary;
use crate::tools::{CHART, LINKED_CHART, read, succeed, template};

/// The name of the release, and so of everything in it: the account `tributary` is other tests'.
const RELEASE: &str = "reviewed";

/// What an API server lets somebody do in a namespace.
async fn allowed(client: Client, namespace: &str) -> Result<BTreeSet<Right>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let answer = Api::<SelfSubjectRulesReview>::all(client)
        .create(&PostParams::default(), &review)
        .await?;
    let status = answer.status.context("a review without an answer")?;
    let mut rights = BTreeSet::new();
    for rule in status.resource_rules {
        rights.extend(expand(&serde_json::to_value(rule)?));
    }
    Ok(rights)
}

/// What an account may do that one without any rights may not.
async fn granted(
    cluster: &Cluster,
    (namespace, account): (&str, &str),
    within: &str,
) -> Result<BTreeSet<Right>> {
    let nobody = format!(
        "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: nobody, namespace: {namespace}}}}}"
    );
    cluster.apply(&nobody).await?;
    let rights = async |account: &str| {
        let access = cluster.account_access(namespace, account).await?;
        allowed(access.client().await?, within).await
    };
    let (theirs, everybodys) = (rights(account).await?, rights("nobody").await?);
    Ok(theirs.difference(&everybodys).cloned().collect())
}

/// Rights in roles of one namespace, or in cluster roles if it is `None`.
fn listed(manifests: &[&str], kind: &str) -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for manifest in manifests {
        let mut kept = Vec::new();
        for object in parse(manifest)? {
            if object
                .types
                .as_ref()
                .is_some_and(|types| types.kind == kind)
            {
                kept.push(serde_json::to_string(&object)?);
            }
        }
        rights.extend(Grant::of(&[&kept.join("\n---\n")], "x", "x")?.rights());
    }
    Ok(rights)
}

/// Installs the charts in all three clusters, with what people install with, and links them by accounts of the linked chart.
async fn install(bed: &Bed, values: &[&str]) -> Result<()> {
    for (cluster, name) in [(&bed.east, "own-east"), (&bed.north, "own-north")] {
        cluster.ensure_namespace("linkerd-multicluster").await?;
        let kubeconfig = cluster.kubeconfig()?.display().to_string();
        let linked = [
            "--kubeconfig",
            &kubeconfig,
            "-n",
            "linkerd-multicluster",
            "upgrade",
            "--install",
            "tributary",
            LINKED_CHART,
        ];
        succeed(Peer::Helm, &linked)?;
        let access = cluster
            .account_access("linkerd-multicluster", "tributary-remote")
            .await?;
        let link = Link {
            secret: format!("cluster-credentials-{name}"),
            cluster: name.to_owned(),
            trust_domain: "cluster.local".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            access,
        };
        link.store(&bed.home).await?;
    }
    let kubeconfig = bed.home.kubeconfig()?.display().to_string();
    let mut home = vec![
        "--kubeconfig",
        &kubeconfig,
        "-n",
        "linkerd",
        "install",
        RELEASE,
        CHART,
    ];
    home.extend(values);
    succeed(Peer::Helm, &home)?;
    Ok(())
}

/// The arguments in a Deployment of a cluster.
async fn arguments(cluster: &Cluster) -> Result<Vec<String>> {
    let deployment = cluster
        .api("Deployment", CONTROL_PLANE_NAMESPACE)
        .await?
        .get(RELEASE)
        .await?;
    let arguments = &deployment.data["spec"]["template"]["spec"]["containers"][0]["args"];
    Ok(serde_json::from_value(arguments.clone())?)
}

/// Every kind of every cluster was listed, and nothing was refused.
async fn every_watch_works(tributary: &Tributary) -> Result<()> {
    let metrics = tributary.metrics().await?;
    let home = listed(&[&read("deploy/rbac-read.yaml")?], "ClusterRole")?;
    let linked = listed(&[&read("deploy/rbac-linked.yaml")?], "ClusterRole")?;
    for (cluster, rights) in [
        ("hub", &home),
        ("own-east", &linked),
        ("own-north", &linked),
    ] {
        // Links are looked at for findings, and are no source of endpoints.
        let kinds = rights
            .iter()
            .filter(|(_, resource, ..)| resource != "links");
        for (_, resource, ..) in kinds {
            let listed = format!(
                "tributary_source_resyncs_total{{cluster=\"{cluster}\",resource=\"{resource}\"}} "
            );
            assert!(metrics.contains(&listed), "{listed}: {metrics}");
        }
        let is_refusal = |line: &&str| {
            line.starts_with("tributary_source_failures_total")
                && line.contains(&format!("cluster=\"{cluster}\""))
                && (line.contains("forbidden") || line.contains("unauthorized"))
        };
        assert_eq!(metrics.lines().find(is_refusal), None, "{cluster}");
    }
    Ok(())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn the_charts_accounts_may_do_what_is_needed_and_nothing_more() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "reviewed";
        let _turn = super::writing::turn().await;
        let only = format!("--set-json=extraArgs=[\"--endpoint-slices-namespaces={namespace}\"]");
        let values = [
            "--set=endpointSlices.write=enabled,clusterName=hub",
            only.as_str(),
        ];
        install(bed, &values).await?;
        for (cluster, ip) in [
            (&bed.home, "10.50.81.1"),
            (&bed.east, "10.60.81.1"),
            (&bed.north, "10.70.81.1"),
        ] {
            cluster
                .apply(&workload(namespace, "web", &[Backend::ready("web-0", ip)]))
                .await?;
        }
        bed.home
            .apply(&federated(
                namespace,
                "web",
                Local::Member,
                &["own-east", "own-north"],
            ))
            .await?;

        // The binary, by the arguments of the Deployment and with the token of its account.
        let access = bed
            .home
            .account_access(CONTROL_PLANE_NAMESPACE, RELEASE)
            .await?;
        let kubeconfig = bed.home.write_file("chart.kubeconfig", &access.to_yaml())?;
        let arguments = arguments(&bed.home).await?;
        assert_eq!(arguments.first().map(String::as_str), Some("serve"));
        let arguments: Vec<_> = arguments[1..].iter().map(String::as_str).collect();
        let tributary = Tributary::launch(&kubeconfig, &arguments)?;
        tributary.until_ready().await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        let addresses = ["10.50.81.1:8080", "10.60.81.1:8080", "10.70.81.1:8080"];
        let state = stream.wait_for_exactly(&addresses).await;
        for address in addresses {
            assert!(state.at(address).identity().is_some(), "{address}");
        }
        tributary
            .until_metric("tributary_writer_leader", 1.0)
            .await?;

        every_watch_works(&tributary).await?;
        assert_eq!(
            tributary.logs_containing("has no effect"),
            Vec::<String>::new()
        );

        // What an API server says is what the manifests list.
        let account = (CONTROL_PLANE_NAMESPACE, RELEASE);
        let text = template(CHART, "linkerd", &values)?;
        let everywhere = listed(&[&text], "ClusterRole")?;
        assert_eq!(granted(&bed.home, account, "default").await?, everywhere);
        let mut here = everywhere;
        here.extend(listed(&[&text], "Role")?);
        assert_eq!(
            granted(&bed.home, account, CONTROL_PLANE_NAMESPACE).await?,
            here
        );
        let linked = listed(&[&read("deploy/rbac-linked.yaml")?], "ClusterRole")?;
        let account = ("linkerd-multicluster", "tributary-remote");
        assert_eq!(granted(&bed.east, account, "default").await?, linked);
        assert_eq!(
            granted(&bed.east, account, "linkerd-multicluster").await?,
            linked
        );

        drop(tributary);
        let kubeconfig = bed.home.kubeconfig()?.display().to_string();
        succeed(
            Peer::Helm,
            &[
                "--kubeconfig",
                &kubeconfig,
                "-n",
                "linkerd",
                "uninstall",
                RELEASE,
            ],
        )?;
        for name in ["own-east", "own-north"] {
            unlink(&bed.home, name).await?;
        }
        Ok(())
    });
}
