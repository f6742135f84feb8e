//! Services and addresses: who claims what others have, and who names what nobody is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Facts, Finding, SERVICES};
use crate::index::{Address, Clash};
use crate::proto::tributary_v1::Severity;

/// Whether several have an address who should not.
pub(super) fn is_contested(address: &Address) -> bool {
    !address.clashes().is_empty() || clusters_of(address).len() > 1
}

/// The clusters whose Pods have an address for their own.
fn clusters_of(address: &Address) -> BTreeSet<&str> {
    let pods = address.pods.iter().chain(&address.remote);
    pods.filter(|holder| !holder.workload.facts.terminating)
        .map(|holder| holder.cluster.name.as_str())
        .collect()
}

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    overlaps(facts, findings);
    clashes(facts, findings);
    unlinked(facts, findings);
}

/// Clusters whose Pods have the same addresses.
fn overlaps(facts: &Facts, findings: &mut Vec<Finding>) {
    let mut by_clusters: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for (ip, address) in &facts.addresses {
        let clusters = clusters_of(address);
        // One cluster under two names has been told of by its links.
        let uids: BTreeSet<_> = facts
            .summaries
            .iter()
            .filter(|summary| clusters.contains(summary.name.as_str()))
            .map(|summary| summary.uid.as_ref())
            .collect();
        if clusters.len() > 1 && (uids.len() > 1 || uids.contains(&None)) {
            let names: Vec<_> = clusters.into_iter().collect();
            by_clusters
                .entry(names.join(" and "))
                .or_default()
                .push(*ip);
        }
    }
    for (clusters, ips) in &by_clusters {
        let first = ips[0];
        let how_many = match ips.len() {
            1 => format!("address {first}"),
            many => format!("{many} addresses, the first of them {first}"),
        };
        findings.push(Finding::new(
            Severity::Error,
            "overlapping-pods",
            SERVICES,
            format!("Pods of {clusters} have the same {how_many}"),
            "Without a gateway an address must mean one Pod. One of them is believed, the home cluster's first; traffic for the other reaches the wrong Pod, which mutual TLS refuses at best.",
            "Give the clusters Pod ranges that do not overlap, or link them through a gateway.",
        ));
    }
    if by_clusters.is_empty() {
        findings.push(Finding::ok(
            "overlapping-pods",
            SERVICES,
            "no Pods of two clusters have one address",
        ));
    }
}

/// Names and addresses that clash within the home cluster.
fn clashes(facts: &Facts, findings: &mut Vec<Finding>) {
    let mut is_fine = true;
    for clash in Clash::ALL {
        let mut contested = facts
            .addresses
            .iter()
            .filter(|(_, address)| address.clashes().contains(&clash));
        let Some((ip, address)) = contested.next() else {
            continue;
        };
        is_fine = false;
        let more = match contested.count() {
            0 => String::new(),
            count => format!(" (and {count} more addresses like it)"),
        };
        let claimants = address.claimants(clash).join(", ");
        let (meaning, action) = match clash {
            Clash::Services => (
                "Clients that use the address are told nothing of either Service.",
                "Delete one of the Services and make it anew, so that it gets another address.",
            ),
            Clash::Pods => (
                "Clients that use the address are told nothing of either Pod.",
                "Usually one of them is a Pod that was not cleaned up: see which node still has it.",
            ),
            Clash::PodAndExternalWorkload => (
                "The Pod counts; the ExternalWorkload is not found by its address.",
                "Correct the address of the ExternalWorkload.",
            ),
            Clash::ExternalWorkloads => (
                "Clients that use the port of that address are told of neither.",
                "Let only one of them list the port.",
            ),
        };
        findings.push(Finding::new(
            Severity::Warning,
            "address-clash",
            SERVICES,
            format!("{claimants} claim {ip}{more}"),
            meaning,
            action,
        ));
    }
    if is_fine {
        findings.push(Finding::ok(
            "address-clash",
            SERVICES,
            "nothing in the home cluster claims what another has",
        ));
    }
}

/// Services that name clusters which nobody links.
fn unlinked(facts: &Facts, findings: &mut Vec<Finding>) {
    let mut by_cluster: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (service, cluster) in &facts.unlinked {
        by_cluster
            .entry(cluster)
            .or_default()
            .push(service.to_string());
    }
    for (cluster, services) in &by_cluster {
        let first = &services[0];
        let who = match services.len() {
            1 => format!("Service {first} names"),
            many => format!("{many} Services, the first of them {first}, name"),
        };
        findings.push(Finding::new(
            Severity::Warning,
            "unlinked-cluster",
            SERVICES,
            format!("{who} cluster {cluster}, which is not linked"),
            "That part of their answers is empty.",
            format!("Link {cluster}, or correct the labels and annotations multicluster.linkerd.io/remote-discovery of the Services."),
        ));
    }
    if by_cluster.is_empty() {
        findings.push(Finding::ok(
            "unlinked-cluster",
            SERVICES,
            "every cluster that a Service names is linked",
        ));
    }
}
