//! A real Envoy, fed from the copies by a feeder that knows slices and nothing of us, with traffic through it.

#[path = "gateway/backends.rs"]
mod backends;
#[path = "gateway/envoy.rs"]
mod envoy;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scene::Scene;
use crate::support::cluster::Cluster;
use crate::support::envoy::Envoy;
use crate::support::services::{Backend, Condition, Local, federated, slice, workload};
use crate::support::{run, scratch_folder, wait_for};
use backends::Backends;

/// Reads the slices of one Service as gateways do, and tells Envoy by a file what it makes of them.
struct Feeder {
    home: Arc<Cluster>,
    namespace: &'static str,
    file: PathBuf,
}

// === impl Feeder ===

impl Feeder {
    async fn run(self, service: &str) {
        let api: Api<EndpointSlice> = Api::namespaced(self.home.client(), self.namespace);
        let of_service = format!("kubernetes.io/service-name={service}");
        let mut events = watcher(api, watcher::Config::default().labels(&of_service)).boxed();
        let mut slices: BTreeMap<String, EndpointSlice> = BTreeMap::new();
        let mut version = 0;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(slice) | Event::Apply(slice)) => {
                    slices.insert(slice.name_any(), slice);
                }
                Ok(Event::Delete(slice)) => {
                    slices.remove(&slice.name_any());
                }
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
            version += 1;
            put(&self.file, &assignment(slices.values(), version));
        }
    }
}

/// Moves a file in its place, as Envoy wants it.
fn put(file: &Path, content: &Value) {
    let next = file.with_extension("next");
    std::fs::write(&next, content.to_string()).expect("a file is written");
    std::fs::rename(&next, file).expect("a file is moved");
}

/// What is said of endpoints in the file: per zone, each socket once, draining if it is not to have new requests.
fn assignment<'a>(slices: impl Iterator<Item = &'a EndpointSlice>, version: u32) -> Value {
    let mut sockets: BTreeMap<(String, i32), (String, bool)> = BTreeMap::new();
    for slice in slices {
        let mut ports = slice.ports.iter().flatten();
        let port = ports.find(|port| port.name.as_deref() == Some("http"));
        let Some(port) = port.and_then(|port| port.port) else {
            continue;
        };
        for endpoint in &slice.endpoints {
            for address in &endpoint.addresses {
                let zone = endpoint.zone.clone().unwrap_or_default();
                let known = (zone, is_draining(endpoint));
                sockets.entry((address.clone(), port)).or_insert(known);
            }
        }
    }
    let zones: BTreeSet<&String> = sockets.values().map(|(zone, _)| zone).collect();
    let localities: Vec<Value> = zones
        .into_iter()
        .map(|zone| {
            let of_zone = sockets.iter().filter(|(_, (known, _))| known == zone);
            let endpoints = of_zone.map(|((address, port), (_, is_draining))| {
                json!({
                    "endpoint": {"address": {"socket_address": {"address": reached_at(address), "port_value": port}}},
                    "health_status": if *is_draining { "DRAINING" } else { "HEALTHY" },
                })
            });
            json!({"locality": {"zone": zone}, "lb_endpoints": endpoints.collect::<Vec<_>>()})
        })
        .collect();
    json!({
        "version_info": version.to_string(),
        "resources": [{
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": "web",
            "endpoints": localities,
        }],
    })
}

/// As Envoy Gateway sees it: going away, or not serving; where that is not said, not ready.
fn is_draining(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    match (conditions.terminating, conditions.serving) {
        (Some(terminating), Some(serving)) => terminating || !serving,
        _ => conditions.ready == Some(false),
    }
}

/// The network of these tests: the Pod of address `10.x` is a server at `127.x`.
fn reached_at(address: &str) -> String {
    address.replacen("10.", "127.", 1)
}

