//! What is shown of an answer: the same for people and, as JSON and YAML, for programs.
//!
//! The serialized form is an interface: names stay, fields are only added, and every field is always there. Absent values
//! are `null`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use crate::proto::tributary_v1 as proto;

/// The endpoints behind an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The authority in full.
    pub authority: String,
    /// The API that was asked.
    pub api: Api,
    /// Where the endpoints come from.
    pub resolution: Resolution,
    /// The Services that contribute or should; empty if the API does not say.
    pub members: Vec<Member>,
    /// The endpoints, in order of address.
    pub endpoints: Vec<Endpoint>,
}

/// The API that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// `tributary.v1`: everything is known.
    Introspection,
    /// Linkerd's `Get`: only endpoints that are served, and nothing about members.
    Destination,
}

/// Where the endpoints of an authority come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// The API does not say, or says something newer than this program.
    Unknown,
    /// The Service itself.
    Local,
    /// One Service of one linked cluster.
    RemoteDiscovery,
    /// Several Services.
    Federated,
}

/// A Service that contributes, or should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its cluster.
    pub cluster: String,
    /// The name of the Service there.
    pub service: String,
    /// Its namespace there.
    pub namespace: String,
    /// Whether it contributes.
    pub state: MemberState,
    /// Since its cluster's API server last said anything.
    pub age_seconds: Option<u64>,
    /// How much of its endpoints is withheld where others are left, in thousandths.
    pub withheld_per_mille: u32,
    /// Why.
    pub withheld_why: Option<String>,
}

/// Whether a member contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Something newer than this program.
    Unknown,
    /// It contributes what is true now.
    Synced,
    /// It does not contribute yet.
    Syncing,
    /// It contributes what was last known.
    Stale,
    /// It does not contribute.
    NotLinked,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// `ip:port`.
    pub address: String,
    /// The cluster it is in.
    pub cluster: Option<String>,
    /// Its zone, as its own cluster calls it.
    pub zone: Option<String>,
    /// The node it runs on.
    pub node: Option<String>,
    /// The host name it has within its Service.
    pub hostname: Option<String>,
    /// `local`, `remote` or `unknown`.
    pub locality: String,
    /// Whether a client is told about it.
    pub served: bool,
    /// Its share of the traffic; 0 if it is not served.
    pub weight: u32,
    /// What runs there.
    pub workload: Option<Workload>,
    /// The TLS identity that clients are told to expect.
    pub identity: Option<String>,
    /// `h2` or `opaque`.
    pub protocol_hint: Option<String>,
    /// Why it is not served, or what is odd about it.
    pub note: Option<String>,
    /// The EndpointSlice that lists it, `namespace/name`.
    pub slice: Option<String>,
}

/// What runs at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its kind, as Kubernetes spells it.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: Option<String>,
}

// === impl Report ===

impl Report {
    /// How many endpoints clients are told about.
    pub fn served(&self) -> usize {
        self.endpoints
            .iter()
            .filter(|endpoint| endpoint.served)
            .count()
    }

    /// Whether there is nothing to look into.
    pub fn is_fine(&self) -> bool {
        let all_synced = self
            .members
            .iter()
            .all(|member| member.state == MemberState::Synced);
        all_synced && self.served() > 0
    }

    /// Whether the cluster alone does not tell members apart.
    pub fn clusters_repeat(&self) -> bool {
        let mut clusters = BTreeSet::new();
        !self
            .members
            .iter()
            .all(|member| clusters.insert(&member.cluster))
    }
}

impl From<proto::EndpointsSnapshot> for Report {
    fn from(snapshot: proto::EndpointsSnapshot) -> Self {
        Self {
            resolution: snapshot.resolution().into(),
            authority: snapshot.authority,
            api: Api::Introspection,
            members: snapshot.members.into_iter().map(Member::from).collect(),
            endpoints: snapshot.endpoints.into_iter().map(Endpoint::from).collect(),
        }
    }
}

// === impl Resolution ===

impl Resolution {
    /// The resolution in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Local => "local",
            Self::RemoteDiscovery => "remote discovery",
            Self::Federated => "federated",
        }
    }
}

impl From<proto::Resolution> for Resolution {
    fn from(resolution: proto::Resolution) -> Self {
        match resolution {
            proto::Resolution::Unspecified => Self::Unknown,
            proto::Resolution::Local => Self::Local,
            proto::Resolution::RemoteDiscovery => Self::RemoteDiscovery,
            proto::Resolution::Federated => Self::Federated,
        }
    }
}

// === impl Member ===

impl Member {
    /// Since its cluster's API server last said anything.
    pub fn age(&self) -> Option<Duration> {
        self.age_seconds.map(Duration::from_secs)
    }
}

impl From<proto::Member> for Member {
    fn from(member: proto::Member) -> Self {
        Self {
            state: member.state().into(),
            cluster: member.cluster,
            service: member.service,
            namespace: member.namespace,
            age_seconds: member.age.and_then(|age| u64::try_from(age.seconds).ok()),
            withheld_per_mille: member.withheld_per_mille,
            withheld_why: known(member.withheld_why),
        }
    }
}

