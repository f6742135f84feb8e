//! Kubernetes objects, cut down to what discovery uses.
//!
//! Whatever is not named here is skipped while decoding and never held, however large it is. Every field may be absent
//! or `null`: no object that an API server stores can fail to decode. [`convert`](super::convert) makes facts of them.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An object that has metadata.
pub trait HasMetadata {
    /// Its metadata.
    fn metadata(&self) -> &Metadata;
}

/// Metadata that every object has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name within its namespace.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Namespace; empty for objects that have none.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Tells it from other objects of its name.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Grows with every change of what is wanted.
    #[serde(deserialize_with = "or_default")]
    pub generation: i64,
    /// Version of the object, opaque.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// When it was created, as RFC 3339 in UTC; sorts as text.
    #[serde(deserialize_with = "or_default")]
    pub creation_timestamp: String,
    /// Labels that we use.
    #[serde(deserialize_with = "or_default")]
    pub labels: Labels,
    /// Annotations that we use.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
    /// Who owns the object.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
    /// When it was asked to go; present while it is going.
    pub deletion_timestamp: Option<String>,
    /// When it was written last, to the second, as far as those who wrote it are known.
    #[serde(rename = "managedFields", deserialize_with = "newest_time")]
    pub written: Option<Timestamp>,
}

/// Labels of any kind of object: those that we use by name, and all of them, since Servers select by any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "BTreeMap<String, Option<String>>")]
pub struct Labels {
    /// EndpointSlice: the Service it belongs to.
    pub service_name: Option<String>,
    /// EndpointSlice: who writes it.
    pub managed_by: Option<String>,
    /// EndpointSlice: the cluster that it was copied from.
    pub source_cluster: Option<String>,
    /// EndpointSlice, Endpoints: the cluster that a gateway mirror stands for.
    pub mirrored_cluster: Option<String>,
    /// Service: `true` if it stands for Services of other clusters.
    pub mirrored_service: Option<String>,
    /// Service: how other clusters may mirror it.
    pub exported: Option<String>,
    /// Service: it is a member of a federated Service of other clusters.
    pub federated: Option<String>,
    /// Service: the cluster that has the Service behind a mirror.
    pub remote_discovery: Option<String>,
    /// Service: name of the Service behind a mirror.
    pub remote_service: Option<String>,
    /// Secret: the cluster it gives access to.
    pub cluster_name: Option<String>,
    /// Pod: namespace of the control plane of its proxy.
    pub control_plane_namespace: Option<String>,
    /// Pod: hash of the template it was made from.
    pub pod_template_hash: Option<String>,
    /// Node: its zone.
    pub zone: Option<String>,
    /// Every label; `null` is the empty value.
    pub all: BTreeMap<String, Option<String>>,
}

/// Annotations that we use, of any kind of object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// Pod, Service, ExternalWorkload: ports whose protocol must not be guessed.
    #[serde(rename = "config.linkerd.io/opaque-ports")]
    pub opaque_ports: Option<String>,
    /// Pod: ports that bypass its proxy.
    #[serde(rename = "config.linkerd.io/skip-inbound-ports")]
    pub skip_inbound_ports: Option<String>,
    /// EndpointSlice, Endpoints: full name of the Service that a gateway mirror stands for.
    #[serde(rename = "mirror.linkerd.io/remote-svc-fq-name")]
    pub remote_service_name: Option<String>,
    /// EndpointSlice, Endpoints: identity of the gateway.
    #[serde(rename = "mirror.linkerd.io/remote-gateway-identity")]
    pub remote_gateway_identity: Option<String>,
    /// Endpoints: whether addresses were left out.
    #[serde(rename = "endpoints.kubernetes.io/over-capacity")]
    pub over_capacity: Option<String>,
    /// Service: the local member of a federated Service.
    #[serde(rename = "multicluster.linkerd.io/local-discovery")]
    pub local_discovery: Option<String>,
    /// Service: the remote members of a federated Service.
    #[serde(rename = "multicluster.linkerd.io/remote-discovery")]
    pub remote_discovery: Option<String>,
    /// Service: whether EndpointSlices are written for it.
    #[serde(rename = "tributary.dev/endpoint-slices")]
    pub endpoint_slices: Option<String>,
    /// Service: for whom EndpointSlices are written.
    #[serde(rename = "tributary.dev/endpoint-slices-audience")]
    pub audience: Option<String>,
    /// Service: GKE balances its load without kube-proxy.
    #[serde(rename = "cloud.google.com/neg")]
    pub neg: Option<String>,
    /// Service: what GKE has made for that.
    #[serde(rename = "cloud.google.com/neg-status")]
    pub neg_status: Option<String>,
    /// Secret: suffix of the identities of the cluster's Pods.
    #[serde(rename = "multicluster.linkerd.io/trust-domain")]
    pub trust_domain: Option<String>,
    /// Secret: DNS domain of the cluster.
    #[serde(rename = "multicluster.linkerd.io/cluster-domain")]
    pub cluster_domain: Option<String>,
    /// Secret: whether, and over how long, the cluster's endpoints are to be taken away.
    #[serde(rename = "tributary.dev/drain")]
    pub drain: Option<String>,
    /// Pod: what made it, for those of Linkerd's control plane.
    #[serde(rename = "linkerd.io/created-by")]
    pub created_by: Option<String>,
    /// Pod: it is ours, in the place of Linkerd's destination controller.
    #[serde(rename = "tributary.dev/destination")]
    pub ours: Option<String>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// Kind of the owner.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the owner.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

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

