//! Why an answer is what it is.

use serde::Serialize;

use super::endpoints::{Endpoint, Member as MemberFacts, Resolution};
use super::history::RecentChange;
use crate::proto::tributary_v1 as proto;

/// Why the answer for an authority is what it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The authority in full.
    pub authority: String,
    /// The answer to the question in a sentence.
    pub verdict: String,
    /// Whether there is nothing to look into.
    pub fine: bool,
    /// Where the endpoints come from.
    pub resolution: Resolution,
    /// How the Service says where its endpoints are.
    pub service: String,
    /// The Services that contribute or should.
    pub members: Vec<Member>,
    /// What it means and what to do, the most important first.
    pub advice: Vec<Advice>,
    /// Everybody who has the address that was asked about.
    pub holders: Vec<Holder>,
    /// The latest changes of the Service, or of the address, the latest first.
    pub changes: Vec<RecentChange>,
}

/// A Service that contributes, or should.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The Service and the state of its cluster; `None` from a server that does not say.
    pub member: Option<MemberFacts>,
    /// How it is with its cluster, or why it contributes nothing.
    pub note: String,
    /// Whether its endpoints count at all.
    pub contributes: bool,
    /// Its EndpointSlices.
    pub slices: Vec<Slice>,
}

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// `namespace/name`.
    pub name: String,
    /// What became of the port.
    pub note: String,
    /// Whether it has the port.
    pub has_port: bool,
    /// Addresses that it lists.
    pub addresses: u32,
    /// Its endpoints.
    pub endpoints: Vec<ExplainedEndpoint>,
}

/// An endpoint and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The rules that it was put to; the last one is broken if it is not served.
    pub rules: Vec<Rule>,
}

/// A rule that an endpoint was put to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The rule in a word.
    pub rule: String,
    /// Whether the endpoint passed.
    pub passed: bool,
    /// Why.
    pub reason: String,
}

/// Something to conclude and to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub action: String,
}

/// Somebody who has an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Its cluster.
    pub cluster: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

// === impl Explanation ===

impl From<proto::Explanation> for Explanation {
    fn from(explanation: proto::Explanation) -> Self {
        Self {
            resolution: explanation.resolution().into(),
            authority: explanation.authority,
            verdict: explanation.verdict,
            fine: explanation.fine,
            service: explanation.service,
            members: explanation.members.into_iter().map(Member::from).collect(),
            advice: explanation.advice.into_iter().map(Advice::from).collect(),
            holders: explanation.holders.into_iter().map(Holder::from).collect(),
            changes: explanation
                .changes
                .into_iter()
                .map(RecentChange::from)
                .collect(),
        }
    }
}

// === impl Member ===

impl From<proto::ExplainedMember> for Member {
    fn from(member: proto::ExplainedMember) -> Self {
        Self {
            member: member.member.map(MemberFacts::from),
            note: member.note,
            contributes: member.contributes,
            slices: member.slices.into_iter().map(Slice::from).collect(),
        }
    }
}

// === impl Slice ===

impl From<proto::ExplainedSlice> for Slice {
    fn from(slice: proto::ExplainedSlice) -> Self {
        let endpoints = slice.endpoints.into_iter().filter_map(|explained| {
            let rules = explained.rules.into_iter().map(|outcome| Rule {
                rule: outcome.rule,
                passed: outcome.passed,
                reason: outcome.reason,
            });
            Some(ExplainedEndpoint {
                endpoint: explained.endpoint?.into(),
                rules: rules.collect(),
            })
        });
        Self {
            name: slice.name,
            note: slice.note,
            has_port: slice.has_port,
            addresses: slice.addresses,
            endpoints: endpoints.collect(),
        }
    }
}

// === impl Advice ===

impl From<proto::Advice> for Advice {
    fn from(advice: proto::Advice) -> Self {
        Self {
            meaning: advice.meaning,
            action: advice.action,
        }
    }
}

// === impl Holder ===

impl From<proto::Holder> for Holder {
    fn from(holder: proto::Holder) -> Self {
        Self {
            cluster: holder.cluster,
            kind: holder.kind,
            name: holder.name,
            namespace: holder.namespace,
        }
    }
}
