//! Slices × workloads → endpoints. Nothing is skipped for good: what is held back is joined again when the missing fact
//! arrives.

use std::sync::Arc;

use crate::model::{Backing, Endpoint, ExternalWorkload, PodName, SliceFacts, Text, Workload};

/// One slice, joined with what is behind its addresses. Immutable: a change makes a new chunk.
#[derive(Debug)]
pub struct Chunk {
    /// The name of the slice in its namespace.
    pub name: Text,
    /// What the slice says.
    pub facts: Arc<SliceFacts>,
    /// What is behind each of its endpoints, in the same order; `None` if every address stands for itself.
    joined: Option<Box<[Joined]>>,
}

/// What was found behind an endpoint.
#[derive(Clone, Debug)]
pub enum Joined {
    /// The endpoint names nothing; its address stands for itself.
    Address,
    /// The Pod it names.
    Pod(Arc<Workload>),
    /// The ExternalWorkload it names.
    ExternalWorkload(Arc<ExternalWorkload>),
    /// It names a Pod of a cluster whose Pods may not be read; it is served without identity.
    Unreadable,
    /// It is not served.
    Held(Held),
}

/// Why an endpoint is not served although its slice lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The Pod it names is not known (yet, or any more).
    PodUnknown,
    /// The Pod it names has finished; its address may be somebody else's by now.
    PodFinished,
    /// The Pod it names is meshed, and not known to have any address yet: what is known of it is older than the slice.
    /// Served now, it would have no identity for a moment, and clients would talk to it in clear.
    PodWithoutAddress,
    /// The ExternalWorkload it names is not known, as always in a linked cluster, where they are not watched.
    ExternalWorkloadUnknown,
}

/// What is behind an address that stands for itself.
static ADDRESS: Joined = Joined::Address;

// === impl Chunk ===

impl Chunk {
    /// The endpoints of the slice in order, each with what is behind it.
    pub fn endpoints(&self) -> impl Iterator<Item = (&Endpoint, &Joined)> {
        let endpoints = self.facts.endpoints.iter().enumerate();
        endpoints.map(|(place, endpoint)| (endpoint, self.joined(place)))
    }

    /// What is behind the endpoint at a place in the slice; the place has to be there.
    pub(super) fn joined(&self, place: usize) -> &Joined {
        self.joined
            .as_ref()
            .map_or(&ADDRESS, |joined| &joined[place])
    }
}

// === impl Held ===

impl Held {
    /// Every reason, in order.
    pub const ALL: [Self; 4] = [
        Self::PodUnknown,
        Self::PodFinished,
        Self::PodWithoutAddress,
        Self::ExternalWorkloadUnknown,
    ];

    /// The reason in a word, as in labels of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodUnknown => "pod_unknown",
            Self::PodFinished => "pod_finished",
            Self::PodWithoutAddress => "pod_without_address",
            Self::ExternalWorkloadUnknown => "external_workload_unknown",
        }
    }
}

/// Whether an unknown Pod may still be known to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodsReadable {
    Yes,
    No,
}

/// Looks up what is behind every endpoint of a slice. ExternalWorkloads are those of the slice's own namespace.
pub(super) fn join(
    name: Text,
    facts: Arc<SliceFacts>,
    pods: PodsReadable,
    pod: impl Fn(&PodName) -> Option<Arc<Workload>>,
    external: impl Fn(&Text) -> Option<Arc<ExternalWorkload>>,
) -> Chunk {
    let is_address = |endpoint: &Endpoint| endpoint.backing == Backing::Address;
    if facts.endpoints.iter().all(is_address) {
        return Chunk {
            name,
            facts,
            joined: None,
        };
    }
    let joined: Box<[Joined]> = facts
        .endpoints
        .iter()
        .map(|endpoint| match &endpoint.backing {
            Backing::Address => Joined::Address,
            Backing::ExternalWorkload(name) => external(name).map_or(
                Joined::Held(Held::ExternalWorkloadUnknown),
                Joined::ExternalWorkload,
            ),
            Backing::Pod(name) => match pod(name) {
                Some(workload) if workload.facts.is_finished() => Joined::Held(Held::PodFinished),
                Some(workload)
                    if workload.facts.ips.is_empty()
                        && workload.facts.template.control_plane_namespace.is_some() =>
                {
                    Joined::Held(Held::PodWithoutAddress)
                }
                Some(workload) => Joined::Pod(workload),
                None if pods == PodsReadable::No => Joined::Unreadable,
                None => Joined::Held(Held::PodUnknown),
            },
        })
        .collect();
    Chunk {
        name,
        facts,
        joined: Some(joined),
    }
}
