//! A stage of real API servers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::replay::stage::{Pace, Stage};
use crate::support::cluster::Cluster;
use crate::support::objects::parse;
use crate::support::tributary::Tributary;

/// Services of the home cluster have recorded addresses in `10.96.0.0/16` and `fd00:96::/112`.
const RECORDED_RANGE: u8 = 96;

/// The rights of a writer, as an operator applies them.
const WRITE_RIGHTS: &str = include_str!("../../deploy/rbac-write.yaml");

/// An address that stands for a cluster which cannot be reached.
const UNREACHABLE: &str = "https://127.0.0.1:1";

/// The clusters of the recordings.
pub struct Servers {
    west: Arc<Cluster>,
    east: Arc<Cluster>,
    rogue: Arc<Cluster>,
    /// What stands in recorded credentials, and what it is here.
    substitutions: Vec<(String, String)>,
}

// === impl Servers ===

impl Servers {
    /// Starts the clusters.
    pub async fn start(lane: usize) -> Result<Self> {
        let start = async |name: &str, number: u8| {
            let name = format!("{name}-{lane}");
            Cluster::start_numbered(&name, number).await.map(Arc::new)
        };
        let (west, east, rogue) = futures::future::try_join3(
            start("west", RECORDED_RANGE),
            start("east", RECORDED_RANGE + 1),
            start("rogue", RECORDED_RANGE + 2),
        )
        .await?;
        let mut substitutions = vec![(
            "https://down.api.invalid:6443".to_owned(),
            UNREACHABLE.to_owned(),
        )];
        for (name, cluster) in [("east", &east), ("rogue", &rogue)] {
            let token = cluster.remote_token().await?;
            let address = cluster.address();
            substitutions.push((
                format!("https://{name}.api.invalid:6443"),
                format!("https://{address}"),
            ));
            substitutions.push((format!("fixture-token-{name}"), token));
        }
        for cluster in [&west, &east, &rogue] {
            cluster.define_linkerd_kinds().await?;
        }
        Ok(Self {
            west,
            east,
            rogue,
            substitutions,
        })
    }

    fn cluster(&self, name: &str) -> Result<&Cluster> {
        Ok(match name {
            "west" => &self.west,
            "east" => &self.east,
            "rogue" => &self.rogue,
            _ => bail!("there is no cluster {name}"),
        })
    }

    /// The same objects, with credentials in Secrets that work here.
    fn with_real_credentials(&self, yaml: &str) -> Result<String> {
        let mut text = String::new();
        for mut object in parse(yaml)? {
            if object
                .types
                .as_ref()
                .is_some_and(|types| types.kind == "Secret")
                && let Some(data) = object.data["data"].as_object_mut()
            {
                for value in data.values_mut() {
                    let encoded = value.as_str().context("data of a Secret is text")?;
                    let mut decoded = String::from_utf8(BASE64.decode(encoded)?)?;
                    for (recorded, real) in &self.substitutions {
                        decoded = decoded.replace(recorded, real);
                    }
                    *value = BASE64.encode(decoded).into();
                }
            }
            text += &serde_json::to_string(&object)?;
            text += "\n---\n";
        }
        Ok(text)
    }
}

impl Stage for Servers {
    const PACE: Pace = Pace {
        quiet: Duration::from_millis(1200),
        patience: Duration::from_secs(10),
        retry: Duration::from_millis(200),
    };

    async fn clear(&mut self) -> Result<()> {
        for cluster in [&self.west, &self.east, &self.rogue] {
            cluster.reset().await?;
        }
        Ok(())
    }

    async fn serve(&mut self, arguments: &[&str]) -> Result<Tributary> {
        if arguments.contains(&"--external-workload-slices") {
            self.west.apply(WRITE_RIGHTS).await?;
        }
        Tributary::start(&self.west, arguments).await
    }

    async fn apply(&mut self, cluster: &str, yaml: &str) -> Result<()> {
        let text = self.with_real_credentials(yaml)?;
        self.cluster(cluster)?.apply(&text).await
    }

    async fn delete(
        &mut self,
        cluster: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        let cluster = self.cluster(cluster)?;
        cluster.delete_object(kind, namespace, name).await
    }

    async fn heard(&mut self, _: &Tributary) -> Result<()> {
        // A watch may be behind for as long as it likes, and nothing tells.
        Ok(())
    }
}
