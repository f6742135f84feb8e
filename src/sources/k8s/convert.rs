//! Kubernetes objects → facts, and what had to be left out.
//!
//! Pure. Bad user data never fails here: a bad part costs itself and a [`Warning`]. An object that takes no part, such as
//! an EndpointSlice without a Service, is as good as absent.

mod endpoints;
mod external;
mod pod;
mod profile;
mod quantity;
mod server;
mod slice;

use std::net::IpAddr;

use serde::de::DeserializeOwned;

use super::objects::{self, HasMetadata, Metadata, OwnerReference};
use crate::index::{Kind, Object, ObjectName};
use crate::model::{
    CLUSTER_SERVICE, ExternalWorkloadName, Federation, IpFamilies, Labels, Membership, NamedPort,
    NodeFacts, NodeName, Owner, OwnerKind, OwnerName, PodName, PortSet, ProfileName, RemoteService,
    ServerName, ServiceDetails, ServiceFacts, ServiceName, ServicePort, SliceName, Text,
    TrafficPolicy, Traits, Transport, Zone,
};

/// Annotation that lists ports whose protocol must not be guessed.
const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";

/// Bytes of a user's text that a warning repeats.
const QUOTE_MAX: usize = 80;

/// An object of a kind that is watched.
pub trait Convert: HasMetadata + DeserializeOwned {
    /// Its kind.
    const KIND: Kind;

    /// Its name, given that metadata.
    fn object_name(metadata: &Metadata) -> ObjectName;

    /// What it says, if it takes any part.
    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object>;
}

/// What became of an object.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Its name.
    pub name: ObjectName,
    /// What it says; `None` if it takes no part, which is as if it did not exist.
    pub object: Option<Object>,
    /// What was left out, in order.
    pub warnings: Vec<Warning>,
}

/// Something in an object that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Warning {
    /// A text that should be an IP address.
    #[error("{0:?} is not an IP address, so it is left out")]
    Address(String),
    /// A port number out of range.
    #[error("port number {0} is not between 1 and 65535, so it is left out")]
    Port(i64),
    /// An endpoint that lists no address.
    #[error("an endpoint lists no address, so it is left out")]
    NoAddress,
    /// An endpoint whose target is of a kind that has no endpoints.
    #[error(
        "an endpoint's targetRef is of kind {kind:?}, so it is left out; known: {}",
        known.join(", ")
    )]
    TargetKind {
        /// The kind.
        kind: String,
        /// Kinds that an endpoint of such an object can have as target.
        known: &'static [&'static str],
    },
    /// An endpoint whose target is not named in full.
    #[error("an endpoint's targetRef lacks a name or a Pod's namespace, so it is left out")]
    TargetName,
    /// An Endpoints object that Kubernetes has cut short.
    #[error("Kubernetes lists only the first 1000 addresses in it; EndpointSlices have them all")]
    Truncated,
    /// An item of a list of ports in an annotation.
    #[error(
        "annotation {annotation} has {item:?}, which is no port, range or port name, so it is left out"
    )]
    PortItem {
        /// Key of the annotation.
        annotation: &'static str,
        /// The item.
        item: String,
    },
    /// An item of the member list of a federated Service.
    #[error(
        "annotation multicluster.linkerd.io/remote-discovery has {0:?}, which is not SERVICE@CLUSTER, so it is left out"
    )]
    Member(String),
    /// A Pod that is labelled as meshed, and whose proxy cannot be found in it.
    #[error(
        "the Pod is labelled linkerd.io/control-plane-ns, but has no linkerd-proxy container with readable listen addresses, so its endpoints are left out"
    )]
    Proxy,
    /// A part of a ServiceProfile.
    #[error("{part} {problem}")]
    ProfilePart {
        /// Where it is, such as `routes[2].condition`.
        part: String,
        /// What is wrong, and what that costs.
        problem: &'static str,
    },
    /// A selector that the Kubernetes API would not accept.
    #[error("{selector} {complaint}, so it selects nothing")]
    Selector {
        /// Field that has it.
        selector: &'static str,
        /// What is wrong with it.
        complaint: String,
    },
}

/// Converts an object; `None` if it has no name.
pub fn convert<K: Convert>(object: &K) -> Option<Converted> {
    let metadata = object.metadata();
    if metadata.name.is_empty() {
        return None;
    }
    let mut warnings = Vec::new();
    let converted = object.facts(&mut warnings);
    Some(Converted {
        name: K::object_name(metadata),
        object: converted,
        warnings,
    })
}

