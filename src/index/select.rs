//! Which endpoints of a Service a client is told about.

use std::net::SocketAddr;
use std::sync::Arc;

use super::join::{Chunk, Held, Joined};
use super::mesh::{MeshPolicy, Reach};
use super::snapshot::{Member, MemberState, ServiceSnapshot};
use super::withhold::{Withheld, Withholding, withhold};
use crate::model::{
    Backing, ClusterFacts, ClusterName, ClusterRole, Endpoint, Membership, NodeName, ServiceFacts,
    SliceFacts, Text, TrafficPolicy, Workload, Zone,
};

/// Everything about a client that an answer depends on. Clients with equal keys share one [`View`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewKey {
    /// The port asked for.
    pub port: u16,
    /// The instance asked for, if not the whole Service.
    pub instance: Option<Text>,
    /// The client's zone.
    pub zone: Option<Zone>,
    /// The client's node, only where the answer depends on it.
    pub node: Option<NodeName>,
}

/// Where a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLocality {
    /// Its node.
    pub node: Option<NodeName>,
    /// The zone of that node.
    pub zone: Option<Zone>,
}

/// Settings that hold for every answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectPolicy {
    /// Which addresses of workloads are served.
    pub families: Families,
    /// What the mesh means at an endpoint.
    pub mesh: MeshPolicy,
}

/// Which addresses of workloads are served. Addresses that stand for themselves are, of whatever family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// IPv4 only.
    #[default]
    Ipv4,
    /// One family for each workload: IPv6 if it has an address of that, else IPv4.
    Ipv6First,
    /// All that are listed.
    Any,
}

/// The endpoints of a Service for one kind of client, by address and without duplicates.
#[derive(Clone, Debug)]
pub struct View {
    /// The port asked for.
    pub port: u16,
    /// The client's zone, which endpoints are local or remote to.
    pub zone: Option<Zone>,
    /// The endpoints, in order of address.
    pub endpoints: Box<[ViewEndpoint]>,
    /// Addresses that several clusters claim, in order.
    pub collisions: Box<[Collision]>,
    /// Whether the home cluster has the Service.
    pub exists: bool,
    /// Whether everything that may contribute has; see [`ServiceSnapshot::is_complete`].
    pub complete: bool,
    /// Whether the answer comes from more than the Service's own slices.
    pub multicluster: bool,
}

/// One endpoint of a view.
#[derive(Clone, Debug)]
pub struct ViewEndpoint {
    /// Where to connect to.
    pub socket: SocketAddr,
    /// The cluster it is in.
    pub cluster: Arc<ClusterFacts>,
    chunk: Arc<Chunk>,
    position: u32,
    reach: Reach,
}

/// An address that several clusters claim; the first one listed is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The address.
    pub socket: SocketAddr,
    /// Whose endpoint is served.
    pub winner: ClusterName,
    /// Whose is not.
    pub loser: ClusterName,
}

/// An endpoint that might be in a view, and why it is not, if it is not.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The endpoint.
    pub endpoint: ViewEndpoint,
    /// Why it is left out; `None` if it is served.
    pub excluded: Option<Exclusion>,
}

/// Why a listed endpoint is not served to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// Its slice says that it is not ready.
    NotReady,
    /// What it names is not known or not usable.
    Held(Held),
    /// It is meshed, but its proxy's ports cannot be read.
    ProxyUnreadable,
    /// It is another instance than the one asked for.
    OtherInstance,
    /// The Service's traffic policy keeps clients on their own node.
    OtherNode,
    /// The zone hints of the Service give it to other zones.
    OtherZone,
    /// The workload is served by its address of the other family.
    OtherFamily,
    /// Something of its cluster is withheld, and others are left.
    Withheld(Withholding),
    /// Another endpoint has the same address.
    Duplicate,
}

/// Why nothing of a member counts, whatever its slices list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Its cluster has not been read yet.
    Syncing,
    /// Its cluster is not linked.
    NotLinked,
    /// Its cluster has no such Service.
    NoService,
    /// It is of type `ExternalName`, which a federated Service cannot have for a member.
    ExternalName,
}

