//! The rules: what a client has to be told, given everything that the clusters have said.
//!
//! This is written to be read, one rule after another, and shares no code with the product. It keeps what was said as it was
//! said, in lists, and answers each question by going through all of it. Where the rules are other than those of Linkerd's
//! controller, `docs/deviations.md` says so.
//! [`World`] is what has been heard; `get` and `profile` answer; `workload` is what both say of what is behind an address;
//! `texts` reads what people write.

#[path = "rules/get.rs"]
mod get;
#[path = "rules/profile.rs"]
mod profile;
#[path = "rules/texts.rs"]
mod texts;
#[path = "rules/workload.rs"]
mod workload;

use std::net::IpAddr;

use tributary::index::Kind;
use tributary::testing::HOME;

use super::answer::Answer;
use super::history::{Asked, Method, Setting};
use super::objects::{External, Object, Pod, Service, Slice};

/// Everything that has been heard.
pub(crate) struct World {
    setting: Setting,
    /// Whether requests wait for what has not been read.
    patient: bool,
    links_known: bool,
    clusters: Vec<Cluster>,
}

/// A cluster that is home, linked, or spoken with.
struct Cluster {
    name: &'static str,
    /// What it contributes, once that has been read.
    current: Option<Session>,
    /// What takes its place once it has been read.
    next: Option<Session>,
}

/// What has been said in one session with a cluster.
pub(crate) struct Session {
    pub(crate) id: u64,
    cluster: &'static str,
    trust_domain: &'static str,
    pub(crate) objects: Vec<Object>,
    /// Kinds that have been listed.
    listed: Vec<Kind>,
    /// Kinds that may not be read.
    denied: Vec<Kind>,
}

/// What a session says.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Apply(Object),
    Delete(Object),
    List(Kind, Vec<Object>),
    Deny(Kind),
}

/// What an open stream knows from before. A client that asks anew has [`Memory::default`].
#[derive(Default)]
pub(crate) struct Memory {
    /// How a stream of `Get` was opened.
    sort: Option<get::Sort>,
    profile: profile::Memory,
}

// === impl World ===

impl World {
    pub(crate) fn new(setting: Setting, patient: bool) -> Self {
        let home = Cluster {
            name: HOME,
            current: None,
            next: None,
        };
        Self {
            setting,
            patient,
            links_known: false,
            clusters: vec![home],
        }
    }

    // --- what is heard ---

    pub(crate) fn link(&mut self, name: &'static str) {
        if self.cluster(name).is_none() {
            self.clusters.push(Cluster {
                name,
                current: None,
                next: None,
            });
            self.clusters.sort_by_key(|cluster| cluster.name);
        }
    }

    /// What a cluster said goes with it.
    pub(crate) fn unlink(&mut self, name: &str) {
        self.clusters.retain(|cluster| cluster.name != name);
    }

    /// From now on a cluster that is not known is not linked.
    pub(crate) fn links_known(&mut self) {
        self.links_known = true;
    }

    /// A session begins. While the last one contributes, the new one only listens.
    pub(crate) fn open(&mut self, name: &'static str, trust_domain: &'static str, id: u64) {
        self.link(name);
        let session = Session {
            id,
            cluster: name,
            trust_domain,
            objects: Vec::new(),
            listed: Vec::new(),
            denied: Vec::new(),
        };
        for cluster in &mut self.clusters {
            if cluster.name == name {
                if cluster.contributes().is_some() {
                    cluster.next = Some(session);
                    return;
                }
                cluster.current = Some(session);
                cluster.next = None;
                return;
            }
        }
    }

    /// A session says something. What is said in one that is over is not heard.
    pub(crate) fn hear(&mut self, name: &str, id: u64, said: &Said) {
        for cluster in &mut self.clusters {
            if cluster.name != name {
                continue;
            }
            for session in [&mut cluster.current, &mut cluster.next]
                .into_iter()
                .flatten()
            {
                if session.id == id {
                    session.hear(said.clone());
                }
            }
            if cluster.next.as_ref().is_some_and(Session::is_read) {
                cluster.current = cluster.next.take();
            }
        }
    }

