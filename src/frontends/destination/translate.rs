//! Views → messages of the destination API. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::index::{Delta, Joined, Locality, View, ViewEndpoint};
use crate::model::{MirrorFacts, Owner, PortSet, SliceFacts, Text, Workload, Zone};
use crate::proto::destination as pb;
use crate::proto::net;

/// Messages stay below this, well under the 4 MiB that clients accept.
const MESSAGE_BYTES_MAX: usize = 3_500_000;
/// Length of what gRPC puts before each message.
pub(super) const PREFIX_LEN: usize = 5;
/// Weight of every endpoint that is not weighted otherwise.
const WEIGHT: u32 = 10_000;
/// Weight of endpoints in the client's own zone, where zones are weighted.
const LOCAL_ZONE_WEIGHT: u32 = 100_000;

type Labels = BTreeMap<String, String>;

/// Settings that decide what is said of an endpoint.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The control plane's namespace: Pods of this one have identities.
    pub controller_namespace: String,
    /// Ports that are opaque on Pods that do not say otherwise.
    pub default_opaque_ports: PortSet,
    /// Tell proxies to upgrade HTTP/1 to HTTP/2 between meshed Pods.
    pub h2_upgrade: bool,
    /// Send all meshed traffic to the proxy's inbound port, with a transport header.
    pub transport_header: bool,
    /// Weigh endpoints in the client's own zone more than others.
    pub zone_weights: bool,
    /// HTTP/2 settings for connections to meshed endpoints.
    pub http2: Option<Http2Params>,
}

/// HTTP/2 settings that proxies use towards meshed endpoints, as they are sent.
pub type Http2Params = pb::Http2ClientParams;

// === impl Translation ===

impl Translation {
    /// The messages that tell a client of a delta, framed for the wire.
    ///
    /// Additions first, so that a client is never empty in between; removals of everything are one `no_endpoints`. The
    /// first message (`before` is `None`) tells of emptiness too; after that an empty delta gives no message.
    pub(super) fn frames(&self, delta: &Delta, after: &View, before: Option<&View>) -> Vec<Bytes> {
        let mut remove = delta.remove.clone();
        let mut add = Vec::with_capacity(delta.add.len());
        for endpoint in &delta.add {
            match self.weighted_addr(endpoint, after) {
                Some(addr) => add.push((set_labels(endpoint.slice()), addr)),
                None if before.is_some() => remove.push(endpoint.socket),
                None => {}
            }
        }
        let mut frames = Vec::new();
        if add.is_empty() && (before.is_none() || (after.endpoints.is_empty() && !remove.is_empty())) {
            let empty = pb::NoEndpoints {
                exists: after.exists,
            };
            frames.push(frame(pb::update::Update::NoEndpoints(empty)));
            return frames;
        }
        frames.extend(split(add, size_max).map(|part| {
            frame(pb::update::Update::Add(weighted_addr_set(part)))
        }));
        frames.extend(split(remove, |_| 32).map(|part| {
            let addrs = part.into_iter().map(tcp_address).collect();
            frame(pb::update::Update::Remove(pb::AddrSet { addrs }))
        }));
        frames
    }

    /// What is said of an endpoint; `None` if its proxy cannot be told apart from its workload.
    fn weighted_addr(&self, endpoint: &ViewEndpoint, view: &View) -> Option<pb::WeightedAddr> {
        let locality = endpoint.locality(view.zone.as_ref());
        let mut addr = pb::WeightedAddr {
            addr: Some(tcp_address(endpoint.socket)),
            weight: if self.zone_weights && locality == Locality::Local {
                LOCAL_ZONE_WEIGHT
            } else {
                WEIGHT
            },
            ..pb::WeightedAddr::default()
        };
        match endpoint.joined() {
            Joined::Pod(workload) => {
                addr.metric_labels = pod_labels(workload, endpoint.endpoint().zone.as_ref());
                self.mesh(endpoint, workload, &mut addr)?;
            }
            Joined::Unreadable | Joined::Held(_) => {
                let zone = endpoint.endpoint().zone.as_ref().map_or("", Zone::as_str);
                addr.metric_labels.insert("zone".into(), zone.into());
            }
            Joined::Address => self.gateway(endpoint.slice(), view.port, &mut addr),
        }
        let locality = match locality {
            Locality::Local => "local",
            Locality::Remote => "remote",
            Locality::Unknown => "unknown",
        };
        addr.metric_labels
            .insert("zone_locality".into(), locality.into());
        if view.multicluster && mirrored_cluster(endpoint.slice()).is_none() {
            addr.metric_labels
                .insert("target_cluster".into(), endpoint.cluster.name.to_string());
        }
        Some(addr)
    }