/// Where an endpoint is, seen from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// In the client's zone.
    Local,
    /// In another zone.
    Remote,
    /// One of the two zones is not known.
    Unknown,
}

/// Picks the endpoints that a client is told about.
///
/// Cost: O(endpoints of the Service). Empty only if no endpoint is ready and servable, if the instance asked for does not
/// exist, or if the traffic policy is `Local` and the client's node has none.
pub fn select(snapshot: &ServiceSnapshot, key: &ViewKey, policy: &SelectPolicy) -> View {
    let mut collisions: Vec<Collision> = Vec::new();
    let mut endpoints: Vec<ViewEndpoint> = Vec::new();
    for candidate in examine(snapshot, key, policy) {
        match candidate.excluded {
            None => endpoints.push(candidate.endpoint),
            Some(Exclusion::Duplicate) => {
                if let Some(winner) = endpoints.last()
                    && winner.cluster.name != candidate.endpoint.cluster.name
                {
                    let collision = Collision {
                        socket: winner.socket,
                        winner: winner.cluster.name.clone(),
                        loser: candidate.endpoint.cluster.name.clone(),
                    };
                    if collisions.last() != Some(&collision) {
                        collisions.push(collision);
                    }
                }
            }
            Some(_) => {}
        }
    }
    View {
        port: key.port,
        zone: key.zone.clone(),
        endpoints: endpoints.into(),
        collisions: collisions.into(),
        exists: snapshot.facts.is_some(),
        complete: snapshot.is_complete(),
        multicluster: snapshot.is_multicluster(),
    }
}

/// Looks at every endpoint that the Service's slices list for a port, and says of each whether it is served.
///
/// In order of address; of several endpoints with one address the one that is served comes first. It belongs to the
/// home cluster rather than to a linked one, to the first cluster by name, and has a workload behind it rather than not.
pub fn examine(snapshot: &ServiceSnapshot, key: &ViewKey, policy: &SelectPolicy) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut withheld = Vec::new();
    for member in &snapshot.members {
        if let Ok(facts) = contribution(snapshot, member) {
            let from = all.len();
            list(member, facts, key, &policy.mesh, &mut all);
            filter(member, facts, key, policy, &mut all[from..]);
            if member.withheld != Withheld::NOTHING {
                withheld.push((from..all.len(), member.withheld));
            }
        }
    }
    if !withheld.is_empty() {
        withhold(&mut all, &withheld);
    }
    all.sort_by(|one, two| {
        (one.endpoint.socket, one.excluded.is_some())
            .cmp(&(two.endpoint.socket, two.excluded.is_some()))
            .then_with(|| one.endpoint.rank().cmp(&two.endpoint.rank()))
    });
    let mut served: Option<SocketAddr> = None;
    for candidate in &mut all {
        if candidate.excluded.is_none() {
            if served == Some(candidate.endpoint.socket) {
                candidate.excluded = Some(Exclusion::Duplicate);
            }
            served = Some(candidate.endpoint.socket);
        }
    }
    // Duplicates directly follow the endpoint they repeat, which `select` relies on.
    all
}

/// What a member says, if its endpoints count.
pub(super) fn contribution<'a>(
    snapshot: &ServiceSnapshot,
    member: &'a Member,
) -> Result<&'a ServiceFacts, Silence> {
    match member.state {
        MemberState::Syncing => return Err(Silence::Syncing),
        MemberState::NotLinked => return Err(Silence::NotLinked),
        MemberState::Synced => {}
    }
    let facts = member.facts.as_deref().ok_or(Silence::NoService)?;
    let federated = snapshot
        .facts
        .as_ref()
        .is_some_and(|facts| matches!(facts.membership, Membership::Federated(_)));
    if federated && facts.external_name {
        return Err(Silence::ExternalName);
    }
    Ok(facts)
}

