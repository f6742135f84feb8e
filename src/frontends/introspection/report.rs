//! Snapshots and states → messages for operators. Pure but for the ages read from the status board.

use std::time::Duration;

use crate::index::{
    ClientLocality, ClusterState, Exclusion, Held, Joined, MemberState, SelectPolicy,
    ServiceSnapshot, ViewEndpoint, ViewKey, examine,
};
use crate::model::{Backing, ClusterRole, Endpoint, Membership, NodeName, ServiceName, Text, Zone};
use crate::proto::tributary_v1 as pb;
use crate::publish::{Catalog, ClusterStatus, Connection, KindStatus, StatusBoard};

/// Weight shown for an endpoint that is served.
const WEIGHT: u32 = 10_000;

/// Every cluster: what the index has of it, and how it can be reached.
pub(super) fn clusters(catalog: &Catalog) -> Vec<pb::Cluster> {
    let summaries = catalog.clusters();
    catalog
        .board()
        .all()
        .into_iter()
        .map(|status| {
            let summary = summaries.iter().find(|summary| summary.name == status.name);
            let synced = summary.is_some_and(|summary| summary.state == ClusterState::Synced);
            let (state, note) = cluster_state(&status, synced);
            pb::Cluster {
                name: status.name.to_string(),
                role: match status.role {
                    ClusterRole::Home => pb::ClusterRole::Home,
                    ClusterRole::Linked => pb::ClusterRole::Linked,
                }
                .into(),
                state: state.into(),
                services: summary.map_or(0, |summary| summary.services as u64),
                endpoints: summary.map_or(0, |summary| summary.endpoints as u64),
                age: status.age.and_then(duration),
                since: duration(status.since),
                note,
                kinds: status
                    .kinds
                    .into_iter()
                    .map(|(kind, state, age)| pb::Kind {
                        name: kind.resource().to_owned(),
                        state: match state {
                            KindStatus::Syncing => pb::KindState::Syncing,
                            KindStatus::Watched => pb::KindState::Synced,
                            KindStatus::Denied => pb::KindState::Denied,
                            KindStatus::Absent => pb::KindState::Absent,
                        }
                        .into(),
                        age: age.and_then(duration),
                    })
                    .collect(),
            }
        })
        .collect()
}

fn cluster_state(status: &ClusterStatus, synced: bool) -> (pb::ClusterState, String) {
    match (&status.connection, synced) {
        (Connection::Connecting | Connection::Connected, false) => {
            (pb::ClusterState::Syncing, String::new())
        }
        (Connection::Connecting | Connection::Connected, true) => {
            (pb::ClusterState::Synced, String::new())
        }
        (Connection::Unreachable(reason), true) => (
            pb::ClusterState::Stale,
            format!("{reason}; serving last known"),
        ),
        (Connection::Unreachable(reason), false) => (pb::ClusterState::Unreachable, reason.clone()),
        (Connection::Rejected(reason), true) => (
            pb::ClusterState::Rejected,
            format!("{reason}; serving last known"),
        ),
        (Connection::Rejected(reason), false) => (pb::ClusterState::Rejected, reason.clone()),
    }
}

/// How the Service's endpoints are found.
pub(super) fn resolution(snapshot: &ServiceSnapshot) -> pb::Resolution {
    match snapshot.facts.as_ref().map(|facts| &facts.membership) {
        None => pb::Resolution::Unspecified,
        Some(Membership::Local) => pb::Resolution::Local,
        Some(Membership::Remote(_)) => pb::Resolution::RemoteDiscovery,
        Some(Membership::Federated(_)) => pb::Resolution::Federated,
    }
}

/// The members, the home cluster's first, then by cluster and name.
pub(super) fn members(snapshot: &ServiceSnapshot, board: &StatusBoard) -> Vec<pb::Member> {
    snapshot
        .members
        .iter()
        .map(|member| {
            let status = board.status(&member.cluster.name);
            let reachable = status.as_ref().is_none_or(|status| {
                matches!(
                    status.connection,
                    Connection::Connected | Connection::Connecting
                )
            });
            pb::Member {
                cluster: member.cluster.name.to_string(),
                service: member.service.name.to_string(),
                namespace: member.service.namespace.to_string(),
                state: match member.state {
                    MemberState::Synced if reachable => pb::MemberState::Synced,
                    MemberState::Synced => pb::MemberState::Stale,
                    MemberState::Syncing => pb::MemberState::Syncing,
                    MemberState::NotLinked => pb::MemberState::NotLinked,
                }
                .into(),
                age: status.and_then(|status| status.age).and_then(duration),
            }
        })
        .collect()
}

