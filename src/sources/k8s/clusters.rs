//! The linked clusters: one session for each, made, replaced and ended as credential Secrets come, change and go.
//!
//! New credentials are tried in a session beside the old one, which goes on until the new one has read every kind; the
//! index then takes over what it said, at once. Credentials that cannot be used change nothing but the status. What fails
//! in one cluster stays there.
//!
//! While Secrets may not be read, nothing is known of links: that is not said to be "no links", so answers that need a
//! linked cluster stay incomplete, and everything in the home cluster is answered as ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::connect::{Access, Origin};
use super::failure::{Failure, FailureClass};
use super::health::{Health, Voice};
use super::links::{Definition, Links, SECRET_TYPE_SELECTOR};
use super::objects::Secret;
use super::session::ClusterSource;
use super::strays::watch_strays;
use super::survey::{watch_controllers, watch_links};
use super::watch::{Event, Resource, Watch};
use super::{KubernetesConfig, Shared};
use crate::index::{Change, Kind};
use crate::model::{ClusterFacts, ClusterName, ClusterRole, SessionId, Text};
use crate::publish::{Connection, IndexStopped};

/// Notices that may wait for the store.
const INBOX_MAX: usize = 64;

/// How Secrets are called in metrics and logs.
const SECRETS: &str = "secrets";

const EVERYTHING: Voice = Voice {
    connection: true,
    kinds: true,
};

/// Which clusters are linked, and the sessions with them.
#[derive(Debug)]
pub(super) struct ClusterStore {
    shared: Shared,
    config: Arc<KubernetesConfig>,
    home: Arc<Access>,
    links: Links,
    /// What was said last of Secrets that link nothing.
    complaints: BTreeMap<Text, String>,
    running: BTreeMap<ClusterName, Running>,
    tasks: JoinSet<Result<(), IndexStopped>>,
    notices: mpsc::Sender<Notice>,
    inbox: mpsc::Receiver<Notice>,
    secrets: SecretsState,
    links_known: bool,
}

/// What the store is told by its tasks.
#[derive(Debug)]
enum Notice {
    /// The watch of Secrets reports.
    Secrets(Box<Result<Event<Secret>, Failure>>),
    /// A session has read every kind.
    Synced(ClusterName, SessionId),
}

/// The sessions with one cluster.
#[derive(Debug, Default)]
struct Running {
    live: Option<Session>,
    /// Takes the place of `live` when it has read every kind.
    next: Option<Session>,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    definition: Arc<Definition>,
    health: Arc<Health>,
    is_synced: bool,
    /// Kinds that have not been read yet.
    pending: watch::Receiver<BTreeSet<Kind>>,
    stop: CancellationToken,
}

#[derive(Debug, PartialEq, Eq)]
enum SecretsState {
    Starting,
    Watched,
    Failing(FailureClass),
}

// === impl ClusterStore ===

impl ClusterStore {
    /// A store that finds Secrets through `home`.
    pub(super) fn new(shared: Shared, config: Arc<KubernetesConfig>, home: Arc<Access>) -> Self {
        let (notices, inbox) = mpsc::channel(INBOX_MAX);
        Self {
            shared,
            config,
            home,
            links: Links::default(),
            complaints: BTreeMap::new(),
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            notices,
            inbox,
            secrets: SecretsState::Starting,
            links_known: false,
        }
    }

