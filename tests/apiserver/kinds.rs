//! Kinds that Linkerd brings, in clusters that do not have them (yet).

use std::time::Duration;

use crate::support::cluster::Cluster;
use crate::support::run;
use crate::support::services::{Backend, authority, workload};
use crate::support::tributary::Tributary;

/// A Server for port 8080 of all Pods; an ExternalWorkload, and a slice of Service `web` that lists it.
const OBJECTS: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, port: 8080, proxyProtocol: opaque}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {name: vm-0, namespace: shop}
spec:
  meshTLS: {identity: 'spiffe://root.linkerd.cluster.local/vm-0', serverName: vm-0.cluster.local}
  workloadIPs: [{ip: 10.50.60.2}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {name: web-vm, namespace: shop, labels: {kubernetes.io/service-name: web}}
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- addresses: [10.50.60.2]
  conditions: {ready: true}
  targetRef: {kind: ExternalWorkload, name: vm-0, namespace: shop}
";

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn kinds_that_are_missing_hold_nothing_up_and_count_once_they_are_defined() {
    run(async {
        let home = Cluster::start("bare").await?;
        let web = workload("shop", "web", &[Backend::ready("web-0", "10.50.60.1")]);
        home.apply(&web).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        let stream = tributary.get(&authority("shop", "web"));
        let state = stream.wait_for_exactly(&["10.50.60.1:8080"]).await;
        assert_eq!(state.at("10.50.60.1:8080").protocol(), Some("h2"));

        home.define_linkerd_kinds().await?;
        home.apply(OBJECTS).await?;
        let state = stream
            .wait_within(
                Duration::from_secs(15),
                "the Server and the ExternalWorkload",
                |state| {
                    state.is_exactly(&["10.50.60.1:8080", "10.50.60.2:8080"])
                        && state.at("10.50.60.1:8080").protocol() == Some("opaque")
                },
            )
            .await;
        let identity = state.at("10.50.60.2:8080").identity().map(str::to_owned);
        let expected = "spiffe://root.linkerd.cluster.local/vm-0";
        assert_eq!(identity.as_deref(), Some(expected));
        Ok(())
    });
}
