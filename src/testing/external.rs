//! ExternalWorkloads, and the Servers that select them and Pods.

use std::sync::Arc;

use super::objects::{owned_by, port_set};
use super::{ip, split};
use crate::index::Object;
use crate::model::{
    Condition, ExternalWorkloadFacts, ExternalWorkloadName, Labels, NamedPort, Requirement,
    Selector, ServerFacts, ServerName, ServerPort, Text, Traits,
};

/// An ExternalWorkload to be.
#[derive(Clone, Debug)]
pub struct ExternalWorkloadBuilder {
    name: ExternalWorkloadName,
    facts: ExternalWorkloadFacts,
}

/// An opaque Server to be; it selects nothing unless it says so.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    name: ServerName,
    facts: ServerFacts,
}

/// An ExternalWorkload whose identity is `spiffe://root/NAME`, and whose server name is `NAME.external`.
pub fn external_workload(name: &str) -> ExternalWorkloadBuilder {
    let (namespace, name) = split(name);
    ExternalWorkloadBuilder {
        facts: ExternalWorkloadFacts {
            identity: Some(format!("spiffe://root/{name}").into()),
            server_name: Some(format!("{name}.external").into()),
            ..ExternalWorkloadFacts::default()
        },
        name: ExternalWorkloadName::new(namespace, name),
    }
}

/// A Server about a port: by its number, or by the name it has.
pub fn server(name: &str, port: &str) -> ServerBuilder {
    let (namespace, name) = split(name);
    ServerBuilder {
        name: ServerName::new(namespace, name),
        facts: ServerFacts {
            pods: None,
            external_workloads: None,
            port: match port.parse() {
                Ok(number) => ServerPort::Number(number),
                Err(_) => ServerPort::Name(port.into()),
            },
        },
    }
}

/// The selector of objects that have all of these labels, written `key=value` with blanks between; none selects all.
fn selector(labels: &str) -> Selector {
    let requirements = labels.split_whitespace().map(|label| {
        let (key, value) = pair(label);
        Requirement {
            key,
            condition: Condition::In([value].into()),
        }
    });
    requirements.collect()
}

fn pair(label: &str) -> (Text, Text) {
    let (key, value) = label
        .split_once('=')
        .unwrap_or_else(|| panic!("expected key=value, got {label:?}"));
    (key.into(), value.into())
}

/// The same traits with one more label.
pub(super) fn with_label(traits: &Traits, label: &str) -> Arc<Traits> {
    let labels: Labels = traits.labels.iter().cloned().chain([pair(label)]).collect();
    Arc::new(Traits {
        labels,
        ports: traits.ports.clone(),
    })
}

/// The same traits with one more named port.
pub(super) fn with_port(traits: &Traits, name: &str, port: u16) -> Arc<Traits> {
    let mut ports = traits.ports.to_vec();
    ports.push(NamedPort {
        name: name.into(),
        port,
    });
    ports.sort();
    Arc::new(Traits {
        labels: traits.labels.clone(),
        ports: ports.into(),
    })
}

// === impl ExternalWorkloadBuilder ===

impl ExternalWorkloadBuilder {
    /// With one more address.
    #[must_use]
    pub fn ip(mut self, address: &str) -> Self {
        let mut ips = self.facts.ips.into_vec();
        ips.push(ip(address));
        self.facts.ips = ips.into();
        self
    }

    /// With another identity; an empty one is none.
    #[must_use]
    pub fn identity(mut self, uri: &str) -> Self {
        self.facts.identity = (!uri.is_empty()).then(|| uri.into());
        self
    }

    /// With a port; `linkerd-proxy` is the proxy's.
    #[must_use]
    pub fn port(mut self, port: u16, name: &str) -> Self {
        if name == "linkerd-proxy" {
            self.facts.inbound_port = Some(port);
        }
        let mut ports = self.facts.ports.into_vec();
        ports.push(port);
        self.facts.ports = ports.into();
        self.facts.traits = with_port(&self.facts.traits, name, port);
        self
    }

    /// With a label, `key=value`.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.facts.traits = with_label(&self.facts.traits, label);
        self
    }

    /// With opaque ports.
    #[must_use]
    pub fn opaque(mut self, ports: &str) -> Self {
        self.facts.opaque_ports = Some(port_set(ports));
        self
    }

    /// Owned by one object, such as `("ExternalGroup", "vms")`.
    #[must_use]
    pub fn owned_by(mut self, kind: &str, name: &str) -> Self {
        self.facts.owner = Some(owned_by(kind, name));
        self
    }

    /// The object.
    pub fn object(self) -> Object {
        Object::ExternalWorkload(self.name, self.facts)
    }
}

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Selecting Pods that have all of these labels, `key=value` with blanks between.
    #[must_use]
    pub fn pods(mut self, labels: &str) -> Self {
        self.facts.pods = Some(selector(labels));
        self
    }

    /// Selecting ExternalWorkloads that have all of these labels, `key=value` with blanks between.
    #[must_use]
    pub fn external_workloads(mut self, labels: &str) -> Self {
        self.facts.external_workloads = Some(selector(labels));
        self
    }

    /// The object.
    pub fn object(self) -> Object {
        Object::Server(self.name, self.facts)
    }
}

impl From<ExternalWorkloadBuilder> for Object {
    fn from(builder: ExternalWorkloadBuilder) -> Self {
        builder.object()
    }
}

impl From<ServerBuilder> for Object {
    fn from(builder: ServerBuilder) -> Self {
        builder.object()
    }
}
