//! Kubernetes clusters: the one we run in, and those linked to it.

use super::Text;
use super::text::identifier;

identifier! {
    /// Name of a Kubernetes cluster: the Link's name, or the configured name of the home cluster.
    ClusterName;
}

/// What a cluster is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterRole {
    /// The cluster whose Services clients ask for.
    Home,
    /// A cluster reached through a credential Secret.
    Linked,
}

/// The kind of object that says where the endpoints of Services are. It is the same for every cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// `EndpointSlice` of `discovery.k8s.io`.
    #[default]
    EndpointSlice,
    /// `Endpoints` of the core group, which Kubernetes has deprecated: no zones, no hints, a thousand addresses at most.
    Endpoints,
}

/// One connection to one cluster: a change of credentials opens a new session beside the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What is known of a cluster apart from its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFacts {
    /// The cluster's name.
    pub name: ClusterName,
    /// Home or linked.
    pub role: ClusterRole,
    /// Suffix of the identities of its Pods; empty means that its Pods have none.
    pub trust_domain: Text,
    /// What its endpoints are read from.
    pub endpoint_kind: EndpointKind,
}
