//! An index that can be talked to, and views in short.

use super::{HOME, split};
use crate::index::{
    Change, ClientLocality, Index, Joined, SelectPolicy, ServiceSnapshot, Touched, View,
    ViewEndpoint, ViewKey, select,
};
use crate::model::{ClusterRole, NodeName, ServiceName, Text};

/// An index, what its last change touched, and the settings it is asked with.
#[derive(Debug)]
pub struct World {
    /// The index.
    pub index: Index,
    /// What the last call of [`World::say`] touched.
    pub touched: Touched,
    /// Settings of answers.
    pub policy: SelectPolicy,
}

// === impl World ===

impl Default for World {
    fn default() -> Self {
        Self {
            index: Index::new(HOME.into()),
            touched: Touched::default(),
            policy: SelectPolicy::default(),
        }
    }
}

impl World {
    /// Takes in changes.
    pub fn say(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.touched = Touched::default();
        for change in changes {
            self.index.apply(change, &mut self.touched);
        }
    }

    /// What is known of a Service.
    pub fn snapshot(&self, service: &str) -> ServiceSnapshot {
        let (namespace, name) = split(service);
        self.index.snapshot(&ServiceName::new(namespace, name))
    }

    /// What a client that says nothing of itself is told.
    pub fn view(&self, service: &str, port: u16) -> View {
        self.view_from("", service, port)
    }

    /// What a client on a node is told.
    pub fn view_from(&self, node: &str, service: &str, port: u16) -> View {
        self.view_of(None, node, service, port)
    }

    /// What a client on a node that asks for an instance is told.
    pub fn view_of(&self, instance: Option<&str>, node: &str, service: &str, port: u16) -> View {
        let snapshot = self.snapshot(service);
        let node = (!node.is_empty()).then(|| NodeName::from(node));
        let client = ClientLocality {
            zone: node
                .as_ref()
                .and_then(|node| self.index.zone_of(node).cloned()),
            node,
        };
        let key = ViewKey::new(&snapshot, port, instance.map(Text::from), &client);
        select(&snapshot, &key, &self.policy)
    }

    /// Services that the last changes touched.
    pub fn touched_services(&self) -> String {
        let names: Vec<String> = self
            .touched
            .services
            .iter()
            .map(ToString::to_string)
            .collect();
        names.join(" ")
    }
}

/// A view's endpoints in short, separated by commas; `-` if there is none.
pub fn describe(view: &View) -> String {
    let endpoints: Vec<String> = view.endpoints.iter().map(describe_endpoint).collect();
    if endpoints.is_empty() {
        return "-".to_owned();
    }
    endpoints.join(", ")
}

/// An endpoint in short: address, cluster unless it is the home cluster, workload and its owner, zone.
pub fn describe_endpoint(endpoint: &ViewEndpoint) -> String {
    let mut text = endpoint.socket.to_string();
    if endpoint.cluster.role == ClusterRole::Linked {
        text.push('@');
        text.push_str(endpoint.cluster.name.as_str());
    }
    match endpoint.joined() {
        Joined::Pod(workload) => {
            text.push(' ');
            text.push_str(&workload.pod.name);
            if let Some(owner) = &workload.owner {
                text.extend(["/", owner.kind.as_str(), ":", owner.name.as_str()]);
            }
        }
        Joined::ExternalWorkload(workload) => {
            text.extend([" external ", workload.name.name.as_str()]);
            if let Some(owner) = &workload.facts.owner {
                text.extend(["/", owner.kind.as_str(), ":", owner.name.as_str()]);
            }
        }
        Joined::Unreadable => text.push_str(" unreadable"),
        Joined::Address | Joined::Held(_) => {}
    }
    if let Some(zone) = &endpoint.endpoint().zone {
        text.extend([" in ", zone.as_str()]);
    }
    text
}
