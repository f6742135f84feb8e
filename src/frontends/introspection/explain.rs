//! Explanations → messages for operators.

use std::net::{IpAddr, SocketAddr};

use super::advice::{self, Context, Ranked};
use super::overview::count;
use super::{history, report, words};
use crate::index::{
    Address, ClientLocality, ExplainedMember, ExplainedSlice, Holder, ServiceSnapshot, ViewKey,
    explain,
};
use crate::model::{ClusterRole, Text};
use crate::proto::tributary_v1 as pb;
use crate::publish::Catalog;

/// Changes that an explanation tells of.
const CHANGES_MAX: usize = 5;

/// What is to be explained.
#[derive(Debug)]
pub(super) struct Question<'a> {
    /// The authority in full.
    pub(super) authority: String,
    pub(super) port: u16,
    pub(super) instance: Option<&'a Text>,
    pub(super) client: &'a ClientLocality,
    pub(super) only: Option<Wanted>,
}

/// An address, perhaps with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    ip: IpAddr,
    port: Option<u16>,
}

/// What has been found out so far.
#[derive(Default)]
struct Findings {
    advice: Vec<Ranked>,
    /// Endpoints that were looked at, and those of them that are in the answer.
    seen: usize,
    kept: usize,
    /// Whether a slice lists what is wanted, with the port or without it.
    listed: bool,
    /// About members that contribute nothing.
    silent: Vec<Ranked>,
}

// === impl Wanted ===

impl Wanted {
    /// Reads `IP` or `IP:PORT`; `None` for nothing.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let with_port = text.parse().map(|socket: SocketAddr| Self {
            ip: socket.ip(),
            port: Some(socket.port()),
        });
        let alone = || text.parse().map(|ip| Self { ip, port: None });
        with_port
            .or_else(|_| alone())
            .map(Some)
            .map_err(|_| format!("{text:?} is no IP address; write 10.42.0.7 or 10.42.0.7:8080"))
    }

    pub(super) fn is(self, socket: SocketAddr) -> bool {
        self.ip == socket.ip() && self.port.is_none_or(|port| port == socket.port())
    }
}

/// Explains the answer for one Service to one kind of client.
pub(super) fn explanation(
    snapshot: &ServiceSnapshot,
    question: Question<'_>,
    catalog: &Catalog,
) -> pb::Explanation {
    let (client, only) = (question.client, question.only);
    let key = ViewKey::new(snapshot, question.port, question.instance.cloned(), client);
    let mut findings = Findings::default();
    let mut members: Vec<_> = explain(snapshot, &key, catalog.policy())
        .iter()
        .map(|explained| member(explained, &key, client, only, catalog, &mut findings))
        .collect();
    if findings.listed {
        // Only the branches that lead there; what else may be wrong with the Service is not the question.
        members.retain(|member| !member.slices.is_empty());
    } else {
        findings.advice.append(&mut findings.silent);
    }
    let holders = only.map_or_else(Vec::new, |only| holders(&catalog.address(only.ip), catalog));
    if let Some(only) = only
        && !findings.listed
    {
        let unlisted = advice::on_unlisted(only.ip, &snapshot.service, &holders);
        findings.advice.extend(unlisted);
    }
    if only.is_none() && findings.seen == 0 && findings.advice.is_empty() {
        let name = &snapshot.service.name;
        findings.advice.push(Ranked::new(
            1,
            "Everything that could contribute has been read, and no EndpointSlice lists an endpoint for the port.",
            format!(
                "See whether the selector matches any Pod: kubectl -n {} get endpointslices -l kubernetes.io/service-name={name}",
                snapshot.service.namespace
            ),
        ));
    }
    let replacements = catalog.history(&snapshot.service);
    let mut changes = history::changes(
        &replacements,
        question.port,
        question.instance,
        client,
        catalog.policy(),
        only,
    );
    changes.truncate(CHANGES_MAX);
    let is_current = members.iter().all(|explained| {
        let state = explained.member.as_ref().map(pb::Member::state);
        state == Some(pb::MemberState::Synced)
    });
    pb::Explanation {
        authority: question.authority,
        verdict: verdict(only, &findings),
        fine: findings.kept > 0 && (only.is_some() || is_current),
        resolution: report::resolution(snapshot).into(),
        service: snapshot
            .facts
            .as_deref()
            .map(words::service)
            .unwrap_or_default(),
        members,
        advice: advice::finish(findings.advice),
        holders,
        changes,
    }
}

