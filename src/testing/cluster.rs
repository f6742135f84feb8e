//! What a cluster says, as changes.

use std::sync::Arc;

use super::objects::{ServiceBuilder, SliceBuilder};
use super::{PodBuilder, objects};
use crate::index::{Change, Kind, Object, ObjectChange, ObjectName};
use crate::model::{ClusterFacts, ClusterName, ClusterRole, EndpointKind, SessionId, Text};

/// Name of the home cluster in tests.
pub const HOME: &str = "home";

/// One session with one cluster.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    name: ClusterName,
    session: u64,
    trust_domain: Text,
    endpoint_kind: EndpointKind,
}

/// The first session with the home cluster.
pub fn home() -> ClusterBuilder {
    cluster(HOME)
}

/// The first session with a cluster; a linked one, unless it is [`HOME`]. Its trust domain is `NAME.example`.
pub fn cluster(name: &str) -> ClusterBuilder {
    ClusterBuilder {
        name: name.into(),
        session: 1,
        trust_domain: format!("{name}.example").into(),
        endpoint_kind: EndpointKind::EndpointSlice,
    }
}

// === impl ClusterBuilder ===

impl ClusterBuilder {
    /// Another session with the same cluster.
    #[must_use]
    pub fn session(mut self, id: u64) -> Self {
        self.session = id;
        self
    }

    /// With another trust domain.
    #[must_use]
    pub fn trusting(mut self, trust_domain: &str) -> Self {
        self.trust_domain = trust_domain.into();
        self
    }

    /// Read from Endpoints objects in place of EndpointSlices.
    #[must_use]
    pub fn of_endpoints(mut self) -> Self {
        self.endpoint_kind = EndpointKind::Endpoints;
        self
    }

    /// The cluster's name.
    pub fn name(&self) -> ClusterName {
        self.name.clone()
    }

    /// Home or linked.
    pub fn role(&self) -> ClusterRole {
        if self.name.as_str() == HOME {
            ClusterRole::Home
        } else {
            ClusterRole::Linked
        }
    }

    /// The kinds that are watched there.
    pub fn kinds(&self) -> &'static [Kind] {
        Kind::watched_in(self.role(), self.endpoint_kind)
    }

    /// The cluster is linked.
    pub fn linked(&self) -> Change {
        Change::Linked {
            cluster: self.name(),
        }
    }

    /// The cluster is not linked any more.
    pub fn unlinked(&self) -> Change {
        Change::Unlinked {
            cluster: self.name(),
        }
    }

    /// The session begins.
    pub fn opened(&self) -> Change {
        Change::Opened {
            facts: Arc::new(ClusterFacts {
                name: self.name(),
                role: self.role(),
                trust_domain: self.trust_domain.clone(),
                endpoint_kind: self.endpoint_kind,
            }),
            session: SessionId(self.session),
        }
    }

    /// An object is there, or says something else now.
    pub fn apply(&self, object: impl Into<Object>) -> Change {
        self.say(ObjectChange::Apply(object.into()))
    }

    /// An object is gone.
    pub fn delete(&self, object: impl Into<Object>) -> Change {
        self.delete_named(object.into().name())
    }

    /// The object of this name is gone.
    pub fn delete_named(&self, name: ObjectName) -> Change {
        self.say(ObjectChange::Delete(name))
    }

    /// These are all objects of a kind.
    pub fn resync(&self, kind: Kind, objects: impl IntoIterator<Item = Object>) -> Change {
        self.say(ObjectChange::Resync(kind, objects.into_iter().collect()))
    }

    /// A kind may not be read.
    pub fn unreadable(&self, kind: Kind) -> Change {
        self.say(ObjectChange::Unreadable(kind))
    }

    /// Every kind is read, and these objects are all there are.
    pub fn synced(&self, objects: impl IntoIterator<Item = Object>) -> Vec<Change> {
        let objects: Vec<Object> = objects.into_iter().collect();
        self.kinds()
            .iter()
            .map(|kind| {
                let of_kind = objects
                    .iter()
                    .filter(|object| object.name().kind() == *kind);
                self.resync(*kind, of_kind.cloned())
            })
            .collect()
    }

    /// The session begins, and every kind is read.
    pub fn begins_with(&self, objects: impl IntoIterator<Item = Object>) -> Vec<Change> {
        let mut changes = vec![self.opened()];
        changes.extend(self.synced(objects));
        changes
    }

    fn say(&self, change: ObjectChange) -> Change {
        Change::Object {
            cluster: self.name(),
            session: SessionId(self.session),
            change,
        }
    }
}

impl From<ServiceBuilder> for Object {
    fn from(builder: ServiceBuilder) -> Self {
        builder.object()
    }
}

impl From<SliceBuilder> for Object {
    fn from(builder: SliceBuilder) -> Self {
        builder.object()
    }
}

impl From<PodBuilder> for Object {
    fn from(builder: objects::PodBuilder) -> Self {
        builder.object()
    }
}