    /// Follows Secrets and keeps sessions, for ever.
    pub(super) async fn run(mut self) -> IndexStopped {
        self.tasks.spawn(watch_secrets(
            Arc::clone(&self.home),
            self.config.control_plane_namespace.to_string(),
            self.notices.clone(),
        ));
        let namespace = self.config.control_plane_namespace.to_string();
        let board = &self.shared.board;
        self.tasks.spawn(watch_strays(
            Arc::clone(&self.home),
            namespace.clone(),
            board.clone(),
        ));
        self.tasks
            .spawn(watch_links(Arc::clone(&self.home), board.clone()));
        self.tasks.spawn(watch_controllers(
            Arc::clone(&self.home),
            namespace,
            board.clone(),
        ));
        loop {
            tokio::select! {
                Some(notice) = self.inbox.recv() => {
                    if let Err(stopped) = self.on_notice(notice).await {
                        return stopped;
                    }
                }
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Err(stopped)) => return stopped,
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // A session that was stopped.
                    Ok(Ok(())) | Err(_) => {}
                },
            }
        }
    }

    async fn on_notice(&mut self, notice: Notice) -> Result<(), IndexStopped> {
        match notice {
            Notice::Secrets(reported) => match *reported {
                Ok(event) => self.on_secret(event).await,
                Err(failure) => {
                    self.on_secrets_failure(&failure);
                    Ok(())
                }
            },
            Notice::Synced(cluster, id) => {
                self.on_synced(&cluster, id);
                Ok(())
            }
        }
    }

    async fn on_secret(&mut self, event: Event<Secret>) -> Result<(), IndexStopped> {
        let home = &self.config.home;
        let (affected, is_list) = match event {
            Event::ListStarted => {
                self.links.list_started();
                return Ok(());
            }
            Event::Listed(secret) => {
                self.links.listed(&secret);
                return Ok(());
            }
            Event::Alive => {
                self.on_secrets_watched();
                return Ok(());
            }
            Event::Undecodable(undecodable) => {
                self.shared.metrics.warning("undecodable");
                let (secret, error) = (undecodable.object, undecodable.complaint);
                warn!(%secret, %error, "Secret not understood, keeping its last good version");
                return Ok(());
            }
            Event::ListEnded => (self.links.list_ended(), true),
            Event::Applied(secret) => (self.links.applied(&secret), false),
            Event::Deleted(secret) => (self.links.deleted(&secret), false),
        };
        if is_list {
            self.shared.metrics.resync(home, SECRETS);
        }
        self.shared.metrics.event(home, SECRETS);
        for cluster in affected {
            self.reconcile(cluster).await?;
        }
        self.complain();
        if is_list && !self.links_known {
            self.links_known = true;
            self.shared.changes.send(Change::LinksKnown).await?;
        }
        Ok(())
    }

    /// Logs what is wrong with Secrets that link nothing, where it is news.
    fn complain(&mut self) {
        let complaints = self.links.complaints(&self.config.home);
        for (name, reason) in &complaints {
            if self.complaints.get(name) != Some(reason) {
                let namespace = &self.config.control_plane_namespace;
                warn!(secret = %format_args!("{namespace}/{name}"), %reason, "Secret links no cluster");
            }
        }
        let namespace = &self.config.control_plane_namespace;
        let named = complaints
            .iter()
            .map(|(name, reason)| (format!("{namespace}/{name}"), reason.clone()));
        let idle = named.collect();
        self.shared
            .board
            .survey(|survey| survey.idle_secrets = idle);
        self.complaints = complaints;
    }

    fn on_secrets_watched(&mut self) {
        if self.secrets != SecretsState::Watched {
            let namespace = &self.config.control_plane_namespace;
            info!(%namespace, "watching Secrets for linked clusters");
            self.secrets = SecretsState::Watched;
            self.shared
                .board
                .survey(|survey| survey.secrets_trouble = None);
        }
    }

    fn on_secrets_failure(&mut self, failure: &Failure) {
        let home = &self.config.home;
        self.shared
            .metrics
            .failure(home, SECRETS, failure.class.word());
        let state = SecretsState::Failing(failure.class);
        if failure.class == FailureClass::Expired || self.secrets == state {
            return;
        }
        self.secrets = state;
        let trouble = Some(failure.reason.clone());
        self.shared
            .board
            .survey(|survey| survey.secrets_trouble = trouble);
        let namespace = &self.config.control_plane_namespace;
        let reason = &failure.reason;
        if failure.class == FailureClass::Forbidden {
            warn!(
                %namespace,
                %reason,
                "not allowed to list and watch Secrets: grant it in this namespace, or no cluster can be linked"
            );
        } else {
            warn!(%namespace, %reason, "cannot watch Secrets, links stay as they are until it works again");
        }
    }

    fn on_synced(&mut self, cluster: &ClusterName, id: SessionId) {
        let Some(running) = self.running.get_mut(cluster) else {
            return;
        };
        if let Some(live) = running.live.as_mut().filter(|live| live.id == id) {
            live.is_synced = true;
        } else if let Some(mut next) = running.next.take_if(|next| next.id == id) {
            info!(%cluster, secret = %next.definition.secret, "new credentials of cluster in use");
            next.is_synced = true;
            next.health.speak(EVERYTHING);
            running.live = Some(next);
        }
    }

    /// Takes note of sessions that have read every kind, though the notice of it may still be waiting.
    ///
    /// The index may use them already: dropping one as if it had never come to anything would leave the index with a
    /// session that says nothing more.
    fn catch_up(&mut self, cluster: &ClusterName) {
        let Some(running) = self.running.get(cluster) else {
            return;
        };
        let sessions = [&running.live, &running.next].into_iter().flatten();
        let synced: Vec<_> = sessions
            .filter(|session| session.pending.borrow().is_empty())
            .map(|session| session.id)
            .collect();
        for id in synced {
            self.on_synced(cluster, id);
        }
    }

    /// Makes the sessions of a cluster what the Secrets say they should be.
    async fn reconcile(&mut self, cluster: ClusterName) -> Result<(), IndexStopped> {
        if cluster == self.config.home {
            return Ok(());
        }
        self.catch_up(&cluster);
        let Some(winner) = self.links.winner(&cluster) else {
            return self.unlink(cluster).await;
        };
        let (definition, drain) = (winner.definition.clone(), winner.drain);
        let is_new = !self.running.contains_key(&cluster);
        if is_new {
            let endpoints = self.config.endpoint_kind;
            self.shared
                .board
                .add(&cluster, ClusterRole::Linked, endpoints);
            let change = Change::Linked {
                cluster: cluster.clone(),
            };
            // What is wrong with a Secret that cannot be used is said below.
            let secret = definition.as_ref().ok();
            let secret = secret.map(|definition| definition.secret.as_str());
            info!(%cluster, secret, "cluster linked");
            self.shared.changes.send(change).await?;
            self.running.insert(cluster.clone(), Running::default());
        }
        match drain {
            // Nobody has used it yet who comes to us now: there is nothing to take away bit by bit.
            Some(over) if is_new => self.shared.board.drained(&cluster, over),
            over => self.shared.board.drain(&cluster, over),
        }
        match definition {
            Ok(definition) => self.use_definition(cluster, definition).await,
            Err(reason) => {
                self.reject(&cluster, reason);
                Ok(())
            }
        }
    }

    async fn unlink(&mut self, cluster: ClusterName) -> Result<(), IndexStopped> {
        if self.running.remove(&cluster).is_none() {
            return Ok(());
        }
        info!(%cluster, "cluster unlinked");
        self.shared.board.remove(&cluster);
        let mut resources = vec![SECRETS];
        resources.extend(
            Kind::watched_in(ClusterRole::Linked, self.config.endpoint_kind)
                .iter()
                .map(|kind| kind.resource()),
        );
        self.shared.metrics.forget(
            &cluster,
            &resources,
            &FailureClass::ALL.map(FailureClass::word),
        );
        self.shared.changes.send(Change::Unlinked { cluster }).await
    }

    /// The Secret cannot be used: what was there before it goes on.
    fn reject(&mut self, cluster: &ClusterName, reason: String) {
        let Some(running) = self.running.get_mut(cluster) else {
            return;
        };
        running.next = None;
        if let Some(live) = &running.live {
            live.health.speak(Voice {
                connection: false,
                kinds: true,
            });
        }
        self.shared
            .board
            .report(cluster, Connection::Rejected(reason));
    }

    async fn use_definition(
        &mut self,
        cluster: ClusterName,
        definition: Arc<Definition>,
    ) -> Result<(), IndexStopped> {
        self.shared.board.describe(&cluster, definition.describe());
        let Some(running) = self.running.get_mut(&cluster) else {
            return Ok(());
        };
        let is_wanted = |session: &Session| session.definition.same_link(&definition);
        if running.next.as_ref().is_some_and(is_wanted) {
            return Ok(());
        }
        running.next = None;
        if let Some(live) = running.live.as_ref().filter(|live| is_wanted(live)) {
            live.health.speak(EVERYTHING);
            return Ok(());
        }
        // A session that has read nothing yet is not worth keeping.
        running.live.take_if(|live| !live.is_synced);
        let voice = Voice {
            connection: true,
            kinds: running.live.is_none(),
        };
        if let Some(live) = &running.live {
            live.health.speak(Voice {
                connection: false,
                kinds: true,
            });
        }
        self.shared.board.report(&cluster, Connection::Connecting);
        let session = self.open(&cluster, definition, voice).await?;
        if let Some(running) = self.running.get_mut(&cluster) {
            let place = match running.live {
                None => &mut running.live,
                Some(_) => &mut running.next,
            };
            *place = Some(session);
        }
        Ok(())
    }

    async fn open(
        &mut self,
        cluster: &ClusterName,
        definition: Arc<Definition>,
        voice: Voice,
    ) -> Result<Session, IndexStopped> {
        let id = self.shared.next_session();
        let facts = Arc::new(ClusterFacts {
            name: cluster.clone(),
            role: ClusterRole::Linked,
            trust_domain: definition.trust_domain.clone(),
            endpoint_kind: self.config.endpoint_kind,
        });
        let config = definition.credentials.config().clone();
        let access = Arc::new(Access::new(
            Origin::Fixed(Box::new(config)),
            self.shared.metrics.requests.clone(),
            self.shared.board.clock(cluster),
        ));
        let board = self.shared.board.clone();
        let health = Arc::new(Health::new(&facts, board, voice));
        let opened = Change::Opened {
            facts: Arc::clone(&facts),
            session: id,
        };
        self.shared.changes.send(opened).await?;
        let source = ClusterSource::new(
            self.shared.clone(),
            facts,
            id,
            access,
            format!("Secret {}", definition.secret),
            Arc::clone(&health),
        );
        let stop = CancellationToken::new();
        let pending = source.pending();
        let task = run_session(source, cluster.clone(), id, self.notices.clone());
        let stopped = stop.clone();
        self.tasks.spawn(async move {
            match stopped.run_until_cancelled(task).await {
                Some(stopped) => Err(stopped),
                None => Ok(()),
            }
        });
        Ok(Session {
            id,
            definition,
            health,
            is_synced: false,
            pending,
            stop,
        })
    }
}

// === impl Session ===

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Runs a session, and tells the store when it has read every kind.
async fn run_session(
    source: ClusterSource,
    cluster: ClusterName,
    id: SessionId,
    notices: mpsc::Sender<Notice>,
) -> IndexStopped {
    let mut pending = source.pending();
    let tell = async move {
        if pending.wait_for(BTreeSet::is_empty).await.is_ok() {
            let synced = Notice::Synced(cluster, id);
            if notices.send(synced).await.is_err() {
                debug!("the store is gone");
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        stopped = source.run() => stopped,
        () = tell => IndexStopped,
    }
}

async fn watch_secrets(
    access: Arc<Access>,
    namespace: String,
    notices: mpsc::Sender<Notice>,
) -> Result<(), IndexStopped> {
    let resource = Resource::secrets(&namespace, SECRET_TYPE_SELECTOR, None);
    let mut watch = Watch::<Secret>::new(access, resource, Arc::new(AtomicBool::new(true)));
    loop {
        let notice = Notice::Secrets(Box::new(watch.next().await));
        if notices.send(notice).await.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
