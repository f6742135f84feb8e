//! Profiles: of addresses whose Pods come, go and change places, and of Services.

use std::net::SocketAddr;

use anyhow::Result;
use linkerd2_proxy_api::destination::DestinationProfile;
use serde_json::json;
use tonic::Code;

use super::scene::{Entry, Scene, slice_of};
use crate::support::profile::ProfileSubscription;
use crate::support::services::{authority, pod, service};
use crate::support::subscription::{Endpoint, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// An endpoint, as the profile of its address describes it.
fn endpoint(profile: &DestinationProfile) -> Endpoint {
    Endpoint::of_profile(profile)
        .expect("it is about an address")
        .1
}

fn address(profile: &DestinationProfile) -> Option<SocketAddr> {
    Endpoint::of_profile(profile).map(|(address, _)| address)
}

/// Whether an address is all that is said of it.
fn is_bare(profile: &DestinationProfile) -> bool {
    let endpoint = endpoint(profile);
    endpoint.labels.is_empty()
        && endpoint.content.tls_identity.is_none()
        && endpoint.content.protocol_hint.is_none()
}

fn is_of_pod(profile: &DestinationProfile, pod: &str) -> bool {
    let endpoint = endpoint(profile);
    endpoint.label("pod") == Some(pod) && endpoint.identity().is_some()
}

impl Scene {
    fn profile(&self, authority: &str) -> ProfileSubscription {
        self.tributary.get_profile(authority, "")
    }

    /// A profile of an address, opened again until it is that of a Pod: the product may be a moment behind the API server.
    async fn profile_of_pod(&self, authority: &str, pod: &str) -> Result<ProfileSubscription> {
        let stream = self.profile(authority);
        stream
            .wait_for(&format!("the profile of {pod}"), |profile| {
                is_of_pod(profile, pod)
            })
            .await;
        Ok(stream)
    }
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_07_a_profile_of_a_pods_address_follows_the_pods_end() {
    run(async {
        let scene = Scene::open("fc-mis-07").await?;
        let namespace = scene.namespace;
        scene
            .apply(&pod(namespace, "web", "web-0", "10.52.7.1"))
            .await?;
        // A port that the Pod declares, and one that it does not.
        let mut streams = Vec::new();
        for port in [8080, 9999] {
            let authority = format!("10.52.7.1:{port}");
            streams.push(scene.profile_of_pod(&authority, "web-0").await?);
        }

        let home = &scene.bed.home;
        home.delete_object("Pod", namespace, "web-0").await?;
        for (stream, port) in streams.iter().zip([8080, 9999]) {
            let profile = stream.wait_for("an address without a Pod", is_bare).await;
            assert_eq!(address(&profile), Some(([10, 52, 7, 1], port).into()));
        }

        // Whoever has the address next is told of, and nobody else.
        scene
            .apply(&pod("fc-mis-07-other", "api", "api-0", "10.52.7.1"))
            .await?;
        for stream in &streams {
            let profile = stream
                .wait_for("the next Pod", |profile| is_of_pod(profile, "api-0"))
                .await;
            assert_eq!(
                endpoint(&profile).identity(),
                Some("api.fc-mis-07-other.serviceaccount.identity.linkerd.cluster.local")
            );
            assert_eq!(stream.outcome(), None);
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_09_the_running_pod_answers_for_an_address_that_a_terminating_one_has_too() {
    run(async {
        let scene = Scene::open("fc-mis-09").await?;
        let namespace = scene.namespace;
        let home = &scene.bed.home;
        scene
            .apply(&pod(namespace, "old", "old-0", "10.52.9.1"))
            .await?;
        let open = scene.profile_of_pod("10.52.9.1:8080", "old-0").await?;
        let before = open.count();
        home.terminate_pod(namespace, "old-0").await?;
        scene
            .apply(&pod(namespace, "new", "new-0", "10.52.9.1"))
            .await?;
        open.wait_for("the running Pod", |profile| is_of_pod(profile, "new-0"))
            .await;
        let stream = scene.profile_of_pod("10.52.9.1:8080", "new-0").await?;
        assert_eq!(stream.count(), 1, "no guess before it");

        // The end of the old one takes nothing from the new one. What comes after it in the same watch shows that it is known.
        home.delete_object("Pod", namespace, "old-0").await?;
        scene
            .apply(&pod(namespace, "later", "later-0", "10.52.9.2"))
            .await?;
        scene.profile_of_pod("10.52.9.2:8080", "later-0").await?;
        for stream in [&open, &stream] {
            assert!(stream.now().is_some_and(|now| is_of_pod(&now, "new-0")));
            assert_eq!(stream.violations(), Vec::<String>::new());
        }
        assert_eq!(open.count(), before + 1, "from one Pod to the other");

        // Two that both run are a conflict, which the terminating one never was.
        scene
            .apply(&pod(namespace, "new", "new-1", "10.52.9.1"))
            .await?;
        wait_for("a conflict", || async {
            let stream = scene.profile("10.52.9.1:8080");
            let refused = wait_for("an answer", || async {
                (stream.count() > 0 || stream.outcome().is_some()).then_some(())
            });
            refused.await.ok()?;
            matches!(
                stream.outcome(),
                Some(Outcome::Failed(Code::FailedPrecondition, _))
            )
            .then_some(())
        })
        .await
    });
}

/// A Pod with a host port, 9100, on a Node with this address.
fn exporter(namespace: &str, account: &str, name: &str, ip: &str, node_ip: &str) -> String {
    pod(namespace, account, name, ip)
        .replace("containerPort: 8080", "containerPort: 9100, hostPort: 9100")
        .replace(
            "  phase: Running",
            &format!("  phase: Running\n  hostIP: {node_ip}\n  hostIPs: [{{ip: {node_ip}}}]"),
        )
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_15_a_host_port_keeps_its_address_and_takes_the_next_pods_identity() {
    run(async {
        let scene = Scene::open("fc-mis-15").await?;
        let namespace = scene.namespace;
        let node = "10.52.15.200";
        let (first, second) = ("one", "two");
        scene
            .apply(&exporter(
                namespace,
                first,
                "node-exporter-a",
                "10.52.15.1",
                node,
            ))
            .await?;
        let socket = format!("{node}:9100");
        let stream = scene.profile_of_pod(&socket, "node-exporter-a").await?;

        let home = &scene.bed.home;
        home.delete_object("Pod", namespace, "node-exporter-a")
            .await?;
        scene
            .apply(&exporter(
                namespace,
                second,
                "node-exporter-b",
                "10.52.15.2",
                node,
            ))
            .await?;
        let profile = stream
            .wait_for("the second Pod", |profile| {
                is_of_pod(profile, "node-exporter-b")
            })
            .await;
        assert_eq!(address(&profile), Some(socket.parse()?));
        assert_eq!(
            endpoint(&profile).identity(),
            Some("two.fc-mis-15.serviceaccount.identity.linkerd.cluster.local")
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_17_a_profile_follows_a_pod_that_becomes_ready() {
    run(async {
        let scene = Scene::open("fc-mis-17").await?;
        let namespace = scene.namespace;
        // Its proxy, a native sidecar, runs before the Pod does.
        let running = pod(namespace, "web", "web-0", "10.52.17.1");
        let starting = running
            .replace("phase: Running", "phase: Pending")
            .replace("status: 'True'", "status: 'False'");
        scene.apply(&starting).await?;
        let stream = scene.profile("10.52.17.1:4191");
        stream.wait_for("an address without a Pod", is_bare).await;

        scene.apply(&running).await?;
        let profile = stream
            .wait_for("the Pod", |profile| is_of_pod(profile, "web-0"))
            .await;
        assert_eq!(
            endpoint(&profile).identity(),
            Some("web.fc-mis-17.serviceaccount.identity.linkerd.cluster.local")
        );
        assert_eq!(
            endpoint(&profile).inbound_port(),
            None,
            "the proxy's own port"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_19_a_pod_outside_of_the_mesh_may_have_an_opaque_port() {
    run(async {
        let scene = Scene::open("fc-mis-19").await?;
        let namespace = scene.namespace;
        let unmeshed = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "db-0", "namespace": namespace},
            "spec": {"nodeName": "n0", "containers": [{"name": "db", "image": "db"}]},
            "status": {"phase": "Running", "podIP": "10.52.19.1", "podIPs": [{"ip": "10.52.19.1"}]},
        });
        scene.apply(&unmeshed.to_string()).await?;
        for mode in ["transparent", "transport-header"] {
            let tributary = Tributary::start(
                &scene.bed.home,
                &[
                    "--default-opaque-ports=25,3306",
                    "--outbound-transport-mode",
                    mode,
                ],
            )
            .await?;
            for (port, opaque) in [(3306, true), (8080, false)] {
                let stream = tributary.get_profile(&format!("10.52.19.1:{port}"), "");
                let profile = stream
                    .wait_for("the Pod", |profile| {
                        endpoint(profile).label("pod") == Some("db-0")
                    })
                    .await;
                assert_eq!(profile.opaque_protocol, opaque, "{mode}, port {port}");
                let endpoint = endpoint(&profile);
                assert_eq!(endpoint.content.protocol_hint, None, "{mode}, port {port}");
                assert_eq!(endpoint.identity(), None);
            }
        }
        Ok(())
    });
}

/// A ServiceProfile of Service `web` in `shop_namespace`, with one route of this name.
fn service_profile(namespace: &str, shop_namespace: &str, route: &str) -> String {
    let object = json!({
        "apiVersion": "linkerd.io/v1alpha2",
        "kind": "ServiceProfile",
        "metadata": {
            "name": format!("web.{shop_namespace}.svc.cluster.local"),
            "namespace": namespace,
        },
        "spec": {"routes": [{"name": route, "condition": {"method": "GET"}}]},
    });
    format!("{object}\n---\n")
}

fn routes(profile: &DestinationProfile) -> Vec<&str> {
    let labels = profile.routes.iter().map(|route| &route.metrics_labels);
    labels.map(|labels| labels["route"].as_str()).collect()
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_27_the_first_profile_is_the_right_one() {
    run(async {
        let scene = Scene::open("fc-mis-27").await?;
        let namespace = scene.namespace;
        let client = "fc-mis-27-client";
        let objects = [
            service(namespace, "web"),
            service_profile(namespace, namespace, "of-the-service"),
            service_profile(client, namespace, "of-the-client"),
        ];
        scene.apply(&objects.concat()).await?;
        // Started when everything is there: nothing is found one after the other but by the product itself.
        let tributary = Tributary::start(&scene.bed.home, &[]).await?;
        let authority = authority(namespace, "web");
        for (token, expected) in [
            (format!(r#"{{"ns":"{client}"}}"#), "of-the-client"),
            (format!(r#"{{"ns":"{namespace}"}}"#), "of-the-service"),
            (r#"{"ns":"fc-mis-27-nowhere"}"#.to_owned(), "of-the-service"),
            (String::new(), "of-the-service"),
        ] {
            let stream = tributary.get_profile(&authority, &token);
            let profile = stream.wait_for("a profile", |_| true).await;
            assert_eq!(routes(&profile), [expected], "{token}");
            assert_eq!(stream.count(), 1, "{token}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_08_an_external_workload_may_go_while_it_is_watched() {
    run(async {
        let scene = Scene::open("fc-rel-08").await?;
        let namespace = scene.namespace;
        let vm = json!({
            "apiVersion": "workload.linkerd.io/v1beta1",
            "kind": "ExternalWorkload",
            "metadata": {"name": "vm-0", "namespace": namespace},
            "spec": {
                "meshTLS": {"identity": "spiffe://root/vm-0", "serverName": "vm-0.cluster.local"},
                "ports": [{"name": "http", "port": 8080}],
                "workloadIPs": [{"ip": "10.52.48.1"}],
            },
        });
        let target = json!({"kind": "ExternalWorkload", "name": "vm-0", "namespace": namespace});
        let entries = [Entry::at("10.52.48.1").with("targetRef", target)];
        let ports = json!([{"name": "http", "port": 8080}]);
        let objects = [
            service(namespace, "web"),
            format!("{vm}\n---\n"),
            slice_of(namespace, "web", "s1", &ports, &entries),
        ];
        scene.apply(&objects.concat()).await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&["10.52.48.1:8080"]).await;
        let profiles = scene.profile("10.52.48.1:8080");
        let is_known = |profile: &DestinationProfile| {
            endpoint(profile).identity() == Some("spiffe://root/vm-0")
        };
        profiles.wait_for("the ExternalWorkload", is_known).await;

        for _ in 0..2 {
            scene
                .bed
                .home
                .delete_object("ExternalWorkload", namespace, "vm-0")
                .await?;
            profiles.wait_for("an address without it", is_bare).await;
            stream
                .wait_for("no endpoints", |state| state.endpoints.is_empty())
                .await;
            scene.apply(&vm.to_string()).await?;
            profiles.wait_for("the ExternalWorkload", is_known).await;
            stream.wait_for_exactly(&["10.52.48.1:8080"]).await;
        }
        scene.tributary.ensure_running()
    });
}
