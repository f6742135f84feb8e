//! What is said of a workload: who it is, and how its proxy is spoken to.

use super::texts::{self, filled};
use super::{Session, World};
use crate::answer::Labels;
use crate::objects::{External, Object, OwnerReference, Pod, Selector, Server, ServerPort};

/// Namespace of the control plane whose identities count.
const CONTROL_PLANE: &str = "linkerd";

/// How a proxy is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mesh {
    /// Whether there is a proxy; the protocol to speak to it, if that is not for the client to say.
    pub(super) hint: Option<&'static str>,
    /// Its own port, where traffic has to go there.
    pub(super) inbound_port: Option<u32>,
    pub(super) identity: Option<String>,
    pub(super) server_name: Option<String>,
}

// === impl World ===

impl World {
    /// The protocol to speak to a proxy where nothing says that it is opaque.
    pub(super) fn upgraded(&self) -> &'static str {
        if self.setting.h2_upgrade { "h2" } else { "" }
    }

    /// A Pod at a port; `None` if it is meshed and its proxy cannot be read. It vouches for addresses that it has.
    pub(super) fn pod_mesh(
        &self,
        session: &Session,
        pod: &Pod,
        port: u16,
        vouches: bool,
    ) -> Option<Mesh> {
        let skips = pod.skip_inbound_ports.unwrap_or_default();
        if !pod.is_meshed() || texts::lists_port(skips, port, &[]) {
            return Some(Mesh::default());
        }
        let proxy = pod.proxy.as_ref()?;
        let own_ports = [
            texts::listen_port(proxy.admin)?,
            texts::listen_port(proxy.control)?,
        ];
        let opaque = self.pod_is_opaque(session, pod, port);
        let mut mesh = Mesh {
            hint: Some(if opaque { "opaque" } else { self.upgraded() }),
            ..Mesh::default()
        };
        if (opaque || self.setting.transport_header) && !own_ports.contains(&port) {
            let inbound = texts::listen_port(proxy.inbound).filter(|port| *port > 0)?;
            mesh.inbound_port = Some(inbound.into());
        }
        if vouches && pod.control_plane == Some(CONTROL_PLANE) && !session.trust_domain.is_empty() {
            let name = format!(
                "{}.{}.serviceaccount.identity.{CONTROL_PLANE}.{}",
                account(pod),
                pod.namespace,
                session.trust_domain
            );
            mesh.identity = Some(format!("dns:{name}"));
            mesh.server_name = Some(name);
        }
        Some(mesh)
    }

    /// An ExternalWorkload at a port. It always has a proxy, which speaks HTTP/2, and no port bypasses it.
    pub(super) fn external_mesh(
        &self,
        session: &Session,
        external: &External,
        port: u16,
        vouches: bool,
    ) -> Mesh {
        let opaque = self.external_is_opaque(session, external, port);
        let ports = external.usable_ports();
        let inbound = ports.iter().find(|(name, _)| *name == "linkerd-proxy");
        let inbound = inbound.map_or(4143, |(_, number)| *number);
        let identity = filled(external.identity).filter(|_| vouches);
        Mesh {
            hint: Some(if opaque { "opaque" } else { "h2" }),
            inbound_port: (opaque || self.setting.transport_header).then_some(inbound.into()),
            identity: identity.map(|uri| format!("uri:{uri}")),
            server_name: identity
                .and(filled(external.server_name))
                .map(str::to_owned),
        }
    }

    /// What the Pod itself says of a port, else the default; and any Server may say that it is opaque.
    pub(super) fn pod_is_opaque(&self, session: &Session, pod: &Pod, port: u16) -> bool {
        let names: Vec<(&str, u16)> = pod
            .ports
            .iter()
            .filter_map(|it| Some((it.name, texts::port(it.number)?)))
            .collect();
        let itself = match pod.opaque_ports {
            Some(list) => texts::lists_port(list, port, &names),
            None => self.opaque_by_default(port),
        };
        let numbers = pod
            .ports
            .iter()
            .flat_map(|it| [(it.name, Some(it.number)), (it.name, it.host)]);
        let ports: Vec<(&str, u16)> = numbers
            .filter_map(|(name, number)| Some((name, texts::port(number?)?)))
            .collect();
        itself
            || session.servers(pod.namespace).iter().any(|server| {
                server
                    .pods
                    .is_some_and(|selector| selects(selector, pod.tier))
                    && is_about(server, &ports, port)
            })
    }

    pub(super) fn external_is_opaque(
        &self,
        session: &Session,
        external: &External,
        port: u16,
    ) -> bool {
        let ports = external.usable_ports();
        let itself = match external.opaque_ports {
            Some(list) => texts::lists_port(list, port, &ports),
            None => self.opaque_by_default(port),
        };
        itself
            || session.servers(external.namespace).iter().any(|server| {
                server
                    .externals
                    .is_some_and(|selector| selects(selector, external.tier))
                    && is_about(server, &ports, port)
            })
    }
}