/// Decodes and converts an object of a kind known at run time; `None` if it has no name.
///
/// Fails if a field that we use does not have the type that the Kubernetes API gives it.
pub fn decode<'de, D: serde::Deserializer<'de>>(
    kind: Kind,
    deserializer: D,
) -> Result<Option<Converted>, D::Error> {
    fn as_kind<'de, K: Convert, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Converted>, D::Error> {
        Ok(convert(&K::deserialize(deserializer)?))
    }
    match kind {
        Kind::Service => as_kind::<objects::Service, D>(deserializer),
        Kind::EndpointSlice => as_kind::<objects::EndpointSlice, D>(deserializer),
        Kind::Endpoints => as_kind::<objects::Endpoints, D>(deserializer),
        Kind::Pod => as_kind::<objects::Pod, D>(deserializer),
        Kind::Node => as_kind::<objects::Node, D>(deserializer),
        Kind::ReplicaSet => as_kind::<objects::ReplicaSet, D>(deserializer),
        Kind::Job => as_kind::<objects::Job, D>(deserializer),
        Kind::ExternalWorkload => as_kind::<objects::ExternalWorkload, D>(deserializer),
        Kind::Server => as_kind::<objects::Server, D>(deserializer),
        Kind::ServiceProfile => as_kind::<objects::ServiceProfile, D>(deserializer),
    }
}

/// The kind that `apiVersion` and `kind` of an object name, if it is one that is watched.
pub fn kind_of(api_version: &str, kind: &str) -> Option<Kind> {
    match (api_version, kind) {
        ("v1", "Service") => Some(Kind::Service),
        ("discovery.k8s.io/v1", "EndpointSlice") => Some(Kind::EndpointSlice),
        ("v1", "Endpoints") => Some(Kind::Endpoints),
        ("v1", "Pod") => Some(Kind::Pod),
        ("v1", "Node") => Some(Kind::Node),
        ("apps/v1", "ReplicaSet") => Some(Kind::ReplicaSet),
        ("batch/v1", "Job") => Some(Kind::Job),
        ("workload.linkerd.io/v1beta1", "ExternalWorkload") => Some(Kind::ExternalWorkload),
        ("policy.linkerd.io/v1beta3", "Server") => Some(Kind::Server),
        ("linkerd.io/v1alpha2", "ServiceProfile") => Some(Kind::ServiceProfile),
        _ => None,
    }
}

// === impl Warning ===

impl Warning {
    /// What sort of warning it is, in one word; for metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Port(_) => "port",
            Self::NoAddress => "no_address",
            Self::TargetKind { .. } => "target_kind",
            Self::TargetName => "target_name",
            Self::Truncated => "truncated",
            Self::PortItem { .. } => "port_item",
            Self::Member(_) => "member",
            Self::Selector { .. } => "selector",
            Self::Proxy => "proxy",
            Self::ProfilePart { .. } => "profile_part",
        }
    }
}

// === impl Convert ===

impl Convert for objects::Service {
    const KIND: Kind = Kind::Service;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Service(service_name(metadata))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let name = service_name(&self.metadata);
        let ports = self.spec.ports.iter().filter_map(|entry| {
            Some(ServicePort {
                port: port_number(entry.port?, warnings)?,
                name: Text::from(entry.name.as_deref().unwrap_or_default()),
                transport: Transport::of(entry.protocol.as_deref()),
                app_protocol: filled(entry.app_protocol.as_deref()).map(Text::from),
            })
        });
        let ports: Box<[ServicePort]> = ports.collect();
        let opaque_ports = self.metadata.annotations.opaque_ports.as_deref();
        let facts = ServiceFacts {
            cluster_ips: cluster_ips(&self.spec, warnings),
            opaque_ports: opaque_ports.map(|list| {
                let named = |name: &str| {
                    let named = |port: &&ServicePort| !name.is_empty() && &*port.name == name;
                    ports.iter().find(named).map(|port| port.port)
                };
                port_list(OPAQUE_PORTS, list, named, warnings)
            }),
            ports,
            external_name: self.spec.type_.as_deref() == Some("ExternalName"),
            internal_traffic_policy: match self.spec.internal_traffic_policy.as_deref() {
                Some("Local") => TrafficPolicy::Local,
                _ => TrafficPolicy::Cluster,
            },
            membership: membership(&self.metadata, warnings),
            details: service_details(self).map(Box::new),
        };
        Some(Object::Service(name, facts))
    }
}

impl Convert for objects::EndpointSlice {
    const KIND: Kind = Kind::EndpointSlice;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Slice(SliceName::new(
            metadata.namespace.as_str(),
            metadata.name.as_str(),
        ))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let name = SliceName::new(
            self.metadata.namespace.as_str(),
            self.metadata.name.as_str(),
        );
        Some(Object::Slice(name, slice::facts(self, warnings)?))
    }
}

impl Convert for objects::Endpoints {
    const KIND: Kind = Kind::Endpoints;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Endpoints(service_name(metadata))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let service = service_name(&self.metadata);
        let subsets = endpoints::facts(&service, self, warnings);
        Some(Object::Endpoints(service, subsets))
    }
}

