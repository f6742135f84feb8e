//! Who has an address: Services by cluster IP, Pods by their own IP and by the ports of their Nodes, ExternalWorkloads.
//!
//! Conflicts are facts like others: an [`Address`] lists everybody who claims it, and [`Address::owner`] decides.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{ClusterFacts, ExternalWorkload, PodPhase, ServiceName, Workload};

/// Everybody who has an address, each list in order of name. Finished Pods have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Services of the home cluster with this cluster IP.
    pub services: Box<[ServiceName]>,
    /// Pods of the home cluster whose own address it is.
    pub pods: Box<[Holder]>,
    /// Pods of the home cluster that are reached at some of its ports, which are those of their Node.
    pub host_ports: Box<[Holder]>,
    /// ExternalWorkloads of the home cluster that have it.
    pub external: Box<[Arc<ExternalWorkload>]>,
    /// Pods of linked clusters whose own address it is.
    pub remote: Box<[Holder]>,
}

/// A Pod that has an address, and where it is.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Its cluster.
    pub cluster: Arc<ClusterFacts>,
    /// The Pod.
    pub workload: Arc<Workload>,
}

/// The workload that answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenant {
    /// A Pod.
    Pod(Holder),
    /// An ExternalWorkload of the home cluster.
    External(Arc<ExternalWorkload>),
}

/// Who answers at one port of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AddressOwner {
    /// Nobody that is known, or nobody yet.
    #[default]
    Nobody,
    /// A Service of the home cluster.
    Service(ServiceName),
    /// A workload.
    Workload(Tenant),
}

/// Several claim one address, and nothing says which of them has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} {between}")]
pub struct Conflict {
    /// What they are.
    pub between: Claimants,
    /// How many they are.
    pub count: usize,
}

/// What may claim an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimants {
    /// Services, by cluster IP.
    Services,
    /// Pods, by their own IP.
    Pods,
    /// Pods, by host port.
    HostPorts,
    /// ExternalWorkloads.
    ExternalWorkloads,
}

/// Several claim one address at once, which somebody has to mend: at best the wrong one is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clash {
    /// Services with one cluster IP. Nobody has the address.
    Services,
    /// Pods with one IP of their own. Nobody has the address.
    Pods,
    /// An ExternalWorkload that is registered on the IP of a Pod. The Pod has it.
    PodAndExternalWorkload,
    /// ExternalWorkloads that list one port of one IP. Nobody has that port.
    ExternalWorkloads,
}

/// What was found among workloads of one sort.
enum Found<'a> {
    None,
    One(&'a Holder),
    Several(usize),
}

// === impl Address ===

impl Address {
    /// Whether nobody has it.
    pub fn is_free(&self) -> bool {
        self.is_free_at_home() && self.remote.is_empty()
    }

    /// Whether nobody in the home cluster has it: only then may it be an address of a linked cluster.
    pub fn is_free_at_home(&self) -> bool {
        self.services.is_empty()
            && self.pods.is_empty()
            && self.host_ports.is_empty()
            && self.external.is_empty()
    }

    /// Decides who answers at a port.
    ///
    /// Services come first, then Pods by their own IP, then Pods by host port, then ExternalWorkloads
    /// that list the port, then Pods of linked clusters. Pods that are about to go count for nobody who does not use them already. A Pod owns an address once it runs; one that
    /// does not run yet keeps it from others.
    pub fn owner(&self, ip: IpAddr, port: u16) -> Result<AddressOwner, Conflict> {
        match &*self.services {
            [] => {}
            [service] => return Ok(AddressOwner::Service(service.clone())),
            services => return Err(conflict(Claimants::Services, services.len())),
        }
        match sole(self.pods.iter()) {
            Found::None => {}
            Found::One(holder) => return Ok(holder.as_owner()),
            Found::Several(count) => return Err(conflict(Claimants::Pods, count)),
        }
        match sole(self.at_host_port(ip, port)) {
            Found::None => {}
            Found::One(holder) => return Ok(holder.as_owner()),
            Found::Several(count) => return Err(conflict(Claimants::HostPorts, count)),
        }
        let mut external = self.external_at(port);
        match (external.next(), external.count()) {
            (None, _) => {}
            (Some(one), 0) => {
                return Ok(AddressOwner::Workload(Tenant::External(Arc::clone(one))));
            }
            (Some(_), more) => return Err(conflict(Claimants::ExternalWorkloads, more + 1)),
        }
        if self.is_free_at_home()
            && let Found::One(holder) = sole(self.remote.iter())
        {
            return Ok(holder.as_owner());
        }
        Ok(AddressOwner::Nobody)
    }

    /// Decides who answers at a port, for somebody who has been told of an owner before.
    ///
    /// That one stays while it still has the address and no other takes it over: it may be about to go, or in conflict
    /// with a newcomer. A conflict between others leaves nobody.
    pub fn owner_after(&self, before: &AddressOwner, ip: IpAddr, port: u16) -> AddressOwner {
        match self.owner(ip, port) {
            Ok(AddressOwner::Nobody) | Err(_) => match before {
                AddressOwner::Service(service) if self.services.contains(service) => before.clone(),
                AddressOwner::Nobody | AddressOwner::Service(_) => AddressOwner::Nobody,
                AddressOwner::Workload(Tenant::Pod(holder)) => self
                    .still_held_by(holder, ip, port)
                    .map_or(AddressOwner::Nobody, Holder::as_owner),
                AddressOwner::Workload(Tenant::External(workload)) => self
                    .external_at(port)
                    .find(|known| known.name == workload.name)
                    .map_or(AddressOwner::Nobody, |known| {
                        AddressOwner::Workload(Tenant::External(Arc::clone(known)))
                    }),
            },
            Ok(owner) => owner,
        }
    }

