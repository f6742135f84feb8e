//! The writer of EndpointSlices, against real API servers, with the rights that our manifests grant.
//!
//! There is one Lease in the shared home cluster, so tests that write there take turns.

#[path = "writer/acceptance.rs"]
mod acceptance;
#[path = "writer/beside.rs"]
mod beside;
#[path = "writer/commands.rs"]
mod commands;
#[path = "writer/copies.rs"]
mod copies;
#[path = "writer/faults.rs"]
mod faults;
#[path = "writer/gateway.rs"]
mod gateway;
#[path = "writer/leaders.rs"]
mod leaders;
#[path = "writer/lifecycle.rs"]
mod lifecycle;
#[path = "writer/repairs.rs"]
mod repairs;
#[path = "writer/scale.rs"]
mod scale;
#[path = "writer/scene.rs"]
mod scene;
#[path = "writer/workloads.rs"]
mod workloads;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{Api, ListParams};
use tokio::sync::{Mutex, MutexGuard};

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::tributary::Tributary;
use crate::support::wait_for;

/// Slices by name.
type Copies = BTreeMap<String, EndpointSlice>;

/// The label by which our slices are found, and its value.
const OURS: &str = "endpointslice.kubernetes.io/managed-by=endpointslice-writer.tributary.dev";

/// The name of the home cluster in these tests.
const HOME: &str = "hub";

/// The rights of a writer, as an operator applies them.
const WRITE_RIGHTS: &str = include_str!("../../deploy/rbac-write.yaml");

/// The shared bed, for one test at a time.
pub(crate) struct Turn {
    pub(crate) bed: &'static Bed,
    _guard: MutexGuard<'static, ()>,
}

pub(crate) async fn turn() -> Result<Turn> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let guard = TURN.lock().await;
    let bed = Bed::shared().await?;
    Ok(Turn { bed, _guard: guard })
}

/// Starts a writer for one namespace and waits until it is ready; nothing is waited for longer than need be.
async fn writer(home: &Cluster, namespace: &str, more: &[&str]) -> Result<Tributary> {
    home.apply(WRITE_RIGHTS).await?;
    let name = format!("--cluster-name={HOME}");
    let only = format!("--endpoint-slices-namespaces={namespace}");
    let mut arguments = vec![
        "--endpoint-slices=on",
        "--endpoint-slices-batch=50ms",
        "--endpoint-slices-unlink-grace=3s",
        name.as_str(),
        only.as_str(),
    ];
    // What a test asks for replaces what is usual here.
    let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    arguments.retain(|usual| more.iter().all(|asked| flag(asked) != flag(usual)));
    arguments.extend(more);
    Tributary::start(home, &arguments).await
}

/// The copies in a namespace, by name.
async fn copies(home: &Cluster, namespace: &str) -> Result<Copies> {
    slices(home, namespace, OURS).await
}

/// The slices in a namespace that have some labels, by name.
async fn slices(home: &Cluster, namespace: &str, labels: &str) -> Result<Copies> {
    let api: Api<EndpointSlice> = Api::namespaced(home.client(), namespace);
    let list = api.list(&ListParams::default().labels(labels)).await?;
    let named = list.items.into_iter().map(|slice| {
        let name = slice.metadata.name.clone().unwrap_or_default();
        (name, slice)
    });
    Ok(named.collect())
}

/// Slices in short, sorted: `service from cluster: ports | endpoints`, one a line.
fn describe(copies: &Copies) -> String {
    let mut lines: Vec<String> = copies.values().map(describe_slice).collect();
    lines.sort();
    lines.join("\n")
}

fn describe_slice(slice: &EndpointSlice) -> String {
    let label = |key: &str| {
        let labels = slice.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(key))
            .map_or("?", String::as_str)
    };
    let ports = slice.ports.iter().flatten().map(|port| {
        format!(
            "{}={}",
            port.name.as_deref().unwrap_or("?"),
            port.port.unwrap_or_default()
        )
    });
    let endpoints = slice.endpoints.iter().map(describe_endpoint);
    let text = format!(
        "{} from {}: {} | {}",
        label("kubernetes.io/service-name"),
        label("multicluster.kubernetes.io/source-cluster"),
        ports.collect::<Vec<_>>().join(","),
        endpoints.collect::<Vec<_>>().join(", ")
    );
    text.trim_end().to_owned()
}

fn describe_endpoint(endpoint: &Endpoint) -> String {
    let mut words = vec![endpoint.addresses.join("+")];
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    for (name, value) in [
        ("ready", conditions.ready),
        ("serving", conditions.serving),
        ("terminating", conditions.terminating),
    ] {
        match value {
            Some(true) => words.push(name.to_owned()),
            Some(false) => {}
            None => words.push(format!("{name}?")),
        }
    }
    for (name, value) in [
        ("zone", &endpoint.zone),
        ("node", &endpoint.node_name),
        ("host", &endpoint.hostname),
    ] {
        if let Some(value) = value {
            words.push(format!("{name}:{value}"));
        }
    }
    let zones = endpoint
        .hints
        .iter()
        .flat_map(|hints| hints.for_zones.iter().flatten());
    words.extend(zones.map(|zone| format!("for:{}", zone.name)));
    if let Some(target) = &endpoint.target_ref {
        words.push(format!("target:{}", target.name.as_deref().unwrap_or("?")));
    }
    words.join(" ")
}

/// Waits until the copies in a namespace are exactly these.
async fn wait_for_copies(
    tributary: &Tributary,
    home: &Cluster,
    namespace: &str,
    expected: impl AsRef<str>,
) -> Result<Copies> {
    wait_for_slices(tributary, home, namespace, OURS, expected).await
}

/// Waits until the slices in a namespace that have some labels are exactly these.
async fn wait_for_slices(
    tributary: &Tributary,
    home: &Cluster,
    namespace: &str,
    labels: &str,
    expected: impl AsRef<str>,
) -> Result<Copies> {
    let mut lines: Vec<_> = expected
        .as_ref()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort_unstable();
    let expected = lines.join("\n");
    let seen = parking_lot::Mutex::new(String::new());
    wait_for(
        &format!("these slices in {namespace}:\n{expected}\n"),
        || async {
            let copies = slices(home, namespace, labels).await.ok()?;
            let now = describe(&copies);
            let reached = now == expected;
            *seen.lock() = now;
            reached.then_some(copies)
        },
    )
    .await
    .with_context(|| format!("there are\n{}\n{}", seen.lock(), tributary.log_tail(30)))
}

/// The same, for what takes as long as a longest wait of the product's may take: three deadlines of the bed.
async fn wait_long_for_copies(
    tributary: &Tributary,
    home: &Cluster,
    namespace: &str,
    expected: impl AsRef<str>,
) -> Result<Copies> {
    let expected = expected.as_ref();
    for _ in 0..2 {
        if let Ok(copies) = wait_for_copies(tributary, home, namespace, expected).await {
            return Ok(copies);
        }
    }
    wait_for_copies(tributary, home, namespace, expected).await
}

/// Names and versions of slices: they stand still as long as nothing is written.
fn versions(copies: &Copies) -> Vec<(String, Option<String>)> {
    let versions = copies.iter();
    versions
        .map(|(name, slice)| (name.clone(), slice.metadata.resource_version.clone()))
        .collect()
}

/// Server-side applies of EndpointSlices that an API server has answered since it started.
async fn applies(home: &Cluster) -> Result<f64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics = home.client().request_text(request).await?;
    let counts = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains("resource=\"endpointslices\"")
            && line.contains("verb=\"APPLY\"")
            && line.contains("dry_run=\"\"")
    });
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(counts.sum())
}
