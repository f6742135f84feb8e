//! Kubernetes objects, cut down to what discovery uses.
//!
//! Whatever is not named here is skipped while decoding and never held, however large it is. Every field may be absent
//! or `null`: no object that an API server stores can fail to decode. [`convert`](super::convert) makes facts of them.

mod linkerd;
mod metadata;
mod pod;
mod secret;
mod service;
mod slice;

use serde::{Deserialize, Deserializer};

pub use linkerd::{
    ExternalWorkload, ExternalWorkloadSpec, LabelSelector, LabelSelectorRequirement, Link,
    LinkSpec, MeshTls, PortNumberOrName, Server, ServerSpec, ServiceProfile,
};
pub use metadata::{Annotations, Labels, Metadata, OwnerReference};
pub use pod::{
    Container, ContainerPort, EnvVar, Ip, Job, Node, Pod, PodObject, PodSpec, PodStatus, ReplicaSet,
};
pub use secret::{Secret, SecretData};
pub use service::{Port, Service, ServiceSpec};
pub use slice::{
    Endpoint, EndpointAddress, EndpointConditions, EndpointHints, EndpointSlice, EndpointSubset,
    Endpoints, ForZone, ObjectReference,
};

/// An object that has metadata.
pub trait HasMetadata {
    /// Its metadata.
    fn metadata(&self) -> &Metadata;
}

// === impl HasMetadata ===

macro_rules! has_metadata {
    ($($kind:ty),+) => {$(
        impl HasMetadata for $kind {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )+};
}

has_metadata!(
    Service,
    EndpointSlice,
    Endpoints,
    Pod,
    Node,
    ReplicaSet,
    Job,
    ServiceProfile,
    ExternalWorkload,
    Server,
    Secret,
    Link,
    PodObject
);

/// Takes `null` for the default, as API servers write it for empty lists.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
