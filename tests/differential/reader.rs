//! Clients: Linkerd's own types decode what comes, and it is folded as a proxy folds it.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::StreamExt as _;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::{
    self as pb, GetDestination, Update, WeightedAddr, protocol_hint, request_match, response_match,
    tls_identity, update,
};
use linkerd2_proxy_api::{http_types, meta, net};
use tonic::{Status, Streaming};
use tributary::frontends::destination::Destination;
use tributary::testing::CLUSTER_DOMAIN;

use super::answer::{Answer, Endpoints, Labels, Profile, Told, length};
use super::history::{Asked, Host, Method};

/// One client with one question. It asks again when it is refused or its stream ends.
pub(crate) struct Reader {
    asked: Asked,
    state: State,
    told: Option<Answer>,
}

enum State {
    Idle,
    Opening(Pin<Box<dyn Future<Output = Result<Stream, Status>>>>),
    Open(Box<Stream>),
}

enum Stream {
    Get(Streaming<Update>),
    GetProfile(Streaming<pb::DestinationProfile>),
}

/// What has come since the last time, in the order in which messages have to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Nothing,
    Add,
    Remove,
    NoEndpoints,
}

// === impl Reader ===

impl Reader {
    pub(crate) fn new(asked: Asked) -> Self {
        Self {
            asked,
            state: State::Idle,
            told: None,
        }
    }

    /// Reads whatever there is, after asking where that has to be. Fails if a message breaks a rule of the protocol.
    ///
    /// `service_exists` says whether the Service that was asked for is there, which `no_endpoints` repeats.
    pub(crate) fn read(
        &mut self,
        destination: &Destination,
        service_exists: bool,
    ) -> Result<Answer, String> {
        if let State::Idle = self.state {
            self.told = None;
            self.state = State::Opening(open(&self.asked, destination.clone()));
        }
        if let State::Opening(opening) = &mut self.state {
            match opening.as_mut().poll(&mut context()) {
                Poll::Pending => return Ok(Answer::Waiting),
                Poll::Ready(Ok(stream)) => self.state = State::Open(Box::new(stream)),
                Poll::Ready(Err(status)) => {
                    self.state = State::Idle;
                    return Ok(Answer::Refused(status.code()));
                }
            }
        }
        let State::Open(stream) = &mut self.state else {
            return Err("no stream".to_owned());
        };
        let before = self.told.clone();
        let (mut came, mut count) = (Came::Nothing, 0);
        loop {
            let told = match &mut **stream {
                Stream::Get(stream) => match stream.poll_next_unpin(&mut context()) {
                    Poll::Pending => break,
                    Poll::Ready(None) => return Ok(self.ended()),
                    Poll::Ready(Some(message)) => {
                        let message =
                            message.map_err(|status| format!("stream failed: {status}"))?;
                        let told = match self.told.take() {
                            Some(Answer::Endpoints(told)) => Some(told),
                            _ => None,
                        };
                        let (told, now) = fold(told, message, service_exists)?;
                        if now < came {
                            return Err(format!("{now:?} after {came:?}"));
                        }
                        came = now;
                        Answer::Endpoints(told)
                    }
                },
                Stream::GetProfile(stream) => match stream.poll_next_unpin(&mut context()) {
                    Poll::Pending => break,
                    Poll::Ready(None) => return Ok(self.ended()),
                    Poll::Ready(Some(message)) => {
                        let message =
                            message.map_err(|status| format!("stream failed: {status}"))?;
                        Answer::Profile(Box::new(profile(message)?))
                    }
                },
            };
            self.told = Some(told);
            count += 1;
        }
        if count > 0 && self.told == before {
            return Err(format!("{count} messages that change nothing"));
        }
        self.told
            .clone()
            .ok_or_else(|| "response headers without a message".to_owned())
    }

