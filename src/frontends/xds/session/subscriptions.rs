//! What one stream wants of one kind, and what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::resource::{Completeness, Fingerprint, Kind, Version};
use super::{Outcome, Verdict};

/// Asks for everything there is.
const WILDCARD: &str = "*";

/// The names of one kind.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something that happened or did not, apart from the others"
)]
pub(super) struct Subscriptions {
    by_name: BTreeMap<Arc<str>, Named>,
    /// Names of which something may have to be said.
    pending: BTreeSet<Arc<str>>,
    asked: bool,
    /// Whether the client came with something from an earlier stream.
    pub(super) client_has_some: bool,
    ever_named: bool,
    wildcard: bool,
    /// What the wildcard stands for.
    listed: Listed,
    /// What the client says it has, until it is known what its wildcard stands for.
    initial: BTreeMap<Arc<str>, Version>,
    /// Names that left with what a wildcard stands for, and have been told of.
    let_go: Vec<Arc<str>>,
    /// A wildcard has not been answered yet; clients wait for an answer even if there is nothing.
    wildcard_due: bool,
    /// Of the last response.
    nonce: Option<u64>,
    /// What the response holds that has been neither accepted nor refused yet.
    in_flight: Option<Vec<Arc<str>>>,
    /// The versions of everything that was sent, taken together.
    total: u64,
    /// For kinds whose responses are whole: the version of the last one.
    pub(super) whole_sent: Option<Version>,
    /// The version of the last whole response that was refused.
    pub(super) whole_refused: Option<Version>,
}

/// What a wildcard stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    /// Nothing, ever.
    #[default]
    Never,
    /// Something that is not known yet.
    NotYet,
    /// The names that are covered.
    Known,
}

/// One name.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says something that is so or not, apart from the others"
)]
pub(super) struct Named {
    /// Subscribed by name.
    asked: bool,
    /// One of those that the wildcard stands for.
    covered: bool,
    pub(super) sent: Option<Sent>,
    /// To be sent even if the client has it.
    pub(super) again: bool,
    /// To be sent in a response of its own.
    pub(super) alone: bool,
    /// Looked up, and not known well enough yet.
    pub(super) waits: bool,
    refused: Option<Version>,
}

