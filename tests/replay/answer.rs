//! Answers, and when two of them are equal.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use linkerd2_proxy_api::destination::{
    Http2ClientParams, WeightedAddr, protocol_hint, tls_identity,
};
use serde_json::{Map, Value, json};
use tonic::Code;

use super::case::Method;
use super::profile;
use crate::support::subscription::{Endpoint, Folded};

/// A label that we add and the recorded server does not have.
const OUR_LABEL: &str = "target_cluster";

/// What should be answered.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Exactly these addresses, with this in each.
    Addresses(BTreeMap<SocketAddr, Content>),
    /// No address, and that has to have been said.
    Empty,
    /// This profile.
    Profile(Content),
    /// An error of this kind.
    Error(ErrorClass),
    /// An error with this code.
    Code(Code),
    /// Whatever comes.
    Anything,
}

/// What should be in one address, or in a profile.
#[derive(Clone, Debug)]
pub enum Content {
    /// This and nothing else.
    Exactly(Value),
    /// This and nothing else but a label that is ours.
    Recorded(Value),
    /// At least this; what is `null` has to be absent.
    Some(Value),
}

/// Errors that mean the same to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The name will never resolve: the proxy does not ask again.
    Terminal,
    /// It may resolve later: the proxy asks again.
    Retried,
}

/// What is answered, in the form of the recordings: as JSON with the names of the protocol, where fields that are not set are absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Actual {
    /// Addresses, with what is said of each. The labels of its set and its own are together in `labels`.
    Addresses(Arc<BTreeMap<SocketAddr, Value>>),
    /// A profile.
    Profile(Arc<Value>),
    /// An error.
    Error(Code),
    /// Nothing so far.
    Silence,
}

// === impl Expected ===

impl Expected {
    /// Reads an answer of the recorded server.
    pub fn recorded(method: Method, answer: &Value) -> Result<Self> {
        if let Some(code) = answer["error"]["code"].as_str() {
            return Ok(Self::Error(ErrorClass::from_name(code)));
        }
        if !answer["profile"].is_null() {
            let profile = profile::normal(&answer["profile"]);
            return Ok(Self::Profile(Content::Recorded(profile)));
        }
        if method == Method::GetProfile {
            // The recorded server leaves clients of what it does not like without an answer. We never do.
            return Ok(Self::Anything);
        }
        let mut addresses = BTreeMap::new();
        for (address, content) in answer["addresses"].as_object().into_iter().flatten() {
            let content = Content::Recorded(merge_labels(content));
            addresses.insert(parse(address)?, content);
        }
        Ok(Self::Addresses(addresses))
    }

    /// Reads an answer that is better than the recorded one: `{empty: true}`, `{error: CODE}`, or `{addresses: …}` as a list or a map.
    pub fn wanted(answer: &Value) -> Result<Self> {
        if answer["empty"] == true {
            return Ok(Self::Addresses(BTreeMap::new()));
        }
        if let Some(code) = answer["error"].as_str() {
            return Ok(Self::Error(ErrorClass::from_name(code)));
        }
        if !answer["profile"].is_null() {
            return Ok(Self::Profile(Content::Some(answer["profile"].clone())));
        }
        let mut addresses = BTreeMap::new();
        match &answer["addresses"] {
            Value::Array(list) => {
                for address in list {
                    let address = address.as_str().context("an address is a text")?;
                    addresses.insert(parse(address)?, Content::Some(json!({})));
                }
            }
            Value::Object(map) => {
                for (address, content) in map {
                    addresses.insert(parse(address)?, Content::Some(content.clone()));
                }
            }
            other => bail!("cannot read {other}"),
        }
        Ok(Self::Addresses(addresses))
    }

