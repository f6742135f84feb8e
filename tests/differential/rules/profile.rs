//! `GetProfile`: who answers at a name or an address, and how requests to them are treated.

use std::net::{IpAddr, SocketAddr};

use tonic::Code;
use tributary::testing::CLUSTER_DOMAIN;

use super::texts::{self, filled};
use super::workload::{Mesh, external_labels, sole};
use super::{Cluster, Session, World};
use crate::answer::{Answer, Labels, Profile as Told, Told as Endpoint};
use crate::history::{Asked, Host};
use crate::objects::{Budget, External, Object, Pod, Profile, Route, Service};

/// What a stream knows from before.
#[derive(Default)]
pub(super) struct Memory {
    is_open: bool,
    /// The address that was found for an instance: it stays.
    found: Option<IpAddr>,
    /// Who was said to answer at the address.
    owner: Owner,
    /// Whether the Service was said not to define the port.
    undefined: bool,
}

/// Who answers at an address, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    #[default]
    Nobody,
    /// Namespace and name.
    Service(&'static str, &'static str),
    /// Cluster, namespace and name.
    Pod(&'static str, &'static str, &'static str),
    /// Namespace and name.
    External(&'static str, &'static str),
}

/// A Pod and where it is.
type Holder<'a> = (&'a Session, &'a Pod);

/// Everybody who claims an address.
struct Claims<'a> {
    services: Vec<&'a Service>,
    pods: Vec<Holder<'a>>,
    /// At some ports, by way of their Node.
    on_host: Vec<Holder<'a>>,
    externals: Vec<&'a External>,
    /// In linked clusters.
    remote: Vec<Holder<'a>>,
}

/// Several claim one address, and nothing says whose it is.
struct Conflict;

impl World {
    pub(super) fn profile(&self, asked: &Asked, memory: &mut Memory) -> Answer {
        let asked_ip = match asked.host {
            Host::Address(text) => match texts::ip(text) {
                Some(ip) => Some(ip),
                None => return Answer::Refused(Code::InvalidArgument),
            },
            _ => None,
        };
        let Some(home) = self.home() else {
            return Answer::Waiting;
        };
        match asked.host {
            Host::Service(name, namespace) => {
                self.service_profile(asked, namespace, name, &asked.host_text(), memory)
            }
            Host::Address(_) => self.address_profile(asked, asked_ip, memory),
            Host::Instance(instance, service, namespace) => {
                if memory.found.is_none() {
                    match home.instance(namespace, service, instance) {
                        Some((ip, owner)) => (memory.found, memory.owner) = (Some(ip), owner),
                        None => return Answer::Refused(Code::NotFound),
                    }
                }
                self.address_profile(asked, memory.found, memory)
            }
        }
    }

    fn address_profile(&self, asked: &Asked, ip: Option<IpAddr>, memory: &mut Memory) -> Answer {
        let Some(ip) = ip else {
            return Answer::Refused(Code::NotFound);
        };
        let claims = self.claims(ip);
        let decided = claims.owner(asked.port);
        memory.owner = match decided {
            // The name of an instance says whose its address is.
            Err(Conflict) if !memory.is_open && memory.found.is_none() => {
                return Answer::Refused(Code::FailedPrecondition);
            }
            Ok(owner) if owner != Owner::Nobody => owner,
            Ok(_) if !memory.is_open && memory.found.is_none() => Owner::Nobody,
            // Who was said to have it stays while that is so.
            _ => claims.still(memory.owner, asked.port),
        };
        if let Owner::Service(namespace, name) = memory.owner {
            let full_name = format!("{name}.{namespace}.svc.{CLUSTER_DOMAIN}");
            return self.service_profile(asked, namespace, name, &full_name, memory);
        }
        if memory.owner == Owner::Nobody
            && !memory.is_open
            && self.patient
            && claims.is_free_at_home()
            && self.clusters.iter().any(|it| it.contributes().is_none())
        {
            // It may be an address of a linked cluster.
            return Answer::Waiting;
        }
        memory.is_open = true;
        memory.undefined = false;
        Answer::Profile(Box::new(
            self.endpoint_profile(SocketAddr::new(ip, asked.port), memory.owner),
        ))
    }

