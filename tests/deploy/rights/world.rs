//! Objects from which every right shows, and what a server makes of them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;

use crate::support::cluster::Cluster;
use crate::support::services::{Backend, authority, pod, service, slice, workload};
use crate::support::tributary::Tributary;
use crate::support::wait_for;

/// What answers have, thanks to a right.
pub(crate) type Facts = BTreeSet<&'static str>;

pub(crate) const IDENTITY: &str = "identities";
pub(crate) const ZONE: &str = "the zone of the client";
pub(crate) const DEPLOYMENT: &str = "the Deployment of a Pod";
pub(crate) const CRON_JOB: &str = "the CronJob of a Pod";
pub(crate) const EXTERNAL_WORKLOAD: &str = "ExternalWorkloads";
pub(crate) const OPAQUE: &str = "opaque ports of Servers";
pub(crate) const ROUTES: &str = "routes of ServiceProfiles";
pub(crate) const COMPARED: &str = "the comparison of Links with Secrets";
pub(crate) const LINKS: &str = "linked clusters";

/// Addresses of one cluster begin so.
#[derive(Clone, Copy)]
pub(crate) struct Addresses(pub(crate) &'static str);

// === impl Addresses ===

impl Addresses {
    fn ip(self, last: u8) -> String {
        format!("{}.{last}", self.0)
    }

    pub(crate) fn socket(self, last: u8) -> SocketAddr {
        format!("{}:8080", self.ip(last))
            .parse()
            .expect("an address")
    }
}

/// Services `web`, `nightly`, `db` and `vm`: of a Deployment, a CronJob, a Server and an ExternalWorkload.
pub(crate) async fn fill(cluster: &Cluster, namespace: &str, addresses: Addresses) -> Result<()> {
    let ips = [1, 2, 3, 4].map(|last| addresses.ip(last));
    let owned = |app: &str, name: &str, ip: &str, owner: &str| {
        let owner = format!("\n  ownerReferences: [{owner}]\nspec:");
        pod(namespace, app, name, ip).replacen("\nspec:", &owner, 1)
    };
    let reference = |kind: &str, group: &str, name: &str| {
        format!(
            "{{apiVersion: {group}/v1, kind: {kind}, name: {name}, uid: 00000000-0000-0000-0000-000000000001, controller: true}}"
        )
    };
    let template = "template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: app, image: app}]}}";
    let mut text = format!(
        "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web-5d, namespace: {namespace}, ownerReferences: [{}]}}
spec: {{selector: {{matchLabels: {{app: web}}}}, {}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: nightly-1, namespace: {namespace}, ownerReferences: [{}]}}
spec: {{{template}}}
---
",
        reference("Deployment", "apps", "web"),
        template.replace("restartPolicy: Never, ", ""),
        reference("CronJob", "batch", "nightly"),
    );
    text += &service(namespace, "web");
    text += &owned(
        "web",
        "web-0",
        &ips[0],
        &reference("ReplicaSet", "apps", "web-5d"),
    );
    text += &slice(namespace, "web", &[Backend::ready("web-0", &ips[0])]);
    text += &service(namespace, "nightly");
    text += &owned(
        "nightly",
        "nightly-0",
        &ips[1],
        &reference("Job", "batch", "nightly-1"),
    );
    text += &slice(
        namespace,
        "nightly",
        &[Backend::ready("nightly-0", &ips[1])],
    );
    text += &workload(namespace, "db", &[Backend::ready("db-0", &ips[2])]);
    text += &linkerds(namespace, &ips[3]);
    text += &service(namespace, "vm");
    text += &slice(namespace, "vm", &[Backend::ready("vm-0", &ips[3])])
        .replace("kind: Pod,", "kind: ExternalWorkload,");
    cluster.apply(&text).await
}

/// Objects of Linkerd's kinds, about those Services.
fn linkerds(namespace: &str, ip: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: db, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: db}}}}, port: 8080, proxyProtocol: opaque}}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {{name: vm-0, namespace: {namespace}}}
spec:
  meshTLS: {{identity: 'spiffe://root.linkerd.cluster.local/vm-0', serverName: vm-0.cluster.local}}
  workloadIPs: [{{ip: {ip}}}]
---
apiVersion: linkerd.io/v1alpha2
kind: ServiceProfile
metadata: {{name: web.{namespace}.svc.cluster.local, namespace: {namespace}}}
spec: {{routes: [{{name: cart, condition: {{method: GET, pathRegex: /cart}}}}]}}
---
"
    )
}

/// What a server that is ready makes of `web`, `nightly`, `db` and `vm`, and of a federated `web-federated` with an address of
/// another cluster.
pub(crate) async fn facts(
    tributary: &Tributary,
    namespace: &str,
    home: Addresses,
    linked: SocketAddr,
) -> Result<Facts> {
    let state = async |service: &str| {
        let stream = tributary.get_from_node(&authority(namespace, service), "n0");
        stream.wait_for("an answer", |state| state.answered).await
    };
    let mut facts = Facts::new();
    let mut add = |fact, is_there: bool| {
        if is_there {
            facts.insert(fact);
        }
    };
    let (web, nightly, db, vm) = (
        state("web").await,
        state("nightly").await,
        state("db").await,
        state("vm").await,
    );
    let at = |number: u8| home.socket(number).to_string();
    let endpoint = web.at(&at(1));
    add(IDENTITY, endpoint.identity().is_some());
    add(ZONE, endpoint.label("zone_locality") == Some("local"));
    add(DEPLOYMENT, endpoint.label("deployment") == Some("web"));
    add(
        CRON_JOB,
        nightly.at(&at(2)).label("cronjob") == Some("nightly"),
    );
    add(OPAQUE, db.at(&at(3)).protocol() == Some("opaque"));
    add(EXTERNAL_WORKLOAD, vm.is_exactly(&[&at(4)]));
    let profile = tributary
        .get_profile(&authority(namespace, "web"), "")
        .wait_for("a profile", |_| true)
        .await;
    add(ROUTES, !profile.routes.is_empty());
    let check = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(["check", "--addr", &tributary.address().to_string()])
        .output()?;
    let findings = String::from_utf8(check.stdout)?;
    add(
        COMPARED,
        !findings.contains("links.multicluster.linkerd.io"),
    );
    let federated = state("web-federated").await;
    add(LINKS, federated.addresses().contains(&linked));
    Ok(facts)
}

/// Waits until a series has a value that is as wanted.
pub(crate) async fn until_series(
    tributary: &Tributary,
    series: &str,
    wanted: impl Fn(f64) -> bool,
) -> Result<()> {
    wait_for(series, || async {
        let metrics = tributary.metrics().await.ok()?;
        let mut lines = metrics.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = lines.find(|(known, _)| is_same(known, series))?;
        wanted(value.parse().ok()?).then_some(())
    })
    .await
    .map_err(|error| error.context(tributary.log_tail(30)))
}

/// Whether two series are one, whatever the order of labels.
fn is_same(left: &str, right: &str) -> bool {
    let parts = |series: &str| {
        let parts = series.trim_end_matches('}').split(['{', ',']);
        parts.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    parts(left) == parts(right)
}
