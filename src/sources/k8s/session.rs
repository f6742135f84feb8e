//! One session with one cluster: a watch for each kind, and what they say handed to the index.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::connect::Access;
use super::convert::{Convert, Converted, Warning, convert};
use super::failure::{Failure, FailureClass};
use super::health::Health;
use super::objects;
use super::resync::{Event, ResyncBuffer};
use super::wire::Undecodable;
use super::{Shared, watch as list_watch};
use crate::index::{Change, Kind, ObjectChange};
use crate::model::{ClusterFacts, SessionId};
use crate::publish::{IndexStopped, SaidOnce};

/// Different warnings that are logged in one session; more are only counted.
const WARNINGS_MAX: usize = 200;

/// How long an API server has to say no before it is believed: one that has just started says so to everyone.
const REFUSAL_BELIEVED_AFTER: Duration = Duration::from_secs(3);

/// The same for a kind. Many clusters have none of Linkerd's own kinds, and must not start later for that: where they do
/// exist and the server has just started, they are merely read a moment after the others.
fn refusal_believed_after(kind: Kind) -> Duration {
    if kind.is_custom() {
        Duration::ZERO
    } else {
        REFUSAL_BELIEVED_AFTER
    }
}

/// One session with one cluster. It ends only when it is dropped or the index is gone.
#[derive(Debug)]
pub(super) struct ClusterSource {
    shared: Shared,
    facts: Arc<ClusterFacts>,
    id: SessionId,
    access: Arc<Access>,
    /// What to look at when something is wrong, such as a Secret's name.
    origin: String,
    health: Arc<Health>,
    streams_lists: Arc<AtomicBool>,
    /// Kinds that have not been read yet and could still be.
    pending: watch::Sender<BTreeSet<Kind>>,
    warned: Mutex<SaidOnce>,
}

// === impl ClusterSource ===

impl ClusterSource {
    pub(super) fn new(
        shared: Shared,
        facts: Arc<ClusterFacts>,
        id: SessionId,
        access: Arc<Access>,
        origin: String,
        health: Arc<Health>,
    ) -> Self {
        let pending = Kind::watched_in(facts.role, facts.endpoint_kind)
            .iter()
            .copied()
            .collect();
        Self {
            shared,
            facts,
            id,
            access,
            origin,
            health,
            streams_lists: Arc::new(AtomicBool::new(true)),
            pending: watch::Sender::new(pending),
            warned: Mutex::new(SaidOnce::up_to(WARNINGS_MAX)),
        }
    }

    /// The kinds that have not been read yet: empty when the session can replace an older one.
    pub(super) fn pending(&self) -> watch::Receiver<BTreeSet<Kind>> {
        self.pending.subscribe()
    }

    /// Watches every kind, for ever.
    pub(super) async fn run(self) -> IndexStopped {
        let source = Arc::new(self);
        let mut watches = JoinSet::new();
        for kind in Kind::watched_in(source.facts.role, source.facts.endpoint_kind) {
            let source = Arc::clone(&source);
            match kind {
                Kind::Service => watches.spawn(source.follow::<objects::Service>()),
                Kind::EndpointSlice => watches.spawn(source.follow::<objects::EndpointSlice>()),
                Kind::Endpoints => watches.spawn(source.follow::<objects::Endpoints>()),
                Kind::Pod => watches.spawn(source.follow::<objects::Pod>()),
                Kind::Node => watches.spawn(source.follow::<objects::Node>()),
                Kind::ReplicaSet => watches.spawn(source.follow::<objects::ReplicaSet>()),
                Kind::Job => watches.spawn(source.follow::<objects::Job>()),
                Kind::ExternalWorkload => {
                    watches.spawn(source.follow::<objects::ExternalWorkload>())
                }
                Kind::Server => watches.spawn(source.follow::<objects::Server>()),
                Kind::ServiceProfile => watches.spawn(source.follow::<objects::ServiceProfile>()),
            };
        }
        match watches.join_next().await {
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => IndexStopped,
        }
    }