    /// A session that is not over.
    pub(crate) fn session(&self, name: &str, id: u64) -> Option<&Session> {
        let cluster = self.cluster(name)?;
        let mut sessions = [&cluster.current, &cluster.next].into_iter().flatten();
        sessions.find(|session| session.id == id)
    }

    /// What the session that counts has said, or the one that will count first.
    pub(crate) fn known(&self, name: &str) -> &[Object] {
        let current = self.cluster(name).and_then(|it| it.current.as_ref());
        current.map_or(&[], |session| &session.objects)
    }

    // --- what is answered ---

    /// What a client has been told once it has read everything there is; `memory` is that of its stream.
    pub(crate) fn answer(&self, asked: &Asked, memory: &mut Memory) -> Answer {
        let answer = match asked.method {
            Method::Get => self.get(asked, &mut memory.sort),
            Method::GetProfile => self.profile(asked, &mut memory.profile),
        };
        if matches!(answer, Answer::Refused(_) | Answer::Ended) {
            *memory = Memory::default();
        }
        answer
    }

    /// Whether the home cluster has a Service.
    pub(crate) fn has_service(&self, namespace: &str, name: &str) -> bool {
        self.home()
            .is_some_and(|home| home.service(namespace, name).is_some())
    }

    // --- what is known ---

    fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|cluster| cluster.name == name)
    }

    fn home(&self) -> Option<&Session> {
        self.cluster(HOME).and_then(Cluster::contributes)
    }

    /// The zone of a client's Node.
    fn zone_of(&self, node: Option<&str>) -> Option<&'static str> {
        let node = node?;
        self.home()?.objects.iter().find_map(|object| match object {
            Object::Node(it) if it.name == node => it.zone,
            _ => None,
        })
    }

    fn opaque_by_default(&self, port: u16) -> bool {
        self.setting.opaque_by_default && port == 8081
    }
}

// === impl Cluster ===

impl Cluster {
    /// The session whose word counts, once everything has been read in it.
    fn contributes(&self) -> Option<&Session> {
        self.current.as_ref().filter(|session| session.is_read())
    }
}

// === impl Session ===

impl Session {
    fn is_home(&self) -> bool {
        self.cluster == HOME
    }

    /// Whether a kind is watched in its cluster: Linkerd's account in a linked one may read less.
    pub(crate) fn watches(&self, kind: Kind) -> bool {
        self.is_home()
            || matches!(
                kind,
                Kind::Service | Kind::EndpointSlice | Kind::Pod | Kind::ReplicaSet | Kind::Server
            )
    }

    /// Kinds that have been neither read nor refused.
    pub(crate) fn unread(&self) -> Vec<Kind> {
        let mut kinds = vec![
            Kind::Service,
            Kind::EndpointSlice,
            Kind::Pod,
            Kind::Node,
            Kind::ReplicaSet,
            Kind::Job,
            Kind::ExternalWorkload,
            Kind::Server,
            Kind::ServiceProfile,
        ];
        kinds.retain(|kind| {
            self.watches(*kind) && !self.listed.contains(kind) && !self.denied.contains(kind)
        });
        kinds
    }