    fn endpoint_profile(&self, socket: SocketAddr, owner: Owner) -> Told {
        let port = socket.port();
        let (mut opaque, mut labels, mut mesh) = (self.opaque_by_default(port), None, None);
        match owner {
            Owner::Nobody | Owner::Service(..) => {}
            Owner::Pod(cluster, namespace, name) => {
                let session = self.cluster(cluster).and_then(Cluster::contributes);
                if let Some((session, pod)) =
                    session.and_then(|session| Some((session, session.pod(namespace, name)?)))
                {
                    let mut said = session.pod_labels(pod, None);
                    said.insert("namespace".to_owned(), namespace.to_owned());
                    if !session.is_home() {
                        said.insert("target_cluster".to_owned(), cluster.to_owned());
                    }
                    opaque = self.pod_is_opaque(session, pod, port);
                    mesh = self.pod_mesh(session, pod, port, true);
                    labels = Some(said);
                }
            }
            Owner::External(namespace, name) => {
                if let Some((home, external)) = self
                    .home()
                    .and_then(|home| Some((home, home.external(namespace, name)?)))
                {
                    let mut said = external_labels(external, None);
                    // Only here the kind of an owner is written as it is.
                    if let Some(owner) = sole(&external.owners) {
                        said.insert(owner.kind.to_owned(), owner.name.to_owned());
                    }
                    said.insert("namespace".to_owned(), namespace.to_owned());
                    opaque = self.external_is_opaque(home, external, port);
                    mesh = Some(self.external_mesh(home, external, port, true));
                    labels = Some(said);
                }
            }
        }
        // Where nobody can say how to speak to a Pod, the bare address is said, and not nothing.
        let (labels, mesh) = match (labels, mesh) {
            (Some(labels), Some(mesh)) => (labels, mesh),
            _ => (Labels::new(), Mesh::default()),
        };
        Told {
            opaque,
            budget: Some(default_budget()),
            endpoint: Some((
                socket,
                Endpoint {
                    weight: 10_000,
                    labels,
                    http2: mesh.hint.is_some(),
                    hint: mesh.hint,
                    inbound_port: mesh.inbound_port,
                    identity: mesh.identity,
                    server_name: mesh.server_name,
                    authority: None,
                },
            )),
            ..Told::default()
        }
    }

    fn service_profile(
        &self,
        asked: &Asked,
        namespace: &'static str,
        name: &'static str,
        full_name: &str,
        memory: &mut Memory,
    ) -> Answer {
        let service = self.home().and_then(|home| home.service(namespace, name));
        let opaque = match service {
            None if !memory.is_open => return Answer::Refused(Code::NotFound),
            None if memory.undefined => return Answer::Profile(Box::default()),
            // A Service that is gone is answered as one that says nothing of itself.
            None => self.opaque_by_default(asked.port),
            Some(service) if !service.defines(asked.port) => {
                (memory.is_open, memory.undefined) = (true, true);
                return Answer::Profile(Box::default());
            }
            Some(service) if service.external_name => {
                return if memory.is_open {
                    Answer::Ended
                } else {
                    Answer::Refused(Code::InvalidArgument)
                };
            }
            Some(service) => match service.opaque_ports {
                Some(list) => texts::lists_port(list, asked.port, &service.usable_ports()),
                None => self.opaque_by_default(asked.port),
            },
        };
        (memory.is_open, memory.undefined) = (true, false);
        let mut told = Told {
            name: full_name.to_owned(),
            opaque,
            service: Some((namespace.to_owned(), name.to_owned(), asked.port.into())),
            budget: Some(default_budget()),
            ..Told::default()
        };
        // The client's own namespace may say it differently.
        let found = self
            .service_profile_in(filled(asked.namespace), namespace, name)
            .or_else(|| self.service_profile_in(Some(namespace), namespace, name));
        if let Some(profile) = found {
            told.from = Some((profile.namespace.to_owned(), profile.full_name()));
            told.routes = profile.routes.iter().filter_map(told_route).collect();
            if let Some(budget) = profile.budget.as_ref().and_then(told_budget) {
                told.budget = Some(budget);
            }
            told.overrides = profile
                .overrides
                .iter()
                .filter(|(authority, _)| !authority.is_empty())
                .filter_map(|(authority, weight)| {
                    Some((with_port(authority, asked.port), texts::weight(weight)?))
                })
                .collect();
        }
        Answer::Profile(Box::new(told))
    }

