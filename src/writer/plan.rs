//! What has to be written for one home Service: what is known of it and the copies that are there → actions.
//!
//! Pure. A unit is what is written of one cluster. A unit whose cluster is not known is left alone; everything else is brought
//! to what the source slices say, the additions first and the deletions last.

mod eligible;
mod endpoints;
mod hints;
mod report;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::copy::{Content, Copy, Existing, Origin, Provenance};
use super::name::Subject;
use crate::index::{Chunk, Member, MemberState, ServiceSnapshot};
use crate::model::copying::{Audience, HomeMembers, OnStale, Settings};
use crate::model::{
    AddressFamily, ClusterName, ClusterRole, Endpoint, ServiceDetails, ServiceFacts, SliceName,
    Text, Uid,
};
use eligible::{Verdict, verdict};
use endpoints::{Claims, ports_of};
use settle::settle;

pub use eligible::Ineligible;
pub use endpoints::Rejection;
pub(super) use endpoints::{is_dns_label, is_label_value, may_be_pod};
pub use report::{Copied, LeftOut, Refused, Report};

/// Everything that a plan is a function of.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The home Service and its members.
    pub snapshot: &'a ServiceSnapshot,
    /// Copies that belong to it, by name.
    pub existing: &'a BTreeMap<SliceName, Existing>,
    /// What operators have chosen.
    pub settings: &'a Settings,
    /// What is known of clusters besides their objects.
    pub clusters: &'a BTreeMap<ClusterName, Standing>,
    /// What holds at this moment.
    pub moment: &'a Moment,
    /// Whether an address is one of the home cluster's own.
    pub is_home: &'a dyn HomeAddresses,
}

/// Who knows the addresses of the home cluster.
pub trait HomeAddresses: std::fmt::Debug {
    /// Whether a Pod or Service of the home cluster has it.
    fn contains(&self, ip: IpAddr) -> bool;
}

/// What is known of a cluster besides its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The cluster that it is the same as, under another name that goes first.
    pub twin_of: Option<ClusterName>,
    /// Whether it has not been linked for so long that it will not be again.
    pub is_gone: bool,
    /// What to do with its copies because it is out of contact.
    pub stale: OnStale,
    /// Whether it is believed that it has become the cluster with this uid.
    pub judged: Option<(Uid, Judgement)>,
    /// Endpoints of it that may be written for this Service.
    pub room: usize,
}

/// Whether a cluster that is another one than its copies were made from is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is: its copies are written anew.
    Believed,
    /// It is not: nothing of it is deleted or shrunk.
    Doubted,
}

/// What holds at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Whether Linkerd's own destination controller runs in the home cluster, or may do so.
    pub stock_destination: bool,
    /// Whether hints, which cannot be trusted yet, are left off.
    pub hints_suspended: bool,
    /// Whether slices of others beside ours have been there for so long that ours have to go.
    pub yield_to_others: bool,
    /// Names that strangers' slices have.
    pub taken: BTreeSet<SliceName>,
    /// Endpoints that the API server has refused, by the copy that they were in.
    pub refused: BTreeMap<SliceName, Refused>,
}

/// What has to be done for one home Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What has to be done, by cluster. Clusters for which there is nothing to do are not listed.
    pub units: BTreeMap<ClusterName, Vec<Action>>,
    /// Whether somebody loses an endpoint: that cannot wait.
    pub is_urgent: bool,
    /// What operators should know, in order.
    pub reports: Vec<Report>,
    /// Whether every ready endpoint could be given hints.
    pub hints_possible: bool,
    /// Whether slices of others keep us from writing.
    pub waits_for_others: bool,
    /// Clusters that are others than their copies were made from, with the uids they have now, where nobody has judged yet whether to
    /// believe it. Until then nothing of theirs is deleted or shrunk.
    pub unjudged: BTreeMap<ClusterName, Uid>,
    /// Clusters that the Service names and nobody links.
    pub not_linked: BTreeSet<ClusterName>,
    /// By cluster, what there will be.
    pub tallies: BTreeMap<ClusterName, Tally>,
    /// Every slice that is copied.
    pub copied: Vec<Copied>,
    /// Every endpoint that is not.
    pub left_out: Vec<LeftOut>,
}