    async fn follow<K: Convert + Send + 'static>(self: Arc<Self>) -> IndexStopped {
        let resource = list_watch::Resource::of(K::KIND);
        let streams_lists = Arc::clone(&self.streams_lists);
        let mut watch =
            list_watch::Watch::<K>::new(Arc::clone(&self.access), resource, streams_lists);
        let mut buffer = ResyncBuffer::new(K::KIND);
        let mut readable = true;
        let mut refused_since = None;
        loop {
            let change = match watch.next().await {
                Ok(event) => {
                    refused_since = None;
                    self.on_event(event, &mut buffer)
                }
                Err(failure) => {
                    if is_refusal(&failure) {
                        let since = *refused_since.get_or_insert_with(Instant::now);
                        if since.elapsed() < refusal_believed_after(K::KIND) {
                            self.count(K::KIND, &failure);
                            continue;
                        }
                        // By the time it may be read again, it may have changed.
                        watch.relist();
                    }
                    let was_readable = readable;
                    readable &= !self.on_failure(K::KIND, &failure);
                    (was_readable && !readable).then_some(ObjectChange::Unreadable(K::KIND))
                }
            };
            let Some(change) = change else { continue };
            let listed = matches!(change, ObjectChange::Resync(..));
            let settled = listed || matches!(change, ObjectChange::Unreadable(_));
            if let Err(stopped) = self.send(change).await {
                return stopped;
            }
            if listed {
                readable = true;
                self.shared
                    .metrics
                    .resync(&self.facts.name, K::KIND.resource());
                self.health.listed(K::KIND);
            }
            if settled {
                self.pending
                    .send_if_modified(|pending| pending.remove(&K::KIND));
            }
        }
    }

    async fn send(&self, change: ObjectChange) -> Result<(), IndexStopped> {
        let change = Change::Object {
            cluster: self.facts.name.clone(),
            session: self.id,
            change,
        };
        self.shared.changes.send(change).await
    }

    fn on_event<K: Convert>(
        &self,
        event: list_watch::Event<K>,
        buffer: &mut ResyncBuffer,
    ) -> Option<ObjectChange> {
        let event = match event {
            list_watch::Event::ListStarted => return buffer.on_event(Event::ListStarted),
            list_watch::Event::ListEnded => return buffer.on_event(Event::ListEnded),
            list_watch::Event::Alive => {
                self.health.heard(K::KIND);
                return None;
            }
            list_watch::Event::Undecodable(undecodable) => {
                self.on_undecodable(K::KIND, &undecodable);
                return None;
            }
            list_watch::Event::Listed(object) => Event::Listed(self.convert(&object)?),
            list_watch::Event::Applied(object) => {
                self.health.heard(K::KIND);
                if let Some(written) = object.metadata().written {
                    self.shared.metrics.lag(K::KIND, written.into());
                }
                Event::Applied(self.convert(&object)?)
            }
            list_watch::Event::Deleted(object) => {
                self.health.heard(K::KIND);
                Event::Deleted(K::object_name(object.metadata()))
            }
        };
        self.shared
            .metrics
            .event(&self.facts.name, K::KIND.resource());
        buffer.on_event(event)
    }

    /// Reports a failure; true if the kind cannot be read and answers have to do without it.
    fn on_failure(&self, kind: Kind, failure: &Failure) -> bool {
        self.count(kind, failure);
        let origin = match self.access.address() {
            Some(address) => format!("{address}, {}", self.origin),
            None => self.origin.clone(),
        };
        self.health.failed(kind, failure, &origin);
        kind.is_optional() && is_refusal(failure)
    }

    fn count(&self, kind: Kind, failure: &Failure) {
        let (cluster, resource) = (&self.facts.name, kind.resource());
        self.shared
            .metrics
            .failure(cluster, resource, failure.class.word());
        debug!(%cluster, resource, reason = %failure.reason, "watch failed");
    }

    fn convert<K: Convert>(&self, object: &K) -> Option<Converted> {
        let converted = convert(object)?;
        for warning in &converted.warnings {
            self.shared.metrics.warning(warning.class());
            if self.warned.lock().is_news(&(&converted.name, warning)) {
                let metadata = object.metadata();
                let (namespace, name) = (&metadata.namespace, &metadata.name);
                let resource = K::KIND.resource();
                let cluster = &self.facts.name;
                match warning {
                    // Usual for Services of Nodes, such as kubelets.
                    Warning::TargetKind { .. } => {
                        debug!(%cluster, resource, namespace, name, %warning, "object used in part");
                    }
                    _ => {
                        warn!(%cluster, resource, namespace, name, %warning, "object used in part");
                    }
                }
            }
        }
        Some(converted)
    }

    fn on_undecodable(&self, kind: Kind, undecodable: &Undecodable) {
        self.shared.metrics.warning("undecodable");
        if self
            .warned
            .lock()
            .is_news(&(kind, &undecodable.object, &undecodable.complaint))
        {
            warn!(
                cluster = %self.facts.name,
                resource = kind.resource(),
                object = %undecodable.object,
                error = %undecodable.complaint,
                "object not understood, keeping its last good version"
            );
        }
    }
}

/// Whether the server is there and says that a kind cannot be read.
fn is_refusal(failure: &Failure) -> bool {
    matches!(
        failure.class,
        FailureClass::Forbidden | FailureClass::Absent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_a_cluster_may_lack_are_not_waited_for() {
        for kind in Kind::ALL {
            let linkerds = matches!(
                kind,
                Kind::ExternalWorkload | Kind::Server | Kind::ServiceProfile
            );
            assert_eq!(refusal_believed_after(kind).is_zero(), linkerds, "{kind:?}");
        }
    }
}
