//! Kubernetes objects, reduced to the facts that matter.

mod pod;

use std::sync::Arc;

use super::{ip, split};
use crate::index::{Change, Object};
use crate::model::{
    AddressFamily, Backing, Conditions, Endpoint, Federation, IpFamilies, Membership, MirrorFacts,
    NodeFacts, Owner, OwnerKind, OwnerName, PodName, PortSet, ProfileFacts, ProfileName,
    RemoteService, ServiceDetails, ServiceFacts, ServiceName, ServicePort, SliceFacts, SliceName,
    SliceOrigin, SlicePort, TrafficPolicy, Transport, Zone,
};

pub use pod::{PodBuilder, pod};

/// A Service to be.
#[derive(Clone, Debug)]
pub struct ServiceBuilder {
    name: ServiceName,
    facts: ServiceFacts,
    ports: Vec<ServicePort>,
}

/// An EndpointSlice to be; unless it says otherwise it has one port, `http` 8080.
#[derive(Clone, Debug)]
pub struct SliceBuilder {
    name: String,
    cluster: String,
    service: ServiceName,
    ports: Option<Vec<SlicePort>>,
    endpoints: Vec<Endpoint>,
    mirror: Option<MirrorFacts>,
    family: AddressFamily,
    origin: SliceOrigin,
}

/// A Service without ports whose endpoints are in its own slices.
pub fn service(name: &str) -> ServiceBuilder {
    let (namespace, name) = split(name);
    ServiceBuilder {
        name: ServiceName::new(namespace, name),
        facts: ServiceFacts::default(),
        ports: Vec::new(),
    }
}

/// A slice of the Service that [`SliceBuilder::of`] names, in that Service's namespace.
pub fn slice(name: &str) -> SliceBuilder {
    SliceBuilder {
        name: name.to_owned(),
        cluster: super::HOME.to_owned(),
        service: ServiceName::new("shop", "web"),
        ports: None,
        endpoints: Vec::new(),
        mirror: None,
        family: AddressFamily::V4,
        origin: SliceOrigin::default(),
    }
}

/// A ServiceProfile: `shop/web.shop.svc.cluster.local`.
pub fn service_profile(name: &str, facts: ProfileFacts) -> Object {
    let (namespace, name) = split(name);
    Object::Profile(ProfileName::new(namespace, name), facts)
}

/// A Node whose zone is not known.
pub fn node(name: &str) -> Object {
    Object::Node(name.into(), NodeFacts::default())
}

/// A Node in a zone.
pub fn node_in(zone: &str, name: &str) -> Object {
    let zone = Some(zone.into());
    Object::Node(name.into(), NodeFacts { zone })
}

/// A ReplicaSet and what owns it: `("Deployment", "web")`.
pub fn replica_set(name: &str, owner: Option<(&str, &str)>) -> Object {
    owner_of(OwnerKind::ReplicaSet, name, owner)
}

/// A Job and what owns it.
pub fn job(name: &str, owner: Option<(&str, &str)>) -> Object {
    owner_of(OwnerKind::Job, name, owner)
}

fn owner_of(kind: OwnerKind, name: &str, owner: Option<(&str, &str)>) -> Object {
    let (namespace, name) = split(name);
    let name = OwnerName {
        kind,
        namespace: namespace.into(),
        name: name.into(),
    };
    Object::Owner(name, owner.map(|(kind, name)| owned_by(kind, name)))
}

pub(super) fn owned_by(kind: &str, name: &str) -> Owner {
    Owner {
        kind: kind.into(),
        name: name.into(),
    }
}

// === impl ServiceBuilder ===

impl ServiceBuilder {
    /// With a port that slices are searched for by name.
    #[must_use]
    pub fn port(mut self, port: u16, name: &str) -> Self {
        self.ports.push(ServicePort {
            port,
            name: name.into(),
            transport: Transport::Tcp,
            app_protocol: None,
        });
        self
    }

    /// Keeping clients on their own node.
    #[must_use]
    pub fn node_local(mut self) -> Self {
        self.facts.internal_traffic_policy = TrafficPolicy::Local;
        self
    }

    /// With one more cluster IP.
    #[must_use]
    pub fn cluster_ip(mut self, address: &str) -> Self {
        let mut ips = self.facts.cluster_ips.into_vec();
        ips.push(ip(address));
        self.facts.cluster_ips = ips.into();
        self
    }

