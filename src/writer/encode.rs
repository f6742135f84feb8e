//! Copies ↔ objects of `discovery.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::copy::{
    Content, Copy, CopyEndpoint, CopyPort, Existing, Origin, Provenance, Target, TargetKind,
};
use super::name::FORMAT;
use super::requests::FIELD_MANAGER;
use crate::model::copying::Audience;
use crate::model::{
    AddressFamily, ClusterName, Conditions, Labels, OUR_MANAGED_BY, ServiceName, SliceName, Text,
    Transport, Uid, Zone,
};

/// The label that everybody finds slices by.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that says who writes a slice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that says where a copy comes from.
pub(super) const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// The label that keeps kube-proxy from loading slices of headless Services.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// The label that names the one Service proxy that is to load a slice; kube-proxy loads none that has it.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// Value of [`MANAGED_BY`] on the slices that list ExternalWorkloads: that of Linkerd's controller, so that the one takes up the
/// slices of the other.
pub(super) const WORKLOADS_MANAGED_BY: &str = "linkerd-external-workloads-controller";

const SOURCE: &str = "tributary.dev/source";
const SOURCE_UID: &str = "tributary.dev/source-uid";
const SOURCE_GENERATION: &str = "tributary.dev/source-generation";
const CLUSTER_UID: &str = "tributary.dev/cluster-uid";
const FORMAT_VERSION: &str = "tributary.dev/format";

/// The object to apply for a copy; `over` is the object that it has to be applied to.
pub(super) fn encode(copy: &Copy, over: Option<&Uid>) -> EndpointSlice {
    let content = &copy.content;
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(copy.name.name.to_string()),
            namespace: Some(copy.name.namespace.to_string()),
            uid: over.map(ToString::to_string),
            labels: Some(labels(content)),
            annotations: match &content.origin {
                Origin::Cluster { .. } => Some(annotations(&copy.source)),
                Origin::Workloads { .. } => None,
            },
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name: content.service.name.to_string(),
                uid: copy.owner.to_string(),
                // Of copies, nothing else must believe that the Service makes them.
                controller: Some(matches!(content.origin, Origin::Workloads { .. })),
                block_owner_deletion: Some(false),
            }]),
            ..ObjectMeta::default()
        },
        address_type: content.family.as_str().to_owned(),
        endpoints: content.endpoints.iter().map(endpoint).collect(),
        ports: Some(content.ports.iter().map(port).collect()),
    }
}

fn labels(content: &Content) -> BTreeMap<String, String> {
    let mut labels = Vec::new();
    match &content.origin {
        Origin::Cluster { name, audience } => {
            labels.push((MANAGED_BY, OUR_MANAGED_BY));
            labels.push((SOURCE_CLUSTER, name.as_str()));
            if *audience == Audience::Gateways {
                labels.push((PROXY_NAME, OUR_MANAGED_BY));
            }
        }
        Origin::Workloads { labels: theirs } => {
            let theirs = theirs.iter();
            labels.extend(theirs.map(|(key, value)| (key.as_str(), value.as_str())));
            labels.push((MANAGED_BY, WORKLOADS_MANAGED_BY));
        }
    }
    labels.push((SERVICE_NAME, content.service.name.as_str()));
    if content.is_headless {
        labels.push((HEADLESS, ""));
    }
    owned(labels)
}

/// Whether a label of a Service is not handed on to its slices: they have it for a reason of their own.
pub(super) fn is_of_slices(key: &str) -> bool {
    matches!(key, SERVICE_NAME | MANAGED_BY | SOURCE_CLUSTER | HEADLESS)
}

fn annotations(source: &Provenance) -> BTreeMap<String, String> {
    let generation = source.generation.to_string();
    let (uid, cluster_uid) = (source.uid.to_string(), source.cluster_uid.to_string());
    let mut annotations = vec![
        (SOURCE, source.slice.as_str()),
        (SOURCE_GENERATION, &generation),
        (FORMAT_VERSION, FORMAT),
    ];
    for (key, value) in [(SOURCE_UID, &uid), (CLUSTER_UID, &cluster_uid)] {
        if !value.is_empty() {
            annotations.push((key, value));
        }
    }
    owned(annotations)
}

