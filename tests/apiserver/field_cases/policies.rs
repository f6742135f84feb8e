//! Linkerd's `Server` resources: a bad one, and one of somebody else.

use anyhow::Result;
use linkerd2_proxy_api::destination::DestinationProfile;
use serde_json::{Value, json};

use super::scene::{Scene, quiet_cluster};
use crate::support::run;
use crate::support::services::{Backend, authority, workload};
use crate::support::tributary::Tributary;

/// A `Server` that makes a port of some Pods opaque.
fn opaque_server(namespace: &str, name: &str, selector: &Value, port: u16) -> String {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1beta3",
        "kind": "Server",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": selector, "port": port, "proxyProtocol": "opaque"},
    });
    format!("{object}\n---\n")
}

fn app(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

/// How many parts of objects have been left out for that reason.
async fn warnings(tributary: &Tributary, of: &str) -> Result<u64> {
    let metrics = tributary.metrics().await?;
    let series = format!("tributary_source_warnings_total{{warning=\"{of}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&series));
    Ok(count.map_or(Ok(0), str::parse)?)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_06_one_bad_server_concerns_nobody_else() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-rel-06";
        let mut objects = workload(namespace, "web", &[Backend::ready("web-0", "10.52.46.1")]);
        objects += &workload(
            "fc-rel-06-far",
            "api",
            &[Backend::ready("api-0", "10.52.46.2")],
        );
        let bad = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]});
        objects += &opaque_server(namespace, "bad", &bad, 8080);
        for index in 0..100 {
            let selector = app(&format!("app-{index}"));
            objects += &opaque_server(namespace, &format!("good-{index}"), &selector, 8080);
        }
        home.apply(&objects).await?;

        let tributary = Tributary::start(&home, &[]).await?;
        for (namespace, service, address) in [
            (namespace, "web", "10.52.46.1:8080"),
            ("fc-rel-06-far", "api", "10.52.46.2:8080"),
        ] {
            let stream = tributary.get(&authority(namespace, service));
            let state = stream.wait_for_exactly(&[address]).await;
            assert_eq!(state.at(address).protocol(), Some("h2"), "{service}");
            assert!(state.at(address).identity().is_some(), "{service}");
        }
        let line = tributary.log_line("object used in part").await?;
        assert!(line.contains("bad"), "{line}");
        assert!(line.contains("podSelector"), "{line}");
        assert_eq!(warnings(&tributary, "selector").await?, 1);

        // Good ones count beside it, also those that come later.
        let stream = tributary.get(&authority(namespace, "web"));
        let good = opaque_server(namespace, "good-101", &app("web"), 8080);
        home.apply(&good).await?;
        stream
            .wait_for("an opaque port", |state| {
                state.is_exactly(&["10.52.46.1:8080"])
                    && state.at("10.52.46.1:8080").protocol() == Some("opaque")
            })
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_sec_05_a_policy_of_one_namespace_leaves_others_alone() {
    run(async {
        let scene = Scene::open("fc-sec-05").await?;
        let namespace = scene.namespace;
        let address = "10.52.65.1:8080";
        let backends = [Backend::ready("web-0", "10.52.65.1")];
        scene.apply(&workload(namespace, "web", &backends)).await?;
        // The same Pods by name, label and address would be selected in the Server's own namespace.
        let evil = "fc-sec-05-evil";
        let theirs = [Backend::ready("web-0", "10.52.65.2")];
        scene.apply(&workload(evil, "web", &theirs)).await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&[address]).await;
        let profiles = scene.tributary.get_profile(address, "");
        profiles.wait_for("a profile", |_| true).await;
        let mark = stream.mark();

        for (name, selector) in [("all", json!({})), ("web", app("web"))] {
            let server = opaque_server(evil, name, &selector, 8080);
            scene.apply(&server).await?;
        }
        let authority = authority(evil, "web");
        let evil_stream = super::scene::once_known(|| scene.tributary.get(&authority)).await?;
        evil_stream
            .wait_for("their own Pod to be opaque", |state| {
                state.is_exactly(&["10.52.65.2:8080"])
                    && state.at("10.52.65.2:8080").protocol() == Some("opaque")
            })
            .await;
        // What was said in that namespace is known by now; here, nothing has come of it.
        assert_eq!(stream.messages_since(mark), []);
        assert_eq!(stream.now().at(address).protocol(), Some("h2"));
        assert_eq!(profiles.count(), 1);
        let is_opaque = |profile: &DestinationProfile| profile.opaque_protocol;
        assert!(!profiles.now().is_some_and(|profile| is_opaque(&profile)));

        // One of their own is heard.
        scene
            .apply(&opaque_server(namespace, "web", &app("web"), 8080))
            .await?;
        profiles.wait_for("an opaque profile", is_opaque).await;
        stream
            .wait_for("an opaque endpoint", |state| {
                state.at(address).protocol() == Some("opaque")
            })
            .await;
        Ok(())
    });
}