    /// The ServiceProfile of a Service that stands in some namespace.
    fn service_profile_in(
        &self,
        within: Option<&str>,
        namespace: &str,
        name: &str,
    ) -> Option<&Profile> {
        self.home()?.objects.iter().find_map(|object| match object {
            Object::Profile(it) if Some(it.namespace) == within && it.of == (name, namespace) => {
                Some(it)
            }
            _ => None,
        })
    }

    /// Finished Pods have no address.
    fn claims(&self, ip: IpAddr) -> Claims<'_> {
        let mut claims = Claims {
            services: Vec::new(),
            pods: Vec::new(),
            on_host: Vec::new(),
            externals: Vec::new(),
            remote: Vec::new(),
        };
        for session in self.clusters.iter().filter_map(Cluster::contributes) {
            for pod in session.pods().into_iter().filter(|pod| !pod.is_finished()) {
                match (session.is_home(), pod.has(ip)) {
                    (true, true) => claims.pods.push((session, pod)),
                    (true, false) if pod.is_on_host(ip) => claims.on_host.push((session, pod)),
                    (false, true) => claims.remote.push((session, pod)),
                    _ => {}
                }
            }
            if session.is_home() {
                let externals = session.externals();
                claims.externals.extend(
                    externals
                        .into_iter()
                        .filter(|it| it.addresses().contains(&ip)),
                );
                for object in &session.objects {
                    if let Object::Service(service) = object
                        && service
                            .cluster_ips
                            .iter()
                            .any(|text| texts::ip(text) == Some(ip))
                    {
                        claims.services.push(service);
                    }
                }
            }
        }
        claims
    }
}

impl Session {
    /// The first endpoint with a hostname, ready or not, whether or not there is such a Service: the address of its Pod, or
    /// its own.
    fn instance(&self, namespace: &str, service: &str, instance: &str) -> Option<(IpAddr, Owner)> {
        for slice in self.slices(namespace, service) {
            for endpoint in &slice.endpoints {
                if endpoint.hostname != Some(instance) {
                    continue;
                }
                let mut listed = endpoint.addresses.iter();
                let address = match &endpoint.target {
                    None => listed.find_map(|text| texts::ip(text)),
                    Some(target) => {
                        let is_known = match target.kind {
                            "Pod" => filled(target.namespace).is_some(),
                            "ExternalWorkload" => true,
                            _ => false,
                        };
                        let is_named = is_known && !target.name.is_empty();
                        listed
                            .next()
                            .and_then(|text| texts::ip(text))
                            .filter(|_| is_named)
                    }
                };
                // One that names something odd, or has no address, is as good as not listed.
                let Some(address) = address else { continue };
                let Some(target) = endpoint
                    .target
                    .as_ref()
                    .filter(|target| target.kind == "Pod")
                else {
                    return Some((address, Owner::Nobody));
                };
                let Some(pod) = self.pod(target.namespace?, target.name) else {
                    let denied = self.denied.contains(&tributary::index::Kind::Pod);
                    return denied.then_some((address, Owner::Nobody));
                };
                let has_gone = pod.is_finished() || (pod.is_meshed() && pod.addresses().is_empty());
                if has_gone {
                    return Some((address, Owner::Nobody));
                }
                let ip = pod.addresses().first().copied().unwrap_or(address);
                return Some((
                    ip,
                    if pod.has(ip) {
                        as_owner((self, pod))
                    } else {
                        Owner::Nobody
                    },
                ));
            }
        }
        None
    }
}

// === impl Claims ===

