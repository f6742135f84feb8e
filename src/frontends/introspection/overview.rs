//! Clusters, Services and views in short → messages for operators.

use std::time::Duration;

use super::{report, words};
use crate::index::{ClusterState, Withheld};
use crate::model::ClusterRole;
use crate::proto::tributary_v1 as pb;
use crate::publish::{
    Catalog, ClusterStatus, Connection, KindStatus, LinkInfo, ServiceOverview, ViewOverview,
};

/// Entries of a list where no limit is asked for.
const LIMIT: usize = 1000;

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
            let withheld = summary.map_or(Withheld::NOTHING, |summary| summary.withheld);
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
                link: status.link.as_deref().map(link),
                uid: summary
                    .and_then(|summary| summary.uid.as_ref())
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                withheld_per_mille: withheld.per_mille().into(),
                withheld_why: words::withheld(withheld),
                clock_ahead: status.clock.ahead_millis().map(signed),
            }
        })
        .collect()
}

fn link(link: &LinkInfo) -> pb::Link {
    pb::Link {
        secret: link.secret.clone(),
        server: link.server.clone(),
        credentials: link.proof.as_str().to_owned(),
        fingerprint: link.fingerprint.clone(),
        expires: link.expires.map(Into::into),
        authority_expires: link.authority_expires.map(Into::into),
        unverified: !link.is_verified,
    }
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

/// Whether a cluster's API server can be used, or may be about to.
pub(super) fn is_reachable(connection: &Connection) -> bool {
    matches!(connection, Connection::Connected | Connection::Connecting)
}

/// The same clusters without what passes by itself.
pub(super) fn without_ages(clusters: &[pb::Cluster]) -> Vec<pb::Cluster> {
    let mut clusters = clusters.to_vec();
    for cluster in &mut clusters {
        (cluster.age, cluster.since, cluster.clock_ahead) = (None, None, None);
        (cluster.services, cluster.endpoints) = (0, 0);
        for kind in &mut cluster.kinds {
            kind.age = None;
        }
    }
    clusters
}

/// Services whose names are wanted, in name order.
pub(super) fn services(
    catalog: &Catalog,
    request: &pb::ListServicesRequest,
) -> pb::ListServicesResponse {
    let wanted = catalog.services(|service| {
        (request.namespace.is_empty() || service.namespace.as_str() == request.namespace)
            && format!("{}.{}", service.name, service.namespace).contains(&request.contains)
    });
    let limit = limit(request.limit);
    pb::ListServicesResponse {
        services: wanted.iter().take(limit).map(service).collect(),
        more: wanted.len() > limit,
    }
}

fn service(overview: &ServiceOverview) -> pb::ServiceSummary {
    let snapshot = &overview.snapshot;
    let ports = snapshot.facts.iter().flat_map(|facts| facts.ports.iter());
    let chunks = snapshot
        .members
        .iter()
        .flat_map(|member| member.chunks.iter());
    let listed = || {
        chunks
            .clone()
            .flat_map(|chunk| chunk.facts.endpoints.iter())
    };
    let mut clusters: Vec<_> = snapshot
        .members
        .iter()
        .map(|member| member.cluster.name.to_string())
        .collect();
    clusters.dedup();
    pb::ServiceSummary {
        name: snapshot.service.name.to_string(),
        namespace: snapshot.service.namespace.to_string(),
        resolution: report::resolution(snapshot).into(),
        ports: ports.map(|port| port.port.into()).collect(),
        endpoints: count(listed().count()),
        ready: count(
            listed()
                .filter(|endpoint| endpoint.conditions.ready)
                .count(),
        ),
        clusters,
        streams: count(overview.readers),
    }
}

/// Views that streams use, those with the most streams first.
pub(super) fn views(catalog: &Catalog, request: pb::ListViewsRequest) -> pb::ListViewsResponse {
    let (views, last) = (catalog.views(), catalog.last_lag());
    let limit = limit(request.limit);
    pb::ListViewsResponse {
        views: views.iter().take(limit).map(view).collect(),
        more: views.len() > limit,
        publish_lag: last.and_then(|(lag, _)| duration(lag)),
        publish_age: last.and_then(|(_, age)| duration(age)),
    }
}

fn view(overview: &ViewOverview) -> pb::SharedView {
    let key = &overview.key;
    pb::SharedView {
        service: overview.service.name.to_string(),
        namespace: overview.service.namespace.to_string(),
        port: key.port.into(),
        instance: report::text(key.instance.as_ref()),
        zone: report::text(key.zone.as_ref()),
        node: report::text(key.node.as_ref()),
        endpoints: count(overview.endpoints),
        streams: count(overview.streams),
    }
}

fn limit(asked: u32) -> usize {
    match asked {
        0 => LIMIT,
        asked => asked as usize,
    }
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A length of time; `None` if it is longer than a message can say.
pub(super) fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}

fn signed(millis: i64) -> prost_types::Duration {
    let nanos = i32::try_from(millis % 1000).unwrap_or_default() * 1_000_000;
    prost_types::Duration {
        seconds: millis / 1000,
        nanos,
    }
}
