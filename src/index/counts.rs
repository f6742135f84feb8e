//! How much one cluster has of what.

use super::change::Kind;
use super::join::{Chunk, Held, Joined};

/// What is counted of one cluster besides its Services and endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    objects: [Option<usize>; Kind::ALL.len()],
    behind: BehindEndpoints,
}

/// Endpoints that something is wrong with, by what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BehindEndpoints {
    held: [usize; Held::ALL.len()],
    unreadable: usize,
}

// === impl Counts ===

impl Counts {
    pub(super) fn new(behind: BehindEndpoints, objects: impl Fn(Kind) -> Option<usize>) -> Self {
        Self {
            objects: Kind::ALL.map(objects),
            behind,
        }
    }

    /// Objects of a kind that are kept: those that take part in answers; `None` if the kind is not watched.
    pub fn objects(&self, kind: Kind) -> Option<usize> {
        self.objects[kind as usize]
    }

    /// Endpoints that are not served for this reason, though their slices list them; none until the cluster is synced.
    pub fn held(&self, reason: Held) -> usize {
        self.behind.held[reason as usize]
    }

    /// Endpoints that are served without identity, since the cluster's Pods may not be read.
    pub fn unreadable(&self) -> usize {
        self.behind.unreadable
    }
}

// === impl BehindEndpoints ===

impl BehindEndpoints {
    pub(super) fn add(&mut self, chunk: &Chunk) {
        for (_, joined) in chunk.endpoints() {
            if let Some(count) = self.of(joined) {
                *count += 1;
            }
        }
    }

    pub(super) fn subtract(&mut self, chunk: &Chunk) {
        for (_, joined) in chunk.endpoints() {
            if let Some(count) = self.of(joined) {
                *count -= 1;
            }
        }
    }

    fn of(&mut self, joined: &Joined) -> Option<&mut usize> {
        match joined {
            Joined::Held(held) => Some(&mut self.held[*held as usize]),
            Joined::Unreadable => Some(&mut self.unreadable),
            Joined::Address | Joined::Pod(_) | Joined::ExternalWorkload(_) => None,
        }
    }
}
