//! What the index should say, by looking through everything that was said.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::history::Query;
use crate::index::{Change, Families, Kind, Object, ObjectChange, ObjectName, Withheld};
use crate::model::{
    Backing, ClusterFacts, ClusterName, ClusterRole, Condition, Endpoint, ExternalWorkloadName,
    Membership, Owner, OwnerKind, PodFacts, PodName, ProfileFacts, ProfileName, Selector,
    ServerFacts, ServerPort, ServiceFacts, ServiceName, SessionId, SliceFacts, SliceName,
    TrafficPolicy, Traits,
};
use crate::testing::HOME;

/// Raw facts of every cluster.
#[derive(Clone, Debug)]
pub(super) struct Naive {
    pub(super) clusters: BTreeMap<ClusterName, Cluster>,
    links_known: bool,
}

/// A cluster, and its sessions that are not over.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) current: Option<Session>,
    pub(super) pending: Option<Session>,
    pub(super) withheld: bool,
}

/// One session, with all its objects in one list.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) facts: ClusterFacts,
    pub(super) kinds: Vec<(Kind, bool)>,
    pub(super) objects: Vec<Object>,
}

/// One line of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) socket: SocketAddr,
    pub(super) role: ClusterRole,
    pub(super) cluster: String,
    pub(super) trust_domain: String,
    pub(super) unvouched: bool,
    pub(super) without_workload: bool,
    /// Where it stands among the member's endpoints.
    pub(super) place: usize,
    pub(super) text: String,
}

struct Candidate<'a> {
    row: Row,
    endpoint: &'a Endpoint,
    pod: Option<&'a PodFacts>,
}

impl Naive {
    pub(super) fn new() -> Self {
        let home = (ClusterName::from(HOME), Cluster::default());
        Self {
            clusters: BTreeMap::from([home]),
            links_known: false,
        }
    }

    pub(super) fn hear(&mut self, change: Change) {
        match change {
            Change::Linked { cluster } => {
                self.clusters.entry(cluster).or_default();
            }
            Change::Unlinked { cluster } => {
                self.clusters.remove(&cluster);
            }
            Change::LinksKnown => self.links_known = true,
            Change::Withheld { cluster, withheld } => {
                if let Some(cluster) = self.clusters.get_mut(&cluster) {
                    cluster.withheld = withheld != Withheld::NOTHING;
                }
            }
            Change::Opened { facts, session } => {
                let cluster = self.clusters.entry(facts.name.clone()).or_default();
                let opened = Session {
                    id: session,
                    kinds: Vec::new(),
                    facts: (*facts).clone(),
                    objects: Vec::new(),
                };
                if cluster.contributes().is_some() {
                    cluster.pending = Some(opened);
                } else {
                    cluster.current = Some(opened);
                }
            }
            Change::Object {
                cluster,
                session,
                change,
            } => {
                let Some(cluster) = self.clusters.get_mut(&cluster) else {
                    return;
                };
                for known in [&mut cluster.current, &mut cluster.pending] {
                    if let Some(known) = known
                        && known.id == session
                    {
                        known.hear(change.clone());
                    }
                }
                if cluster.pending.as_ref().is_some_and(Session::is_read) {
                    cluster.current = cluster.pending.take();
                }
            }
        }
    }

    pub(super) fn contributing(&self, cluster: &str) -> Option<&Session> {
        self.clusters.get(cluster)?.contributes()
    }

