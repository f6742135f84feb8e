//! Beside what Linkerd's service mirror and Kubernetes' own controllers make for the same Services.

use anyhow::Result;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use serde_json::json;

use super::scene::{Pair, Scene, one_ready};
use super::{HOME, copies, describe, versions, wait_for_copies, writer};
use crate::support::cluster::Cluster;
use crate::support::profile::ProfileSubscription;
use crate::support::services::{Backend, Local, authority, federated, flat_mirror, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// Every slice of a Service that is not ours, with its version.
async fn of_others(
    home: &Cluster,
    namespace: &str,
    service: &str,
) -> Result<Vec<(String, Option<String>)>> {
    let api: Api<EndpointSlice> = Api::namespaced(home.client(), namespace);
    let labels = format!(
        "kubernetes.io/service-name={service},endpointslice.kubernetes.io/managed-by!=endpointslice-writer.tributary.dev"
    );
    let list = api.list(&ListParams::default().labels(&labels)).await?;
    let named = list.items.into_iter().map(|slice| {
        (
            slice.metadata.name.unwrap_or_default(),
            slice.metadata.resource_version,
        )
    });
    Ok(named.collect())
}

async fn until_event(home: &Cluster, namespace: &str, reason: &str, names: &str) -> Result<()> {
    wait_for(&format!("an Event {reason} that names {names}"), || async {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(home.client(), namespace);
        let events = events.list(&ListParams::default()).await.ok()?;
        events.items.into_iter().find_map(|event| {
            let note = event.note.unwrap_or_default();
            (event.reason.as_deref() == Some(reason) && note.contains(names)).then_some(())
        })
    })
    .await
}

/// The legacy object of a Service, as Linkerd's service mirror makes it for a gateway mirror; `addresses` as in the API.
fn endpoints_object(namespace: &str, name: &str, addresses: &str) -> String {
    let subsets = if addresses.is_empty() {
        "[]".to_owned()
    } else {
        format!(
            "[{{addresses: [{{ip: {addresses}}}], ports: [{{name: http, port: 4143, protocol: TCP}}]}}]"
        )
    };
    format!(
        "
apiVersion: v1
kind: Endpoints
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{mirror.linkerd.io/mirrored-service: 'true', mirror.linkerd.io/cluster-name: east}}
subsets: {subsets}
---
"
    )
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn what_linkerds_service_mirror_and_kubernetes_make_is_theirs() {
    run(async {
        let [home, east] =
            Pair::with_controllers(["writer-beside-home", "writer-beside-east"]).await?;
        let namespace = "shop";
        let web = [Backend::ready("web-0", "10.60.73.1")];
        east.apply(&workload(namespace, "web", &web)).await?;
        // A gateway mirror: a Service of the same labels, and an Endpoints object, of which Kubernetes makes a slice.
        let gateway = "
apiVersion: v1
kind: Service
metadata:
  name: pay-east
  namespace: shop
  labels: {mirror.linkerd.io/mirrored-service: 'true', mirror.linkerd.io/cluster-name: east}
spec: {ports: [{name: http, port: 80}]}
---
";
        home.apply(gateway).await?;
        home.apply(&endpoints_object(namespace, "pay-east", "10.60.73.99"))
            .await?;
        // Beside the flat mirror lies an empty one, which Kubernetes makes nothing of.
        home.apply(&flat_mirror(namespace, "web", "east")).await?;
        home.apply(&endpoints_object(namespace, "web-east", ""))
            .await?;
        wait_for("the slice that leads to the gateway", || async {
            let slices = of_others(&home, namespace, "pay-east").await.ok()?;
            (!slices.is_empty()).then_some(())
        })
        .await?;
        let before = of_others(&home, namespace, "pay-east").await?;
        let tributary = writer(&home, namespace, &[]).await?;
        let line = one_ready("10.60.73.1");
        wait_for_copies(&tributary, &home, namespace, &line).await?;
        assert_eq!(of_others(&home, namespace, "web-east").await?, []);

        // It gets an address: two would write for one Service, so we stop, and say whose slice it is.
        home.apply(&endpoints_object(namespace, "web-east", "10.60.73.98"))
            .await?;
        until_event(
            &home,
            namespace,
            "ForeignSlices",
            "endpointslicemirroring-controller.k8s.io",
        )
        .await?;
        wait_for_copies(&tributary, &home, namespace, "").await?;
        home.delete_object("Endpoints", namespace, "web-east")
            .await?;
        wait_for_copies(&tributary, &home, namespace, &line).await?;

        // A selector that comes and goes leaves a slice behind for ever: somebody has to be told which.
        let selector = json!({"spec": {"selector": {"app": "nobody"}}});
        home.patch("Service", namespace, "web-east", selector)
            .await?;
        wait_for_copies(&tributary, &home, namespace, "").await?;
        wait_for("a slice of Kubernetes' own", || async {
            let slices = of_others(&home, namespace, "web-east").await.ok()?;
            (!slices.is_empty()).then_some(())
        })
        .await?;
        home.patch(
            "Service",
            namespace,
            "web-east",
            json!({"spec": {"selector": null}}),
        )
        .await?;
        let corpses = of_others(&home, namespace, "web-east").await?;
        until_event(&home, namespace, "ForeignSlices", &corpses[0].0).await?;
        assert!(copies(&home, namespace).await?.is_empty());
        // The Endpoints object that the selector made is mirrored by now: both have to go.
        home.delete_object("Endpoints", namespace, "web-east")
            .await
            .ok();
        for (name, _) in of_others(&home, namespace, "web-east").await? {
            home.delete_object("EndpointSlice", namespace, &name)
                .await
                .ok();
        }
        wait_for_copies(&tributary, &home, namespace, &line).await?;

        // Of the gateway mirror nothing has changed, and nothing of ours is beside it.
        assert_eq!(of_others(&home, namespace, "pay-east").await?, before);
        assert!(!describe(&copies(&home, namespace).await?).contains("pay"));
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_mesh_is_told_the_same_while_copies_come_change_and_go() {
    run(async {
        let web = [Backend::ready("web-0", "10.60.74.1")];
        let scene = Scene::mirror("writer-mesh", &web).await?;
        let (namespace, home) = (scene.namespace, &scene.bed.home);
        let local = [Backend::ready("web-0", "10.50.74.1")];
        home.apply(&workload(namespace, "web", &local)).await?;
        home.apply(&federated(namespace, "web", Local::Member, &["east"]))
            .await?;
        let services: Api<k8s_openapi::api::core::v1::Service> =
            Api::namespaced(home.client(), namespace);
        let cluster_ip = services
            .get("web-federated")
            .await?
            .spec
            .and_then(|spec| spec.cluster_ip);
        let mesh = Tributary::start(home, &[]).await?;
        let streams = [
            mesh.get(&authority(namespace, "web-federated")),
            mesh.get(&authority(namespace, "web-east")),
        ];
        let of_both = ["10.50.74.1:8080", "10.60.74.1:8080"];
        streams[0].wait_for_exactly(&of_both).await;
        streams[1].wait_for_exactly(&of_both[1..]).await;
        let profiles = [
            mesh.get_profile(&authority(namespace, "web-federated"), ""),
            mesh.get_profile(&format!("{}:80", cluster_ip.unwrap_or_default()), ""),
            mesh.get_profile("10.60.74.1:8080", ""),
        ];
        for profile in &profiles {
            profile.wait_for("an answer", |_| true).await;
        }
        let messages = || {
            let streams = streams.iter().map(|stream| stream.messages().len());
            streams
                .chain(profiles.iter().map(ProfileSubscription::count))
                .collect::<Vec<_>>()
        };
        let before = messages();

        let lines = |zone: &str| {
            format!(
                "web-east from east: http=8080 | 10.60.74.1 ready serving{zone}
                 web-federated from east: http=8080 | 10.60.74.1 ready serving{zone}
                 web-federated from {HOME}: http=8080 | 10.50.74.1 ready serving{zone} node:n0 target:web-0"
            )
        };
        for (flag, zone) in [("keep", " zone:za"), ("drop", "")] {
            let flag = format!("--endpoint-slices-zones={flag}");
            let tributary = scene
                .writer(&[&flag, "--endpoint-slices-audience=everyone"])
                .await?;
            scene.until(&tributary, &lines(zone)).await?;
            tributary.terminate().await?;
        }
        // New streams get the same as open ones.
        let late = mesh.get(&authority(namespace, "web-federated"));
        late.wait_for_exactly(&of_both).await;
        assert_eq!(*late.now(), *streams[0].now());
        let tributary = scene.writer(&["--endpoint-slices=remove"]).await?;
        scene.until(&tributary, "").await?;
        tributary.terminate().await?;
        // What comes after all this is the next message, so that there was none before.
        scene
            .list(&[
                Backend::ready("web-0", "10.60.74.1"),
                Backend::ready("web-9", "10.60.74.9"),
            ])
            .await?;
        scene
            .bed
            .east
            .apply(&crate::support::services::pod(
                namespace,
                "web",
                "web-9",
                "10.60.74.9",
            ))
            .await?;
        streams[1]
            .wait_for_exactly(&["10.60.74.1:8080", "10.60.74.9:8080"])
            .await;
        streams[0]
            .wait_for_exactly(&["10.50.74.1:8080", "10.60.74.1:8080", "10.60.74.9:8080"])
            .await;
        let after = messages();
        assert_eq!((after[0], after[1]), (before[0] + 1, before[1] + 1));
        assert_eq!(after[2..], before[2..], "profiles");
        assert_eq!(versions(&scene.copies().await?), []);
        Ok(())
    });
}
