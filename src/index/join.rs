//! Slices × workloads → endpoints. Nothing is skipped for good: what is held back is joined again when the missing fact
//! arrives.

use std::sync::Arc;

use crate::model::{Backing, PodName, SliceFacts, Workload};

/// One slice, joined with what is behind its addresses. Immutable: a change makes a new chunk.
#[derive(Debug)]
pub struct Chunk {
    /// What the slice says.
    pub facts: Arc<SliceFacts>,
    /// What is behind each of its endpoints, in the same order.
    pub joined: Box<[Joined]>,
}

/// What was found behind an endpoint.
#[derive(Clone, Debug)]
pub enum Joined {
    /// The endpoint names nothing; its address stands for itself.
    Address,
    /// The Pod it names.
    Pod(Arc<Workload>),
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
    /// The ExternalWorkload it names is not known.
    ExternalWorkloadUnknown,
}

/// Whether an unknown Pod may still be known to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodsReadable {
    Yes,
    No,
}

/// Looks up what is behind every endpoint of a slice.
pub(super) fn join(
    facts: Arc<SliceFacts>,
    pods: PodsReadable,
    pod: impl Fn(&PodName) -> Option<Arc<Workload>>,
) -> Chunk {
    let joined = facts
        .endpoints
        .iter()
        .map(|endpoint| match &endpoint.backing {
            Backing::Address => Joined::Address,
            Backing::ExternalWorkload(_) => Joined::Held(Held::ExternalWorkloadUnknown),
            Backing::Pod(name) => match pod(name) {
                Some(workload) if workload.facts.is_finished() => Joined::Held(Held::PodFinished),
                Some(workload) => Joined::Pod(workload),
                None if pods == PodsReadable::No => Joined::Unreadable,
                None => Joined::Held(Held::PodUnknown),
            },
        })
        .collect();
    Chunk { facts, joined }
}
