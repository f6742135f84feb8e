//! One odd object, or one odd question, must not hurt anybody else.

use serde_json::{Value, json};
use tonic::Code;

use super::scene::{Entry, Scene, once_known, slice_of};
use crate::support::services::{Backend, authority, service, workload};
use crate::support::subscription::{Folded, Outcome};
use crate::support::{run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_03_an_instance_that_nobody_has_is_a_definite_no() {
    run(async {
        let scene = Scene::open("fc-rel-03").await?;
        let namespace = scene.namespace;
        let backends = [Backend::ready("web-0", "10.51.43.1")];
        let headless = workload(namespace, "web", &backends)
            .replace("spec:\n  selector", "spec:\n  clusterIP: None\n  selector");
        scene.apply(&headless).await?;
        let authority = format!("web-0.web.{namespace}.svc.cluster.local:80");
        let stream = once_known(|| scene.tributary.get(&authority)).await?;
        let state = stream.wait_for("a definite no", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));

        // The moment an endpoint has the name, it is the answer.
        let named = Entry::pod(namespace, "web-0", "10.51.43.1").with("hostname", json!("web-0"));
        let entries = [named, Entry::at("10.51.43.2")];
        scene.slice("web", "web-s1", &entries).await?;
        stream.wait_for_exactly(&["10.51.43.1:8080"]).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_09_a_slice_may_leave_out_everything_that_is_optional() {
    run(async {
        let scene = Scene::open("fc-rel-09").await?;
        let namespace = scene.namespace;
        let headless = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        });
        scene.apply(&headless.to_string()).await?;
        let stream = scene.get("web").await?;
        stream.wait_for("an empty answer", Folded::is_empty).await;

        let optional: [(&str, Value); 6] = [
            ("nodeName", json!("gone")),
            ("zone", json!("za")),
            ("hostname", json!("one")),
            ("conditions", json!({})),
            ("hints", json!({"forZones": []})),
            ("targetRef", json!({"kind": "Thing"})),
        ];
        let bare = slice_of(
            namespace,
            "web",
            "bare",
            &json!([{"port": 8080}]),
            &[Entry::at("10.51.49.1")],
        );
        let portless = slice_of(
            namespace,
            "web",
            "portless",
            &json!([]),
            &[Entry::at("10.51.49.8")],
        );
        let numberless = slice_of(
            namespace,
            "web",
            "numberless",
            &json!([{}]),
            &[Entry::at("10.51.49.9")],
        );
        for round in 0..optional.len() {
            // One slice with one field more each round, another with one less; in between they come and go.
            let with = |fields: &[(&str, Value)], ip: &str| {
                fields.iter().fold(Entry::at(ip), |entry, (field, value)| {
                    entry.with(field, value.clone())
                })
            };
            let more = [with(&optional[..round], "10.51.49.2")];
            let fewer = [with(&optional[round..], "10.51.49.3")];
            let ports = json!([{"port": 8080}]);
            let more = slice_of(namespace, "web", "more", &ports, &more);
            let fewer = slice_of(namespace, "web", "fewer", &ports, &fewer);
            scene
                .apply(&format!("{portless}{more}{numberless}{bare}{fewer}"))
                .await?;
            // Only a target of a kind that nobody knows keeps an endpoint out.
            stream
                .wait_for_exactly(&["10.51.49.1:8080", "10.51.49.2:8080"])
                .await;
            scene
                .bed
                .home
                .delete(&format!("{bare}{numberless}"))
                .await?;
            stream.wait_for_exactly(&["10.51.49.2:8080"]).await;
            scene
                .bed
                .home
                .delete(&format!("{more}{portless}{fewer}"))
                .await?;
            stream.wait_for("an empty answer", Folded::is_empty).await;
        }
        scene.tributary.ensure_running()
    });
}

/// Names nobody has, and texts that are no names.
fn odd_authorities(namespace: &str) -> Vec<(String, Code)> {
    let suffix = format!("{namespace}.svc.cluster.local");
    vec![
        (String::new(), Code::InvalidArgument),
        (format!(".{suffix}:80"), Code::NotFound),
        (format!("WEB.{suffix}:80"), Code::NotFound),
        (format!("wéb\u{202e}.{suffix}:80"), Code::NotFound),
        (format!("we\\u0062.{suffix}:80"), Code::NotFound),
        (format!("we\"b\n.{suffix}:80"), Code::NotFound),
        (format!("{}.{suffix}:80", "a".repeat(3000)), Code::NotFound),
        (format!("{}.{suffix}:80", "é".repeat(1500)), Code::NotFound),
        (format!("web.{suffix}:99999"), Code::InvalidArgument),
        (format!("web.{suffix}:http"), Code::InvalidArgument),
        (format!("web.{suffix}.:80"), Code::InvalidArgument),
        ("é".repeat(2000), Code::InvalidArgument),
        ("\u{0}".repeat(4000), Code::InvalidArgument),
        ("x".repeat(1_000_000), Code::InvalidArgument),
        ("10.51.50.1:80".to_owned(), Code::InvalidArgument),
    ]
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_10_odd_names_stop_nobody() {
    run(async {
        let scene = Scene::open("fc-rel-10").await?;
        let backends = [Backend::ready("web-0", "10.51.50.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&["10.51.50.1:8080"]).await;
        for (authority, wanted) in odd_authorities(scene.namespace) {
            let refused = scene.tributary.get(&authority);
            let Outcome::Failed(code, message) = refused.wait_for_end().await else {
                panic!("an error was due\n{}", refused.report());
            };
            let shown = authority.chars().take(60).collect::<String>();
            assert_eq!(code, wanted, "{shown:?}: {message}");
        }
        // Metrics and discovery go on.
        let metrics = scene.tributary.metrics().await?;
        assert!(metrics.contains("\ntributary_services "), "{metrics}");
        scene
            .slice("web", "more", &[Entry::at("10.51.50.2")])
            .await?;
        stream
            .wait_for_exactly(&["10.51.50.1:8080", "10.51.50.2:8080"])
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_sec_07_error_texts_are_short_and_quote_no_object() {
    run(async {
        let scene = Scene::open("fc-sec-07").await?;
        let secretive = service(scene.namespace, "web").replace(
            "metadata: {",
            "metadata: {annotations: {note: do-not-tell}, labels: {multicluster.linkerd.io/remote-discovery: nowhere, \
             multicluster.linkerd.io/remote-service: web}, ",
        );
        scene.apply(&secretive).await?;
        let mut authorities: Vec<_> = odd_authorities(scene.namespace)
            .into_iter()
            .map(|(authority, _)| authority)
            .collect();
        let not_linked = authority(scene.namespace, "web");
        // Both are NotFound, but only one is a Service that is too new to be known.
        wait_for("the Service to be known", || async {
            let stream = scene.tributary.get(&not_linked);
            let Outcome::Failed(_, message) = stream.wait_for_end().await else {
                return None;
            };
            message.contains("not linked").then_some(())
        })
        .await?;
        authorities.push(not_linked);
        for authority in authorities {
            let stream = scene.tributary.get(&authority);
            let Outcome::Failed(_, message) = stream.wait_for_end().await else {
                panic!("an error was due\n{}", stream.report());
            };
            assert!(message.len() < 2000, "{} bytes: {message}", message.len());
            assert!(!message.contains("do-not-tell"), "{message}");
        }
        Ok(())
    });
}