fn owned(pairs: Vec<(&str, &str)>) -> BTreeMap<String, String> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn port(port: &CopyPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.to_string()),
        protocol: Some(port.transport.as_str().to_owned()),
        port: Some(port.port.into()),
        app_protocol: port.app_protocol.as_ref().map(ToString::to_string),
    }
}

fn endpoint(endpoint: &CopyEndpoint) -> Endpoint {
    let zones = endpoint.hints.iter().map(|zone| ForZone {
        name: zone.to_string(),
    });
    let conditions = endpoint.conditions;
    Endpoint {
        addresses: vec![endpoint.address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(conditions.ready),
            serving: Some(conditions.serving),
            terminating: Some(conditions.terminating),
        }),
        hostname: endpoint.hostname.as_ref().map(ToString::to_string),
        node_name: endpoint.node.as_ref().map(ToString::to_string),
        zone: endpoint.zone.as_ref().map(ToString::to_string),
        hints: (!endpoint.hints.is_empty()).then(|| EndpointHints {
            for_zones: Some(zones.collect()),
            ..EndpointHints::default()
        }),
        target_ref: endpoint.target.as_ref().map(|target| ObjectReference {
            kind: Some(target.kind.as_str().to_owned()),
            namespace: Some(target.namespace.to_string()),
            name: Some(target.name.to_string()),
            uid: (!target.uid.is_empty()).then(|| target.uid.to_string()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    }
}

/// What a slice that is ours to write is; `None` if it has no name.
pub(super) fn decode(slice: &EndpointSlice) -> Option<Existing> {
    let metadata = &slice.metadata;
    let name = SliceName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().filter(|name| !name.is_empty())?,
    );
    let owners = metadata.owner_references.iter().flatten();
    let owners: Vec<&OwnerReference> = owners
        .filter(|owner| owner.kind == "Service" && owner.api_version == "v1")
        .collect();
    let label = |key: &str| {
        let labels = metadata.labels.as_ref()?;
        labels.get(key).map(String::as_str)
    };
    // An owner that is named once is what we wrote; a label may be anybody's.
    let service = match &owners[..] {
        [owner] => owner.name.as_str(),
        _ => label(SERVICE_NAME).unwrap_or_default(),
    };
    let cluster = ClusterName::from(label(SOURCE_CLUSTER).unwrap_or_default());
    let addresses = slice
        .endpoints
        .iter()
        .map(|endpoint| endpoint.addresses.len());
    Some(Existing {
        uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
        resource_version: metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
            .into(),
        is_going: metadata.deletion_timestamp.is_some(),
        service: ServiceName::new(name.namespace.clone(), service),
        content: content(slice, &name, &cluster),
        cluster,
        owners: owners
            .iter()
            .map(|owner| Uid::from(owner.uid.as_str()))
            .collect(),
        source: provenance(metadata),
        addresses: addresses.sum(),
        name,
    })
}

fn provenance(metadata: &ObjectMeta) -> Provenance {
    let annotation = |key: &str| {
        let annotations = metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(key))
            .map_or("", String::as_str)
    };
    Provenance {
        slice: annotation(SOURCE).into(),
        uid: annotation(SOURCE_UID).into(),
        generation: annotation(SOURCE_GENERATION).parse().unwrap_or_default(),
        cluster_uid: annotation(CLUSTER_UID).into(),
    }
}