    /// What clashes, in order, whoever is believed. Pods that are about to go do not clash with anybody.
    ///
    /// Pods that share a host port are not among them: one may use it for TCP and the other for UDP.
    pub fn clashes(&self) -> Vec<Clash> {
        let pods = self
            .pods
            .iter()
            .filter(|holder| !holder.workload.facts.terminating)
            .count();
        let shares_a_port = |place: usize, workload: &Arc<ExternalWorkload>| {
            let ports = &workload.facts.ports;
            self.external[..place]
                .iter()
                .any(|other| ports.iter().any(|port| other.facts.ports.contains(port)))
        };
        let external_clash = || {
            let mut all = self.external.iter().enumerate();
            all.any(|(place, workload)| shares_a_port(place, workload))
        };
        [
            (Clash::Services, self.services.len() > 1),
            (Clash::Pods, pods > 1),
            (
                Clash::PodAndExternalWorkload,
                pods > 0 && !self.external.is_empty(),
            ),
            (Clash::ExternalWorkloads, external_clash()),
        ]
        .into_iter()
        .filter_map(|(clash, is_there)| is_there.then_some(clash))
        .collect()
    }

    /// Everybody who takes part in a clash, by kind and name, in order.
    pub fn claimants(&self, clash: Clash) -> Vec<String> {
        let services = || self.services.iter().map(|name| format!("Service {name}"));
        let pods = || {
            let pods = self.pods.iter();
            pods.map(|holder| format!("Pod {}", holder.workload.pod))
        };
        let external = || {
            let external = self.external.iter();
            external.map(|workload| format!("ExternalWorkload {}", workload.name))
        };
        match clash {
            Clash::Services => services().collect(),
            Clash::Pods => pods().collect(),
            Clash::PodAndExternalWorkload => pods().chain(external()).collect(),
            Clash::ExternalWorkloads => external().collect(),
        }
    }

    fn at_host_port(&self, ip: IpAddr, port: u16) -> impl Iterator<Item = &Holder> {
        let has_port = move |holder: &&Holder| holder.workload.facts.has_host_port(ip, port);
        self.host_ports.iter().filter(has_port)
    }

    fn external_at(&self, port: u16) -> impl Iterator<Item = &Arc<ExternalWorkload>> {
        let has_port =
            move |workload: &&Arc<ExternalWorkload>| workload.facts.ports.contains(&port);
        self.external.iter().filter(has_port)
    }

    /// The same Pod as it is now, if it has the address still.
    fn still_held_by(&self, before: &Holder, ip: IpAddr, port: u16) -> Option<&Holder> {
        let is_same = |holder: &&Holder| {
            holder.workload.pod == before.workload.pod && holder.cluster.name == before.cluster.name
        };
        let remote = self.is_free_at_home().then_some(&self.remote);
        self.pods
            .iter()
            .chain(self.at_host_port(ip, port))
            .chain(remote.into_iter().flatten())
            .find(is_same)
    }
}

/// The only one of several that is not about to go, if there is exactly one.
fn sole<'a>(holders: impl Iterator<Item = &'a Holder>) -> Found<'a> {
    let mut staying = holders.filter(|holder| !holder.workload.facts.terminating);
    match (staying.next(), staying.count()) {
        (None, _) => Found::None,
        (Some(holder), 0) => Found::One(holder),
        (Some(_), more) => Found::Several(more + 1),
    }
}

fn conflict(between: Claimants, count: usize) -> Conflict {
    Conflict { between, count }
}

// === impl Clash ===

impl Clash {
    /// Every clash, in order.
    pub const ALL: [Self; 4] = [
        Self::Services,
        Self::Pods,
        Self::PodAndExternalWorkload,
        Self::ExternalWorkloads,
    ];

    /// The clash in a word, as in labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Pods => "pods",
            Self::PodAndExternalWorkload => "pod_and_external_workload",
            Self::ExternalWorkloads => "external_workloads",
        }
    }
}

// === impl Claimants ===

impl fmt::Display for Claimants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Services => "Services",
            Self::Pods => "Pods",
            Self::HostPorts => "Pods with this host port",
            Self::ExternalWorkloads => "ExternalWorkloads",
        })
    }
}

// === impl Holder ===

impl Holder {
    /// What it makes of its address: its own while it runs.
    pub fn as_owner(&self) -> AddressOwner {
        match self.workload.facts.phase {
            PodPhase::Running => AddressOwner::Workload(Tenant::Pod(self.clone())),
            PodPhase::Starting | PodPhase::Finished => AddressOwner::Nobody,
        }
    }
}

impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.cluster, &other.cluster) || self.cluster == other.cluster)
            && (Arc::ptr_eq(&self.workload, &other.workload) || self.workload == other.workload)
    }
}

impl Eq for Holder {}

#[cfg(test)]
mod tests;