    fn is_read(&self) -> bool {
        self.unread().is_empty()
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Apply(object) => self.put(object),
            Said::Delete(object) => self.objects.retain(|known| known.key() != object.key()),
            Said::List(kind, objects) => {
                self.objects.retain(|known| known.kind() != kind);
                for object in objects {
                    self.put(object);
                }
                self.denied.retain(|denied| *denied != kind);
                self.listed.push(kind);
            }
            // Without these two there is nothing to answer: they are waited for.
            Said::Deny(Kind::Service | Kind::EndpointSlice) => {}
            Said::Deny(kind) => {
                self.listed.retain(|listed| *listed != kind);
                self.denied.push(kind);
            }
        }
    }

    fn put(&mut self, object: Object) {
        self.objects.retain(|known| known.key() != object.key());
        self.objects.push(object);
    }

    // --- what it has ---

    fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.objects.iter().find_map(|object| match object {
            Object::Service(it) if it.namespace == namespace && it.name == name => Some(it),
            _ => None,
        })
    }

    /// Slices of a Service, in order of name: those with its label, else with it as owner. Slices of host names have no
    /// addresses.
    fn slices(&self, namespace: &str, service: &str) -> Vec<&Slice> {
        let mut slices: Vec<&Slice> = Vec::new();
        for object in &self.objects {
            if let Object::Slice(slice) = object
                && slice.namespace == namespace
                && slice.address_type != "FQDN"
                && slice.belongs_to() == Some(service)
            {
                slices.push(slice);
            }
        }
        slices.sort_by_key(|slice| slice.name);
        slices
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods()
            .into_iter()
            .find(|pod| pod.namespace == namespace && pod.name == name)
    }

    /// In order of name.
    fn pods(&self) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = Vec::new();
        for object in &self.objects {
            if let Object::Pod(pod) = object {
                pods.push(pod);
            }
        }
        pods.sort_by_key(|pod| (pod.namespace, pod.name));
        pods
    }

    fn external(&self, namespace: &str, name: &str) -> Option<&External> {
        self.externals()
            .into_iter()
            .find(|it| it.namespace == namespace && it.name == name)
    }

    /// In order of name.
    fn externals(&self) -> Vec<&External> {
        let mut externals: Vec<&External> = Vec::new();
        for object in &self.objects {
            if let Object::External(external) = object {
                externals.push(external);
            }
        }
        externals.sort_by_key(|external| (external.namespace, external.name));
        externals
    }
}

// === impl objects ===

impl Slice {
    fn belongs_to(&self) -> Option<&'static str> {
        texts::filled(self.service).or(self.owner)
    }
}

impl Service {
    /// Ports whose numbers can be ports.
    fn usable_ports(&self) -> Vec<(&'static str, u16)> {
        let ports = self.ports.iter();
        ports
            .filter_map(|(name, number)| Some((*name, texts::port(*number)?)))
            .collect()
    }

    fn defines(&self, port: u16) -> bool {
        self.usable_ports()
            .iter()
            .any(|(_, number)| *number == port)
    }
}

impl Pod {
    fn addresses(&self) -> Vec<IpAddr> {
        self.ips.iter().filter_map(|ip| texts::ip(ip)).collect()
    }

    fn is_finished(&self) -> bool {
        matches!(self.phase, "Succeeded" | "Failed")
    }

    fn is_meshed(&self) -> bool {
        texts::filled(self.control_plane).is_some()
    }

    /// Whether an address is its own, rather than that of its Node.
    fn has(&self, ip: IpAddr) -> bool {
        !self.host_network && self.addresses().contains(&ip)
    }

    /// Ports at which it is reached by the addresses of its Node; in the Node's network that is every port it declares.
    fn ports_on_host(&self) -> Vec<u16> {
        let mut ports = Vec::new();
        for port in &self.ports {
            let number = match port.host {
                None | Some(0) if self.host_network => port.number,
                None | Some(0) => continue,
                Some(number) => number,
            };
            ports.extend(texts::port(number));
        }
        ports
    }

    fn is_on_host(&self, ip: IpAddr) -> bool {
        !self.ports_on_host().is_empty()
            && self.host_ips.iter().any(|host| texts::ip(host) == Some(ip))
    }
}

impl External {
    fn addresses(&self) -> Vec<IpAddr> {
        self.ips.iter().filter_map(|ip| texts::ip(ip)).collect()
    }

    /// Ports whose numbers can be ports.
    fn usable_ports(&self) -> Vec<(&'static str, u16)> {
        let ports = self.ports.iter();
        ports
            .filter_map(|(name, number)| Some((*name, texts::port(*number)?)))
            .collect()
    }
}
