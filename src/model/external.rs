//! Workloads outside of Kubernetes.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Namespace, Owner, PortSet, Text, Traits, Uid};

/// An ExternalWorkload within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalWorkloadName {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Text,
}

/// What an ExternalWorkload object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalWorkloadFacts {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.workloadIPs`.
    pub ips: Box<[IpAddr]>,
    /// `spec.meshTLS.identity`, a URI; `None` if absent or empty.
    pub identity: Option<Text>,
    /// `spec.meshTLS.serverName`; `None` if absent or empty.
    pub server_name: Option<Text>,
    /// Its owner, if it has exactly one.
    pub owner: Option<Owner>,
    /// Annotation `config.linkerd.io/opaque-ports`, names resolved; `None` if absent.
    pub opaque_ports: Option<PortSet>,
    /// The numbers in `spec.ports`, in order, without duplicates.
    pub ports: Box<[u16]>,
    /// The port that is named `linkerd-proxy`; `None` if no port is.
    pub inbound_port: Option<u16>,
    /// Its labels and named ports.
    pub traits: Arc<Traits>,
}

/// An ExternalWorkload as it stands behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalWorkload {
    /// Which one it is.
    pub name: ExternalWorkloadName,
    /// What it says.
    pub facts: Arc<ExternalWorkloadFacts>,
    /// Ports that some Server says are opaque.
    pub server_opaque: PortSet,
}

// === impl ExternalWorkloadName ===

impl ExternalWorkloadName {
    /// Names an ExternalWorkload.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ExternalWorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl ExternalWorkloadFacts ===

impl ExternalWorkloadFacts {
    /// Whether the workload has this address.
    pub fn has_ip(&self, ip: IpAddr) -> bool {
        self.ips.contains(&ip)
    }
}
