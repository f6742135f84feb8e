//! Linkerd's policy Servers.

use super::super::objects::{LabelSelector, PortNumberOrName, Server};
use super::{Warning, filled, port_number, quote};
use crate::model::{Condition, Requirement, Selector, ServerFacts, ServerPort, Text};

/// Longest name in a label's key, and longest value.
const NAME_MAX: usize = 63;
/// Longest prefix of a label's key.
const PREFIX_MAX: usize = 253;

/// What a Server says; `None` if it is not opaque, or has no usable port or selector, and so changes nothing.
pub(super) fn facts(server: &Server, warnings: &mut Vec<Warning>) -> Option<ServerFacts> {
    let spec = &server.spec;
    let mut read = |field, object: Option<&LabelSelector>| match object.map(selector)? {
        Ok(selector) => Some(selector),
        Err(complaint) => {
            warnings.push(Warning::Selector {
                selector: field,
                complaint,
            });
            None
        }
    };
    let pods = read("podSelector", spec.pod_selector.as_ref());
    let external_workloads = read(
        "externalWorkloadSelector",
        spec.external_workload_selector.as_ref(),
    );
    if spec.proxy_protocol.as_deref() != Some("opaque")
        || (pods.is_none() && external_workloads.is_none())
    {
        return None;
    }
    let port = match spec.port.as_ref()? {
        PortNumberOrName::Number(number) => ServerPort::Number(port_number(*number, warnings)?),
        PortNumberOrName::Name(name) => ServerPort::Name(filled(Some(name))?.into()),
    };
    Some(ServerFacts {
        pods,
        external_workloads,
        port,
    })
}

/// Reads a selector, or says what is wrong with it: what the API does not accept selects nothing.
fn selector(object: &LabelSelector) -> Result<Selector, String> {
    let labels = object.match_labels.iter().map(|(key, value)| {
        let value = value.as_deref().unwrap_or_default();
        requirement(key, "In", &[value])
    });
    let expressions = object.match_expressions.iter().map(|expression| {
        let values: Vec<_> = expression.values.iter().map(String::as_str).collect();
        requirement(&expression.key, &expression.operator, &values)
    });
    labels.chain(expressions).collect()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Result<Requirement, String> {
    if !is_key(key) {
        return Err(format!(
            "has the key {:?}, which no label can have",
            quote(key)
        ));
    }
    if let Some(bad) = values.iter().find(|value| !is_value(value)) {
        return Err(format!(
            "has the value {:?}, which no label can have",
            quote(bad)
        ));
    }
    let count = values.len();
    let values = || values.iter().copied().map(Text::from).collect();
    let condition = match (operator, count) {
        ("In", 1..) => Condition::In(values()),
        ("NotIn", 1..) => Condition::NotIn(values()),
        ("Exists", 0) => Condition::Exists,
        ("DoesNotExist", 0) => Condition::DoesNotExist,
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {
            return Err(format!("has operator {operator} with {count} values"));
        }
        _ => return Err(format!("has the unknown operator {:?}", quote(operator))),
    };
    Ok(Requirement {
        key: key.into(),
        condition,
    })
}

/// Whether a label can have this key: `name` or `prefix/name`, where the prefix is a DNS subdomain.
fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_label = |label: &str| {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        starts_and_ends(label, lower) && label.bytes().all(|byte| lower(byte) || byte == b'-')
    };
    !name.is_empty()
        && is_value(name)
        && prefix.is_none_or(|prefix| prefix.len() <= PREFIX_MAX && prefix.split('.').all(is_label))
}

/// Whether a label can have this value, which may be empty.
fn is_value(value: &str) -> bool {
    value.is_empty()
        || (value.len() <= NAME_MAX
            && starts_and_ends(value, |byte| byte.is_ascii_alphanumeric())
            && value
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
}

fn starts_and_ends(text: &str, with: impl Fn(u8) -> bool) -> bool {
    let (first, last) = (text.bytes().next(), text.bytes().next_back());
    first.is_some_and(&with) && last.is_some_and(&with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_of_labels() {
        for (key, fits) in [
            ("app", true),
            ("app.kubernetes.io/name", true),
            ("a_B.c-D", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a b", false),
            ("a/b/c", false),
            ("/a", false),
            ("a/", false),
            ("Up.er/a", false),
            ("a..b/c", false),
        ] {
            assert_eq!(is_key(key), fits, "{key:?}");
        }
        assert!(is_key(&"k".repeat(63)) && !is_key(&"k".repeat(64)));
        for (value, fits) in [("", true), ("A.1-_z", true), (".a", false), ("a b", false)] {
            assert_eq!(is_value(value), fits, "{value:?}");
        }
    }
}
