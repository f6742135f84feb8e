//! Choices for generated tests: from a seed, so that a run can be repeated, or from bytes, so that a fuzzer can steer them.

use std::ops::Range;

/// A source of choices. Equal sources make equal choices, on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Dice<'a>(Source<'a>);

#[derive(Clone, Debug)]
enum Source<'a> {
    Seed(u64),
    /// Once they are used up, every choice is the first one.
    Bytes(&'a [u8]),
}

// === impl Dice ===

impl Dice<'static> {
    /// Choices from a seed, without end.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seed(seed))
    }
}

impl<'a> Dice<'a> {
    /// Choices from bytes: a choice among few takes one byte. When there are no more, the first of all is chosen.
    pub fn reading(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// A number below `count`, which must not be zero.
    pub fn below(&mut self, count: usize) -> usize {
        let roll = match &mut self.0 {
            Source::Seed(state) => splitmix(state),
            Source::Bytes(bytes) => {
                let wanted = if count <= 256 { 1 } else { 8 };
                let (taken, rest) = bytes.split_at(bytes.len().min(wanted));
                *bytes = rest;
                taken
                    .iter()
                    .fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
        };
        usize::try_from(roll % (count as u64)).unwrap_or_default()
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        let high = self.below(1 << 32) as u64;
        high << 32 | self.below(1 << 32) as u64
    }

    /// A number of a range.
    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, times: usize) -> bool {
        // The first choice of bytes that are used up is the plainest: false.
        self.below(100) >= 100 - times
    }

    /// One of several, all alike.
    pub fn pick<'p, T: ?Sized>(&mut self, among: &[&'p T]) -> &'p T {
        among[self.below(among.len())]
    }

    /// One of several values, all alike.
    pub fn one<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// Something, so many times in a hundred.
    pub fn maybe<T>(&mut self, times: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.percent(times).then(|| make(self))
    }

    /// A list of a length of a range.
    pub fn list<T>(
        &mut self,
        lengths: Range<usize>,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        (0..self.within(lengths)).map(|_| make(self)).collect()
    }
}

/// The next number of the sequence `SplitMix64`. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
