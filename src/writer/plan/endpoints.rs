//! What of a source slice is copied.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::super::copy::{CopyEndpoint, CopyPort, Target, TargetKind};
use super::{Inputs, Plan, Report};
use crate::index::{Chunk, Joined, Member};
use crate::model::copying::{Hints, Hostnames, NodeNames, Zones};
use crate::model::{
    Backing, ClusterName, ClusterRole, Endpoint, ServiceDetails, ServiceFacts, SliceFacts,
    SliceName, SliceOrigin, Text, Uid, Zone,
};

/// Endpoints that the API allows in one slice.
const ENDPOINTS_MAX: usize = 1000;
/// Characters of a label's value, and of a DNS label.
const LABEL_MAX: usize = 63;
/// Zones that the API allows in the hints of one endpoint.
const HINTS_MAX: usize = 8;

/// Managers whose slices are copies from other clusters, by the value of their `managed-by` label.
const IMPORTERS: &[&str] = &[
    "endpointslice-mesh-controller.cilium.io",
    "endpointslice-dispatch-controller.karmada.io",
    "lighthouse-agent.submariner.io",
    "fleet.azure.com",
    "endpointslice-writer.tributary.dev",
];

/// Why something of a source is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rejection {
    /// The home Service does not have the slice's address family.
    Family,
    /// The slice has none of the home Service's ports.
    Port,
    /// The slice is itself a copy.
    Import,
    /// The address is not in the ranges allowed for its cluster.
    Range,
    /// The address is one of the home cluster.
    Home,
    /// The address cannot be that of a Pod: loopback, multicast and such.
    NoPod,
    /// Another cluster's endpoint has the address, and goes first.
    Overlap,
    /// The slice lists more than the API allows in a copy.
    TooMany,
    /// The slice lists host names.
    Fqdn,
    /// The API server has refused the endpoint as it is.
    Refused,
}

/// Which cluster of the Service has which socket.
#[derive(Debug, Default)]
pub(super) struct Claims {
    settled: HashMap<(IpAddr, u16), ClusterName>,
    /// Those of the member being looked at, which may list an address as often as it likes.
    current: HashMap<(IpAddr, u16), ClusterName>,
}

// === impl Rejection ===

impl Rejection {
    /// In one word; for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Family => "family",
            Self::Port => "port",
            Self::Import => "loop",
            Self::Range => "cidr",
            Self::Home => "home_range",
            Self::NoPod => "address",
            Self::Overlap => "overlap",
            Self::TooMany => "cap",
            Self::Fqdn => "fqdn",
            Self::Refused => "refused",
        }
    }

    /// For people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Family => "the Service does not have the slice's address family",
            Self::Port => "the slice has none of the Service's ports",
            Self::Import => "the slice is itself a copy from another cluster",
            Self::Range => "the address is outside of the ranges allowed for the cluster",
            Self::Home => "the address belongs to the home cluster",
            Self::NoPod => "the address cannot be that of a Pod",
            Self::Overlap => "an endpoint of another cluster has the address",
            Self::TooMany => "the slice lists more endpoints than a copy may have",
            Self::Fqdn => "the slice lists host names, which most readers ignore or refuse",
            Self::Refused => "the API server does not take the endpoint as it is",
        }
    }
}

// === impl Claims ===

impl Claims {
    fn is_taken(&self, address: IpAddr, ports: &[CopyPort]) -> bool {
        ports
            .iter()
            .any(|port| self.settled.contains_key(&(address, port.port)))
    }

    fn claim(&mut self, cluster: &ClusterName, address: IpAddr, ports: &[CopyPort]) {
        for port in ports {
            self.current.insert((address, port.port), cluster.clone());
        }
    }

    /// What the member has claimed holds against the next ones.
    pub(super) fn end_member(&mut self) {
        self.settled.extend(self.current.drain());
    }
}

/// Whether a slice is a copy from another cluster: to copy it once more would close a loop.
pub(super) fn is_import(origin: &SliceOrigin) -> bool {
    origin.is_import || IMPORTERS.contains(&origin.managed_by.as_str())
}

