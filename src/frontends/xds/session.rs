//! The protocol of one stream: requests and what is known in, responses out. No sockets, no clock.
//!
//! State is kept for each kind of resource: what is subscribed, what was sent, which response is on its way. One response of
//! a kind is on its way at a time; what changes meanwhile is in the next one, as it is then. The numbers in brackets
//! are the rules of `docs/xds.md`.

mod subscriptions;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::resource::{Kind, Known, Resource, Variant, Version};
use subscriptions::{Sent, Subscriptions};

/// Resources in one response are fewer than would make it larger than this; clients of gRPC accept 4 MiB.
const RESPONSE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// What a client says of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The response that it answers; empty if none.
    pub(super) nonce: String,
    /// Whether it refuses that response.
    pub(super) refused: bool,
    /// The names that are wanted: all of them, or in the delta variant those that are wanted besides.
    pub(super) names: Vec<Arc<str>>,
    /// Names that are not wanted any more; delta only.
    pub(super) unwanted: Vec<Arc<str>>,
    /// What the client has from an earlier stream; delta only.
    pub(super) has: BTreeMap<Arc<str>, String>,
    /// Whether the client says that it was answered before, on whatever stream.
    pub(super) answered_before: bool,
}

/// What is to be sent.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) kind: Kind,
    pub(super) nonce: u64,
    /// Of everything of the kind that the client has then; for the state-of-the-world variant.
    pub(super) version: Version,
    pub(super) resources: Vec<(Arc<str>, Arc<Resource>)>,
    /// Names that are gone; delta only.
    pub(super) removed: Vec<Arc<str>>,
    /// Names in the request that nothing stands behind.
    pub(super) absent: Vec<Arc<str>>,
    /// Whether its one resource has to be alone, since a response that it was part of was refused.
    alone: bool,
}

/// What a request changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Names that are subscribed now and were not.
    pub(super) added: Vec<Arc<str>>,
    /// Names that were subscribed and are not.
    pub(super) dropped: Vec<Arc<str>>,
    /// What the request says of an earlier response.
    pub(super) verdict: Verdict,
}

/// What a request says of the response before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    #[default]
    None,
    /// It was accepted.
    Accepted,
    /// It was refused.
    Refused,
    /// It was sent before the client had seen the last response.
    Stale,
    /// The client has accepted everything, and wants it again.
    Again,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Session {
    variant: Variant,
    kinds: [Subscriptions; 4],
    nonce: u64,
}

// === impl Session ===

impl Session {
    /// A stream on which nothing has been said.
    pub(super) fn new(variant: Variant) -> Self {
        Self {
            variant,
            kinds: Default::default(),
            nonce: 0,
        }
    }

    /// Takes a request in.
    pub(super) fn on_request(&mut self, kind: Kind, request: Request) -> Outcome {
        let state = &mut self.kinds[kind.index()];
        let first = !state.is_asked_for();
        if first {
            state.client_has_some = request.answered_before || !request.has.is_empty();
        }
        let mut verdict = state.on_nonce(&request.nonce, request.refused);
        let mut outcome = match self.variant {
            Variant::StateOfTheWorld => state.want_exactly(kind, request.names),
            Variant::Delta => {
                state.want_besides(kind, first, request.names, request.unwanted, &request.has)
            }
        };
        if verdict == Verdict::Again {
            let unchanged = outcome.added.is_empty() && outcome.dropped.is_empty();
            if self.variant == Variant::StateOfTheWorld && unchanged {
                if !kind.is_whole() {
                    state.send_all_again();
                }
            } else {
                verdict = Verdict::None;
            }
        }
        outcome.verdict = verdict;
        outcome
    }

    /// From now on, a wildcard for clusters stands for what [`Self::cover`] says, and for nothing before.
    pub(super) fn expect_list(&mut self) {
        self.kinds[Kind::Cluster.index()].expect_list();
    }

    /// Says what a wildcard for clusters stands for now, and returns the names that are new.
    pub(super) fn cover(&mut self, names: Vec<Arc<str>>) -> Vec<Arc<str>> {
        self.kinds[Kind::Cluster.index()].cover(names)
    }

