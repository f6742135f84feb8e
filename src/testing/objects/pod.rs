//! Pods to be.

use std::sync::Arc;

use super::{owned_by, port_set};
use crate::index::Object;
use crate::model::{HostPorts, PodFacts, PodName, PodPhase, PodTemplate, ProxyPorts};
use crate::testing::external::{with_label, with_port};
use crate::testing::{ip, split};

/// A Pod to be.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    name: PodName,
    facts: PodFacts,
    template: PodTemplate,
}

/// A Pod outside the mesh.
pub fn pod(name: &str) -> PodBuilder {
    let (namespace, name) = split(name);
    PodBuilder {
        name: PodName::new(namespace, name),
        facts: PodFacts {
            phase: PodPhase::Running,
            ..PodFacts::default()
        },
        template: PodTemplate {
            service_account: "default".into(),
            ..PodTemplate::default()
        },
    }
}

// === impl PodBuilder ===

impl PodBuilder {
    /// With one more address.
    #[must_use]
    pub fn ip(mut self, address: &str) -> Self {
        let mut ips = self.facts.ips.to_vec();
        ips.push(ip(address));
        self.facts.ips = ips.into();
        self
    }

    /// Injected by the control plane in namespace `linkerd`: inbound 4143, admin 4191, control 4190.
    #[must_use]
    pub fn meshed(self) -> Self {
        self.meshed_by("linkerd")
            .proxy(Some(4143), Some(4191), Some(4190))
    }

    /// Labelled as injected by a control plane in this namespace.
    #[must_use]
    pub fn meshed_by(mut self, namespace: &str) -> Self {
        self.template.control_plane_namespace = Some(namespace.into());
        self
    }

    /// With a proxy that listens on these ports.
    #[must_use]
    pub fn proxy(mut self, inbound: Option<u16>, admin: Option<u16>, control: Option<u16>) -> Self {
        self.template.proxy = ProxyPorts {
            inbound,
            admin,
            control,
        };
        self
    }

    /// With opaque ports.
    #[must_use]
    pub fn opaque(mut self, ports: &str) -> Self {
        self.template.opaque_ports = Some(port_set(ports));
        self
    }

    /// With ports that its proxy does not see.
    #[must_use]
    pub fn skipping(mut self, ports: &str) -> Self {
        self.template.skip_inbound_ports = port_set(ports);
        self
    }

    /// Running on a node.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        self.facts.node = Some(node.into());
        self
    }

    /// Run by a service account.
    #[must_use]
    pub fn account(mut self, name: &str) -> Self {
        self.template.service_account = name.into();
        self
    }

    /// Owned by one object, such as `("ReplicaSet", "web-5d")`.
    #[must_use]
    pub fn owned_by(mut self, kind: &str, name: &str) -> Self {
        self.template.owner = Some(Arc::new(owned_by(kind, name)));
        self
    }

    /// Made from a template of this hash.
    #[must_use]
    pub fn template_hash(mut self, hash: &str) -> Self {
        self.template.template_hash = Some(hash.into());
        self
    }

    /// Not running yet.
    #[must_use]
    pub fn starting(mut self) -> Self {
        self.facts.phase = PodPhase::Starting;
        self
    }

    /// Asked to go.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.facts.terminating = true;
        self
    }

    /// In the network of its Node.
    #[must_use]
    pub fn in_host_network(mut self) -> Self {
        self.facts.host_network = true;
        self
    }

    /// Reached at a port of its Node's address.
    #[must_use]
    pub fn host_port(mut self, address: &str, port: u16) -> Self {
        self.facts.on_host = Some(Box::new(HostPorts {
            ips: ip(address).into(),
            ports: [port].into(),
        }));
        self
    }

    /// With a label that Servers select by, `key=value`.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.template.traits = with_label(&self.template.traits, label);
        self
    }

    /// With a port of a name.
    #[must_use]
    pub fn port(mut self, port: u16, name: &str) -> Self {
        self.template.traits = with_port(&self.template.traits, name, port);
        self
    }

    /// Succeeded or failed.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.facts.phase = PodPhase::Finished;
        self
    }

    /// The object.
    pub fn object(self) -> Object {
        let facts = PodFacts {
            template: Arc::new(self.template),
            ..self.facts
        };
        Object::Pod(self.name, facts)
    }
}
