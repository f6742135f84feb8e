//! A whole history told again in other words and in another order.

use super::naive::{Naive, Session};
use super::{of_kind, teller};
use crate::index::{Change, Withheld, Withholding};
use crate::model::ClusterName;
use crate::testing::{HOME, cluster};

/// Choices that a number determines.
pub(super) struct Chance(pub(super) u64);

/// The changes that say the same as a whole history, in some order.
pub(super) fn retold(naive: &Naive, links_known: bool, chance: &mut Chance) -> Vec<Change> {
    let mut tellers: Vec<Vec<Change>> = Vec::new();
    for (name, known) in &naive.clusters {
        let mut told = Vec::new();
        if name.as_str() != HOME {
            told.push(cluster(name.as_str()).linked());
            told.push(withheld(name.as_str(), known.withheld));
        }
        for session in [&known.current, &known.pending].into_iter().flatten() {
            told.extend(retold_session(name, session, chance));
        }
        tellers.push(told);
    }
    if links_known {
        tellers.push(vec![Change::LinksKnown]);
    }
    chance.interleave(tellers)
}

fn retold_session(name: &ClusterName, session: &Session, chance: &mut Chance) -> Vec<Change> {
    let says = teller(name.as_str())
        .trusting(&session.facts.trust_domain)
        .session(session.id.0);
    let mut parts: Vec<Vec<Change>> = Vec::new();
    for kind in says.kinds() {
        let mut objects = of_kind(session, *kind);
        chance.shuffle(&mut objects);
        let listed = objects.split_off(chance.below(objects.len() + 1));
        // Some are listed, some come one by one: before the list they would be forgotten.
        let mut part = Vec::new();
        match session.kinds.iter().find(|(known, _)| known == kind) {
            Some((_, readable)) => {
                part.push(says.resync(*kind, listed));
                part.extend(objects.into_iter().map(|object| says.apply(object)));
                if !readable {
                    part.push(says.unreadable(*kind));
                }
            }
            None => part.extend(
                objects
                    .into_iter()
                    .chain(listed)
                    .map(|object| says.apply(object)),
            ),
        }
        parts.push(part);
    }
    let mut changes = vec![says.opened()];
    changes.extend(chance.interleave(parts));
    changes
}

pub(super) fn withheld(name: &str, all: bool) -> Change {
    let withheld = if all {
        Withheld::all(Withholding::OutOfContact)
    } else {
        Withheld::NOTHING
    };
    Change::Withheld {
        cluster: name.into(),
        withheld,
    }
}

// === impl Chance ===

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    /// One list of several, each of which keeps its order.
    fn interleave<T>(&mut self, parts: Vec<Vec<T>>) -> Vec<T> {
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let mut all = Vec::new();
        while !parts.is_empty() {
            let part = self.below(parts.len());
            match parts[part].next() {
                Some(item) => all.push(item),
                None => drop(parts.remove(part)),
            }
        }
        all
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