    /// Names that left with what a wildcard stands for, and that the client has been told of since this was asked last.
    pub(super) fn let_go(&mut self) -> Vec<Arc<str>> {
        self.kinds[Kind::Cluster.index()].take_let_go()
    }

    /// Notes that something else may be known of a name now.
    pub(super) fn on_change(&mut self, name: &str) {
        for state in &mut self.kinds {
            state.on_change(name);
        }
    }

    /// Notes that the client will say nothing more: what is on its way counts as accepted.
    pub(super) fn on_half_close(&mut self) {
        for state in &mut self.kinds {
            state.accept();
        }
    }

    /// Whether everything that was asked for has been answered, as far as it can be.
    pub(super) fn is_answered(&self) -> bool {
        self.kinds.iter().all(Subscriptions::is_answered)
    }

    /// Number of names that are subscribed, of every kind.
    pub(super) fn name_count(&self) -> usize {
        self.kinds.iter().map(Subscriptions::len).sum()
    }

    /// The names of one kind that are subscribed, in order.
    pub(super) fn names(&self, kind: Kind) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.kinds[kind.index()].names()
    }

    /// Whether everything there is of a kind is asked for.
    pub(super) fn is_wildcard(&self, kind: Kind) -> bool {
        self.kinds[kind.index()].is_wildcard()
    }

    /// Whether a name is subscribed, as whatever kind.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.kinds.iter().any(|state| state.get(name).is_some())
    }

    /// What is to be sent now, given what is known. May be called at any time; what was sent once is not sent again.
    pub(super) fn responses(&mut self, known: impl Fn(Kind, &str) -> Known) -> Vec<Response> {
        let mut responses = Vec::new();
        // Clusters first, and those that go once more when their endpoints have gone [P31, P33].
        let order = [
            Kind::Cluster,
            Kind::Assignment,
            Kind::Cluster,
            Kind::Listener,
            Kind::Route,
        ];
        for kind in order {
            let response = if self.variant == Variant::StateOfTheWorld && kind.is_whole() {
                self.whole_response(kind, &known)
            } else {
                self.partial_response(kind, &known)
            };
            if let Some(response) = response {
                if kind == Kind::Cluster {
                    // A client that is told of a cluster waits for its endpoints, even if it has them [P30].
                    let assignments = &mut self.kinds[Kind::Assignment.index()];
                    for (name, _) in &response.resources {
                        assignments.send_again(name);
                    }
                }
                responses.push(response);
            }
        }
        responses
    }

    /// A response with what has changed.
    fn partial_response(
        &mut self,
        kind: Kind,
        known: &impl Fn(Kind, &str) -> Known,
    ) -> Option<Response> {
        if self.kinds[kind.index()].is_waiting() {
            return None;
        }
        let delta = self.variant == Variant::Delta;
        let mut response = Response::new(kind);
        let mut bytes = 0;
        let mut later = Vec::new();
        for name in self.kinds[kind.index()].take_pending() {
            if response.alone || bytes >= RESPONSE_BYTES_MAX {
                later.push(name);
                continue;
            }
            let leaves = self.kinds[kind.index()].is_leaving(&name);
            let found = if leaves {
                Known::Absent
            } else {
                known(kind, &name)
            };
            let keep_cluster = matches!(found, Known::Absent) && self.endpoints_first(kind, &name);
            let state = &mut self.kinds[kind.index()];
            let fresh = !state.client_has_some;
            let Some(named) = state.get_mut(&name) else {
                // Not subscribed, and told of because it was a moment ago.
                if delta {
                    response.removed.push(name);
                }
                continue;
            };
            if keep_cluster {
                later.push(name);
                continue;
            }
            match found {
                Known::Present(resource, completeness)
                    if named.may_be_told(completeness, fresh) =>
                {
                    if !named.has_to_be_sent(resource.version) {
                        continue;
                    }
                    let size = resource.len();
                    let alone = named.alone;
                    if (alone || bytes + size > RESPONSE_BYTES_MAX)
                        && !response.resources.is_empty()
                    {
                        later.push(name);
                        continue;
                    }
                    bytes += size;
                    state.sent(&name, Sent::Present(resource.version));
                    response.alone = alone;
                    response.resources.push((name, resource));
                }
                Known::NotYet | Known::Present(..) => named.waits = true,
                Known::Absent if !leaves && named.sent == Some(Sent::Absent) && !named.again => {
                    named.waits = false;
                }
                Known::Absent if leaves => {
                    state.let_go(&name);
                    if delta {
                        response.removed.push(name);
                    }
                }
                Known::Absent => {
                    state.sent(&name, Sent::Absent);
                    if delta {
                        response.removed.push(Arc::clone(&name));
                    }
                    response.absent.push(name);
                }
            }
        }
        let state = &mut self.kinds[kind.index()];
        state.put_back(later);
        // A wildcard is answered by what it stands for, as soon as anything of that is known.
        let known = !response.is_empty() || !state.waits();
        let due = delta && known && state.take_wildcard_due();
        (due || !response.is_empty()).then(|| self.finish(response))
    }

    /// A response with everything, if all of it is known and it is not what the client has.
    fn whole_response(
        &mut self,
        kind: Kind,
        known: &impl Fn(Kind, &str) -> Known,
    ) -> Option<Response> {
        let state = &self.kinds[kind.index()];
        if state.is_waiting() || !state.is_pending() || state.waits_for_list() {
            return None;
        }
        let mut response = Response::new(kind);
        let mut waits = false;
        let mut left = Vec::new();
        for (name, named) in state.iter() {
            let leaves = state.is_leaving(name);
            if leaves && !self.endpoints_first(kind, name) {
                left.push(Arc::clone(name));
                continue;
            }
            let found = if leaves {
                Known::Absent
            } else {
                known(kind, name)
            };
            match found {
                Known::NotYet => waits = true,
                Known::Present(resource, completeness) => {
                    if named.may_be_told(completeness, !state.client_has_some) {
                        response.resources.push((Arc::clone(name), resource));
                    } else {
                        waits = true;
                    }
                }
                Known::Absent => {
                    if self.endpoints_first(kind, name) {
                        waits = true;
                    }
                    response.absent.push(Arc::clone(name));
                }
            }
        }
        if waits {
            return None;
        }
        let state = &mut self.kinds[kind.index()];
        drop(state.take_pending());
        let due = state.take_wildcard_due();
        let again = state.iter().any(|(_, named)| named.again);
        for (name, resource) in &response.resources {
            state.sent(name, Sent::Present(resource.version));
        }
        for name in &response.absent {
            state.sent(name, Sent::Absent);
        }
        for name in &left {
            state.let_go(name);
        }
        let version = state.version();
        let unchanged = state.whole_sent == Some(version) && !again;
        if unchanged && !due || state.whole_refused == Some(version) {
            return None;
        }
        state.whole_sent = Some(version);
        Some(self.finish(response))
    }

    /// Whether a cluster that is gone has to stay a moment longer: its endpoints go first [P33].
    fn endpoints_first(&self, kind: Kind, name: &str) -> bool {
        kind == Kind::Cluster
            && self.kinds[Kind::Cluster.index()]
                .get(name)
                .is_some_and(|named| matches!(named.sent, Some(Sent::Present(_))))
            && self.kinds[Kind::Assignment.index()].is_pending_name(name)
    }

    fn finish(&mut self, mut response: Response) -> Response {
        self.nonce += 1;
        response.nonce = self.nonce;
        let state = &mut self.kinds[response.kind.index()];
        response.version = state.version();
        let names = response.resources.iter().map(|(name, _)| Arc::clone(name));
        state.on_its_way(response.nonce, names.collect());
        response
    }
}

// === impl Response ===

impl Response {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            nonce: 0,
            version: Version::default(),
            resources: Vec::new(),
            removed: Vec::new(),
            absent: Vec::new(),
            alone: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.removed.is_empty() && self.absent.is_empty()
    }
}

#[cfg(test)]
impl Response {
    /// A response with some resources, for tests of what becomes of it.
    pub(super) fn sample(kind: Kind, resources: Vec<(Arc<str>, Arc<Resource>)>) -> Self {
        Self {
            resources,
            ..Self::new(kind)
        }
    }
}

#[cfg(test)]
mod tests;
