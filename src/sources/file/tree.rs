//! All clusters' folders: which clusters there are, and what changes in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::contents::Contents;
use super::links::Links;
use super::listing::{Listing, is_hidden, is_manifest};
use super::metrics::FileMetrics;
use super::watch::Watches;
use super::{FileConfig, FileError};
use crate::index::{Change, Kind, ObjectChange};
use crate::model::{ClusterFacts, ClusterName, ClusterRole, SessionId, Text};
use crate::publish::{Connection, KindStatus, StatusBoard};

/// Everything that is known of the files. Looking at them blocks, so it happens away from the async threads.
#[derive(Debug)]
pub(super) struct Tree {
    config: FileConfig,
    board: StatusBoard,
    metrics: FileMetrics,
    watches: Watches,
    clusters: BTreeMap<ClusterName, Cluster>,
    /// Set for good once a link Secret has been seen.
    secrets_decide: bool,
    links_known: bool,
    sessions: u64,
    /// What has been warned of and still is the case.
    problems: BTreeSet<String>,
}

/// A cluster that is the home cluster or linked.
#[derive(Debug)]
struct Cluster {
    facts: Arc<ClusterFacts>,
    contents: Contents,
    /// The session in which its objects are told, and what it was opened with.
    opened: Option<(SessionId, Arc<ClusterFacts>)>,
    /// Whether its folder was there at the last look.
    present: bool,
}

/// What the manifests folder itself holds.
struct Root {
    folders: BTreeSet<String>,
    strays: BTreeSet<PathBuf>,
}

// === impl Tree ===

impl Tree {
    pub(super) fn new(
        config: FileConfig,
        board: StatusBoard,
        metrics: FileMetrics,
        watches: Watches,
    ) -> Self {
        Self {
            config,
            board,
            metrics,
            watches,
            clusters: BTreeMap::new(),
            secrets_decide: false,
            links_known: false,
            sessions: 0,
            problems: BTreeSet::new(),
        }
    }

