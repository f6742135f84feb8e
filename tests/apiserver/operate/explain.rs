//! `tributary explain` and `tributary clusters`, asked about real clusters.

use anyhow::{Result, bail};
use serde_json::Value;

use crate::support::bed::Bed;
use crate::support::command::Said;
use crate::support::kubeconfig::Credentials;
use crate::support::services::{
    Backend, Condition, Local, authority, federated, service, slice, workload,
};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::victim::{STAYS, Victim};

/// A federated Service of which one endpoint is dropped for each of several reasons, and the server of its home cluster.
async fn scene(bed: &Bed, namespace: &str) -> Result<Tributary> {
    let home = [Backend::ready("web-0", "10.50.6.1")];
    bed.home.apply(&workload(namespace, "web", &home)).await?;
    let east = [
        Backend::ready("web-0", "10.60.6.1"),
        Backend::ready("web-1", "10.60.6.2").condition(Condition::Unready),
        Backend::ready("web-2", "10.60.6.3").condition(Condition::Terminating),
    ];
    bed.east.apply(&workload(namespace, "web", &east)).await?;
    // Its slice names a Pod that is not there.
    bed.north.apply(&service(namespace, "web")).await?;
    let ghost = [Backend::ready("ghost", "10.70.6.1")];
    bed.north.apply(&slice(namespace, "web", &ghost)).await?;
    // The Pod is there, in no slice.
    let stray = [Backend::ready("stray-0", "10.60.6.9")];
    bed.east
        .apply(&workload(namespace, "stray", &stray))
        .await?;
    let all = federated(
        namespace,
        "web",
        Local::Member,
        &["east", "north", "nowhere"],
    );
    bed.home.apply(&all).await?;
    let tributary = Tributary::start(&bed.home, &[]).await?;
    let stream = tributary.get(&authority(namespace, "web-federated"));
    stream
        .wait_for_exactly(&["10.50.6.1:8080", "10.60.6.1:8080"])
        .await;
    wait_for("both linked clusters to be read", || async {
        let clusters = tributary.command(&["clusters", "-o", "json"]).await.ok()?;
        let json = clusters.json().ok()?;
        let synced = |name: &str| {
            let mut all = json.as_array().into_iter().flatten();
            all.any(|cluster| cluster["name"] == name && cluster["state"] == "synced")
        };
        (synced("east") && synced("north")).then_some(())
    })
    .await?;
    Ok(tributary)
}

