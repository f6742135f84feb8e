//! Where a client is: traffic policy, zone hints, tokens.

use serde_json::json;

use super::scene::{Entry, Scene, quiet_cluster};
use crate::support::run;
use crate::support::services::{Backend, authority, pod, service, workload};
use crate::support::subscription::Message;
use crate::support::tributary::Tributary;

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_22_a_removal_does_not_lift_the_traffic_policy() {
    run(async {
        let scene = Scene::open("fc-mis-22").await?;
        let namespace = scene.namespace;
        let local =
            service(namespace, "web").replace("spec:\n", "spec:\n  internalTrafficPolicy: Local\n");
        scene.apply(&local).await?;
        for (name, node, ip) in [
            ("here", "n0", "10.51.22.1"),
            ("here-too", "n0", "10.51.22.2"),
            ("there", "n1", "10.51.22.3"),
            ("there-too", "n1", "10.51.22.4"),
        ] {
            let pod = pod(namespace, "web", name, ip).replace("n0", node);
            scene.apply(&pod).await?;
        }
        let entry = |pod: &str, ip: &str, node: &str| {
            Entry::pod(namespace, pod, ip).with("nodeName", json!(node))
        };
        let here = entry("here", "10.51.22.1", "n0");
        let here_too = entry("here-too", "10.51.22.2", "n0");
        let there = entry("there", "10.51.22.3", "n1");
        let there_too = entry("there-too", "10.51.22.4", "n1");
        let elsewhere = [here.clone(), there.clone(), there_too];
        scene.slice("web", "s1", &elsewhere).await?;

        let stream = scene.get_from_node("web", "n0").await?;
        stream.wait_for_exactly(&["10.51.22.1:8080"]).await;
        let mark = stream.mark();
        scene
            .slice("web", "s1", &[here.clone(), there.clone()])
            .await?;
        scene.slice("web", "s1", &[here, here_too, there]).await?;
        stream
            .wait_for_exactly(&["10.51.22.1:8080", "10.51.22.2:8080"])
            .await;
        let added = Message::Add(vec!["10.51.22.2:8080".parse()?]);
        assert_eq!(stream.messages_since(mark), [added]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_23_without_hints_every_zone_is_served_at_once() {
    run(async {
        let scene = Scene::open("fc-mis-23").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let near = Entry::at("10.51.23.1").zone("za");
        let far = Entry::at("10.51.23.2").zone("zb");
        let hinted = [near.clone().hint("za"), far.clone().hint("zb")];
        scene.slice("web", "s1", &hinted).await?;
        let stream = scene.get_from_node("web", "n0").await?;
        stream.wait_for_exactly(&["10.51.23.1:8080"]).await;
        let mark = stream.mark();

        scene.slice("web", "s1", &[near, far]).await?;
        stream
            .wait_for_exactly(&["10.51.23.1:8080", "10.51.23.2:8080"])
            .await;
        stream.assert_kept_since(mark, &["10.51.23.1:8080"]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_24_hints_count_only_if_every_endpoint_has_one() {
    run(async {
        let scene = Scene::open("fc-mis-24").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let ips: Vec<_> = (1..=10).map(|index| format!("10.51.24.{index}")).collect();
        let entries: Vec<_> = (0..10)
            .map(|index| {
                let entry = Entry::at(&ips[index]);
                match index {
                    0 => entry,
                    _ => entry.hint(["za", "zb"][index % 2]),
                }
            })
            .collect();
        scene.slice("web", "s1", &entries).await?;
        let all: Vec<_> = ips.iter().map(|ip| format!("{ip}:8080")).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        for node in ["n0", "n1", "unknown"] {
            let stream = scene.get_from_node("web", node).await?;
            stream.wait_for_exactly(&all).await;
        }

        // An endpoint that is not ready has no say.
        let mut entries = entries;
        entries[0] = entries[0].clone().ready(false);
        scene.slice("web", "s1", &entries).await?;
        let odd: Vec<_> = all[1..].iter().step_by(2).copied().collect();
        let stream = scene.get_from_node("web", "n1").await?;
        stream.wait_for_exactly(&odd).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_02_lookups_ask_the_api_server_for_nothing() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-prf-02";
        let backends = [Backend::ready("web-0", "10.51.32.1")];
        home.apply(&workload(namespace, "web", &backends)).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        tributary
            .get(&authority(namespace, "web"))
            .wait_for_exactly(&["10.51.32.1:8080"])
            .await;

        home.freeze()?;
        let connection = tributary.connect_lazy();
        let streams: Vec<_> = (0..2000)
            .map(|index| {
                let node = ["n0", "n1", "unknown"][index % 3];
                let token = format!(r#"{{"ns":"{namespace}","nodeName":"{node}"}}"#);
                let authority = authority(namespace, "web");
                tributary.get_on(connection.clone(), &authority, &token)
            })
            .collect();
        for (index, stream) in streams.iter().enumerate() {
            let state = stream.wait_for_exactly(&["10.51.32.1:8080"]).await;
            let locality = state.at("10.51.32.1:8080").label("zone_locality");
            assert_eq!(locality, Some(["local", "remote", "unknown"][index % 3]));
        }
        home.thaw()
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_04_any_token_is_answered() {
    run(async {
        let scene = Scene::open("fc-rel-04").await?;
        let backends = [Backend::ready("web-0", "10.51.44.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        scene
            .get("web")
            .await?
            .wait_for_exactly(&["10.51.44.1:8080"])
            .await;
        let long = "x".repeat(100_000);
        for (token, locality) in [
            ("", "unknown"),
            ("ns:foo", "unknown"),
            ("ns:foo:bar", "unknown"),
            (
                r#"{"nodeName":"n0","ns":"a","pod":"b","new":{"x":[1]}}"#,
                "local",
            ),
            (r#"{"nodeName":"n1"}"#, "remote"),
            (r#"{"nodeName":7,"ns":"a"}"#, "unknown"),
            (r#"{"nodeName":"n0""#, "unknown"),
            ("[]", "unknown"),
            ("\u{0}\u{1f4a5}", "unknown"),
            (&long, "unknown"),
        ] {
            let authority = authority(scene.namespace, "web");
            let stream = scene.tributary.get_with_token(&authority, token);
            let state = stream.wait_for_exactly(&["10.51.44.1:8080"]).await;
            let said = state.at("10.51.44.1:8080").label("zone_locality");
            let token = token.get(..40).unwrap_or(token);
            assert_eq!(said, Some(locality), "{token:?}");
        }
        Ok(())
    });
}
