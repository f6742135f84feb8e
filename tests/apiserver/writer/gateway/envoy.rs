//! Envoy as a process that reads endpoints from a file, and what its admin port says it believes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::peers::{Peer, free_port};
use crate::support::process::Process;
use crate::support::{scratch_folder, wait_for};

/// A running Envoy that sends everything to a cluster called `web`. It ends with this value.
pub(super) struct Envoy {
    process: Process,
    admin: SocketAddr,
    traffic: SocketAddr,
    _folder: TempDir,
}

// === impl Envoy ===

impl Envoy {
    /// Starts it with the one cluster `web`, whose endpoints are what a file says, each time that one is moved in its place.
    pub(super) async fn start(file: &Path) -> Result<Self> {
        // Envoys on one machine share memory by this number.
        static BASE_ID: AtomicU32 = AtomicU32::new(0);
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (admin, traffic) = (loopback(free_port()?), loopback(free_port()?));
        let folder = scratch_folder("envoy")?;
        let config = folder.path().join("envoy.yaml");
        std::fs::write(&config, bootstrap(file, admin, traffic))?;
        let base_id = std::process::id() % 10_000 * 100 + BASE_ID.fetch_add(1, Ordering::Relaxed);
        let arguments = [
            "-c",
            &config.display().to_string(),
            "--concurrency",
            "1",
            "--base-id",
            &base_id.to_string(),
            "-l",
            "warning",
        ]
        .map(ToOwned::to_owned);
        let log = folder.path().join("log");
        let process = Process::start("envoy", &Peer::Envoy.program()?, &arguments, &log)?;
        let envoy = Self {
            process,
            admin,
            traffic,
            _folder: folder,
        };
        wait_for("Envoy to be live", || async {
            if let Err(ended) = envoy.process.ensure_running() {
                return Some(Err(ended));
            }
            let answer = get(admin, "/ready").await.ok()?;
            (answer.1.trim() == "LIVE").then_some(Ok(()))
        })
        .await
        .with_context(|| envoy.process.log_tail(30))??;
        Ok(envoy)
    }

    /// The addresses it believes a cluster to have, without their port, and whether each may be used.
    pub(super) async fn hosts(&self, cluster: &str) -> Result<BTreeSet<(String, bool)>> {
        let answer = get(self.admin, "/clusters?format=json").await?;
        let all: Value = serde_json::from_str(&answer.1)?;
        let clusters = all["cluster_statuses"].as_array();
        let found = clusters
            .into_iter()
            .flatten()
            .find(|status| status["name"] == cluster);
        let hosts = found.and_then(|status| status["host_statuses"].as_array());
        let host = |host: &Value| {
            let address = host["address"]["socket_address"]["address"].as_str();
            let health = host["health_status"]["eds_health_status"].as_str();
            (
                address.unwrap_or_default().to_owned(),
                health == Some("HEALTHY"),
            )
        };
        Ok(hosts.into_iter().flatten().map(host).collect())
    }

    /// Waits until it believes a cluster to have these addresses, all of them healthy.
    pub(super) async fn until_hosts(&self, cluster: &str, wanted: &[&str]) -> Result<()> {
        let wanted: BTreeSet<_> = wanted.iter().map(|ip| ((*ip).to_owned(), true)).collect();
        wait_for(&format!("{cluster} to have {wanted:?}"), || async {
            (self.hosts(cluster).await.ok()? == wanted).then_some(())
        })
        .await
        .with_context(|| self.process.log_tail(30))
    }

    /// Sends a request through it: the status, and who answered.
    pub(super) async fn request(&self) -> Result<(u16, String)> {
        get(self.traffic, "/").await
    }

    /// Who answers a number of requests, all of which have to succeed.
    pub(super) async fn answerers(&self, count: usize) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for _ in 0..count {
            let (status, name) = self.request().await?;
            anyhow::ensure!(status == 200, "{status}: {name}");
            names.insert(name);
        }
        Ok(names)
    }
}

/// The status and the text that `path` answers with. Envoy wants a newer HTTP than the smallest client speaks.
async fn get(server: SocketAddr, path: &str) -> Result<(u16, String)> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let answer = client
        .get(format!("http://{server}{path}").parse()?)
        .await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn bootstrap(file: &Path, admin: SocketAddr, traffic: SocketAddr) -> String {
    let (admin_port, traffic_port) = (admin.port(), traffic.port());
    let folder = file.parent().expect("a file in a folder").display();
    let file = file.display();
    format!(
        r#"
node: {{id: gateway, cluster: gateways}}
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin_port}}}}}}}
static_resources:
  listeners:
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: {traffic_port}}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            name: all
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: web}}}}]}}
          http_filters:
          - name: router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: web
    type: EDS
    connect_timeout: 1s
    ignore_health_on_host_removal: true
    eds_cluster_config:
      eds_config:
        resource_api_version: V3
        path_config_source: {{path: "{file}", watched_directory: {{path: "{folder}"}}}}
"#
    )
}
