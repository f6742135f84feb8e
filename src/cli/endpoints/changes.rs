//! What is different between two answers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::table::{Detail, Look, identity, pod, trouble, yes_or_no};
use crate::cli::paint::{Tone, paint};
use crate::cli::text::{or_dash, short_identity};
use crate::report::endpoints::{Endpoint, Member, Report, Resolution};

/// One difference. The serialized form is an interface, like that of [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Change {
    /// The endpoints come from elsewhere than before.
    Resolution { from: Resolution, to: Resolution },
    /// A Service contributes that did not, or should.
    MemberAdded { member: Member },
    /// A Service does not contribute any more.
    MemberRemoved { member: Member },
    /// A member is in another state.
    MemberChanged { member: Member, was: Member },
    /// An endpoint came.
    Added { endpoint: Endpoint },
    /// An endpoint went.
    Removed { endpoint: Endpoint },
    /// An endpoint is not what it was.
    Changed {
        endpoint: Endpoint,
        /// Old and new value of each field that is different, by name.
        fields: BTreeMap<String, Edit>,
    },
}

/// The old and the new value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Edit {
    pub(super) from: Value,
    pub(super) to: Value,
}

/// Lists what is different, members first; ages do not count.
pub(super) fn changes(before: &Report, after: &Report) -> Vec<Change> {
    let mut changes = Vec::new();
    if before.resolution != after.resolution {
        changes.push(Change::Resolution {
            from: before.resolution,
            to: after.resolution,
        });
    }
    compare(
        &numbered(&before.members, |member| {
            (&member.cluster, &member.namespace, &member.service)
        }),
        &numbered(&after.members, |member| {
            (&member.cluster, &member.namespace, &member.service)
        }),
        |difference| match difference {
            Difference::Came(member) => Some(Change::MemberAdded {
                member: member.clone(),
            }),
            Difference::Went(member) => Some(Change::MemberRemoved {
                member: member.clone(),
            }),
            Difference::Both(was, member) => {
                (was.state != member.state).then(|| Change::MemberChanged {
                    member: member.clone(),
                    was: was.clone(),
                })
            }
        },
        &mut changes,
    );
    compare(
        &numbered(&before.endpoints, |endpoint| {
            (&endpoint.address, &endpoint.cluster)
        }),
        &numbered(&after.endpoints, |endpoint| {
            (&endpoint.address, &endpoint.cluster)
        }),
        |difference| match difference {
            Difference::Came(endpoint) => Some(Change::Added {
                endpoint: endpoint.clone(),
            }),
            Difference::Went(endpoint) => Some(Change::Removed {
                endpoint: endpoint.clone(),
            }),
            Difference::Both(was, endpoint) => {
                let fields = edits(was, endpoint);
                (!fields.is_empty()).then(|| Change::Changed {
                    endpoint: endpoint.clone(),
                    fields,
                })
            }
        },
        &mut changes,
    );
    changes
}

