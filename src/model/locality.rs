//! Where an endpoint or a client is.

use super::text::identifier;

identifier! {
    /// A topology zone, the value of `topology.kubernetes.io/zone`.
    Zone;
    /// Name of a Kubernetes Node.
    NodeName;
}

/// What a Node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Label `topology.kubernetes.io/zone`; `None` if absent or empty.
    pub zone: Option<Zone>,
}
