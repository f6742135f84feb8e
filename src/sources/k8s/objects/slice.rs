//! EndpointSlices, and Endpoints objects in their place.

use serde::Deserialize;

use super::{Metadata, Port, or_default};

/// `EndpointSlice` of `discovery.k8s.io/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(deserialize_with = "or_default")]
    pub address_type: String,
    /// The endpoints.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that each endpoint has.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// One entry of `endpoints` of an EndpointSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    /// Whether it may be used.
    #[serde(deserialize_with = "or_default")]
    pub conditions: EndpointConditions,
    /// What is behind it.
    pub target_ref: Option<ObjectReference>,
    /// Its hostname within the Service.
    pub hostname: Option<String>,
    /// The node it is on.
    pub node_name: Option<String>,
    /// The zone it is in.
    pub zone: Option<String>,
    /// Who should use it.
    #[serde(deserialize_with = "or_default")]
    pub hints: EndpointHints,
}

/// `conditions` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// May take new traffic.
    pub ready: Option<bool>,
    /// Answers.
    pub serving: Option<bool>,
    /// Is going away.
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Zones that should use it.
    #[serde(deserialize_with = "or_default")]
    pub for_zones: Vec<ForZone>,
}

/// One entry of `hints.forZones`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ForZone {
    /// The zone.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// `Endpoints` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// Addresses by the ports they have.
    #[serde(deserialize_with = "or_default")]
    pub subsets: Vec<EndpointSubset>,
}

/// One entry of `subsets` of an Endpoints object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Addresses that may be used.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that may not be used.
    #[serde(deserialize_with = "or_default")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// The ports that each address has.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// One address of an Endpoints object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The address.
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
    /// What is behind it.
    pub target_ref: Option<ObjectReference>,
    /// Its hostname within the Service.
    pub hostname: Option<String>,
    /// The node it is on.
    pub node_name: Option<String>,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectReference {
    /// Kind of the object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Its namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}