    /// Who has an address: Services, Pods by their own, Pods by host port, Pods of linked clusters.
    pub(super) fn address(&self, ip: IpAddr) -> [Vec<String>; 5] {
        let Some(home) = self.contributing(HOME) else {
            return Default::default();
        };
        let mut services: Vec<&ServiceName> = Vec::new();
        for object in &home.objects {
            if let Object::Service(name, facts) = object
                && facts.cluster_ips.contains(&ip)
            {
                services.push(name);
            }
        }
        services.sort();
        let at_own = |pod: &PodFacts| !pod.host_network && pod.ips.contains(&ip);
        let on_host = |pod: &PodFacts| {
            let host = pod.on_host.as_ref();
            !at_own(pod) && host.is_some_and(|host| host.ips.contains(&ip))
        };
        let linked = self.clusters.keys().filter(|name| name.as_str() != HOME);
        [
            services.into_iter().map(ToString::to_string).collect(),
            home.pods(at_own),
            home.pods(on_host),
            home.external(ip),
            linked
                .filter_map(|name| self.contributing(name.as_str()))
                .flat_map(|session| session.pods(at_own))
                .collect(),
        ]
    }

    /// What a ServiceProfile of the home cluster says.
    pub(super) fn profile(&self, wanted: &ProfileName) -> Option<&ProfileFacts> {
        let home = self.contributing(HOME)?;
        home.objects.iter().find_map(|object| match object {
            Object::Profile(name, facts) if name == wanted => Some(facts),
            _ => None,
        })
    }

    /// Whether the home cluster has the Service, whether all of its members are known, and what a client is told.
    pub(super) fn answer(&self, query: &Query) -> (bool, bool, Vec<Row>) {
        let Some(home) = self.contributing(HOME) else {
            return (false, false, Vec::new());
        };
        let Some(facts) = home.service(&query.service) else {
            return (false, true, Vec::new());
        };
        let namespace = &query.service.namespace;
        let mut members: Vec<(String, ServiceName)> = Vec::new();
        let mut federated = false;
        match &facts.membership {
            Membership::Local => members.push((HOME.to_owned(), query.service.clone())),
            Membership::Remote(remote) => {
                if let Some(name) = &remote.service {
                    let service = ServiceName::new(namespace.clone(), name.clone());
                    members.push((format!("linked {}", remote.cluster), service));
                }
            }
            Membership::Federated(federation) => {
                federated = true;
                if let Some(name) = &federation.local {
                    let service = ServiceName::new(namespace.clone(), name.clone());
                    members.push((HOME.to_owned(), service));
                }
                for (cluster, name) in &federation.remote {
                    let service = ServiceName::new(namespace.clone(), name.clone());
                    members.push((format!("linked {cluster}"), service));
                }
            }
        }
        let mut complete = true;
        let mut rows = Vec::new();
        for (cluster, service) in members {
            let session = match cluster.strip_prefix("linked ") {
                None => Some(home),
                Some(HOME) => {
                    complete &= self.links_known;
                    None
                }
                Some(name) => {
                    let known = self.clusters.get(name);
                    let session = known.and_then(Cluster::contributes);
                    complete &= session.is_some() || (known.is_none() && self.links_known);
                    session
                }
            };
            if let Some(session) = session {
                rows.extend(session.answer(&service, federated, query));
            }
        }
        // What is withheld goes, unless nothing would be left.
        let stays = |row: &Row| !self.clusters[row.cluster.as_str()].withheld;
        if rows.iter().any(stays) {
            rows.retain(stays);
        }
        // Of several rows for one address the best one stays.
        let mut best: Vec<Row> = Vec::new();
        for (order, mut row) in rows.into_iter().enumerate() {
            row.place = order;
            match best.iter_mut().find(|known| known.socket == row.socket) {
                None => best.push(row),
                Some(known) if row < *known => *known = row,
                Some(_) => {}
            }
        }
        best.sort();
        (true, complete, best)
    }
}

impl Cluster {
    fn contributes(&self) -> Option<&Session> {
        self.current.as_ref().filter(|session| session.is_read())
    }
}

impl Session {
    fn hear(&mut self, change: ObjectChange) {
        match change {
            ObjectChange::Apply(object) => self.put(object),
            ObjectChange::Delete(name) => self.objects.retain(|known| known.name() != name),
            ObjectChange::Resync(kind, objects) => {
                self.objects.retain(|known| known.name().kind() != kind);
                for object in objects {
                    self.put(object);
                }
                self.mark(kind, true);
            }
            ObjectChange::Unreadable(Kind::Service | Kind::EndpointSlice | Kind::Endpoints) => {}
            ObjectChange::Unreadable(kind) => self.mark(kind, false),
        }
    }

