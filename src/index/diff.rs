//! What changed between two views, as clients see it.

use std::cmp::Ordering;
use std::net::SocketAddr;

use super::select::{View, ViewEndpoint};

/// The difference between two views: what to set and what to take away, each in order of address.
///
/// An address is never in both.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Endpoints that are new or about which something else is said now.
    pub add: Vec<ViewEndpoint>,
    /// Addresses that are gone.
    pub remove: Vec<SocketAddr>,
}

/// The difference that turns `before` into `after`; from nothing if there was no view before.
pub fn diff(before: Option<&View>, after: &View) -> Delta {
    let mut delta = Delta::default();
    let Some(before) = before else {
        delta.add = after.endpoints.to_vec();
        return delta;
    };
    // What is said of an endpoint depends on these too.
    let same_context = before.port == after.port && before.multicluster == after.multicluster;
    let same_zone = before.zone == after.zone;
    let mut old = before.endpoints.iter().peekable();
    let mut new = after.endpoints.iter().peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.socket.cmp(&new.socket),
        };
        match order {
            Ordering::Less => delta.remove.extend(old.next().map(|gone| gone.socket)),
            Ordering::Greater => delta.add.extend(new.next().cloned()),
            Ordering::Equal => {
                if let (Some(old), Some(new)) = (old.next(), new.next()) {
                    let same = same_context
                        && old.same_content(new)
                        && (same_zone
                            || old.locality(before.zone.as_ref())
                                == new.locality(after.zone.as_ref()));
                    if !same {
                        delta.add.push(new.clone());
                    }
                }
            }
        }
    }
    delta
}

/// What a client has after it has taken in a delta, in order of address.
pub fn apply(endpoints: &[ViewEndpoint], delta: &Delta) -> Vec<ViewEndpoint> {
    let mut result: Vec<ViewEndpoint> = endpoints
        .iter()
        .filter(|endpoint| {
            delta.remove.binary_search(&endpoint.socket).is_err()
                && delta
                    .add
                    .binary_search_by(|added| added.socket.cmp(&endpoint.socket))
                    .is_err()
        })
        .chain(&delta.add)
        .cloned()
        .collect();
    result.sort_by_key(|endpoint| endpoint.socket);
    result
}

// === impl Delta ===

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}
