//! Envoy with endpoints from a file.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use crate::support::envoy::{self, Envoy};

// === impl Envoy ===

impl Envoy {
    /// Starts it with the one cluster `web`, whose endpoints are what a file says, each time that one is moved in its place.
    pub(super) async fn start(file: &Path) -> Result<Self> {
        Self::launch(|admin, traffic| bootstrap(file, admin, traffic)).await
    }
}

fn bootstrap(file: &Path, admin: SocketAddr, traffic: SocketAddr) -> String {
    let (admin, listeners) = (envoy::admin(admin), envoy::listeners(traffic));
    let folder = file.parent().expect("a file in a folder").display();
    let file = file.display();
    format!(
        r#"
node: {{id: gateway, cluster: gateways}}
{admin}
static_resources:
{listeners}
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
