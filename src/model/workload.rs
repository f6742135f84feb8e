//! What is behind an address: a Pod, its owner, and what its proxy is told to do.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Addresses, Namespace, NodeName, PortSet, Text, Traits};

/// A Pod within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// The Pod's namespace.
    pub namespace: Namespace,
    /// The Pod's name.
    pub name: Text,
}

/// Kinds of owner whose own owner is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// A ReplicaSet, usually of a Deployment.
    ReplicaSet,
    /// A Job, perhaps of a CronJob.
    Job,
}

/// A ReplicaSet or Job within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerName {
    /// Which of the two it is.
    pub kind: OwnerKind,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Text,
}

/// The only entry of an object's `ownerReferences`; objects with none or several have no owner to us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Kind as it is written, such as `ReplicaSet`.
    pub kind: Text,
    /// Name of the owner.
    pub name: Text,
}

/// What a Pod object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// `status.podIPs`, else `status.podIP`.
    pub ips: Addresses,
    /// `status.phase`.
    pub phase: PodPhase,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// `spec.hostNetwork`: its addresses are those of its Node, and it has only its host ports there.
    pub host_network: bool,
    /// Where it is reached at its Node; `None` if it has no host port.
    pub on_host: Option<Box<HostPorts>>,
    /// `spec.nodeName`.
    pub node: Option<NodeName>,
    /// What it has in common with its replicas.
    pub template: Arc<PodTemplate>,
}

/// What a Pod is made from and seldom has for itself. Replicas have equal templates, which the index keeps once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodTemplate {
    /// `spec.serviceAccountName`; `default` if absent.
    pub service_account: Text,
    /// Label `linkerd.io/control-plane-ns`; `None` if absent or empty, which means that the Pod is not meshed.
    pub control_plane_namespace: Option<Text>,
    /// Label `pod-template-hash`; `None` if absent or empty.
    pub template_hash: Option<Text>,
    /// Its owner, if it has exactly one.
    pub owner: Option<Arc<Owner>>,
    /// Annotation `config.linkerd.io/opaque-ports`, names resolved; `None` if absent.
    pub opaque_ports: Option<PortSet>,
    /// Annotation `config.linkerd.io/skip-inbound-ports`.
    pub skip_inbound_ports: PortSet,
    /// What the `linkerd-proxy` container listens on.
    pub proxy: ProxyPorts,
    /// Its labels and named ports.
    pub traits: Arc<Traits>,
}

/// `status.phase` of a Pod, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Not running yet, or nobody knows.
    #[default]
    Starting,
    /// `Running`, ready or not.
    Running,
    /// `Succeeded` or `Failed`: its address may already be somebody else's.
    Finished,
}

/// The ports of a Node that lead to a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts {
    /// `status.hostIPs`, else `status.hostIP`.
    pub ips: Addresses,
    /// `hostPort` of its containers, in order, without duplicates; never empty.
    pub ports: Box<[u16]>,
}

/// Ports read from the environment of a Pod's `linkerd-proxy` container; `None` where they cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProxyPorts {
    /// `LINKERD2_PROXY_INBOUND_LISTEN_ADDR`.
    pub inbound: Option<u16>,
    /// `LINKERD2_PROXY_ADMIN_LISTEN_ADDR`.
    pub admin: Option<u16>,
    /// `LINKERD2_PROXY_CONTROL_LISTEN_ADDR`.
    pub control: Option<u16>,
}

/// A Pod as it stands behind an endpoint: its facts and who finally owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The Pod.
    pub pod: PodName,
    /// What it says.
    pub facts: PodFacts,
    /// The owner to name it by: the Deployment behind a ReplicaSet, and so on. `None` if it has none.
    pub owner: Option<Arc<Owner>>,
    /// Ports that some Server says are opaque.
    pub server_opaque: PortSet,
}

// === impl PodName ===

impl PodName {
    /// Names a Pod.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl OwnerKind ===

impl OwnerKind {
    /// The kind that an owner reference names, if it is one whose own owner matters.
    pub fn of(owner: &Owner) -> Option<Self> {
        match owner.kind.as_str() {
            "ReplicaSet" => Some(Self::ReplicaSet),
            "Job" => Some(Self::Job),
            _ => None,
        }
    }

    /// Whether an object of this kind lends its owner's name to its Pods.
    ///
    /// A ReplicaSet does so only for the workload kinds that Linkerd knows, a Job for any.
    pub fn passes_on(self, owner: &Owner) -> bool {
        match self {
            Self::ReplicaSet => matches!(
                owner.kind.as_str(),
                "Job" | "StatefulSet" | "DaemonSet" | "Deployment"
            ),
            Self::Job => true,
        }
    }
}

// === impl PodFacts ===

impl PodFacts {
    /// Whether the Pod has this address.
    pub fn has_ip(&self, ip: IpAddr) -> bool {
        self.ips.contains(&ip)
    }

    /// Whether it has run for the last time.
    pub fn is_finished(&self) -> bool {
        self.phase == PodPhase::Finished
    }

    /// Whether a port of this address of its Node leads to it.
    pub fn has_host_port(&self, ip: IpAddr, port: u16) -> bool {
        self.on_host
            .as_ref()
            .is_some_and(|host| host.ips.contains(&ip) && host.ports.contains(&port))
    }

    /// The addresses at which somebody may reach it, at all ports or at some; with repetitions.
    pub fn reachable_at(&self) -> impl Iterator<Item = IpAddr> {
        let own = (!self.host_network).then_some(&self.ips);
        let host = self.on_host.as_ref().map(|host| &host.ips);
        own.into_iter()
            .chain(host)
            .flat_map(|ips| ips.iter())
            .copied()
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::model::Endpoint;

    /// There is one of each for every endpoint of every cluster.
    #[test]
    fn endpoints_and_workloads_are_small() {
        assert_eq!(size_of::<Endpoint>(), 80);
        assert_eq!(size_of::<PodFacts>(), 56);
        assert_eq!(size_of::<Workload>(), 96);
    }
}