    /// With opaque ports.
    #[must_use]
    pub fn opaque(mut self, ports: &str) -> Self {
        self.facts.opaque_ports = Some(port_set(ports));
        self
    }

    /// Of type `ExternalName`.
    #[must_use]
    pub fn external_name(mut self) -> Self {
        self.facts.external_name = true;
        self
    }

    /// The union of Services, as the two annotations say it; an empty text is an annotation without value.
    #[must_use]
    pub fn federated(mut self, local: &str, remote: &str) -> Self {
        let federation = Federation::parse(Some(local), Some(remote));
        self.facts.membership = federation.map_or(Membership::Local, |(federation, bad)| {
            assert!(bad.is_empty(), "not service@cluster: {bad:?}");
            Membership::Federated(federation)
        });
        self
    }

    /// The mirror of a Service of a linked cluster: `web@east`; `@east` names no Service.
    #[must_use]
    pub fn mirrors(mut self, remote: &str) -> Self {
        let (service, cluster) = remote
            .split_once('@')
            .unwrap_or_else(|| panic!("expected service@cluster, got {remote:?}"));
        self.facts.membership = Membership::Remote(RemoteService {
            cluster: cluster.into(),
            service: (!service.is_empty()).then(|| service.into()),
        });
        self
    }

    /// Over something else than TCP: the last port.
    #[must_use]
    pub fn over(mut self, transport: Transport) -> Self {
        match self.ports.last_mut() {
            Some(port) => port.transport = transport,
            None => panic!("say which port first"),
        }
        self
    }

    /// Speaking a protocol: the last port.
    #[must_use]
    pub fn speaking(mut self, protocol: &str) -> Self {
        match self.ports.last_mut() {
            Some(port) => port.app_protocol = Some(protocol.into()),
            None => panic!("say which port first"),
        }
        self
    }

    /// With what is kept of a mirror, IPv4 and with this uid; `change` alters the rest.
    #[must_use]
    pub fn mirror(mut self, uid: &str, change: impl FnOnce(&mut ServiceDetails)) -> Self {
        let mut details = ServiceDetails {
            uid: uid.into(),
            is_mirror: true,
            families: IpFamilies {
                v4: true,
                v6: false,
            },
            ..ServiceDetails::default()
        };
        change(&mut details);
        self.facts.details = Some(Box::new(details));
        self
    }

    /// Its name.
    pub fn name(&self) -> ServiceName {
        self.name.clone()
    }

    /// The object.
    pub fn object(self) -> Object {
        let ports = self.ports.into();
        Object::Service(
            self.name,
            ServiceFacts {
                ports,
                ..self.facts
            },
        )
    }
}

// === impl SliceBuilder ===

impl SliceBuilder {
    /// Belonging to a Service.
    #[must_use]
    pub fn of(mut self, service: &str) -> Self {
        let (namespace, name) = split(service);
        self.service = ServiceName::new(namespace, name);
        self
    }

    /// In another cluster than the home cluster, where [`SliceBuilder::applied`] is said.
    #[must_use]
    pub fn in_cluster(mut self, cluster: &str) -> Self {
        cluster.clone_into(&mut self.cluster);
        self
    }

    /// With a port; the first call replaces the default one.
    #[must_use]
    pub fn port(mut self, port: u16, name: &str) -> Self {
        let name = name.into();
        self.ports.get_or_insert_default().push(SlicePort {
            name,
            port: Some(port),
            transport: Transport::Tcp,
            app_protocol: None,
        });
        self
    }

    /// Without any port.
    #[must_use]
    pub fn without_ports(mut self) -> Self {
        self.ports = Some(Vec::new());
        self
    }

    /// Of host names in place of addresses.
    #[must_use]
    pub fn of_host_names(mut self) -> Self {
        self.family = AddressFamily::Fqdn;
        self
    }

    /// Listing IPv6 addresses.
    #[must_use]
    pub fn ipv6(mut self) -> Self {
        self.family = AddressFamily::V6;
        self
    }

    /// Being this object, at this generation.
    #[must_use]
    pub fn object_of(mut self, uid: &str, generation: i64) -> Self {
        self.origin.uid = uid.into();
        self.origin.generation = generation;
        self
    }

    /// Written by somebody.
    #[must_use]
    pub fn managed_by(mut self, manager: &str) -> Self {
        self.origin.managed_by = manager.into();
        self
    }

