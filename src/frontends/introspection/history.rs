//! Recent changes of a Service → messages for operators.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::explain::Wanted;
use super::overview::{count, duration};
use crate::index::{
    Cause, ClientLocality, MemberState, SelectPolicy, ViewKey, Withheld, Withholding, causes, diff,
    select,
};
use crate::model::Text;
use crate::proto::tributary_v1 as pb;
use crate::publish::Replacement;

/// Addresses that are named of each change.
const ADDRESSES_MAX: usize = 20;

/// Changes as a client sees them that asks for a port, and perhaps an instance, at some place. The latest first.
pub(super) fn changes(
    replacements: &[Replacement],
    port: u16,
    instance: Option<&Text>,
    client: &ClientLocality,
    policy: &SelectPolicy,
    only: Option<Wanted>,
) -> Vec<pb::RecentChange> {
    let view = |snapshot| {
        let key = ViewKey::new(snapshot, port, instance.cloned(), client);
        select(snapshot, &key, policy)
    };
    let mut changes = Vec::new();
    for Replacement { at, before, after } in replacements {
        let delta = diff(Some(&view(before)), &view(after));
        let added: Vec<_> = delta.add.iter().map(|endpoint| endpoint.socket).collect();
        let is_wanted = |socket: &SocketAddr| only.is_none_or(|only| only.is(*socket));
        let touches_wanted = added.iter().chain(&delta.remove).any(is_wanted);
        if only.is_some() && !touches_wanted {
            continue;
        }
        let causes = causes(before, after);
        let clusters: BTreeSet<_> = causes.iter().filter_map(cluster).collect();
        changes.push(pb::RecentChange {
            age: duration(at.elapsed()),
            causes: causes.iter().map(words).collect(),
            clusters: clusters.into_iter().collect(),
            added: addresses(&added),
            removed: addresses(&delta.remove),
            added_count: count(added.len()),
            removed_count: count(delta.remove.len()),
            left: count(view(after).endpoints.len()),
        });
    }
    changes
}

fn addresses(sockets: &[SocketAddr]) -> Vec<String> {
    let named = sockets.iter().take(ADDRESSES_MAX);
    named.map(ToString::to_string).collect()
}

fn cluster(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Appeared | Cause::Vanished | Cause::Service => None,
        Cause::MemberAdded(cluster, _)
        | Cause::MemberRemoved(cluster, _)
        | Cause::MemberState(cluster, _)
        | Cause::MemberService(cluster, _)
        | Cause::Withheld(cluster, _)
        | Cause::SliceAdded(cluster, _)
        | Cause::SliceRemoved(cluster, _)
        | Cause::SliceChanged(cluster, _)
        | Cause::Workloads(cluster, _) => Some(cluster.to_string()),
    }
}

fn words(cause: &Cause) -> String {
    match cause {
        Cause::Appeared => "the Service was made".to_owned(),
        Cause::Vanished => "the Service was deleted".to_owned(),
        Cause::Service => "the Service was changed".to_owned(),
        Cause::MemberAdded(cluster, service) => {
            format!("{}@{cluster} became a member", service.name)
        }
        Cause::MemberRemoved(cluster, service) => {
            format!("{}@{cluster} is no member any more", service.name)
        }
        Cause::MemberState(cluster, MemberState::Synced) => format!("{cluster} was read"),
        Cause::MemberState(cluster, MemberState::Syncing) => {
            format!("{cluster} was linked and is being read")
        }
        Cause::MemberState(cluster, MemberState::NotLinked) => format!("{cluster} was unlinked"),
        Cause::MemberService(cluster, service) => {
            format!("Service {service} of {cluster} was changed")
        }
        Cause::Withheld(cluster, Withheld::NOTHING) => {
            format!("nothing of {cluster} is withheld any more")
        }
        Cause::Withheld(cluster, withheld) => {
            let percent = withheld.per_mille() / 10;
            let why = match withheld.why() {
                Withholding::OutOfContact => "it is out of contact for too long",
                Withholding::Draining => "it is being drained",
            };
            format!("{percent}% of {cluster} is withheld: {why}")
        }
        Cause::SliceAdded(cluster, slice) => format!("EndpointSlice {slice} of {cluster} came"),
        Cause::SliceRemoved(cluster, slice) => format!("EndpointSlice {slice} of {cluster} went"),
        Cause::SliceChanged(cluster, slice) => {
            format!("EndpointSlice {slice} of {cluster} was changed")
        }
        Cause::Workloads(cluster, slice) => {
            format!("Pods behind EndpointSlice {slice} of {cluster} came, went or changed")
        }
    }
}
