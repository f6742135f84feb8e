//! Views → messages of the destination API. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use prost::Message;

use crate::frontends::grpc::frame;
use crate::index::{
    Delta, Identity, IdentityForm, Joined, Locality, Mesh, MeshPolicy, Protocol, View, ViewEndpoint,
};
use crate::model::{ExternalWorkload, MirrorFacts, Owner, SliceFacts, Text, Workload, Zone};
use crate::proto::destination as pb;
use crate::proto::net;

/// Messages stay below this, well under the 4 MiB that clients accept.
const MESSAGE_BYTES_MAX: usize = 3_500_000;
/// Weight of every endpoint that is not weighted otherwise.
pub(super) const WEIGHT: u32 = 10_000;
/// Weight of endpoints in the client's own zone, where zones are weighted.
const LOCAL_ZONE_WEIGHT: u32 = 100_000;

pub(super) type Labels = BTreeMap<String, String>;

/// Settings that decide what is said of an endpoint.
#[derive(Clone, Debug)]
pub struct Translation {
    /// What the mesh means at an endpoint.
    pub mesh: MeshPolicy,
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
    /// first message (`before` is `None`) tells of emptiness too; after that an empty delta gives no message, and neither
    /// does one of which nothing can be seen in this protocol.
    pub(super) fn frames(&self, delta: &Delta, after: &View, before: Option<&View>) -> Vec<Bytes> {
        let Delta { add, remove } = delta;
        if add.is_empty() && after.endpoints.is_empty() && (before.is_none() || !remove.is_empty())
        {
            let exists = after.exists;
            return vec![update(pb::update::Update::NoEndpoints(pb::NoEndpoints {
                exists,
            }))];
        }
        let add = add
            .iter()
            .filter_map(|endpoint| {
                let said = self.said(endpoint, after);
                let known = before.and_then(|before| {
                    let known = before.endpoint_at(endpoint.socket)?;
                    Some(self.said(known, before))
                });
                (known.as_ref() != Some(&said)).then_some(said)
            })
            .collect();
        let mut frames = Vec::new();
        frames.extend(
            split(add, size_max)
                .map(|part| update(pb::update::Update::Add(weighted_addr_set(part)))),
        );
        frames.extend(split(remove.clone(), |_| 32).map(|part| {
            let addrs = part.into_iter().map(tcp_address).collect();
            update(pb::update::Update::Remove(pb::AddrSet { addrs }))
        }));
        frames
    }

    /// What is said of an endpoint, and the labels that its slice gives to all of them.
    fn said(&self, endpoint: &ViewEndpoint, view: &View) -> (Labels, pb::WeightedAddr) {
        let labels = set_labels(endpoint.slice());
        (labels, self.weighted_addr(endpoint, view))
    }

    /// What is said of an endpoint by itself.
    fn weighted_addr(&self, endpoint: &ViewEndpoint, view: &View) -> pb::WeightedAddr {
        let locality = endpoint.locality(view.zone.as_ref());
        let zone = endpoint.endpoint().zone.as_ref();
        let mut metric_labels = match endpoint.joined() {
            Joined::Pod(workload) => pod_labels(workload, zone),
            Joined::ExternalWorkload(workload) => external_labels(workload, zone),
            Joined::Unreadable | Joined::Held(_) => Labels::from([zone_label(zone)]),
            Joined::Address => Labels::new(),
        };
        metric_labels.insert("zone_locality".into(), locality.as_str().into());
        if view.multicluster && mirrored_cluster(endpoint.slice()).is_none() {
            metric_labels.insert("target_cluster".into(), endpoint.cluster.name.to_string());
        }
        // A view lists no endpoint whose proxy cannot be read.
        let mesh = self.mesh.mesh(endpoint).unwrap_or_default();
        let is_address = matches!(endpoint.joined(), Joined::Address);
        pb::WeightedAddr {
            addr: Some(tcp_address(endpoint.socket)),
            weight: if self.zone_weights && locality == Locality::Local {
                LOCAL_ZONE_WEIGHT
            } else {
                WEIGHT
            },
            metric_labels,
            protocol_hint: mesh.meshed.then(|| protocol_hint(&mesh)),
            http2: self
                .http2
                .filter(|_| mesh.meshed || (is_address && mesh.identity.is_some())),
            tls_identity: mesh.identity.map(tls_identity),
            authority_override: is_address
                .then(|| authority_override(endpoint.slice(), view.port))
                .flatten(),
            resource_ref: None,
        }
    }
}

