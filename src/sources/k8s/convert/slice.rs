//! EndpointSlices.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::super::objects::{
    Endpoint as EndpointObject, EndpointSlice, Metadata, ObjectReference, Port,
};
use super::{Warning, filled, port_number, quote};
use crate::model::{
    AddressFamily, Backing, Conditions, Endpoint, MirrorFacts, OUR_MANAGED_BY, PodName,
    ServiceName, SliceFacts, SliceOrigin, SlicePort, Text, Transport, Zone,
};

/// `kind` of a target that is a Pod.
pub(super) const POD: &str = "Pod";

/// `kind` of a target that is an ExternalWorkload.
const EXTERNAL_WORKLOAD: &str = "ExternalWorkload";

/// Kinds of target that an endpoint can have.
const TARGETS: &[&str] = &[POD, EXTERNAL_WORKLOAD];

/// What a slice says; `None` if it belongs to no Service, or is one that we wrote. Host names are not listed.
pub(super) fn facts(slice: &EndpointSlice, warnings: &mut Vec<Warning>) -> Option<SliceFacts> {
    let metadata = &slice.metadata;
    if metadata.labels.managed_by.as_deref() == Some(OUR_MANAGED_BY) {
        return None;
    }
    let family = match slice.address_type.as_str() {
        "IPv6" => AddressFamily::V6,
        "FQDN" => AddressFamily::Fqdn,
        _ => AddressFamily::V4,
    };
    let service = owning_service(metadata)?;
    let ports = ports(&slice.ports, warnings);
    let mut endpoints = Vec::with_capacity(slice.endpoints.len());
    if family != AddressFamily::Fqdn {
        for entry in &slice.endpoints {
            endpoint(entry, &mut endpoints, warnings);
        }
    }
    Some(SliceFacts {
        service,
        ports,
        endpoints: endpoints.into(),
        mirror: mirror(metadata).map(Box::new),
        family,
        origin: origin(metadata),
    })
}

fn origin(metadata: &Metadata) -> SliceOrigin {
    SliceOrigin {
        uid: metadata.uid.as_str().into(),
        generation: metadata.generation,
        managed_by: Text::from(metadata.labels.managed_by.as_deref().unwrap_or_default()),
        is_import: metadata.labels.source_cluster.is_some(),
    }
}

/// The Service of the label, else the first owner of kind Service.
fn owning_service(metadata: &Metadata) -> Option<ServiceName> {
    let name = filled(metadata.labels.service_name.as_deref()).or_else(|| {
        metadata
            .owner_references
            .iter()
            .find(|owner| owner.kind == "Service" && !owner.name.is_empty())
            .map(|owner| owner.name.as_str())
    })?;
    Some(ServiceName::new(metadata.namespace.as_str(), name))
}

pub(super) fn ports(entries: &[Port], warnings: &mut Vec<Warning>) -> Box<[SlicePort]> {
    let ports = entries.iter().map(|entry| SlicePort {
        name: Text::from(entry.name.as_deref().unwrap_or_default()),
        port: entry.port.and_then(|port| port_number(port, warnings)),
        transport: Transport::of(entry.protocol.as_deref()),
        app_protocol: filled(entry.app_protocol.as_deref()).map(Text::from),
    });
    ports.collect()
}

/// Adds what one entry lists: one endpoint if it has a target, else one per address.
fn endpoint(entry: &EndpointObject, endpoints: &mut Vec<Endpoint>, warnings: &mut Vec<Warning>) {
    let backing = match backing(entry.target_ref.as_ref(), TARGETS) {
        Ok(backing) => backing,
        Err(warning) => return warnings.push(warning),
    };
    let listed = match (&backing, &entry.addresses[..]) {
        (_, []) => return warnings.push(Warning::NoAddress),
        // The further ones are other ways to reach the first: the API says to use that only.
        (Backing::Pod(_) | Backing::ExternalWorkload(_), [first, ..]) => {
            std::slice::from_ref(first)
        }
        (Backing::Address, all) => all,
    };
    let zones = entry.hints.for_zones.iter();
    let zones = zones.filter_map(|zone| filled(Some(&zone.name)).map(Zone::from));
    let zones: Vec<Zone> = zones.collect();
    let zone_hints = (!zones.is_empty()).then(|| Arc::new(zones));
    let conditions = &entry.conditions;
    let template = |address| Endpoint {
        address,
        conditions: Conditions::from_optional(
            conditions.ready,
            conditions.serving,
            conditions.terminating,
        ),
        backing: backing.clone(),
        zone: entry.zone.as_deref().map(Zone::from),
        node: filled(entry.node_name.as_deref()).map(Into::into),
        hostname: filled(entry.hostname.as_deref()).map(Text::from),
        zone_hints: zone_hints.clone(),
    };
    for text in listed {
        match address(text) {
            Some(address) => endpoints.push(template(address)),
            None => warnings.push(Warning::Address(quote(text))),
        }
    }
}

/// What a target names, which has to be of one of the kinds in `known`.
pub(super) fn backing(
    target: Option<&ObjectReference>,
    known: &'static [&'static str],
) -> Result<Backing, Warning> {
    let Some(target) = target else {
        return Ok(Backing::Address);
    };
    match target.kind.as_str() {
        kind if !known.contains(&kind) => Err(Warning::TargetKind {
            kind: quote(kind),
            known,
        }),
        _ if target.name.is_empty() => Err(Warning::TargetName),
        EXTERNAL_WORKLOAD => Ok(Backing::ExternalWorkload(target.name.as_str().into())),
        _ if target.namespace.is_empty() => Err(Warning::TargetName),
        _ => Ok(Backing::Pod(PodName::new(
            target.namespace.as_str(),
            target.name.as_str(),
        ))),
    }
}

/// What the service mirror wrote on an object that lists endpoints, if it did.
pub(super) fn mirror(metadata: &Metadata) -> Option<MirrorFacts> {
    let facts = MirrorFacts {
        cluster: metadata.labels.mirrored_cluster.as_deref().map(Text::from),
        remote_service: metadata
            .annotations
            .remote_service_name
            .as_deref()
            .map(Text::from),
        gateway_identity: filled(metadata.annotations.remote_gateway_identity.as_deref())
            .map(Text::from),
    };
    (facts != MirrorFacts::default()).then_some(facts)
}

/// Reads an address as Kubernetes writes it; the zone of an IPv6 address is dropped.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        Some((before, _)) => before.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}