// === impl Session ===

impl Session {
    /// Opaque Servers of a namespace.
    fn servers(&self, namespace: &str) -> Vec<&Server> {
        let mut servers = Vec::new();
        for object in &self.objects {
            if let Object::Server(server) = object
                && server.namespace == namespace
                && server.protocol == "opaque"
            {
                servers.push(server);
            }
        }
        servers
    }

    pub(super) fn pod_labels(&self, pod: &Pod, zone: Option<&str>) -> Labels {
        let mut labels = said(&[
            ("pod", Some(pod.name)),
            ("serviceaccount", Some(account(pod))),
            ("zone", Some(zone.unwrap_or_default())),
            ("control_plane_ns", filled(pod.control_plane)),
            ("pod_template_hash", filled(pod.template_hash)),
        ]);
        if let Some(owner) = self.owner(pod) {
            let key = match owner.kind {
                "Job" => "k8s_job".to_owned(),
                kind => kind.to_lowercase(),
            };
            labels.insert(key, owner.name.to_owned());
        }
        labels
    }

    /// Who a Pod is named by: its owner, or that one's, where a ReplicaSet or Job stands between.
    fn owner(&self, pod: &Pod) -> Option<OwnerReference> {
        let direct = sole(&pod.owners)?;
        let above = self.objects.iter().find_map(|object| match object {
            Object::Owner(it)
                if it.kind == direct.kind
                    && it.namespace == pod.namespace
                    && it.name == direct.name =>
            {
                sole(&it.owners)
            }
            _ => None,
        });
        match above {
            Some(above) if direct.kind == "Job" => Some(above),
            Some(above)
                if ["Job", "StatefulSet", "DaemonSet", "Deployment"].contains(&above.kind) =>
            {
                Some(above)
            }
            _ => Some(direct),
        }
    }
}

/// Labels of an ExternalWorkload without its owner, whose kind is written in two ways.
pub(super) fn external_labels(external: &External, zone: Option<&str>) -> Labels {
    said(&[
        ("external_workload", Some(external.name)),
        ("zone", Some(zone.unwrap_or_default())),
    ])
}

/// The only owner of an object that has just one.
pub(super) fn sole(owners: &[OwnerReference]) -> Option<OwnerReference> {
    match owners {
        [owner] => Some(owner.clone()),
        _ => None,
    }
}

fn account(pod: &Pod) -> &'static str {
    filled(pod.account).unwrap_or("default")
}

fn said(all: &[(&str, Option<&str>)]) -> Labels {
    let present = all
        .iter()
        .filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned())));
    present.collect()
}

/// Whether a selector selects what has this label `tier`; one that makes no sense selects nothing.
fn selects(selector: Selector, tier: Option<&str>) -> bool {
    match selector {
        Selector::Empty => true,
        Selector::Label(value) => tier == Some(value),
        Selector::Expression("In", values) => tier.is_some_and(|tier| values.contains(&tier)),
        Selector::Expression("NotIn", values @ [_, ..]) => {
            tier.is_none_or(|tier| !values.contains(&tier))
        }
        Selector::Expression("Exists", []) => tier.is_some(),
        Selector::Expression("DoesNotExist", []) => tier.is_none(),
        Selector::Expression(..) => false,
    }
}

/// Whether a Server is about a port of a workload, by number or by a name that the workload gives it.
fn is_about(server: &Server, named: &[(&str, u16)], port: u16) -> bool {
    match server.port {
        ServerPort::Number(number) => texts::port(number) == Some(port),
        ServerPort::Name(name) => !name.is_empty() && named.contains(&(name, port)),
    }
}
