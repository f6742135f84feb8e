//! Endpoints objects.
//!
//! Each of their subsets says what an EndpointSlice could say: some ports, and addresses that all have them.

use super::super::objects::{EndpointAddress, EndpointSubset, Endpoints, Port};
use super::{Warning, filled, ip, slice};
use crate::model::{
    AddressFamily, Conditions, Endpoint, MirrorFacts, ServiceName, SliceFacts, SliceOrigin,
    SlicePort, Text, Transport,
};

/// Kinds of target that an address can have.
const TARGETS: &[&str] = &[slice::POD];

/// What the Endpoints object of a Service says, subset by subset.
pub(super) fn facts(
    service: &ServiceName,
    endpoints: &Endpoints,
    warnings: &mut Vec<Warning>,
) -> Box<[SliceFacts]> {
    if endpoints.metadata.annotations.over_capacity.as_deref() == Some("truncated") {
        warnings.push(Warning::Truncated);
    }
    let mirror = slice::mirror(&endpoints.metadata);
    let subsets = endpoints.subsets.iter();
    subsets
        .map(|each| subset(service, each, mirror.as_ref(), warnings))
        .collect()
}

fn subset(
    service: &ServiceName,
    subset: &EndpointSubset,
    mirror: Option<&MirrorFacts>,
    warnings: &mut Vec<Warning>,
) -> SliceFacts {
    let ready = subset.addresses.iter().map(|entry| (entry, true));
    let not_ready = subset
        .not_ready_addresses
        .iter()
        .map(|entry| (entry, false));
    let endpoints = ready
        .chain(not_ready)
        .filter_map(|(entry, ready)| endpoint(entry, ready, warnings))
        .collect();
    SliceFacts {
        service: service.clone(),
        ports: ports(&subset.ports, warnings),
        endpoints,
        mirror: mirror.cloned().map(Box::new),
        family: AddressFamily::default(),
        origin: SliceOrigin::default(),
    }
}

/// A subset without ports has none by name, and any by number: that of a headless Service without ports.
fn ports(entries: &[Port], warnings: &mut Vec<Warning>) -> Box<[SlicePort]> {
    match entries {
        [] => [SlicePort {
            name: Text::default(),
            port: None,
            transport: Transport::default(),
            app_protocol: None,
        }]
        .into(),
        entries => slice::ports(entries, warnings),
    }
}

/// One address. Only one that is ready has a hostname: Linkerd finds no other by its instance name.
fn endpoint(entry: &EndpointAddress, ready: bool, warnings: &mut Vec<Warning>) -> Option<Endpoint> {
    let backing = match slice::backing(entry.target_ref.as_ref(), TARGETS) {
        Ok(backing) => backing,
        Err(warning) => {
            warnings.push(warning);
            return None;
        }
    };
    let hostname = entry.hostname.as_deref().filter(|_| ready);
    Some(Endpoint {
        address: ip(&entry.ip, warnings)?,
        conditions: Conditions::from_optional(Some(ready), None, None),
        backing,
        zone: None,
        node: filled(entry.node_name.as_deref()).map(Into::into),
        hostname: filled(hostname).map(Text::from),
        zone_hints: None,
    })
}
