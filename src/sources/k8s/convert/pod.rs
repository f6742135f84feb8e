//! Pods.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::super::objects::{Container, Ip, Pod};
use super::slice::address;
use super::{Warning, filled, ip, opaque_ports, port_list, port_number, sole_owner, traits};
use crate::model::{
    Addresses, HostPorts, NodeName, PodFacts, PodPhase, PodTemplate, ProxyPorts, Text,
};

const PROXY_CONTAINER: &str = "linkerd-proxy";
const SKIP_INBOUND_PORTS: &str = "config.linkerd.io/skip-inbound-ports";

pub(super) fn facts(pod: &Pod, warnings: &mut Vec<Warning>) -> PodFacts {
    PodFacts {
        ips: ips(&pod.status.pod_ips, pod.status.pod_ip.as_deref(), warnings),
        phase: match pod.status.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded" | "Failed") => PodPhase::Finished,
            _ => PodPhase::Starting,
        },
        terminating: pod.metadata.deletion_timestamp.is_some(),
        host_network: pod.spec.host_network,
        on_host: on_host(pod, warnings),
        node: filled(pod.spec.node_name.as_deref()).map(NodeName::from),
        template: Arc::new(template(pod, warnings)),
    }
}

fn template(pod: &Pod, warnings: &mut Vec<Warning>) -> PodTemplate {
    let labels = &pod.metadata.labels;
    let annotations = &pod.metadata.annotations;
    let opaque_ports = opaque_ports(&pod.metadata, warnings, |name| container_port(pod, name));
    let skipped = annotations.skip_inbound_ports.as_deref();
    let skip_inbound_ports = port_list(
        SKIP_INBOUND_PORTS,
        skipped.unwrap_or_default(),
        |_| None,
        warnings,
    );
    let control_plane_namespace = filled(labels.control_plane_namespace.as_deref()).map(Text::from);
    let proxy = proxy(pod);
    if control_plane_namespace.is_some() && (proxy.admin.is_none() || proxy.control.is_none()) {
        warnings.push(Warning::Proxy);
    }
    PodTemplate {
        service_account: filled(pod.spec.service_account_name.as_deref())
            .unwrap_or("default")
            .into(),
        control_plane_namespace,
        template_hash: filled(labels.pod_template_hash.as_deref()).map(Text::from),
        owner: sole_owner(&pod.metadata).map(Arc::new),
        opaque_ports,
        skip_inbound_ports,
        proxy,
        traits: Arc::new(traits(&pod.metadata, named_ports(pod))),
    }
}

/// Ports of the containers, and where they are on the host.
fn named_ports(pod: &Pod) -> impl Iterator<Item = (Option<&str>, Option<i64>)> {
    let ports = containers(pod).flat_map(|container| &container.ports);
    ports.flat_map(|port| {
        [port.container_port, port.host_port].map(|number| (port.name.as_deref(), number))
    })
}

/// Addresses of a list, or the only one where there is no list.
fn ips(list: &[Ip], first: Option<&str>, warnings: &mut Vec<Warning>) -> Addresses {
    let first = filled(first).filter(|_| list.is_empty());
    list.iter()
        .map(|entry| entry.ip.as_str())
        .chain(first)
        .filter_map(|text| ip(text, warnings))
        .collect::<Vec<_>>()
        .into()
}

/// What of its node leads to the Pod: in the node's own network, every port that it declares.
fn on_host(pod: &Pod, warnings: &mut Vec<Warning>) -> Option<Box<HostPorts>> {
    let mut ports: Vec<u16> = containers(pod)
        .flat_map(|container| &container.ports)
        .filter_map(|port| match port.host_port {
            None | Some(0) => port.container_port.filter(|_| pod.spec.host_network),
            given => given,
        })
        .filter_map(|port| port_number(port, warnings))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() {
        return None;
    }
    let ips = ips(
        &pod.status.host_ips,
        pod.status.host_ip.as_deref(),
        warnings,
    );
    Some(Box::new(HostPorts {
        ips,
        ports: ports.into(),
    }))
}

/// Init containers first: a proxy may be one.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.init_containers.iter().chain(&pod.spec.containers)
}

fn container_port(pod: &Pod, name: &str) -> Option<u16> {
    containers(pod)
        .flat_map(|container| &container.ports)
        .find(|port| port.name.as_deref() == Some(name) && !name.is_empty())
        .and_then(|port| u16::try_from(port.container_port?).ok())
}

fn proxy(pod: &Pod) -> ProxyPorts {
    let Some(proxy) = containers(pod).find(|container| container.name == PROXY_CONTAINER) else {
        return ProxyPorts::default();
    };
    let port = |variable: &str| {
        let entry = proxy.env.iter().find(|entry| entry.name == variable)?;
        socket_port(entry.value.as_deref()?)
    };
    ProxyPorts {
        inbound: port("LINKERD2_PROXY_INBOUND_LISTEN_ADDR"),
        admin: port("LINKERD2_PROXY_ADMIN_LISTEN_ADDR"),
        control: port("LINKERD2_PROXY_CONTROL_LISTEN_ADDR"),
    }
}

/// The port of a literal `IPv4:port` or `[IPv6]:port`; names and missing hosts are none.
fn socket_port(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let literal = match host.strip_prefix('[') {
        Some(host) => address(host.strip_suffix(']')?)?.is_ipv6(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    (literal && digits).then(|| port.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_literal() {
        for (text, port) in [
            ("0.0.0.0:4143", Some(4143)),
            ("[::]:4143", Some(4143)),
            ("[fe80::1%eth0]:4143", Some(4143)),
            ("[::ffff:1.2.3.4]:4143", Some(4143)),
            ("127.0.0.1:0004143", Some(4143)),
            ("127.0.0.1:0", Some(0)),
            ("[1.2.3.4]:4143", None),
            (":4143", None),
            ("localhost:4143", None),
            (":::4143", None),
            ("127.0.0.1:+4143", None),
            ("127.0.0.1:65536", None),
            ("127.0.0.1:", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(socket_port(text), port, "{text:?}");
        }
    }
}