/// Sends one request after another, and counts those that fail.
async fn send(
    envoy: Arc<Envoy>,
    sent: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
) {
    while !ends.load(Ordering::Relaxed) {
        let fine = matches!(envoy.request().await, Ok((200, _)));
        sent.fetch_add(1, Ordering::Relaxed);
        failed.fetch_add(usize::from(!fine), Ordering::Relaxed);
    }
}

#[test]
#[ignore = "needs kube-apiserver and Envoy: scripts/test apiserver"]
fn fc_mis_38_a_gateway_reaches_pods_of_three_clusters_and_drains_those_that_go() {
    run(async {
        let namespace = "writer-gateway";
        let scene = Scene::empty(namespace).await?;
        let (home, east, north) = (&scene.bed.home, &scene.bed.east, &scene.bed.north);
        let pods = ["127.50.72.1", "127.60.72.1", "127.60.72.2", "127.70.72.1"];
        let backends = Backends::start(&pods).await?;
        let at_their_port = |yaml: String| yaml.replace("8080", &backends.port.to_string());
        for (cluster, ip) in [
            (home, "10.50.72.1"),
            (east, "10.60.72.1"),
            (north, "10.70.72.1"),
        ] {
            let web = workload(namespace, "web", &[Backend::ready("web-0", ip)]);
            cluster.apply(&at_their_port(web)).await?;
        }
        let members = |of: &[&str]| federated(namespace, "web", Local::Member, of);
        home.apply(&members(&["east", "north"])).await?;
        let tributary = scene.writer(&[]).await?;

        let folder = scratch_folder("endpoints")?;
        let file = folder.path().join("web.json");
        put(&file, &assignment(std::iter::empty(), 0));
        let mut tasks = JoinSet::new();
        let feeder = Feeder {
            home: Arc::clone(home),
            namespace,
            file: file.clone(),
        };
        tasks.spawn(feeder.run("web-federated"));
        let envoy = Arc::new(Envoy::start(&file).await?);
        let all = [pods[0], pods[1], pods[3]];
        envoy.until_hosts("web", &all).await?;
        let named = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(envoy.answerers(30).await?, named(&all));

        // Under load, east's Pod is replaced by another one, and drains.
        let (sent, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ends = Arc::new(AtomicBool::new(false));
        let sending = (Arc::clone(&envoy), Arc::clone(&sent), Arc::clone(&failed));
        let until = Arc::clone(&ends);
        tasks.spawn(async move { send(sending.0, sending.1, sending.2, until).await });
        let old = Backend::ready("web-0", "10.60.72.1");
        let new = Backend::ready("web-1", "10.60.72.2");
        let rolling = [old.condition(Condition::Terminating), new];
        east.apply(&at_their_port(slice(namespace, "web", &rolling)))
            .await?;
        let draining: BTreeSet<_> = pods.map(|pod| (pod.to_owned(), pod != pods[1])).into();
        wait_for("the old one to drain", || async {
            (envoy.hosts("web").await.ok()? == draining).then_some(())
        })
        .await?;
        let others = [pods[0], pods[2], pods[3]];
        assert_eq!(envoy.answerers(30).await?, named(&others));
        east.apply(&at_their_port(slice(namespace, "web", &[new])))
            .await?;
        envoy.until_hosts("web", &others).await?;
        assert_eq!(envoy.answerers(30).await?, named(&others));

        // A cluster leaves, and comes back.
        home.apply(&members(&["east"])).await?;
        envoy.until_hosts("web", &[pods[0], pods[2]]).await?;
        assert_eq!(envoy.answerers(20).await?, named(&[pods[0], pods[2]]));
        home.apply(&members(&["east", "north"])).await?;
        envoy.until_hosts("web", &others).await?;
        ends.store(true, Ordering::Relaxed);
        let (sent, failed) = (sent.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        assert!(
            sent > 0 && failed == 0,
            "{failed} of {sent} requests failed"
        );
        tributary.terminate().await?;
        Ok(())
    });
}
