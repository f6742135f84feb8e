//! What every object says of itself.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::or_default;

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
