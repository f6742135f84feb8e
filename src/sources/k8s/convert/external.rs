//! ExternalWorkloads.

use std::sync::Arc;

use super::super::objects::ExternalWorkload;
use super::slice::address;
use super::{Warning, filled, opaque_ports, port_number, quote, sole_owner, traits};
use crate::model::{ExternalWorkloadFacts, Text};

/// Name of the port that a workload's proxy listens on.
const PROXY_PORT: &str = "linkerd-proxy";

pub(super) fn facts(
    workload: &ExternalWorkload,
    warnings: &mut Vec<Warning>,
) -> ExternalWorkloadFacts {
    let (metadata, spec) = (&workload.metadata, &workload.spec);
    let mut ips = Vec::with_capacity(spec.workload_ips.len());
    for entry in &spec.workload_ips {
        match address(&entry.ip) {
            Some(ip) => ips.push(ip),
            None => warnings.push(Warning::Address(quote(&entry.ip))),
        }
    }
    let mut numbers = Vec::with_capacity(spec.ports.len());
    for entry in &spec.ports {
        let number = entry.port.and_then(|port| port_number(port, warnings));
        numbers.push((entry.name.as_deref(), number));
    }
    let number_of = |name: &str| {
        let mut named = numbers.iter().filter(|(known, _)| *known == Some(name));
        named.find_map(|(_, number)| *number)
    };
    let ports = numbers
        .iter()
        .map(|(name, number)| (*name, number.map(i64::from)));
    let mut distinct: Vec<u16> = numbers.iter().filter_map(|(_, number)| *number).collect();
    distinct.sort_unstable();
    distinct.dedup();
    ExternalWorkloadFacts {
        uid: metadata.uid.as_str().into(),
        ips: ips.into(),
        ports: distinct.into(),
        identity: filled(spec.mesh_tls.identity.as_deref()).map(Text::from),
        server_name: filled(spec.mesh_tls.server_name.as_deref()).map(Text::from),
        owner: sole_owner(metadata),
        opaque_ports: opaque_ports(metadata, warnings, |name| {
            filled(Some(name)).and_then(number_of)
        }),
        inbound_port: number_of(PROXY_PORT),
        traits: Arc::new(traits(metadata, ports)),
    }
}
