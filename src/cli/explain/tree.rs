//! An explanation as a tree: the Service, its members, their EndpointSlices, and what became of each endpoint.

use std::fmt::Write as _;
use std::time::Duration;

use crate::cli::columns::WIDTH;
use crate::cli::paint::{Tone, paint};
use crate::cli::text::{age, short_identity, shorten, wrapped};
use crate::config::Colour;
use crate::report::endpoints::{Endpoint, MemberState};
use crate::report::explanation::{ExplainedEndpoint, Explanation, Member, Slice};

/// Widest left side that others are aligned to.
const LEFT_MAX: usize = 64;

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// Whether every rule is shown, and not only the one that was broken.
    pub(super) rules: bool,
    /// Whether lines are kept below [`WIDTH`].
    pub(super) shortened: bool,
}

/// A line of the tree, and those under it.
struct Node {
    left: String,
    right: String,
    tone: Tone,
    children: Vec<Node>,
}

/// Writes an explanation: the verdict, the tree, and what it means.
pub(super) fn tree(explanation: &Explanation, detail: Detail, colour: Colour) -> String {
    let tone = if explanation.fine {
        Tone::Good
    } else {
        Tone::Bad
    };
    let mut text = paint(&explanation.verdict, tone, colour) + "\n";
    let root = Node {
        left: explanation.authority.clone(),
        right: explanation.service.clone(),
        tone: Tone::Normal,
        children: explanation
            .members
            .iter()
            .map(|explained| member(explained, detail))
            .collect(),
    };
    let mut lines = Vec::new();
    flatten(&root, "", "", &mut lines);
    let longest = lines.iter().map(|(left, ..)| left.chars().count());
    let column = longest.filter(|length| *length <= LEFT_MAX).max();
    let column = column.unwrap_or_default();
    for (left, right, tone) in lines {
        let line = format!("{left:<column$}  {right}");
        let line = line.trim_end();
        let line = if detail.shortened {
            shorten(line, WIDTH)
        } else {
            line.to_owned()
        };
        text.push_str(&paint(&line, tone, colour));
        text.push('\n');
    }
    // Where it is in the tree, the tree says whose it is.
    let is_listed = explanation.members.iter().any(|member| {
        let mut slices = member.slices.iter();
        slices.any(|slice| !slice.endpoints.is_empty())
    });
    for holder in explanation.holders.iter().filter(|_| !is_listed) {
        let kind = holder.kind.to_lowercase();
        let (namespace, name, cluster) = (&holder.namespace, &holder.name, &holder.cluster);
        // Writing to a String cannot fail.
        writeln!(
            text,
            "The address belongs to {kind} {namespace}/{name} of cluster {cluster}."
        )
        .ok();
    }
    if !explanation.changes.is_empty() {
        text.push_str("Lately:\n");
    }
    for change in &explanation.changes {
        let ago = change.age_seconds.map(Duration::from_secs);
        let ago = ago.map_or_else(|| "-".to_owned(), age);
        let sent = match (change.added_count, change.removed_count) {
            (0, 0) => "nothing was sent".to_owned(),
            (added, removed) => format!("+{added} -{removed}, {} left", change.left),
        };
        let title = format!("  {ago:>6} ago  ");
        let line = format!("{sent}: {}", change.causes.join("; "));
        text.push_str(&wrapped(&title, &line, WIDTH));
    }
    for advice in &explanation.advice {
        text.push_str(&wrapped("What it means: ", &advice.meaning, WIDTH));
        text.push_str(&wrapped("What to do: ", &advice.action, WIDTH));
    }
    text
}

fn flatten(node: &Node, first: &str, rest: &str, lines: &mut Vec<(String, String, Tone)>) {
    lines.push((
        format!("{first}{}", node.left),
        node.right.clone(),
        node.tone,
    ));
    let last = node.children.len().saturating_sub(1);
    for (at, child) in node.children.iter().enumerate() {
        let (branch, below) = if at == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        flatten(
            child,
            &format!("{rest}{branch}"),
            &format!("{rest}{below}"),
            lines,
        );
    }
}

fn member(explained: &Member, detail: Detail) -> Node {
    let (left, state) = match &explained.member {
        Some(member) => (
            format!("member {}@{}", member.service, member.cluster),
            match (member.state, member.age()) {
                (MemberState::Stale, Some(silent)) => format!("stale for {}: ", age(silent)),
                (MemberState::Stale, None) => "stale: ".to_owned(),
                _ => String::new(),
            },
        ),
        None => ("member".to_owned(), String::new()),
    };
    Node {
        left,
        right: state.clone() + &explained.note,
        tone: match (explained.contributes, state.is_empty()) {
            (false, _) => Tone::Bad,
            (true, false) => Tone::Odd,
            (true, true) => Tone::Normal,
        },
        children: explained
            .slices
            .iter()
            .map(|explained| slice(explained, detail))
            .collect(),
    }
}

fn slice(explained: &Slice, detail: Detail) -> Node {
    let mut children: Vec<_> = explained
        .endpoints
        .iter()
        .map(|explained| endpoint(explained, detail))
        .collect();
    if !explained.has_port && explained.addresses > 0 {
        children.push(Node {
            left: match explained.addresses {
                1 => "1 address".to_owned(),
                addresses => format!("{addresses} addresses"),
            },
            right: "dropped: the slice does not have the port".to_owned(),
            tone: Tone::Odd,
            children: Vec::new(),
        });
    }
    Node {
        left: format!("EndpointSlice {}", explained.name),
        right: explained.note.clone(),
        tone: Tone::Normal,
        children,
    }
}

