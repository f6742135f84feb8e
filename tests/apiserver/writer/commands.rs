//! `tributary writer plan` and `tributary writer cleanup`.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result};

use super::{HOME, WRITE_RIGHTS, copies, turn, wait_for_copies, writer};
use crate::support::run;
use crate::support::services::{Backend, flat_mirror, slice, workload};

pub(super) async fn command(kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tributary"));
    command
        .arg("writer")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await?;
    output.context("running tributary")
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn plan_shows_a_difference_and_writes_nothing_and_cleanup_removes_only_ours() {
    run(async {
        let turn = turn().await?;
        let bed = turn.bed;
        let namespace = "writer-commands";
        bed.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.62.1")],
            ))
            .await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        bed.home.apply(WRITE_RIGHTS).await?;
        let access = bed.home.home_access().await?;
        let kubeconfig = bed
            .home
            .write_file("commands.kubeconfig", &access.to_yaml())?;
        let name = format!("--cluster-name={HOME}");
        let only = format!("--endpoint-slices-namespaces={namespace}");
        let plan = ["plan", name.as_str(), only.as_str()];

        let planned = command(&kubeconfig, &plan).await?;
        let text = String::from_utf8(planned.stdout)?;
        assert_eq!(planned.status.code(), Some(1), "{text}");
        assert!(
            text.contains(&format!(
                "{namespace}/web-east\n  + {namespace}/web-east-east-"
            )),
            "{text}"
        );
        assert!(
            text.contains("      + 10.60.62.1 ready zone za\n"),
            "{text}"
        );
        assert!(copies(&bed.home, namespace).await?.is_empty());

        let tributary = writer(&bed.home, namespace, &[]).await?;
        let line = "web-east from east: http=8080 | 10.60.62.1 ready serving zone:za";
        wait_for_copies(&tributary, &bed.home, namespace, line).await?;
        tributary.terminate().await?;
        let planned = command(&kubeconfig, &plan).await?;
        let text = String::from_utf8(planned.stdout)?;
        assert_eq!(planned.status.code(), Some(0), "{text}");
        bed.east
            .apply(&slice(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.62.2")],
            ))
            .await?;
        let text = String::from_utf8(command(&kubeconfig, &plan).await?.stdout)?;
        assert!(
            text.contains("      - 10.60.62.1 ready zone za\n      + 10.60.62.2 ready zone za\n"),
            "{text}"
        );

        // In full: where everything comes from, and what is not written.
        let service = format!("--service={namespace}/web-east");
        let account = command(&kubeconfig, &["plan", &name, &service]).await?;
        let text = String::from_utf8(account.stdout)?;
        for line in [
            format!("  member {namespace}/web of cluster east: read\n"),
            format!("    {namespace}/web-s1 is copied to web-east-east-"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        let ranges = "--endpoint-slices-pod-cidrs=east=10.9.0.0/16";
        let account = command(&kubeconfig, &["plan", &name, &service, ranges]).await?;
        let text = String::from_utf8(account.stdout)?;
        let line = format!(
            "    {namespace}/web-s1: 10.60.62.2 is not written: the address is outside of the ranges allowed for the cluster\n"
        );
        assert!(text.contains(&line), "{text}");

        let stranger = slice(namespace, "plain", &[Backend::ready("x", "10.50.62.1")]);
        bed.home.apply(&stranger).await?;
        // Nobody answers the question: nothing is deleted.
        let asked = command(&kubeconfig, &["cleanup"]).await?;
        assert_eq!(asked.status.code(), Some(1));
        assert_eq!(copies(&bed.home, namespace).await?.len(), 1);
        let cleaned = command(&kubeconfig, &["cleanup", "--yes"]).await?;
        let text = String::from_utf8(cleaned.stdout)?;
        assert_eq!(cleaned.status.code(), Some(0), "{text}");
        assert!(copies(&bed.home, namespace).await?.is_empty());
        let api: kube::Api<k8s_openapi::api::discovery::v1::EndpointSlice> =
            kube::Api::namespaced(bed.home.client(), namespace);
        assert!(api.get_opt("plain-s1").await?.is_some());
        Ok(())
    });
}