/// The ports of a copy: for each of the home Service's, the member's port of that number, and what the slice has under its name.
///
/// A port that the member lacks is left out: to guess is up to who asks for it.
pub(super) fn ports_of(
    home: &ServiceFacts,
    member: &ServiceFacts,
    slice: &SliceFacts,
) -> Vec<CopyPort> {
    let mut ports: Vec<CopyPort> = Vec::new();
    for wanted in &home.ports {
        let there = member
            .ports
            .iter()
            .find(|port| port.port == wanted.port && port.transport == wanted.transport);
        let Some(there) = there else {
            continue;
        };
        let target = slice
            .ports
            .iter()
            .find(|port| port.name == there.name && port.transport == wanted.transport);
        let Some((target, number)) = target.and_then(|target| Some((target, target.port?))) else {
            continue;
        };
        let spoken = [
            &wanted.app_protocol,
            &target.app_protocol,
            &there.app_protocol,
        ];
        let port = CopyPort {
            name: wanted.name.clone(),
            transport: wanted.transport,
            port: number,
            app_protocol: spoken
                .into_iter()
                .flatten()
                .find(|text| is_qualified_name(text))
                .cloned(),
        };
        if ports.iter().all(|known| known.name != port.name) {
            ports.push(port);
        }
    }
    ports
}

/// The endpoints of a copy, without hints but those of the source.
pub(super) fn of_slice(
    inputs: &Inputs<'_>,
    details: &ServiceDetails,
    member: &Member,
    chunk: &Chunk,
    (name, ports): (&SliceName, &[CopyPort]),
    claims: &mut Claims,
    plan: &mut Plan,
) -> Vec<CopyEndpoint> {
    let cluster = &member.cluster.name;
    let origin = &chunk.facts.origin;
    let refused = inputs.moment.refused.get(name);
    let refused =
        refused.filter(|refused| refused.source == (origin.uid.clone(), origin.generation));
    let is_refused = |ip| refused.is_some_and(|refused| refused.addresses.contains(&ip));
    let mut rejected: BTreeMap<Rejection, (usize, IpAddr)> = BTreeMap::new();
    let mut endpoints = Vec::with_capacity(chunk.facts.endpoints.len());
    for (endpoint, joined) in chunk.endpoints() {
        let rejection = rejection(inputs, member, endpoint, ports, claims)
            .or_else(|| is_refused(endpoint.address).then_some(Rejection::Refused))
            .or_else(|| (endpoints.len() >= ENDPOINTS_MAX).then_some(Rejection::TooMany));
        if let Some(reason) = rejection {
            rejected.entry(reason).or_insert((0, endpoint.address)).0 += 1;
            plan.leave_out(member, chunk, [endpoint], reason);
            continue;
        }
        claims.claim(cluster, endpoint.address, ports);
        endpoints.push(translated(inputs, details, member, endpoint, joined));
    }
    let reported = rejected
        .into_iter()
        .map(|(reason, (count, first))| Report::Rejected(cluster.clone(), reason, count, first));
    plan.reports.extend(reported);
    endpoints
}

fn rejection(
    inputs: &Inputs<'_>,
    member: &Member,
    endpoint: &Endpoint,
    ports: &[CopyPort],
    claims: &Claims,
) -> Option<Rejection> {
    let ip = endpoint.address;
    if !may_be_pod(ip) {
        return Some(Rejection::NoPod);
    }
    if member.cluster.role == ClusterRole::Linked {
        if !inputs.settings.allows(&member.cluster.name, ip) {
            return Some(Rejection::Range);
        }
        if inputs.settings.is_in_home_range(ip) || inputs.is_home.contains(ip) {
            return Some(Rejection::Home);
        }
    }
    claims.is_taken(ip, ports).then_some(Rejection::Overlap)
}

/// Whether the API server, or common sense, lets a Pod have this address.
pub(in crate::writer) fn may_be_pod(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return false;
    }
    match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && ip.to_ipv4_mapped().is_none(),
    }
}

fn translated(
    inputs: &Inputs<'_>,
    details: &ServiceDetails,
    member: &Member,
    endpoint: &Endpoint,
    joined: &Joined,
) -> CopyEndpoint {
    let settings = inputs.settings;
    let is_home = member.cluster.role == ClusterRole::Home;
    let target = target(member, &endpoint.backing, joined).filter(|_| is_home);
    let node = endpoint.node.clone().filter(|node| {
        (is_home || settings.node_names == NodeNames::Keep) && is_dns_subdomain(node.as_str())
    });
    let is_pod = target
        .as_ref()
        .is_some_and(|target| target.kind == TargetKind::Pod);
    CopyEndpoint {
        address: endpoint.address,
        conditions: endpoint.conditions,
        hostname: hostname(inputs, details, member, endpoint, is_pod),
        node,
        zone: zone(
            settings.zones_of(&member.cluster.name),
            &member.cluster.name,
            endpoint,
        ),
        hints: match settings.hints {
            Hints::Copy => source_hints(endpoint),
            Hints::Off | Hints::Zone | Hints::LocalFirst => Vec::new(),
        },
        target,
    }
}

