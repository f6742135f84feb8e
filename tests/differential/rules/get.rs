//! `Get`: which endpoints a Service has for a client, and what is said of each.

use std::net::{IpAddr, SocketAddr};

use tonic::Code;
use tributary::index::Kind;
use tributary::testing::HOME;

use super::texts::{self, filled};
use super::workload::{Mesh, external_labels, sole};
use super::{Session, World};
use crate::answer::{Answer, Endpoints, Labels, Told};
use crate::history::{Asked, Host};
use crate::objects::{Endpoint, External, Pod, Service, Slice};

/// How the endpoints of a Service are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// In its own slices.
    Own,
    /// In those of a Service of the same namespace in a linked cluster.
    Mirror(&'static str, Option<&'static str>),
    /// In those of several.
    Federated,
}

/// A Service whose endpoints are asked for, in some cluster.
struct Member<'a> {
    name: &'a str,
    known: Known<'a>,
}

enum Known<'a> {
    /// All that its cluster has is known.
    Read(&'a Session),
    /// Its cluster may have endpoints that nobody knows of.
    Unread,
    /// Its cluster is not linked.
    NotLinked,
}

/// An endpoint that a client may be told of.
struct Candidate<'a> {
    session: &'a Session,
    slice: &'a Slice,
    endpoint: &'a Endpoint,
    socket: SocketAddr,
    behind: Behind<'a>,
    mesh: Mesh,
}