/// What a stream was told of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Present(Version),
    Absent,
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Whether there was a request of the kind.
    pub(super) fn is_asked_for(&self) -> bool {
        self.asked
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    pub(super) fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Named> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Named> {
        self.by_name.get_mut(name)
    }

    /// The names, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Named)> {
        self.by_name.iter()
    }

    /// Whether a response is on its way that the client has not answered.
    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether something may have to be said.
    pub(super) fn is_pending(&self) -> bool {
        self.wildcard_due || !self.pending.is_empty()
    }

    pub(super) fn is_pending_name(&self, name: &str) -> bool {
        self.pending.contains(name)
    }

    pub(super) fn is_answered(&self) -> bool {
        !self.is_pending() && !self.waits()
    }

    /// Whether a name was looked up and is not known well enough yet.
    pub(super) fn waits(&self) -> bool {
        self.by_name.values().any(|named| named.waits)
    }

    pub(super) fn take_pending(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.pending)
    }

    pub(super) fn put_back(&mut self, names: Vec<Arc<str>>) {
        self.pending.extend(names);
    }

    /// Whether a wildcard has to be answered, and can be.
    pub(super) fn take_wildcard_due(&mut self) -> bool {
        !self.waits_for_list() && std::mem::take(&mut self.wildcard_due)
    }

    /// Whether it is not known yet what has been asked for.
    pub(super) fn waits_for_list(&self) -> bool {
        self.wildcard && self.listed == Listed::NotYet
    }

    /// Whether a name is left over from what the wildcard stood for.
    pub(super) fn is_leaving(&self, name: &str) -> bool {
        self.by_name
            .get(name)
            .is_some_and(|named| !named.asked && !named.covered)
    }

    /// From now on, a wildcard stands for what [`Self::cover`] says.
    pub(super) fn expect_list(&mut self) {
        if self.listed == Listed::Never {
            self.listed = Listed::NotYet;
        }
    }

    /// Says what a wildcard stands for, and returns what is new. What is covered no more leaves with the next response.
    pub(super) fn cover(&mut self, names: Vec<Arc<str>>) -> Vec<Arc<str>> {
        if !self.wildcard {
            return Vec::new();
        }
        self.listed = Listed::Known;
        let names: BTreeSet<_> = names.into_iter().collect();
        for (name, named) in &mut self.by_name {
            named.covered = names.contains(name);
            if !named.asked && !named.covered {
                self.pending.insert(Arc::clone(name));
            }
        }
        let mut added = Vec::new();
        for name in names {
            if self.by_name.contains_key(&name) {
                continue;
            }
            self.by_name.entry(Arc::clone(&name)).or_default().covered = true;
            if let Some(version) = self.initial.remove(&name) {
                self.sent(&name, Sent::Present(version));
            }
            self.pending.insert(Arc::clone(&name));
            added.push(name);
        }
        // What the client has and nobody knows is gone [P20].
        let gone = std::mem::take(&mut self.initial).into_keys();
        self.pending.extend(gone);
        added
    }

    /// Forgets a name that left, after the client was told.
    pub(super) fn let_go(&mut self, name: &Arc<str>) {
        self.forget(name);
        self.let_go.push(Arc::clone(name));
    }

    /// Names that were let go of since this was asked last.
    pub(super) fn take_let_go(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.let_go)
    }

    /// The version of everything that was sent, taken together.
    pub(super) fn version(&self) -> Version {
        Version(self.total)
    }

    /// Reads what a request says of the response before it. A refused response is not sent again as it was: if it held
    /// several resources, each of them goes out alone, so that one that is bad is refused alone [P12, P53, P54].
    pub(super) fn on_nonce(&mut self, nonce: &str, refused: bool) -> Verdict {
        let Some(last) = self.nonce else {
            return Verdict::None;
        };
        if nonce.is_empty() {
            return Verdict::None;
        }
        if nonce.parse() != Ok(last) {
            return Verdict::Stale;
        }
        match (self.in_flight.take(), refused) {
            (Some(names), true) => {
                self.refuse(names);
                Verdict::Refused
            }
            (Some(names), false) => {
                for name in &names {
                    if let Some(named) = self.by_name.get_mut(name) {
                        named.alone = false;
                    }
                }
                Verdict::Accepted
            }
            (None, true) => Verdict::None,
            (None, false) => Verdict::Again,
        }
    }

    fn refuse(&mut self, names: Vec<Arc<str>>) {
        if self.whole_sent.is_some() {
            self.whole_refused = self.whole_sent;
            return;
        }
        let several = names.len() > 1;
        for name in names {
            let Some(entry) = self.by_name.get_mut(&name) else {
                continue;
            };
            if several {
                entry.alone = true;
                entry.again = true;
                self.pending.insert(name);
            } else {
                entry.alone = false;
                if let Some(Sent::Present(version)) = entry.sent {
                    entry.refused = Some(version);
                }
            }
        }
    }

    /// Counts a response that is on its way as accepted: the client will say nothing more.
    pub(super) fn accept(&mut self) {
        self.in_flight = None;
    }

    pub(super) fn on_its_way(&mut self, nonce: u64, names: Vec<Arc<str>>) {
        self.nonce = Some(nonce);
        self.in_flight = Some(names);
    }

    /// Takes over the names of a state-of-the-world request. No names at all ask for everything, until there have been some;
    /// after that they ask for nothing [P13].
    pub(super) fn want_exactly(&mut self, kind: Kind, names: Vec<Arc<str>>) -> Outcome {
        let all = if names.is_empty() {
            !self.ever_named
        } else {
            names.iter().any(|name| &**name == WILDCARD)
        };
        self.asked = true;
        self.ever_named |= !names.is_empty();
        self.set_wildcard(kind, all);
        let wanted: BTreeSet<_> = names
            .into_iter()
            .filter(|name| &**name != WILDCARD)
            .collect();
        let mut dropped = Vec::new();
        for (name, named) in &mut self.by_name {
            named.asked = wanted.contains(name);
            if !named.asked && !named.covered {
                dropped.push(Arc::clone(name));
            }
        }
        for name in &dropped {
            self.forget(name);
        }
        let mut added = Vec::new();
        for name in wanted {
            if !self.by_name.contains_key(&name) {
                self.add(&name);
                added.push(name);
            }
        }
        Outcome {
            added,
            dropped,
            verdict: Verdict::None,
        }
    }

    /// Takes over the names of a delta request. Whatever is asked for is sent, even if the client was sent it before [P22],
    /// but for what it says in its first request that it has [P20]; endpoints are sent even then [P21].
    pub(super) fn want_besides(
        &mut self,
        kind: Kind,
        first: bool,
        wanted: Vec<Arc<str>>,
        unwanted: Vec<Arc<str>>,
        has: &BTreeMap<Arc<str>, String>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        self.asked = true;
        if first && wanted.is_empty() {
            self.set_wildcard(kind, true);
        }
        for name in wanted {
            if &*name == WILDCARD {
                self.set_wildcard(kind, true);
                continue;
            }
            let known = self.by_name.contains_key(&name);
            self.add(&name);
            if let Some(named) = self.by_name.get_mut(&name) {
                named.again = true;
            }
            if !known {
                outcome.added.push(name);
            }
        }
        for name in unwanted {
            if &*name == WILDCARD {
                self.set_wildcard(kind, false);
                self.wildcard_due = false;
                let names = self.by_name.keys();
                let left: Vec<_> = names
                    .filter(|name| self.is_leaving(name))
                    .cloned()
                    .collect();
                for name in left {
                    self.forget(&name);
                    outcome.dropped.push(name);
                }
            } else if let Some(named) = self.by_name.get_mut(&name) {
                if named.covered {
                    named.asked = false;
                    self.send_again(&name);
                    continue;
                }
                self.forget(&name);
                if self.wildcard {
                    self.pending.insert(Arc::clone(&name));
                }
                outcome.dropped.push(name);
            }
        }
        if first && kind != Kind::Assignment {
            for (name, version) in has {
                if self.by_name.contains_key(name) {
                    if let Some(version) = Version::parse(version) {
                        self.sent(name, Sent::Present(version));
                    }
                } else if self.waits_for_list() {
                    // A version that is not of ours is none that we would send.
                    let version = Version::parse(version).unwrap_or_default();
                    self.initial.insert(Arc::clone(name), version);
                } else if self.wildcard {
                    self.pending.insert(Arc::clone(name));
                }
            }
        }
        outcome
    }

    fn set_wildcard(&mut self, kind: Kind, wildcard: bool) {
        let wildcard = wildcard && kind.is_whole();
        self.wildcard_due |= wildcard && !self.wildcard;
        self.wildcard = wildcard;
        if !wildcard {
            for named in self.by_name.values_mut() {
                named.covered = false;
            }
        }
    }

    fn add(&mut self, name: &Arc<str>) {
        self.by_name.entry(Arc::clone(name)).or_default().asked = true;
        self.pending.insert(Arc::clone(name));
    }

    fn forget(&mut self, name: &Arc<str>) {
        self.count(name, None);
        self.by_name.remove(name);
        self.pending.remove(name);
    }

    pub(super) fn on_change(&mut self, name: &str) {
        if let Some((name, _)) = self.by_name.get_key_value(name) {
            self.pending.insert(Arc::clone(name));
        }
    }

    pub(super) fn send_again(&mut self, name: &Arc<str>) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.again = true;
            self.pending.insert(Arc::clone(name));
        }
    }

    pub(super) fn send_all_again(&mut self) {
        for (name, named) in &mut self.by_name {
            named.again = true;
            self.pending.insert(Arc::clone(name));
        }
    }

    /// Remembers what the client is told of a name.
    pub(super) fn sent(&mut self, name: &Arc<str>, sent: Sent) {
        self.count(name, Some(sent));
        if let Some(named) = self.by_name.get_mut(name) {
            if named.sent != Some(sent) {
                named.refused = None;
            }
            named.sent = Some(sent);
            named.again = false;
            named.waits = false;
        }
    }

    /// Replaces what was sent of a name in the total.
    fn count(&mut self, name: &str, sent: Option<Sent>) {
        let before = self.by_name.get(name).and_then(|named| named.sent);
        for sent in [before, sent].into_iter().flatten() {
            if let Sent::Present(version) = sent {
                let mut part = Fingerprint::default();
                part.text(name).number(version.0);
                self.total ^= part.version().0;
            }
        }
    }
}

// === impl Named ===

impl Named {
    /// Whether a client may be told what may not be complete. What it has been told of on this stream goes on; otherwise it
    /// has to have nothing, and to have waited [P42].
    pub(super) fn may_be_told(&self, completeness: Completeness, fresh: bool) -> bool {
        match completeness {
            Completeness::Complete => true,
            Completeness::Partial => fresh || self.was_told(),
            Completeness::TooEarly => self.was_told(),
        }
    }

    fn was_told(&self) -> bool {
        matches!(self.sent, Some(Sent::Present(_)))
    }

    /// Whether the client has to be sent a version: it does not have it, or has asked for it again, and has not refused it.
    pub(super) fn has_to_be_sent(&self, version: Version) -> bool {
        self.again || (self.sent != Some(Sent::Present(version)) && self.refused != Some(version))
    }
}
