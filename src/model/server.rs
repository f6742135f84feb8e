//! Linkerd's policy Servers, and what they look at.

use std::fmt;

use super::{Labels, Namespace, Selector, Text};

/// A Server within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName {
    /// The Server's namespace; it selects workloads of this one only.
    pub namespace: Namespace,
    /// The Server's name.
    pub name: Text,
}

/// What an *opaque* Server says: on these ports of these workloads, do not look for a protocol.
///
/// Servers of other protocols change no answer and have no facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Pods it selects; `None` selects none.
    pub pods: Option<Selector>,
    /// ExternalWorkloads it selects; `None` selects none.
    pub external_workloads: Option<Selector>,
    /// The port it is about.
    pub port: ServerPort,
}

/// How a Server names its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPort {
    /// By number, whether or not the workload declares it.
    Number(u16),
    /// By a name that the workload declares.
    Name(Text),
}

/// What Servers look at in a workload. Replicas have equal traits, which the index keeps once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traits {
    /// Its labels.
    pub labels: Labels,
    /// Ports that have a name, in order; a Pod's port on its host has the name too, and a name may have several.
    pub ports: Box<[NamedPort]>,
}

/// A port that a workload declares under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedPort {
    /// Its name; never empty.
    pub name: Text,
    /// Its number.
    pub port: u16,
}

// === impl ServerName ===

impl ServerName {
    /// Names a Server.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl ServerPort ===

impl ServerPort {
    /// The numbers it means on a workload, in no particular order.
    pub fn numbers<'a>(&'a self, traits: &'a Traits) -> impl Iterator<Item = u16> + 'a {
        let number = match self {
            Self::Number(number) => Some(*number),
            Self::Name(_) => None,
        };
        let named = traits.ports.iter().filter_map(move |port| match self {
            Self::Name(name) if *name == port.name => Some(port.port),
            _ => None,
        });
        number.into_iter().chain(named)
    }
}