impl Claims<'_> {
    fn is_free_at_home(&self) -> bool {
        self.services.is_empty()
            && self.pods.is_empty()
            && self.on_host.is_empty()
            && self.externals.is_empty()
    }

    /// Services before Pods, Pods before those of the host's port, those before ExternalWorkloads, and linked clusters last.
    /// Pods that are about to go count for nobody who does not know them.
    fn owner(&self, port: u16) -> Result<Owner, Conflict> {
        match &self.services[..] {
            [] => {}
            [service] => return Ok(Owner::Service(service.namespace, service.name)),
            _ => return Err(Conflict),
        }
        let on_host = self.at_host_port(port);
        for holders in [&self.pods, &on_host] {
            let staying: Vec<&Holder<'_>> =
                holders.iter().filter(|(_, pod)| !pod.deleting).collect();
            match staying[..] {
                [] => {}
                [holder] => return Ok(as_owner(*holder)),
                _ => return Err(Conflict),
            }
        }
        match self.externals_at(port)[..] {
            [] => {}
            [external] => return Ok(Owner::External(external.namespace, external.name)),
            _ => return Err(Conflict),
        }
        let staying: Vec<&Holder<'_>> = self
            .remote
            .iter()
            .filter(|(_, pod)| !pod.deleting)
            .collect();
        match staying[..] {
            [holder] if self.is_free_at_home() => Ok(as_owner(*holder)),
            _ => Ok(Owner::Nobody),
        }
    }

    /// The one who was said to have it, if that is still so.
    fn still(&self, before: Owner, port: u16) -> Owner {
        let is_so = match before {
            Owner::Nobody => false,
            Owner::Service(namespace, name) => self
                .services
                .iter()
                .any(|service| (service.namespace, service.name) == (namespace, name)),
            Owner::External(namespace, name) => self
                .externals_at(port)
                .iter()
                .any(|external| (external.namespace, external.name) == (namespace, name)),
            Owner::Pod(..) => {
                let remote: &[Holder<'_>] = if self.is_free_at_home() {
                    &self.remote
                } else {
                    &[]
                };
                let on_host = self.at_host_port(port);
                let mut all = self.pods.iter().chain(&on_host).chain(remote);
                all.any(|holder| as_owner(*holder) == before)
            }
        };
        if is_so { before } else { Owner::Nobody }
    }

    fn at_host_port(&self, port: u16) -> Vec<Holder<'_>> {
        let on_host = self.on_host.iter().copied();
        on_host
            .filter(|(_, pod)| pod.ports_on_host().contains(&port))
            .collect()
    }

    fn externals_at(&self, port: u16) -> Vec<&External> {
        let externals = self.externals.iter().copied();
        externals
            .filter(|external| {
                external
                    .usable_ports()
                    .iter()
                    .any(|(_, number)| *number == port)
            })
            .collect()
    }
}

/// A Pod answers once it runs; one that does not yet keeps its address from others.
fn as_owner((session, pod): Holder<'_>) -> Owner {
    if pod.phase == "Running" {
        Owner::Pod(session.cluster, pod.namespace, pod.name)
    } else {
        Owner::Nobody
    }
}

fn default_budget() -> (String, u32, Option<String>) {
    ("0.2".to_owned(), 10, texts::told_duration(10_000_000_000))
}

/// A budget of which any part makes no sense is none.
fn told_budget(budget: &Budget) -> Option<(String, u32, Option<String>)> {
    let least = u32::try_from(budget.min_per_second).ok()?;
    let ttl = texts::duration(budget.ttl)?;
    Some((budget.ratio.to_string(), least, texts::told_duration(ttl)))
}

/// A route in words; one without a condition makes no sense.
fn told_route(route: &Route) -> Option<String> {
    let method = filled(route.method).map(|method| {
        let method = method.to_uppercase();
        let known = [
            "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "HEAD", "TRACE",
        ];
        if known.contains(&method.as_str()) {
            format!("method={method}")
        } else {
            format!("method={method} (unregistered)")
        }
    });
    let path = filled(route.path).map(|path| format!("path={path}"));
    let condition = match (method, path) {
        (None, None) => return None,
        (Some(one), None) | (None, Some(one)) => one,
        (Some(method), Some(path)) => format!("all({method} {path})"),
    };
    let condition = if route.negated {
        format!("not({condition})")
    } else {
        condition
    };
    let mut words = vec![format!("route {}", route.name), condition];
    if route.retryable {
        words.push("retryable".to_owned());
    }
    let timeout = route.timeout.and_then(texts::duration);
    if let Some(timeout) = timeout.and_then(texts::told_duration) {
        words.push(format!("timeout {timeout}"));
    }
    for (min, max, failure) in &route.classes {
        let is_status = |code: u16| code == 0 || (100..600).contains(&code);
        if is_status(*min) && is_status(*max) && (*max == 0 || min <= max) {
            words.push(format!("{min}-{max} {failure}"));
        }
    }
    Some(words.join(", "))
}

/// An authority without a port is meant at the port that was asked for.
fn with_port(authority: &str, port: u16) -> String {
    match authority.matches(':').count() {
        0 => format!("{authority}:{port}"),
        1 => authority.to_owned(),
        _ => format!("[{authority}]:{port}"),
    }
}
