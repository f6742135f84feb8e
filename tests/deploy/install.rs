//! The commands of `docs/install.md`, one after another, on API servers with Kubernetes' own controllers.

use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use tokio::task::JoinSet;

use crate::in_place::STOCK;
use crate::support::cluster::Cluster;
use crate::support::peers::Peer;
use crate::support::services::{Backend, authority, flat_mirror, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, scratch_folder};
use crate::tools::{read, root};

const PAGE: &str = "docs/install.md";

/// What stands in front of a block that cannot be run here, and says why.
const NOT_RUN: &str = "<!-- not run: ";

/// The blocks of commands of a page that are to be run, in order.
fn blocks(page: &str) -> Result<Vec<String>> {
    let (mut blocks, mut skipped, mut lines) = (Vec::new(), false, page.lines());
    while let Some(line) = lines.next() {
        if let Some(reason) = line.strip_prefix(NOT_RUN) {
            ensure!(reason.len() > 20, "{line}: no reason");
            skipped = true;
        } else if line == "```sh" {
            let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            if !std::mem::take(&mut skipped) {
                blocks.push(block.join("\n"));
            }
        } else {
            ensure!(
                !skipped || line.is_empty(),
                "{line}: not a block of commands"
            );
        }
    }
    Ok(blocks)
}

/// Says of every Pod that it is ready, as the kubelets would that are not here.
async fn make_pods_ready(client: kube::Client) {
    let pods: Api<Pod> = Api::namespaced(client, "linkerd");
    let ready = json!({"status": {
        "phase": "Running",
        "podIP": "10.50.95.1",
        "podIPs": [{"ip": "10.50.95.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let changes = watcher(pods.clone(), watcher::Config::default());
    let mut changes = pin!(changes.default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        // Watched again by itself.
        let Ok(pod) = change else { continue };
        let name = pod.metadata.name.unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            let now = DeleteParams::default().grace_period(0);
            pods.delete(&name, &now).await.ok();
        } else if pod.status.is_none_or(|status| status.pod_ip.is_none()) {
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready))
                .await
                .ok();
        }
    }
}

/// A kubeconfig with a context for each cluster; the first is the one that is meant where none is named.
fn kubeconfig(clusters: &[(&str, &Arc<Cluster>)]) -> Result<String> {
    let (mut all_clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for (name, cluster) in clusters {
        let one: serde_json::Value = serde_saphyr::from_str(&cluster.kubeconfig_text())?;
        all_clusters.push(json!({"name": name, "cluster": one["clusters"][0]["cluster"]}));
        users.push(json!({"name": name, "user": one["users"][0]["user"]}));
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
    }
    let current = clusters.first().context("a cluster")?.0;
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": current,
        "clusters": all_clusters, "users": users, "contexts": contexts,
    })
    .to_string())
}

/// Everything that a shell needs to run the commands.
struct Shell {
    folder: tempfile::TempDir,
}

// === impl Shell ===

impl Shell {
    fn new(kubeconfig: &str) -> Result<Self> {
        let folder = scratch_folder("shell")?;
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig)?;
        for (name, peer) in [("helm", Peer::Helm), ("kubectl", Peer::Kubectl)] {
            std::os::unix::fs::symlink(peer.program()?, folder.path().join(name))?;
        }
        // Files that the commands write go into this folder, and the charts are where they are in a checkout.
        std::os::unix::fs::symlink(root().join("deploy"), folder.path().join("deploy"))?;
        Ok(Self { folder })
    }

    /// Runs a block to its end, apart from the threads that everything else needs.
    async fn run(&self, block: &str) -> Result<String> {
        let folder = self.folder.path().to_owned();
        let path = std::env::join_paths(
            std::iter::once(folder.clone())
                .chain(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into)),
        )?;
        let script = format!("set -euo pipefail\n{block}");
        let output = tokio::task::spawn_blocking(move || {
            Command::new("bash")
                .args(["-c", &script])
                .current_dir(&folder)
                .env("PATH", path)
                .env("KUBECONFIG", folder.join("kubeconfig"))
                .env("HELM_CACHE_HOME", &folder)
                .env("HELM_CONFIG_HOME", &folder)
                .env("HELM_DATA_HOME", &folder)
                .env("KUBECACHEDIR", &folder)
                .stdin(Stdio::null())
                .output()
        })
        .await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{block}\n{said}{complaint}");
        Ok(said)
    }
}