    /// How an answer differs, if it does.
    pub fn difference(&self, actual: &Actual) -> Option<String> {
        match (self, actual) {
            (Self::Anything, _) => None,
            (Self::Error(class), Actual::Error(code)) if *class == ErrorClass::of(*code) => None,
            (Self::Code(expected), Actual::Error(code)) if expected == code => None,
            (Self::Profile(expected), Actual::Profile(profile)) => {
                let is_equal = match expected {
                    Content::Exactly(expected) => *expected == **profile,
                    Content::Recorded(expected) => *expected == without_our_label(profile),
                    Content::Some(wanted) => profile::has(profile, wanted),
                };
                let difference = || format!("    expected {expected}\n    answered {profile}");
                (!is_equal).then(difference)
            }
            (Self::Addresses(expected), Actual::Addresses(addresses)) => {
                address_difference(expected, addresses)
            }
            // Where the recorded server says nothing, we may say so or say nothing either.
            (Self::Addresses(expected), Actual::Silence) => {
                address_difference(expected, &BTreeMap::new())
            }
            (Self::Empty, Actual::Addresses(addresses)) => {
                address_difference(&BTreeMap::new(), addresses)
            }
            (expected, actual) => Some(format!("    expected {expected}, answered {actual}")),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => write!(f, "{:?}", addresses.keys()),
            Self::Empty => write!(f, "no addresses"),
            Self::Profile(content) => write!(f, "the profile {content}"),
            Self::Error(class) => write!(f, "a {class:?} error"),
            Self::Code(code) => write!(f, "error {code:?}"),
            Self::Anything => write!(f, "anything"),
        }
    }
}

impl fmt::Display for Actual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => write!(f, "{:?}", addresses.keys()),
            Self::Profile(profile) => write!(f, "the profile {profile}"),
            Self::Error(code) => write!(f, "error {code:?}"),
            Self::Silence => write!(f, "nothing"),
        }
    }
}

// === impl ErrorClass ===

impl ErrorClass {
    fn from_name(code: &str) -> Self {
        match code {
            "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => Self::Terminal,
            _ => Self::Retried,
        }
    }

    fn of(code: Code) -> Self {
        match code {
            Code::InvalidArgument | Code::FailedPrecondition => Self::Terminal,
            _ => Self::Retried,
        }
    }
}

// === impl Content ===

impl Content {
    fn matches(&self, endpoint: &Value) -> bool {
        match self {
            Self::Exactly(expected) => expected == endpoint,
            Self::Recorded(expected) => {
                let mut endpoint = endpoint.clone();
                if expected["labels"].get(OUR_LABEL).is_none()
                    && let Some(labels) = endpoint["labels"].as_object_mut()
                {
                    labels.remove(OUR_LABEL);
                }
                *expected == endpoint
            }
            Self::Some(expected) => {
                expected
                    .as_object()
                    .into_iter()
                    .flatten()
                    .all(|(key, value)| match value {
                        Value::Object(labels) if key == "labels" => labels
                            .iter()
                            .all(|(label, value)| endpoint[key].get(label) == Some(value)),
                        Value::Null => endpoint.get(key).is_none(),
                        value => endpoint.get(key) == Some(value),
                    })
            }
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) | Self::Recorded(value) => write!(f, "{value}"),
            Self::Some(value) => write!(f, "at least {value}"),
        }
    }
}