/// An item of two lists, by key.
enum Difference<'a, T> {
    Came(&'a T),
    Went(&'a T),
    Both(&'a T, &'a T),
}

/// Items with their keys; items with one key are told apart by how many of them came before.
fn numbered<'a, T, K: Ord + Clone>(
    items: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> Vec<((K, usize), &'a T)> {
    let mut seen: BTreeMap<K, usize> = BTreeMap::new();
    items
        .iter()
        .map(|item| {
            let key = key(item);
            let number = seen.entry(key.clone()).or_default();
            *number += 1;
            ((key, *number), item)
        })
        .collect()
}

/// What came or stayed, in the order of `after`, then what went, in the order of `before`.
fn compare<T, K: Ord>(
    before: &[(K, &T)],
    after: &[(K, &T)],
    change: impl Fn(Difference<'_, T>) -> Option<Change>,
    changes: &mut Vec<Change>,
) {
    let (before_by_key, after_by_key) = (by_key(before), by_key(after));
    let here = after
        .iter()
        .map(|(key, item)| match before_by_key.get(key) {
            Some(was) => Difference::Both(*was, *item),
            None => Difference::Came(*item),
        });
    let went = before
        .iter()
        .filter(|(key, _)| !after_by_key.contains_key(key))
        .map(|(_, item)| Difference::Went(*item));
    changes.extend(here.chain(went).filter_map(change));
}

fn by_key<'a, T, K: Ord>(items: &'a [(K, &'a T)]) -> BTreeMap<&'a K, &'a T> {
    items.iter().map(|(key, item)| (key, *item)).collect()
}

/// Fields of two endpoints that differ, in their serialized form.
fn edits(before: &Endpoint, after: &Endpoint) -> BTreeMap<String, Edit> {
    let (Ok(Value::Object(before)), Ok(Value::Object(mut after))) =
        (serde_json::to_value(before), serde_json::to_value(after))
    else {
        return BTreeMap::new();
    };
    before
        .into_iter()
        .filter_map(|(field, from)| {
            let to = after.remove(&field)?;
            (from != to).then_some((field, Edit { from, to }))
        })
        .collect()
}

// === impl Change ===

impl Change {
    /// One line about it, without a line end: `+`, `-` or `~`, then what and how.
    pub(super) fn line(&self, look: Look) -> String {
        let (tone, text) = match self {
            Self::Resolution { from, to } => (
                Tone::Odd,
                format!("~ resolution {} → {}", from.word(), to.word()),
            ),
            Self::MemberAdded { member } => (
                Tone::Good,
                format!("+ member {}{}", name(member), trouble(member)),
            ),
            Self::MemberRemoved { member } => (Tone::Bad, format!("- member {}", name(member))),
            Self::MemberChanged { member, was } => (
                Tone::Odd,
                format!(
                    "~ member {}  {} → {}",
                    name(member),
                    was.state.word(),
                    member.state.word()
                ),
            ),
            Self::Added { endpoint } => (Tone::Good, format!("+ {}", full(endpoint, look.detail))),
            Self::Removed { endpoint } => (Tone::Bad, format!("- {}", address(endpoint))),
            Self::Changed { endpoint, fields } => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(field, _)| importance(field));
                let edits: Vec<String> = fields
                    .into_iter()
                    .map(|(field, edit)| {
                        let (from, to) = (plain(&edit.from), plain(&edit.to));
                        format!("{field} {from} → {to}")
                    })
                    .collect();
                let line = format!("~ {}  {}", address(endpoint), edits.join("; "));
                (Tone::Odd, line)
            }
        };
        paint(text.trim_end(), tone, look.colour)
    }
}

/// Fields that decide whether there is traffic are read first.
fn importance(field: &str) -> usize {
    const FIRST: [&str; 3] = ["served", "note", "weight"];
    FIRST
        .iter()
        .position(|first| *first == field)
        .unwrap_or(FIRST.len())
}

fn name(member: &Member) -> String {
    format!("{}@{}", member.service, member.cluster)
}

fn address(endpoint: &Endpoint) -> String {
    let cluster = or_dash(endpoint.cluster.as_deref());
    format!("{:<21}  {cluster:<8}", endpoint.address)
}

fn full(endpoint: &Endpoint, detail: Detail) -> String {
    let note = endpoint.note.as_deref().unwrap_or_default();
    let parts = [
        address(endpoint),
        or_dash(endpoint.zone.as_deref()),
        endpoint.locality.clone(),
        if endpoint.served {
            format!("served, weight {}", endpoint.weight)
        } else {
            "not served".to_owned()
        },
        pod(endpoint.workload.as_ref(), detail),
        identity(endpoint.identity.as_deref(), detail),
        note.to_owned(),
    ];
    parts.join("  ")
}

/// A field's value for people.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(value) => yes_or_no(*value).to_owned(),
        Value::String(text) => short_identity(text).to_owned(),
        Value::Object(fields) => fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("-")
            .to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::endpoints::MemberState;
    use crate::report::endpoints::samples::{endpoint, federated, member};

    fn check(before: &Report, after: &Report, expected: &[&str]) {
        let lines: Vec<String> = changes(before, after)
            .iter()
            .map(|change| change.line(Look::PLAIN))
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn equal_answers_have_no_changes() {
        let report = federated();
        check(&report, &report, &[]);
        let mut older = federated();
        older.members[2].age_seconds = Some(401);
        check(&report, &older, &[]);
    }

    #[test]
    fn endpoints_come_go_and_change() {
        let before = federated();
        let mut after = federated();
        after.endpoints.remove(0);
        after.endpoints[1].weight = 20_000;
        after.endpoints[1].identity = None;
        after.endpoints.push(endpoint("10.50.0.10:8080", "west"));
        check(
            &before,
            &after,
            &[
                "~ 10.50.0.9:8080         west      weight 10000 → 20000; identity default.shop → -",
                "+ 10.50.0.10:8080        west      eu-1a  local  served, weight 10000  web-5d9c-x2k  default.shop",
                "- 10.42.0.7:8080         home",
            ],
        );
    }

    #[test]
    fn members_come_go_and_change_state() {
        let before = federated();
        let mut after = federated();
        after.members[2].state = MemberState::Synced;
        after.members.remove(1);
        after.members.push(member("north", MemberState::NotLinked));
        check(
            &before,
            &after,
            &[
                "~ member web@east  stale → synced",
                "+ member web@north (not linked)",
                "- member web@west",
            ],
        );
    }

    #[test]
    fn one_address_listed_twice_is_two_endpoints() {
        let mut before = federated();
        before.endpoints = vec![endpoint("10.42.0.7:8080", "home")];
        let mut after = before.clone();
        after.endpoints.push(before.endpoints[0].clone());
        check(&after, &before, &["- 10.42.0.7:8080         home"]);
    }

    #[test]
    fn the_serialized_form_is_stable() {
        let before = federated();
        let mut after = federated();
        after.endpoints.truncate(1);
        after.endpoints[0].weight = 1;
        after.members.truncate(2);
        let lines: Vec<Value> = changes(&before, &after)
            .iter()
            .map(|change| serde_json::to_value(change).unwrap())
            .collect();
        assert_eq!(lines[0]["type"], "memberRemoved");
        assert_eq!(lines[0]["member"]["cluster"], "east");
        assert_eq!(lines[1]["type"], "changed");
        assert_eq!(lines[1]["endpoint"]["weight"], 1);
        assert_eq!(
            lines[1]["fields"]["weight"],
            serde_json::json!({"from": 10_000, "to": 1})
        );
        assert_eq!(lines[2]["type"], "removed");
        assert_eq!(lines[2]["endpoint"]["protocolHint"], "h2");
    }
}
