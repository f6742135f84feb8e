//! What the mesh means at an endpoint: who answers there, and how a client's proxy should speak to it.

use std::num::NonZeroU16;

use super::address::Holder;
use super::join::Joined;
use super::select::ViewEndpoint;
use crate::model::{ClusterFacts, PortSet, SliceFacts, Text, Workload};

/// Settings that decide what the mesh means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshPolicy {
    /// The control plane's namespace: only Pods of this one have identities.
    pub controller_namespace: Text,
    /// Ports that are opaque on Pods that do not say otherwise.
    pub default_opaque_ports: PortSet,
    /// Upgrade HTTP/1 to HTTP/2 between meshed Pods.
    pub h2_upgrade: bool,
    /// Send all meshed traffic to the proxy's inbound port, with a transport header.
    pub transport_header: bool,
}

/// What a client's proxy is told of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mesh {
    /// Whether a proxy accepts traffic on the endpoint's port.
    pub meshed: bool,
    /// The protocol to speak.
    pub protocol: Protocol,
    /// The proxy's port to connect to instead, with a transport header.
    pub inbound_port: Option<u16>,
    /// Who has to answer.
    pub identity: Option<Identity>,
}

/// The protocol a client's proxy should speak to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Whatever the client speaks.
    #[default]
    Unknown,
    /// HTTP/2, even for HTTP/1 requests.
    H2,
    /// Bytes: do not look for a protocol.
    Opaque,
}

/// The TLS identity that an endpoint has to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A DNS-like name.
    pub name: String,
    /// The server name to ask for, where it is given apart from the identity.
    pub server_name: Option<String>,
}

/// All that a Pod and the settings make of one port, apart from names: equal for equal answers, in a few bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    inbound_port: Option<NonZeroU16>,
    protocol: Protocol,
    proxy: Proxy,
}

/// Whether a proxy answers at an endpoint, and whether it can prove who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Proxy {
    #[default]
    None,
    Anonymous,
    Identified,
}

/// One port of a Pod, and whether the Pod vouches for the address it is reached at.
#[derive(Clone, Copy)]
struct PodPort<'a> {
    cluster: &'a ClusterFacts,
    workload: &'a Workload,
    port: u16,
    vouched_for: bool,
}

/// The Pod is meshed, but its `linkerd-proxy` container does not say what it listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the Pod is labelled as meshed, but the listen addresses of its linkerd-proxy container cannot be read"
)]
pub struct ProxyUnreadable;

// === impl MeshPolicy ===

impl MeshPolicy {
    /// How a Pod's proxy is reached; the same for everything that is no Pod.
    pub(super) fn reach(&self, endpoint: &ViewEndpoint) -> Result<Reach, ProxyUnreadable> {
        endpoint
            .workload()
            .map_or(Ok(Reach::default()), |workload| {
                self.reach_pod(PodPort::of(endpoint, workload))
            })
    }

    /// What a client's proxy is told of an endpoint.
    ///
    /// Identity comes only from a Pod that vouches for the address, of the control plane's own namespace, in its
    /// cluster's trust domain; or from the gateway annotation of a mirror's slice.
    pub fn mesh(&self, endpoint: &ViewEndpoint) -> Result<Mesh, ProxyUnreadable> {
        match endpoint.joined() {
            Joined::Pod(workload) => self.pod(PodPort::of(endpoint, workload)),
            Joined::Address => Ok(self.gateway(endpoint.slice())),
            Joined::Unreadable | Joined::Held(_) => Ok(Mesh::default()),
        }
    }

    /// What a client's proxy is told of a port of a workload that has the address by itself.
    pub fn mesh_at(&self, holder: &Holder, port: u16) -> Result<Mesh, ProxyUnreadable> {
        self.pod(PodPort {
            cluster: &holder.cluster,
            workload: &holder.workload,
            port,
            vouched_for: true,
        })
    }

    /// Whether the protocol at a port must not be guessed; a workload may say otherwise than the settings.
    pub fn is_opaque(&self, workload: Option<&Workload>, port: u16) -> bool {
        workload
            .and_then(|workload| workload.facts.opaque_ports.as_ref())
            .unwrap_or(&self.default_opaque_ports)
            .contains(port)
    }

    fn pod(&self, pod: PodPort<'_>) -> Result<Mesh, ProxyUnreadable> {
        let reach = self.reach_pod(pod)?;
        Ok(Mesh {
            meshed: reach.proxy != Proxy::None,
            protocol: reach.protocol,
            inbound_port: reach.inbound_port.map(NonZeroU16::get),
            identity: (reach.proxy == Proxy::Identified).then(|| {
                let name = format!(
                    "{}.{}.serviceaccount.identity.{}.{}",
                    pod.workload.facts.service_account,
                    pod.workload.pod.namespace,
                    self.controller_namespace,
                    pod.cluster.trust_domain,
                );
                Identity {
                    server_name: Some(name.clone()),
                    name,
                }
            }),
        })
    }

    fn reach_pod(&self, at: PodPort<'_>) -> Result<Reach, ProxyUnreadable> {
        let (port, pod) = (at.port, &at.workload.facts);
        if pod.control_plane_namespace.is_none() || pod.skip_inbound_ports.contains(port) {
            return Ok(Reach::default());
        }
        let (Some(admin), Some(control)) = (pod.proxy.admin, pod.proxy.control) else {
            return Err(ProxyUnreadable);
        };
        let opaque = self.is_opaque(Some(at.workload), port);
        let via_proxy_port = (self.transport_header || opaque) && ![admin, control].contains(&port);
        let inbound_port = if via_proxy_port {
            let port = pod.proxy.inbound.and_then(NonZeroU16::new);
            Some(port.ok_or(ProxyUnreadable)?)
        } else {
            None
        };
        let identified = pod.control_plane_namespace.as_ref() == Some(&self.controller_namespace)
            && !at.cluster.trust_domain.is_empty()
            && at.vouched_for;
        Ok(Reach {
            inbound_port,
            protocol: if opaque {
                Protocol::Opaque
            } else {
                self.upgraded()
            },
            proxy: if identified {
                Proxy::Identified
            } else {
                Proxy::Anonymous
            },
        })
    }

    fn gateway(&self, slice: &SliceFacts) -> Mesh {
        let identity = slice
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.gateway_identity.as_ref());
        let Some(name) = identity else {
            return Mesh::default();
        };
        let protocol = self.upgraded();
        Mesh {
            meshed: protocol != Protocol::Unknown,
            protocol,
            inbound_port: None,
            identity: Some(Identity {
                name: name.to_string(),
                server_name: None,
            }),
        }
    }

    fn upgraded(&self) -> Protocol {
        if self.h2_upgrade {
            Protocol::H2
        } else {
            Protocol::Unknown
        }
    }
}

// === impl PodPort ===

impl<'a> PodPort<'a> {
    fn of(endpoint: &'a ViewEndpoint, workload: &'a Workload) -> Self {
        Self {
            cluster: &endpoint.cluster,
            workload,
            port: endpoint.socket.port(),
            vouched_for: endpoint.is_vouched_for(),
        }
    }
}

// === impl Protocol ===

impl Protocol {
    /// The protocol in a word; `-` if none is asked for.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "-",
            Self::H2 => "h2",
            Self::Opaque => "opaque",
        }
    }
}

#[cfg(test)]
mod tests;