/// One request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the copy, or make it this.
    Apply {
        /// What it is to be.
        copy: Box<Copy>,
        /// The copy that is there, if it is known to be ours.
        over: Option<Uid>,
        /// Whether nobody loses anything by it.
        only_grows: bool,
    },
    /// Delete the copy.
    Delete {
        /// Its name.
        name: SliceName,
        /// Its uid.
        uid: Uid,
        /// The version that was decided upon.
        resource_version: Text,
    },
}

/// What is written of one cluster for one Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Copies.
    pub copies: usize,
    /// Endpoints that take new traffic.
    pub ready: usize,
    /// Endpoints that do not, and are not going away.
    pub not_ready: usize,
    /// Endpoints that are going away.
    pub terminating: usize,
    /// Addresses in the copies that are there now.
    pub before: usize,
    /// Addresses among these that will not be there any more.
    pub lost: usize,
    /// Whether copies that are there came from a cluster with another uid.
    pub is_other_cluster: bool,
}

/// The copies of one cluster as they are to be.
#[derive(Debug)]
enum Unit {
    /// Whatever is there stays: its cluster is not known.
    Untouched,
    Wanted(Vec<Copy>),
}

// === impl Standing ===

impl Default for Standing {
    fn default() -> Self {
        Self {
            twin_of: None,
            is_gone: false,
            stale: OnStale::Keep,
            judged: None,
            room: usize::MAX,
        }
    }
}

/// Decides what has to be done for one home Service.
///
/// The same inputs give the same plan, and once its actions are carried out the plan is empty. Cost: linear in the endpoints
/// of the Service and its copies.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let mut plan = Plan {
        hints_possible: true,
        ..Plan::default()
    };
    if inputs.snapshot.home != MemberState::Synced {
        return plan;
    }
    let mut units = match verdict(inputs) {
        Verdict::Eligible(facts, details) => {
            if details.has_neg {
                plan.reports.push(Report::Neg);
            }
            desired(inputs, facts, details, &mut plan)
        }
        Verdict::Wait(reports) => {
            plan.reports = reports;
            plan.waits_for_others = true;
            let there = inputs.existing.values();
            there
                .map(|copy| (copy.cluster.clone(), Unit::Untouched))
                .collect()
        }
        Verdict::Leave => return plan,
        Verdict::Remove(reports) => {
            plan.waits_for_others = reports
                .iter()
                .any(|report| matches!(report, Report::ForeignSlices(_)));
            plan.reports = reports;
            BTreeMap::new()
        }
    };
    plan.hints_possible = hints::compute(inputs, &mut units);
    for existing in inputs.existing.values() {
        units
            .entry(existing.cluster.clone())
            .or_insert_with(|| Unit::Wanted(Vec::new()));
    }
    for (cluster, unit) in units {
        settle(inputs, cluster, unit, &mut plan);
    }
    plan.reports.sort_unstable();
    plan.reports.dedup();
    plan
}

/// The copies that there should be, by cluster.
fn desired(
    inputs: &Inputs<'_>,
    facts: &ServiceFacts,
    details: &ServiceDetails,
    plan: &mut Plan,
) -> BTreeMap<ClusterName, Unit> {
    let mut units = BTreeMap::new();
    let mut claims = Claims::default();
    for member in &inputs.snapshot.members {
        let cluster = &member.cluster.name;
        let standing = inputs.clusters.get(cluster);
        if member.state == MemberState::NotLinked {
            plan.not_linked.insert(cluster.clone());
        }
        if is_unknown(member, standing) {
            units.insert(cluster.clone(), Unit::Untouched);
            continue;
        }
        let unit = units
            .entry(cluster.clone())
            .or_insert_with(|| Unit::Wanted(Vec::new()));
        let Unit::Wanted(copies) = unit else {
            continue;
        };
        if let Some(other) = standing.and_then(|standing| standing.twin_of.clone()) {
            plan.reports.push(Report::Twin(cluster.clone(), other));
            continue;
        }
        if member.state != MemberState::Synced {
            continue;
        }
        let is_left_out = member.cluster.role == ClusterRole::Home
            && inputs.settings.home_members == HomeMembers::LeftOut;
        let written = copies_of(inputs, facts, details, member, &mut claims, plan);
        if !is_left_out {
            plan.copied.extend(written.iter().map(|copy| Copied {
                cluster: cluster.clone(),
                slice: copy.source.slice.clone(),
                copy: copy.name.clone(),
                endpoints: copy.content.endpoints.len(),
            }));
            copies.extend(written);
        }
        claims.end_member();
    }
    for (cluster, unit) in &mut units {
        bound(inputs, cluster, unit, plan);
    }
    act_on_stale(inputs, &mut units);
    units
}

