//! Links: whether the objects that make them fit together, and whether clusters are what they seem to be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Finding, LINKS};
use crate::model::ClusterRole;
use crate::proto::tributary_v1::Severity;
use crate::publish::{LinkObject, Reading};

pub(super) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    secrets(facts, findings);
    objects(facts, findings);
    twins(facts, findings);
    controllers(facts, findings);
}

/// Secrets that link nothing.
fn secrets(facts: &Facts, findings: &mut Vec<Finding>) {
    let survey = &facts.survey;
    if let Some(reason) = &survey.secrets_trouble {
        findings.push(Finding::new(
            Severity::Error,
            "secrets",
            LINKS,
            format!("Secrets of the control plane's namespace cannot be watched: {reason}"),
            "Clusters stay linked as they were; new links and new credentials are not noticed.",
            "Grant list and watch on secrets in that namespace, and only there: Role tributary-links of `deploy/rbac-read.yaml`.",
        ));
        return;
    }
    let idle = survey.idle_secrets.iter().chain(&survey.stray_secrets);
    let before = findings.len();
    findings.extend(idle.map(|(secret, reason)| {
        Finding::new(
            Severity::Warning,
            "secrets",
            LINKS,
            format!("Secret {secret} links no cluster: {reason}"),
            "Whoever made it waits for a cluster that never comes.",
            format!("Correct it, or delete it: {}", kubectl_delete(secret)),
        )
    }));
    if findings.len() == before {
        let linked = facts
            .clusters
            .iter()
            .filter(|cluster| cluster.role == ClusterRole::Linked)
            .count();
        let what = match linked {
            0 => "no Secret links a cluster".to_owned(),
            1 => "the Secret that is there links a cluster".to_owned(),
            linked => format!("all {linked} Secrets link a cluster each"),
        };
        findings.push(Finding::ok("secrets", LINKS, what));
    }
}

fn kubectl_delete(secret: &str) -> String {
    match secret.split_once('/') {
        Some((namespace, name)) => format!("kubectl -n {namespace} delete secret {name}"),
        None => format!("kubectl delete secret {secret}"),
    }
}

/// `Link`s against Secrets.
fn objects(facts: &Facts, findings: &mut Vec<Finding>) {
    let links = match &facts.survey.links {
        Reading::Known(links) => links,
        Reading::Pending | Reading::Absent => return,
        Reading::Denied => {
            findings.push(Finding::new(
                Severity::Note,
                "link-objects",
                LINKS,
                "Links may not be read, so they are not compared with Secrets",
                "Answers do not depend on it.",
                "To have them compared, grant list and watch on links.multicluster.linkerd.io: `deploy/rbac-read.yaml` has the rule.",
            ));
            return;
        }
    };
    let before = findings.len();
    let mut by_cluster: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (object, LinkObject { cluster, .. }) in links {
        by_cluster
            .entry(cluster.as_str())
            .or_default()
            .push(object.as_str());
        let own_name = object.rsplit('/').next().unwrap_or_default();
        if own_name != cluster.as_str() {
            findings.push(Finding::new(
                Severity::Warning,
                "link-objects",
                LINKS,
                format!("Link {object} is for cluster {cluster}, and is not called that"),
                "Linkerd's service mirror names mirrors by the one and looks federated members up by the other.",
                format!("Make it anew under the name {cluster}."),
            ));
        }
    }
    for (cluster, objects) in &by_cluster {
        if objects.len() > 1 {
            findings.push(Finding::new(
                Severity::Warning,
                "link-objects",
                LINKS,
                format!("Links {} are all for cluster {cluster}", objects.join(", ")),
                "Their service mirrors write the same Services over each other.",
                "Keep one of them, and its service mirror.",
            ));
        }
    }
    let linked: BTreeSet<&str> = facts
        .clusters
        .iter()
        .filter(|cluster| cluster.role == ClusterRole::Linked)
        .map(|cluster| cluster.name.as_str())
        .collect();
    for (cluster, objects) in &by_cluster {
        if linked.contains(cluster) {
            continue;
        }
        let object = objects.join(", ");
        findings.push(Finding::new(
            Severity::Error,
            "link-objects",
            LINKS,
            format!("Link {object} is there, and no Secret in the control plane's namespace links cluster {cluster}"),
            "The service mirror makes Services for it, and their endpoints are not known: they are answered as empty.",
            format!("Apply the second Secret that `linkerd multicluster link-gen --cluster-name {cluster}` prints: the one in the control plane's namespace, with label multicluster.linkerd.io/cluster-name."),
        ));
    }
    for cluster in linked {
        if !by_cluster.contains_key(cluster) {
            findings.push(Finding::new(
                Severity::Note,
                "link-objects",
                LINKS,
                format!("cluster {cluster} is linked by a Secret, and no Link is for it"),
                "Its Services are not mirrored by Linkerd; Services that name it are answered all the same.",
                "If it is on purpose, nothing. Else apply the Link that `linkerd multicluster link-gen` prints.",
            ));
        }
    }
    if findings.len() == before {
        findings.push(Finding::ok(
            "link-objects",
            LINKS,
            "every Link has its Secret, and every Secret its Link",
        ));
    }
}

/// One cluster under several names.
fn twins(facts: &Facts, findings: &mut Vec<Finding>) {
    let mut by_uid: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for summary in facts.summaries.iter() {
        if let Some(uid) = &summary.uid {
            let names = by_uid.entry(uid.to_string()).or_default();
            names.push(summary.name.as_str());
        }
    }
    let before = findings.len();
    for names in by_uid.values().filter(|names| names.len() > 1) {
        findings.push(Finding::new(
            Severity::Error,
            "one-cluster-twice",
            LINKS,
            format!("{} are one and the same cluster", names.join(" and ")),
            "Its endpoints are counted once for each name, and a Service that names several of them has members that are none.",
            "Unlink all names but one; Services that name the others have to be changed first.",
        ));
    }
    if findings.len() == before && !by_uid.is_empty() {
        findings.push(Finding::ok(
            "one-cluster-twice",
            LINKS,
            "no two links lead to one cluster",
        ));
    }
}

/// Linkerd's own controller beside ours.
fn controllers(facts: &Facts, findings: &mut Vec<Finding>) {
    let pods = &facts.survey.stock_controllers;
    let Some((first, made_by)) = pods.iter().next() else {
        return;
    };
    let more = match pods.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let version = made_by.rsplit(' ').next().filter(|name| !name.is_empty());
    let version = version.map(|version| format!(", made by {version}"));
    findings.push(Finding::new(
        Severity::Note,
        "stock-controller",
        LINKS,
        format!(
            "Linkerd's own destination controller runs here: Pod {first}{more}{}",
            version.unwrap_or_default()
        ),
        "Those seen so far (up to edge-26.8) end when a federated Service names a member twice, when a linked cluster's slice names an \
         ExternalWorkload, or when a profile is asked for an instance without a Pod; and do not notice new credentials of a link.",
        "Nothing for our sake. Clients that are to be spared this are pointed at us: docs/compatibility.md.",
    ));
}
