//! Profiles in the form of the recordings: as JSON, with the names of the protocol, and without fields that are not set.

use std::net::{IpAddr, SocketAddr};

use linkerd2_proxy_api::destination::{
    DestinationProfile, RequestMatch, ResponseMatch, RetryBudget, Route, WeightedAddr,
    request_match, response_match,
};
use linkerd2_proxy_api::http_types::{HttpMethod, http_method};
use linkerd2_proxy_api::meta::{Metadata, metadata};
use serde_json::{Map, Value, json};

use super::answer::{content, without_defaults};

/// A profile as it is compared.
pub fn to_json(profile: &DestinationProfile) -> Value {
    let list = |list: Vec<Value>| {
        if list.is_empty() {
            Value::Null
        } else {
            list.into()
        }
    };
    let option = |value: Option<Value>| value.unwrap_or(Value::Null);
    let overrides = profile.dst_overrides.iter().map(|to| {
        without_defaults(&[
            ("authority", json!(to.authority)),
            ("weight", json!(to.weight)),
        ])
    });
    let json = without_defaults(&[
        ("routes", list(profile.routes.iter().map(route).collect())),
        (
            "retry_budget",
            option(profile.retry_budget.as_ref().map(retry_budget)),
        ),
        ("dst_overrides", list(overrides.collect())),
        ("opaque_protocol", json!(profile.opaque_protocol)),
        ("fully_qualified_name", json!(profile.fully_qualified_name)),
        ("endpoint", option(profile.endpoint.as_ref().map(endpoint))),
        (
            "parent_ref",
            option(profile.parent_ref.as_ref().map(reference)),
        ),
        (
            "profile_ref",
            option(profile.profile_ref.as_ref().map(reference)),
        ),
    ]);
    normal(&json)
}

/// A profile without what does not count: a reference to nothing, and the kind of a `ServiceProfile`.
pub fn normal(profile: &Value) -> Value {
    let mut profile = profile.clone();
    if let Some(fields) = profile.as_object_mut() {
        let resource = fields.get_mut("profile_ref");
        let resource = resource.and_then(|reference| reference["resource"].as_object_mut());
        let is_named = resource.is_some_and(|resource| {
            resource.remove("kind");
            resource.contains_key("name")
        });
        if !is_named {
            fields.remove("profile_ref");
        }
    }
    profile
}

/// Whether all that is wanted is there. `null` wants that nothing is there; lists have to be equally long.
pub fn has(actual: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Null => actual.is_null(),
        Value::Object(wanted) => wanted
            .iter()
            .all(|(key, wanted)| has(actual.get(key).unwrap_or(&Value::Null), wanted)),
        Value::Array(wanted) => actual.as_array().is_some_and(|actual| {
            actual.len() == wanted.len()
                && actual
                    .iter()
                    .zip(wanted)
                    .all(|(actual, wanted)| has(actual, wanted))
        }),
        wanted => actual == wanted,
    }
}

fn endpoint(endpoint: &WeightedAddr) -> Value {
    let mut json = content(endpoint);
    if !endpoint.metric_labels.is_empty() {
        json["metric_labels"] = json!(endpoint.metric_labels);
    }
    if let Some(address) = &endpoint.addr
        && let Some(ip) = &address.ip
        && let (Ok(ip), Ok(port)) = (IpAddr::try_from(*ip), u16::try_from(address.port))
    {
        json["addr"] = json!(SocketAddr::new(ip, port).to_string());
    }
    json
}

fn retry_budget(budget: &RetryBudget) -> Value {
    // As 32 bits are written, and not as the same number in 64 bits would be.
    let ratio: f64 = budget.retry_ratio.to_string().parse().unwrap_or(f64::NAN);
    let ratio = if ratio == 0.0 {
        Value::Null
    } else {
        json!(ratio)
    };
    without_defaults(&[
        ("retry_ratio", ratio),
        (
            "min_retries_per_second",
            json!(budget.min_retries_per_second),
        ),
        ("ttl", budget.ttl.map_or(Value::Null, seconds)),
    ])
}

fn route(route: &Route) -> Value {
    let mut json = Map::new();
    if let Some(condition) = &route.condition {
        json.insert("condition".into(), request(condition));
    }
    if !route.response_classes.is_empty() {
        let classes = route.response_classes.iter().map(|class| {
            let condition = class.condition.as_ref().map_or(Value::Null, response);
            without_defaults(&[
                ("condition", condition),
                ("is_failure", json!(class.is_failure)),
            ])
        });
        json.insert("response_classes".into(), classes.collect());
    }
    if !route.metrics_labels.is_empty() {
        json.insert("metrics_labels".into(), json!(route.metrics_labels));
    }
    if route.is_retryable {
        json.insert("is_retryable".into(), json!(true));
    }
    if let Some(timeout) = route.timeout {
        json.insert("timeout".into(), seconds(timeout));
    }
    json.into()
}

