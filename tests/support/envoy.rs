//! Envoy as a process, and what its admin port says it believes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;

use super::peers::{Peer, free_port};
use super::process::Process;
use super::{scratch_folder, wait_for};

/// A running Envoy that sends everything to a cluster called `web`. It ends with this value.
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
    traffic: SocketAddr,
    _folder: TempDir,
}

// === impl Envoy ===

impl Envoy {
    /// Starts it with what `bootstrap` makes of the addresses of its admin port and of the [`listeners`], which send everything to a
    /// cluster called `web`.
    pub async fn launch(bootstrap: impl FnOnce(SocketAddr, SocketAddr) -> String) -> Result<Self> {
        // Envoys on one machine share memory by this number.
        static BASE_ID: AtomicU32 = AtomicU32::new(0);
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (admin, traffic) = (loopback(free_port()?), loopback(free_port()?));
        let folder = scratch_folder("envoy")?;
        let config = folder.path().join("envoy.yaml");
        std::fs::write(&config, bootstrap(admin, traffic))?;
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
    pub async fn hosts(&self, cluster: &str) -> Result<BTreeSet<(String, bool)>> {
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
    pub async fn until_hosts(&self, cluster: &str, wanted: &[&str]) -> Result<()> {
        let wanted: BTreeSet<_> = wanted.iter().map(|ip| ((*ip).to_owned(), true)).collect();
        wait_for(&format!("{cluster} to have {wanted:?}"), || async {
            (self.hosts(cluster).await.ok()? == wanted).then_some(())
        })
        .await
        .with_context(|| self.process.log_tail(30))
    }

    /// A number among its statistics.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        let answer = get(self.admin, &format!("/stats?filter=^{name}$")).await?;
        let value = answer
            .1
            .trim()
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(": "));
        let value = value.with_context(|| format!("there is no {name}"))?;
        Ok(value.parse()?)
    }

    /// Waits until a number among its statistics is this.
    pub async fn until_stat(&self, name: &str, wanted: u64) -> Result<()> {
        wait_for(&format!("{name} to be {wanted}"), || async {
            (self.stat(name).await.ok()? == wanted).then_some(())
        })
        .await
        .with_context(|| self.process.log_tail(30))
    }

    /// Sends a request through it: the status, and who answered.
    pub async fn request(&self) -> Result<(u16, String)> {
        get(self.traffic, "/").await
    }

    /// Who answers a number of requests, all of which have to succeed.
    pub async fn answerers(&self, count: usize) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for _ in 0..count {
            let (status, name) = self.request().await?;
            anyhow::ensure!(status == 200, "{status}: {name}");
            names.insert(name);
        }
        Ok(names)
    }

    /// Sends requests, one after another, until something else is over; all of them have to succeed. How many there were.
    pub async fn request_during(&self, other: impl Future<Output = Result<()>>) -> Result<usize> {
        let mut other = std::pin::pin!(other);
        let mut count = 0;
        loop {
            tokio::select! {
                over = &mut other => return over.map(|()| count),
                answer = self.request() => {
                    let (status, text) = answer?;
                    anyhow::ensure!(status == 200, "request {count}: {status}: {text}");
                    count += 1;
                }
            }
        }
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process.log_text()
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

/// Of a bootstrap: its admin port.
pub fn admin(address: SocketAddr) -> String {
    let port = address.port();
    format!("admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}")
}

/// Of a bootstrap: the one listener, which sends everything to a cluster called `web`.
pub fn listeners(traffic: SocketAddr) -> String {
    let port = traffic.port();
    format!(
        r#"  listeners:
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
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
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}"#
    )
}