#[derive(Clone, Copy)]
enum Behind<'a> {
    /// Nothing that is known: the address stands for itself.
    Address,
    Pod(&'a Pod),
    External(&'a External),
    /// A Pod, where Pods may not be read.
    UnreadablePod,
}

impl World {
    pub(super) fn get(&self, asked: &Asked, opened: &mut Option<Sort>) -> Answer {
        let (namespace, name, instance) = match asked.host {
            Host::Service(name, namespace) => (namespace, name, None),
            Host::Instance(instance, name, namespace) => (namespace, name, Some(instance)),
            Host::Address(_) => return Answer::Refused(Code::InvalidArgument),
        };
        let Some(home) = self.home() else {
            return Answer::Waiting;
        };
        let service = home.service(namespace, name);
        let endpoints = match service {
            None => Endpoints::new(),
            Some(service) => self.endpoints(service, instance, asked),
        };
        if let Some(opened) = opened {
            // A stream goes on while its Service is gone, as it may come back; a federated one ends, as it does when the
            // Service becomes something else.
            return match service {
                None if *opened == Sort::Federated => Answer::Ended,
                Some(service) if sort_of(service) != *opened => Answer::Ended,
                _ => Answer::Endpoints(endpoints),
            };
        }
        let Some(service) = service else {
            return Answer::Refused(Code::NotFound);
        };
        let members = self.members(service);
        match sort_of(service) {
            Sort::Mirror(_, None) => return Answer::Refused(Code::FailedPrecondition),
            Sort::Mirror(..) => {
                if let Known::NotLinked = members[0].known {
                    return Answer::Refused(Code::NotFound);
                }
                let target = members[0].service(namespace);
                if service.external_name || target.is_some_and(|target| target.external_name) {
                    return Answer::Refused(Code::InvalidArgument);
                }
            }
            Sort::Own if service.external_name => return Answer::Refused(Code::InvalidArgument),
            Sort::Own | Sort::Federated => {}
        }
        if members
            .iter()
            .any(|member| matches!(member.known, Known::Unread))
        {
            if self.patient {
                return Answer::Waiting;
            }
            if endpoints.is_empty() {
                return Answer::Refused(Code::Unavailable);
            }
        }
        *opened = Some(sort_of(service));
        Answer::Endpoints(endpoints)
    }

    /// The Services that make up the answer for a Service, in order: the home cluster's first.
    fn members<'a>(&'a self, service: &'a Service) -> Vec<Member<'a>> {
        let mut members = Vec::new();
        match sort_of(service) {
            Sort::Own => members.push(self.member(HOME, service.name)),
            Sort::Mirror(_, None) => {}
            Sort::Mirror(cluster, Some(name)) => members.push(self.linked_member(cluster, name)),
            Sort::Federated => {
                let local = service.local_member.map(str::trim);
                let local = local.filter(|name| !name.is_empty());
                members.extend(local.map(|name| self.member(HOME, name)));
                let remote = service.remote_members.as_deref().unwrap_or_default();
                for (cluster, name) in texts::members(remote) {
                    members.push(self.linked_member(cluster, name));
                }
            }
        }
        members
    }

    fn member<'a>(&'a self, cluster: &'a str, name: &'a str) -> Member<'a> {
        let known = match self.cluster(cluster).map(|cluster| cluster.contributes()) {
            Some(Some(session)) => Known::Read(session),
            None if self.links_known => Known::NotLinked,
            Some(None) | None => Known::Unread,
        };
        Member { name, known }
    }

    /// The home cluster is linked to nobody, least of all to itself.
    fn linked_member<'a>(&'a self, cluster: &'a str, name: &'a str) -> Member<'a> {
        if cluster == HOME {
            return Member {
                name,
                known: if self.links_known {
                    Known::NotLinked
                } else {
                    Known::Unread
                },
            };
        }
        self.member(cluster, name)
    }

    fn endpoints(&self, service: &Service, instance: Option<&str>, asked: &Asked) -> Endpoints {
        let sort = sort_of(service);
        let mut all: Vec<Candidate<'_>> = Vec::new();
        for member in self.members(service) {
            if let Some(target) = member.service(service.namespace)
                && let Known::Read(session) = member.known
                && !(sort == Sort::Federated && target.external_name)
            {
                let mut candidates = self.candidates(session, target, instance, asked.port);
                self.narrow(&mut candidates, session, target, asked);
                all.extend(candidates);
            }
        }
        // Several may have one address. The home cluster's comes first, then that of the first cluster by name; one that its
        // workload vouches for before one that nobody does, one with a workload before one without; then the first listed.
        all.sort_by_key(|it| {
            (
                it.socket,
                !it.session.is_home(),
                it.session.cluster,
                !it.is_vouched_for(),
                matches!(it.behind, Behind::Address | Behind::UnreadablePod),
            )
        });
        let mut endpoints = Endpoints::new();
        for candidate in all {
            endpoints
                .entry(candidate.socket)
                .or_insert_with(|| self.told(&candidate, sort != Sort::Own, asked));
        }
        endpoints
    }

    /// Every endpoint that the slices of a Service list at a port, if it can be used as far as can be seen from itself.
    fn candidates<'a>(
        &'a self,
        session: &'a Session,
        service: &Service,
        instance: Option<&str>,
        port: u16,
    ) -> Vec<Candidate<'a>> {
        let mut candidates = Vec::new();
        for slice in session.slices(service.namespace, service.name) {
            let Some(port) = port_in(slice, service, port) else {
                continue;
            };
            for endpoint in &slice.endpoints {
                if endpoint.ready == Some(false) {
                    continue;
                }
                if instance.is_some() && endpoint.hostname != instance {
                    continue;
                }
                let Some(behind) = session.behind(slice, endpoint) else {
                    continue;
                };
                // Kubernetes gives a meaning to no more than the first address of what has a target.
                let listed = match behind {
                    Behind::Address => &endpoint.addresses[..],
                    _ => &endpoint.addresses[..endpoint.addresses.len().min(1)],
                };
                for ip in listed.iter().filter_map(|ip| texts::ip(ip)) {
                    // A meshed Pod whose proxy cannot be read cannot be reached.
                    if let Some(mesh) = self.mesh_of(session, slice, behind, ip, port) {
                        candidates.push(Candidate {
                            session,
                            slice,
                            endpoint,
                            socket: SocketAddr::new(ip, port),
                            behind,
                            mesh,
                        });
                    }
                }
            }
        }
        candidates
    }

    fn mesh_of(
        &self,
        session: &Session,
        slice: &Slice,
        behind: Behind<'_>,
        ip: IpAddr,
        port: u16,
    ) -> Option<Mesh> {
        match behind {
            Behind::Pod(pod) => {
                let vouches = pod.addresses().contains(&ip);
                self.pod_mesh(session, pod, port, vouches)
            }
            Behind::External(external) => {
                let vouches = external.addresses().contains(&ip);
                Some(self.external_mesh(session, external, port, vouches))
            }
            Behind::UnreadablePod => Some(Mesh::default()),
            // A gateway is known by the annotation of the mirror's slice.
            Behind::Address => Some(match filled(slice.gateway_identity) {
                Some(name) => Mesh {
                    identity: Some(format!("dns:{name}")),
                    hint: Some(self.upgraded()).filter(|hint| !hint.is_empty()),
                    ..Mesh::default()
                },
                None => Mesh::default(),
            }),
        }
    }

    /// Leaves what is for a client, of one member.
    fn narrow(
        &self,
        candidates: &mut Vec<Candidate<'_>>,
        session: &Session,
        service: &Service,
        asked: &Asked,
    ) {
        let is_workload = |it: &Candidate<'_>| !matches!(it.behind, Behind::Address);
        // 1. Without IPv6, workloads are reached by IPv4.
        if !self.setting.ipv6 {
            candidates.retain(|it| it.socket.is_ipv4() || !is_workload(it));
        }
        // 2. At home only: the traffic policy keeps clients on their Node, or else hints keep them in their zone. Hints count
        // if every endpoint has some, and if some endpoint is for the client's zone.
        if session.is_home() && service.node_local {
            let node = filled(asked.node);
            candidates.retain(|it| match it.behind {
                Behind::Pod(pod) => filled(pod.node) == node,
                Behind::UnreadablePod => filled(it.endpoint.node) == node,
                Behind::Address | Behind::External(_) => false,
            });
        } else if session.is_home()
            && let Some(zone) = self.zone_of(asked.node)
            && candidates.iter().all(|it| !it.zones().is_empty())
            && candidates.iter().any(|it| it.zones().contains(&zone))
        {
            candidates.retain(|it| it.zones().contains(&zone));
        }
        // 3. With IPv6, workloads that have such an address are reached by that.
        if self.setting.ipv6 {
            let by_ipv6: Vec<_> = candidates
                .iter()
                .filter(|it| it.socket.is_ipv6() && is_workload(it))
                .map(Candidate::target)
                .collect();
            candidates.retain(|it| {
                it.socket.is_ipv6() || !is_workload(it) || !by_ipv6.contains(&it.target())
            });
        }
    }

    fn told(&self, it: &Candidate<'_>, multicluster: bool, asked: &Asked) -> Told {
        let zone = it.endpoint.zone;
        let mut labels = it.slice.labels();
        let is_address = matches!(it.behind, Behind::Address);
        labels.extend(match it.behind {
            Behind::Pod(pod) => it.session.pod_labels(pod, zone),
            Behind::External(external) => {
                let mut labels = external_labels(external, zone);
                if let Some(owner) = sole(&external.owners) {
                    labels.insert(owner.kind.to_lowercase(), owner.name.to_owned());
                }
                labels
            }
            Behind::UnreadablePod => {
                Labels::from([("zone".to_owned(), zone.unwrap_or_default().to_owned())])
            }
            Behind::Address => Labels::new(),
        });
        let locality = match (self.zone_of(asked.node), zone) {
            _ if is_address => "unknown",
            (Some(client), Some(zone)) if client == zone => "local",
            (Some(_), Some(_)) => "remote",
            _ => "unknown",
        };
        labels.insert("zone_locality".to_owned(), locality.to_owned());
        if multicluster && it.slice.mirrored_cluster.is_none() {
            labels.insert("target_cluster".to_owned(), it.session.cluster.to_owned());
        }
        let mesh = it.mesh.clone();
        Told {
            weight: if self.setting.zone_weights && locality == "local" {
                100_000
            } else {
                10_000
            },
            labels,
            http2: mesh.hint.is_some() || (is_address && mesh.identity.is_some()),
            hint: mesh.hint,
            inbound_port: mesh.inbound_port,
            identity: mesh.identity,
            server_name: mesh.server_name,
            authority: it
                .slice
                .mirrored_service
                .filter(|_| is_address)
                .map(|name| {
                    if name.contains(':') {
                        format!("[{name}]:{}", asked.port)
                    } else {
                        format!("{name}:{}", asked.port)
                    }
                }),
        }
    }
}

