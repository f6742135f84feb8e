//! Clusters from files: one folder of Kubernetes YAML or JSON per cluster, read again whenever something in it changes.
//!
//! ```text
//! DIR/home/…      the home cluster; any number of files, in folders as one likes
//! DIR/west/…      a linked cluster
//! DIR/east/…      another
//! ```
//!
//! **Objects.** `.yaml`, `.yml` and `.json` files count, others and names that begin with a dot do not. Kinds that are not
//! watched are skipped; as in real clusters, either EndpointSlices or Endpoints are. Of two files that define one object the later by path counts, and a warning names both.
//!
//! **Links.** If the home cluster's folder has Secrets that link clusters, as Linkerd's destination controller reads them
//! (in the control plane's namespace, of type `mirror.linkerd.io/remote-kubeconfig`, with the cluster's name as a label and
//! its domains as annotations; the kubeconfig inside is not looked at), then exactly those clusters are linked, each in the
//! trust domain of its Secret. Folders of other clusters are ignored, with a warning. If there is no such Secret, every
//! folder is a linked cluster, in the home cluster's trust domain. Once a Secret has been seen, Secrets decide for as long as
//! the process runs: deleting the last one unlinks its cluster.
//!
//! **Failure.** A file that cannot be used keeps what it defined before, and is counted and logged with the place of the
//! mistake; the other files are not affected. A linked cluster without a folder is one that cannot be reached: it
//! is linked but not synced, or, if it had one, served as last known. The same goes for the home cluster after the start.
//! Without Secrets, a folder that vanishes unlinks its cluster.
//!
//! Only the names of objects are kept here, to know what goes when a file does.

mod contents;
mod edits;
mod links;
mod listing;
pub(crate) mod manifest;
mod metrics;
mod tree;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use edits::Edits;
pub(crate) use links::{LinkSecret, Links};
pub use metrics::FileMetrics;
use tree::Tree;
use watch::{Bell, Watches};

use crate::model::{ClusterName, EndpointKind, Text};
use crate::publish::{ChangeSender, StatusBoard};

/// Time between two notes that what is known is up to date.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// Where the files are and whose they are.
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// The folder that holds one folder per cluster.
    pub dir: PathBuf,
    /// The home cluster: the name of its folder.
    pub home: ClusterName,
    /// Suffix of the identities of the home cluster's Pods.
    pub trust_domain: Text,
    /// The namespace whose Secrets link clusters.
    pub control_plane_namespace: Text,
    /// What the endpoints of Services are read from, in every cluster.
    pub endpoint_kind: EndpointKind,
}

/// Tells what files say of clusters.
#[derive(Debug)]
pub struct FileSource {
    config: FileConfig,
    metrics: FileMetrics,
}

/// Why files cannot be read; one line each, to be shown to whoever started the process.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The manifests folder does not exist.
    #[error(
        "there is no folder {}; make it, with one folder of Kubernetes YAML per cluster, or name another with --manifests",
        dir.display()
    )]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// The manifests folder is something else.
    #[error("{} is not a folder; --manifests takes one that holds a folder of Kubernetes YAML per cluster", dir.display())]
    NotAFolder {
        /// What is no folder.
        dir: PathBuf,
    },
    /// The home cluster has no folder.
    #[error(
        "there is no folder {}, which would be the home cluster's; make it, or give the home cluster the name of its folder",
        dir.join(home.as_str()).display()
    )]
    NoHome {
        /// The manifests folder.
        dir: PathBuf,
        /// Name of the home cluster.
        home: ClusterName,
    },
    /// The manifests folder cannot be read.
    #[error("reading {} failed; it has to be readable for us", dir.display())]
    Read {
        /// The folder.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The system does not watch files for us.
    #[error(
        "watching the manifest files failed; limits such as fs.inotify.max_user_watches may be too low"
    )]
    Watch(#[from] notify::Error),
    /// Reading ended in a way that it should not.
    #[error("reading the manifest files broke off")]
    Reader(#[from] tokio::task::JoinError),
}

// === impl FileSource ===

impl FileSource {
    /// A source that has not read anything yet.
    pub fn new(config: FileConfig) -> Self {
        Self {
            config,
            metrics: FileMetrics::default(),
        }
    }

    /// Counts there.
    #[must_use]
    pub fn with_metrics(self, metrics: FileMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Reads the files, then again whenever they change, until `shutdown` or until the index is gone.
    ///
    /// Fails only before anything has been read.
    pub async fn run(
        self,
        changes: ChangeSender,
        board: StatusBoard,
        shutdown: CancellationToken,
    ) -> Result<(), FileError> {
        let mut config = self.config;
        if let Ok(dir) = std::path::absolute(&config.dir) {
            config.dir = dir;
        }
        let dir = config.dir.display().to_string();
        let bell = Bell::default();
        let watches = Watches::new(&config.dir, bell.clone())?;
        let mut tree = Tree::new(config, board, self.metrics, watches);
        let mut first = true;
        loop {
            let stop = shutdown.clone();
            // Parsing may take seconds.
            let looking = tokio::task::spawn_blocking(move || {
                let found = if first {
                    tree.open(&stop)
                } else {
                    Ok(tree.reread(&stop))
                };
                (tree, found)
            });
            let (back, found) = looking.await?;
            tree = back;
            for change in found? {
                if changes.send(change).await.is_err() {
                    return Ok(());
                }
            }
            if std::mem::replace(&mut first, false) {
                info!(%dir, "manifest files read, watching them");
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = bell.rung() => {}
                () = note_alive(&tree) => {}
            }
        }
    }
}

/// Keeps the ages of clusters low, for ever: files that do not change are as fresh as can be.
async fn note_alive(tree: &Tree) {
    loop {
        tokio::time::sleep(NOTE_INTERVAL).await;
        tree.note_alive();
    }
}

#[cfg(test)]
mod tests;
