//! Linkerd's own kinds.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Ip, Metadata, Port, or_default};

/// `ServiceProfile` of `linkerd.io/v1alpha2`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceProfile {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What is wanted, as it is written: its definition admits much that makes no sense.
    pub spec: serde_json::Value,
}

/// `ExternalWorkload` of `workload.linkerd.io/v1beta1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExternalWorkload {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What it is.
    #[serde(deserialize_with = "or_default")]
    pub spec: ExternalWorkloadSpec,
}

/// `spec` of an ExternalWorkload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExternalWorkloadSpec {
    /// Who its proxy is.
    #[serde(rename = "meshTLS", deserialize_with = "or_default")]
    pub mesh_tls: MeshTls,
    /// Its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
    /// Its addresses.
    #[serde(rename = "workloadIPs", deserialize_with = "or_default")]
    pub workload_ips: Vec<Ip>,
}

/// `spec.meshTLS` of an ExternalWorkload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshTls {
    /// The URI it proves.
    pub identity: Option<String>,
    /// The server name to ask it for.
    pub server_name: Option<String>,
}

/// `Server` of `policy.linkerd.io/v1beta3`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What it says.
    #[serde(deserialize_with = "or_default")]
    pub spec: ServerSpec,
}

/// `spec` of a Server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerSpec {
    /// Pods it is about.
    pub pod_selector: Option<LabelSelector>,
    /// ExternalWorkloads it is about.
    pub external_workload_selector: Option<LabelSelector>,
    /// The port it is about.
    pub port: Option<PortNumberOrName>,
    /// `opaque`, `HTTP/2`, …
    pub proxy_protocol: Option<String>,
}

/// A port, by number or by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PortNumberOrName {
    /// Its number.
    Number(i64),
    /// Its name.
    Name(String),
}

/// A label selector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that are required; `null` is the empty value.
    #[serde(deserialize_with = "or_default")]
    pub match_labels: BTreeMap<String, Option<String>>,
    /// What else is required.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// Key of the label.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "or_default")]
    pub operator: String,
    /// Values of the label.
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// `Link` of `multicluster.linkerd.io`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// What is linked.
    #[serde(deserialize_with = "or_default")]
    pub spec: LinkSpec,
}

/// `spec` of a Link.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkSpec {
    /// The cluster.
    pub target_cluster_name: Option<String>,
    /// Namespace of its control plane.
    pub target_cluster_linkerd_namespace: Option<String>,
}
