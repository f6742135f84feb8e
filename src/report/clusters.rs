//! The clusters.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::endpoints::known;
use crate::proto::tributary_v1 as proto;

/// A cluster that is read, or should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// What it is to the server.
    pub role: Role,
    /// How far what is known of it can be trusted.
    pub state: State,
    /// Services known there; `None` if there is no telling.
    pub services: Option<u64>,
    /// Addresses that its EndpointSlices list; `None` if there is no telling.
    pub endpoints: Option<u64>,
    /// Since its API server last said anything.
    pub age_seconds: Option<u64>,
    /// In the present state.
    pub since_seconds: Option<u64>,
    /// Why it is in this state, in words.
    pub note: Option<String>,
    /// Every kind of object that is read there.
    pub kinds: Vec<Kind>,
    /// The link that it is read by.
    pub link: Option<Link>,
    /// The uid of its Service `default/kubernetes`.
    pub uid: Option<String>,
    /// How far its clock is ahead; negative if it is behind.
    pub clock_ahead_seconds: Option<i64>,
    /// How much of its endpoints is withheld where others are left, in thousandths.
    pub withheld_per_mille: u32,
    /// Why.
    pub withheld_why: Option<String>,
}

/// What a cluster is to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Something newer than this program.
    Unknown,
    /// The one whose proxies ask.
    Home,
    /// One that it is linked to.
    Linked,
}

/// How far what is known of a cluster can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Changes arrive.
    Synced,
    /// It is being read for the first time.
    Syncing,
    /// Contact is lost; what was last known counts.
    Stale,
    /// There has been no contact yet.
    Unreachable,
    /// Its link cannot be used.
    Rejected,
    /// Something newer than this program.
    Unknown,
}

/// A kind of object that is read in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kind {
    /// Plural and group.
    pub name: String,
    /// `synced`, `syncing`, `denied`, `absent` or `unknown`.
    pub state: &'static str,
    /// Since the API server last said anything about it.
    pub age_seconds: Option<u64>,
}

/// How a linked cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// The Secret, `namespace/name`.
    pub secret: String,
    /// The address of the API server.
    pub server: String,
    /// `token` or `certificate`.
    pub credentials: String,
    /// Tells versions of the credentials apart.
    pub fingerprint: String,
    /// Seconds since the epoch at which the credentials end; `None` if they do not say.
    pub expires: Option<i64>,
    /// The same of the certificate that the server is checked against.
    pub authority_expires: Option<i64>,
    /// The server is not checked by any certificate.
    pub unverified: bool,
}

// === impl Cluster ===

impl Cluster {
    /// Since its API server last said anything.
    pub fn age(&self) -> Option<Duration> {
        self.age_seconds.map(Duration::from_secs)
    }

    /// In the present state.
    pub fn since(&self) -> Option<Duration> {
        self.since_seconds.map(Duration::from_secs)
    }
}

impl From<proto::Cluster> for Cluster {
    fn from(cluster: proto::Cluster) -> Self {
        let state = State::from(cluster.state());
        let is_known = matches!(state, State::Synced | State::Stale) || cluster.services > 0;
        Self {
            role: cluster.role().into(),
            state,
            name: cluster.name,
            services: is_known.then_some(cluster.services),
            endpoints: is_known.then_some(cluster.endpoints),
            age_seconds: cluster.age.and_then(seconds),
            since_seconds: cluster.since.and_then(seconds),
            note: known(cluster.note),
            kinds: cluster.kinds.into_iter().map(Kind::from).collect(),
            link: cluster.link.map(Link::from),
            uid: known(cluster.uid),
            clock_ahead_seconds: cluster.clock_ahead.map(|ahead| ahead.seconds),
            withheld_per_mille: cluster.withheld_per_mille,
            withheld_why: known(cluster.withheld_why),
        }
    }
}

// === impl Role ===

impl Role {
    /// The role in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Home => "home",
            Self::Linked => "linked",
        }
    }
}

impl From<proto::ClusterRole> for Role {
    fn from(role: proto::ClusterRole) -> Self {
        match role {
            proto::ClusterRole::Unspecified => Self::Unknown,
            proto::ClusterRole::Home => Self::Home,
            proto::ClusterRole::Linked => Self::Linked,
        }
    }
}

// === impl State ===