/// Whether nothing may be concluded from what is not there.
fn is_unknown(member: &Member, standing: Option<&Standing>) -> bool {
    match member.state {
        MemberState::Synced => false,
        MemberState::Syncing => true,
        MemberState::NotLinked => standing.is_none_or(|standing| !standing.is_gone),
    }
}

/// One copy for each slice of a member that can be copied.
fn copies_of(
    inputs: &Inputs<'_>,
    facts: &ServiceFacts,
    details: &ServiceDetails,
    member: &Member,
    claims: &mut Claims,
    plan: &mut Plan,
) -> Vec<Copy> {
    let cluster = &member.cluster.name;
    let Some(there) = &member.facts else {
        return Vec::new();
    };
    if there
        .details
        .as_ref()
        .is_some_and(|details| details.is_mirror)
    {
        plan.reports.push(Report::Loop(cluster.clone()));
        return Vec::new();
    }
    let mut any_port = false;
    let mut copies = Vec::new();
    for chunk in member.chunks.iter() {
        let slice = &chunk.facts;
        let ports = ports_of(facts, there, slice);
        any_port |= !ports.is_empty();
        let skipped = if endpoints::is_import(&slice.origin) {
            Some(Rejection::Import)
        } else if slice.family == AddressFamily::Fqdn {
            Some(Rejection::Fqdn)
        } else if ports.is_empty() {
            Some(Rejection::Port)
        } else if !details.families.has(slice.family) {
            Some(Rejection::Family)
        } else {
            None
        };
        if let Some(reason) = skipped {
            let skipped = Report::SliceSkipped(cluster.clone(), reason, chunk.name.clone());
            plan.reports.push(skipped);
            plan.leave_out(member, chunk, &chunk.facts.endpoints, reason);
            continue;
        }
        let name = name_of(inputs, member, chunk, &mut plan.reports);
        let endpoints = endpoints::of_slice(
            inputs,
            details,
            member,
            chunk,
            (&name, &ports),
            claims,
            plan,
        );
        let mut content = Content {
            service: inputs.snapshot.service.clone(),
            origin: Origin::Cluster {
                name: cluster.clone(),
                audience: audience(inputs.settings, details),
            },
            is_headless: details.is_headless,
            family: slice.family,
            ports,
            endpoints,
        };
        content.sort();
        copies.push(Copy {
            name,
            content,
            owner: details.uid.clone(),
            source: provenance(member, chunk),
        });
    }
    if !member.chunks.is_empty() && !any_port {
        plan.reports.push(Report::PortNotExported(cluster.clone()));
    }
    copies
}

/// Who sees the copies: what the Service's annotation says, else what is set for all.
fn audience(settings: &Settings, details: &ServiceDetails) -> Audience {
    match details.audience.as_deref() {
        Some("everyone") => Audience::Everyone,
        Some("gateways") => Audience::Gateways,
        _ => settings.audience,
    }
}

fn name_of(
    inputs: &Inputs<'_>,
    member: &Member,
    chunk: &Chunk,
    reports: &mut Vec<Report>,
) -> SliceName {
    let service = &inputs.snapshot.service;
    let subject = Subject {
        service,
        cluster: &member.cluster.name,
        member: &member.service,
        slice: &chunk.name,
        family: chunk.facts.family,
    };
    let named = |salt: &str| SliceName::new(service.namespace.clone(), subject.name(salt));
    let name = named("");
    if inputs.moment.taken.contains(&name) {
        reports.push(Report::NameTaken(name));
        return named("1");
    }
    name
}