/// `Secret` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// Its type.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// Its contents.
    #[serde(deserialize_with = "or_default")]
    pub data: SecretData,
}

/// `data` of a Secret; never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretData {
    /// A kubeconfig, in base64.
    pub kubeconfig: Option<String>,
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

/// A Pod of which only the metadata is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodObject {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
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

// === impl Labels ===

impl From<BTreeMap<String, Option<String>>> for Labels {
    fn from(all: BTreeMap<String, Option<String>>) -> Self {
        let label = |key: &str| all.get(key).cloned().flatten();
        Self {
            service_name: label("kubernetes.io/service-name"),
            managed_by: label("endpointslice.kubernetes.io/managed-by"),
            source_cluster: label("multicluster.kubernetes.io/source-cluster"),
            mirrored_cluster: label("mirror.linkerd.io/cluster-name"),
            mirrored_service: label("mirror.linkerd.io/mirrored-service"),
            exported: label("mirror.linkerd.io/exported"),
            federated: label("mirror.linkerd.io/federated"),
            remote_discovery: label("multicluster.linkerd.io/remote-discovery"),
            remote_service: label("multicluster.linkerd.io/remote-service"),
            cluster_name: label("multicluster.linkerd.io/cluster-name"),
            control_plane_namespace: label("linkerd.io/control-plane-ns"),
            pod_template_hash: label("pod-template-hash"),
            zone: label("topology.kubernetes.io/zone"),
            all,
        }
    }
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

// === impl SecretData ===

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretData(..)")
    }
}

/// The newest time in `managedFields`, which say who wrote what and when. Nothing else of them is looked at.
fn newest_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let newest = Option::<NewestTime>::deserialize(deserializer)?;
    Ok(newest.and_then(|newest| newest.0))
}

struct NewestTime(Option<Timestamp>);

impl<'de> Deserialize<'de> for NewestTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NewestTimeVisitor)
    }
}

struct NewestTimeVisitor;

impl<'de> Visitor<'de> for NewestTimeVisitor {
    type Value = NewestTime;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of managed fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<NewestTime, A::Error> {
        let mut newest = None;
        while let Some(entry) = entries.next_element::<ManagedFields>()? {
            newest = newest.max(entry.time.0);
        }
        Ok(NewestTime(newest))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ManagedFields {
    time: Time,
}

/// A time; none, if it cannot be read.
#[derive(Default)]
struct Time(Option<Timestamp>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time")
    }

    fn visit_str<E>(self, text: &str) -> Result<Time, E> {
        Ok(Time(text.parse().ok()))
    }

    fn visit_unit<E>(self) -> Result<Time, E> {
        Ok(Time(None))
    }
}

/// Takes `null` for the default, as API servers write it for empty lists.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(managed_fields: &str, expected: &str) {
        let json = format!(r#"{{"name": "web", "managedFields": {managed_fields}}}"#);
        let metadata: Metadata = serde_json::from_str(&json).expect("metadata");
        let written = metadata.written.map(|written| written.to_string());
        assert_eq!(
            written.as_deref().unwrap_or("-"),
            expected,
            "{managed_fields}"
        );
        assert_eq!(metadata.name, "web");
    }

    #[test]
    fn the_newest_writer_counts() {
        check(
            r#"[{"manager": "kubectl", "operation": "Apply", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:spec": {"f:time": {}}}},
                {"manager": "kubelet", "time": "2026-01-02T03:04:07Z", "subresource": "status"},
                {"manager": "other", "time": "2025-12-31T23:59:59Z"}]"#,
            "2026-01-02T03:04:07Z",
        );
        check(
            r#"[{"time": "2026-01-02T05:04:05+02:00"}, {"time": "2026-01-02T03:04:04.5Z"}]"#,
            "2026-01-02T03:04:05Z",
        );
    }

    #[test]
    fn an_unknown_time_is_none() {
        for unknown in [
            "null",
            "[]",
            "[{}]",
            r#"[{"time": null}, {"time": "soon"}]"#,
        ] {
            check(unknown, "-");
        }
        assert_eq!(Metadata::default().written, None);
    }
}