impl State {
    /// The state in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Synced => "synced",
            Self::Syncing => "syncing",
            Self::Stale => "stale",
            Self::Unreachable => "unreachable",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}

impl From<proto::ClusterState> for State {
    fn from(state: proto::ClusterState) -> Self {
        match state {
            proto::ClusterState::Unspecified => Self::Unknown,
            proto::ClusterState::Syncing => Self::Syncing,
            proto::ClusterState::Synced => Self::Synced,
            proto::ClusterState::Stale => Self::Stale,
            proto::ClusterState::Unreachable => Self::Unreachable,
            proto::ClusterState::Rejected => Self::Rejected,
        }
    }
}

// === impl Kind ===

impl From<proto::Kind> for Kind {
    fn from(kind: proto::Kind) -> Self {
        Self {
            state: match kind.state() {
                proto::KindState::Unspecified => "unknown",
                proto::KindState::Syncing => "syncing",
                proto::KindState::Synced => "synced",
                proto::KindState::Denied => "denied",
                proto::KindState::Absent => "absent",
            },
            name: kind.name,
            age_seconds: kind.age.and_then(seconds),
        }
    }
}

// === impl Link ===

impl Link {
    /// How long the credentials still last; zero if they have ended, `None` if they do not say.
    pub fn lasts(&self, now: SystemTime) -> Option<Duration> {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(self.expires?).ok()?);
        Some(end.duration_since(now).unwrap_or_default())
    }
}

impl From<proto::Link> for Link {
    fn from(link: proto::Link) -> Self {
        Self {
            secret: link.secret,
            server: link.server,
            credentials: link.credentials,
            fingerprint: link.fingerprint,
            expires: link.expires.map(|at| at.seconds),
            authority_expires: link.authority_expires.map(|at| at.seconds),
            unverified: link.unverified,
        }
    }
}

/// Whole seconds of a length of time.
pub(super) fn seconds(duration: prost_types::Duration) -> Option<u64> {
    u64::try_from(duration.seconds).ok()
}

/// Clusters for tests of whatever shows them.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A linked cluster that has been in its state for 400 s.
    pub(crate) fn cluster(name: &str, state: State) -> Cluster {
        let is_known = matches!(state, State::Synced | State::Stale);
        Cluster {
            name: name.to_owned(),
            role: Role::Linked,
            state,
            services: is_known.then_some(12),
            endpoints: is_known.then_some(96),
            age_seconds: is_known.then_some(if state == State::Synced { 1 } else { 391 }),
            since_seconds: Some(400),
            note: None,
            kinds: Vec::new(),
            link: None,
            uid: None,
            clock_ahead_seconds: Some(0),
            withheld_per_mille: 0,
            withheld_why: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serialized_form_is_stable() {
        let cluster = proto::Cluster {
            name: "west".to_owned(),
            role: proto::ClusterRole::Linked.into(),
            state: proto::ClusterState::Stale.into(),
            services: 12,
            endpoints: 96,
            since: Some(prost_types::Duration {
                seconds: 400,
                nanos: 0,
            }),
            note: "connection refused".to_owned(),
            kinds: vec![proto::Kind {
                name: "pods".to_owned(),
                state: proto::KindState::Denied.into(),
                age: None,
            }],
            link: Some(proto::Link {
                secret: "linkerd/cluster-credentials-west".to_owned(),
                server: "https://west:6443/".to_owned(),
                credentials: "token".to_owned(),
                fingerprint: "0123456789ab".to_owned(),
                expires: None,
                authority_expires: None,
                unverified: false,
            }),
            ..proto::Cluster::default()
        };
        let expected = serde_json::json!({
            "name": "west", "role": "linked", "state": "stale", "services": 12, "endpoints": 96,
            "ageSeconds": null, "sinceSeconds": 400, "note": "connection refused",
            "kinds": [{"name": "pods", "state": "denied", "ageSeconds": null}],
            "link": {
                "secret": "linkerd/cluster-credentials-west", "server": "https://west:6443/",
                "credentials": "token", "fingerprint": "0123456789ab", "expires": null, "authorityExpires": null,
                "unverified": false
            },
            "uid": null, "clockAheadSeconds": null, "withheldPerMille": 0, "withheldWhy": null
        });
        assert_eq!(
            serde_json::to_value(Cluster::from(cluster)).unwrap(),
            expected
        );
    }
}
