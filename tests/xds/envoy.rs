//! How Envoy is told to ask for clusters and endpoints.

use std::net::SocketAddr;

use anyhow::Result;

use crate::support::envoy;
pub use crate::support::envoy::Envoy;
use crate::world::{ClientTls, Index};

/// The two variants of the protocol, as Envoy calls them.
pub const VARIANTS: [&str; 2] = ["GRPC", "DELTA_GRPC"];

/// What the names of clusters end in that have a stream of their own.
pub const ALONE: &str = "-alone";

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
        let index = index.into();
        Self::launch(|admin, traffic| {
            bootstrap(&index, admin, traffic, variant, clusters, metadata, mesh)
        })
        .await
    }
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
    let (admin, listeners) = (envoy::admin(admin), envoy::listeners(traffic));
    let tls = index
        .tls
        .as_ref()
        .map_or_else(String::new, transport_socket);
    format!(
        r#"
node: {{id: gateway, cluster: gateways, metadata: {{{metadata}}}}}
{admin}
dynamic_resources:
  ads_config:
    api_type: {variant}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services: [{{envoy_grpc: {{cluster_name: index}}}}]
  cds_config: {{resource_api_version: V3, ads: {{}}}}
  lds_config: {{resource_api_version: V3, ads: {{}}}}
static_resources:
{listeners}
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
