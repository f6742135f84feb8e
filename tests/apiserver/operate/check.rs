//! `tributary check`, with faults planted that people really make.

use anyhow::Result;
use serde_json::Value;

use crate::support::cluster::Cluster;
use crate::support::command::Said;
use crate::support::fault_proxy::FaultProxy;
use crate::support::link::{Link, link};
use crate::support::services::{Backend, Local, federated, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// Two clusters that are linked, each with a Service, and nothing wrong but for the tokens, which are short-lived.
struct Scene {
    home: Cluster,
    west: Cluster,
}

impl Scene {
    async fn start() -> Result<Self> {
        let home = Cluster::start("check-home").await?;
        let west = Cluster::start("check-west").await?;
        for cluster in [&home, &west] {
            cluster.define_linkerd_kinds().await?;
        }
        link(&home, &west, "west").await?;
        home.apply(&link_object("west", "west")).await?;
        let here = [Backend::ready("web-0", "10.50.7.1")];
        home.apply(&workload("shop", "web", &here)).await?;
        let there = [Backend::ready("web-0", "10.60.7.1")];
        west.apply(&workload("shop", "web", &there)).await?;
        Ok(Self { home, west })
    }
}

/// What Linkerd's service mirror follows.
fn link_object(name: &str, cluster: &str) -> String {
    format!(
        "
---
apiVersion: multicluster.linkerd.io/v1alpha3
kind: Link
metadata: {{name: {name}, namespace: linkerd-multicluster}}
spec: {{targetClusterName: {cluster}, targetClusterLinkerdNamespace: linkerd}}
"
    )
}

/// Runs the check until it has found something of a kind about a subject; the finding.
async fn until_found(
    tributary: &Tributary,
    check: &str,
    subject: &str,
    words: &str,
) -> Result<Value> {
    let what = format!("a finding of {check} about {subject} that says {words:?}");
    wait_for(&what, || async {
        let said = tributary.command(&["check", "-o", "json"]).await.ok()?;
        let json = said.json().ok()?;
        let mut all = json.as_array()?.iter();
        all.find(|finding| {
            let is = |field: &str, wanted: &str| finding[field] == wanted;
            let says = finding["what"]
                .as_str()
                .is_some_and(|what| what.contains(words));
            is("check", check) && is("subject", subject) && says && !is("severity", "ok")
        })
        .cloned()
    })
    .await
}

#[track_caller]
fn says_what_to_do(finding: &Value, severity: &str, action: &str) {
    assert_eq!(finding["severity"], severity, "{finding}");
    let text = |field: &str| finding[field].as_str().unwrap_or_default();
    assert!(!text("meaning").is_empty(), "{finding}");
    assert!(text("action").contains(action), "{finding}");
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn planted_faults_are_found_and_each_says_what_to_do() {
    run(async {
        let Scene { home, west } = Scene::start().await?;
        let tributary = Tributary::start(&home, &[]).await?;
        let found =
            async |check, subject, words| until_found(&tributary, check, subject, words).await;
        // Tokens of tests last an hour.
        let token = found("credentials", "west", "token in Secret").await?;
        says_what_to_do(&token, "warning", "link-gen");
        let before: Said = tributary.command(&["check"]).await?;
        assert!(!before.out.contains("ERROR"), "{}", before.out);

        // One cluster under two names.
        link(&home, &west, "west-again").await?;
        let twice = found("one-cluster-twice", "links", "west and west-again").await?;
        says_what_to_do(&twice, "error", "Unlink");

        // A kubeconfig made for a person, with a plugin to log in.
        let person = Link::to(&west, "person").await?;
        let plugin = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: ops}}], \
                      clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], \
                      users: [{name: ops, user: {exec: {command: login, apiVersion: client.authentication.k8s.io/v1}}}]}";
        home.apply(&person.with_kubeconfig(plugin).to_string())
            .await?;
        let rejected = found("connection", "person", "exec").await?;
        says_what_to_do(&rejected, "error", "Secret");

        // A Link without the second Secret.
        home.apply(&link_object("north", "north")).await?;
        let half = found("link-objects", "links", "north").await?;
        says_what_to_do(&half, "error", "link-gen --cluster-name north");

        // A Secret whose label is missing.
        let mut nameless = Link::to(&west, "nameless").await?.to_json();
        nameless["metadata"]["labels"] = serde_json::json!({});
        home.apply(&nameless.to_string()).await?;
        let idle = found("secrets", "links", "cluster-credentials-nameless").await?;
        says_what_to_do(&idle, "warning", "kubectl -n linkerd delete secret");

        // Pods of two clusters with one address.
        let same = [Backend::ready("web-0", "10.50.7.1")];
        west.apply(&workload("other", "web", &same)).await?;
        let overlap = found("overlapping-pods", "services", "10.50.7.1").await?;
        says_what_to_do(&overlap, "error", "ranges");

        // A federated Service that names nobody.
        home.apply(&federated(
            "shop",
            "web",
            Local::Member,
            &["west", "nowhere"],
        ))
        .await?;
        let unlinked = found("unlinked-cluster", "services", "nowhere").await?;
        says_what_to_do(&unlinked, "warning", "Link nowhere");

        let said = tributary.command(&["check"]).await?;
        assert_eq!(said.code, 1);
        assert!(
            said.out.lines().all(|line| line.chars().count() <= 120),
            "{}",
            said.out
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn rights_that_are_withdrawn_and_servers_that_go_away_are_found() {
    run(async {
        let Scene { home, west } = Scene::start().await?;
        let network = FaultProxy::start(west.address()).await?;
        let far = Link::to(&west, "far").await?.through(network.address());
        far.store(&home).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        wait_for("the far cluster to be read", || async {
            let said = tributary.command(&["clusters"]).await.ok()?;
            said.line("far").contains("synced").then_some(())
        })
        .await?;

        west.withdraw_pod_right().await?;
        // A watch that is open goes on; the next one is refused.
        west.restart_apiserver().await?;
        let denied = until_found(&tributary, "rights", "west", "pods").await?;
        says_what_to_do(&denied, "warning", "grant list and watch on pods");

        network.refuse().await;
        network.cut();
        let gone = until_found(&tributary, "connection", "far", "cannot be reached").await?;
        says_what_to_do(&gone, "error", "cluster-credentials-far");
        assert!(gone["sinceSeconds"].is_u64(), "{gone}");
        Ok(())
    });
}