fn request(condition: &RequestMatch) -> Value {
    let seq =
        |matches: &[RequestMatch]| matches_of(&matches.iter().map(request).collect::<Vec<_>>());
    match &condition.r#match {
        None => json!({}),
        Some(request_match::Match::All(all)) => json!({"all": seq(&all.matches)}),
        Some(request_match::Match::Any(any)) => json!({"any": seq(&any.matches)}),
        Some(request_match::Match::Not(one)) => json!({"not": request(one)}),
        Some(request_match::Match::Path(path)) => {
            json!({"path": without_defaults(&[("regex", json!(path.regex))])})
        }
        Some(request_match::Match::Method(of)) => json!({"method": method(of)}),
    }
}

fn response(condition: &ResponseMatch) -> Value {
    let seq =
        |matches: &[ResponseMatch]| matches_of(&matches.iter().map(response).collect::<Vec<_>>());
    match &condition.r#match {
        None => json!({}),
        Some(response_match::Match::All(all)) => json!({"all": seq(&all.matches)}),
        Some(response_match::Match::Any(any)) => json!({"any": seq(&any.matches)}),
        Some(response_match::Match::Not(one)) => json!({"not": response(one)}),
        Some(response_match::Match::Status(range)) => {
            let ends = [("min", json!(range.min)), ("max", json!(range.max))];
            json!({"status": without_defaults(&ends)})
        }
    }
}

fn matches_of(matches: &[Value]) -> Value {
    if matches.is_empty() {
        json!({})
    } else {
        json!({"matches": matches})
    }
}

fn method(method: &HttpMethod) -> Value {
    match &method.r#type {
        None => json!({}),
        Some(http_method::Type::Registered(number)) => {
            let name = http_method::Registered::try_from(*number);
            json!({"registered": name.map_or("?", |name| name.as_str_name())})
        }
        Some(http_method::Type::Unregistered(name)) => json!({"unregistered": name}),
    }
}

fn reference(reference: &Metadata) -> Value {
    match &reference.kind {
        None => json!({}),
        Some(metadata::Kind::Default(name)) => json!({"default": name}),
        Some(metadata::Kind::Resource(resource)) => json!({"resource": without_defaults(&[
            ("group", json!(resource.group)),
            ("kind", json!(resource.kind)),
            ("name", json!(resource.name)),
            ("namespace", json!(resource.namespace)),
            ("section", json!(resource.section)),
            ("port", json!(resource.port)),
        ])}),
    }
}

/// A duration as JSON has it for protocol messages: with as many groups of three digits as it takes.
fn seconds(duration: prost_types::Duration) -> Value {
    let prost_types::Duration { seconds, nanos } = duration;
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
    let text = match nanos {
        0 => format!("{sign}{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{sign}{seconds}.{:03}s", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!("{sign}{seconds}.{:06}s", nanos / 1_000),
        _ => format!("{sign}{seconds}.{nanos:09}s"),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_nothing_and_the_kind_of_a_profile_do_not_count() {
        let with = |resource: Value| normal(&json!({"profile_ref": {"resource": resource}}));
        assert_eq!(with(json!({"group": "linkerd.io"})), json!({}));
        assert_eq!(
            with(json!({"kind": "ServiceProfile", "name": "web"})),
            with(json!({"name": "web"}))
        );
    }

    #[test]
    fn what_is_wanted_is_a_part_of_what_is_there() {
        let actual = json!({"a": {"b": 1, "c": 2}, "d": [{"e": 1}, {}]});
        for (wanted, is_there) in [
            (json!({}), true),
            (json!({"a": {"b": 1}}), true),
            (json!({"a": {"b": 2}}), false),
            (json!({"a": {"x": null}}), true),
            (json!({"a": null}), false),
            (json!({"d": [{}, {}]}), true),
            (json!({"d": [{}]}), false),
        ] {
            assert_eq!(has(&actual, &wanted), is_there, "{wanted}");
        }
    }

    #[test]
    fn durations_have_groups_of_three_digits() {
        for (seconds, nanos, expected) in [
            (3, 0, "3s"),
            (0, 1_000, "0.000001s"),
            (-1, -500_000_000, "-1.500s"),
            (0, 1, "0.000000001s"),
        ] {
            let duration = prost_types::Duration { seconds, nanos };
            assert_eq!(super::seconds(duration), expected);
        }
    }
}