/// Lists every endpoint of a member that has the port, with what is wrong with it by itself.
fn list(
    member: &Member,
    facts: &ServiceFacts,
    key: &ViewKey,
    mesh: &MeshPolicy,
    all: &mut Vec<Candidate>,
) {
    let named = port_name(facts, key.port);
    for chunk in member.chunks.iter() {
        let Some(port) = target_port(&chunk.facts, named, key.port) else {
            continue;
        };
        for (position, endpoint) in (0_u32..).zip(chunk.facts.endpoints.iter()) {
            let mut candidate = ViewEndpoint {
                socket: SocketAddr::new(endpoint.address, port),
                cluster: Arc::clone(&member.cluster),
                chunk: Arc::clone(chunk),
                position,
                reach: Reach::default(),
            };
            let reach = mesh.reach(&candidate);
            candidate.reach = reach.unwrap_or_default();
            let excluded = match candidate.joined() {
                _ if !endpoint.conditions.ready => Some(Exclusion::NotReady),
                Joined::Held(held) => Some(Exclusion::Held(*held)),
                _ if key.instance.is_some() && endpoint.hostname != key.instance => {
                    Some(Exclusion::OtherInstance)
                }
                _ if reach.is_err() => Some(Exclusion::ProxyUnreadable),
                Joined::Address
                | Joined::Pod(_)
                | Joined::ExternalWorkload(_)
                | Joined::Unreadable => None,
            };
            all.push(Candidate {
                endpoint: candidate,
                excluded,
            });
        }
    }
}

/// The name by which a Service's slices have a port; `None` if the Service does not define the number.
pub(super) fn port_name(facts: &ServiceFacts, number: u16) -> Option<&Text> {
    let port = facts.ports.iter().find(|port| port.port == number)?;
    Some(&port.name)
}

/// The port that a slice's endpoints are reached at.
///
/// A port that the Service defines is looked up in the slice by its name; any other number is taken as it is. A slice
/// without ports has no endpoints for anybody.
pub(super) fn target_port(slice: &SliceFacts, name: Option<&Text>, number: u16) -> Option<u16> {
    match name {
        Some(name) => slice
            .ports
            .iter()
            .filter(|port| port.name == *name)
            .find_map(|port| port.port),
        None => (!slice.ports.is_empty()).then_some(number),
    }
}

/// Applies what depends on the other endpoints of the member, or on the client.
///
/// Where IPv4 alone is served, a workload's IPv6 address is nobody's, so that hints cannot choose it and leave nothing.
/// Where IPv6 is preferred, hints come first: a workload whose IPv6 address they give to another zone falls back to IPv4.
fn filter(
    member: &Member,
    facts: &ServiceFacts,
    key: &ViewKey,
    policy: &SelectPolicy,
    candidates: &mut [Candidate],
) {
    if policy.families == Families::Ipv4 {
        exclude(candidates, Exclusion::OtherFamily, |endpoint| {
            endpoint.socket.is_ipv6() && endpoint.endpoint().backing != Backing::Address
        });
    }
    if member.cluster.role == ClusterRole::Home {
        match facts.internal_traffic_policy {
            TrafficPolicy::Local => exclude(candidates, Exclusion::OtherNode, |endpoint| {
                !endpoint.runs_on(key.node.as_ref())
            }),
            TrafficPolicy::Cluster => filter_by_hints(key.zone.as_ref(), candidates),
        }
    }
    if policy.families == Families::Ipv6First {
        prefer_ipv6(candidates);
    }
}

/// Leaves out IPv4 addresses of workloads that are served by an IPv6 one.
fn prefer_ipv6(candidates: &mut [Candidate]) {
    let mut with_ipv6: Vec<Backing> = candidates
        .iter()
        .filter(|candidate| candidate.excluded.is_none() && candidate.endpoint.socket.is_ipv6())
        .map(|candidate| candidate.endpoint.endpoint().backing.clone())
        .filter(|backing| *backing != Backing::Address)
        .collect();
    with_ipv6.sort_unstable();
    exclude(candidates, Exclusion::OtherFamily, |endpoint| {
        endpoint.socket.is_ipv4()
            && with_ipv6
                .binary_search(&endpoint.endpoint().backing)
                .is_ok()
    });
}