fn address_difference(
    expected: &BTreeMap<SocketAddr, Content>,
    actual: &BTreeMap<SocketAddr, Value>,
) -> Option<String> {
    let mut lines = Vec::new();
    for (address, content) in expected {
        match actual.get(address) {
            None => lines.push(format!("    missing {address}")),
            Some(endpoint) => {
                if !content.matches(endpoint) {
                    lines.push(format!(
                        "    at {address}\n      expected {content}\n      answered {endpoint}"
                    ));
                }
            }
        }
    }
    for address in actual.keys() {
        if !expected.contains_key(address) {
            lines.push(format!("    unexpected {address}"));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A recorded address, with its labels put together as a proxy does it.
fn merge_labels(recorded: &Value) -> Value {
    let mut content = recorded.as_object().cloned().unwrap_or_default();
    let mut labels = Map::new();
    for kind in ["set_labels", "metric_labels"] {
        if let Some(Value::Object(more)) = content.remove(kind) {
            labels.extend(more);
        }
    }
    content.insert("labels".to_owned(), labels.into());
    content.into()
}

fn without_our_label(profile: &Value) -> Value {
    let mut profile = profile.clone();
    if let Some(labels) = profile
        .pointer_mut("/endpoint/metric_labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(OUR_LABEL);
    }
    profile
}

/// A state, in the form of the recordings.
pub fn addresses(state: &Folded) -> BTreeMap<SocketAddr, Value> {
    let to_json = |endpoint: &Endpoint| {
        let mut json = content(&endpoint.content);
        json["labels"] = json!(endpoint.labels);
        json
    };
    let endpoints = state.endpoints.iter();
    endpoints
        .map(|(address, endpoint)| (*address, to_json(endpoint)))
        .collect()
}

/// All that is said of an address but its labels, in the form of the recordings: fields that are not set are absent.
pub fn content(address: &WeightedAddr) -> Value {
    let mut json = json!({});
    if address.weight != 0 {
        json["weight"] = json!(address.weight);
    }
    if let Some(hint) = &address.protocol_hint {
        let mut text = json!({});
        match hint.protocol {
            Some(protocol_hint::Protocol::H2(_)) => text["h2"] = json!({}),
            Some(protocol_hint::Protocol::Opaque(_)) => text["opaque"] = json!({}),
            None => {}
        }
        if let Some(transport) = &hint.opaque_transport {
            text["opaque_transport"] = number("inbound_port", transport.inbound_port);
        }
        json["protocol_hint"] = text;
    }
    if let Some(identity) = &address.tls_identity {
        let mut text = json!({});
        match &identity.strategy {
            Some(tls_identity::Strategy::DnsLikeIdentity(dns)) => {
                text["dns_like_identity"] = json!({"name": dns.name});
            }
            Some(tls_identity::Strategy::UriLikeIdentity(uri)) => {
                text["uri_like_identity"] = json!({"uri": uri.uri});
            }
            None => {}
        }
        if let Some(server_name) = &identity.server_name {
            text["server_name"] = json!({"name": server_name.name});
        }
        json["tls_identity"] = text;
    }
    if let Some(authority) = &address.authority_override {
        json["authority_override"] = json!({"authority_override": authority.authority_override});
    }
    if let Some(parameters) = &address.http2 {
        json["http2"] = http2(parameters);
    }
    json
}

fn http2(parameters: &Http2ClientParams) -> Value {
    let mut json = json!({});
    if let Some(flow) = &parameters.flow_control {
        json["flow_control"] = without_defaults(&[
            (
                "initial_connection_window_size",
                json!(flow.initial_connection_window_size),
            ),
            (
                "initial_stream_window_size",
                json!(flow.initial_stream_window_size),
            ),
            ("adaptive_flow_control", json!(flow.adaptive_flow_control)),
        ]);
    }
    if let Some(keep_alive) = &parameters.keep_alive {
        let duration = |duration: Option<&prost_types::Duration>| {
            duration.map_or(Value::Null, |duration| json!(in_seconds(*duration)))
        };
        json["keep_alive"] = without_defaults(&[
            ("interval", duration(keep_alive.interval.as_ref())),
            ("timeout", duration(keep_alive.timeout.as_ref())),
            ("while_idle", json!(keep_alive.while_idle)),
        ]);
    }
    if let Some(internals) = &parameters.internals {
        json["internals"] = without_defaults(&[
            (
                "max_concurrent_reset_streams",
                json!(internals.max_concurrent_reset_streams),
            ),
            ("max_frame_size", json!(internals.max_frame_size)),
            ("max_send_buf_size", json!(internals.max_send_buf_size)),
        ]);
    }
    json
}

fn number(key: &str, value: u32) -> Value {
    without_defaults(&[(key, json!(value))])
}

/// An object without the fields that have the value of an absent field.
pub fn without_defaults(fields: &[(&str, Value)]) -> Value {
    let is_default =
        |value: &Value| value.is_null() || *value == 0 || *value == false || *value == "";
    fields
        .iter()
        .filter(|(_, value)| !is_default(value))
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// A duration as JSON has it for protocol messages: `3s`, `3.500s`.
fn in_seconds(duration: prost_types::Duration) -> String {
    let prost_types::Duration { seconds, nanos } = duration;
    match nanos {
        0 => format!("{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{seconds}.{:03}s", nanos / 1_000_000),
        _ => format!("{seconds}.{nanos:09}s"),
    }
}

fn parse(address: &str) -> Result<SocketAddr> {
    address
        .parse()
        .with_context(|| format!("{address} is no address"))
}

#[cfg(test)]
mod tests {
    use linkerd2_proxy_api::destination::ProtocolHint;

    use super::*;

    /// A state with one endpoint, as an add with set labels `set` would make it.
    fn state(set: &[(&str, &str)]) -> Actual {
        let labels: BTreeMap<_, _> = set
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let endpoint = Endpoint {
            set_labels: labels.clone(),
            labels,
            content: WeightedAddr {
                weight: 10_000,
                protocol_hint: Some(ProtocolHint {
                    protocol: Some(protocol_hint::Protocol::H2(protocol_hint::H2 {})),
                    opaque_transport: None,
                }),
                ..WeightedAddr::default()
            },
        };
        let mut folded = Folded {
            answered: true,
            ..Folded::default()
        };
        folded
            .endpoints
            .insert(parse("10.0.0.1:80").unwrap(), endpoint);
        Actual::Addresses(Arc::new(addresses(&folded)))
    }

    fn recorded(labels: &Value) -> Expected {
        let content = json!({
            "set_labels": {"service": "web"},
            "metric_labels": labels,
            "weight": 10_000,
            "protocol_hint": {"h2": {}},
        });
        Expected::recorded(Method::Get, &json!({"addresses": {"10.0.0.1:80": content}})).unwrap()
    }

    fn is_equal(expected: &Expected, actual: &Actual) -> bool {
        expected.difference(actual).is_none()
    }

    #[test]
    fn labels_are_compared_merged_and_ours_is_ignored() {
        let expected = recorded(&json!({"pod": "web-0"}));
        let both = [("service", "web"), ("pod", "web-0")];
        assert!(is_equal(&expected, &state(&both)));
        let with_ours = [both[0], both[1], (OUR_LABEL, "east")];
        assert!(is_equal(&expected, &state(&with_ours)));
        assert!(!is_equal(&expected, &state(&both[..1])));
        assert!(!is_equal(
            &expected,
            &state(&[both[0], both[1], ("zone", "a")])
        ));
    }

    #[test]
    fn a_wanted_answer_says_only_what_matters() {
        let wanted = |answer| Expected::wanted(&answer).unwrap();
        let actual = state(&[("service", "web"), ("pod", "web-0")]);
        assert!(is_equal(
            &wanted(json!({"addresses": ["10.0.0.1:80"]})),
            &actual
        ));
        assert!(!is_equal(&wanted(json!({"addresses": []})), &actual));
        assert!(!is_equal(&wanted(json!({"empty": true})), &actual));
        for (content, equal) in [
            (json!({"labels": {"pod": "web-0"}}), true),
            (json!({"labels": {"pod": "web-1"}}), false),
            (json!({"protocol_hint": {"h2": {}}}), true),
            (json!({"protocol_hint": {"opaque": {}}}), false),
            (json!({"tls_identity": null}), true),
            (json!({"protocol_hint": null}), false),
        ] {
            let expected = wanted(json!({"addresses": {"10.0.0.1:80": content.clone()}}));
            assert_eq!(is_equal(&expected, &actual), equal, "{content}");
        }
    }

    #[test]
    fn silence_is_emptiness_and_errors_are_of_two_kinds() {
        let empty =
            Expected::recorded(Method::Get, &json!({"silent": true, "addresses": {}})).unwrap();
        assert!(is_equal(&empty, &Actual::Silence));
        assert!(is_equal(&empty, &Actual::Addresses(Arc::default())));
        assert!(!is_equal(&empty, &Actual::Error(Code::NotFound)));
        let gone = Expected::recorded(Method::Get, &json!({"error": {"code": "UNKNOWN"}})).unwrap();
        assert!(is_equal(&gone, &Actual::Error(Code::NotFound)));
        assert!(!is_equal(&gone, &Actual::Error(Code::InvalidArgument)));
        assert!(!is_equal(&gone, &Actual::Silence));
    }
}