/// What is behind an endpoint. Uids of Pods are not kept: there are too many for what readers make of them.
fn target(member: &Member, backing: &Backing, joined: &Joined) -> Option<Target> {
    let uid = match joined {
        Joined::ExternalWorkload(workload) => workload.facts.uid.clone(),
        Joined::Address | Joined::Pod(_) | Joined::Unreadable | Joined::Held(_) => Uid::default(),
    };
    match backing {
        Backing::Address => None,
        Backing::Pod(pod) => Some(Target {
            kind: TargetKind::Pod,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid,
        }),
        Backing::ExternalWorkload(name) => Some(Target {
            kind: TargetKind::ExternalWorkload,
            namespace: member.service.namespace.clone(),
            name: name.clone(),
            uid,
        }),
    }
}

/// The hostname, if it can be told without harm.
///
/// Linkerd's own destination controller ends when it is asked for an instance whose endpoint has a hostname and no Pod.
fn hostname(
    inputs: &Inputs<'_>,
    details: &ServiceDetails,
    member: &Member,
    endpoint: &Endpoint,
    is_pod: bool,
) -> Option<Text> {
    let hostname = endpoint
        .hostname
        .as_ref()
        .filter(|name| is_dns_label(name))?;
    let suffixed = || {
        let name = format!("{hostname}-{}", member.cluster.name);
        is_dns_label(&name).then(|| Text::from(name))
    };
    match inputs.settings.hostnames {
        Hostnames::Drop => None,
        Hostnames::Suffix => suffixed(),
        Hostnames::Auto if inputs.moment.stock_destination && !is_pod => None,
        // DNS would give one name addresses of several clusters.
        Hostnames::Auto if details.is_headless && inputs.snapshot.members.len() > 1 => suffixed(),
        Hostnames::Auto | Hostnames::Keep => Some(hostname.clone()),
    }
}

fn zone(zones: &Zones, cluster: &ClusterName, endpoint: &Endpoint) -> Option<Zone> {
    let zone = endpoint
        .zone
        .as_ref()
        .filter(|zone| !zone.as_str().is_empty());
    let zone = match zones {
        Zones::Drop => None,
        Zones::Cluster => Some(Zone::from(cluster.text().clone())),
        Zones::Keep => zone.cloned(),
        Zones::Prefix => zone.map(|zone| Zone::from(format!("{cluster}.{zone}"))),
        Zones::Map(table) => zone.map(|zone| table.get(zone).unwrap_or(zone).clone()),
    };
    zone.filter(|zone| is_label_value(zone.as_str()))
}

fn source_hints(endpoint: &Endpoint) -> Vec<Zone> {
    let hints = endpoint
        .zone_hints
        .as_deref()
        .map_or(&[][..], Vec::as_slice);
    let all_fine = hints.iter().all(|zone| is_label_value(zone.as_str()));
    if all_fine && hints.len() <= HINTS_MAX {
        hints.to_vec()
    } else {
        Vec::new()
    }
}

/// A non-empty label value, as zones are compared with.
pub(in crate::writer) fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= LABEL_MAX
        && text.bytes().all(inner)
        && starts_and_ends(text, |byte| byte.is_ascii_alphanumeric())
}

/// A DNS label of RFC 1123, in lower case.
pub(in crate::writer) fn is_dns_label(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= LABEL_MAX
        && text.bytes().all(|byte| edge(byte) || byte == b'-')
        && starts_and_ends(text, edge)
}

/// A DNS subdomain: what Nodes may be called.
fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label_of_any_length)
}

fn is_dns_label_of_any_length(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| edge(byte) || byte == b'-') && starts_and_ends(text, edge)
}

/// `name` or `prefix/name`: what the API takes for an `appProtocol`.
fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

fn starts_and_ends(text: &str, edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => edge(*first) && edge(*last),
        _ => false,
    }
}
