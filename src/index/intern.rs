//! One copy of every text, and of every set of traits, that many objects repeat.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::model::{
    Backing, NamedPort, NodeName, PodName, ServiceName, SliceFacts, Text, Traits, Zone,
};

/// Sweep a table when it has grown by this factor since the last sweep.
const GROWTH_BEFORE_SWEEP: usize = 2;
/// Never sweep a table smaller than this. Tests sweep all the time, which must not show.
const SIZE_BEFORE_SWEEP: usize = if cfg!(test) { 4 } else { 1024 };

/// Shares what is equal; what nobody holds any more leaves it as it grows.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: Table<Text>,
    traits: Table<Arc<Traits>>,
}

#[derive(Debug)]
struct Table<T> {
    known: HashSet<T>,
    sweep_at: usize,
}

/// A value that many may hold.
trait Shared: Clone + Eq + Hash {
    /// Whether nobody but this value holds it.
    fn unshared(&self) -> bool;
}

// === impl Table ===

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            sweep_at: 0,
        }
    }
}

impl<T: Shared> Table<T> {
    fn get(&self, value: &T) -> Option<T> {
        self.known.get(value).cloned()
    }

    fn insert(&mut self, value: T) {
        if self.known.len() >= self.sweep_at.max(SIZE_BEFORE_SWEEP) {
            self.known.retain(|value| !value.unshared());
            self.sweep_at = self.known.len() * GROWTH_BEFORE_SWEEP;
        }
        self.known.insert(value);
    }
}

// === impl Shared ===

impl Shared for Text {
    fn unshared(&self) -> bool {
        Self::unshared(self)
    }
}

impl Shared for Arc<Traits> {
    fn unshared(&self) -> bool {
        Self::strong_count(self) == 1
    }
}

// === impl Interner ===

impl Interner {
    /// The shared copy of a text.
    pub(super) fn text(&mut self, text: &Text) -> Text {
        self.texts.get(text).unwrap_or_else(|| {
            self.texts.insert(text.clone());
            text.clone()
        })
    }

    /// The shared copy of a workload's traits.
    ///
    /// Servers may come at any time and select by any label, so that all labels have to be kept; but replicas are alike.
    /// Pods of one ReplicaSet or DaemonSet share one set of labels, at 8 bytes for each Pod. Those of a StatefulSet or
    /// a Job have labels of their own, of shared texts: some 350 bytes for a Pod with eight labels. For 100,000 Pods, a
    /// tenth of them such and the others ten to a workload, that comes to 8 MB; labels as they come would take 100 MB.
    pub(super) fn traits(&mut self, traits: &Arc<Traits>) -> Arc<Traits> {
        if let Some(known) = self.traits.get(traits) {
            return known;
        }
        let labels = traits.labels.iter();
        let ports = traits.ports.iter();
        let shared = Arc::new(Traits {
            labels: labels
                .map(|(key, value)| (self.text(key), self.text(value)))
                .collect(),
            ports: ports
                .map(|port| NamedPort {
                    name: self.text(&port.name),
                    port: port.port,
                })
                .collect(),
        });
        self.traits.insert(Arc::clone(&shared));
        shared
    }

    /// The shared copy of a Service's name.
    pub(super) fn service(&mut self, name: &ServiceName) -> ServiceName {
        ServiceName::new(self.text(name.namespace.text()), self.text(&name.name))
    }

    /// The shared copy of a Pod's name.
    pub(super) fn pod(&mut self, name: &PodName) -> PodName {
        PodName::new(self.text(name.namespace.text()), self.text(&name.name))
    }

    /// Shares every text of a slice.
    pub(super) fn slice(&mut self, facts: &mut SliceFacts) {
        facts.service = self.service(&facts.service);
        for port in &mut facts.ports {
            port.name = self.text(&port.name);
        }
        for endpoint in &mut facts.endpoints {
            if let Some(zone) = &mut endpoint.zone {
                *zone = Zone::from(self.text(zone.text()));
            }
            if let Some(node) = &mut endpoint.node {
                *node = NodeName::from(self.text(node.text()));
            }
            if let Some(hostname) = &mut endpoint.hostname {
                *hostname = self.text(hostname);
            }
            match &mut endpoint.backing {
                Backing::Address => {}
                Backing::Pod(pod) => *pod = self.pod(pod),
                Backing::ExternalWorkload(name) => *name = self.text(name),
            }
        }
    }
}
