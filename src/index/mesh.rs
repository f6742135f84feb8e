//! What the mesh means at an endpoint: who answers there, and how a client's proxy should speak to it.

use std::num::NonZeroU16;

use super::address::{Holder, Tenant};
use super::join::Joined;
use super::select::ViewEndpoint;
use crate::model::{ClusterFacts, ExternalWorkload, PortSet, SliceFacts, Text, Workload};

/// Where the proxy beside an ExternalWorkload listens that does not say.
const EXTERNAL_INBOUND_PORT: NonZeroU16 = NonZeroU16::new(4143).unwrap();

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
    /// The name to prove.
    pub name: String,
    /// What sort of name it is.
    pub form: IdentityForm,
    /// The server name to ask for, where it is given apart from the identity.
    pub server_name: Option<String>,
}

/// The sorts of names that identities are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityForm {
    /// A DNS-like name, as Pods and gateways have.
    Dns,
    /// A URI, such as a SPIFFE ID, as ExternalWorkloads have.
    Uri,
}

/// All that a workload and the settings make of one port, apart from names: equal for equal answers, in a few bytes.
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
    /// How a workload's proxy is reached; the same for everything that has no workload.
    pub(super) fn reach(&self, endpoint: &ViewEndpoint) -> Result<Reach, ProxyUnreadable> {
        match endpoint.joined() {
            Joined::Pod(workload) => self.reach_pod(PodPort::of(endpoint, workload)),
            Joined::ExternalWorkload(workload) => {
                Ok(self.reach_external_endpoint(endpoint, workload))
            }
            Joined::Address | Joined::Unreadable | Joined::Held(_) => Ok(Reach::default()),
        }
    }

    /// What a client's proxy is told of an endpoint.
    ///
    /// Identity comes only from a Pod that vouches for the address, of the control plane's own namespace, in its
    /// cluster's trust domain; from an ExternalWorkload that vouches for it; or from the gateway annotation of a
    /// mirror's slice.
    pub fn mesh(&self, endpoint: &ViewEndpoint) -> Result<Mesh, ProxyUnreadable> {
        match endpoint.joined() {
            Joined::Pod(workload) => self.pod(PodPort::of(endpoint, workload)),
            Joined::ExternalWorkload(workload) => {
                let reach = self.reach_external_endpoint(endpoint, workload);
                Ok(external(workload, reach))
            }
            Joined::Address => Ok(self.gateway(endpoint.slice())),
            Joined::Unreadable | Joined::Held(_) => Ok(Mesh::default()),
        }
    }

    /// What a client's proxy is told of a port of a workload that has the address by itself.
    pub fn mesh_at(&self, tenant: &Tenant, port: u16) -> Result<Mesh, ProxyUnreadable> {
        match tenant {
            Tenant::Pod(holder) => self.pod(PodPort {
                cluster: &holder.cluster,
                workload: &holder.workload,
                port,
                vouched_for: true,
            }),
            Tenant::External(workload) => {
                let reach = self.reach_external(workload, port, Proxy::Identified);
                Ok(external(workload, reach))
            }
        }
    }

    /// Whether the protocol at a port of an address must not be guessed, whoever answers there.
    pub fn is_opaque_at(&self, tenant: Option<&Tenant>, port: u16) -> bool {
        match tenant {
            None => self.default_opaque_ports.contains(port),
            Some(Tenant::Pod(Holder { workload, .. })) => self.is_opaque(
                port,
                workload.facts.template.opaque_ports.as_ref(),
                &workload.server_opaque,
            ),
            Some(Tenant::External(workload)) => self.is_opaque(
                port,
                workload.facts.opaque_ports.as_ref(),
                &workload.server_opaque,
            ),
        }
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
                    pod.workload.facts.template.service_account,
                    pod.workload.pod.namespace,
                    self.controller_namespace,
                    pod.cluster.trust_domain,
                );
                Identity {
                    server_name: Some(name.clone()),
                    form: IdentityForm::Dns,
                    name,
                }
            }),
        })
    }

    fn reach_pod(&self, at: PodPort<'_>) -> Result<Reach, ProxyUnreadable> {
        let (port, pod) = (at.port, &at.workload.facts.template);
        if pod.control_plane_namespace.is_none() || pod.skip_inbound_ports.contains(port) {
            return Ok(Reach::default());
        }
        let (Some(admin), Some(control)) = (pod.proxy.admin, pod.proxy.control) else {
            return Err(ProxyUnreadable);
        };
        let by_servers = &at.workload.server_opaque;
        let opaque = self.is_opaque(port, pod.opaque_ports.as_ref(), by_servers);
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

    fn reach_external_endpoint(
        &self,
        endpoint: &ViewEndpoint,
        workload: &ExternalWorkload,
    ) -> Reach {
        let proxy = if endpoint.is_vouched_for() {
            Proxy::Identified
        } else {
            Proxy::Anonymous
        };
        self.reach_external(workload, endpoint.socket.port(), proxy)
    }

    /// An ExternalWorkload always has a proxy, which always speaks HTTP/2, and which no port bypasses.
    fn reach_external(&self, workload: &ExternalWorkload, port: u16, proxy: Proxy) -> Reach {
        let facts = &workload.facts;
        let opaque = self.is_opaque(port, facts.opaque_ports.as_ref(), &workload.server_opaque);
        let inbound_port = facts
            .inbound_port
            .and_then(NonZeroU16::new)
            .unwrap_or(EXTERNAL_INBOUND_PORT);
        Reach {
            inbound_port: (self.transport_header || opaque).then_some(inbound_port),
            protocol: if opaque {
                Protocol::Opaque
            } else {
                Protocol::H2
            },
            proxy,
        }
    }

    /// Whether a workload's own annotation, else the default, or any Server says so of a port.
    fn is_opaque(&self, port: u16, annotated: Option<&PortSet>, by_servers: &PortSet) -> bool {
        annotated
            .unwrap_or(&self.default_opaque_ports)
            .contains(port)
            || by_servers.contains(port)
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
                form: IdentityForm::Dns,
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

/// What a client's proxy is told of an ExternalWorkload that is reached in this way.
fn external(workload: &ExternalWorkload, reach: Reach) -> Mesh {
    let facts = &workload.facts;
    let identity = facts
        .identity
        .as_ref()
        .filter(|_| reach.proxy == Proxy::Identified);
    Mesh {
        meshed: true,
        protocol: reach.protocol,
        inbound_port: reach.inbound_port.map(NonZeroU16::get),
        identity: identity.map(|uri| Identity {
            name: uri.to_string(),
            form: IdentityForm::Uri,
            server_name: facts.server_name.as_ref().map(Text::to_string),
        }),
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