// === impl MemberState ===

impl MemberState {
    /// The state as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Synced => "synced",
            Self::Syncing => "syncing",
            Self::Stale => "stale",
            Self::NotLinked => "not linked",
        }
    }
}

impl From<proto::MemberState> for MemberState {
    fn from(state: proto::MemberState) -> Self {
        match state {
            proto::MemberState::Unspecified => Self::Unknown,
            proto::MemberState::Synced => Self::Synced,
            proto::MemberState::Syncing => Self::Syncing,
            proto::MemberState::Stale => Self::Stale,
            proto::MemberState::NotLinked => Self::NotLinked,
        }
    }
}

// === impl Endpoint ===

impl From<proto::Endpoint> for Endpoint {
    fn from(endpoint: proto::Endpoint) -> Self {
        Self {
            address: endpoint.address,
            cluster: known(endpoint.cluster),
            zone: known(endpoint.zone),
            node: known(endpoint.node),
            hostname: known(endpoint.hostname),
            locality: known(endpoint.locality).unwrap_or_else(|| "unknown".to_owned()),
            served: endpoint.served,
            weight: endpoint.weight,
            workload: endpoint.workload.map(|workload| Workload {
                kind: workload.kind,
                name: workload.name,
                namespace: known(workload.namespace),
            }),
            identity: known(endpoint.identity),
            protocol_hint: known(endpoint.protocol_hint),
            note: known(endpoint.note),
            slice: known(endpoint.slice),
        }
    }
}

/// The text, unless it is empty.
pub fn known(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Answers for tests of whatever shows them.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A member called `web`, silent for 400 s if it is stale.
    pub(crate) fn member(cluster: &str, state: MemberState) -> Member {
        Member {
            cluster: cluster.to_owned(),
            service: "web".to_owned(),
            namespace: "shop".to_owned(),
            state,
            age_seconds: Some(if state == MemberState::Stale { 400 } else { 1 }),
            withheld_per_mille: 0,
            withheld_why: None,
        }
    }

    /// A meshed Pod in the client's zone.
    pub(crate) fn endpoint(address: &str, cluster: &str) -> Endpoint {
        let some = |text: &str| Some(text.to_owned());
        Endpoint {
            address: address.to_owned(),
            cluster: some(cluster),
            zone: some("eu-1a"),
            node: some("node-1"),
            hostname: None,
            locality: "local".to_owned(),
            served: true,
            weight: 10_000,
            workload: Some(Workload {
                kind: "Pod".to_owned(),
                name: "web-5d9c-x2k".to_owned(),
                namespace: some("shop"),
            }),
            identity: some("default.shop.serviceaccount.identity.linkerd.cluster.local"),
            protocol_hint: some("h2"),
            note: None,
            slice: some("shop/web-abcde"),
        }
    }

    /// Three clusters, of which one is stale and has an endpoint that is draining.
    pub(crate) fn federated() -> Report {
        let mut far = endpoint("10.42.1.3:8080", "home");
        far.zone = Some("eu-1b".to_owned());
        "remote".clone_into(&mut far.locality);
        let mut draining = endpoint("10.60.0.5:8080", "east");
        (draining.zone, draining.served, draining.weight) = (None, false, 0);
        "unknown".clone_into(&mut draining.locality);
        draining.identity = None;
        draining.note = Some("draining (terminating, serving)".to_owned());
        Report {
            authority: "web-federated.shop.svc.cluster.local:80".to_owned(),
            api: Api::Introspection,
            resolution: Resolution::Federated,
            members: vec![
                member("home", MemberState::Synced),
                member("west", MemberState::Synced),
                member("east", MemberState::Stale),
            ],
            endpoints: vec![
                endpoint("10.42.0.7:8080", "home"),
                far,
                endpoint("10.50.0.9:8080", "west"),
                draining,
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::federated;

    #[test]
    fn anything_that_is_not_well_is_a_finding() {
        let mut report = federated();
        assert!(!report.is_fine());
        report.members.pop();
        assert!(report.is_fine());
        for endpoint in &mut report.endpoints {
            endpoint.served = false;
        }
        assert!(!report.is_fine());
    }

    #[test]
    fn the_serialized_form_is_stable() {
        let mut report = federated();
        report.members.drain(..2);
        report.endpoints.drain(..3);
        let expected = serde_json::json!({
            "authority": "web-federated.shop.svc.cluster.local:80",
            "api": "introspection",
            "resolution": "federated",
            "members": [{
                "cluster": "east", "service": "web", "namespace": "shop", "state": "stale", "ageSeconds": 400,
                "withheldPerMille": 0, "withheldWhy": null
            }],
            "endpoints": [{
                "address": "10.60.0.5:8080", "cluster": "east", "zone": null, "node": "node-1", "hostname": null,
                "locality": "unknown", "served": false, "weight": 0,
                "workload": {"kind": "Pod", "name": "web-5d9c-x2k", "namespace": "shop"},
                "identity": null, "protocolHint": "h2", "note": "draining (terminating, serving)",
                "slice": "shop/web-abcde"
            }]
        });
        assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    }
}
