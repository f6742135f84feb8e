//! Which slices have to be joined again.

use std::collections::BTreeSet;

use crate::model::SliceName;

/// Slices that have to be joined again. They are joined once per change, however many of their workloads it is about.
#[derive(Debug)]
pub(super) enum Stale {
    Slices(BTreeSet<SliceName>),
    EverySlice,
}

// === impl Stale ===

impl Default for Stale {
    fn default() -> Self {
        Self::Slices(BTreeSet::new())
    }
}

impl Stale {
    pub(super) fn contains(&self, slice: &SliceName) -> bool {
        match self {
            Self::Slices(slices) => slices.contains(slice),
            Self::EverySlice => true,
        }
    }

    pub(super) fn add(&mut self, slice: SliceName) {
        match self {
            Self::Slices(slices) => {
                slices.insert(slice);
            }
            Self::EverySlice => {}
        }
    }
}