fn endpoint(explained: &ExplainedEndpoint, detail: Detail) -> Node {
    let endpoint = &explained.endpoint;
    let workload = endpoint.workload.as_ref().map(|workload| {
        let namespace = workload.namespace.as_deref().unwrap_or("-");
        format!("  {} {namespace}/{}", workload.kind, workload.name)
    });
    let rules = explained.rules.iter().filter(|_| detail.rules);
    Node {
        left: endpoint.address.clone() + &workload.unwrap_or_default(),
        right: became(endpoint),
        tone: if endpoint.served {
            Tone::Good
        } else {
            Tone::Odd
        },
        children: rules
            .map(|rule| Node {
                left: rule.rule.clone(),
                right: format!(
                    "{}: {}",
                    if rule.passed { "passed" } else { "broken" },
                    rule.reason
                ),
                tone: if rule.passed { Tone::Normal } else { Tone::Odd },
                children: Vec::new(),
            })
            .collect(),
    }
}

fn became(endpoint: &Endpoint) -> String {
    if !endpoint.served {
        let note = endpoint.note.as_deref().unwrap_or("no reason given");
        return format!("dropped: {note}");
    }
    let zone = match (&endpoint.zone, endpoint.locality.as_str()) {
        (None, _) => String::new(),
        (Some(zone), "unknown") => format!(", zone {zone}"),
        (Some(zone), locality) => format!(", zone {zone} ({locality})"),
    };
    let identity = match &endpoint.identity {
        Some(identity) => format!(", identity {}", short_identity(identity)),
        None => ", no identity".to_owned(),
    };
    let note = endpoint.note.iter().map(|note| format!("; {note}"));
    format!("kept{zone}{identity}{}", note.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::endpoints::samples::{endpoint, member};
    use crate::report::endpoints::{Resolution, Workload};
    use crate::report::explanation::{Advice, Rule};
    use crate::report::history::RecentChange;

    fn explanation() -> Explanation {
        let mut dropped = endpoint("10.60.0.6:8080", "east");
        (dropped.served, dropped.note) = (false, Some("not ready".to_owned()));
        dropped.workload = Some(Workload {
            kind: "Pod".to_owned(),
            name: "web-6c55-cc9".to_owned(),
            namespace: Some("shop".to_owned()),
        });
        Explanation {
            authority: "web-federated.shop.svc.cluster.local:80".to_owned(),
            verdict: "10.60.0.6 is NOT in the answer.".to_owned(),
            fine: false,
            resolution: Resolution::Federated,
            service: "federated: its annotations name web, web@east".to_owned(),
            members: vec![
                Member {
                    member: Some(member("home", MemberState::Synced)),
                    note: "home cluster".to_owned(),
                    contributes: true,
                    slices: Vec::new(),
                },
                Member {
                    member: Some(member("east", MemberState::Stale)),
                    note: "out of contact: what it said last counts".to_owned(),
                    contributes: true,
                    slices: vec![Slice {
                        name: "shop/web-k7p2".to_owned(),
                        note: "port http → 8080".to_owned(),
                        has_port: true,
                        addresses: 1,
                        endpoints: vec![ExplainedEndpoint {
                            endpoint: dropped,
                            rules: vec![Rule {
                                rule: "ready".to_owned(),
                                passed: false,
                                reason: "not ready".to_owned(),
                            }],
                        }],
                    }],
                },
            ],
            advice: vec![Advice {
                meaning: "east reported shop/web-6c55-cc9 as not ready before contact was lost; whether it has \
                          recovered cannot be known."
                    .to_owned(),
                action: "Restore the connection.".to_owned(),
            }],
            holders: Vec::new(),
            changes: vec![RecentChange {
                age_seconds: Some(412),
                causes: vec!["EndpointSlice web-k7p2 of east was changed".to_owned()],
                clusters: vec!["east".to_owned()],
                added: Vec::new(),
                removed: vec!["10.60.0.6:8080".to_owned()],
                added_count: 0,
                removed_count: 1,
                left: 4,
            }],
        }
    }

    const ALL: Detail = Detail {
        rules: true,
        shortened: true,
    };

    #[test]
    fn a_dropped_endpoint_is_at_the_end_of_its_branch_with_the_reason() {
        let text = tree(&explanation(), ALL, Colour::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "10.60.0.6 is NOT in the answer.",
                "web-federated.shop.svc.cluster.local:80         federated: its annotations name web, web@east",
                "├─ member web@home                              home cluster",
                "└─ member web@east                              stale for 6m40s: out of contact: what it said last counts",
                "   └─ EndpointSlice shop/web-k7p2               port http → 8080",
                "      └─ 10.60.0.6:8080  Pod shop/web-6c55-cc9  dropped: not ready",
                "         └─ ready                               broken: not ready",
                "Lately:",
                "   6m52s ago  +0 -1, 4 left: EndpointSlice web-k7p2 of east was changed",
                "What it means: east reported shop/web-6c55-cc9 as not ready before contact was lost; whether it has recovered cannot be",
                "               known.",
                "What to do: Restore the connection.",
            ]
        );
    }

    #[test]
    fn colour_adds_only_escape_sequences() {
        let plain = tree(&explanation(), ALL, Colour::Plain);
        let mut coloured = tree(&explanation(), ALL, Colour::Ansi);
        assert_ne!(plain, coloured);
        for code in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(plain, coloured);
    }
}
