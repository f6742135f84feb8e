//! Whether a Service is answered, and from where.

use crate::index::{MemberState, ServiceSnapshot};
use crate::model::{ClusterName, Membership, RemoteService, ServiceName};

/// Where the endpoints of a Service are looked for. A stream keeps to what it was opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    Local,
    Remote(RemoteService),
    Federated,
}

/// Why a Service is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0} is of type ExternalName, which has no endpoints")]
    ExternalName(ServiceName),
    #[error("service {0} not found")]
    ServiceNotFound(ServiceName),
    #[error(
        "{service} names the linked cluster {cluster}, but has no label multicluster.linkerd.io/remote-service"
    )]
    RemoteServiceMissing {
        service: ServiceName,
        cluster: ClusterName,
    },
    #[error("{service} is looked for in cluster {cluster}, which is not linked")]
    NotLinked {
        service: ServiceName,
        cluster: ClusterName,
    },
}

// === impl Dispatch ===

impl Dispatch {
    /// Decides how a Service is answered now, or why it is not.
    pub(super) fn of(snapshot: &ServiceSnapshot) -> Result<Self, Refusal> {
        let service = || snapshot.service.clone();
        let Some(facts) = &snapshot.facts else {
            return Err(Refusal::ServiceNotFound(service()));
        };
        match &facts.membership {
            Membership::Federated(_) => Ok(Self::Federated),
            Membership::Remote(remote) if remote.service.is_none() => {
                Err(Refusal::RemoteServiceMissing {
                    service: service(),
                    cluster: remote.cluster.clone(),
                })
            }
            Membership::Remote(remote) => match snapshot.members.first() {
                Some(member) if member.state == MemberState::NotLinked => Err(Refusal::NotLinked {
                    service: service(),
                    cluster: remote.cluster.clone(),
                }),
                _ if facts.external_name => Err(Refusal::ExternalName(service())),
                Some(member)
                    if member
                        .facts
                        .as_ref()
                        .is_some_and(|facts| facts.external_name) =>
                {
                    Err(Refusal::ExternalName(member.service.clone()))
                }
                _ => Ok(Self::Remote(remote.clone())),
            },
            Membership::Local if facts.external_name => Err(Refusal::ExternalName(service())),
            Membership::Local => Ok(Self::Local),
        }
    }

    /// Whether a stream opened this way may go on with what is known now.
    ///
    /// It may not when the Service has become something else: the client asks again and gets what is right then. A
    /// federated Service that is gone is such a case; any other may come back under its name.
    pub(super) fn still_holds(&self, snapshot: &ServiceSnapshot) -> bool {
        match snapshot.facts.as_ref().map(|facts| &facts.membership) {
            None => *self != Self::Federated,
            Some(Membership::Local) => *self == Self::Local,
            Some(Membership::Remote(remote)) => {
                matches!(self, Self::Remote(opened) if opened == remote)
            }
            Some(Membership::Federated(_)) => *self == Self::Federated,
        }
    }
}

#[cfg(test)]
mod tests;