/// What the slice says, if we could have said it. `null` is empty and what the server defaults is as we write it.
fn content(slice: &EndpointSlice, name: &SliceName, cluster: &ClusterName) -> Option<Content> {
    let labels = slice.metadata.labels.as_ref()?;
    let origin = match labels.get(MANAGED_BY).map(String::as_str) {
        Some(WORKLOADS_MANAGED_BY) => Origin::Workloads {
            labels: handed_on(&slice.metadata),
        },
        _ => Origin::Cluster {
            name: cluster.clone(),
            audience: match labels.get(PROXY_NAME).map(String::as_str) {
                None => Audience::Everyone,
                Some(OUR_MANAGED_BY) => Audience::Gateways,
                Some(_) => return None,
            },
        },
    };
    let ports = slice.ports.iter().flatten().map(decode_port);
    let endpoints = slice.endpoints.iter().map(decode_endpoint);
    let mut content = Content {
        service: ServiceName::new(name.namespace.clone(), labels.get(SERVICE_NAME)?.as_str()),
        origin,
        is_headless: match labels.get(HEADLESS).map(String::as_str) {
            None => false,
            Some("") => true,
            Some(_) => return None,
        },
        family: match slice.address_type.as_str() {
            "IPv4" => AddressFamily::V4,
            "IPv6" => AddressFamily::V6,
            _ => return None,
        },
        ports: ports.collect::<Option<_>>()?,
        endpoints: endpoints.collect::<Option<_>>()?,
    };
    content.sort();
    Some(content)
}

/// Labels that a slice has of its Service. Once we have written it, those that we set: what somebody else has set is his to keep.
fn handed_on(metadata: &ObjectMeta) -> Labels {
    let written = metadata.managed_fields.iter().flatten().find(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
    });
    let fields = written.and_then(|entry| entry.fields_v1.as_ref());
    let ours = fields.and_then(|fields| fields.0.get("f:metadata")?.get("f:labels"));
    let labels = metadata.labels.iter().flatten();
    labels
        .filter(|(key, _)| {
            let is_ours = ours.is_none_or(|ours| ours.get(format!("f:{key}")).is_some());
            is_ours && !is_of_slices(key)
        })
        .map(|(key, value)| (Text::from(key.as_str()), Text::from(value.as_str())))
        .collect()
}

fn decode_port(port: &EndpointPort) -> Option<CopyPort> {
    Some(CopyPort {
        name: port.name.as_deref().unwrap_or_default().into(),
        transport: Transport::of(port.protocol.as_deref()),
        port: port
            .port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)?,
        app_protocol: port.app_protocol.as_deref().map(Text::from),
    })
}

fn decode_endpoint(endpoint: &Endpoint) -> Option<CopyEndpoint> {
    let [address] = &endpoint.addresses[..] else {
        return None;
    };
    let conditions = endpoint.conditions.as_ref()?;
    let hints = match &endpoint.hints {
        None => Vec::new(),
        Some(hints)
            if hints
                .for_nodes
                .as_ref()
                .is_some_and(|nodes| !nodes.is_empty()) =>
        {
            return None;
        }
        Some(hints) => {
            let zones = hints.for_zones.iter().flatten();
            let zones: Vec<_> = zones.map(|zone| Zone::from(zone.name.as_str())).collect();
            // Hints without a zone are no hints to us, but they are not absent either.
            (!zones.is_empty()).then_some(zones)?
        }
    };
    let target = match &endpoint.target_ref {
        None => None,
        Some(target) => Some(decode_target(target)?),
    };
    Some(CopyEndpoint {
        address: address.parse().ok()?,
        conditions: Conditions {
            ready: conditions.ready?,
            serving: conditions.serving?,
            terminating: conditions.terminating?,
        },
        hostname: endpoint.hostname.as_deref().map(Text::from),
        node: endpoint.node_name.as_deref().map(Into::into),
        zone: endpoint.zone.as_deref().map(Zone::from),
        hints,
        target,
    })
}

fn decode_target(target: &ObjectReference) -> Option<Target> {
    let others = [
        &target.api_version,
        &target.field_path,
        &target.resource_version,
    ];
    if others.iter().any(|other| other.is_some()) {
        return None;
    }
    Some(Target {
        kind: match target.kind.as_deref()? {
            "Pod" => TargetKind::Pod,
            "ExternalWorkload" => TargetKind::ExternalWorkload,
            _ => return None,
        },
        namespace: target.namespace.as_deref()?.into(),
        name: target.name.as_deref()?.into(),
        uid: target.uid.as_deref().map(Uid::from).unwrap_or_default(),
    })
}

// === impl TargetKind ===

impl TargetKind {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::ExternalWorkload => "ExternalWorkload",
        }
    }
}

#[cfg(test)]
mod tests;
