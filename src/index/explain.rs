//! Why a client is told about some endpoints of a Service and not about others.
//!
//! Nothing is decided here. The endpoints and what became of each are those of [`examine`], which [`select`](super::select)
//! makes its answers from; members and slices are asked by the same functions that it asks. So an explanation cannot
//! differ from the answer that it explains.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::join::Chunk;
use super::select::{
    Candidate, Exclusion, Families, SelectPolicy, Silence, ViewKey, contribution, examine,
    port_name, target_port,
};
use super::snapshot::{Member, ServiceSnapshot};
use super::withhold::Withheld;
use crate::model::{ClusterRole, Endpoint, Text, TrafficPolicy};

/// What became of a member of a Service.
#[derive(Clone, Debug)]
pub struct ExplainedMember<'a> {
    /// The member.
    pub member: &'a Member,
    /// Why none of its endpoints counts; `None` if they do.
    pub silence: Option<Silence>,
    /// The rules that its endpoints go through, in order.
    pub rules: Vec<Rule>,
    /// Its slices, in name order; none if it is silent.
    pub slices: Vec<ExplainedSlice<'a>>,
}

/// What became of a slice of a member.
#[derive(Clone, Debug)]
pub struct ExplainedSlice<'a> {
    /// The slice.
    pub chunk: &'a Arc<Chunk>,
    /// The name of the port in the slice; `None` if the Service does not define the number that was asked for.
    pub port_name: Option<&'a Text>,
    /// The port of its endpoints; `None` if it does not have the one that was asked for, so that none of them counts.
    pub port: Option<u16>,
    /// Its endpoints and what became of each, in order of address; none without the port.
    pub candidates: Vec<Candidate>,
}

/// What an endpoint has to fulfil to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Its slice says that it is ready.
    Ready,
    /// What it names is known and can be used.
    Workload,
    /// It is the instance that was asked for.
    Instance,
    /// If it is meshed, the ports of its proxy can be read.
    Proxy,
    /// It is of the address family by which its workload is served.
    Family,
    /// It is on the client's node.
    Node,
    /// The zone hints give it to the client, or are not applied.
    Hints,
    /// Nothing is withheld of its cluster, or not this, or nothing else would be left.
    Fresh,
    /// No better endpoint has its address.
    Unique,
}

/// Says of every member of a Service, of every slice and of every endpoint what became of it for one kind of client.
///
/// Cost: O(endpoints of the Service); for people who ask, not for every client.
pub fn explain<'a>(
    snapshot: &'a ServiceSnapshot,
    key: &ViewKey,
    policy: &SelectPolicy,
) -> Vec<ExplainedMember<'a>> {
    let mut by_slice: BTreeMap<*const Chunk, Vec<Candidate>> = BTreeMap::new();
    for candidate in examine(snapshot, key, policy) {
        let slice = by_slice.entry(candidate.endpoint.chunk()).or_default();
        slice.push(candidate);
    }
    snapshot
        .members
        .iter()
        .map(|member| match contribution(snapshot, member) {
            Err(silence) => ExplainedMember {
                member,
                silence: Some(silence),
                rules: Vec::new(),
                slices: Vec::new(),
            },
            Ok(facts) => {
                let port_name = port_name(facts, key.port);
                let slices = member.chunks.iter().map(|chunk| ExplainedSlice {
                    chunk,
                    port_name,
                    port: target_port(&chunk.facts, port_name, key.port),
                    candidates: by_slice.remove(&Arc::as_ptr(chunk)).unwrap_or_default(),
                });
                ExplainedMember {
                    member,
                    silence: None,
                    rules: rules(member, key, policy),
                    slices: slices.collect(),
                }
            }
        })
        .collect()
}

/// The rules that a member's endpoints go through, in order. The first one that an endpoint breaks is why it is left out.
fn rules(member: &Member, key: &ViewKey, policy: &SelectPolicy) -> Vec<Rule> {
    let at_home = (member.cluster.role == ClusterRole::Home).then(|| {
        let facts = member.facts.as_ref();
        match facts.map(|facts| facts.internal_traffic_policy) {
            Some(TrafficPolicy::Local) => Rule::Node,
            Some(TrafficPolicy::Cluster) | None => Rule::Hints,
        }
    });
    let asked = [
        Some(Rule::Ready),
        Some(Rule::Workload),
        key.instance.as_ref().map(|_| Rule::Instance),
        Some(Rule::Proxy),
        (policy.families == Families::Ipv4).then_some(Rule::Family),
        at_home,
        (policy.families == Families::Ipv6First).then_some(Rule::Family),
        (member.withheld != Withheld::NOTHING).then_some(Rule::Fresh),
        Some(Rule::Unique),
    ];
    asked.into_iter().flatten().collect()
}

// === impl ExplainedSlice ===

impl ExplainedSlice<'_> {
    /// What the slice says of an IP address: usually nothing or one endpoint.
    pub fn listed(&self, ip: IpAddr) -> impl Iterator<Item = &Endpoint> {
        let endpoints = self.chunk.facts.endpoints.iter();
        endpoints.filter(move |endpoint| endpoint.address == ip)
    }
}

// === impl Exclusion ===

impl Exclusion {
    /// The rule that is broken.
    pub fn rule(self) -> Rule {
        match self {
            Self::NotReady => Rule::Ready,
            Self::Held(_) => Rule::Workload,
            Self::ProxyUnreadable => Rule::Proxy,
            Self::OtherInstance => Rule::Instance,
            Self::OtherNode => Rule::Node,
            Self::OtherZone => Rule::Hints,
            Self::OtherFamily => Rule::Family,
            Self::Withheld(_) => Rule::Fresh,
            Self::Duplicate => Rule::Unique,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// The rule in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Workload => "workload",
            Self::Instance => "instance",
            Self::Proxy => "proxy",
            Self::Family => "family",
            Self::Node => "node",
            Self::Hints => "hints",
            Self::Fresh => "fresh",
            Self::Unique => "unique",
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