/// Annotations make a Service federated, even empty ones; a label makes it a mirror.
fn sort_of(service: &Service) -> Sort {
    match service.mirror_of_cluster {
        _ if service.local_member.is_some() || service.remote_members.is_some() => Sort::Federated,
        Some(cluster) => Sort::Mirror(cluster, service.mirror_of),
        None => Sort::Own,
    }
}

/// The port that the endpoints of a slice are reached at. A port that the Service defines is found by its name, and any
/// other is taken for what it is; a slice without ports has no endpoints for anybody.
fn port_in(slice: &Slice, service: &Service, asked: u16) -> Option<u16> {
    let listed = slice.ports.as_deref().unwrap_or_default();
    let defined = service.usable_ports();
    match defined.iter().find(|(_, number)| *number == asked) {
        Some((name, _)) => listed
            .iter()
            .filter(|(known, _)| known == name)
            .find_map(|(_, number)| texts::port((*number)?)),
        None if listed.is_empty() => None,
        None => Some(asked),
    }
}

impl Session {
    /// What is behind an endpoint; `None` if it must not be used, or not yet.
    fn behind<'a>(&'a self, slice: &Slice, endpoint: &Endpoint) -> Option<Behind<'a>> {
        let Some(target) = &endpoint.target else {
            return Some(Behind::Address);
        };
        let name = filled(Some(target.name))?;
        match target.kind {
            "Pod" => match self.pod(filled(target.namespace)?, name) {
                // The address of one that has finished may be somebody else's.
                Some(pod) if pod.is_finished() => None,
                // Nobody could vouch for it.
                Some(pod) if pod.is_meshed() && pod.addresses().is_empty() => None,
                Some(pod) => Some(Behind::Pod(pod)),
                None => self
                    .denied
                    .contains(&Kind::Pod)
                    .then_some(Behind::UnreadablePod),
            },
            "ExternalWorkload" => self.external(slice.namespace, name).map(Behind::External),
            _ => None,
        }
    }
}