    fn put(&mut self, object: Object) {
        self.objects.retain(|known| known.name() != object.name());
        self.objects.push(object);
    }

    fn mark(&mut self, kind: Kind, readable: bool) {
        self.kinds.retain(|(known, _)| *known != kind);
        self.kinds.push((kind, readable));
    }

    pub(super) fn is_read(&self) -> bool {
        Kind::watched_in(self.facts.role, self.facts.endpoint_kind)
            .iter()
            .all(|kind| self.kinds.iter().any(|(known, _)| known == kind))
    }

    pub(super) fn service(&self, wanted: &ServiceName) -> Option<&ServiceFacts> {
        self.objects.iter().find_map(|object| match object {
            Object::Service(name, facts) if name == wanted => Some(facts),
            _ => None,
        })
    }

    fn slices(&self, wanted: &ServiceName) -> Vec<&SliceFacts> {
        let mut slices: Vec<(&SliceName, &SliceFacts)> = Vec::new();
        for object in &self.objects {
            match object {
                Object::Slice(name, facts) if facts.service == *wanted => {
                    slices.push((name, facts));
                }
                Object::Endpoints(name, subsets) if name == wanted => {
                    return subsets.iter().collect();
                }
                _ => {}
            }
        }
        slices.sort_by_key(|(name, _)| *name);
        slices.into_iter().map(|(_, facts)| facts).collect()
    }

    /// ExternalWorkloads that have an address, in name order.
    fn external(&self, ip: IpAddr) -> Vec<String> {
        let mut names: Vec<&ExternalWorkloadName> = Vec::new();
        for object in &self.objects {
            if let Object::ExternalWorkload(name, facts) = object
                && facts.ips.contains(&ip)
            {
                names.push(name);
            }
        }
        names.sort();
        names.into_iter().map(ToString::to_string).collect()
    }

    /// Pods that have not finished and of which something holds, in name order.
    fn pods(&self, holds: impl Fn(&PodFacts) -> bool) -> Vec<String> {
        let mut pods: Vec<(&PodName, &PodFacts)> = Vec::new();
        for object in &self.objects {
            if let Object::Pod(name, facts) = object
                && !facts.is_finished()
                && holds(facts)
            {
                pods.push((name, facts));
            }
        }
        pods.sort_by_key(|(name, _)| *name);
        pods.into_iter()
            .map(|(name, facts)| {
                let owner = self.owner(name.namespace.as_str(), facts);
                format!("{} {name} {owner:?}", self.facts.name)
            })
            .collect()
    }

    fn object(&self, wanted: &ObjectName) -> Option<&Object> {
        self.objects.iter().find(|object| object.name() == *wanted)
    }

    /// The owner that a Pod is named by.
    fn owner(&self, namespace: &str, pod: &PodFacts) -> Option<Owner> {
        let direct = Owner::clone(pod.template.owner.as_ref()?);
        let kind = match direct.kind.as_str() {
            "ReplicaSet" => OwnerKind::ReplicaSet,
            "Job" => OwnerKind::Job,
            _ => return Some(direct),
        };
        let name = ObjectName::Owner(crate::model::OwnerName {
            kind,
            namespace: namespace.into(),
            name: direct.name.clone(),
        });
        match self.object(&name) {
            Some(Object::Owner(_, Some(above)))
                if kind == OwnerKind::Job
                    || ["Job", "StatefulSet", "DaemonSet", "Deployment"]
                        .contains(&above.kind.as_str()) =>
            {
                Some(above.clone())
            }
            _ => Some(direct),
        }
    }

