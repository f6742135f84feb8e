//! Everything a source can say.

use std::sync::Arc;

use super::withhold::Withheld;
use crate::model::{
    ClusterFacts, ClusterName, ClusterRole, EndpointKind, ExternalWorkloadFacts,
    ExternalWorkloadName, NodeFacts, NodeName, Owner, OwnerKind, OwnerName, PodFacts, PodName,
    ProfileFacts, ProfileName, ServerFacts, ServerName, ServiceFacts, ServiceName, SessionId,
    SliceFacts, SliceName,
};

/// One thing that a source has learnt.
#[derive(Clone, Debug)]
pub enum Change {
    /// A cluster is linked, whether or not it can be reached.
    Linked {
        /// The linked cluster.
        cluster: ClusterName,
    },
    /// A cluster is not linked any more: it takes everything it said with it.
    Unlinked {
        /// The cluster that was linked.
        cluster: ClusterName,
    },
    /// Every link that exists now has been reported; a cluster not named so far is not linked.
    LinksKnown,
    /// A session with a cluster begins.
    ///
    /// Where the cluster is already synced, what the new session says is kept aside until it is synced too, and then
    /// takes the old one's place at once.
    Opened {
        /// What is known of the cluster in this session.
        facts: Arc<ClusterFacts>,
        /// Names the session; ids are never used again.
        session: SessionId,
    },
    /// So much of a linked cluster is to be withheld from clients from now on, where others are left.
    Withheld {
        /// The cluster.
        cluster: ClusterName,
        /// How much, and why.
        withheld: Withheld,
    },
    /// A session says something about objects of its cluster.
    Object {
        /// The cluster.
        cluster: ClusterName,
        /// The session it is said in.
        session: SessionId,
        /// What is said.
        change: ObjectChange,
    },
}

/// What a session says about objects.
#[derive(Clone, Debug)]
pub enum ObjectChange {
    /// The object exists and says this.
    Apply(Object),
    /// The object does not exist.
    Delete(ObjectName),
    /// These are all objects of the kind; any other is gone. The first one makes the kind synced.
    Resync(Kind, Vec<Object>),
    /// Objects of the kind may not be read. What is known of them stays, and nothing waits for more.
    Unreadable(Kind),
}

/// Kinds of object that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Service` of the core group.
    Service,
    /// `EndpointSlice` of `discovery.k8s.io`.
    EndpointSlice,
    /// `Endpoints` of the core group.
    Endpoints,
    /// `Pod` of the core group.
    Pod,
    /// `Node` of the core group.
    Node,
    /// `ReplicaSet` of `apps`.
    ReplicaSet,
    /// `Job` of `batch`.
    Job,
    /// `ExternalWorkload` of `workload.linkerd.io`.
    ExternalWorkload,
    /// `Server` of `policy.linkerd.io`.
    Server,
    /// `ServiceProfile` of `linkerd.io`.
    ServiceProfile,
}

/// An object and what it says.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Service.
    Service(ServiceName, ServiceFacts),
    /// An EndpointSlice.
    Slice(SliceName, SliceFacts),
    /// The Endpoints object of the Service of this name: one slice for each of its subsets, in order.
    Endpoints(ServiceName, Box<[SliceFacts]>),
    /// A Pod.
    Pod(PodName, PodFacts),
    /// A Node.
    Node(NodeName, NodeFacts),
    /// A ReplicaSet or Job, and its only owner, if it has exactly one.
    Owner(OwnerName, Option<Owner>),
    /// An ExternalWorkload.
    ExternalWorkload(ExternalWorkloadName, ExternalWorkloadFacts),
    /// An opaque Server.
    Server(ServerName, ServerFacts),
    /// A ServiceProfile.
    Profile(ProfileName, ProfileFacts),
}

/// The name of an object of some kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ObjectName {
    /// A Service.
    Service(ServiceName),
    /// An EndpointSlice.
    Slice(SliceName),
    /// An Endpoints object, by the Service of its name.
    Endpoints(ServiceName),
    /// A Pod.
    Pod(PodName),
    /// A Node.
    Node(NodeName),
    /// A ReplicaSet or Job.
    Owner(OwnerName),
    /// An ExternalWorkload.
    ExternalWorkload(ExternalWorkloadName),
    /// A Server.
    Server(ServerName),
    /// A ServiceProfile.
    Profile(ProfileName),
}