impl<'a> Member<'a> {
    fn service(&self, namespace: &str) -> Option<&'a Service> {
        match self.known {
            Known::Read(session) => session.service(namespace, self.name),
            Known::Unread | Known::NotLinked => None,
        }
    }
}

impl Candidate<'_> {
    fn zones(&self) -> Vec<&'static str> {
        let zones = self.endpoint.for_zones.iter();
        zones.copied().filter(|zone| !zone.is_empty()).collect()
    }

    /// What it names.
    fn target(&self) -> (&'static str, &'static str, &'static str) {
        match &self.endpoint.target {
            // The namespace of an ExternalWorkload is that of the slice, whatever stands there.
            Some(target) if target.kind == "ExternalWorkload" => (target.kind, "", target.name),
            Some(target) => (
                target.kind,
                target.namespace.unwrap_or_default(),
                target.name,
            ),
            None => ("", "", ""),
        }
    }

    fn is_vouched_for(&self) -> bool {
        match self.behind {
            Behind::Pod(pod) => pod.addresses().contains(&self.socket.ip()),
            Behind::External(external) => external.addresses().contains(&self.socket.ip()),
            Behind::Address | Behind::UnreadablePod => false,
        }
    }
}

impl Slice {
    /// Labels that it gives to all its endpoints.
    fn labels(&self) -> Labels {
        let mut labels = Labels::from([
            ("namespace".to_owned(), self.namespace.to_owned()),
            (
                "service".to_owned(),
                self.belongs_to().unwrap_or_default().to_owned(),
            ),
        ]);
        if let Some(cluster) = self.mirrored_cluster {
            labels.insert("target_cluster".to_owned(), cluster.to_owned());
            let parts: Vec<&str> = self
                .mirrored_service
                .unwrap_or_default()
                .split('.')
                .collect();
            if let [service, namespace, ..] = parts[..] {
                labels.insert("target_service".to_owned(), service.to_owned());
                labels.insert("target_service_namespace".to_owned(), namespace.to_owned());
            }
        }
        labels
    }
}