    /// What a proxy in front of the workload means for clients.
    fn mesh(
        &self,
        endpoint: &ViewEndpoint,
        workload: &Workload,
        addr: &mut pb::WeightedAddr,
    ) -> Option<()> {
        let pod = &workload.facts;
        let port = endpoint.socket.port();
        let Some(control_plane) = &pod.control_plane_namespace else {
            return Some(());
        };
        if pod.skip_inbound_ports.contains(port) {
            return Some(());
        }
        let own_port = [pod.proxy.admin?, pod.proxy.control?].contains(&port);
        let opaque = pod
            .opaque_ports
            .as_ref()
            .unwrap_or(&self.default_opaque_ports)
            .contains(port);
        let mut hint = pb::ProtocolHint::default();
        if !own_port && (self.transport_header || opaque) {
            let inbound_port = pod.proxy.inbound.filter(|port| *port > 0)?.into();
            hint.opaque_transport = Some(pb::protocol_hint::OpaqueTransport { inbound_port });
        }
        if opaque {
            let opaque = pb::protocol_hint::Opaque {};
            hint.protocol = Some(pb::protocol_hint::Protocol::Opaque(opaque));
        } else if self.h2_upgrade {
            hint.protocol = Some(pb::protocol_hint::Protocol::H2(pb::protocol_hint::H2 {}));
        }
        addr.protocol_hint = Some(hint);
        addr.http2.clone_from(&self.http2);

        let trust_domain = &endpoint.cluster.trust_domain;
        if !trust_domain.is_empty()
            && control_plane.as_str() == self.controller_namespace
            && endpoint.is_vouched_for()
        {
            let name = format!(
                "{}.{}.serviceaccount.identity.{}.{trust_domain}",
                pod.service_account, workload.pod.namespace, self.controller_namespace,
            );
            addr.tls_identity = Some(pb::TlsIdentity {
                strategy: Some(dns_like(name.clone())),
                server_name: Some(pb::tls_identity::DnsLikeIdentity { name }),
            });
        }
        Some(())
    }

    /// What a gateway mirror's slice says of the gateway behind its addresses.
    fn gateway(&self, slice: &SliceFacts, port: u16, addr: &mut pb::WeightedAddr) {
        let Some(mirror) = &slice.mirror else {
            return;
        };
        if let Some(identity) = &mirror.gateway_identity {
            addr.tls_identity = Some(pb::TlsIdentity {
                strategy: Some(dns_like(identity.to_string())),
                server_name: None,
            });
            if self.h2_upgrade {
                addr.protocol_hint = Some(pb::ProtocolHint {
                    protocol: Some(pb::protocol_hint::Protocol::H2(pb::protocol_hint::H2 {})),
                    opaque_transport: None,
                });
            }
        }
        if let Some(service) = &mirror.remote_service {
            let authority_override = if service.contains(':') {
                format!("[{service}]:{port}")
            } else {
                format!("{service}:{port}")
            };
            addr.authority_override = Some(pb::AuthorityOverride { authority_override });
        }
    }
}

/// One `add` of several addresses: labels they all have stand once, for the whole set.
fn weighted_addr_set(addrs: Vec<(Labels, pb::WeightedAddr)>) -> pb::WeightedAddrSet {
    let mut common = addrs.first().map(|(labels, _)| labels.clone()).unwrap_or_default();
    for (labels, _) in &addrs {
        common.retain(|key, value| labels.get(key) == Some(value));
    }
    let addrs = addrs
        .into_iter()
        .map(|(labels, mut addr)| {
            for (key, value) in labels {
                if !common.contains_key(&key) {
                    addr.metric_labels.entry(key).or_insert(value);
                }
            }
            addr
        })
        .collect();
    pb::WeightedAddrSet {
        addrs,
        metric_labels: common,
    }
}

