//! Endpoints that are withheld since their cluster is away for too long or is being drained, and the history of it all.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::services::{Local, authority, federated};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::victim::{GOES, HOME, STAYS, Victim};

/// A cluster as `tributary clusters` has it, once it is as wanted.
async fn until_cluster(
    tributary: &Tributary,
    name: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    wait_for(&format!("cluster {name} to be as wanted"), || async {
        let said = tributary.command(&["clusters", "-o", "json"]).await.ok()?;
        let json = said.json().ok()?;
        let mut all = json.as_array()?.iter();
        all.find(|cluster| cluster["name"] == name && wanted(cluster))
            .cloned()
    })
    .await
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_that_is_away_for_too_long_is_withheld_where_others_are_left() {
    run(async {
        let victim = Victim::shared("outdated").await?;
        let tributary = Tributary::start(victim.home, &["--remote-staleness-ttl=1s"]).await?;
        let federated = victim.subscribe(&tributary);
        let flat = victim.flat_when_known(&tributary).await?;
        federated.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        flat.wait_for_exactly(&[STAYS, GOES]).await;
        let mark = flat.mark();

        victim.network.refuse().await;
        victim.network.cut();
        federated.wait_for_exactly(&[HOME]).await;
        let cluster = until_cluster(&tributary, "outdated", |cluster| {
            cluster["withheldPerMille"] == 1000
        })
        .await?;
        assert_eq!(cluster["state"], "stale", "{cluster}");
        // Nothing else would be left for the mirror.
        assert!(flat.messages_since(mark).is_empty(), "{}", flat.report());
        let again = victim.subscribe_flat(&tributary);
        again.wait_for_exactly(&[STAYS, GOES]).await;

        let name = authority(victim.name, "web-federated");
        let (ip, _) = STAYS.split_once(':').context("an address and a port")?;
        let said = tributary.command(&["explain", &name, "--ip", ip]).await?;
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.line(STAYS).contains("withheld: contact"), "{said:?}");
        assert!(said.line("─ fresh").contains("broken"), "{said:?}");
        assert!(
            said.line("ago").contains("is out of contact for too long"),
            "{said:?}"
        );
        let shown = tributary.command(&["endpoints", &name]).await?;
        assert!(
            shown.line("web-federated").contains("withheld"),
            "{shown:?}"
        );

        victim.network.heal().await;
        federated.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        until_cluster(&tributary, "outdated", |cluster| {
            cluster["withheldPerMille"] == 0
        })
        .await?;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_is_drained_by_an_annotation_of_its_secret() {
    run(async {
        let victim = Victim::shared("drained").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;

        let mut secret = victim.link.to_json();
        secret["metadata"]["annotations"]["tributary.dev/drain"] = json!("3s");
        victim.home.apply(&secret.to_string()).await?;
        // It goes bit by bit: there is a moment at which a part is withheld.
        until_cluster(&tributary, "drained", |cluster| {
            let part = cluster["withheldPerMille"].as_u64();
            part.is_some_and(|part| part > 0 && part < 1000)
        })
        .await?;
        stream.wait_for_exactly(&[HOME]).await;
        let cluster = until_cluster(&tributary, "drained", |cluster| {
            cluster["withheldPerMille"] == 1000
        })
        .await?;
        assert_eq!(cluster["state"], "synced", "{cluster}");
        let why = cluster["withheldWhy"].as_str().unwrap_or_default();
        assert!(why.contains("tributary.dev/drain"), "{cluster}");

        // Another replica, or this one started anew, does not bring it back.
        let other = Tributary::start(victim.home, &[]).await?;
        until_cluster(&other, "drained", |cluster| {
            cluster["withheldPerMille"] == 1000 && cluster["state"] == "synced"
        })
        .await?;
        victim.subscribe(&other).wait_for_exactly(&[HOME]).await;

        victim.link.store(victim.home).await?;
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn what_changed_is_told_with_its_cause_and_what_was_sent() {
    run(async {
        let victim = Victim::shared("remembered").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let only_home = federated(victim.name, "web", Local::Member, &[]);
        victim.home.apply(&only_home).await?;
        stream.wait_for_exactly(&[HOME]).await;

        let name = authority(victim.name, "web-federated");
        let said = tributary.command(&["explain", &name, "-o", "json"]).await?;
        let last = said.json()?["changes"][0].clone();
        let causes = last["causes"].to_string();
        assert!(
            causes.contains("web@remembered is no member any more"),
            "{last}"
        );
        assert_eq!(last["removed"], json!([STAYS, GOES]), "{last}");
        assert_eq!(
            (&last["addedCount"], &last["left"]),
            (&json!(0), &json!(1)),
            "{last}"
        );
        assert!(last["ageSeconds"].is_u64(), "{last}");
        victim.leave().await
    });
}