/// Starts the binary as the Deployment does: by its arguments, and with the token of its account.
async fn as_installed(home: &Cluster) -> Result<Tributary> {
    let deployment = home
        .api("Deployment", "linkerd")
        .await?
        .get("tributary")
        .await?;
    let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<String> = serde_json::from_value(container["args"].clone())?;
    let access = home.account_access("linkerd", "tributary").await?;
    let kubeconfig = home.write_file("installed.kubeconfig", &access.to_yaml())?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (command, arguments) = arguments.split_first().context("arguments")?;
    let tributary = Tributary::launch_as(command, &kubeconfig, arguments)?;
    tributary.until_ready().await?;
    Ok(tributary)
}

#[test]
#[ignore = "needs helm, kubectl and API servers: scripts/test deploy"]
fn the_page_can_be_followed() {
    run(async {
        let [home, west] = Cluster::start_all(["install-home", "install-west"]).await?;
        for cluster in [&home, &west] {
            cluster.define_linkerd_kinds().await?;
        }
        home.apply(crate::chart::MONITOR_KINDS).await?;
        home.start_controller_manager()?;
        let mut kubelets = JoinSet::new();
        kubelets.spawn(make_pods_ready(home.client()));
        home.apply(STOCK).await?;
        west.apply(&workload(
            "shop",
            "web",
            &[Backend::ready("web-0", "10.60.95.1")],
        ))
        .await?;
        home.apply(&flat_mirror("shop", "web", "west")).await?;
        let shell = Shell::new(&kubeconfig(&[("home", &home), ("west", &west)])?)?;
        shell
            .run("kubectl -n linkerd rollout status deployment/linkerd-destination")
            .await?;

        let blocks = blocks(&read(PAGE)?)?;
        assert!(blocks.len() > 15, "{} blocks", blocks.len());
        let (mut followed, mut linked) = (None, false);
        for block in &blocks {
            shell.run(block).await?;
            if block.contains("--set-json \"args=$args\"") {
                // What runs from here on was started by the controller's own arguments.
                followed = Some(as_installed(&home).await?);
            }
            if block.contains("create secret generic cluster-credentials-west") {
                let tributary = followed.take().context("it was installed before")?;
                let stream = tributary.get(&authority("shop", "web-west"));
                let state = stream.wait_for_exactly(&["10.60.95.1:8080"]).await;
                assert!(state.at("10.60.95.1:8080").identity().is_some());
                let refusals = tributary.metrics().await?;
                let is_refusal = |line: &&str| line.contains("reason=\"forbidden\"");
                assert_eq!(refusals.lines().find(is_refusal), None);
                linked = true;
            }
        }
        assert!(linked, "the page links a cluster");

        // Nothing is left but what was there.
        let left = shell
            .run("kubectl get deployments,services,serviceaccounts,secrets,clusterroles,roles -A -o name | grep -i tributary || true")
            .await?;
        assert_eq!(left, "");
        let image = shell
            .run("kubectl -n linkerd get deployment linkerd-destination -o jsonpath='{.spec.template.spec.containers[1].image}'")
            .await?;
        assert!(STOCK.contains(&format!("image: {image}\n")), "{image}");
        Ok(())
    });
}

#[test]
#[ignore = "needs kubectl: scripts/test deploy"]
fn the_post_renderer_patches_what_it_is_given() {
    run(async {
        let shell = Shell::new("{}")?;
        std::fs::write(shell.folder.path().join("linkerd"), STOCK)?;
        let rendered = shell.run("deploy/in-place/post-render < linkerd").await?;
        let deployment = crate::support::objects::parse(&rendered)?
            .into_iter()
            .next();
        let deployment = deployment.context("a Deployment")?;
        assert_eq!(
            deployment.data["spec"]["template"],
            crate::in_place::expected()?
        );
        Ok(())
    });
}