pub(super) fn protocol_hint(mesh: &Mesh) -> pb::ProtocolHint {
    use pb::protocol_hint::{H2, Opaque, OpaqueTransport, Protocol as Hint};
    pb::ProtocolHint {
        protocol: match mesh.protocol {
            Protocol::Unknown => None,
            Protocol::H2 => Some(Hint::H2(H2 {})),
            Protocol::Opaque => Some(Hint::Opaque(Opaque {})),
        },
        opaque_transport: mesh.inbound_port.map(|port| OpaqueTransport {
            inbound_port: port.into(),
        }),
    }
}

pub(super) fn tls_identity(identity: Identity) -> pb::TlsIdentity {
    use pb::tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity};
    let name = identity.name;
    pb::TlsIdentity {
        strategy: Some(match identity.form {
            IdentityForm::Dns => Strategy::DnsLikeIdentity(DnsLikeIdentity { name }),
            IdentityForm::Uri => Strategy::UriLikeIdentity(UriLikeIdentity { uri: name }),
        }),
        server_name: identity.server_name.map(|name| DnsLikeIdentity { name }),
    }
}

/// The name and port that a gateway is asked for: those of the remote Service.
fn authority_override(slice: &SliceFacts, port: u16) -> Option<pb::AuthorityOverride> {
    let service = slice.mirror.as_ref()?.remote_service.as_ref()?;
    let authority_override = if service.contains(':') {
        format!("[{service}]:{port}")
    } else {
        format!("{service}:{port}")
    };
    Some(pb::AuthorityOverride { authority_override })
}

/// One `add` of several addresses: labels they all have stand once, for the whole set.
fn weighted_addr_set(addrs: Vec<(Labels, pb::WeightedAddr)>) -> pb::WeightedAddrSet {
    let mut common = addrs
        .first()
        .map(|(labels, _)| labels.clone())
        .unwrap_or_default();
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
        let name = slice
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.remote_service.as_deref());
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

pub(super) fn pod_labels(workload: &Workload, zone: Option<&Zone>) -> Labels {
    let template = &workload.facts.template;
    let mut labels = Labels::from([
        ("pod".to_owned(), workload.pod.name.to_string()),
        (
            "serviceaccount".to_owned(),
            template.service_account.to_string(),
        ),
        zone_label(zone),
    ]);
    if let Some(Owner { kind, name }) = workload.owner.as_deref() {
        let kind = match kind.to_lowercase() {
            kind if kind == "job" => "k8s_job".to_owned(),
            kind => kind,
        };
        labels.insert(kind, name.to_string());
    }
    if let Some(namespace) = &template.control_plane_namespace {
        labels.insert("control_plane_ns".into(), namespace.to_string());
    }
    if let Some(hash) = &template.template_hash {
        labels.insert("pod_template_hash".into(), hash.to_string());
    }
    labels
}

pub(super) fn external_labels(workload: &ExternalWorkload, zone: Option<&Zone>) -> Labels {
    let mut labels = Labels::from([
        (
            "external_workload".to_owned(),
            workload.name.name.to_string(),
        ),
        zone_label(zone),
    ]);
    if let Some(Owner { kind, name }) = &workload.facts.owner {
        labels.insert(kind.to_lowercase(), name.to_string());
    }
    labels
}

fn zone_label(zone: Option<&Zone>) -> (String, String) {
    let zone = zone.map(Zone::to_string).unwrap_or_default();
    ("zone".to_owned(), zone)
}

pub(super) fn tcp_address(socket: SocketAddr) -> net::TcpAddress {
    let ip = match socket.ip() {
        IpAddr::V4(ip) => net::ip_address::Ip::Ipv4(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "each half of the address is taken"
            )]
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
    let labels: usize = labels
        .iter()
        .map(|(key, value)| key.len() + value.len() + 16)
        .sum();
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

fn update(update: pb::update::Update) -> Bytes {
    frame(&pb::Update {
        update: Some(update),
    })
}

#[cfg(test)]
mod tests;
