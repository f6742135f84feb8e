//! Services.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Metadata, or_default};

/// `Service` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceSpec,
}

/// `spec` of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `ExternalName`, …
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// `Cluster` or `Local`.
    pub internal_traffic_policy: Option<String>,
    /// Its first address, `None`, or empty.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// Its addresses.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    /// Families of its addresses, `IPv4` or `IPv6`.
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    /// Labels of the Pods that are behind it.
    #[serde(deserialize_with = "or_default")]
    pub selector: BTreeMap<String, Option<String>>,
    /// The ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// A port of a Service, of an EndpointSlice or of a subset of an Endpoints object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// Its name.
    pub name: Option<String>,
    /// Its number.
    pub port: Option<i64>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// What is spoken over it.
    pub app_protocol: Option<String>,
}
