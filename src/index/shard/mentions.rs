//! Which slices mention which workloads, in a few bytes per endpoint.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use super::workloads::WorkloadName;
use crate::model::{Backing, Namespace, PodName, SliceFacts, SliceName, Text};

/// A workload that a slice says is behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mention<'a> {
    Pod(&'a PodName),
    External(&'a Namespace, &'a Text),
}

/// Slices by the workloads they mention.
///
/// Of a workload only a hash is kept, and slices that mention any are numbered: a pair of numbers says that one mentions
/// the other. Where hashes are equal by chance a slice is found that does not mention the workload.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    pairs: BTreeSet<(u32, u32)>,
    numbers: HashMap<SliceName, u32>,
    slices: HashMap<u32, SliceName>,
    last_number: u32,
    hasher: RandomState,
}

// === impl Mention ===

impl<'a> From<&'a WorkloadName> for Mention<'a> {
    fn from(name: &'a WorkloadName) -> Self {
        match name {
            WorkloadName::Pod(name) => Self::Pod(name),
            WorkloadName::External(name) => Self::External(&name.namespace, &name.name),
        }
    }
}

/// The workloads that a slice mentions, in order, with repetitions.
pub(super) fn mentions(facts: &SliceFacts) -> impl Iterator<Item = Mention<'_>> {
    let namespace = &facts.service.namespace;
    facts
        .endpoints
        .iter()
        .filter_map(move |endpoint| match &endpoint.backing {
            Backing::Pod(pod) => Some(Mention::Pod(pod)),
            Backing::ExternalWorkload(name) => Some(Mention::External(namespace, name)),
            Backing::Address => None,
        })
}

// === impl Mentions ===

impl Mentions {
    /// Takes in what a slice says now instead of what it said before.
    pub(super) fn set(
        &mut self,
        slice: &SliceName,
        before: Option<&SliceFacts>,
        now: Option<&SliceFacts>,
    ) {
        let mentioned = |facts| Option::into_iter(facts).flat_map(mentions);
        // What changes nearly always is conditions only.
        if mentioned(before).eq(mentioned(now)) {
            return;
        }
        if let Some(number) = self.numbers.get(slice) {
            for mention in mentioned(before) {
                self.pairs.remove(&(hash(&self.hasher, mention), *number));
            }
        }
        if mentioned(now).next().is_none() {
            if let Some(number) = self.numbers.remove(slice) {
                self.slices.remove(&number);
            }
            return;
        }
        let number = self.number(slice);
        for mention in mentioned(now) {
            self.pairs.insert((hash(&self.hasher, mention), number));
        }
    }

    /// The slices that mention a workload, and perhaps others.
    pub(super) fn slices_of(&self, workload: Mention<'_>) -> impl Iterator<Item = &SliceName> {
        let hash = hash(&self.hasher, workload);
        self.pairs
            .range((hash, 0)..=(hash, u32::MAX))
            .filter_map(|(_, number)| self.slices.get(number))
    }

    fn number(&mut self, slice: &SliceName) -> u32 {
        if let Some(number) = self.numbers.get(slice) {
            return *number;
        }
        while self.slices.contains_key(&self.last_number) {
            self.last_number = self.last_number.wrapping_add(1);
        }
        self.numbers.insert(slice.clone(), self.last_number);
        self.slices.insert(self.last_number, slice.clone());
        self.last_number
    }
}

fn hash(hasher: &RandomState, mention: Mention<'_>) -> u32 {
    (hasher.hash_one(mention) >> u32::BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Object;
    use crate::testing::slice;

    #[derive(Default)]
    struct Known {
        mentions: Mentions,
        facts: HashMap<SliceName, SliceFacts>,
    }

    impl Known {
        /// Takes in a slice of these Pods, none if it is gone; then tells which slices mention `shop/a` and `shop/b`.
        fn check(&mut self, name: &str, pods: &str, expected: [&str; 2]) {
            let builder = pods.split_whitespace().fold(slice(name), |slice, pod| {
                slice.endpoint("10.0.0.1").pod(pod)
            });
            let Object::Slice(slice, facts) = builder.object() else {
                unreachable!("a slice is a slice");
            };
            let before = self.facts.remove(&slice);
            let now = (!pods.is_empty()).then_some(facts);
            self.mentions.set(&slice, before.as_ref(), now.as_ref());
            self.facts.extend(now.map(|facts| (slice, facts)));
            let found = ["a", "b"].map(|pod| {
                let pod = PodName::new("shop", pod);
                let slices = self.mentions.slices_of(Mention::Pod(&pod));
                let mut names: Vec<_> = slices.map(|slice| slice.name.as_str()).collect();
                names.sort_unstable();
                names.join(" ")
            });
            assert_eq!(found, expected, "{name} {pods}");
        }
    }

    #[test]
    fn slices_are_found_by_whom_they_mention_now() {
        let mut known = Known::default();
        known.check("one", "shop/a", ["one", ""]);
        known.check("two", "shop/a shop/b shop/a", ["one two", "two"]);
        known.check("one", "shop/b", ["two", "one two"]);
        known.check("two", "", ["", "one"]);
        known.check("three", "shop/a", ["three", "one"]);
        known.check("two", "shop/a", ["three two", "one"]);
        for name in ["one", "two", "three"] {
            known.mentions.set(
                &slice(name).name(),
                known.facts.remove(&slice(name).name()).as_ref(),
                None,
            );
        }
        assert!(known.mentions.pairs.is_empty());
        assert!(known.mentions.slices.is_empty());
        assert!(known.mentions.numbers.is_empty());
    }
}
