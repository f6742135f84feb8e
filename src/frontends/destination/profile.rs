//! What is known → profiles, the answers of `GetProfile`. Pure, but for the life of a stream in `stream`.

mod routes;
mod stream;
mod told;

pub(super) use stream::{Asked, NoProfile, Profiles, Request};

use std::net::SocketAddr;
use std::sync::Arc;

use super::translate::{self, Labels, Translation, WEIGHT, tcp_address};
use crate::index::{Holder, Mesh, Tenant};
use crate::model::{ClusterRole, Owner, ProfileFacts, ProfileName, RetryBudget, ServiceName, Text};
use crate::proto::destination as pb;
use crate::proto::meta;

/// Group of the core API, as the reference names it.
const CORE_GROUP: &str = "core";
const PROFILE_GROUP: &str = "linkerd.io";

/// What a profile is about, and all that it is made of: equal subjects have equal profiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subject {
    /// A port that its Service does not define: the profile is empty, and clients go by their policies.
    UndefinedPort,
    /// A port of a Service.
    Service {
        /// The Service.
        service: ServiceName,
        /// Its name, as the client knows it.
        fqn: Text,
        /// The port.
        port: u16,
        /// Whether its protocol must not be guessed.
        opaque: bool,
        /// The ServiceProfile that applies, if there is any.
        profile: Option<(ProfileName, Arc<ProfileFacts>)>,
    },
    /// An address.
    Endpoint {
        /// The address.
        socket: SocketAddr,
        /// The workload that answers there, if one is known.
        tenant: Option<Tenant>,
    },
}

// === impl Translation ===

impl Translation {
    /// The profile of a subject.
    pub(super) fn profile(&self, subject: &Subject) -> pb::DestinationProfile {
        match subject {
            Subject::UndefinedPort => pb::DestinationProfile::default(),
            Subject::Service {
                service,
                fqn,
                port,
                opaque,
                profile,
            } => {
                let facts = profile.as_ref().map(|(_, facts)| &**facts);
                let budget = facts.and_then(|facts| facts.retry_budget);
                pb::DestinationProfile {
                    routes: facts.map_or(Vec::new(), |facts| routes::routes(&facts.routes)),
                    retry_budget: Some(routes::retry_budget(budget.unwrap_or_default())),
                    dst_overrides: facts.map_or(Vec::new(), |facts| {
                        routes::dst_overrides(&facts.overrides, *port)
                    }),
                    opaque_protocol: *opaque,
                    fully_qualified_name: fqn.to_string(),
                    endpoint: None,
                    parent_ref: Some(reference(meta::Resource {
                        group: CORE_GROUP.into(),
                        kind: "Service".into(),
                        name: service.name.to_string(),
                        namespace: service.namespace.to_string(),
                        section: String::new(),
                        port: u32::from(*port),
                    })),
                    profile_ref: profile.as_ref().map(|(name, _)| {
                        reference(meta::Resource {
                            group: PROFILE_GROUP.into(),
                            kind: "ServiceProfile".into(),
                            name: name.name.to_string(),
                            namespace: name.namespace.to_string(),
                            section: String::new(),
                            port: 0,
                        })
                    }),
                }
            }
            Subject::Endpoint { socket, tenant } => {
                let tenant = tenant.as_ref();
                pb::DestinationProfile {
                    retry_budget: Some(routes::retry_budget(RetryBudget::default())),
                    opaque_protocol: self.mesh.is_opaque_at(tenant, socket.port()),
                    endpoint: Some(self.endpoint(*socket, tenant)),
                    ..pb::DestinationProfile::default()
                }
            }
        }
    }

    /// What is said of an address; nothing but the address where nobody answers, or nobody knows how.
    fn endpoint(&self, socket: SocketAddr, tenant: Option<&Tenant>) -> pb::WeightedAddr {
        let bare = pb::WeightedAddr {
            addr: Some(tcp_address(socket)),
            weight: WEIGHT,
            ..pb::WeightedAddr::default()
        };
        let Some(tenant) = tenant else { return bare };
        match self.mesh.mesh_at(tenant, socket.port()) {
            Ok(mesh) => self.meshed(bare, tenant, mesh),
            // Silence would keep the client waiting.
            Err(_) => bare,
        }
    }

    fn meshed(&self, bare: pb::WeightedAddr, tenant: &Tenant, mesh: Mesh) -> pb::WeightedAddr {
        let metric_labels = labels(tenant);
        pb::WeightedAddr {
            metric_labels,
            protocol_hint: mesh.meshed.then(|| translate::protocol_hint(&mesh)),
            http2: self.http2.filter(|_| mesh.meshed),
            tls_identity: mesh.identity.map(translate::tls_identity),
            ..bare
        }
    }
}

fn labels(tenant: &Tenant) -> Labels {
    match tenant {
        Tenant::Pod(Holder { cluster, workload }) => {
            let mut labels = translate::pod_labels(workload, None);
            labels.insert("namespace".into(), workload.pod.namespace.to_string());
            if cluster.role == ClusterRole::Linked {
                labels.insert("target_cluster".into(), cluster.name.to_string());
            }
            labels
        }
        Tenant::External(workload) => {
            let mut labels = translate::external_labels(workload, None);
            // Here, and nowhere else, the controller writes the kind as it is.
            if let Some(Owner { kind, name }) = &workload.facts.owner {
                labels.remove(&kind.to_lowercase());
                labels.insert(kind.to_string(), name.to_string());
            }
            labels.insert("namespace".into(), workload.name.namespace.to_string());
            labels
        }
    }
}

fn reference(resource: meta::Resource) -> meta::Metadata {
    meta::Metadata {
        kind: Some(meta::metadata::Kind::Resource(resource)),
    }
}

#[cfg(test)]
mod tests;
