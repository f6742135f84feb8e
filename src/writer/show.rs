//! Plans for people: what would be written, as a difference to what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::copy::{Content, CopyEndpoint, Existing, Origin};
use super::plan::{Action, Copied, LeftOut, Plan};
use crate::index::{MemberState, ServiceSnapshot};
use crate::model::SliceName;

/// What actions change, one line each: `+` for what comes, `-` for what goes, indented below the slice it concerns.
pub fn lines<'a>(
    actions: impl IntoIterator<Item = &'a Action>,
    existing: Option<&BTreeMap<SliceName, Existing>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for action in actions {
        let there = existing.and_then(|existing| existing.get(action.name()));
        let before = there.and_then(|there| there.content.as_ref());
        match action {
            Action::Apply { copy, .. } => {
                let sign = if there.is_some() { '~' } else { '+' };
                let source = match &copy.content.origin {
                    Origin::Cluster { name, .. } => {
                        format!("from {} of cluster {name}", copy.source.slice)
                    }
                    Origin::Workloads { .. } => "ExternalWorkloads".to_owned(),
                };
                lines.push(format!("{sign} {} ({source})", copy.name));
                difference(before, Some(&copy.content), &mut lines);
            }
            Action::Delete { name, .. } => {
                lines.push(format!("- {name}"));
                difference(before, None, &mut lines);
            }
        }
    }
    lines
}

/// Where everything of one Service comes from: each member and how far it is known, each slice and its copy, and each endpoint
/// that is not written, with the reason.
pub fn account(snapshot: &ServiceSnapshot, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for member in &snapshot.members {
        let cluster = &member.cluster.name;
        let state = match member.state {
            MemberState::Synced if member.facts.is_none() => "read, and it has no such Service",
            MemberState::Synced => "read",
            MemberState::Syncing => "not read yet: its copies stay as they are",
            MemberState::NotLinked => "not linked",
        };
        lines.push(format!(
            "member {} of cluster {cluster}: {state}",
            member.service
        ));
        let copied = plan
            .copied
            .iter()
            .filter(|copied| copied.cluster == *cluster);
        lines.extend(copied.map(|copied| {
            let Copied {
                slice,
                copy,
                endpoints,
                ..
            } = copied;
            format!(
                "    {slice} is copied to {}: {endpoints} endpoints",
                copy.name
            )
        }));
        let left_out = plan
            .left_out
            .iter()
            .filter(|left_out| left_out.cluster == *cluster);
        lines.extend(left_out.map(|left_out| {
            let LeftOut {
                slice,
                address,
                reason,
                ..
            } = left_out;
            format!(
                "    {slice}: {address} is not written: {}",
                reason.explain()
            )
        }));
    }
    lines
}

fn difference(before: Option<&Content>, after: Option<&Content>, lines: &mut Vec<String>) {
    let (old, new) = (said(before), said(after));
    lines.extend(old.difference(&new).map(|line| format!("    - {line}")));
    lines.extend(new.difference(&old).map(|line| format!("    + {line}")));
}

fn said(content: Option<&Content>) -> BTreeSet<String> {
    let Some(content) = content else {
        return BTreeSet::new();
    };
    let ports = content.ports.iter().map(|port| {
        let spoken = port
            .app_protocol
            .as_ref()
            .map(|text| format!(" speaking {text}"));
        let name = if port.name.is_empty() {
            "(unnamed)"
        } else {
            port.name.as_str()
        };
        format!(
            "port {name} {}/{}{}",
            port.port,
            port.transport.as_str(),
            spoken.unwrap_or_default()
        )
    });
    ports
        .chain(content.endpoints.iter().map(endpoint))
        .collect()
}

fn endpoint(endpoint: &CopyEndpoint) -> String {
    let conditions = endpoint.conditions;
    let mut words = vec![endpoint.address.to_string()];
    words.push(
        if conditions.ready {
            "ready"
        } else {
            "not ready"
        }
        .to_owned(),
    );
    if conditions.serving != conditions.ready {
        words.push(
            if conditions.serving {
                "serving"
            } else {
                "not serving"
            }
            .to_owned(),
        );
    }
    if conditions.terminating {
        words.push("terminating".to_owned());
    }
    let hints: Vec<_> = endpoint.hints.iter().map(ToString::to_string).collect();
    for (word, value) in [
        ("zone", endpoint.zone.as_ref().map(ToString::to_string)),
        ("for", (!hints.is_empty()).then(|| hints.join(","))),
        (
            "hostname",
            endpoint.hostname.as_ref().map(ToString::to_string),
        ),
        ("node", endpoint.node.as_ref().map(ToString::to_string)),
        (
            "target",
            endpoint
                .target
                .as_ref()
                .map(|target| target.name.to_string()),
        ),
    ] {
        if let Some(value) = value {
            words.push(format!("{word} {value}"));
        }
    }
    words.join(" ")
}
