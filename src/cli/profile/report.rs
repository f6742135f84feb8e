//! A profile in the words of the command line.
//!
//! The serialized form is an interface: names stay, fields are only added, and every field is always there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use crate::cli::text::short_identity;
use crate::proto::destination as pb;
use crate::proto::http_types::{HttpMethod, http_method};
use crate::proto::meta::{Metadata, metadata};
use crate::proto::net;

/// What a server says of an authority.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// What was asked for.
    authority: String,
    /// Full name of the Service, if the authority is one.
    service: Option<String>,
    /// The ServiceProfile that applies, as `namespace/name`.
    service_profile: Option<String>,
    /// Whether bytes must not be interpreted.
    opaque: bool,
    /// How many retries are allowed.
    retry_budget: Option<RetryBudget>,
    /// Classes of requests, in order.
    routes: Vec<Route>,
    /// Who else gets a share of the traffic.
    overrides: Vec<Override>,
    /// What is known of the address, if the authority is one.
    endpoint: Option<Endpoint>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryBudget {
    ratio: f32,
    min_per_second: u32,
    ttl: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Route {
    name: String,
    condition: String,
    failures: Vec<String>,
    retryable: bool,
    timeout: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Override {
    authority: String,
    weight: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    address: String,
    labels: BTreeMap<String, String>,
    identity: Option<String>,
    protocol_hint: Option<&'static str>,
    inbound_port: Option<u32>,
}

// === impl Report ===

impl Report {
    pub(super) fn new(authority: &str, profile: &pb::DestinationProfile) -> Self {
        Self {
            authority: authority.to_owned(),
            service: filled(&profile.fully_qualified_name),
            service_profile: profile.profile_ref.as_ref().and_then(object_name),
            opaque: profile.opaque_protocol,
            retry_budget: profile.retry_budget.as_ref().map(|budget| RetryBudget {
                ratio: budget.retry_ratio,
                min_per_second: budget.min_retries_per_second,
                ttl: budget.ttl.map(duration),
            }),
            routes: profile.routes.iter().map(Route::new).collect(),
            overrides: profile
                .dst_overrides
                .iter()
                .map(|to| Override {
                    authority: to.authority.clone(),
                    weight: to.weight,
                })
                .collect(),
            endpoint: profile.endpoint.as_ref().map(Endpoint::new),
        }
    }

    /// Whether nothing at all is said.
    fn is_empty(&self) -> bool {
        self.service.is_none() && self.endpoint.is_none()
    }

    /// The profile for people: what it is about, then a line for each thing that is said.
    pub(super) fn table(&self) -> String {
        let mut lines = Vec::new();
        if self.is_empty() {
            lines.push("nothing is said: the Service does not define the port".to_owned());
        }
        if let Some(service) = &self.service {
            lines.push(format!("service        {service}"));
            let profile = self.service_profile.as_deref().unwrap_or("none");
            lines.push(format!("ServiceProfile {profile}"));
        }
        if let Some(endpoint) = &self.endpoint {
            lines.extend(endpoint.lines());
        }
        if !self.is_empty() {
            let protocol = if self.opaque {
                "opaque: bytes are not interpreted"
            } else {
                "detected"
            };
            lines.push(format!("protocol       {protocol}"));
        }
        if let Some(budget) = &self.retry_budget {
            let ttl = budget.ttl.as_deref().unwrap_or("no time");
            lines.push(format!(
                "retries        {} for each request, {} per second at least, over {ttl}",
                budget.ratio, budget.min_per_second
            ));
        }
        lines.extend(self.routes.iter().map(Route::line));
        for to in &self.overrides {
            lines.push(format!(
                "sent to        {} weight {}",
                to.authority, to.weight
            ));
        }
        let mut text = format!("{}\n", self.authority);
        for line in lines {
            text.extend(["  ", &line, "\n"]);
        }
        text
    }
}

// === impl Route ===

impl Route {
    fn new(route: &pb::Route) -> Self {
        let failures = route
            .response_classes
            .iter()
            .filter(|class| class.is_failure);
        Self {
            name: route
                .metrics_labels
                .get("route")
                .cloned()
                .unwrap_or_default(),
            condition: route.condition.as_ref().map_or_else(String::new, request),
            failures: failures
                .filter_map(|class| class.condition.as_ref())
                .map(response)
                .collect(),
            retryable: route.is_retryable,
            timeout: route.timeout.map(duration),
        }
    }

    fn line(&self) -> String {
        let mut line = format!("route          {}: {}", self.name, self.condition);
        if let Some(timeout) = &self.timeout {
            line.extend([", within ", timeout]);
        }
        if self.retryable {
            line.push_str(", may be sent again");
        }
        for failure in &self.failures {
            line.extend([", fails with ", failure]);
        }
        line
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn new(endpoint: &pb::WeightedAddr) -> Self {
        use pb::protocol_hint::Protocol;
        use pb::tls_identity::Strategy;
        let hint = endpoint.protocol_hint.as_ref();
        let identity = endpoint.tls_identity.as_ref();
        Self {
            address: endpoint.addr.as_ref().map_or_else(String::new, address),
            labels: endpoint.metric_labels.clone(),
            identity: identity.and_then(|identity| match identity.strategy.as_ref()? {
                Strategy::DnsLikeIdentity(dns) => Some(dns.name.clone()),
                Strategy::UriLikeIdentity(uri) => Some(uri.uri.clone()),
            }),
            protocol_hint: hint.and_then(|hint| match hint.protocol.as_ref()? {
                Protocol::H2(_) => Some("h2"),
                Protocol::Opaque(_) => Some("opaque"),
            }),
            inbound_port: hint
                .and_then(|hint| hint.opaque_transport.as_ref())
                .map(|transport| transport.inbound_port),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("address        {}", self.address)];
        let labels = self.labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<_> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let workload = if labels.is_empty() {
            "none is known".to_owned()
        } else {
            labels.join(" ")
        };
        lines.push(format!("workload       {workload}"));
        if let Some(identity) = &self.identity {
            lines.push(format!("identity       {}", short_identity(identity)));
        }
        if let Some(hint) = self.protocol_hint {
            let mut line = format!("between proxies {hint}");
            if let Some(port) = self.inbound_port {
                write!(line, " at port {port}").ok();
            }
            lines.push(line);
        }
        lines
    }
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn object_name(reference: &Metadata) -> Option<String> {
    match reference.kind.as_ref()? {
        metadata::Kind::Resource(resource) if !resource.name.is_empty() => {
            Some(format!("{}/{}", resource.namespace, resource.name))
        }
        metadata::Kind::Resource(_) | metadata::Kind::Default(_) => None,
    }
}

fn request(condition: &pb::RequestMatch) -> String {
    use pb::request_match::Match;
    match &condition.r#match {
        None => String::new(),
        Some(Match::All(all)) => joined(" and ", all.matches.iter().map(request)),
        Some(Match::Any(any)) => joined(" or ", any.matches.iter().map(request)),
        Some(Match::Not(one)) => format!("not {}", request(one)),
        Some(Match::Path(path)) => path.regex.clone(),
        Some(Match::Method(of)) => method(of),
    }
}

fn response(condition: &pb::ResponseMatch) -> String {
    use pb::response_match::Match;
    match &condition.r#match {
        None => String::new(),
        Some(Match::All(all)) => joined(" and ", all.matches.iter().map(response)),
        Some(Match::Any(any)) => joined(" or ", any.matches.iter().map(response)),
        Some(Match::Not(one)) => format!("not {}", response(one)),
        Some(Match::Status(range)) => format!("{}-{}", range.min, range.max),
    }
}

fn joined(word: &str, parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<_> = parts.collect();
    match (&parts[..], word) {
        ([], " and ") => "anything".to_owned(),
        ([], _) => "nothing".to_owned(),
        (parts, word) => format!("({})", parts.join(word)),
    }
}

fn method(method: &HttpMethod) -> String {
    match &method.r#type {
        None => String::new(),
        Some(http_method::Type::Registered(number)) => {
            let name = http_method::Registered::try_from(*number);
            name.map_or("?", |name| name.as_str_name()).to_owned()
        }
        Some(http_method::Type::Unregistered(name)) => name.clone(),
    }
}

fn duration(duration: prost_types::Duration) -> String {
    let prost_types::Duration { seconds, nanos } = duration;
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let fraction = format!("{:09}", nanos.unsigned_abs());
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}s", seconds.unsigned_abs())
}

