//! EndpointSlices as we want them, and as they are: copies of other slices, and those that list ExternalWorkloads.

use std::net::IpAddr;

use crate::model::copying::Audience;
use crate::model::{
    AddressFamily, ClusterName, Conditions, Labels, Namespace, NodeName, ServiceName, SliceName,
    Text, Transport, Uid, Zone,
};

/// An EndpointSlice as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Its name, in the home Service's namespace.
    pub name: SliceName,
    /// What it says.
    pub content: Content,
    /// Uid of the home Service, which owns it.
    pub owner: Uid,
    /// Where it comes from. Not a reason to write it anew.
    pub source: Provenance,
}

/// What a copy says, in one order: two are equal if readers cannot tell them apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The home Service.
    pub service: ServiceName,
    /// What its endpoints are.
    pub origin: Origin,
    /// Whether the home Service has no cluster IP.
    pub is_headless: bool,
    /// Family of the addresses.
    pub family: AddressFamily,
    /// The ports, by name.
    pub ports: Vec<CopyPort>,
    /// The endpoints, by address, then hostname.
    pub endpoints: Vec<CopyEndpoint>,
}

/// What the endpoints of a slice are, and with what it is labelled for that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Those of a slice of a member cluster.
    Cluster {
        /// The cluster that they are in.
        name: ClusterName,
        /// Who sees the copy.
        audience: Audience,
    },
    /// ExternalWorkloads of the home cluster.
    Workloads {
        /// Labels of the Service, which its slices have too.
        labels: Labels,
    },
}

/// A port of a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyPort {
    /// Its name, that of the home Service's port; may be empty.
    pub name: Text,
    /// What runs over IP.
    pub transport: Transport,
    /// The number endpoints listen on.
    pub port: u16,
    /// What is spoken.
    pub app_protocol: Option<Text>,
}

/// An endpoint of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyEndpoint {
    /// Its only address.
    pub address: IpAddr,
    /// All three.
    pub conditions: Conditions,
    /// Its instance name.
    pub hostname: Option<Text>,
    /// Its node.
    pub node: Option<NodeName>,
    /// Its zone.
    pub zone: Option<Zone>,
    /// Zones that it is to be used from, in order.
    pub hints: Vec<Zone>,
    /// What is behind it, in the home cluster.
    pub target: Option<Target>,
}

/// An object of the home cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Text,
    /// Its uid; empty if it is left out.
    pub uid: Uid,
}

/// Kinds of object that can be behind an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    /// A Pod.
    Pod,
    /// An ExternalWorkload.
    ExternalWorkload,
}

/// Where a copy comes from, as its annotations say it; empty for slices that list ExternalWorkloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// `namespace/name` of the source slice.
    pub slice: Text,
    /// Uid of the source slice.
    pub uid: Uid,
    /// Its generation when it was copied.
    pub generation: i64,
    /// Uid of the source cluster; empty if it was not known.
    pub cluster_uid: Uid,
}

/// A copy that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Its name.
    pub name: SliceName,
    /// Its uid.
    pub uid: Uid,
    /// Its version.
    pub resource_version: Text,
    /// Whether it is being deleted; it goes when somebody's finalizer does.
    pub is_going: bool,
    /// The home Service it belongs to: the one that owns it, else the one that it is labelled for.
    pub service: ServiceName,
    /// The cluster it is labelled with; empty for slices that list ExternalWorkloads, and where somebody took the label away.
    pub cluster: ClusterName,
    /// What it says; `None` if that is nothing we would write, or not in the way that we would write it.
    pub content: Option<Content>,
    /// Uids of the Services that own it.
    pub owners: Vec<Uid>,
    /// Where it comes from.
    pub source: Provenance,
    /// Addresses that it lists, however it lists them.
    pub addresses: usize,
}

// === impl Content ===

impl Content {
    /// Brings everything into the one order.
    pub(super) fn sort(&mut self) {
        self.ports.sort_unstable();
        for endpoint in &mut self.endpoints {
            endpoint.hints.sort_unstable();
            endpoint.hints.dedup();
        }
        self.endpoints.sort_by(|one, two| {
            (one.address, &one.hostname, &one.target)
                .cmp(&(two.address, &two.hostname, &two.target))
                .then_with(|| rank(one.conditions).cmp(&rank(two.conditions)))
        });
        self.endpoints.dedup();
    }

    /// Addresses that take new traffic, in order.
    pub(super) fn ready(&self) -> impl Iterator<Item = IpAddr> {
        let ready = self.endpoints.iter();
        ready
            .filter(|endpoint| endpoint.conditions.ready)
            .map(|endpoint| endpoint.address)
    }

    /// Whether somebody who follows it loses nothing by following `later` instead: every address is there, and those that took
    /// new traffic still do.
    pub(super) fn only_grows_into(&self, later: &Self) -> bool {
        let finds = |address: IpAddr, ready: bool| {
            let start = later
                .endpoints
                .partition_point(|known| known.address < address);
            later.endpoints[start..]
                .iter()
                .take_while(|known| known.address == address)
                .any(|known| known.conditions.ready || !ready)
        };
        self.ports.iter().all(|port| later.ports.contains(port))
            && self
                .endpoints
                .iter()
                .all(|endpoint| finds(endpoint.address, endpoint.conditions.ready))
    }
}

fn rank(conditions: Conditions) -> (bool, bool, bool) {
    (conditions.ready, conditions.serving, conditions.terminating)
}

// === impl Existing ===

impl Existing {
    /// Whether nothing would be different if `copy` were written over it.
    pub(super) fn says(&self, copy: &Copy) -> bool {
        !self.is_going
            && self.content.as_ref() == Some(&copy.content)
            && self.owners.contains(&copy.owner)
    }
}