/// Keeps endpoints that the hints give to the client's zone, unless that would be unsafe.
///
/// All stay if any has no hint, or if none is meant for the zone. Source: Kubernetes topology-aware routing, safeguards.
fn filter_by_hints(zone: Option<&Zone>, candidates: &mut [Candidate]) {
    let mut meant_for_zone = 0_usize;
    for candidate in candidates
        .iter()
        .filter(|candidate| candidate.excluded.is_none())
    {
        match &candidate.endpoint.endpoint().zone_hints {
            None => return,
            Some(zones) if zone.is_some_and(|zone| zones.contains(zone)) => meant_for_zone += 1,
            Some(_) => {}
        }
    }
    if meant_for_zone > 0 {
        exclude(candidates, Exclusion::OtherZone, |endpoint| {
            let hints = endpoint.endpoint().zone_hints.as_ref();
            !hints.is_some_and(|zones| zone.is_some_and(|zone| zones.contains(zone)))
        });
    }
}

fn exclude(
    candidates: &mut [Candidate],
    reason: Exclusion,
    unwanted: impl Fn(&ViewEndpoint) -> bool,
) {
    for candidate in candidates {
        if candidate.excluded.is_none() && unwanted(&candidate.endpoint) {
            candidate.excluded = Some(reason);
        }
    }
}

// === impl ViewKey ===

impl ViewKey {
    /// The key of a client that asks for a port, and perhaps an instance, of a Service.
    pub fn new(
        snapshot: &ServiceSnapshot,
        port: u16,
        instance: Option<Text>,
        client: &ClientLocality,
    ) -> Self {
        Self {
            port,
            instance,
            zone: client.zone.clone(),
            node: client.node.clone().filter(|_| snapshot.depends_on_node()),
        }
    }

    /// Whether it is, of a client that asks for this port and instance, the key for this snapshot too.
    pub fn is_of(&self, snapshot: &ServiceSnapshot, client: &ClientLocality) -> bool {
        let node = client.node.as_ref().filter(|_| snapshot.depends_on_node());
        self.zone == client.zone && self.node.as_ref() == node
    }
}

// === impl View ===

impl View {
    /// The endpoint with an address, if there is one.
    pub fn endpoint_at(&self, socket: SocketAddr) -> Option<&ViewEndpoint> {
        let place = self
            .endpoints
            .binary_search_by_key(&socket, |endpoint| endpoint.socket);
        place.ok().map(|place| &self.endpoints[place])
    }
}

// === impl Locality ===

impl Locality {
    /// The locality in a word, as in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Unknown => "unknown",
        }
    }
}

// === impl ViewEndpoint ===

impl ViewEndpoint {
    /// The slice that lists it.
    pub fn slice(&self) -> &SliceFacts {
        &self.chunk.facts
    }

    /// The name of that slice, in the namespace of its Service.
    pub fn slice_name(&self) -> &Text {
        &self.chunk.name
    }

    /// Which joined slice it is from.
    pub(super) fn chunk(&self) -> *const Chunk {
        Arc::as_ptr(&self.chunk)
    }

    /// What the slice says of it.
    pub fn endpoint(&self) -> &Endpoint {
        &self.chunk.facts.endpoints[self.position as usize]
    }

    /// What was found behind it.
    pub fn joined(&self) -> &Joined {
        self.chunk.joined(self.position as usize)
    }

    /// The Pod behind it, if there is one.
    pub fn pod(&self) -> Option<&Workload> {
        match self.joined() {
            Joined::Pod(workload) => Some(workload),
            Joined::Address
            | Joined::ExternalWorkload(_)
            | Joined::Unreadable
            | Joined::Held(_) => None,
        }
    }