async fn explain(tributary: &Tributary, name: &str, ip: &str) -> Result<Said> {
    tributary.command(&["explain", name, "--ip", ip]).await
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_dropped_endpoint_is_explained_with_what_to_do() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "explained";
        let tributary = scene(bed, namespace).await?;
        let name = format!("web-federated.{namespace}");

        let dropped = explain(&tributary, &name, "10.60.6.2").await?;
        assert_eq!(dropped.code, 1, "{dropped:?}");
        assert!(
            dropped.out.starts_with("10.60.6.2 is NOT in the answer.\n"),
            "{dropped:?}"
        );
        dropped.line("member web@east");
        dropped.line("EndpointSlice explained/web-");
        let endpoint = dropped.line("10.60.6.2:8080  Pod explained/web-1");
        assert!(endpoint.ends_with("dropped: not ready"), "{endpoint}");
        assert!(dropped.line("─ ready").contains("broken"));
        assert!(
            dropped.line("What it means:").contains("readiness"),
            "{dropped:?}"
        );
        assert!(
            dropped
                .out
                .contains("kubectl -n explained describe pod web-1"),
            "{dropped:?}"
        );
        // Only the branch that leads to it.
        assert!(!dropped.out.contains("10.60.6.1"), "{dropped:?}");

        let kept = explain(&tributary, &name, "10.60.6.1").await?;
        assert_eq!(kept.code, 0, "{kept:?}");
        assert!(
            kept.out.starts_with("10.60.6.1 is in the answer.\n"),
            "{kept:?}"
        );
        assert!(
            kept.line("workload")
                .contains("passed: Pod explained/web-0 has the address")
        );

        let draining = explain(&tributary, &name, "10.60.6.3").await?;
        assert!(
            draining.line("10.60.6.3:8080").contains("draining"),
            "{draining:?}"
        );

        let ghost = explain(&tributary, &name, "10.70.6.1").await?;
        assert!(
            ghost
                .line("10.70.6.1:8080")
                .contains("the Pod it names does not exist")
        );

        let stray = explain(&tributary, &name, "10.60.6.9").await?;
        assert_eq!(stray.code, 1, "{stray:?}");
        stray.line("The address belongs to pod explained/stray-0 of cluster east.");
        assert!(stray.out.contains("--show-labels"), "{stray:?}");

        let nobody = explain(&tributary, &name, "10.99.9.9").await?;
        assert!(
            nobody.out.contains("no Pod or Service that we read has it"),
            "{nobody:?}"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn an_explanation_of_the_whole_agrees_with_the_answer() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "explained-whole";
        let tributary = scene(bed, namespace).await?;
        let name = "svc/web-federated";
        let whole = tributary
            .command(&["explain", name, "-n", namespace, "-o", "json"])
            .await?;
        assert_eq!(whole.code, 1, "a member is not linked: {whole:?}");
        let json = whole.json()?;
        assert_eq!(json["verdict"], "The answer has 2 of 5 endpoints.");
        let members = json["members"].as_array().into_iter().flatten();
        let kept: Vec<&str> = members
            .flat_map(|member| member["slices"].as_array().into_iter().flatten())
            .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
            .filter(|explained| explained["endpoint"]["served"] == true)
            .filter_map(|explained| explained["endpoint"]["address"].as_str())
            .collect();
        assert_eq!(kept, ["10.50.6.1:8080", "10.60.6.1:8080"]);
        let actions = json["advice"].as_array().into_iter().flatten();
        assert!(
            actions.clone().all(|advice| advice["action"] != ""),
            "{json}"
        );
        assert!(
            actions
                .clone()
                .any(|advice| text(&advice["meaning"]).contains("nowhere")),
            "{json}"
        );

        let missing = tributary
            .command(&["explain", "nothing.explained-whole"])
            .await?;
        assert_eq!(missing.code, 1, "{missing:?}");
        assert_eq!((missing.out.as_str(), missing.err.lines().count()), ("", 1));
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_stale_cluster_is_told_apart_and_nothing_secret_is_told() {
    run(async {
        let victim = Victim::shared("told").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        let fine = tributary.command(&["clusters", "-o", "json"]).await?;
        let cluster = named(&fine.json()?, "told");
        assert_eq!(cluster["state"], "synced", "{cluster}");
        assert_eq!(
            cluster["link"]["secret"],
            "linkerd/cluster-credentials-told"
        );
        assert_eq!(cluster["link"]["credentials"], "token");
        // A token that the API server made says when it ends, and all clocks here are one.
        assert!(cluster["link"]["expires"].is_i64(), "{cluster}");
        assert!(
            cluster["clockAheadSeconds"]
                .as_i64()
                .is_some_and(|ahead| ahead.abs() < 60)
        );
        let east = named(&fine.json()?, "east");
        assert_eq!(
            cluster["uid"], east["uid"],
            "it is one cluster by two names"
        );
        assert_ne!(cluster["link"]["fingerprint"], east["link"]["fingerprint"]);

        victim.network.refuse().await;
        victim.network.cut();
        let stale = wait_for("the cluster to be stale", || async {
            let said = tributary.command(&["clusters"]).await.ok()?;
            said.line("told").contains("stale").then_some(said)
        })
        .await?;
        assert_eq!(stale.code, 1, "{stale:?}");
        let (address, _) = STAYS.split_once(':').unwrap_or_default();
        let name = format!("web-federated.{}", victim.name);
        let kept = explain(&tributary, &name, address).await?;
        assert!(
            kept.line("member web@told").contains("stale for"),
            "{kept:?}"
        );

        let Credentials::Token(token) = &victim.link.access.credentials else {
            bail!("links of tests have tokens");
        };
        for arguments in [
            &["clusters", "-o", "json"][..],
            &["clusters", "-o", "wide"],
            &["explain", &name, "-o", "json"],
            &["endpoints", &name, "-o", "json"],
        ] {
            let said = tributary.command(arguments).await?;
            assert!(!said.out.contains(token.as_str()), "{arguments:?}");
        }
        drop(streams);
        victim.leave().await
    });
}

fn named(clusters: &Value, name: &str) -> Value {
    let mut all = clusters.as_array().into_iter().flatten();
    all.find(|cluster| cluster["name"] == name)
        .cloned()
        .unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
