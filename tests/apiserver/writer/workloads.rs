//! Slices of ExternalWorkloads, in the place of Linkerd's destination controller.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use linkerd2_proxy_api::destination::DestinationProfile;
use serde_json::{Value, json};

use super::{WRITE_RIGHTS, describe, slices, turn};
use crate::support::cluster::Cluster;
use crate::support::services::authority;
use crate::support::subscription::Endpoint;
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// The label by which slices of Linkerd's controller are found, and its value.
const THEIRS: &str = "endpointslice.kubernetes.io/managed-by=linkerd-external-workloads-controller";
const LEASE: &str = "linkerd-destination-endpoint-write";

/// A Service that selects ExternalWorkloads, whose port 80 leads to their port `web`.
fn service(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: vm, namespace: {namespace}, labels: {{team: shop}}}}
spec:
  selector: {{app: vm}}
  ports: [{{name: http, port: 80, targetPort: web}}]
---
"
    )
}

fn workload(namespace: &str, name: &str, ip: &str, is_ready: bool) -> String {
    let status = if is_ready { "True" } else { "False" };
    format!(
        "
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: vm, topology.kubernetes.io/zone: za}}}}
spec:
  meshTLS: {{identity: 'spiffe://root.linkerd.cluster.local/{name}', serverName: {name}.cluster.local}}
  workloadIPs: [{{ip: {ip}}}]
  ports: [{{name: web, port: 8080}}]
status: {{conditions: [{{type: Ready, status: '{status}'}}]}}
---
"
    )
}

async fn writer(home: &Cluster) -> Result<Tributary> {
    home.apply(WRITE_RIGHTS).await?;
    let arguments = ["--external-workload-slices", "--endpoint-slices-batch=50ms"];
    Tributary::start(home, &arguments).await
}

