//! What copies look like, and that they follow.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::HOME;
use super::scene::{Scene, one_ready};
use crate::support::services::{Backend, Condition, Local, federated, flat_mirror, workload};
use crate::support::{run, wait_for};

/// What kube-proxy leaves out of its watch.
const KUBE_PROXY: &str =
    "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_39_a_mirror_gets_the_endpoints_of_its_cluster_and_they_follow() {
    run(async {
        let web = [
            Backend::ready("web-0", "10.60.40.1"),
            Backend::ready("web-1", "10.60.40.2").zone("zb"),
        ];
        let scene = Scene::mirror("writer-mirror", &web).await?;
        let namespace = scene.namespace;
        let tributary = scene.writer(&[]).await?;
        let written = scene.until(&tributary, "web-east from east: http=8080 | 10.60.40.1 ready serving zone:za, 10.60.40.2 ready serving zone:zb",
        )
        .await?;
        let (name, copy) = written.iter().next().unwrap();
        assert!(name.starts_with("web-east-east-"), "{name}");
        let value = serde_json::to_value(copy)?;
        let labels = json!({
            "kubernetes.io/service-name": "web-east",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-writer.tributary.dev",
            "multicluster.kubernetes.io/source-cluster": "east",
            "service.kubernetes.io/service-proxy-name": "endpointslice-writer.tributary.dev",
        });
        assert_eq!(value["metadata"]["labels"], labels);
        let owner = &value["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["name"]),
            (&json!("Service"), &json!("web-east"))
        );
        assert_eq!(
            (&owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!(false), &json!(false))
        );
        let annotations = &value["metadata"]["annotations"];
        assert_eq!(
            annotations["tributary.dev/source"],
            format!("{namespace}/web-s1")
        );
        assert!(
            annotations["tributary.dev/cluster-uid"].is_string(),
            "{annotations}"
        );

        // Every condition is carried over, and explicit.
        let changed = [
            web[0].condition(Condition::Terminating),
            web[1].condition(Condition::Unready),
            Backend::ready("web-2", "10.60.40.3"),
        ];
        scene.list(&changed).await?;
        scene.until(&tributary, "web-east from east: http=8080 | 10.60.40.1 serving terminating zone:za, 10.60.40.2 zone:zb, \
             10.60.40.3 ready serving zone:za",
        )
        .await?;
        // All at once replaced: nothing old stays.
        let replaced = [Backend::ready("web-7", "10.60.40.7")];
        scene.list(&replaced).await?;
        scene.until(&tributary, one_ready("10.60.40.7")).await?;
        scene.list(&[]).await?;
        scene
            .until(&tributary, "web-east from east: http=8080 |")
            .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_federated_service_gets_the_endpoints_of_all_members_and_home_keeps_node_and_target() {
    run(async {
        let scene = Scene::empty("writer-federated").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        bed.home
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.50.41.1")],
            ))
            .await?;
        bed.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.41.1")],
            ))
            .await?;
        bed.north
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.70.41.1").zone("zb")],
            ))
            .await?;
        bed.home
            .apply(&federated(
                namespace,
                "web",
                Local::Member,
                &["east", "north"],
            ))
            .await?;
        let tributary = scene
            .writer(&["--endpoint-slices-hints=local-first"])
            .await?;
        scene.until(&tributary, &format!(
                "web-federated from {HOME}: http=8080 | 10.50.41.1 ready serving zone:za node:n0 for:za target:web-0
                 web-federated from east: http=8080 | 10.60.41.1 ready serving zone:za for:east
                 web-federated from north: http=8080 | 10.70.41.1 ready serving zone:zb for:north"
            ),
        )
        .await?;
        // A member leaves: its copies go at once.
        bed.home
            .apply(&federated(namespace, "web", Local::Member, &["north"]))
            .await?;
        scene.until(&tributary, &format!(
                "web-federated from {HOME}: http=8080 | 10.50.41.1 ready serving zone:za node:n0 for:za target:web-0
                 web-federated from north: http=8080 | 10.70.41.1 ready serving zone:zb for:north"
            ),
        )
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn kube_proxy_does_not_see_copies_unless_they_are_for_everyone() {
    run(async {
        let scene =
            Scene::mirror("writer-audience", &[Backend::ready("web-0", "10.60.42.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.42.1");
        scene.until(&tributary, &line).await?;
        let api: Api<EndpointSlice> = Api::namespaced(bed.home.client(), namespace);
        let seen = || async {
            let list = api
                .list(&ListParams::default().labels(KUBE_PROXY))
                .await
                .ok()?;
            Some(list.items.len())
        };
        assert_eq!(seen().await, Some(0));
        let annotation = json!({"metadata": {"annotations": {"tributary.dev/endpoint-slices-audience": "everyone"}}});
        bed.home
            .patch("Service", namespace, "web-east", annotation)
            .await?;
        wait_for("kube-proxy to see the copy", || async {
            (seen().await == Some(1)).then_some(())
        })
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_36_labels_of_the_exporter_make_no_twin_and_opting_out_removes_copies() {
    run(async {
        let scene =
            Scene::mirror("writer-opt-out", &[Backend::ready("web-0", "10.60.43.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.43.1");
        let first = scene.until(&tributary, &line).await?;
        for (number, value) in [json!("shop"), json!("other"), json!(null)]
            .into_iter()
            .enumerate()
        {
            let label = json!({"metadata": {"labels": {"team": value}}});
            bed.east
                .patch("Service", namespace, "web", label.clone())
                .await?;
            bed.home
                .patch("Service", namespace, "web-east", label.clone())
                .await?;
            bed.east
                .patch("EndpointSlice", namespace, "web-s1", label)
                .await?;
            let ip = format!("10.60.43.{}", number + 2);
            let backends = [Backend::ready("web-0", &ip).zone("zb")];
            scene.list(&backends).await?;
            let line = format!(
                "web-east from east: http=8080 | 10.60.43.{} ready serving zone:zb",
                number + 2
            );
            let now = scene.until(&tributary, &line).await?;
            assert!(now.keys().eq(first.keys()));
        }
        let disabled =
            json!({"metadata": {"annotations": {"tributary.dev/endpoint-slices": "disabled"}}});
        bed.home
            .patch("Service", namespace, "web-east", disabled)
            .await?;
        scene.until(&tributary, "").await?;
        assert!(scene.copies().await?.is_empty());
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn hostnames_stay_off_remote_endpoints_while_a_stock_destination_runs() {
    run(async {
        let scene = Scene::empty("writer-hostnames").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let hosted = workload(namespace, "web", &[Backend::ready("web-0", "10.60.44.1")]).replace(
            "  nodeName: n0\n  zone",
            "  hostname: web-0\n  nodeName: n0\n  zone",
        );
        bed.east.apply(&hosted).await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let tributary = scene.writer(&[]).await?;
        let with = "web-east from east: http=8080 | 10.60.44.1 ready serving zone:za host:web-0";
        let without = one_ready("10.60.44.1");
        scene.until(&tributary, with).await?;
        let destination = "
apiVersion: v1
kind: Pod
metadata:
  name: linkerd-destination-0
  namespace: linkerd
  labels: {linkerd.io/control-plane-component: destination}
spec: {containers: [{name: destination, image: destination}]}
";
        bed.home.apply(destination).await?;
        scene.until(&tributary, without).await?;
        let ours = json!({"metadata": {"annotations": {"tributary.dev/destination": ""}}});
        bed.home
            .patch("Pod", "linkerd", "linkerd-destination-0", ours)
            .await?;
        scene.until(&tributary, with).await?;
        bed.home.delete(destination).await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn copies_leave_nothing_unsaid_whatever_their_source_leaves_out() {
    run(async {
        let scene = Scene::mirror("writer-unsaid", &[]).await?;
        let (namespace, home, east) = (scene.namespace, &scene.bed.home, &scene.bed.east);
        // The only port has no name, and neither protocol nor conditions are given.
        for cluster in [east, home] {
            let name = if cluster.name() == east.name() {
                "web"
            } else {
                "web-east"
            };
            let ports = json!({"spec": {"ports": null}});
            cluster.patch("Service", namespace, name, ports).await.ok();
            let ports = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
            cluster.patch("Service", namespace, name, ports).await?;
        }
        let source = |name: &str, family: &str, endpoints: serde_json::Value| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": name, "namespace": namespace,
                    "labels": {"kubernetes.io/service-name": "web"},
                },
                "addressType": family,
                "ports": [{"port": 8080}],
                "endpoints": endpoints,
            })
            .to_string()
        };
        let bare = json!([{"addresses": ["10.60.76.1"]}, {"addresses": ["10.60.76.2"], "conditions": {"serving": false}}]);
        east.apply(&source("web-s1", "IPv4", bare)).await?;
        // No gateway is given host names: most ignore them, one refuses the whole Service.
        let names = json!([{"addresses": ["web.example"]}]);
        east.apply(&source("web-names", "FQDN", names)).await?;
        let tributary = scene.writer(&[]).await?;
        let written = scene
            .until(
                &tributary,
                "web-east from east: =8080 | 10.60.76.1 ready serving, 10.60.76.2 ready",
            )
            .await?;
        for slice in written.values() {
            let slice = serde_json::to_value(slice)?;
            for endpoint in slice["endpoints"].as_array().unwrap() {
                for condition in ["ready", "serving", "terminating"] {
                    assert!(endpoint["conditions"][condition].is_boolean(), "{slice}");
                }
                assert_eq!(endpoint["addresses"].as_array().map(Vec::len), Some(1));
            }
            for port in slice["ports"].as_array().unwrap() {
                assert!(
                    port["name"].is_string() && port["protocol"].is_string(),
                    "{slice}"
                );
                assert!(port["port"].is_u64(), "{slice}");
            }
            let labels = slice["metadata"]["labels"].as_object().unwrap();
            assert!(!labels.contains_key("multicluster.kubernetes.io/service-name"));
        }
        let fqdn = "tributary_writer_skipped_endpoints{reason=\"fqdn\"} 1";
        wait_for("the host names to be counted", || async {
            tributary.metrics().await.ok()?.contains(fqdn).then_some(())
        })
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}