    /// Copied from another cluster by somebody.
    #[must_use]
    pub fn imported(mut self) -> Self {
        self.origin.is_import = true;
        self
    }

    /// The last port, without its number.
    #[must_use]
    pub fn numberless(mut self) -> Self {
        if let Some(port) = self.ports.as_mut().and_then(|ports| ports.last_mut()) {
            port.port = None;
        }
        self
    }

    /// Made by the service mirror from a cluster's gateway.
    #[must_use]
    pub fn mirrored_from(mut self, cluster: &str, remote_service: &str, identity: &str) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        self.mirror = Some(MirrorFacts {
            cluster: some(cluster),
            remote_service: some(remote_service),
            gateway_identity: some(identity),
        });
        self
    }

    /// Listing one more address; what follows is said of it. It is ready unless that says otherwise.
    #[must_use]
    pub fn endpoint(mut self, address: &str) -> Self {
        self.endpoints.push(Endpoint {
            address: ip(address),
            conditions: Conditions::READY,
            backing: Backing::Address,
            zone: None,
            node: None,
            hostname: None,
            zone_hints: None,
        });
        self
    }

    /// The Pod behind the address.
    #[must_use]
    pub fn pod(self, name: &str) -> Self {
        let (namespace, name) = split(name);
        let pod = PodName::new(namespace, name);
        self.change(|endpoint| endpoint.backing = Backing::Pod(pod))
    }

    /// The ExternalWorkload behind the address.
    #[must_use]
    pub fn external_workload(self, name: &str) -> Self {
        self.change(|endpoint| endpoint.backing = Backing::ExternalWorkload(name.into()))
    }

    /// The zone the address is in.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.change(|endpoint| endpoint.zone = Some(zone.into()))
    }

    /// The node the address is on.
    #[must_use]
    pub fn node(self, node: &str) -> Self {
        self.change(|endpoint| endpoint.node = Some(node.into()))
    }

    /// The instance name of the address.
    #[must_use]
    pub fn hostname(self, hostname: &str) -> Self {
        self.change(|endpoint| endpoint.hostname = Some(hostname.into()))
    }

    /// Zones that should use the address.
    #[must_use]
    pub fn for_zones(self, zones: &[&str]) -> Self {
        let zones = zones.iter().map(|zone| Zone::from(*zone)).collect();
        self.change(|endpoint| endpoint.zone_hints = Some(Arc::new(zones)))
    }

    /// The address takes traffic.
    #[must_use]
    pub fn ready(self) -> Self {
        self.change(|endpoint| endpoint.conditions = Conditions::READY)
    }

    /// The address takes no traffic.
    #[must_use]
    pub fn not_ready(self) -> Self {
        let conditions = Conditions::from_optional(Some(false), None, None);
        self.change(|endpoint| endpoint.conditions = conditions)
    }

    /// The address has these conditions: ready, serving, terminating.
    #[must_use]
    pub fn conditions(self, ready: bool, serving: bool, terminating: bool) -> Self {
        self.change(|endpoint| {
            endpoint.conditions = Conditions {
                ready,
                serving,
                terminating,
            };
        })
    }

    /// The slice's name.
    pub fn name(&self) -> SliceName {
        SliceName::new(self.service.namespace.clone(), self.name.as_str())
    }

    /// The object.
    pub fn object(self) -> Object {
        let name = self.name();
        let default_port = || {
            vec![SlicePort {
                name: "http".into(),
                port: Some(8080),
                transport: Transport::Tcp,
                app_protocol: None,
            }]
        };
        let facts = SliceFacts {
            service: self.service,
            ports: self.ports.unwrap_or_else(default_port).into(),
            endpoints: self.endpoints.into(),
            mirror: self.mirror.map(Box::new),
            family: self.family,
            origin: self.origin,
        };
        Object::Slice(name, facts)
    }

    /// The first session of its cluster says that it is there.
    pub fn applied(self) -> Change {
        super::cluster(&self.cluster).apply(self)
    }

    fn change(mut self, change: impl FnOnce(&mut Endpoint)) -> Self {
        match self.endpoints.last_mut() {
            Some(endpoint) => change(endpoint),
            None => panic!("say which endpoint first"),
        }
        self
    }
}

pub(super) fn port_set(list: &str) -> PortSet {
    let (ports, bad) = PortSet::parse(list, |_| None);
    assert!(bad.is_empty(), "not ports: {bad:?}");
    ports
}