    fn ended(&mut self) -> Answer {
        self.state = State::Idle;
        Answer::Ended
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn open(
    asked: &Asked,
    destination: Destination,
) -> Pin<Box<dyn Future<Output = Result<Stream, Status>>>> {
    let request = GetDestination {
        scheme: String::new(),
        path: asked.path(),
        context_token: asked.token(),
    };
    let method = asked.method;
    let mut client = DestinationClient::new(destination);
    Box::pin(async move {
        Ok(match method {
            Method::Get => Stream::Get(client.get(request).await?.into_inner()),
            Method::GetProfile => {
                Stream::GetProfile(client.get_profile(request).await?.into_inner())
            }
        })
    })
}

/// What is known after one more message; `None` before is that nothing has come yet.
fn fold(
    before: Option<Endpoints>,
    message: Update,
    service_exists: bool,
) -> Result<(Endpoints, Came), String> {
    let is_first = before.is_none();
    let mut told = before.unwrap_or_default();
    match message.update.ok_or("an update without content")? {
        update::Update::Add(set) => {
            if set.addrs.is_empty() {
                return Err("an add without addresses".to_owned());
            }
            for addr in set.addrs {
                let (socket, addr) = weighted_addr(addr, &set.metric_labels)?;
                if told.get(&socket) == Some(&addr) {
                    return Err(format!("{socket} is added as it is known already"));
                }
                told.insert(socket, addr);
            }
            Ok((told, Came::Add))
        }
        update::Update::Remove(_) if is_first => Err("the first message is a removal".to_owned()),
        update::Update::Remove(set) => {
            for addr in set.addrs {
                let socket = socket(Some(addr))?;
                if told.remove(&socket).is_none() {
                    return Err(format!("{socket} is removed, which was not there"));
                }
            }
            if told.is_empty() {
                return Err("everything was removed without saying that nothing is left".to_owned());
            }
            Ok((told, Came::Remove))
        }
        update::Update::NoEndpoints(pb::NoEndpoints { exists }) => {
            if !is_first && told.is_empty() {
                return Err("no_endpoints again".to_owned());
            }
            if exists != service_exists {
                return Err(format!(
                    "no_endpoints says that the Service exists: {exists}"
                ));
            }
            Ok((Endpoints::new(), Came::NoEndpoints))
        }
    }
}

fn weighted_addr(
    addr: WeightedAddr,
    set_labels: &HashMap<String, String>,
) -> Result<(SocketAddr, Told), String> {
    let mut labels: Labels = set_labels.clone().into_iter().collect();
    labels.extend(addr.metric_labels);
    let tls = addr.tls_identity;
    let told = Told {
        weight: addr.weight,
        labels,
        identity: match tls.as_ref().map(|tls| tls.strategy.as_ref()) {
            None => None,
            Some(Some(tls_identity::Strategy::DnsLikeIdentity(it))) => {
                Some(format!("dns:{}", it.name))
            }
            Some(Some(tls_identity::Strategy::UriLikeIdentity(it))) => {
                Some(format!("uri:{}", it.uri))
            }
            Some(None) => return Err("an identity without a name".to_owned()),
        },
        server_name: tls.and_then(|tls| Some(tls.server_name?.name)),
        hint: addr.protocol_hint.as_ref().map(|hint| match hint.protocol {
            None => "",
            Some(protocol_hint::Protocol::H2(_)) => "h2",
            Some(protocol_hint::Protocol::Opaque(_)) => "opaque",
        }),
        inbound_port: addr
            .protocol_hint
            .and_then(|hint| Some(hint.opaque_transport?.inbound_port)),
        http2: addr.http2.is_some(),
        authority: addr.authority_override.map(|to| to.authority_override),
    };
    if addr.resource_ref.is_some() {
        return Err("a resource_ref, which nobody sets".to_owned());
    }
    Ok((socket(addr.addr)?, told))
}

fn socket(addr: Option<net::TcpAddress>) -> Result<SocketAddr, String> {
    let addr = addr.ok_or("no address")?;
    let ip = match addr.ip.and_then(|ip| ip.ip).ok_or("no ip")? {
        net::ip_address::Ip::Ipv4(bits) => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        net::ip_address::Ip::Ipv6(net::IPv6 { first, last }) => IpAddr::V6(Ipv6Addr::from_bits(
            u128::from(first) << 64 | u128::from(last),
        )),
    };
    let port = u16::try_from(addr.port).map_err(|_| format!("port {}", addr.port))?;
    Ok(SocketAddr::new(ip, port))
}

fn profile(message: pb::DestinationProfile) -> Result<Profile, String> {
    Ok(Profile {
        name: message.fully_qualified_name,
        opaque: message.opaque_protocol,
        service: resource("core", "Service", message.parent_ref)?
            .map(|it| (it.namespace, it.name, it.port)),
        from: resource("linkerd.io", "ServiceProfile", message.profile_ref)?
            .map(|it| (it.namespace, it.name)),
        budget: message.retry_budget.map(|budget| {
            let ttl = budget.ttl.map(|ttl| length(ttl.seconds, ttl.nanos.into()));
            (
                budget.retry_ratio.to_string(),
                budget.min_retries_per_second,
                ttl,
            )
        }),
        routes: message.routes.iter().map(route).collect::<Result<_, _>>()?,
        overrides: message
            .dst_overrides
            .into_iter()
            .map(|to| (to.authority, to.weight))
            .collect(),
        endpoint: message
            .endpoint
            .map(|addr| weighted_addr(addr, &HashMap::new()))
            .transpose()?,
    })
}

fn resource(
    group: &str,
    kind: &str,
    reference: Option<meta::Metadata>,
) -> Result<Option<meta::Resource>, String> {
    match reference.map(|reference| reference.kind) {
        None => Ok(None),
        Some(Some(meta::metadata::Kind::Resource(it))) if it.group == group && it.kind == kind => {
            Ok(Some(it))
        }
        Some(other) => Err(format!("{other:?} is no {kind}")),
    }
}

/// A route in words, as the rules write it.
fn route(route: &pb::Route) -> Result<String, String> {
    let labels: Vec<String> = route
        .metrics_labels
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    let mut words = vec![labels.join(" "), request_match(route.condition.as_ref())?];
    if route.is_retryable {
        words.push("retryable".to_owned());
    }
    if let Some(timeout) = &route.timeout {
        words.push(format!(
            "timeout {}",
            length(timeout.seconds, timeout.nanos.into())
        ));
    }
    for class in &route.response_classes {
        let condition = class.condition.as_ref().and_then(|it| it.r#match.as_ref());
        let Some(response_match::Match::Status(range)) = condition else {
            return Err(format!("{condition:?} is no range of status"));
        };
        words.push(format!("{}-{} {}", range.min, range.max, class.is_failure));
    }
    Ok(words.join(", "))
}

fn request_match(condition: Option<&pb::RequestMatch>) -> Result<String, String> {
    use http_types::http_method::Type;
    let condition = condition.and_then(|it| it.r#match.as_ref());
    Ok(match condition.ok_or("a route without a condition")? {
        request_match::Match::All(seq) => {
            let all: Result<Vec<_>, _> = seq
                .matches
                .iter()
                .map(|it| request_match(Some(it)))
                .collect();
            format!("all({})", all?.join(" "))
        }
        request_match::Match::Any(_) => return Err("nobody said any".to_owned()),
        request_match::Match::Not(not) => format!("not({})", request_match(Some(not))?),
        request_match::Match::Path(path) => format!("path={}", path.regex),
        request_match::Match::Method(method) => match method.r#type.as_ref().ok_or("no method")? {
            Type::Registered(code) => {
                let method = http_types::http_method::Registered::try_from(*code);
                format!(
                    "method={}",
                    method.map_err(|error| error.to_string())?.as_str_name()
                )
            }
            Type::Unregistered(name) => format!("method={name} (unregistered)"),
        },
    })
}

// === impl Asked ===

impl Asked {
    pub(crate) fn path(&self) -> String {
        format!("{}:{}", self.host_name(), self.port)
    }

    /// The host without port and brackets.
    pub(crate) fn host_text(&self) -> String {
        match self.host {
            Host::Service(service, namespace) => {
                format!("{service}.{namespace}.svc.{CLUSTER_DOMAIN}")
            }
            Host::Instance(instance, service, namespace) => {
                format!("{instance}.{service}.{namespace}.svc.{CLUSTER_DOMAIN}")
            }
            Host::Address(ip) => ip.to_owned(),
        }
    }

    fn host_name(&self) -> String {
        match self.host {
            Host::Address(ip) if ip.contains(':') => format!("[{ip}]"),
            _ => self.host_text(),
        }
    }

    fn token(&self) -> String {
        serde_json::json!({"ns": self.namespace, "nodeName": self.node, "pod": "client"})
            .to_string()
    }
}