/// Whether a slice of the home cluster has a name that a copy for this Service would get.
fn is_own_name(inputs: &Inputs<'_>, name: &Text) -> bool {
    let members = inputs.snapshot.members.iter();
    let mut sources =
        members.flat_map(|member| member.chunks.iter().map(move |chunk| (member, chunk)));
    sources.any(|(member, chunk)| {
        let subject = Subject {
            service: &inputs.snapshot.service,
            cluster: &member.cluster.name,
            member: &member.service,
            slice: &chunk.name,
            family: chunk.facts.family,
        };
        subject.name("") == *name || subject.name("1") == *name
    })
}

fn provenance(member: &Member, chunk: &Chunk) -> Provenance {
    let origin = &chunk.facts.origin;
    Provenance {
        slice: format!("{}/{}", member.service.namespace, chunk.name).into(),
        uid: origin.uid.clone(),
        generation: origin.generation,
        cluster_uid: member.cluster_uid.clone().unwrap_or_default(),
    }
}

/// Leaves what is there as it is, where more would be written of a cluster than is allowed.
fn bound(inputs: &Inputs<'_>, cluster: &ClusterName, unit: &mut Unit, plan: &mut Plan) {
    let Unit::Wanted(copies) = unit else {
        return;
    };
    let room = inputs
        .clusters
        .get(cluster)
        .map_or(usize::MAX, |standing| standing.room);
    let wanted: usize = copies.iter().map(|copy| copy.content.endpoints.len()).sum();
    if wanted <= room {
        return;
    }
    plan.reports.push(Report::Full(cluster.clone()));
    // What is there already may shrink and go, but nothing grows.
    for copy in std::mem::take(copies) {
        let Some(there) = inputs.existing.get(&copy.name) else {
            continue;
        };
        match &there.content {
            Some(content) if copy.content.endpoints.len() > there.addresses => copies.push(Copy {
                content: content.clone(),
                ..copy
            }),
            _ => copies.push(copy),
        }
    }
}

/// Takes out, or marks, what comes from clusters out of contact, unless nobody would be left.
fn act_on_stale(inputs: &Inputs<'_>, units: &mut BTreeMap<ClusterName, Unit>) {
    let policy = |cluster: &ClusterName| {
        inputs
            .clusters
            .get(cluster)
            .map_or(OnStale::Keep, |standing| standing.stale)
    };
    let somebody_is_left = units.iter().any(|(cluster, unit)| match unit {
        Unit::Wanted(copies) => {
            policy(cluster) == OnStale::Keep
                && copies
                    .iter()
                    .any(|copy| copy.content.ready().next().is_some())
        }
        Unit::Untouched => false,
    });
    if !somebody_is_left {
        return;
    }
    for (cluster, unit) in units {
        let Unit::Wanted(copies) = unit else {
            continue;
        };
        match policy(cluster) {
            OnStale::Keep => {}
            OnStale::Remove => copies.clear(),
            OnStale::NotReady => {
                for endpoint in copies
                    .iter_mut()
                    .flat_map(|copy| &mut copy.content.endpoints)
                {
                    endpoint.conditions.ready = false;
                    endpoint.conditions.serving = false;
                    endpoint.conditions.terminating = false;
                }
            }
        }
    }
}

// === impl Plan ===

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Notes endpoints of a slice that are not written.
    fn leave_out<'a>(
        &mut self,
        member: &Member,
        chunk: &Chunk,
        endpoints: impl IntoIterator<Item = &'a Endpoint>,
        reason: Rejection,
    ) {
        let left_out = endpoints.into_iter().map(|endpoint| LeftOut {
            cluster: member.cluster.name.clone(),
            slice: format!("{}/{}", member.service.namespace, chunk.name).into(),
            address: endpoint.address,
            reason,
        });
        self.left_out.extend(left_out);
    }

    /// Every request, cluster by cluster.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.units.values().flatten()
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.units.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
