//! Which endpoint goes into which slice.
//!
//! As Kubernetes' own controllers do it: what is in a slice stays there; what is new goes into slices that are written anyway, or
//! into the fullest one that has room for all of it, or into new ones; a slice that is not needed any more is used for
//! another purpose before it is deleted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::copy::{CopyEndpoint, CopyPort, Existing};
use crate::model::{AddressFamily, Text};

/// Endpoints in one slice. Source: what Kubernetes' controllers do unless told otherwise.
const ENDPOINTS_MAX: usize = 100;

/// What all endpoints of one slice have in common.
pub(super) type Shape = (AddressFamily, Vec<CopyPort>);

/// A slice to be.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    /// The slice that is there.
    pub(super) there: Option<&'a Existing>,
    /// Its endpoints.
    pub(super) endpoints: Vec<CopyEndpoint>,
    /// Whether it has to be written.
    is_written: bool,
}

/// How endpoints are divided.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    /// The slices that there should be.
    pub(super) slots: Vec<(Shape, Slot<'a>)>,
    /// Slices that are there and not needed.
    pub(super) obsolete: Vec<&'a Existing>,
}

/// What makes an endpoint the same one as before.
type Key = (IpAddr, Option<Text>);

fn key(endpoint: &CopyEndpoint) -> Key {
    let target = endpoint.target.as_ref();
    (endpoint.address, target.map(|target| target.name.clone()))
}

/// Divides endpoints over the slices that are there, and over new ones where these do not suffice.
pub(super) fn pack<'a>(
    wanted: BTreeMap<Shape, Vec<CopyEndpoint>>,
    existing: &[&'a Existing],
) -> Packed<'a> {
    let mut spare: Vec<&Existing> = existing.to_vec();
    let mut slots = Vec::new();
    let mut waiting = Vec::new();
    for (shape, endpoints) in wanted {
        let mut left: BTreeMap<Key, CopyEndpoint> = endpoints
            .into_iter()
            .map(|endpoint| (key(&endpoint), endpoint))
            .collect();
        let mut kept = keep(&shape, &mut left, &mut spare);
        fill(&mut kept, &mut left);
        slots.extend(kept.into_iter().map(|slot| (shape.clone(), slot)));
        waiting.push((shape, left));
    }
    // What has no place yet takes slices that nobody needs before it takes new ones.
    for (shape, mut left) in waiting {
        while !left.is_empty() {
            let place = spare.iter().position(|there| is_of(there, shape.0));
            let mut slot = Slot {
                there: place.map(|place| spare.remove(place)),
                endpoints: Vec::new(),
                is_written: true,
            };
            slot.take(&mut left);
            slots.push((shape.clone(), slot));
        }
    }
    Packed {
        slots,
        obsolete: spare,
    }
}

/// The slices of a shape with what stays in them; those in which nothing does are left among the spare ones.
fn keep<'a>(
    shape: &Shape,
    left: &mut BTreeMap<Key, CopyEndpoint>,
    spare: &mut Vec<&'a Existing>,
) -> Vec<Slot<'a>> {
    let mut kept = Vec::new();
    spare.retain(|there| {
        let Some(content) = &there.content else {
            return true;
        };
        if content.family != shape.0 || content.ports != shape.1 {
            return true;
        }
        let found = content
            .endpoints
            .iter()
            .map(|known| (known, left.remove(&key(known))));
        let found: Vec<_> = found.collect();
        let is_written = found
            .iter()
            .any(|(known, wanted)| wanted.as_ref() != Some(*known));
        let endpoints: Vec<_> = found.into_iter().filter_map(|(_, wanted)| wanted).collect();
        if endpoints.is_empty() {
            return true;
        }
        kept.push(Slot {
            there: Some(*there),
            endpoints,
            is_written,
        });
        false
    });
    kept
}

/// Puts what is new where there is room, so that few slices are written.
fn fill(slots: &mut [Slot<'_>], left: &mut BTreeMap<Key, CopyEndpoint>) {
    slots.sort_by_key(|slot| std::cmp::Reverse((slot.is_written, slot.endpoints.len())));
    for slot in slots.iter_mut().filter(|slot| slot.is_written) {
        slot.take(left);
    }
    let mut unwritten = slots.iter_mut();
    let roomy = unwritten
        .find(|slot| !slot.is_written && slot.endpoints.len() + left.len() <= ENDPOINTS_MAX);
    if let Some(slot) = roomy {
        slot.take(left);
    }
}

fn is_of(there: &Existing, family: AddressFamily) -> bool {
    let content = there.content.as_ref();
    content.is_some_and(|content| content.family == family)
}

// === impl Slot ===

impl Slot<'_> {
    /// Takes as much as there is room for.
    fn take(&mut self, left: &mut BTreeMap<Key, CopyEndpoint>) {
        while self.endpoints.len() < ENDPOINTS_MAX
            && let Some((_, endpoint)) = left.pop_first()
        {
            self.endpoints.push(endpoint);
        }
    }
}