    /// Whether the Pod that the endpoint names is on a node; where Pods may not be read, the slice says where it is.
    fn runs_on(&self, node: Option<&NodeName>) -> bool {
        match self.joined() {
            Joined::Pod(workload) => workload.facts.node.as_ref() == node,
            Joined::Unreadable => self.endpoint().node.as_ref() == node,
            Joined::Address | Joined::ExternalWorkload(_) | Joined::Held(_) => false,
        }
    }

    /// Whether the workload vouches for the address: it has this IP.
    pub fn is_vouched_for(&self) -> bool {
        let ip = self.socket.ip();
        match self.joined() {
            Joined::Pod(workload) => workload.facts.has_ip(ip),
            Joined::ExternalWorkload(workload) => workload.facts.has_ip(ip),
            Joined::Address | Joined::Unreadable | Joined::Held(_) => false,
        }
    }

    fn has_workload(&self) -> bool {
        matches!(self.joined(), Joined::Pod(_) | Joined::ExternalWorkload(_))
    }

    /// Where it is, seen from a client in a zone. Addresses that stand for themselves have no locality.
    pub fn locality(&self, client: Option<&Zone>) -> Locality {
        let zone = match self.joined() {
            Joined::Pod(_) | Joined::ExternalWorkload(_) | Joined::Unreadable => {
                self.endpoint().zone.as_ref()
            }
            Joined::Address | Joined::Held(_) => None,
        };
        match (client, zone) {
            (None, _) | (_, None) => Locality::Unknown,
            (Some(client), Some(zone)) if client == zone => Locality::Local,
            (Some(_), Some(_)) => Locality::Remote,
        }
    }

    /// Whether both come from the very same facts; cheap, and never true by mistake.
    fn same(&self, other: &Self) -> bool {
        self.position == other.position
            && Arc::ptr_eq(&self.chunk, &other.chunk)
            && Arc::ptr_eq(&self.cluster, &other.cluster)
    }

    /// Whether a client is told the same of both: everything that any answer says of an endpoint is equal.
    ///
    /// Both have to be selected with the same policy.
    pub fn same_content(&self, other: &Self) -> bool {
        self.socket == other.socket
            && self.reach == other.reach
            && (self.same(other)
                || (same_cluster(&self.cluster, &other.cluster)
                    && self.slice().service == other.slice().service
                    && self.slice().mirror == other.slice().mirror
                    && self.endpoint().zone == other.endpoint().zone
                    && same_joined(self.joined(), other.joined())))
    }

    /// Order of preference among endpoints with one address: the smallest is served.
    fn rank(&self) -> (ClusterRole, &ClusterName, bool, bool) {
        (
            self.cluster.role,
            &self.cluster.name,
            !self.is_vouched_for(),
            !self.has_workload(),
        )
    }
}

fn same_cluster(one: &Arc<ClusterFacts>, two: &Arc<ClusterFacts>) -> bool {
    Arc::ptr_eq(one, two) || one == two
}

/// Whether names and labels are equal; ports and protocols are compared by [`Reach`].
fn same_joined(one: &Joined, two: &Joined) -> bool {
    match (one, two) {
        (Joined::Pod(one), Joined::Pod(two)) => {
            let (a, b) = (&one.facts.template, &two.facts.template);
            Arc::ptr_eq(one, two)
                || (one.pod == two.pod
                    && one.owner == two.owner
                    && a.service_account == b.service_account
                    && a.control_plane_namespace == b.control_plane_namespace
                    && a.template_hash == b.template_hash)
        }
        (Joined::ExternalWorkload(one), Joined::ExternalWorkload(two)) => {
            let (a, b) = (&one.facts, &two.facts);
            Arc::ptr_eq(one, two)
                || (one.name == two.name
                    && a.owner == b.owner
                    && a.identity == b.identity
                    && a.server_name == b.server_name)
        }
        (Joined::Address, Joined::Address) | (Joined::Unreadable, Joined::Unreadable) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
