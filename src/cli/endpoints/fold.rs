//! The state that messages of Linkerd's `Get` add up to, for servers that have nothing better to ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::proto::destination::tls_identity::Strategy;
use crate::proto::destination::update::Update as Message;
use crate::proto::destination::{TlsIdentity, Update, WeightedAddr, protocol_hint};
use crate::proto::meta::metadata;
use crate::proto::net::{TcpAddress, ip_address::Ip};
use crate::report::endpoints::{Api, Endpoint, Report, Resolution, Workload, known};

type Labels = BTreeMap<String, String>;

/// The endpoints that a client of `Get` knows after the messages so far.
#[derive(Debug, Default)]
pub(super) struct Folded {
    endpoints: BTreeMap<SocketAddr, Endpoint>,
}

// === impl Folded ===

impl Folded {
    /// Takes in one message.
    pub(super) fn apply(&mut self, update: Update) {
        match update.update {
            None => {}
            Some(Message::NoEndpoints(_)) => self.endpoints.clear(),
            Some(Message::Remove(set)) => {
                for address in set.addrs.iter().filter_map(socket) {
                    self.endpoints.remove(&address);
                }
            }
            Some(Message::Add(set)) => {
                for address in set.addrs {
                    if let Some(socket) = address.addr.as_ref().and_then(socket) {
                        let endpoint = endpoint(socket, address, &set.metric_labels);
                        self.endpoints.insert(socket, endpoint);
                    }
                }
            }
        }
    }

    /// What is known, in order of address.
    pub(super) fn report(&self, authority: &str) -> Report {
        Report {
            authority: authority.to_owned(),
            api: Api::Destination,
            resolution: Resolution::Unknown,
            members: Vec::new(),
            endpoints: self.endpoints.values().cloned().collect(),
        }
    }
}

fn socket(address: &TcpAddress) -> Option<SocketAddr> {
    let ip = match address.ip.as_ref()?.ip.as_ref()? {
        Ip::Ipv4(bits) => IpAddr::V4(Ipv4Addr::from_bits(*bits)),
        Ip::Ipv6(bits) => {
            let bits = (u128::from(bits.first) << 64) | u128::from(bits.last);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    };
    Some(SocketAddr::new(ip, u16::try_from(address.port).ok()?))
}

fn endpoint(socket: SocketAddr, address: WeightedAddr, set: &Labels) -> Endpoint {
    let own = &address.metric_labels;
    let label = |name: &str| own.get(name).or_else(|| set.get(name)).cloned();
    let label = |name: &str| label(name).and_then(known);
    let workload = |kind: &str, name: Option<String>| {
        name.map(|name| Workload {
            kind: kind.to_owned(),
            name,
            namespace: label("namespace"),
        })
    };
    let referred = address
        .resource_ref
        .as_ref()
        .and_then(|reference| match &reference.kind {
            Some(metadata::Kind::Resource(resource)) => Some(Workload {
                kind: resource.kind.clone(),
                name: resource.name.clone(),
                namespace: known(resource.namespace.clone()),
            }),
            _ => None,
        });
    Endpoint {
        address: socket.to_string(),
        cluster: label("target_cluster"),
        zone: label("zone"),
        node: None,
        hostname: None,
        locality: label("zone_locality").unwrap_or_else(|| "unknown".to_owned()),
        served: true,
        weight: address.weight,
        workload: referred
            .or_else(|| workload("Pod", label("pod")))
            .or_else(|| workload("ExternalWorkload", label("external_workload"))),
        protocol_hint: address
            .protocol_hint
            .and_then(|hint| hint.protocol)
            .map(|protocol| match protocol {
                protocol_hint::Protocol::H2(_) => "h2".to_owned(),
                protocol_hint::Protocol::Opaque(_) => "opaque".to_owned(),
            }),
        identity: address.tls_identity.and_then(identity),
        note: None,
        slice: None,
    }
}

fn identity(identity: TlsIdentity) -> Option<String> {
    match identity.strategy? {
        Strategy::DnsLikeIdentity(dns) => known(dns.name),
        Strategy::UriLikeIdentity(uri) => known(uri.uri),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::destination::{AddrSet, NoEndpoints, WeightedAddrSet};
    use crate::proto::net::IpAddress;

    fn tcp(last: u8) -> TcpAddress {
        let ip = Ip::Ipv4(Ipv4Addr::new(10, 0, 0, last).to_bits());
        TcpAddress {
            ip: Some(IpAddress { ip: Some(ip) }),
            port: 8080,
        }
    }

    fn add(lasts: &[u8]) -> Update {
        let labels = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        let addrs = lasts.iter().map(|last| WeightedAddr {
            addr: Some(tcp(*last)),
            weight: 10_000,
            metric_labels: labels(&[("pod", &format!("web-{last}")), ("zone", "")]),
            ..WeightedAddr::default()
        });
        let set = WeightedAddrSet {
            addrs: addrs.collect(),
            metric_labels: labels(&[("namespace", "shop"), ("target_cluster", "west")]),
        };
        Update {
            update: Some(Message::Add(set)),
        }
    }

    fn remove(lasts: &[u8]) -> Update {
        let set = AddrSet {
            addrs: lasts.iter().map(|last| tcp(*last)).collect(),
        };
        Update {
            update: Some(Message::Remove(set)),
        }
    }

    fn check(messages: &[Update], expected: &[&str]) {
        let mut folded = Folded::default();
        for message in messages {
            folded.apply(message.clone());
        }
        let report = folded.report("web.shop.svc.cluster.local:80");
        let addresses: Vec<_> = report
            .endpoints
            .iter()
            .map(|endpoint| &endpoint.address)
            .collect();
        assert_eq!(addresses, expected);
    }

    #[test]
    fn messages_add_up_to_a_state() {
        check(
            &[add(&[9, 10]), add(&[1])],
            &["10.0.0.1:8080", "10.0.0.9:8080", "10.0.0.10:8080"],
        );
        check(&[add(&[1, 2]), remove(&[2, 3])], &["10.0.0.1:8080"]);
        let empty = Update {
            update: Some(Message::NoEndpoints(NoEndpoints { exists: true })),
        };
        check(&[add(&[1, 2]), empty, Update { update: None }], &[]);
    }

    #[test]
    fn labels_of_the_set_and_of_the_address_are_read() {
        let mut folded = Folded::default();
        folded.apply(add(&[7]));
        let endpoint = &folded.report("").endpoints[0];
        assert_eq!(endpoint.cluster.as_deref(), Some("west"));
        assert_eq!(endpoint.zone, None);
        let workload = endpoint.workload.as_ref().unwrap();
        assert_eq!(
            (workload.kind.as_str(), workload.name.as_str()),
            ("Pod", "web-7")
        );
        assert_eq!(workload.namespace.as_deref(), Some("shop"));
    }
}
