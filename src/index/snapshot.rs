//! What is known of one Service of the home cluster, over every cluster that contributes to it.

use std::sync::Arc;

use super::join::Chunk;
use super::withhold::Withheld;
use crate::model::{
    ClusterFacts, ClusterName, ClusterRole, EndpointKind, Membership, ServiceFacts, ServiceName,
    Text, TrafficPolicy, Uid,
};

/// An immutable picture of one Service. Making the next one shares every slice that did not change.
#[derive(Clone, Debug)]
pub struct ServiceSnapshot {
    /// The Service, in the home cluster.
    pub service: ServiceName,
    /// Whether the home cluster is synced: before that, nothing here means anything.
    pub home: MemberState,
    /// What the Service says; `None` if the home cluster has no such Service.
    pub facts: Option<Arc<ServiceFacts>>,
    /// The Services its answer is made of: the home cluster's first, then by cluster and name.
    pub members: Box<[Member]>,
    /// Slices of the home cluster that name it though its endpoints are looked for elsewhere, in name order.
    pub beside: Arc<[Arc<Chunk>]>,
}

/// One Service of one cluster that contributes to an answer.
#[derive(Clone, Debug)]
pub struct Member {
    /// The cluster; where it is not synced only the name is meaningful.
    pub cluster: Arc<ClusterFacts>,
    /// The Service there.
    pub service: ServiceName,
    /// Whether what follows is known.
    pub state: MemberState,
    /// What the Service says; `None` if the cluster has no such Service.
    pub facts: Option<Arc<ServiceFacts>>,
    /// Its slices, in name order.
    pub chunks: Arc<[Arc<Chunk>]>,
    /// How much of it is withheld from clients, where others are left.
    pub withheld: Withheld,
    /// Tells its cluster from every other, whatever it is called; see [`ClusterSummary`](super::ClusterSummary).
    pub cluster_uid: Option<Uid>,
}

/// How far a member is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Its cluster is synced: what is said of it is all there is.
    Synced,
    /// Its cluster has not been read yet: it may have endpoints nobody knows of.
    Syncing,
    /// Its cluster is not linked: it has no endpoints until it is.
    NotLinked,
}

// === impl ServiceSnapshot ===

impl ServiceSnapshot {
    /// A Service that the home cluster does not have.
    pub fn missing(service: ServiceName, home: MemberState) -> Self {
        Self {
            service,
            home,
            facts: None,
            members: Box::default(),
            beside: Arc::default(),
        }
    }

    /// Whether no member is unknown: an empty answer is then really empty.
    pub fn is_complete(&self) -> bool {
        self.home == MemberState::Synced
            && self
                .members
                .iter()
                .all(|member| member.state != MemberState::Syncing)
    }

    /// Whether its endpoints are looked for anywhere but in its own slices.
    pub fn is_multicluster(&self) -> bool {
        self.facts
            .as_ref()
            .is_some_and(|facts| facts.membership != Membership::Local)
    }

    /// Whether the answer depends on the node a client runs on.
    pub fn depends_on_node(&self) -> bool {
        self.members.iter().any(|member| {
            member.cluster.role == ClusterRole::Home
                && member
                    .facts
                    .as_ref()
                    .is_some_and(|facts| facts.internal_traffic_policy == TrafficPolicy::Local)
        })
    }

    /// Whether both are made of the very same facts; cheap, and never true by mistake.
    pub fn same(&self, other: &Self) -> bool {
        self.service == other.service
            && self.home == other.home
            && same_option(self.facts.as_ref(), other.facts.as_ref())
            && same_chunks(&self.beside, &other.beside)
            && self.members.len() == other.members.len()
            && self
                .members
                .iter()
                .zip(&other.members)
                .all(|(one, two)| one.same(two))
    }
}

// === impl Member ===

impl Member {
    pub(super) fn without_cluster(
        cluster: &ClusterName,
        service: ServiceName,
        state: MemberState,
    ) -> Self {
        Self {
            cluster: Arc::new(ClusterFacts {
                name: cluster.clone(),
                role: ClusterRole::Linked,
                trust_domain: Text::default(),
                endpoint_kind: EndpointKind::default(),
            }),
            service,
            state,
            facts: None,
            chunks: Arc::default(),
            withheld: Withheld::NOTHING,
            cluster_uid: None,
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.state == other.state
            && self.service == other.service
            && self.withheld == other.withheld
            && (Arc::ptr_eq(&self.cluster, &other.cluster) || self.cluster == other.cluster)
            && same_option(self.facts.as_ref(), other.facts.as_ref())
            && same_chunks(&self.chunks, &other.chunks)
            && self.cluster_uid == other.cluster_uid
    }
}

fn same_chunks(one: &[Arc<Chunk>], two: &[Arc<Chunk>]) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(one, two)| Arc::ptr_eq(one, two))
}

fn same_option<T: PartialEq>(one: Option<&Arc<T>>, two: Option<&Arc<T>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one, two) || one == two,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
