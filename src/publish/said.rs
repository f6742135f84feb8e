//! What has been said already, so that the log is told once.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// Things that have been logged: each is news once, and there is no news after so many of them.
///
/// Whatever is kept out of the log that way has to be counted somewhere.
#[derive(Debug)]
pub struct SaidOnce {
    hasher: RandomState,
    hashes: HashSet<u64>,
    max: usize,
}

// === impl SaidOnce ===

impl SaidOnce {
    /// Nothing has been said yet, and no more than `max` different things will be.
    pub fn up_to(max: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            hashes: HashSet::new(),
            max,
        }
    }

    /// Whether something has not been said yet and may be. It counts as said from now on.
    pub fn is_news(&mut self, what: &impl Hash) -> bool {
        self.hashes.len() < self.max && self.hashes.insert(self.hasher.hash_one(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_news_once_and_up_to_the_limit() {
        let mut said = SaidOnce::up_to(2);
        let news = ["a", "a", "b", "a", "c", "b"].map(|what| said.is_news(&what));
        assert_eq!(news, [true, false, true, false, false, false]);
    }
}
