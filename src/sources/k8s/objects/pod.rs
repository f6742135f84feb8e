//! Pods, what owns them, and the Nodes that they run on.

use std::fmt;

use serde::Deserialize;

use super::{Metadata, or_default};

/// `Pod` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// What is there.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it runs on.
    pub node_name: Option<String>,
    /// Whether it is in the network of its node.
    #[serde(deserialize_with = "or_default")]
    pub host_network: bool,
    /// The account it runs as.
    pub service_account_name: Option<String>,
    /// Containers that start before the others.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// Its containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
}

/// A container of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Ports it declares.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
    /// Its environment.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<EnvVar>,
}

/// A port that a container declares.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name.
    pub name: Option<String>,
    /// Its number.
    pub container_port: Option<i64>,
    /// Its number on the Pod's host, if it has one.
    pub host_port: Option<i64>,
}

/// An environment variable of a container.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct EnvVar {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its value, if that is written there.
    pub value: Option<String>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Running`, `Succeeded`, …
    pub phase: Option<String>,
    /// Its first address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// Its addresses.
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Vec<Ip>,
    /// The first address of its node.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// The addresses of its node.
    #[serde(rename = "hostIPs", deserialize_with = "or_default")]
    pub host_ips: Vec<Ip>,
}

/// One entry of `status.podIPs` or `status.hostIPs`, or of `spec.workloadIPs` of an ExternalWorkload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ip {
    /// The address.
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
}

/// `Node` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
}

/// `ReplicaSet` of `apps/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
}

/// `Job` of `batch/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
}

/// A Pod of which only the metadata is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodObject {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
}

// === impl EnvVar ===

impl fmt::Debug for EnvVar {
    // Values may be anything that people put into an environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvVar")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
