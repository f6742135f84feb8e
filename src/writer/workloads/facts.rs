//! What matters of Services and ExternalWorkloads here. Pure; what is odd costs only itself.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::DynamicObject;
use serde::Deserialize;

use super::super::encode::is_of_slices;
use crate::model::{AddressFamily, Labels, Namespace, ServiceName, Text, Transport, Uid, Zone};

/// Services of this namespace are Kubernetes' own.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// The label that says in which zone a workload is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A Service that selects workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selecting {
    /// Its name.
    pub(super) name: ServiceName,
    /// `metadata.uid`.
    pub(super) uid: Uid,
    /// Labels that its slices have too.
    pub(super) labels: Labels,
    /// What a workload's labels have to say; never empty.
    pub(super) selector: Labels,
    /// Families of the addresses that it wants.
    pub(super) families: Vec<AddressFamily>,
    /// Whether its cluster IP is `None`.
    pub(super) is_headless: bool,
    /// Its ports.
    pub(super) ports: Vec<Port>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Its name; may be empty.
    pub(super) name: Text,
    /// Its number.
    pub(super) number: i32,
    /// What runs over IP.
    pub(super) transport: Transport,
    /// Which port of a workload it leads to.
    pub(super) target: TargetPort,
}

/// A port of a workload, as a Service names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetPort {
    /// By its number.
    Number(i32),
    /// By its name.
    Name(Text),
}

/// An ExternalWorkload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    /// Its namespace.
    pub(super) namespace: Namespace,
    /// Its name.
    pub(super) name: Text,
    /// `metadata.uid`.
    pub(super) uid: Uid,
    /// Its labels.
    pub(super) labels: Labels,
    /// Its addresses.
    pub(super) ips: Vec<IpAddr>,
    /// Its ports: name, number, what runs over IP.
    pub(super) ports: Vec<(Text, u16, Transport)>,
    /// Whether its condition `Ready` is `True`.
    pub(super) is_ready: bool,
}

// === impl Selecting ===

impl Selecting {
    /// What a Service says; `None` if it selects nothing, is of type `ExternalName`, is Kubernetes' own, or is going.
    pub(super) fn of(service: &Service) -> Option<Self> {
        let metadata = &service.metadata;
        let spec = service.spec.as_ref()?;
        let selector = labels(spec.selector.iter().flatten());
        let name = ServiceName::new(metadata.namespace.as_deref()?, metadata.name.as_deref()?);
        let is_left = selector.iter().next().is_none()
            || spec.type_.as_deref() == Some("ExternalName")
            || name.namespace.as_str() == SYSTEM_NAMESPACE
            || metadata.deletion_timestamp.is_some();
        if is_left {
            return None;
        }
        let of_service = metadata.labels.iter().flatten();
        let named = spec.ip_families.iter().flatten();
        let named = named.filter_map(|family| match family.as_str() {
            "IPv4" => Some(AddressFamily::V4),
            "IPv6" => Some(AddressFamily::V6),
            _ => None,
        });
        let mut families: Vec<_> = named.collect();
        if families.is_empty() {
            families = vec![AddressFamily::V4, AddressFamily::V6];
        }
        Some(Self {
            name,
            uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
            labels: labels(of_service.filter(|(key, _)| !is_of_slices(key))),
            selector,
            families,
            is_headless: spec.cluster_ip.as_deref() == Some("None"),
            ports: spec.ports.iter().flatten().map(port).collect(),
        })
    }

    /// Whether it selects a workload of these labels.
    pub(super) fn selects(&self, workload: &Workload) -> bool {
        let has = |(key, value): &(Text, Text)| workload.labels.get(key) == Some(value);
        self.name.namespace == workload.namespace && self.selector.iter().all(has)
    }
}

fn port(port: &ServicePort) -> Port {
    Port {
        name: port.name.as_deref().unwrap_or_default().into(),
        number: port.port,
        transport: Transport::of(port.protocol.as_deref()),
        target: match &port.target_port {
            Some(IntOrString::String(name)) => TargetPort::Name(name.as_str().into()),
            Some(IntOrString::Int(number)) => TargetPort::Number(*number),
            None => TargetPort::Number(port.port),
        },
    }
}

fn labels<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> Labels {
    pairs
        .map(|(key, value)| (Text::from(key.as_str()), Text::from(value.as_str())))
        .collect()
}

// === impl Workload ===

#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "workloadIPs")]
    workload_ips: Vec<Ip>,
    ports: Vec<WorkloadPort>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ip {
    ip: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkloadPort {
    name: Option<String>,
    port: u16,
    protocol: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Workload {
    /// What an ExternalWorkload says; `None` if it is not what its definition says it is, or is going.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let metadata = &object.metadata;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let written = Written::deserialize(&object.data).ok()?;
        let ips = written.spec.workload_ips.iter();
        let ports = written.spec.ports.into_iter().filter(|port| port.port > 0);
        Some(Self {
            namespace: metadata.namespace.as_deref()?.into(),
            name: metadata.name.as_deref()?.into(),
            uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
            labels: labels(metadata.labels.iter().flatten()),
            ips: ips.filter_map(|entry| entry.ip.parse().ok()).collect(),
            ports: ports
                .map(|port| {
                    let transport = Transport::of(port.protocol.as_deref());
                    (port.name.unwrap_or_default().into(), port.port, transport)
                })
                .collect(),
            is_ready: {
                let mut conditions = written.status.conditions.iter();
                conditions.any(|known| known.type_ == "Ready" && known.status == "True")
            },
        })
    }

    /// The number of the port that a Service's port leads to, if the workload has it.
    pub(super) fn target_of(&self, port: &Port) -> Option<u16> {
        let of_transport = self.ports.iter();
        let mut of_transport = of_transport.filter(|(_, _, known)| *known == port.transport);
        let found = of_transport.find(|(name, number, _)| match &port.target {
            TargetPort::Number(wanted) => i32::from(*number) == *wanted,
            TargetPort::Name(wanted) => name == wanted,
        });
        found.map(|(_, number, _)| *number)
    }

    /// The zone that its label names.
    pub(super) fn zone(&self) -> Option<Zone> {
        self.labels.get(ZONE).map(|zone| Zone::from(zone.clone()))
    }
}
