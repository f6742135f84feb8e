//! The endpoints of a Service → messages for operators. Pure but for the ages read from the status board.

use super::overview::{duration, is_reachable};
use super::words;
use crate::index::{
    Candidate, ClientLocality, Member, MemberState, SelectPolicy, ServiceSnapshot, ViewEndpoint,
    ViewKey, examine,
};
use crate::model::{Backing, Membership, NodeName, ServiceName, Text};
use crate::proto::tributary_v1 as pb;
use crate::publish::StatusBoard;

/// Weight shown for an endpoint that is served.
const WEIGHT: u32 = 10_000;

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
    let members = snapshot.members.iter();
    members.map(|known| member(known, board)).collect()
}

/// A member, and how far it can be trusted now.
pub(super) fn member(member: &Member, board: &StatusBoard) -> pb::Member {
    let status = board.status(&member.cluster.name);
    let reachable = status
        .as_ref()
        .is_none_or(|status| is_reachable(&status.connection));
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
        withheld_per_mille: member.withheld.per_mille().into(),
        withheld_why: words::withheld(member.withheld),
    }
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
        .iter()
        .map(|candidate| endpoint(candidate, client, policy))
        .collect()
}

/// An endpoint, and what a client at that place is told of it.
pub(super) fn endpoint(
    candidate: &Candidate,
    client: &ClientLocality,
    policy: &SelectPolicy,
) -> pb::Endpoint {
    let found = &candidate.endpoint;
    let listed = found.endpoint();
    let mesh = policy.mesh.mesh(found).unwrap_or_default();
    let served = candidate.excluded.is_none();
    let slice = found.slice();
    pb::Endpoint {
        address: found.socket.to_string(),
        cluster: found.cluster.name.to_string(),
        zone: text(listed.zone.as_ref()),
        node: text(node(found)),
        hostname: text(listed.hostname.as_ref()),
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
            || words::served_note(found.joined()),
            |reason| words::excluded_note(reason, listed),
        ),
        slice: format!("{}/{}", slice.service.namespace, found.slice_name()),
    }
}

pub(super) fn text(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
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
