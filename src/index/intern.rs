//! One copy of every text and of everything larger that many objects repeat.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::model::{
    Backing, NamedPort, NodeName, Owner, OwnerName, PodFacts, PodName, PodTemplate, ServiceName,
    SliceFacts, Text, Traits, Zone,
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
    templates: Table<Arc<PodTemplate>>,
    hints: Table<Arc<Vec<Zone>>>,
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

impl<T: Eq + Hash> Shared for Arc<T> {
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
    /// Pods of one ReplicaSet or DaemonSet share one set of labels, and one template with it. Those of a StatefulSet or
    /// a Job have labels of their own, of shared texts: some 370 bytes more for a Pod with eight labels, its template
    /// included.
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

    /// Shares every text of a Pod, and all that its replicas say too.
    pub(super) fn pod_facts(&mut self, facts: &mut PodFacts) {
        if let Some(node) = &mut facts.node {
            *node = NodeName::from(self.text(node.text()));
        }
        facts.template = self.template(&facts.template);
    }

    fn template(&mut self, template: &Arc<PodTemplate>) -> Arc<PodTemplate> {
        if let Some(known) = self.templates.get(template) {
            return known;
        }
        let mut text = |text: &Text| self.text(text);
        let shared = Arc::new(PodTemplate {
            service_account: text(&template.service_account),
            control_plane_namespace: template.control_plane_namespace.as_ref().map(&mut text),
            template_hash: template.template_hash.as_ref().map(&mut text),
            owner: template
                .owner
                .as_deref()
                .map(|owner| Arc::new(self.owner(owner))),
            traits: self.traits(&template.traits),
            ..PodTemplate::clone(template)
        });
        self.templates.insert(Arc::clone(&shared));
        shared
    }

    /// An owner of shared texts.
    pub(super) fn owner(&mut self, owner: &Owner) -> Owner {
        Owner {
            kind: self.text(&owner.kind),
            name: self.text(&owner.name),
        }
    }

    /// The shared copy of the name of a ReplicaSet or Job.
    pub(super) fn owner_name(&mut self, name: &OwnerName) -> OwnerName {
        OwnerName {
            kind: name.kind,
            namespace: self.text(name.namespace.text()).into(),
            name: self.text(&name.name),
        }
    }

    /// The shared copy of a Service's name.
    pub(super) fn service(&mut self, name: &ServiceName) -> ServiceName {
        ServiceName::new(self.text(name.namespace.text()), self.text(&name.name))
    }

    /// The shared copy of a Pod's name.
    pub(super) fn pod(&mut self, name: &PodName) -> PodName {
        PodName::new(self.text(name.namespace.text()), self.text(&name.name))
    }

    fn hints(&mut self, zones: &Arc<Vec<Zone>>) -> Arc<Vec<Zone>> {
        if let Some(known) = self.hints.get(zones) {
            return known;
        }
        let zones = zones.iter().map(|zone| self.text(zone.text()).into());
        let shared = Arc::new(zones.collect());
        self.hints.insert(Arc::clone(&shared));
        shared
    }

    /// Shares every text of a slice.
    pub(super) fn slice(&mut self, facts: &mut SliceFacts) {
        facts.service = self.service(&facts.service);
        facts.origin.managed_by = self.text(&facts.origin.managed_by);
        for port in &mut facts.ports {
            port.name = self.text(&port.name);
            if let Some(protocol) = &mut port.app_protocol {
                *protocol = self.text(protocol);
            }
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
            if let Some(hints) = &mut endpoint.zone_hints {
                *hints = self.hints(hints);
            }
            match &mut endpoint.backing {
                Backing::Address => {}
                Backing::Pod(pod) => *pod = self.pod(pod),
                Backing::ExternalWorkload(name) => *name = self.text(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(account: &str) -> PodFacts {
        let template = PodTemplate {
            service_account: account.into(),
            ..PodTemplate::default()
        };
        PodFacts {
            node: Some(NodeName::from("n1")),
            template: Arc::new(template),
            ..PodFacts::default()
        }
    }

    #[test]
    fn replicas_share_what_they_have_in_common() {
        let mut interner = Interner::default();
        let mut pods = [facts("web"), facts("web"), facts("api")];
        for pod in &mut pods {
            interner.pod_facts(pod);
        }
        let [one, two, other] = &pods;
        assert!(Arc::ptr_eq(&one.template, &two.template));
        assert!(!Arc::ptr_eq(&one.template, &other.template));
        let nodes = pods.each_ref().map(|pod| pod.node.as_ref().unwrap().text());
        assert!(nodes.iter().all(|node| node.same(nodes[0])));
    }

    #[test]
    fn what_nobody_holds_any_more_leaves() {
        let mut interner = Interner::default();
        for number in 0..100 {
            interner.pod_facts(&mut facts(&format!("account-{number}")));
        }
        assert!(interner.templates.known.len() <= SIZE_BEFORE_SWEEP);
        assert!(interner.texts.known.len() <= 4 * SIZE_BEFORE_SWEEP);
    }
}