// === impl Kind ===

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Self; 10] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Pod,
        Self::Node,
        Self::ReplicaSet,
        Self::Job,
        Self::ExternalWorkload,
        Self::Server,
        Self::ServiceProfile,
    ];

    /// Kinds that are watched in a cluster of this role; all of them have to be read before the cluster counts.
    ///
    /// A linked cluster is asked only for what Linkerd's stock remote-access account may read and its answers need.
    pub fn watched_in(role: ClusterRole, endpoints: EndpointKind) -> &'static [Self] {
        const fn home(endpoints: Kind) -> [Kind; 9] {
            [
                Kind::Service,
                endpoints,
                Kind::Pod,
                Kind::Node,
                Kind::ReplicaSet,
                Kind::Job,
                Kind::ExternalWorkload,
                Kind::Server,
                Kind::ServiceProfile,
            ]
        }
        const fn linked(endpoints: Kind) -> [Kind; 5] {
            [
                Kind::Service,
                endpoints,
                Kind::Pod,
                Kind::ReplicaSet,
                Kind::Server,
            ]
        }
        match (role, endpoints) {
            (ClusterRole::Home, EndpointKind::EndpointSlice) => {
                const { &home(Self::EndpointSlice) }
            }
            (ClusterRole::Home, EndpointKind::Endpoints) => const { &home(Self::Endpoints) },
            (ClusterRole::Linked, EndpointKind::EndpointSlice) => {
                const { &linked(Self::EndpointSlice) }
            }
            (ClusterRole::Linked, EndpointKind::Endpoints) => const { &linked(Self::Endpoints) },
        }
    }

    /// Whether a cluster can do without this kind, with poorer answers.
    pub fn is_optional(self) -> bool {
        !matches!(self, Self::Service | Self::EndpointSlice | Self::Endpoints)
    }

    /// Whether the kind is one that Linkerd brings: a cluster without it is as good as one that has none of it.
    pub fn is_custom(self) -> bool {
        matches!(
            self,
            Self::ExternalWorkload | Self::Server | Self::ServiceProfile
        )
    }

    /// The plural resource name, as in RBAC rules.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::ReplicaSet => "replicasets",
            Self::Job => "jobs",
            Self::ExternalWorkload => "externalworkloads",
            Self::Server => "servers",
            Self::ServiceProfile => "serviceprofiles",
        }
    }
}

impl From<OwnerKind> for Kind {
    fn from(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::ReplicaSet => Self::ReplicaSet,
            OwnerKind::Job => Self::Job,
        }
    }
}

// === impl Object ===

impl Object {
    /// The object's name.
    pub fn name(&self) -> ObjectName {
        match self {
            Self::Service(name, _) => ObjectName::Service(name.clone()),
            Self::Slice(name, _) => ObjectName::Slice(name.clone()),
            Self::Endpoints(name, _) => ObjectName::Endpoints(name.clone()),
            Self::Pod(name, _) => ObjectName::Pod(name.clone()),
            Self::Node(name, _) => ObjectName::Node(name.clone()),
            Self::Owner(name, _) => ObjectName::Owner(name.clone()),
            Self::ExternalWorkload(name, _) => ObjectName::ExternalWorkload(name.clone()),
            Self::Server(name, _) => ObjectName::Server(name.clone()),
            Self::Profile(name, _) => ObjectName::Profile(name.clone()),
        }
    }
}

// === impl ObjectName ===

impl ObjectName {
    /// The kind of object it names.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Kind::Service,
            Self::Slice(_) => Kind::EndpointSlice,
            Self::Endpoints(_) => Kind::Endpoints,
            Self::Pod(_) => Kind::Pod,
            Self::Node(_) => Kind::Node,
            Self::Owner(name) => name.kind.into(),
            Self::ExternalWorkload(_) => Kind::ExternalWorkload,
            Self::Server(_) => Kind::Server,
            Self::Profile(_) => Kind::ServiceProfile,
        }
    }
}