impl Convert for objects::Pod {
    const KIND: Kind = Kind::Pod;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Pod(PodName::new(
            metadata.namespace.as_str(),
            metadata.name.as_str(),
        ))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let name = PodName::new(
            self.metadata.namespace.as_str(),
            self.metadata.name.as_str(),
        );
        Some(Object::Pod(name, pod::facts(self, warnings)))
    }
}

impl Convert for objects::Node {
    const KIND: Kind = Kind::Node;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Node(NodeName::from(metadata.name.as_str()))
    }

    fn facts(&self, _: &mut Vec<Warning>) -> Option<Object> {
        let facts = NodeFacts {
            zone: filled(self.metadata.labels.zone.as_deref()).map(Zone::from),
        };
        Some(Object::Node(
            NodeName::from(self.metadata.name.as_str()),
            facts,
        ))
    }
}

impl Convert for objects::ReplicaSet {
    const KIND: Kind = Kind::ReplicaSet;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Owner(owner_name(OwnerKind::ReplicaSet, metadata))
    }

    fn facts(&self, _: &mut Vec<Warning>) -> Option<Object> {
        let name = owner_name(OwnerKind::ReplicaSet, &self.metadata);
        Some(Object::Owner(name, sole_owner(&self.metadata)))
    }
}

impl Convert for objects::Job {
    const KIND: Kind = Kind::Job;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Owner(owner_name(OwnerKind::Job, metadata))
    }

    fn facts(&self, _: &mut Vec<Warning>) -> Option<Object> {
        let name = owner_name(OwnerKind::Job, &self.metadata);
        Some(Object::Owner(name, sole_owner(&self.metadata)))
    }
}

impl Convert for objects::ExternalWorkload {
    const KIND: Kind = Kind::ExternalWorkload;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::ExternalWorkload(external_workload_name(metadata))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let name = external_workload_name(&self.metadata);
        let facts = external::facts(self, warnings);
        Some(Object::ExternalWorkload(name, facts))
    }
}

impl Convert for objects::Server {
    const KIND: Kind = Kind::Server;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Server(server_name(metadata))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let facts = server::facts(self, warnings)?;
        Some(Object::Server(server_name(&self.metadata), facts))
    }
}

impl Convert for objects::ServiceProfile {
    const KIND: Kind = Kind::ServiceProfile;

    fn object_name(metadata: &Metadata) -> ObjectName {
        ObjectName::Profile(profile_name(metadata))
    }

    fn facts(&self, warnings: &mut Vec<Warning>) -> Option<Object> {
        let name = profile_name(&self.metadata);
        Some(Object::Profile(name, profile::facts(&self.spec, warnings)))
    }
}

fn service_name(metadata: &Metadata) -> ServiceName {
    ServiceName::new(metadata.namespace.as_str(), metadata.name.as_str())
}

fn profile_name(metadata: &Metadata) -> ProfileName {
    ProfileName::new(metadata.namespace.as_str(), metadata.name.as_str())
}

/// What else is kept of a Service that EndpointSlices may be written for, and of the one that tells clusters apart.
fn service_details(service: &objects::Service) -> Option<ServiceDetails> {
    let (metadata, spec) = (&service.metadata, &service.spec);
    let labels = &metadata.labels;
    let is_mirror = labels.mirrored_service.as_deref() == Some("true");
    let tells_clusters_apart =
        metadata.namespace == CLUSTER_SERVICE.0 && metadata.name == CLUSTER_SERVICE.1;
    if !is_mirror && !tells_clusters_apart {
        return None;
    }
    let has_family = |family: &str| spec.ip_families.iter().any(|known| known == family);
    Some(ServiceDetails {
        uid: metadata.uid.as_str().into(),
        is_mirror,
        has_selector: !spec.selector.is_empty(),
        is_headless: spec.cluster_ip.as_deref() == Some("None"),
        is_going: metadata.deletion_timestamp.is_some(),
        is_exported: labels.exported.is_some() || labels.federated.is_some(),
        has_neg: metadata.annotations.neg.is_some() || metadata.annotations.neg_status.is_some(),
        families: IpFamilies {
            v4: has_family("IPv4"),
            v6: has_family("IPv6"),
        },
        endpoint_slices: metadata
            .annotations
            .endpoint_slices
            .as_deref()
            .map(Text::from),
        audience: metadata.annotations.audience.as_deref().map(Text::from),
        labels: all_labels(metadata),
    })
}

/// Every label of an object; `null` is the empty value.
fn all_labels(metadata: &Metadata) -> Labels {
    let labels = metadata.labels.all.iter();
    labels
        .map(|(key, value)| {
            (
                Text::from(key.as_str()),
                Text::from(value.as_deref().unwrap_or_default()),
            )
        })
        .collect()
}