    /// Whether some Server of the namespace says that a workload's port is opaque.
    fn opaque_by_server(
        &self,
        namespace: &str,
        traits: &Traits,
        port: u16,
        selector: impl Fn(&ServerFacts) -> Option<Selector>,
    ) -> bool {
        self.objects.iter().any(|object| match object {
            Object::Server(name, server) if name.namespace.as_str() == namespace => {
                let is_about = match &server.port {
                    ServerPort::Number(number) => *number == port,
                    ServerPort::Name(name) => {
                        let mut ports = traits.ports.iter();
                        ports.any(|known| known.name == *name && known.port == port)
                    }
                };
                is_about && selector(server).is_some_and(|selector| selects(&selector, traits))
            }
            _ => false,
        })
    }

    fn answer(&self, service: &ServiceName, federated: bool, query: &Query) -> Vec<Row> {
        let Some(facts) = self.service(service) else {
            return Vec::new();
        };
        if federated && facts.external_name {
            return Vec::new();
        }
        let mut candidates = self.candidates(service, facts, query);
        candidates.retain(|candidate| {
            query.families != Families::Ipv4
                || candidate.endpoint.address.is_ipv4()
                || candidate.endpoint.backing == Backing::Address
        });
        if self.facts.role == ClusterRole::Home {
            if facts.internal_traffic_policy == TrafficPolicy::Local {
                candidates.retain(
                    |candidate| match (&candidate.endpoint.backing, candidate.pod) {
                        (Backing::Pod(_), Some(pod)) => pod.node == query.node,
                        (Backing::Pod(_), None) => candidate.endpoint.node == query.node,
                        _ => false,
                    },
                );
            } else if let Some(zone) = &query.zone {
                let hinted = candidates
                    .iter()
                    .all(|candidate| candidate.endpoint.zone_hints.is_some());
                let meant = |candidate: &Candidate<'_>| {
                    let hints = candidate.endpoint.zone_hints.as_ref();
                    hints.is_some_and(|hints| hints.contains(zone))
                };
                if hinted && candidates.iter().any(meant) {
                    candidates.retain(meant);
                }
            }
        }
        let dual: Vec<Backing> = candidates
            .iter()
            .filter(|candidate| {
                query.families == Families::Ipv6First && candidate.endpoint.address.is_ipv6()
            })
            .map(|candidate| candidate.endpoint.backing.clone())
            .filter(|backing| *backing != Backing::Address)
            .collect();
        candidates.retain(|candidate| {
            candidate.endpoint.address.is_ipv6() || !dual.contains(&candidate.endpoint.backing)
        });
        candidates
            .into_iter()
            .map(|candidate| candidate.row)
            .collect()
    }

    /// Endpoints that are ready, of the instance, and backed by something usable.
    fn candidates(
        &self,
        service: &ServiceName,
        facts: &ServiceFacts,
        query: &Query,
    ) -> Vec<Candidate<'_>> {
        let pods_unreadable = self.kinds.contains(&(Kind::Pod, false));
        let mut candidates = Vec::new();
        for slice in self.slices(service) {
            let defined = facts.ports.iter().find(|port| port.port == query.port);
            let number = match defined {
                Some(defined) => {
                    let mut named = slice.ports.iter().filter(|port| port.name == defined.name);
                    match named.find_map(|port| port.port) {
                        Some(port) => port,
                        None => continue,
                    }
                }
                None if slice.ports.is_empty() => continue,
                None => query.port,
            };
            for endpoint in &slice.endpoints {
                if !endpoint.conditions.ready
                    || (query.instance.is_some() && endpoint.hostname != query.instance)
                {
                    continue;
                }
                let mut row = Row {
                    socket: SocketAddr::new(endpoint.address, number),
                    role: self.facts.role,
                    cluster: self.facts.name.to_string(),
                    trust_domain: self.facts.trust_domain.to_string(),
                    unvouched: true,
                    without_workload: true,
                    place: 0,
                    text: format!("{} {:?} {:?}", slice.service, slice.mirror, endpoint.zone),
                };
                let mut behind = None;
                match &endpoint.backing {
                    Backing::Address => row.text += " address",
                    Backing::ExternalWorkload(name) => {
                        let namespace = &slice.service.namespace;
                        let name = ExternalWorkloadName::new(namespace.clone(), name.clone());
                        let wanted = ObjectName::ExternalWorkload(name.clone());
                        let Some(Object::ExternalWorkload(_, facts)) = self.object(&wanted) else {
                            continue;
                        };
                        let servers = |server: &ServerFacts| server.external_workloads.clone();
                        let by_server = self.opaque_by_server(
                            namespace.as_str(),
                            &facts.traits,
                            number,
                            servers,
                        );
                        let annotated = facts.opaque_ports.as_ref();
                        let said = format!(
                            " {name} {:?} {} {}",
                            facts.owner,
                            by_server || annotated.is_some_and(|ports| ports.contains(number)),
                            facts.ips.contains(&endpoint.address) && facts.identity.is_some(),
                        );
                        row.text.push_str(&said);
                        row.without_workload = false;
                        row.unvouched = !facts.ips.contains(&endpoint.address);
                    }
                    Backing::Pod(name) => match self.object(&ObjectName::Pod(name.clone())) {
                        Some(Object::Pod(_, pod)) => {
                            let servers = |server: &ServerFacts| server.pods.clone();
                            let namespace = name.namespace.as_str();
                            let by_server = self.opaque_by_server(
                                namespace,
                                &pod.template.traits,
                                number,
                                servers,
                            );
                            let unplaced = pod.ips.is_empty()
                                && pod.template.control_plane_namespace.is_some();
                            let unreadable = proxy_is_unreadable(pod, number, by_server);
                            if pod.is_finished() || unplaced || unreadable {
                                continue;
                            }
                            let owner = self.owner(name.namespace.as_str(), pod);
                            let said =
                                format!(" {name} {owner:?} {:?} {by_server}", pod.template.owner);
                            row.text.push_str(&said);
                            row.without_workload = false;
                            row.unvouched = name.namespace != slice.service.namespace
                                || !pod.ips.contains(&endpoint.address);
                            behind = Some(pod);
                        }
                        _ if pods_unreadable => row.text += " unreadable",
                        _ => continue,
                    },
                }
                candidates.push(Candidate {
                    row,
                    endpoint,
                    pod: behind,
                });
            }
        }
        candidates
    }
}

