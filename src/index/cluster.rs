//! One cluster, and the sessions that speak for it.

use std::net::IpAddr;
use std::sync::Arc;

use super::address::Holder;
use super::change::Kind;
use super::counts::Counts;
use super::shard::Shard;
use super::snapshot::{Member, MemberState};
use super::withhold::Withheld;
use crate::model::{
    CLUSTER_SERVICE, ClusterFacts, ClusterName, ClusterRole, ServiceName, SessionId, Uid, Workload,
};

/// How far a cluster is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Not every kind has been read yet; it contributes nothing.
    Syncing,
    /// It contributes what it said last, be it reachable now or not.
    Synced,
}

/// A cluster as the index sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSummary {
    /// Its name.
    pub name: ClusterName,
    /// Home or linked.
    pub role: ClusterRole,
    /// How far it is known.
    pub state: ClusterState,
    /// Kinds that its session has not read yet; empty if it has none.
    pub pending: Vec<Kind>,
    /// Services it has.
    pub services: usize,
    /// Addresses its slices list.
    pub endpoints: usize,
    /// How much of it is withheld from clients, where others are left.
    pub withheld: Withheld,
    /// What else is counted of it.
    pub counts: Counts,
    /// Tells it from every other cluster, under whatever name it is linked: the uid of its Service `default/kubernetes`.
    /// `None` until it is synced, and if it has no such Service.
    pub uid: Option<Uid>,
}

/// One known cluster: what it contributes now, and what will replace that.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) role: ClusterRole,
    pub(super) live: Option<Session>,
    pub(super) next: Option<Session>,
    pub(super) withheld: Withheld,
}

/// One session with a cluster.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) facts: Arc<ClusterFacts>,
    pub(super) shard: Shard,
}

// === impl Cluster ===

impl Cluster {
    pub(super) fn new(role: ClusterRole) -> Self {
        Self {
            role,
            live: None,
            next: None,
            withheld: Withheld::NOTHING,
        }
    }

    /// What contributes: the session, once it is synced.
    pub(super) fn synced_session(&self) -> Option<&Session> {
        self.live
            .as_ref()
            .filter(|session| session.shard.is_synced())
    }

    /// Every address that somebody in it claims, as far as that counts.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.synced_session()
            .into_iter()
            .flat_map(|session| session.shard.addresses())
    }

    pub(super) fn state(&self) -> ClusterState {
        if self.synced_session().is_some() {
            ClusterState::Synced
        } else {
            ClusterState::Syncing
        }
    }

    pub(super) fn member(&self, name: &ClusterName, service: ServiceName) -> Member {
        match &self.live {
            Some(session) if session.shard.is_synced() => Member {
                cluster: Arc::clone(&session.facts),
                state: MemberState::Synced,
                facts: session.shard.service(&service).cloned(),
                chunks: session.shard.chunks(&service),
                withheld: self.withheld,
                cluster_uid: session.cluster_uid(),
                service,
            },
            _ => Member::without_cluster(name, service, MemberState::Syncing),
        }
    }

    pub(super) fn summary(&self, name: &ClusterName) -> ClusterSummary {
        let shard = self.live.as_ref().map(|session| &session.shard);
        ClusterSummary {
            name: name.clone(),
            withheld: self.withheld,
            role: self.role,
            state: self.state(),
            pending: shard.map(Shard::pending).unwrap_or_default(),
            services: shard.map_or(0, Shard::service_count),
            endpoints: shard.map_or(0, Shard::endpoint_count),
            counts: shard.map_or_else(Counts::default, Shard::counts),
            uid: self.synced_session().and_then(Session::cluster_uid),
        }
    }
}

// === impl Session ===

impl Session {
    /// The uid of the Service that no other cluster has.
    pub(super) fn cluster_uid(&self) -> Option<Uid> {
        let (namespace, name) = CLUSTER_SERVICE;
        let facts = self.shard.service(&ServiceName::new(namespace, name))?;
        let uid = &facts.details.as_ref()?.uid;
        (!uid.is_empty()).then(|| uid.clone())
    }

    /// Pods that claim an address, in name order.
    pub(super) fn holders(&self, ip: IpAddr) -> impl Iterator<Item = Holder> {
        self.shard
            .pods_at(ip)
            .map(|workload: &Arc<Workload>| Holder {
                cluster: Arc::clone(&self.facts),
                workload: Arc::clone(workload),
            })
    }
}
