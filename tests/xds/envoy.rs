//! Envoy as a process: its bootstrap, and what its admin port says it believes.

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

use crate::support::peers::{Peer, free_port};
use crate::support::process::Process;
use crate::support::{scratch_folder, wait_for};
use crate::world::{ClientTls, Index};

/// The two variants of the protocol, as Envoy calls them.
pub const VARIANTS: [&str; 2] = ["GRPC", "DELTA_GRPC"];

/// What the names of clusters end in that have a stream of their own.
pub const ALONE: &str = "-alone";

/// A running Envoy that sends everything to a cluster called `web`. It ends with this value.
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
    traffic: SocketAddr,
    _folder: TempDir,
}

// === impl Envoy ===

impl Envoy {
    /// Starts it with an endpoint cluster for each pair of a name and the name of its resource; the first is called `web`.
    /// One whose name ends in [`ALONE`] has a stream of its own.
    pub async fn start(
        index: impl Into<Index>,
        variant: &str,
        clusters: &[(&str, String)],
        metadata: &str,
    ) -> Result<Self> {
        Self::start_in_mesh(index, variant, clusters, metadata, None).await
    }

    /// The same, with a certificate of the mesh, by which it speaks to meshed endpoints.
    pub async fn start_in_mesh(
        index: impl Into<Index>,
        variant: &str,
        clusters: &[(&str, String)],
        metadata: &str,
        mesh: Option<&ClientTls>,
    ) -> Result<Self> {
        // Envoys on one machine share memory by this number.
        static BASE_ID: AtomicU32 = AtomicU32::new(0);
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (admin, traffic) = (loopback(free_port()?), loopback(free_port()?));
        let folder = scratch_folder("envoy")?;
        let config = folder.path().join("envoy.yaml");
        let text = bootstrap(
            &index.into(),
            admin,
            traffic,
            variant,
            clusters,
            metadata,
            mesh,
        );
        std::fs::write(&config, text)?;
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

fn bootstrap(
    index: &Index,
    admin: SocketAddr,
    traffic: SocketAddr,
    variant: &str,
    clusters: &[(&str, String)],
    metadata: &str,
    mesh: Option<&ClientTls>,
) -> String {
    let matches = mesh.map_or_else(String::new, transport_socket_matches);
    let clusters: Vec<String> = clusters
        .iter()
        .map(|(name, resource)| {
            let source = if name.ends_with(ALONE) {
                let service = "{envoy_grpc: {cluster_name: index}}";
                format!(
                    "api_config_source: {{api_type: {variant}, transport_api_version: V3, grpc_services: [{service}]}}"
                )
            } else {
                "ads: {}".to_owned()
            };
            format!(
                r#"
  - name: {name}
    type: EDS
    connect_timeout: 1s
    ignore_health_on_host_removal: true
    common_lb_config: {{locality_weighted_lb_config: {{}}}}
    eds_cluster_config:
      service_name: "{resource}"
      eds_config: {{resource_api_version: V3, {source}}}{matches}"#
            )
        })
        .collect();
    let clusters = clusters.concat();
    let index_port = index.address.port();
    let (admin_port, traffic_port) = (admin.port(), traffic.port());
    let tls = index
        .tls
        .as_ref()
        .map_or_else(String::new, transport_socket);
    format!(
        r#"
node: {{id: gateway, cluster: gateways, metadata: {{{metadata}}}}}
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin_port}}}}}}}
dynamic_resources:
  ads_config:
    api_type: {variant}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{{envoy_grpc: {{cluster_name: index}}}}]
  cds_config: {{resource_api_version: V3, ads: {{}}}}
  lds_config: {{resource_api_version: V3, ads: {{}}}}
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
  - name: index
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    load_assignment:
      cluster_name: index
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {index_port}}}}}}}}}]}}]{tls}{clusters}
"#
    )
}

/// How it speaks to endpoints, as `docs/gateways.md` says.
fn transport_socket_matches(mesh: &ClientTls) -> String {
    let (certificate, key) = mesh.identity.as_ref().expect("it has a certificate");
    format!(
        r#"
    transport_socket_matches:
    - name: linkerd
      match: {{l5d: mtls}}
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          auto_host_sni: true
          auto_sni_san_validation: true
          common_tls_context:
            tls_params: {{tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}}
            tls_certificates: [{{certificate_chain: {{filename: "{}"}}, private_key: {{filename: "{}"}}}}]
            validation_context: {{trusted_ca: {{filename: "{}"}}}}
    - name: plain
      match: {{}}
      transport_socket: {{name: raw, typed_config: {{"@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}}}"#,
        certificate.display(),
        key.display(),
        mesh.ca.display()
    )
}

/// How it connects to an index that is secured.
fn transport_socket(tls: &ClientTls) -> String {
    let own = tls.identity.as_ref().map_or_else(String::new, |(certificate, key)| {
        format!(
            r#"
          tls_certificates: [{{certificate_chain: {{filename: "{}"}}, private_key: {{filename: "{}"}}}}]"#,
            certificate.display(),
            key.display()
        )
    });
    format!(
        r#"
    transport_socket:
      name: tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: localhost
        common_tls_context:{own}
          validation_context:
            trusted_ca: {{filename: "{}"}}
            match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: localhost}}}}]"#,
        tls.ca.display()
    )
}
