//! EndpointSlices and the endpoints they list.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Namespace, NodeName, PodName, ServiceName, Text, Transport, Uid, Zone};

/// Value of label `endpointslice.kubernetes.io/managed-by` on the EndpointSlices that we write; they are never read back.
pub const OUR_MANAGED_BY: &str = "endpointslice-writer.tributary.dev";

/// An EndpointSlice within its cluster, or a subset of an Endpoints object there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName {
    /// The slice's namespace.
    pub namespace: Namespace,
    /// The slice's name.
    pub name: Text,
}

/// What an EndpointSlice object says, or a subset of an Endpoints object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFacts {
    /// The Service the slice belongs to: label `kubernetes.io/service-name`, else the first owner of kind Service; for an
    /// Endpoints object the Service of its name.
    pub service: ServiceName,
    /// `ports`, in order; a slice without any contributes nothing.
    pub ports: Box<[SlicePort]>,
    /// The endpoints, in order; an endpoint without a target and with several addresses is listed once per address.
    pub endpoints: Box<[Endpoint]>,
    /// What the service mirror wrote on it, if it did.
    pub mirror: Option<Box<MirrorFacts>>,
    /// What it may list.
    pub family: AddressFamily,
    /// Which object it is, and who writes it.
    pub origin: SliceOrigin,
}

/// `addressType` of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressFamily {
    /// `IPv4`.
    #[default]
    V4,
    /// `IPv6`.
    V6,
    /// `FQDN`: host names. They are no endpoints to us, so that such a slice has none.
    Fqdn,
}

/// Which object a slice is, and who writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceOrigin {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.generation`: grows whenever endpoints, ports or labels change; zero if not known.
    pub generation: i64,
    /// Label `endpointslice.kubernetes.io/managed-by`; may be empty.
    pub managed_by: Text,
    /// Whether it is a copy from another cluster: it has a label `multicluster.kubernetes.io/source-cluster`.
    pub is_import: bool,
}

/// One entry of a slice's `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name that the Service port has too; may be empty.
    pub name: Text,
    /// The number endpoints listen on; `None` if the slice leaves it out, which means any, or it cannot be one.
    pub port: Option<u16>,
    /// What runs over IP; plays no part in lookups.
    pub transport: Transport,
    /// `appProtocol`; never empty.
    pub app_protocol: Option<Text>,
}

/// Labels and annotations that Linkerd's service mirror puts on the slices of a gateway mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFacts {
    /// Label `mirror.linkerd.io/cluster-name`.
    pub cluster: Option<Text>,
    /// Annotation `mirror.linkerd.io/remote-svc-fq-name`; may be empty.
    pub remote_service: Option<Text>,
    /// Annotation `mirror.linkerd.io/remote-gateway-identity`; never empty.
    pub gateway_identity: Option<Text>,
}

/// One address of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Whether it may be used.
    pub conditions: Conditions,
    /// What the slice says is behind the address.
    pub backing: Backing,
    /// The zone the slice gives it; an empty one is not the same as none.
    pub zone: Option<Zone>,
    /// The node the slice gives it.
    pub node: Option<NodeName>,
    /// The instance name it has inside its Service.
    pub hostname: Option<Text>,
    /// Zones that should use it (`hints.forZones`); `None` if the slice has no such hint.
    pub zone_hints: Option<Arc<Vec<Zone>>>,
}

/// What `targetRef` of an endpoint names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backing {
    /// Nothing: the address stands for itself.
    Address,
    /// A Pod, in whatever namespace.
    Pod(PodName),
    /// An ExternalWorkload of the slice's namespace.
    ExternalWorkload(Text),
}

/// `conditions` of an endpoint; an absent one has the meaning the API gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// May take new traffic; absent means true.
    pub ready: bool,
    /// Answers, be it terminating or not; absent means as `ready`.
    pub serving: bool,
    /// Is going away; absent means false.
    pub terminating: bool,
}

// === impl AddressFamily ===

impl AddressFamily {
    /// As `addressType` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }
}

// === impl SliceName ===

impl SliceName {
    /// Names a slice.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Names a subset of the Endpoints object of a Service, by its place; no object of Kubernetes has such a name.
    pub fn of_subset(endpoints: &ServiceName, place: usize) -> Self {
        let name = format!("{}#{place}", endpoints.name);
        Self::new(endpoints.namespace.clone(), name)
    }
}

impl fmt::Display for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Conditions ===

impl Conditions {
    /// Ready, serving, not terminating: what absent conditions mean.
    pub const READY: Self = Self {
        ready: true,
        serving: true,
        terminating: false,
    };

    /// Applies the API's defaults to conditions that may be absent.
    ///
    /// Source: `EndpointConditions` of `discovery.k8s.io/v1`.
    pub fn from_optional(
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    ) -> Self {
        let ready = ready.unwrap_or(true);
        Self {
            ready,
            serving: serving.unwrap_or(ready),
            terminating: terminating.unwrap_or(false),
        }
    }
}
