//! A stage of folders with manifests, which the product reads in place of API servers.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::api::DynamicObject;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::replay::stage::{Pace, Stage};
use crate::support::objects::parse;
use crate::support::subscription::Subscription;
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, scratch_folder};

/// The folder of each cluster. The home cluster is called `home` where it has no other name.
const FOLDERS: [(&str, &str); 3] = [("west", "home"), ("east", "east"), ("rogue", "rogue")];

/// A Secret that would link a cluster if it said more. Secrets decide which folders are linked as soon as there is one, and where
/// there are API servers they always do.
const SECRETS_DECIDE: &str = "{apiVersion: v1, kind: Secret, type: mirror.linkerd.io/remote-kubeconfig, \
     metadata: {name: secrets-decide, namespace: linkerd, labels: {multicluster.linkerd.io/cluster-name: nowhere}}}";

/// Why three: the product may be reading already when it is first written. When the second is read, so is everything that was there before
/// the first. When the third is answered, so is everything that came with the second.
const LOOKS: u32 = 3;

/// Between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Folders for three clusters.
pub struct Folders {
    root: TempDir,
    /// Where the marker is asked for.
    marker_authority: String,
    marker: Option<Subscription>,
    /// How often the marker was moved.
    moves: u32,
}

// === impl Folders ===

impl Folders {
    /// Makes them.
    pub fn new() -> Result<Self> {
        Ok(Self {
            root: scratch_folder("golden")?,
            marker_authority: String::new(),
            marker: None,
            moves: 0,
        })
    }

    fn folder(&self, cluster: &str) -> Result<PathBuf> {
        let folder = FOLDERS.iter().find(|(name, _)| *name == cluster);
        let (_, folder) = folder.with_context(|| format!("there is no cluster {cluster}"))?;
        Ok(self.root.path().join(folder))
    }

    /// The one file in which an object is.
    fn file(&self, cluster: &str, kind: &str, namespace: &str, name: &str) -> Result<PathBuf> {
        let namespace = match kind {
            "Node" | "Namespace" => "",
            _ => namespace,
        };
        let file = format!("{kind}.{namespace}.{name}.json");
        Ok(self.folder(cluster)?.join(file))
    }

    fn write(&self, cluster: &str, object: &DynamicObject) -> Result<()> {
        let types = object.types.as_ref().context("an object without a kind")?;
        let name = object.metadata.name.as_deref().context("it has no name")?;
        let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
        let file = self.file(cluster, &types.kind, namespace, name)?;
        // In one step, so that nobody reads half an object.
        let staged = file.with_file_name(".staged");
        std::fs::write(&staged, serde_json::to_string(object)?)?;
        std::fs::rename(staged, file)?;
        Ok(())
    }

    /// Gives the marker, a Service like others, another address: the number of the move. Its endpoints are there in both forms, of which the
    /// product reads one.
    fn move_marker(&mut self) -> Result<Ipv4Addr> {
        self.moves += 1;
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 255, 0, 0)) + self.moves);
        for object in parse(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{namespace: golden, name: marker}}, \
             spec: {{ports: [{{port: 80}}]}}}}\n---\n\
             {{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, \
             metadata: {{namespace: golden, name: marker, labels: {{kubernetes.io/service-name: marker}}}}, \
             ports: [{{name: '', port: 80}}], endpoints: [{{addresses: [{address}]}}]}}\n---\n\
             {{apiVersion: v1, kind: Endpoints, metadata: {{namespace: golden, name: marker}}, \
             subsets: [{{addresses: [{{ip: {address}}}], ports: [{{port: 80}}]}}]}}"
        ))? {
            self.write("west", &object)?;
        }
        Ok(address)
    }
}

impl Stage for Folders {
    const PACE: Pace = Pace {
        quiet: Duration::from_millis(150),
        patience: Duration::from_secs(20),
        retry: Duration::from_millis(50),
    };

    async fn clear(&mut self) -> Result<()> {
        self.marker = None;
        for (_, folder) in FOLDERS {
            let folder = self.root.path().join(folder);
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            std::fs::create_dir(folder)?;
        }
        for object in parse(SECRETS_DECIDE)? {
            self.write("west", &object)?;
        }
        self.move_marker()?;
        Ok(())
    }

    async fn serve(&mut self, arguments: &[&str]) -> Result<Tributary> {
        let domain = value_of("--cluster-domain", arguments);
        let domain = domain.context("every case has a cluster domain")?;
        self.marker_authority = format!("marker.golden.svc.{domain}:80");
        let tributary = Tributary::serve_manifests(self.root.path(), arguments).await?;
        self.marker = Some(tributary.get(&self.marker_authority));
        Ok(tributary)
    }

    async fn apply(&mut self, cluster: &str, yaml: &str) -> Result<()> {
        for object in parse(yaml)? {
            self.write(cluster, &object)?;
        }
        Ok(())
    }

    async fn delete(
        &mut self,
        cluster: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        let file = self.file(cluster, kind, namespace, name)?;
        std::fs::remove_file(&file).with_context(|| file.display().to_string())
    }

    /// Moves the marker and waits until its stream has the new address, several times.
    async fn heard(&mut self, tributary: &Tributary) -> Result<()> {
        for _ in 0..LOOKS {
            let address = IpAddr::V4(self.move_marker()?);
            let marker = self.marker.as_ref().context("nothing is served")?;
            let begin = Instant::now();
            while !marker.now().endpoints.keys().any(|at| at.ip() == address) {
                tributary.ensure_running()?;
                if let Some(outcome) = marker.outcome() {
                    bail!("the stream of the marker is over: {outcome:?}");
                }
                ensure!(
                    begin.elapsed() < DEADLINE,
                    "what was written is never read\n{}",
                    tributary.log_tail(30)
                );
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }
}

/// The value of a flag, which follows it or is the next argument.
fn value_of<'a>(flag: &str, arguments: &[&'a str]) -> Option<&'a str> {
    let place = arguments.iter().position(|argument| {
        let rest = argument.strip_prefix(flag);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })?;
    match arguments[place].split_once('=') {
        Some((_, value)) => Some(value),
        None => arguments.get(place + 1).copied(),
    }
}