/// The addresses of a Service, of which a headless one has none.
fn cluster_ips(spec: &objects::ServiceSpec, warnings: &mut Vec<Warning>) -> Box<[IpAddr]> {
    let several = spec.cluster_ips.iter().map(String::as_str);
    let first = spec.cluster_ip.as_deref();
    let first = first.filter(|_| spec.cluster_ips.is_empty());
    several
        .chain(first)
        .filter(|text| !matches!(*text, "" | "None"))
        .filter_map(|text| ip(text, warnings))
        .collect()
}

/// A list of ports in an annotation.
fn port_list(
    annotation: &'static str,
    list: &str,
    named: impl Fn(&str) -> Option<u16>,
    warnings: &mut Vec<Warning>,
) -> PortSet {
    let (ports, bad) = PortSet::parse(list, named);
    warnings.extend(bad.iter().map(|item| Warning::PortItem {
        annotation,
        item: quote(item),
    }));
    ports
}

fn ip(text: &str, warnings: &mut Vec<Warning>) -> Option<IpAddr> {
    let ip = slice::address(text);
    if ip.is_none() {
        warnings.push(Warning::Address(quote(text)));
    }
    ip
}

/// Where the endpoints of a Service are; annotations, even empty ones, win over the label.
fn membership(metadata: &Metadata, warnings: &mut Vec<Warning>) -> Membership {
    let federation = Federation::parse(
        metadata.annotations.local_discovery.as_deref(),
        metadata.annotations.remote_discovery.as_deref(),
    );
    if let Some((federation, bad)) = federation {
        warnings.extend(bad.iter().map(|item| Warning::Member(quote(item))));
        return Membership::Federated(federation);
    }
    match &metadata.labels.remote_discovery {
        Some(cluster) => Membership::Remote(RemoteService {
            cluster: cluster.as_str().into(),
            service: metadata.labels.remote_service.as_deref().map(Text::from),
        }),
        None => Membership::Local,
    }
}

fn owner_name(kind: OwnerKind, metadata: &Metadata) -> OwnerName {
    OwnerName {
        kind,
        namespace: metadata.namespace.as_str().into(),
        name: metadata.name.as_str().into(),
    }
}

fn external_workload_name(metadata: &Metadata) -> ExternalWorkloadName {
    ExternalWorkloadName::new(metadata.namespace.as_str(), metadata.name.as_str())
}

fn server_name(metadata: &Metadata) -> ServerName {
    ServerName::new(metadata.namespace.as_str(), metadata.name.as_str())
}

/// What Servers look at; ports without a name or a number are left out.
fn traits<'a>(
    metadata: &Metadata,
    ports: impl Iterator<Item = (Option<&'a str>, Option<i64>)>,
) -> Traits {
    let mut ports: Vec<NamedPort> = ports
        .filter_map(|(name, port)| {
            Some(NamedPort {
                name: filled(name)?.into(),
                port: u16::try_from(port?).ok().filter(|port| *port > 0)?,
            })
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    Traits {
        labels: all_labels(metadata),
        ports: ports.into(),
    }
}

/// The annotation that says which ports are opaque, if there is one; `resolve` knows the names of ports.
fn opaque_ports(
    metadata: &Metadata,
    warnings: &mut Vec<Warning>,
    resolve: impl Fn(&str) -> Option<u16>,
) -> Option<PortSet> {
    let list = metadata.annotations.opaque_ports.as_deref()?;
    let (ports, bad) = PortSet::parse(list, resolve);
    warnings.extend(bad.iter().map(|item| Warning::PortItem {
        annotation: OPAQUE_PORTS,
        item: quote(item),
    }));
    Some(ports)
}

/// The owner of an object that has exactly one.
fn sole_owner(metadata: &Metadata) -> Option<Owner> {
    match &metadata.owner_references[..] {
        [OwnerReference { kind, name }] => Some(Owner {
            kind: kind.as_str().into(),
            name: name.as_str().into(),
        }),
        _ => None,
    }
}

fn port_number(number: i64, warnings: &mut Vec<Warning>) -> Option<u16> {
    match u16::try_from(number) {
        Ok(port) if port > 0 => Some(port),
        _ => {
            warnings.push(Warning::Port(number));
            None
        }
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The beginning of a user's text.
pub(super) fn quote(text: &str) -> String {
    let mut end = text.len().min(QUOTE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Reads a text in the ways in which texts within objects are read.
#[cfg(any(test, feature = "testing"))]
pub(super) fn read_texts(text: &str) {
    let _: Option<u64> = quantity::milli(text);
    let _: Option<IpAddr> = slice::address(text);
    assert!(quote(text).len() <= QUOTE_MAX && text.starts_with(&quote(text)));
}

#[cfg(test)]
mod tests;
