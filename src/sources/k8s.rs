//! Kubernetes clusters: the home cluster and those linked to it.
//!
//! [`KubernetesSource`] watches the home cluster and the Secrets that link others to it, and keeps one session with each.
//! It hands [`Change`]s to the index, tells the [`StatusBoard`] how each cluster is doing, and only reads.

pub mod convert;
pub mod objects;

mod clusters;
mod connect;
mod credentials;
pub(super) mod drain;
mod expiry;
mod failure;
mod health;
mod links;
mod resync;
mod session;
mod strays;
mod survey;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod untrusted;
mod watch;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::clusters::ClusterStore;
use self::connect::{Access, Origin};
use self::health::{Health, Voice};
use self::session::ClusterSource;
use super::metrics::{RequestMetrics, SourceMetrics};
use crate::index::Change;
use crate::model::{
    ClusterFacts, ClusterName, ClusterRole, EndpointKind, Namespace, SessionId, Text,
};
use crate::publish::{ChangeSender, Clock, IndexStopped, StatusBoard};

/// Which cluster is home, and how it is reached.
#[derive(Clone, Debug)]
pub struct KubernetesConfig {
    /// Name of the home cluster.
    pub home: ClusterName,
    /// Suffix of the identities of the home cluster's Pods.
    pub trust_domain: Text,
    /// Namespace of the Secrets that link clusters.
    pub control_plane_namespace: Namespace,
    /// Kubeconfig of the home cluster, with its current context; `None` for the service account of the Pod we run in.
    ///
    /// It is trusted: it may name files and commands. Files are read again when the API server rejects what was in them.
    pub kubeconfig: Option<PathBuf>,
    /// What the endpoints of Services are read from, in every cluster.
    pub endpoint_kind: EndpointKind,
}

/// The home cluster and everything linked to it, as a source of changes.
#[derive(Debug)]
pub struct KubernetesSource {
    config: Arc<KubernetesConfig>,
    shared: Shared,
}

/// A way to the home cluster's API server, for those who write to it. Clones share one client.
#[derive(Clone, Debug)]
pub struct HomeAccess(Arc<Access>);

/// What every session needs. Clones share it.
#[derive(Clone, Debug)]
struct Shared {
    changes: ChangeSender,
    board: StatusBoard,
    metrics: SourceMetrics,
    sessions: Arc<AtomicU64>,
}

// === impl HomeAccess ===

impl HomeAccess {
    /// By this kubeconfig, or else as the Pod that we run in; see [`KubernetesConfig::kubeconfig`].
    pub fn new(kubeconfig: Option<PathBuf>) -> Self {
        let origin = kubeconfig.map_or(Origin::InCluster, Origin::Kubeconfig);
        // Whoever writes counts his requests himself.
        Self(Arc::new(Access::new(
            origin,
            RequestMetrics::default(),
            Clock::default(),
        )))
    }

    /// A client, the same one until [`Self::refresh`], or why there is none.
    pub async fn client(&self) -> Result<kube::Client, String> {
        self.0.client().await.map_err(|failure| failure.reason)
    }

    /// Reads the credentials again before the next request.
    pub fn refresh(&self) {
        self.0.refresh();
    }
}

// === impl KubernetesSource ===

impl KubernetesSource {
    /// A source that has not begun.
    pub fn new(
        config: KubernetesConfig,
        changes: ChangeSender,
        board: StatusBoard,
        metrics: SourceMetrics,
    ) -> Self {
        Self {
            config: Arc::new(config),
            shared: Shared {
                changes,
                board,
                metrics,
                sessions: Arc::default(),
            },
        }
    }

    /// Watches until it is told to stop. Whatever cannot be reached or read is tried again, for ever.
    ///
    /// Fails only if the index is gone.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), IndexStopped> {
        match shutdown.run_until_cancelled(self.watch()).await {
            Some(stopped) => Err(stopped),
            None => Ok(()),
        }
    }

    async fn watch(self) -> IndexStopped {
        let Self { config, shared } = self;
        let (origin, described) = match &config.kubeconfig {
            Some(path) => (
                Origin::Kubeconfig(path.clone()),
                format!("kubeconfig {}", path.display()),
            ),
            None => (Origin::InCluster, "service account of this Pod".to_owned()),
        };
        let facts = Arc::new(ClusterFacts {
            name: config.home.clone(),
            role: ClusterRole::Home,
            trust_domain: config.trust_domain.clone(),
            endpoint_kind: config.endpoint_kind,
        });
        info!(cluster = %config.home, origin = %described, "waiting for the home cluster to be read");
        let id = shared.next_session();
        shared
            .board
            .add(&facts.name, facts.role, facts.endpoint_kind);
        let access = Arc::new(Access::new(
            origin,
            shared.metrics.requests.clone(),
            shared.board.clock(&facts.name),
        ));
        let opened = Change::Opened {
            facts: Arc::clone(&facts),
            session: id,
        };
        if let Err(stopped) = shared.changes.send(opened).await {
            return stopped;
        }
        let voice = Voice {
            connection: true,
            kinds: true,
        };
        let health = Health::new(&facts, shared.board.clone(), voice);
        let home = ClusterSource::new(
            shared.clone(),
            facts,
            id,
            Arc::clone(&access),
            described,
            Arc::new(health),
        );
        let store = ClusterStore::new(shared, config, access);
        let mut tasks = JoinSet::new();
        tasks.spawn(home.run());
        tasks.spawn(store.run());
        match tasks.join_next().await {
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => IndexStopped,
        }
    }
}

// === impl Shared ===

impl Shared {
    fn next_session(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Connection, change_channel};

    fn source(changes: ChangeSender, board: StatusBoard) -> KubernetesSource {
        let config = KubernetesConfig {
            home: "home".into(),
            trust_domain: "cluster.local".into(),
            control_plane_namespace: "linkerd".into(),
            kubeconfig: Some("/nonexistent/config".into()),
            endpoint_kind: EndpointKind::EndpointSlice,
        };
        KubernetesSource::new(config, changes, board, SourceMetrics::default())
    }

    #[tokio::test]
    async fn an_unusable_home_is_reported_until_told_to_stop() {
        let (changes, _receiver) = change_channel();
        let (board, shutdown) = (StatusBoard::default(), CancellationToken::new());
        let running = source(changes, board.clone()).run(shutdown.clone());
        let watching = async {
            loop {
                let status = board.status(&ClusterName::from("home"));
                if let Some(Connection::Rejected(reason)) = status.map(|status| status.connection) {
                    shutdown.cancel();
                    return reason;
                }
                tokio::task::yield_now().await;
            }
        };
        let (ended, reason) = tokio::join!(running, watching);
        assert_eq!(ended, Ok(()));
        assert!(
            reason.starts_with("cannot use the kubeconfig /nonexistent/config"),
            "{reason}"
        );
    }

    #[tokio::test]
    async fn without_an_index_there_is_nothing_to_do() {
        let (changes, receiver) = change_channel();
        drop(receiver);
        let ended = source(changes, StatusBoard::default())
            .run(CancellationToken::new())
            .await;
        assert_eq!(ended, Err(IndexStopped));
    }
}
