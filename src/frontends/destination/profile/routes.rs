//! What a ServiceProfile says → messages.

use std::collections::BTreeMap;

use crate::model::{
    HttpMethod, Override, RequestMatch, ResponseClass, ResponseMatch, RetryBudget, Route,
    SignedDuration,
};
use crate::proto::destination as pb;
use crate::proto::http_types;

pub(super) fn routes(routes: &[Route]) -> Vec<pb::Route> {
    routes
        .iter()
        .map(|route| pb::Route {
            condition: Some(request_match(&route.condition)),
            response_classes: route.classes.iter().map(response_class).collect(),
            metrics_labels: BTreeMap::from([("route".to_owned(), route.name.to_string())]),
            is_retryable: route.retryable,
            timeout: route.timeout.map(duration),
        })
        .collect()
}

pub(super) fn retry_budget(budget: RetryBudget) -> pb::RetryBudget {
    pb::RetryBudget {
        retry_ratio: budget.ratio,
        min_retries_per_second: budget.min_per_second,
        ttl: (!budget.ttl.is_zero()).then(|| duration(budget.ttl)),
    }
}

/// Those without a port are asked for at the port that the client asked for.
pub(super) fn dst_overrides(overrides: &[Override], port: u16) -> Vec<pb::WeightedDst> {
    overrides
        .iter()
        .map(|to| pb::WeightedDst {
            authority: with_port(&to.authority, port),
            weight: to.weight,
            backend_ref: None,
        })
        .collect()
}

fn with_port(authority: &str, port: u16) -> String {
    if has_port(authority) {
        authority.to_owned()
    } else if authority.contains(':') && !authority.starts_with('[') {
        format!("[{authority}]:{port}")
    } else {
        format!("{authority}:{port}")
    }
}

/// Whether it is `host:port` or `[host]:port`, whatever stands for the port.
fn has_port(authority: &str) -> bool {
    let Some((host, port)) = authority.rsplit_once(':') else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.strip_suffix(']') {
            Some(host) => host,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

fn request_match(condition: &RequestMatch) -> pb::RequestMatch {
    use pb::request_match::{Match, Seq};
    let seq = |all: &[RequestMatch]| Seq {
        matches: all.iter().map(request_match).collect(),
    };
    pb::RequestMatch {
        r#match: Some(match condition {
            RequestMatch::All(all) => Match::All(seq(all)),
            RequestMatch::Any(any) => Match::Any(seq(any)),
            RequestMatch::Not(one) => Match::Not(Box::new(request_match(one))),
            RequestMatch::Path(regex) => Match::Path(pb::PathMatch {
                regex: regex.to_string(),
            }),
            RequestMatch::Method(method) => Match::Method(http_method(method)),
        }),
    }
}

fn http_method(method: &HttpMethod) -> http_types::HttpMethod {
    use http_types::http_method::{Registered, Type};
    let method = method.as_str();
    http_types::HttpMethod {
        r#type: Some(match Registered::from_str_name(method) {
            Some(registered) => Type::Registered(registered.into()),
            None => Type::Unregistered(method.to_owned()),
        }),
    }
}

fn response_class(class: &ResponseClass) -> pb::ResponseClass {
    pb::ResponseClass {
        condition: Some(response_match(&class.condition)),
        is_failure: class.failure,
    }
}

fn response_match(condition: &ResponseMatch) -> pb::ResponseMatch {
    use pb::response_match::{Match, Seq};
    let seq = |all: &[ResponseMatch]| Seq {
        matches: all.iter().map(response_match).collect(),
    };
    pb::ResponseMatch {
        r#match: Some(match condition {
            ResponseMatch::All(all) => Match::All(seq(all)),
            ResponseMatch::Any(any) => Match::Any(seq(any)),
            ResponseMatch::Not(one) => Match::Not(Box::new(response_match(one))),
            ResponseMatch::Status(range) => Match::Status(pb::HttpStatusRange {
                min: range.min.into(),
                max: range.max.into(),
            }),
        }),
    }
}

fn duration(duration: SignedDuration) -> prost_types::Duration {
    let (seconds, nanos) = duration.parts();
    prost_types::Duration { seconds, nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_without_a_port_get_the_port_asked_for() {
        for (authority, expected) in [
            ("web.shop", "web.shop:80"),
            ("web.shop:9", "web.shop:9"),
            ("10.0.0.1", "10.0.0.1:80"),
            ("fd00::1", "[fd00::1]:80"),
            ("[fd00::1]", "[fd00::1]:80"),
            ("[fd00::1]:9", "[fd00::1]:9"),
            ("web:http", "web:http"),
            ("web:", "web:"),
            (":9", ":9"),
        ] {
            assert_eq!(with_port(authority, 80), expected);
        }
    }

    #[test]
    fn methods_are_registered_or_their_own() {
        use http_types::http_method::Type;
        for (method, expected) in [
            ("GET", Type::Registered(0)),
            ("trace", Type::Registered(8)),
            ("purge", Type::Unregistered("PURGE".into())),
        ] {
            assert_eq!(http_method(&HttpMethod::new(method)).r#type, Some(expected));
        }
    }
}