async fn until_slices(
    tributary: &Tributary,
    home: &Cluster,
    namespace: &str,
    expected: &str,
) -> Result<BTreeMap<String, EndpointSlice>> {
    super::wait_for_slices(tributary, home, namespace, THEIRS, expected).await
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_sec_04_a_service_has_external_workloads_of_its_own_namespace_only() {
    run(async {
        let turn = turn().await?;
        let home = &turn.bed.home;
        let (namespace, other) = ("writer-workloads", "writer-workloads-2");
        home.apply(&service(namespace)).await?;
        home.apply(&workload(namespace, "vm-0", "10.50.70.1", true))
            .await?;
        home.apply(&workload(other, "vm-9", "10.50.70.9", true))
            .await?;
        let tributary = writer(home).await?;
        let line = |endpoints: &str| format!("vm from ?: http=8080 | {endpoints}");
        let first = "10.50.70.1 ready serving zone:za target:vm-0";
        let written = until_slices(&tributary, home, namespace, &line(first)).await?;
        let (name, slice) = written.iter().next().unwrap();
        assert!(name.starts_with("linkerd-external-vm-"), "{name}");
        let slice = serde_json::to_value(slice)?;
        let labels = json!({
            "team": "shop",
            "kubernetes.io/service-name": "vm",
            "endpointslice.kubernetes.io/managed-by": "linkerd-external-workloads-controller",
        });
        assert_eq!(slice["metadata"]["labels"], labels);
        let owner = &slice["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["controller"]),
            (&json!("Service"), &json!(true))
        );
        let target = &slice["endpoints"][0]["targetRef"];
        let workloads = home.api("ExternalWorkload", namespace).await?;
        let uid = workloads.get("vm-0").await?.metadata.uid;
        assert_eq!(target["uid"].as_str(), uid.as_deref());

        // What is written is served, to the very clients for whom it is.
        let stream = tributary.get(&authority(namespace, "vm"));
        let state = stream.wait_for_exactly(&["10.50.70.1:8080"]).await;
        let identity = state.at("10.50.70.1:8080").identity();
        assert_eq!(identity, Some("spiffe://root.linkerd.cluster.local/vm-0"));

        // One more that is not ready, which becomes ready, and goes.
        home.apply(&workload(namespace, "vm-1", "10.50.70.2", false))
            .await?;
        let second = format!("{first}, 10.50.70.2 zone:za target:vm-1");
        until_slices(&tributary, home, namespace, &line(&second)).await?;
        home.apply(&workload(namespace, "vm-1", "10.50.70.2", true))
            .await?;
        stream
            .wait_for_exactly(&["10.50.70.1:8080", "10.50.70.2:8080"])
            .await;
        home.delete_object("ExternalWorkload", namespace, "vm-0")
            .await?;
        stream.wait_for_exactly(&["10.50.70.2:8080"]).await;
        // A label of the Service goes with it.
        let label = json!({"metadata": {"labels": {"team": null, "tier": "front"}}});
        home.patch("Service", namespace, "vm", label).await?;
        let last = line("10.50.70.2 ready serving zone:za target:vm-1");
        let written = until_slices(&tributary, home, namespace, &last).await?;
        wait_for("the label to follow", || async {
            let slices = slices(home, namespace, THEIRS).await.ok()?;
            let labels = slices.values().next()?.metadata.labels.clone()?;
            let follows = labels.get("tier").is_some_and(|tier| tier == "front")
                && !labels.contains_key("team");
            follows.then_some(())
        })
        .await?;
        assert!(
            written.contains_key(name),
            "it is the same slice throughout"
        );
        home.delete_object("ExternalWorkload", namespace, "vm-1")
            .await?;
        until_slices(&tributary, home, namespace, "").await?;
        // The other namespace has no Service, and never had a slice.
        assert!(slices(home, other, THEIRS).await?.is_empty());
        home.delete_object("ExternalWorkload", other, "vm-9")
            .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

/// A slice as Linkerd's controller makes it, under a generated name.
async fn made_by_linkerd(
    home: &Cluster,
    namespace: &str,
    name: &str,
    endpoints: Value,
) -> Result<EndpointSlice> {
    let services: Api<Service> = Api::namespaced(home.client(), namespace);
    let owner = services.get("vm").await?.metadata.uid;
    let slice = json!({
        "metadata": {
            "name": name,
            "labels": {
                "team": "shop",
                "kubernetes.io/service-name": "vm",
                "endpointslice.kubernetes.io/managed-by": "linkerd-external-workloads-controller",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": "vm", "uid": owner,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": endpoints,
    });
    let api: Api<EndpointSlice> = Api::namespaced(home.client(), namespace);
    let params = PostParams {
        field_manager: Some("controller".to_owned()),
        ..PostParams::default()
    };
    Ok(api.create(&params, &serde_json::from_value(slice)?).await?)
}

/// Gives the Lease to Linkerd's controller, for long.
async fn held_by_linkerd(home: &Cluster) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(home.client(), "linkerd");
    let held = Lease {
        metadata: kube::core::ObjectMeta {
            name: Some(LEASE.to_owned()),
            ..kube::core::ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some("linkerd-destination-7d4b9".to_owned()),
            lease_duration_seconds: Some(3600),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    };
    if leases.get_opt(LEASE).await?.is_some() {
        home.delete_object("Lease", "linkerd", LEASE).await?;
    }
    leases.create(&PostParams::default(), &held).await?;
    Ok(())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn slices_that_linkerds_controller_made_are_gone_on_with_once_its_lease_is_free() {
    run(async {
        let turn = turn().await?;
        let home = &turn.bed.home;
        let namespace = "writer-takes-over";
        home.apply(&service(namespace)).await?;
        let mut endpoints = Vec::new();
        for number in 0..3 {
            let (name, ip) = (format!("vm-{number}"), format!("10.50.71.{}", number + 1));
            home.apply(&workload(namespace, &name, &ip, true)).await?;
            let workloads = home.api("ExternalWorkload", namespace).await?;
            let uid = workloads.get(&name).await?.metadata.uid;
            endpoints.push(json!({
                "addresses": [ip],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "zone": "za",
                "targetRef": {"kind": "ExternalWorkload", "namespace": namespace, "name": name, "uid": uid},
            }));
        }
        // Two slices, as after a history of its own; one endpoint is out of date.
        endpoints[2]["conditions"] =
            json!({"ready": false, "serving": false, "terminating": false});
        let last = json!([endpoints.pop()]);
        let one = made_by_linkerd(
            home,
            namespace,
            "linkerd-external-vm-x7k2p",
            json!(endpoints),
        );
        let (one, two) = (
            one.await?,
            made_by_linkerd(home, namespace, "linkerd-external-vm-9qwlm", last).await?,
        );
        // It has the Lease, for the time being.
        held_by_linkerd(home).await?;
        let tributary = writer(home).await?;
        home.apply(&workload(namespace, "vm-3", "10.50.71.4", true))
            .await?;
        // It is known to the index, and written by nobody.
        let profile = tributary.get_profile("10.50.71.4:8080", "");
        let names_it = |profile: &DestinationProfile| {
            let endpoint = Endpoint::of_profile(profile);
            endpoint.is_some_and(|(_, endpoint)| endpoint.identity().is_some())
        };
        profile.wait_for("the workload to be known", names_it).await;
        assert!(
            tributary
                .metric("tributary_writer_workload_leader")
                .await?
                .abs()
                < 0.5
        );
        let versions = super::versions(&slices(home, namespace, THEIRS).await?);
        assert_eq!(versions.len(), 2);
        for slice in [&one, &two] {
            let known = (
                slice.metadata.name.clone().unwrap(),
                slice.metadata.resource_version.clone(),
            );
            assert!(versions.contains(&known), "{known:?} in {versions:?}");
        }

        // It gives the Lease up: what is out of date is put right, where it is, and what is new has a place there.
        let given_up = json!({"spec": {"holderIdentity": ""}});
        home.patch("Lease", "linkerd", LEASE, given_up).await?;
        let all = "10.50.71.1 ready serving zone:za target:vm-0, 10.50.71.2 ready serving zone:za target:vm-1";
        let rest = "10.50.71.3 ready serving zone:za target:vm-2, 10.50.71.4 ready serving zone:za target:vm-3";
        let expected = format!("vm from ?: http=8080 | {all}\nvm from ?: http=8080 | {rest}");
        let written = until_slices(&tributary, home, namespace, &expected).await?;
        for slice in [&one, &two] {
            let there = &written[slice.metadata.name.as_ref().unwrap()];
            assert_eq!(
                there.metadata.uid,
                slice.metadata.uid,
                "{}",
                describe(&written)
            );
        }
        let untouched = &written["linkerd-external-vm-x7k2p"];
        assert_eq!(
            untouched.metadata.resource_version, one.metadata.resource_version,
            "what is right is not even written"
        );
        for number in 0..4 {
            home.delete_object("ExternalWorkload", namespace, &format!("vm-{number}"))
                .await?;
        }
        until_slices(&tributary, home, namespace, "").await?;
        tributary.terminate().await?;
        let leases: Api<Lease> = Api::namespaced(home.client(), "linkerd");
        let lease = leases
            .get(LEASE)
            .await?
            .spec
            .and_then(|spec| spec.holder_identity);
        assert_eq!(lease.as_deref(), Some(""), "given up");
        Ok(())
    });
}