    /// Looks at everything for the first time.
    pub(super) fn open(&mut self, shutdown: &CancellationToken) -> Result<Vec<Change>, FileError> {
        let dir = self.config.dir.clone();
        match std::fs::metadata(&dir) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(FileError::NotAFolder { dir }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FileError::Missing { dir });
            }
            Err(source) => return Err(FileError::Read { dir, source }),
        }
        self.watches.watch(&dir)?;
        self.watch_root();
        let root = Root::of(&dir).map_err(|source| FileError::Read {
            dir: dir.clone(),
            source,
        })?;
        let home = self.config.home.clone();
        if !root.folders.contains(home.as_str()) {
            return Err(FileError::NoHome { dir, home });
        }
        let changes = self.scan(&root, shutdown);
        if !self.secrets_decide {
            let linked = self.clusters.len() - 1;
            info!(
                linked,
                "no Secret links a cluster, so every folder is a linked cluster"
            );
        }
        Ok(changes)
    }

    /// Looks at everything again and says what is different.
    pub(super) fn reread(&mut self, shutdown: &CancellationToken) -> Vec<Change> {
        self.watch_root();
        match Root::of(&self.config.dir) {
            Ok(root) => self.scan(&root, shutdown),
            Err(error) => {
                let reason = format!("{} cannot be read: {error}", self.config.dir.display());
                for name in self.clusters.keys() {
                    self.board
                        .report(name, Connection::Unreachable(reason.clone()));
                }
                for cluster in self.clusters.values_mut() {
                    cluster.present = false;
                }
                Vec::new()
            }
        }
    }

    /// Notes that what is known is up to date: changes would have been noticed.
    pub(super) fn note_alive(&self) {
        for (name, cluster) in self.clusters.iter().filter(|(_, cluster)| cluster.present) {
            for kind in watched(&cluster.facts) {
                self.board.heard(name, *kind);
            }
        }
    }

    fn scan(&mut self, root: &Root, shutdown: &CancellationToken) -> Vec<Change> {
        let home = self.config.home.clone();
        if !self.clusters.contains_key(&home) {
            let trust_domain = self.config.trust_domain.clone();
            self.add(self.facts(&home, ClusterRole::Home, trust_domain));
        }
        let mut problems: BTreeSet<_> = root
            .strays
            .iter()
            .map(|stray| {
                let stray = self.config.dir.join(stray);
                format!(
                    "manifest file {} is ignored: it is in no cluster's folder",
                    stray.display()
                )
            })
            .collect();
        let mut objects = self.update(&home);
        let mut changes = self.relink(&root.folders, &mut problems);
        // Links first: a Service with members elsewhere then waits for them instead of being answered without.
        changes.append(&mut objects);
        let linked: Vec<_> = self
            .clusters
            .keys()
            .filter(|name| **name != home)
            .cloned()
            .collect();
        for name in linked {
            if shutdown.is_cancelled() {
                return Vec::new();
            }
            changes.extend(self.update(&name));
        }
        for problem in problems.difference(&self.problems) {
            warn!("{problem}");
        }
        self.problems = problems;
        self.watches.forget_others();
        self.note_alive();
        changes
    }

    /// Works out which clusters are linked, and says what is different.
    fn relink(
        &mut self,
        folders: &BTreeSet<String>,
        problems: &mut BTreeSet<String>,
    ) -> Vec<Change> {
        let home = self.config.home.clone();
        let secrets = self
            .clusters
            .get(&home)
            .map(|cluster| cluster.contents.link_secrets());
        let namespace = self.config.control_plane_namespace.as_str();
        let links = Links::of(secrets.unwrap_or_default(), namespace, &home);
        if links.any && !self.secrets_decide {
            self.secrets_decide = true;
            info!("Secrets of the home cluster say which clusters are linked");
        }
        problems.extend(links.problems);
        let mut wanted = links.trust_domains;
        for folder in folders.iter().filter(|folder| *folder != home.as_str()) {
            let name = ClusterName::from(folder.as_str());
            if !self.secrets_decide {
                wanted.insert(name, self.config.trust_domain.clone());
            } else if !wanted.contains_key(&name) {
                let dir = self.config.dir.join(folder);
                problems.insert(format!(
                    "folder {} is ignored: no Secret in the home cluster's folder links cluster {name}",
                    dir.display()
                ));
            }
        }
        let mut changes = Vec::new();
        let unlinked: Vec<_> = self
            .clusters
            .keys()
            .filter(|name| **name != home && !wanted.contains_key(*name))
            .cloned()
            .collect();
        for cluster in unlinked {
            self.clusters.remove(&cluster);
            self.board.remove(&cluster);
            self.metrics.forget(&cluster);
            info!(%cluster, "cluster unlinked");
            changes.push(Change::Unlinked { cluster });
        }
        for (name, trust_domain) in wanted {
            let facts = self.facts(&name, ClusterRole::Linked, trust_domain);
            if let Some(cluster) = self.clusters.get_mut(&name) {
                cluster.facts = facts;
            } else {
                self.add(facts);
                info!(cluster = %name, "cluster linked");
                changes.push(Change::Linked { cluster: name });
            }
        }
        if !std::mem::replace(&mut self.links_known, true) {
            changes.push(Change::LinksKnown);
        }
        changes
    }

    fn add(&mut self, facts: Arc<ClusterFacts>) {
        let name = facts.name.clone();
        self.board.add(&name, facts.role, facts.endpoint_kind);
        let cluster = Cluster {
            contents: self.contents(&facts),
            opened: None,
            present: false,
            facts,
        };
        self.clusters.insert(name, cluster);
    }

    fn facts(
        &self,
        name: &ClusterName,
        role: ClusterRole,
        trust_domain: Text,
    ) -> Arc<ClusterFacts> {
        Arc::new(ClusterFacts {
            name: name.clone(),
            role,
            trust_domain,
            endpoint_kind: self.config.endpoint_kind,
        })
    }

    fn contents(&self, facts: &ClusterFacts) -> Contents {
        let folder = self.config.dir.join(facts.name.as_str());
        Contents::new(
            facts.name.clone(),
            watched(facts),
            folder,
            self.metrics.clone(),
        )
    }

    /// Looks at one cluster's folder and says what is different.
    fn update(&mut self, name: &ClusterName) -> Vec<Change> {
        let folder = self.config.dir.join(name.as_str());
        let listing = Listing::of(&folder, &mut self.watches);
        let Some(mut cluster) = self.clusters.remove(name) else {
            return Vec::new();
        };
        let changes = match listing {
            Ok(Some(listing)) => {
                cluster.present = true;
                let changes = self.update_from(&mut cluster, &listing);
                self.board.report(name, Connection::Connected);
                changes
            }
            Ok(None) => {
                cluster.present = false;
                let reason = format!("there is no folder {}", folder.display());
                self.board.report(name, Connection::Unreachable(reason));
                Vec::new()
            }
            Err(error) => {
                cluster.present = false;
                let reason = format!("{} cannot be read: {error}", folder.display());
                self.board.report(name, Connection::Unreachable(reason));
                Vec::new()
            }
        };
        self.clusters.insert(name.clone(), cluster);
        changes
    }

    fn update_from(&mut self, cluster: &mut Cluster, listing: &Listing) -> Vec<Change> {
        let facts = Arc::clone(&cluster.facts);
        let Some((session, opened)) = cluster.opened.clone() else {
            let resyncs = cluster
                .contents
                .update(listing)
                .into_resyncs(watched(&facts));
            return self.open_session(cluster, resyncs);
        };
        let edits = cluster.contents.update(listing);
        // Identities in another trust domain need a session of their own, and that needs every object. What files define
        // that are broken now cannot be had again, so the old session goes on until they are repaired.
        if opened != facts && !cluster.contents.is_broken() {
            let mut contents = self.contents(&facts);
            let resyncs = contents.update(listing).into_resyncs(watched(&facts));
            if !contents.is_broken() {
                cluster.contents = contents;
                return self.open_session(cluster, resyncs);
            }
        }
        let changes = edits.into_changes();
        if !changes.is_empty() {
            info!(cluster = %facts.name, changes = changes.len(), "manifest files changed");
        }
        say(&facts.name, session, changes).collect()
    }

    fn open_session(&mut self, cluster: &mut Cluster, resyncs: Vec<ObjectChange>) -> Vec<Change> {
        let facts = Arc::clone(&cluster.facts);
        self.sessions += 1;
        let session = SessionId(self.sessions);
        cluster.opened = Some((session, Arc::clone(&facts)));
        for kind in watched(&facts) {
            self.board
                .report_kind(&facts.name, *kind, KindStatus::Watched);
        }
        let name = facts.name.clone();
        std::iter::once(Change::Opened { facts, session })
            .chain(say(&name, session, resyncs))
            .collect()
    }

    /// Watches the manifests folder and, since it may be replaced as a whole, the one that holds it.
    fn watch_root(&mut self) {
        if let Some(parent) = self.config.dir.parent() {
            self.watches.try_watch(parent);
        }
        if self.config.dir.is_dir() {
            self.watches.try_watch(&self.config.dir.clone());
        }
    }
}

// === impl Root ===

impl Root {
    fn of(dir: &Path) -> io::Result<Self> {
        let mut root = Self {
            folders: BTreeSet::new(),
            strays: BTreeSet::new(),
        };
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_hidden(&name) {
                continue;
            }
            if std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) {
                // No cluster has a name that is not UTF-8.
                root.folders.extend(name.into_string());
            } else if is_manifest(Path::new(&name)) {
                root.strays.insert(name.into());
            }
        }
        Ok(root)
    }
}

fn watched(facts: &ClusterFacts) -> &'static [Kind] {
    Kind::watched_in(facts.role, facts.endpoint_kind)
}

fn say(
    cluster: &ClusterName,
    session: SessionId,
    changes: Vec<ObjectChange>,
) -> impl Iterator<Item = Change> {
    changes.into_iter().map(move |change| Change::Object {
        cluster: cluster.clone(),
        session,
        change,
    })
}
