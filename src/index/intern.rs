//! One copy of every text that many objects repeat.

use std::collections::HashSet;

use crate::model::{Backing, NodeName, PodName, ServiceName, SliceFacts, Text, Zone};

/// Sweep the table when it has grown by this factor since the last sweep.
const GROWTH_BEFORE_SWEEP: usize = 2;
/// Never sweep a table smaller than this. Tests sweep all the time, which must not show.
const SIZE_BEFORE_SWEEP: usize = if cfg!(test) { 4 } else { 1024 };

/// Shares equal texts; texts that nobody holds any more leave it as it grows.
#[derive(Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Text>,
    sweep_at: usize,
}

// === impl Interner ===

impl Interner {
    /// The shared copy of a text.
    pub(super) fn text(&mut self, text: &Text) -> Text {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at.max(SIZE_BEFORE_SWEEP) {
            self.texts.retain(|text| !text.unshared());
            self.sweep_at = self.texts.len() * GROWTH_BEFORE_SWEEP;
        }
        self.texts.insert(text.clone());
        text.clone()
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
