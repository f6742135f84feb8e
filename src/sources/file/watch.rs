//! Tells when something below a set of folders may have changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

/// Changes come in bursts: a burst is over when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(50);
/// A burst that does not end is looked at after this long.
const BURST_MAX: Duration = Duration::from_secs(1);

/// The folders that are being watched.
///
/// Each is watched for itself, by its resolved path: that is right for folders behind symbolic links, also when the links
/// are made to point elsewhere, and one folder is never watched under two names.
#[derive(Debug)]
pub(super) struct Watches {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    found: BTreeSet<PathBuf>,
    failing: bool,
}

/// Where changes are noticed.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<Notify>);

// === impl Bell ===

impl Bell {
    /// Waits until something changed and the burst of changes is over.
    pub(super) async fn rung(&self) {
        self.0.notified().await;
        let deadline = Instant::now() + BURST_MAX;
        while Instant::now() < deadline {
            tokio::select! {
                () = self.0.notified() => {}
                () = tokio::time::sleep(QUIET) => return,
            }
        }
    }
}

// === impl Watches ===

impl Watches {
    /// Watches nothing yet. `root` may be replaced as a whole: in the folder that holds it, only that is of interest.
    pub(super) fn new(root: &Path, bell: Bell) -> Result<Self, notify::Error> {
        let parent = root.parent().and_then(|parent| parent.canonicalize().ok());
        let replaced = parent
            .zip(root.file_name())
            .map(|(parent, name)| (parent.join(name), parent));
        let resolved = root.canonicalize().ok();
        let handler = move |event: notify::Result<notify::Event>| {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    warn!(%error, "watching manifest files failed, reading them again");
                    return bell.0.notify_one();
                }
            };
            let beside_root = |path: &PathBuf| {
                replaced.as_ref().is_some_and(|(root, parent)| {
                    resolved.as_ref() != Some(parent)
                        && path != root
                        && path.parent() == Some(parent)
                })
            };
            let nothing_new = is_reading(event.kind)
                || (!event.paths.is_empty() && event.paths.iter().all(beside_root));
            if !nothing_new {
                bell.0.notify_one();
            }
        };
        Ok(Self {
            watcher: notify::recommended_watcher(handler)?,
            watched: BTreeSet::new(),
            found: BTreeSet::new(),
            failing: false,
        })
    }

    /// Watches a folder, before it is read: what changes from now on will be noticed.
    pub(super) fn watch(&mut self, folder: &Path) -> Result<(), notify::Error> {
        let folder = folder.canonicalize().map_err(notify::Error::io)?;
        if !self.found.contains(&folder) {
            // Again, even if it is watched already: it may be another folder of the same name.
            self.watcher.watch(&folder, RecursiveMode::NonRecursive)?;
            self.watched.insert(folder.clone());
            self.found.insert(folder);
        }
        Ok(())
    }

    /// Like [`Watches::watch`]; failures cost liveness only, and the first of several in a row is logged.
    pub(super) fn try_watch(&mut self, folder: &Path) {
        match self.watch(folder) {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(folder = %folder.display(), %error, "cannot watch, changes in it will go unnoticed");
                }
            }
        }
    }

    /// Stops watching what has not been asked for since the last call.
    pub(super) fn forget_others(&mut self) {
        let found = std::mem::take(&mut self.found);
        for gone in self.watched.difference(&found) {
            // Fails if it does not exist any more, which is why it is let go.
            drop(self.watcher.unwatch(gone));
        }
        self.watched = found;
    }
}

/// Whether somebody only looked at a file: most often we did.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