/// By way of a list of all pairs.
fn selects(selector: &Selector, traits: &Traits) -> bool {
    let labels: Vec<_> = traits.labels.iter().collect();
    selector.requirements().iter().all(|requirement| {
        let values: Vec<_> = labels
            .iter()
            .filter(|(key, _)| *key == requirement.key)
            .map(|(_, value)| value)
            .collect();
        match &requirement.condition {
            Condition::In(allowed) => values.iter().any(|value| allowed.contains(value)),
            Condition::NotIn(barred) => !values.iter().any(|value| barred.contains(value)),
            Condition::Exists => !values.is_empty(),
            Condition::DoesNotExist => values.is_empty(),
        }
    })
}

/// With transparent transport, and no port opaque by default.
fn proxy_is_unreadable(pod: &PodFacts, port: u16, by_server: bool) -> bool {
    let meshed = pod.template.control_plane_namespace.is_some();
    if !meshed || pod.template.skip_inbound_ports.contains(port) {
        return false;
    }
    let opaque = pod
        .template
        .opaque_ports
        .as_ref()
        .is_some_and(|ports| ports.contains(port))
        || by_server;
    match (pod.template.proxy.admin, pod.template.proxy.control) {
        (Some(admin), Some(control)) => {
            let own = port == admin || port == control;
            opaque && !own && pod.template.proxy.inbound.unwrap_or(0) == 0
        }
        _ => true,
    }
}