fn verdict(only: Option<Wanted>, findings: &Findings) -> String {
    let Findings { seen, kept, .. } = findings;
    match only {
        Some(Wanted { ip, .. }) if *kept > 0 => format!("{ip} is in the answer."),
        Some(Wanted { ip, .. }) => format!("{ip} is NOT in the answer."),
        None if *kept == 0 => "The answer is empty.".to_owned(),
        None if kept == seen => match kept {
            1 => "The answer has the only endpoint there is.".to_owned(),
            kept => format!("The answer has all {kept} endpoints."),
        },
        None => format!("The answer has {kept} of {seen} endpoints."),
    }
}

fn member(
    explained: &ExplainedMember<'_>,
    key: &ViewKey,
    client: &ClientLocality,
    only: Option<Wanted>,
    catalog: &Catalog,
    findings: &mut Findings,
) -> pb::ExplainedMember {
    let message = report::member(explained.member, catalog.board());
    let stale = message.state() == pb::MemberState::Stale;
    let at = Context {
        cluster: explained.member.cluster.name.as_str(),
        service: &explained.member.service,
        stale,
    };
    let note = match explained.silence {
        Some(silence) => {
            findings.silent.push(advice::on_silence(silence, at));
            words::silence(silence).to_owned()
        }
        None if stale => "out of contact: what it said last counts".to_owned(),
        None if explained.member.cluster.role == ClusterRole::Home => "home cluster".to_owned(),
        None => "linked, in sync".to_owned(),
    };
    if stale && only.is_none() {
        findings.advice.push(Ranked::new(
            0,
            format!(
                "Contact with cluster {} is lost; its endpoints are what it said last.",
                at.cluster
            ),
            "Look at why: `tributary clusters`.",
        ));
    }
    let slices = explained
        .slices
        .iter()
        .filter(|slice| only.is_none_or(|only| slice.listed(only.ip).next().is_some()))
        .map(|slice| explained_slice(slice, explained, key, client, only, at, catalog, findings))
        .collect();
    pb::ExplainedMember {
        member: Some(message),
        note,
        contributes: explained.silence.is_none(),
        slices,
    }
}

#[expect(clippy::too_many_arguments, reason = "one step of a walk down a tree")]
fn explained_slice(
    slice: &ExplainedSlice<'_>,
    member: &ExplainedMember<'_>,
    key: &ViewKey,
    client: &ClientLocality,
    only: Option<Wanted>,
    at: Context<'_>,
    catalog: &Catalog,
    findings: &mut Findings,
) -> pb::ExplainedSlice {
    let facts = &slice.chunk.facts;
    let name = format!("{}/{}", facts.service.namespace, slice.chunk.name);
    findings.listed |= only.is_some();
    if slice.port.is_none() {
        findings.advice.push(advice::on_port(&name, key, at));
    }
    let wanted = slice
        .candidates
        .iter()
        .filter(|candidate| only.is_none_or(|only| only.is(candidate.endpoint.socket)));
    let mut endpoints = Vec::new();
    for candidate in wanted {
        findings.seen += 1;
        findings.kept += usize::from(candidate.excluded.is_none());
        findings
            .advice
            .extend(advice::on_candidate(candidate, key, at));
        endpoints.push(pb::ExplainedEndpoint {
            endpoint: Some(report::endpoint(candidate, client, catalog.policy())),
            rules: words::rules(member, candidate, key),
        });
    }
    pb::ExplainedSlice {
        name,
        note: words::port(slice, key.port),
        has_port: slice.port.is_some(),
        addresses: count(facts.endpoints.len()),
        endpoints,
    }
}

/// Everybody who has an address.
fn holders(address: &Address, catalog: &Catalog) -> Vec<pb::Holder> {
    let clusters = catalog.clusters();
    let home = clusters
        .iter()
        .find(|cluster| cluster.role == ClusterRole::Home)
        .map(|home| home.name.to_string())
        .unwrap_or_default();
    let services = address.services.iter().map(|service| pb::Holder {
        cluster: home.clone(),
        kind: "Service".to_owned(),
        name: service.name.to_string(),
        namespace: service.namespace.to_string(),
    });
    let pods = [&address.pods, &address.host_ports, &address.remote];
    let pods = pods
        .into_iter()
        .flatten()
        .map(|Holder { cluster, workload }| pb::Holder {
            cluster: cluster.name.to_string(),
            kind: "Pod".to_owned(),
            name: workload.pod.name.to_string(),
            namespace: workload.pod.namespace.to_string(),
        });
    let external = address.external.iter().map(|external| pb::Holder {
        cluster: home.clone(),
        kind: "ExternalWorkload".to_owned(),
        name: external.name.name.to_string(),
        namespace: external.name.namespace.to_string(),
    });
    services.chain(pods).chain(external).collect()
}
