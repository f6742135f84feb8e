//! Ports: named ones, opaque ones, those of the proxy itself, and Services that have none.

use anyhow::Result;
use serde_json::{Value, json};
use tonic::Code;

use super::scene::{Entry, Scene, once_known, slice_of};
use crate::support::run;
use crate::support::services::{Backend, authority, pod, service, workload};
use crate::support::subscription::{Folded, Outcome, Subscription};
use crate::support::tributary::Tributary;

fn service_with_ports(namespace: &str, name: &str, ports: &Value) -> String {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": ports},
    });
    format!("{service}\n---\n")
}

/// A stream for a port of Service `web`, once the product knows the Service.
async fn get_port(tributary: &Tributary, namespace: &str, port: u16) -> Result<Subscription> {
    let authority = format!("web.{namespace}.svc.cluster.local:{port}");
    once_known(|| tributary.get(&authority)).await
}

/// A meshed Pod whose annotation names opaque ports.
fn opaque_pod(namespace: &str, name: &str, ip: &str, ports: &str) -> String {
    let annotated =
        format!("  annotations: {{config.linkerd.io/opaque-ports: '{ports}'}}\n  labels:");
    pod(namespace, "web", name, ip).replace("  labels:", &annotated)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_14_a_slice_without_the_port_gives_no_endpoint_and_never_port_0() {
    run(async {
        let scene = Scene::open("fc-mis-14").await?;
        let namespace = scene.namespace;
        let ports = json!([
            {"name": "http", "port": 80, "targetPort": "http"},
            {"name": "metrics", "port": 90, "targetPort": "metrics"},
        ]);
        scene
            .apply(&service_with_ports(namespace, "web", &ports))
            .await?;
        for (name, port, ip) in [
            ("s1", json!({"name": "http", "port": 8080}), "10.51.14.1"),
            ("s2", json!({"name": "metrics", "port": 9090}), "10.51.14.2"),
            ("s3", json!({"name": "http"}), "10.51.14.3"),
        ] {
            let entries = [Entry::at(ip)];
            let slice = slice_of(namespace, "web", name, &json!([port]), &entries);
            scene.apply(&slice).await?;
        }
        let http = get_port(scene.tributary, namespace, 80).await?;
        http.wait_for_exactly(&["10.51.14.1:8080"]).await;
        let metrics = get_port(scene.tributary, namespace, 90).await?;
        metrics.wait_for_exactly(&["10.51.14.2:9090"]).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_16_the_proxy_may_be_a_native_sidecar() {
    run(async {
        let scene = Scene::open("fc-mis-16").await?;
        let namespace = scene.namespace;
        let backends = [Backend::ready("web-0", "10.51.16.1")];
        let regular = opaque_pod(namespace, "web-0", "10.51.16.1", "8080");
        let proxy = regular
            .find("  - name: linkerd-proxy")
            .zip(regular.find("status:"));
        let (begin, end) = proxy.expect("the Pod has a proxy");
        let container =
            regular[begin..end].replace("image: proxy", "image: proxy\n    restartPolicy: Always");
        let sidecar = format!(
            "{}  initContainers:\n{container}{}",
            &regular[..begin],
            &regular[end..]
        )
        .replace("0.0.0.0:4143", "[::]:4999");
        scene.apply(&workload(namespace, "web", &backends)).await?;
        scene.apply(&sidecar).await?;

        let stream = scene.get("web").await?;
        let state = stream
            .wait_for("an opaque endpoint", |state| {
                state.is_exactly(&["10.51.16.1:8080"])
                    && state.at("10.51.16.1:8080").protocol() == Some("opaque")
            })
            .await;
        assert_eq!(state.at("10.51.16.1:8080").inbound_port(), Some(4999));
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_18_the_ports_of_the_proxy_itself_are_not_wrapped() {
    run(async {
        let scene = Scene::open("fc-mis-18").await?;
        let namespace = scene.namespace;
        let ports = json!([
            {"name": "http", "port": 8080},
            {"name": "admin", "port": 4191},
            {"name": "control", "port": 4190},
        ]);
        scene
            .apply(&service_with_ports(namespace, "web", &ports))
            .await?;
        scene
            .apply(&pod(namespace, "web", "web-0", "10.51.18.1"))
            .await?;
        let entries = [Entry::pod(namespace, "web-0", "10.51.18.1")];
        let slice = slice_of(namespace, "web", "s1", &ports, &entries);
        scene.apply(&slice).await?;

        let wrapping = ["--outbound-transport-mode", "transport-header"];
        let tributary = Tributary::start(&scene.bed.home, &wrapping).await?;
        for (port, inbound) in [(8080, Some(4143)), (4191, None), (4190, None)] {
            let stream = get_port(&tributary, namespace, port).await?;
            let address = format!("10.51.18.1:{port}");
            let state = stream.wait_for_exactly(&[&address]).await;
            let endpoint = state.at(&address);
            assert_eq!(endpoint.inbound_port(), inbound, "port {port}");
            assert!(endpoint.identity().is_some(), "port {port}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_20_an_opaque_port_is_opaque_and_never_h2() {
    run(async {
        let scene = Scene::open("fc-mis-20").await?;
        let namespace = scene.namespace;
        let backends = [
            Backend::ready("web-0", "10.51.20.1"),
            Backend::ready("web-1", "10.51.20.2"),
        ];
        let mut objects = workload(namespace, "web", &backends);
        objects += &opaque_pod(namespace, "web-0", "10.51.20.1", "http");
        scene.apply(&objects).await?;
        let stream = scene.get("web").await?;
        let state = stream
            .wait_for("an opaque endpoint and another", |state| {
                state.is_exactly(&["10.51.20.1:8080", "10.51.20.2:8080"])
                    && state.at("10.51.20.1:8080").protocol() == Some("opaque")
            })
            .await;
        assert_eq!(state.at("10.51.20.1:8080").inbound_port(), Some(4143));
        assert_eq!(state.at("10.51.20.2:8080").protocol(), Some("h2"));
        assert_eq!(state.at("10.51.20.2:8080").inbound_port(), None);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_21_an_external_name_is_refused_at_once() {
    run(async {
        let scene = Scene::open("fc-mis-21").await?;
        let namespace = scene.namespace;
        let external = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: {namespace}}}, \
             spec: {{type: ExternalName, externalName: example.com}}}}"
        );
        scene.apply(&external).await?;
        // With slices or without, by name or by instance.
        scene.slice("web", "s1", &[Entry::at("10.51.21.1")]).await?;
        for authority in [
            authority(namespace, "web"),
            format!("web-0.web.{namespace}.svc.cluster.local:443"),
        ] {
            let stream = once_known(|| scene.tributary.get(&authority)).await?;
            let Outcome::Failed(code, message) = stream.wait_for_end().await else {
                panic!("an error was due\n{}", stream.report());
            };
            assert_eq!(code, Code::InvalidArgument, "{message}");
            assert!(message.contains("ExternalName"), "{message}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_05_a_slice_without_the_port_before_a_good_one() {
    run(async {
        let scene = Scene::open("fc-rel-05").await?;
        let namespace = scene.namespace;
        scene.apply(&service(namespace, "web")).await?;
        let other = json!([{"name": "other", "port": 9}]);
        let entries = [Entry::at("10.51.45.1")];
        let bad = slice_of(namespace, "web", "s1", &other, &entries);
        scene.apply(&bad).await?;
        let stream = scene.get("web").await?;
        stream.wait_for("an empty answer", Folded::is_empty).await;
        scene.slice("web", "s2", &[Entry::at("10.51.45.2")]).await?;
        stream.wait_for_exactly(&["10.51.45.2:8080"]).await;
        // The bad one may become good, and bad again.
        scene.slice("web", "s1", &entries).await?;
        stream
            .wait_for_exactly(&["10.51.45.1:8080", "10.51.45.2:8080"])
            .await;
        scene.apply(&bad).await?;
        stream.wait_for_exactly(&["10.51.45.2:8080"]).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_01_a_wide_opaque_range_is_one_range() {
    run(async {
        let scene = Scene::open("fc-prf-01").await?;
        let namespace = scene.namespace;
        let backends = [Backend::ready("web-0", "10.51.30.1")];
        scene.apply(&workload(namespace, "web", &backends)).await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&["10.51.30.1:8080"]).await;
        for (ports, protocol) in [
            ("1024-65535", "opaque"),
            ("1-8079,8081-65535", "h2"),
            ("0-65535", "opaque"),
        ] {
            scene
                .apply(&opaque_pod(namespace, "web-0", "10.51.30.1", ports))
                .await?;
            stream
                .wait_for(&format!("port 8080 to be {protocol}"), |state| {
                    state.is_exactly(&["10.51.30.1:8080"])
                        && state.at("10.51.30.1:8080").protocol() == Some(protocol)
                })
                .await;
        }
        Ok(())
    });
}
