//! Services: which ports they have and where their endpoints are looked for.

use std::fmt;
use std::net::IpAddr;

use super::text::identifier;
use super::{AddressFamily, ClusterName, Labels, PortSet, Text, Uid};

/// Namespace and name of the Service that every cluster has, and whose uid no other cluster's has.
pub const CLUSTER_SERVICE: (&str, &str) = ("default", "kubernetes");

identifier! {
    /// Name of a Kubernetes namespace.
    Namespace;
}

/// A Service within its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    /// The Service's namespace.
    pub namespace: Namespace,
    /// The Service's name.
    pub name: Text,
}

/// A Service of one particular cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The cluster that has the Service.
    pub cluster: ClusterName,
    /// The Service within it.
    pub service: ServiceName,
}

/// One entry of `spec.ports`; the protocol plays no part in lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The number clients ask for.
    pub port: u16,
    /// The name slices are searched by; may be empty.
    pub name: Text,
    /// What runs over IP; plays no part in lookups.
    pub transport: Transport,
    /// `appProtocol`; never empty.
    pub app_protocol: Option<Text>,
}

/// `protocol` of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// `TCP`, also where nothing is said.
    #[default]
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// `spec.internalTrafficPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Every endpoint may be used.
    #[default]
    Cluster,
    /// Only endpoints on the client's own node.
    Local,
}

/// Where the endpoints of a Service are. Federation annotations win over the remote-discovery label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// In the Service's own slices.
    #[default]
    Local,
    /// In one Service of one linked cluster (label `multicluster.linkerd.io/remote-discovery`).
    Remote(RemoteService),
    /// In the union of several Services (annotations of a federated Service).
    Federated(Federation),
}

/// The target of a remote-discovery mirror Service; the namespace is the mirror's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemoteService {
    /// The linked cluster; may be a name nobody has.
    pub cluster: ClusterName,
    /// Name of the Service there; `None` if the label that should say so is missing.
    pub service: Option<Text>,
}

/// The members of a federated Service, without duplicates, in name order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Federation {
    /// The member in the Service's own cluster.
    pub local: Option<Text>,
    /// Members in linked clusters: cluster, then Service name.
    pub remote: Box<[(ClusterName, Text)]>,
}

/// What a Service object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFacts {
    /// `spec.ports`, in order.
    pub ports: Box<[ServicePort]>,
    /// `spec.type` is `ExternalName`.
    pub external_name: bool,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: TrafficPolicy,
    /// Where its endpoints are.
    pub membership: Membership,
    /// `spec.clusterIPs`, else `spec.clusterIP`; a headless Service has none.
    pub cluster_ips: Box<[IpAddr]>,
    /// Annotation `config.linkerd.io/opaque-ports`, names of its ports resolved; `None` if absent.
    pub opaque_ports: Option<PortSet>,
    /// What else is known of the few Services that slices may be written for.
    pub details: Option<Box<ServiceDetails>>,
}

/// What matters to who writes EndpointSlices for a Service, or compares clusters.
///
/// Kept of mirrors and federated Services, and of `default/kubernetes`, whose uid tells clusters apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; any combination may be stored"
)]
pub struct ServiceDetails {
    /// `metadata.uid`.
    pub uid: Uid,
    /// Label `mirror.linkerd.io/mirrored-service` is `true`.
    pub is_mirror: bool,
    /// It has a selector: Kubernetes writes slices for it.
    pub has_selector: bool,
    /// Its cluster IP is `None`.
    pub is_headless: bool,
    /// It is being deleted.
    pub is_going: bool,
    /// It has a label by which other clusters may mirror it.
    pub is_exported: bool,
    /// It has an annotation of GKE's container-native load balancing.
    pub has_neg: bool,
    /// `spec.ipFamilies`.
    pub families: IpFamilies,
    /// Annotation `tributary.dev/endpoint-slices`.
    pub endpoint_slices: Option<Text>,
    /// Annotation `tributary.dev/endpoint-slices-audience`.
    pub audience: Option<Text>,
    /// All its labels.
    pub labels: Labels,
}

/// Address families that a Service has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFamilies {
    /// It has IPv4.
    pub v4: bool,
    /// It has IPv6.
    pub v6: bool,
}

// === impl ServiceName ===

impl ServiceName {
    /// Names a Service.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Transport ===

impl Transport {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Reads the API's spelling; absence and anything unknown are TCP, which is what the API makes of absence.
    pub fn of(text: Option<&str>) -> Self {
        match text {
            Some("UDP") => Self::Udp,
            Some("SCTP") => Self::Sctp,
            _ => Self::Tcp,
        }
    }
}

// === impl IpFamilies ===

impl IpFamilies {
    /// Whether a family is among them.
    pub fn has(self, family: AddressFamily) -> bool {
        match family {
            AddressFamily::V4 => self.v4,
            AddressFamily::V6 => self.v6,
            AddressFamily::Fqdn => false,
        }
    }
}

// === impl ServiceFacts ===

impl ServiceFacts {
    /// Whether clients may ask for a port; the protocol plays no part.
    pub fn defines(&self, port: u16) -> bool {
        self.ports.iter().any(|defined| defined.port == port)
    }
}

// === impl ServiceKey ===

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.service, self.cluster)
    }
}

// === impl Federation ===

impl Federation {
    /// Reads the two annotations of a federated Service; `None` if it has neither.
    ///
    /// `remote` is a comma-separated list of `service@cluster`; items are trimmed and may repeat; an item without
    /// exactly one `@` is left out and returned as it was written. An empty `local` names no member.
    pub fn parse(local: Option<&str>, remote: Option<&str>) -> Option<(Self, Vec<String>)> {
        if local.is_none() && remote.is_none() {
            return None;
        }
        let mut members = Vec::new();
        let mut bad = Vec::new();
        for item in remote.unwrap_or_default().split(',').map(str::trim) {
            if item.is_empty() {
                continue;
            }
            match item.split_once('@') {
                Some((service, cluster)) if !cluster.contains('@') => members.push((
                    ClusterName::from(cluster.trim()),
                    Text::from(service.trim()),
                )),
                _ => bad.push(item.to_owned()),
            }
        }
        members.sort_unstable();
        members.dedup();
        let local = local
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(Text::from);
        Some((
            Self {
                local,
                remote: members.into(),
            },
            bad,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(local: Option<&str>, remote: Option<&str>, expected: &str) {
        let text = match Federation::parse(local, remote) {
            None => "none".to_owned(),
            Some((federation, bad)) => {
                let mut parts: Vec<String> = federation
                    .local
                    .iter()
                    .map(|name| format!("local {name}"))
                    .collect();
                parts.extend(
                    federation
                        .remote
                        .iter()
                        .map(|(cluster, name)| format!("{name}@{cluster}")),
                );
                parts.extend(bad.iter().map(|item| format!("bad {item}")));
                parts.join(" ")
            }
        };
        assert_eq!(text, expected, "{local:?} {remote:?}");
    }

    #[test]
    fn presence_of_either_annotation_makes_a_service_federated() {
        check(None, None, "none");
        check(Some(""), None, "");
        check(None, Some(""), "");
        check(Some("web"), Some(""), "local web");
    }

    #[test]
    fn members_are_trimmed_distinct_and_ordered() {
        check(
            None,
            Some("web@west, web@east ,web@west"),
            "web@east web@west",
        );
        check(None, Some("a.b@west"), "a.b@west");
    }

    #[test]
    fn an_item_without_exactly_one_at_sign_costs_only_itself() {
        check(
            None,
            Some("web,web@a@b,web@east"),
            "web@east bad web bad web@a@b",
        );
    }
}