/// Labels that a slice gives to all its addresses.
fn set_labels(slice: &SliceFacts) -> Labels {
    let mut labels = Labels::from([
        ("namespace".to_owned(), slice.service.namespace.to_string()),
        ("service".to_owned(), slice.service.name.to_string()),
    ]);
    if let Some(cluster) = mirrored_cluster(slice) {
        labels.insert("target_cluster".into(), cluster.to_string());
        let name = slice.mirror.as_ref().and_then(|mirror| mirror.remote_service.as_deref());
        let mut parts = name.unwrap_or_default().split('.');
        if let (Some(service), Some(namespace)) = (parts.next(), parts.next()) {
            labels.insert("target_service".into(), service.to_owned());
            labels.insert("target_service_namespace".into(), namespace.to_owned());
        }
    }
    labels
}

fn mirrored_cluster(slice: &SliceFacts) -> Option<&Text> {
    let mirror: Option<&MirrorFacts> = slice.mirror.as_deref();
    mirror?.cluster.as_ref()
}

fn pod_labels(workload: &Workload, zone: Option<&Zone>) -> Labels {
    let pod = &workload.facts;
    let mut labels = Labels::from([
        ("pod".to_owned(), workload.pod.name.to_string()),
        ("serviceaccount".to_owned(), pod.service_account.to_string()),
        ("zone".to_owned(), zone.map(Zone::to_string).unwrap_or_default()),
    ]);
    if let Some(Owner { kind, name }) = &workload.owner {
        let kind = match kind.to_lowercase() {
            kind if kind == "job" => "k8s_job".to_owned(),
            kind => kind,
        };
        labels.insert(kind, name.to_string());
    }
    if let Some(namespace) = &pod.control_plane_namespace {
        labels.insert("control_plane_ns".into(), namespace.to_string());
    }
    if let Some(hash) = &pod.template_hash {
        labels.insert("pod_template_hash".into(), hash.to_string());
    }
    labels
}

fn dns_like(name: String) -> pb::tls_identity::Strategy {
    pb::tls_identity::Strategy::DnsLikeIdentity(pb::tls_identity::DnsLikeIdentity { name })
}

fn tcp_address(socket: SocketAddr) -> net::TcpAddress {
    let ip = match socket.ip() {
        IpAddr::V4(ip) => net::ip_address::Ip::Ipv4(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            #[expect(clippy::cast_possible_truncation, reason = "each half of the address is taken")]
            let (first, last) = ((bits >> 64) as u64, bits as u64);
            net::ip_address::Ip::Ipv6(net::IPv6 { first, last })
        }
    };
    net::TcpAddress {
        ip: Some(net::IpAddress { ip: Some(ip) }),
        port: socket.port().into(),
    }
}

/// What an address may take in a message, with every label of its slice repeated on it.
fn size_max((labels, addr): &(Labels, pb::WeightedAddr)) -> usize {
    let labels: usize = labels.iter().map(|(key, value)| key.len() + value.len() + 16).sum();
    addr.encoded_len() + labels + 16
}

/// Splits items over as few messages as their sizes allow; no item, no message.
fn split<T>(items: Vec<T>, size: impl Fn(&T) -> usize) -> impl Iterator<Item = Vec<T>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for item in items {
        let more = size(&item);
        if bytes + more > MESSAGE_BYTES_MAX && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += more;
        part.push(item);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts.into_iter()
}

/// A message as it goes over the wire: flag, length, bytes.
fn frame(update: pb::update::Update) -> Bytes {
    let update = pb::Update {
        update: Some(update),
    };
    let len = update.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_LEN + len);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    bytes.put(update.encode_to_vec().as_slice());
    bytes.freeze()
}