fn address(address: &net::TcpAddress) -> String {
    let port = u16::try_from(address.port).unwrap_or_default();
    let ip = match address.ip.as_ref().and_then(|ip| ip.ip.as_ref()) {
        None => return String::new(),
        Some(net::ip_address::Ip::Ipv4(bits)) => Ipv4Addr::from_bits(*bits).into(),
        Some(net::ip_address::Ip::Ipv6(net::IPv6 { first, last })) => {
            Ipv6Addr::from_bits(u128::from(*first) << 64 | u128::from(*last)).into()
        }
    };
    SocketAddr::new(ip, port).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pb::request_match::{Match, Seq};

    fn check(profile: &pb::DestinationProfile, expected: &str) {
        assert_eq!(Report::new("web.shop:80", profile).table(), expected);
    }

    #[test]
    fn a_service_is_shown_with_its_routes() {
        let path = pb::RequestMatch {
            r#match: Some(Match::Path(pb::PathMatch {
                regex: "/cart".into(),
            })),
        };
        let get = pb::RequestMatch {
            r#match: Some(Match::Method(HttpMethod {
                r#type: Some(http_method::Type::Registered(0)),
            })),
        };
        let profile = pb::DestinationProfile {
            fully_qualified_name: "web.shop.svc.cluster.local".into(),
            retry_budget: Some(pb::RetryBudget {
                retry_ratio: 0.2,
                min_retries_per_second: 10,
                ttl: Some(prost_types::Duration {
                    seconds: 10,
                    nanos: 0,
                }),
            }),
            routes: vec![pb::Route {
                condition: Some(pb::RequestMatch {
                    r#match: Some(Match::All(Seq {
                        matches: vec![get, path],
                    })),
                }),
                metrics_labels: BTreeMap::from([("route".into(), "cart".into())]),
                is_retryable: true,
                timeout: Some(prost_types::Duration {
                    seconds: 1,
                    nanos: 500_000_000,
                }),
                ..pb::Route::default()
            }],
            dst_overrides: vec![pb::WeightedDst {
                authority: "web-2.shop:80".into(),
                weight: 10_000,
                backend_ref: None,
            }],
            ..pb::DestinationProfile::default()
        };
        check(
            &profile,
            "web.shop:80\n\
             \x20 service        web.shop.svc.cluster.local\n\
             \x20 ServiceProfile none\n\
             \x20 protocol       detected\n\
             \x20 retries        0.2 for each request, 10 per second at least, over 10s\n\
             \x20 route          cart: (GET and /cart), within 1.5s, may be sent again\n\
             \x20 sent to        web-2.shop:80 weight 10000\n",
        );
    }

    #[test]
    fn an_address_is_shown_with_its_workload() {
        let profile = pb::DestinationProfile {
            opaque_protocol: true,
            endpoint: Some(pb::WeightedAddr {
                addr: Some(net::TcpAddress {
                    ip: Some(net::IpAddress {
                        ip: Some(net::ip_address::Ip::Ipv4(0x0a00_0001)),
                    }),
                    port: 80,
                }),
                metric_labels: BTreeMap::from([
                    ("pod".into(), "web-0".into()),
                    ("zone".into(), String::new()),
                ]),
                ..pb::WeightedAddr::default()
            }),
            ..pb::DestinationProfile::default()
        };
        check(
            &profile,
            "web.shop:80\n\
             \x20 address        10.0.0.1:80\n\
             \x20 workload       pod=web-0\n\
             \x20 protocol       opaque: bytes are not interpreted\n",
        );
    }

    #[test]
    fn an_empty_profile_says_why() {
        check(
            &pb::DestinationProfile::default(),
            "web.shop:80\n  nothing is said: the Service does not define the port\n",
        );
    }
}