/// Every endpoint that the members' slices list for the port, in order of address.
pub(super) fn endpoints(
    snapshot: &ServiceSnapshot,
    port: u16,
    instance: Option<&Text>,
    client: &ClientLocality,
    policy: &SelectPolicy,
) -> Vec<pb::Endpoint> {
    let key = ViewKey::new(snapshot, port, instance.cloned(), client);
    examine(snapshot, &key, policy)
        .into_iter()
        .map(|candidate| {
            let found = &candidate.endpoint;
            let endpoint = found.endpoint();
            let mesh = policy.mesh.mesh(found).unwrap_or_default();
            let served = candidate.excluded.is_none();
            pb::Endpoint {
                address: found.socket.to_string(),
                cluster: found.cluster.name.to_string(),
                zone: endpoint
                    .zone
                    .as_ref()
                    .map(Zone::to_string)
                    .unwrap_or_default(),
                node: node(found).map(NodeName::to_string).unwrap_or_default(),
                hostname: endpoint
                    .hostname
                    .as_ref()
                    .map(Text::to_string)
                    .unwrap_or_default(),
                locality: found.locality(client.zone.as_ref()).as_str().to_owned(),
                served,
                weight: if served { WEIGHT } else { 0 },
                workload: workload(found),
                identity: mesh
                    .identity
                    .map(|identity| identity.name)
                    .unwrap_or_default(),
                protocol_hint: match (mesh.inbound_port, mesh.protocol.as_str()) {
                    (None, "-") => String::new(),
                    (None, protocol) => protocol.to_owned(),
                    (Some(port), protocol) => format!("{protocol} via {port}"),
                },
                note: candidate.excluded.map_or_else(
                    || served_note(found.joined()),
                    |reason| excluded_note(reason, endpoint),
                ),
            }
        })
        .collect()
}

fn node(found: &ViewEndpoint) -> Option<&NodeName> {
    found
        .pod()
        .and_then(|workload| workload.facts.node.as_ref())
        .or(found.endpoint().node.as_ref())
}

fn workload(found: &ViewEndpoint) -> Option<pb::Workload> {
    match &found.endpoint().backing {
        Backing::Address => None,
        Backing::Pod(pod) => Some(pb::Workload {
            kind: "Pod".to_owned(),
            name: pod.name.to_string(),
            namespace: pod.namespace.to_string(),
        }),
        Backing::ExternalWorkload(name) => Some(pb::Workload {
            kind: "ExternalWorkload".to_owned(),
            name: name.to_string(),
            namespace: found.slice().service.namespace.to_string(),
        }),
    }
}

fn served_note(joined: &Joined) -> String {
    match joined {
        Joined::Unreadable => "Pods of this cluster may not be read: no identity".to_owned(),
        Joined::Address | Joined::Pod(_) | Joined::ExternalWorkload(_) | Joined::Held(_) => {
            String::new()
        }
    }
}

fn excluded_note(reason: Exclusion, endpoint: &Endpoint) -> String {
    let conditions = endpoint.conditions;
    match reason {
        Exclusion::NotReady if conditions.terminating && conditions.serving => {
            "draining (terminating, serving)"
        }
        Exclusion::NotReady if conditions.terminating => "terminating",
        Exclusion::NotReady => "not ready",
        Exclusion::Held(Held::PodUnknown) => "the Pod it names does not exist",
        Exclusion::Held(Held::PodFinished) => "the Pod it names has finished",
        Exclusion::Held(Held::PodWithoutAddress) => "the Pod it names has no address yet",
        Exclusion::Held(Held::ExternalWorkloadUnknown) => {
            "the ExternalWorkload it names is not known (they are read in the home cluster only)"
        }
        Exclusion::ProxyUnreadable => {
            "meshed, but the ports of its linkerd-proxy container cannot be read"
        }
        Exclusion::OtherInstance => "another instance",
        Exclusion::OtherNode => "on another node (internalTrafficPolicy: Local)",
        Exclusion::OtherZone => "meant for other zones (hints)",
        Exclusion::OtherFamily => "its workload is served by the address of the other family",
        Exclusion::Duplicate => "another endpoint has the same address",
    }
    .to_owned()
}

/// The authority in full.
pub(super) fn canonical(
    service: &ServiceName,
    instance: Option<&Text>,
    port: u16,
    cluster_domain: &str,
) -> String {
    let ServiceName { namespace, name } = service;
    match instance {
        None => format!("{name}.{namespace}.svc.{cluster_domain}:{port}"),
        Some(instance) => format!("{instance}.{name}.{namespace}.svc.{cluster_domain}:{port}"),
    }
}

/// The node that a context token names.
pub(super) fn node_of_token(token: &str) -> Option<NodeName> {
    let token: serde_json::Value = serde_json::from_str(token).ok()?;
    let node = token.get("nodeName")?.as_str()?;
    (!node.is_empty()).then(|| NodeName::from(node))
}

/// The same snapshot without what passes by itself.
pub(super) fn without_ages(snapshot: &pb::EndpointsSnapshot) -> pb::EndpointsSnapshot {
    let mut snapshot = snapshot.clone();
    for member in &mut snapshot.members {
        member.age = None;
    }
    snapshot
}

fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}
