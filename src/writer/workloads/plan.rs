//! The slices of one Service that list ExternalWorkloads: what is known and the slices that are there → actions.
//!
//! Pure. Endpoints stay in the slice that they are in, be it ours or one that Linkerd's controller made: to take over from it
//! costs no deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::super::copy::{
    Content, Copy, CopyEndpoint, CopyPort, Existing, Origin, Provenance, Target, TargetKind,
};
use super::super::name;
use super::super::plan::{Action, is_dns_label, is_label_value, may_be_pod};
use super::facts::{Selecting, Workload};
use super::pack::{Shape, Slot, pack};
use crate::model::{AddressFamily, Conditions, SliceName, Text};

/// What has to be done for one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In order: what only adds, what takes away, deletions.
    pub(super) actions: Vec<Action>,
    /// Whether somebody loses an endpoint: that cannot wait.
    pub(super) is_urgent: bool,
    /// Workloads that lack ports of the Service: their names, and the numbers of these.
    pub(super) without_port: BTreeMap<Text, Vec<i32>>,
    /// Slices that there will be.
    pub(super) slices: usize,
    /// Endpoints in them.
    pub(super) endpoints: usize,
}

/// Decides what has to be done for a Service that selects workloads. `taken` are names that strangers' slices have.
///
/// The same inputs give the same plan, and once its actions are carried out the plan is empty.
pub(super) fn plan<'a>(
    service: &Selecting,
    workloads: impl Iterator<Item = &'a Workload>,
    existing: &BTreeMap<SliceName, Existing>,
    taken: &BTreeSet<SliceName>,
) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<Shape, Vec<CopyEndpoint>> = BTreeMap::new();
    for workload in workloads.filter(|workload| service.selects(workload)) {
        let ports = ports(service, workload, &mut plan);
        if ports.is_empty() && !service.ports.is_empty() {
            continue;
        }
        for ip in workload.ips.iter().copied().filter(|ip| may_be_pod(*ip)) {
            let family = match ip {
                IpAddr::V4(_) => AddressFamily::V4,
                IpAddr::V6(_) => AddressFamily::V6,
            };
            if service.families.contains(&family) {
                let shape = (family, ports.clone());
                let endpoints = wanted.entry(shape).or_default();
                endpoints.push(endpoint(service, workload, ip));
            }
        }
    }
    let (ours, strays): (Vec<_>, Vec<_>) = existing
        .values()
        .filter(|there| !there.is_going)
        .partition(|there| there.owners.contains(&service.uid));
    let packed = pack(wanted, &ours);
    let mut names = new_names(service, existing, taken);
    let (mut growing, mut shrinking) = (Vec::new(), Vec::new());
    for (shape, slot) in packed.slots {
        plan.slices += 1;
        plan.endpoints += slot.endpoints.len();
        let there = slot.there;
        let name = there.map_or_else(|| names.next(), |there| Some(there.name.clone()));
        let Some(name) = name else { continue };
        let copy = copy(service, name, shape, slot);
        if there.is_some_and(|there| there.says(&copy)) {
            continue;
        }
        let before = there.and_then(|there| there.content.as_ref());
        let only_grows =
            there.is_none() || before.is_some_and(|content| content.only_grows_into(&copy.content));
        let action = Action::Apply {
            over: there.map(|there| there.uid.clone()),
            copy: Box::new(copy),
            only_grows,
        };
        if only_grows {
            growing.push(action);
        } else {
            shrinking.push(action);
        }
    }
    let obsolete = packed.obsolete.into_iter().chain(strays);
    let deletions = obsolete.map(|there| Action::Delete {
        name: there.name.clone(),
        uid: there.uid.clone(),
        resource_version: there.resource_version.clone(),
    });
    shrinking.extend(deletions);
    plan.is_urgent = !shrinking.is_empty();
    plan.actions = growing;
    plan.actions.append(&mut shrinking);
    plan
}

/// The ports of a slice that lists a workload, by name; notes those that the workload does not have.
fn ports(service: &Selecting, workload: &Workload, plan: &mut Plan) -> Vec<CopyPort> {
    let mut ports = Vec::with_capacity(service.ports.len());
    for port in &service.ports {
        let Some(number) = workload.target_of(port) else {
            let lacking = plan.without_port.entry(workload.name.clone());
            lacking.or_default().push(port.number);
            continue;
        };
        ports.push(CopyPort {
            name: port.name.clone(),
            transport: port.transport,
            port: number,
            app_protocol: None,
        });
    }
    ports.sort_unstable();
    ports
}

fn endpoint(service: &Selecting, workload: &Workload, address: IpAddr) -> CopyEndpoint {
    let hostname = Some(&workload.name).filter(|name| service.is_headless && is_dns_label(name));
    CopyEndpoint {
        address,
        conditions: Conditions {
            ready: workload.is_ready,
            serving: workload.is_ready,
            terminating: false,
        },
        hostname: hostname.cloned(),
        node: None,
        zone: workload.zone().filter(|zone| is_label_value(zone.as_str())),
        hints: Vec::new(),
        target: Some(Target {
            kind: TargetKind::ExternalWorkload,
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            uid: workload.uid.clone(),
        }),
    }
}

fn copy(service: &Selecting, name: SliceName, (family, ports): Shape, slot: Slot<'_>) -> Copy {
    let mut content = Content {
        service: service.name.clone(),
        origin: Origin::Workloads {
            labels: service.labels.clone(),
        },
        is_headless: service.is_headless,
        family,
        ports,
        endpoints: slot.endpoints,
    };
    content.sort();
    Copy {
        name,
        content,
        owner: service.uid.clone(),
        source: Provenance::default(),
    }
}

/// Names that no slice has, always the same ones in the same order: whoever leads next goes on with them.
fn new_names<'a>(
    service: &'a Selecting,
    existing: &'a BTreeMap<SliceName, Existing>,
    taken: &'a BTreeSet<SliceName>,
) -> impl Iterator<Item = SliceName> + 'a {
    (0_u32..)
        .map(|number| {
            let name = name::of_workloads(&service.name, &service.uid, number);
            SliceName::new(service.name.namespace.clone(), name)
        })
        .filter(|name| !existing.contains_key(name) && !taken.contains(name))
}

#[cfg(test)]
mod tests;
