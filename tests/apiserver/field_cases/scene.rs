//! Where the field cases are played: a namespace of the shared bed, and one product for all of them.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tonic::Code;

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::services::{authority, node};
use crate::support::subscription::{Outcome, Subscription};
use crate::support::tributary::Tributary;
use crate::support::wait_for;

/// A namespace of its own in the home cluster of the shared bed, and the product that all scenes share.
pub(super) struct Scene {
    pub(super) bed: &'static Bed,
    pub(super) tributary: &'static Tributary,
    pub(super) namespace: &'static str,
}

/// One entry of an `EndpointSlice`, with nothing but addresses until told more.
#[derive(Clone, Debug)]
pub(super) struct Entry(Value);

// === impl Scene ===

impl Scene {
    pub(super) async fn open(namespace: &'static str) -> Result<Self> {
        static TRIBUTARY: OnceCell<Tributary> = OnceCell::const_new();
        let bed = Bed::shared().await?;
        let start = || Tributary::start(&bed.home, &["--log-level", "debug"]);
        Ok(Self {
            bed,
            tributary: TRIBUTARY.get_or_try_init(start).await?,
            namespace,
        })
    }

    /// Applies objects to the home cluster.
    pub(super) async fn apply(&self, yaml: &str) -> Result<()> {
        self.bed.home.apply(yaml).await
    }

    /// Applies a slice with one port, `http`, 8080.
    pub(super) async fn slice(&self, service: &str, name: &str, entries: &[Entry]) -> Result<()> {
        let ports = json!([{"name": "http", "port": 8080}]);
        self.apply(&slice_of(self.namespace, service, name, &ports, entries))
            .await
    }

    pub(super) async fn delete_slice(&self, name: &str) -> Result<()> {
        self.bed
            .home
            .delete_object("EndpointSlice", self.namespace, name)
            .await
    }

    /// A stream for port 80 of a Service, once the product knows the Service.
    pub(super) async fn get(&self, service: &str) -> Result<Subscription> {
        let authority = authority(self.namespace, service);
        once_known(|| self.tributary.get(&authority)).await
    }

    /// The same, for a client on a node.
    pub(super) async fn get_from_node(&self, service: &str, node: &str) -> Result<Subscription> {
        let authority = authority(self.namespace, service);
        once_known(|| self.tributary.get_from_node(&authority, node)).await
    }
}

// === impl Entry ===

impl Entry {
    pub(super) fn at(ip: &str) -> Self {
        Self(json!({ "addresses": [ip] }))
    }

    /// With everything that the slice controller writes for a ready Pod.
    pub(super) fn pod(namespace: &str, pod: &str, ip: &str) -> Self {
        Self::at(ip)
            .with("nodeName", json!("n0"))
            .with("zone", json!("za"))
            .with("conditions", json!({"ready": true, "serving": true}))
            .with(
                "targetRef",
                json!({"kind": "Pod", "namespace": namespace, "name": pod}),
            )
    }

    pub(super) fn ready(self, ready: bool) -> Self {
        self.with("conditions", json!({ "ready": ready }))
    }

    pub(super) fn zone(self, zone: &str) -> Self {
        self.with("zone", json!(zone))
    }

    pub(super) fn hint(self, zone: &str) -> Self {
        self.with("hints", json!({"forZones": [{"name": zone}]}))
    }

    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }
}

/// A slice as JSON, which is YAML too.
pub(super) fn slice_of(
    namespace: &str,
    service: &str,
    name: &str,
    ports: &Value,
    entries: &[Entry],
) -> String {
    let ipv6 = entries
        .iter()
        .any(|entry| entry.0["addresses"].to_string().contains(':'));
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": if ipv6 { "IPv6" } else { "IPv4" },
        "ports": ports,
        "endpoints": entries.iter().map(|entry| &entry.0).collect::<Vec<_>>(),
    });
    format!("\n{slice}\n---\n")
}

/// Opens a stream again until it is not refused because its Service is too new to be known.
pub(super) async fn once_known(open: impl Fn() -> Subscription) -> Result<Subscription> {
    wait_for("the product to know a Service", || async {
        let stream = open();
        stream.begun().await;
        match stream.outcome() {
            Some(Outcome::Failed(Code::NotFound, _)) => None,
            _ => Some(stream),
        }
    })
    .await
}

/// A cluster with nothing in it but two nodes, for one test at a time: what it does to the API server disturbs nobody.
pub(super) async fn quiet_cluster() -> Result<MutexGuard<'static, Cluster>> {
    static QUIET: OnceCell<Mutex<Cluster>> = OnceCell::const_new();
    let start = || async {
        let cluster = Cluster::start("quiet").await?;
        cluster.define_linkerd_kinds().await?;
        Ok::<_, anyhow::Error>(Mutex::new(cluster))
    };
    let cluster = QUIET.get_or_try_init(start).await?.lock().await;
    cluster.reset().await?;
    cluster.apply(&node("n0", "za")).await?;
    cluster.apply(&node("n1", "zb")).await?;
    Ok(cluster)
}
