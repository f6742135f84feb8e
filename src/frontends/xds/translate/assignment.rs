//! The endpoints of a name: localities, priorities, weights, health.
//!
//! What is made here is valid for the strictest of the known clients: a locality is always there and listed once for a
//! priority, an address is listed once, priorities have no gaps, weights are never 0.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use prost::Message;

use super::super::client::Detail;
use super::super::resource::{Fingerprint, Kind, Resource};
use super::EDITION;
use crate::index::IdentityForm;
use crate::index::{MeshPolicy, ViewEndpoint};
use crate::model::{ClusterName, Text};
use crate::proto::xds::core::{
    Address, HealthStatus, Locality, Metadata, SocketAddress, address, socket_address,
};
use crate::proto::xds::endpoint::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint,
};
use crate::proto::xds::protobuf::{Struct, UInt32Value, Value, value};

/// The namespace of metadata by which Envoy chooses a transport socket.
const TRANSPORT_SOCKET_MATCH: &str = "envoy.transport_socket_match";
/// The namespace of metadata by which Envoy makes subsets.
const SUBSETS: &str = "envoy.lb";

/// The endpoints of a name, in order.
#[derive(Debug, Default)]
pub(in super::super) struct Assignment {
    members: Vec<Member>,
    detail: Detail,
}

/// One endpoint. The order is that in which they are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Member {
    priority: u32,
    zone: Text,
    socket: SocketAddr,
    draining: bool,
    cluster: ClusterName,
    identity: Option<String>,
}

// === impl Member ===

impl Member {
    /// What is said of an endpoint; `None` if only a mesh proxy can reach what is behind it.
    ///
    /// A gateway of another cluster wants to be told where to go in a header that no client of xDS can send.
    pub(in super::super) fn new(
        endpoint: &ViewEndpoint,
        priority: u32,
        draining: bool,
        mesh: &MeshPolicy,
    ) -> Option<Self> {
        let mirror = endpoint.slice().mirror.as_deref();
        if mirror.is_some_and(|mirror| {
            mirror.gateway_identity.is_some() || mirror.remote_service.is_some()
        }) {
            return None;
        }
        let identity = mesh.mesh(endpoint).ok().and_then(|mesh| mesh.identity);
        Some(Self {
            priority,
            zone: endpoint
                .endpoint()
                .zone
                .as_ref()
                .map_or_else(Text::default, |zone| zone.text().clone()),
            socket: endpoint.socket,
            draining,
            cluster: endpoint.cluster.name.clone(),
            identity: identity
                .filter(|identity| identity.form == IdentityForm::Dns)
                .map(|identity| identity.name),
        })
    }
}

#[cfg(test)]
impl Member {
    /// An endpoint out of nothing.
    pub(in super::super) fn sample(
        socket: SocketAddr,
        zone: &str,
        priority: u32,
        identity: Option<&str>,
    ) -> Self {
        Self {
            priority,
            zone: zone.into(),
            socket,
            draining: false,
            cluster: "home".into(),
            identity: identity.map(ToOwned::to_owned),
        }
    }

    pub(in super::super) fn socket(&self) -> SocketAddr {
        self.socket
    }
}

// === impl Assignment ===

impl Assignment {
    /// Puts endpoints in order. Priorities that nobody has are left out.
    pub(in super::super) fn new(mut members: Vec<Member>, detail: Detail) -> Self {
        members.sort_unstable();
        let mut priorities: Vec<_> = members.iter().map(|member| member.priority).collect();
        priorities.dedup();
        for member in &mut members {
            let position = priorities.binary_search(&member.priority).unwrap_or(0);
            member.priority = u32::try_from(position).unwrap_or(u32::MAX);
        }
        Self { members, detail }
    }

    /// Number of endpoints.
    pub(in super::super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The resource, under the name it was asked for by.
    pub(in super::super) fn resource(&self, name: &str) -> Arc<Resource> {
        let mut print = Fingerprint::default();
        print
            .number(EDITION)
            .number(Kind::Assignment.index() as u64)
            .text(name)
            .number(self.detail as u64);
        for member in &self.members {
            self.print(member, &mut print);
        }
        let message = self.message(name).encode_to_vec();
        Arc::new(Resource::new(
            Kind::Assignment,
            name,
            print.version(),
            &message,
        ))
    }

    /// Adds to a version what is said of an endpoint, and nothing else.
    fn print(&self, member: &Member, print: &mut Fingerprint) {
        print
            .number(u64::from(member.priority))
            .text(&member.zone)
            .number(u64::from(member.draining))
            .number(u64::from(member.socket.port()));
        match member.socket.ip() {
            std::net::IpAddr::V4(ip) => print.number(4).number(u64::from(u32::from(ip))),
            std::net::IpAddr::V6(ip) => {
                let [high, low] = [u128::from(ip) >> 64, u128::from(ip)];
                #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
                print.number(6).number(high as u64).number(low as u64)
            }
        };
        if self.detail == Detail::Rich {
            print
                .text(member.cluster.as_str())
                .text(member.identity.as_deref().unwrap_or_default());
        }
    }

    fn message(&self, name: &str) -> ClusterLoadAssignment {
        let mut localities: BTreeMap<(u32, &Text), Vec<LbEndpoint>> = BTreeMap::new();
        for member in &self.members {
            let place = (member.priority, &member.zone);
            localities
                .entry(place)
                .or_default()
                .push(self.endpoint(member));
        }
        let localities = localities.into_iter().map(|((priority, zone), endpoints)| {
            // Each endpoint gets an equal share, wherever it is.
            let weight = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
            LocalityLbEndpoints {
                locality: Some(Locality {
                    zone: zone.to_string(),
                    ..Default::default()
                }),
                load_balancing_weight: Some(UInt32Value { value: weight }),
                lb_endpoints: endpoints,
                priority,
                ..Default::default()
            }
        });
        ClusterLoadAssignment {
            cluster_name: name.to_owned(),
            endpoints: localities.collect(),
            ..Default::default()
        }
    }

    fn endpoint(&self, member: &Member) -> LbEndpoint {
        let rich = self.detail == Detail::Rich;
        let health = if member.draining {
            HealthStatus::Draining
        } else {
            HealthStatus::Healthy
        };
        LbEndpoint {
            health_status: health.into(),
            metadata: rich.then(|| metadata(member)),
            host_identifier: Some(lb_endpoint::HostIdentifier::Endpoint(Endpoint {
                address: Some(Address {
                    address: Some(address::Address::SocketAddress(SocketAddress {
                        address: member.socket.ip().to_string(),
                        port_specifier: Some(socket_address::PortSpecifier::PortValue(
                            member.socket.port().into(),
                        )),
                        ..Default::default()
                    })),
                }),
                hostname: member.identity.clone().filter(|_| rich).unwrap_or_default(),
                ..Default::default()
            })),
            ..Default::default()
        }
    }
}

fn metadata(member: &Member) -> Metadata {
    let mut filter_metadata = HashMap::new();
    if member.identity.is_some() {
        filter_metadata.insert(TRANSPORT_SOCKET_MATCH.to_owned(), texts([("l5d", "mtls")]));
    }
    filter_metadata.insert(
        SUBSETS.to_owned(),
        texts([("cluster", member.cluster.as_str()), ("zone", &member.zone)]),
    );
    Metadata {
        filter_metadata,
        ..Default::default()
    }
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Struct {
    let fields = pairs.into_iter().map(|(key, text)| {
        let kind = Some(value::Kind::StringValue(text.to_owned()));
        (key.to_owned(), Value { kind })
    });
    Struct {
        fields: fields.collect(),
    }
}
