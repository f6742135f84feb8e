//! What made one snapshot of a Service into the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::join::Chunk;
use super::snapshot::{Member, MemberState, ServiceSnapshot};
use super::withhold::Withheld;
use crate::model::{ClusterName, ServiceName, Text};

/// One thing that was different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The home cluster has the Service now.
    Appeared,
    /// The home cluster does not have the Service any more.
    Vanished,
    /// The Service says something else of itself.
    Service,
    /// A Service of a cluster counts that did not.
    MemberAdded(ClusterName, ServiceName),
    /// A Service of a cluster does not count any more.
    MemberRemoved(ClusterName, ServiceName),
    /// A member's cluster is known in another way than before.
    MemberState(ClusterName, MemberState),
    /// The member's own Service says something else.
    MemberService(ClusterName, ServiceName),
    /// More or less of a cluster is withheld.
    Withheld(ClusterName, Withheld),
    /// A slice came.
    SliceAdded(ClusterName, Text),
    /// A slice went.
    SliceRemoved(ClusterName, Text),
    /// A slice says something else.
    SliceChanged(ClusterName, Text),
    /// What is known of the workloads that a slice names is different.
    Workloads(ClusterName, Text),
}

/// Lists what is different between two snapshots of one Service, in order of members and slices.
pub fn causes(before: &ServiceSnapshot, after: &ServiceSnapshot) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (&before.facts, &after.facts) {
        (None, Some(_)) => causes.push(Cause::Appeared),
        (Some(_), None) => causes.push(Cause::Vanished),
        (Some(before), Some(after)) if before != after => causes.push(Cause::Service),
        _ => {}
    }
    let key = |member: &Member| (member.cluster.name.clone(), member.service.clone());
    let mut gone: BTreeMap<_, _> = before.members.iter().map(|m| (key(m), m)).collect();
    for member in &after.members {
        if let Some(before) = gone.remove(&key(member)) {
            of_member(before, member, &mut causes);
        } else {
            let (cluster, service) = key(member);
            causes.push(Cause::MemberAdded(cluster, service));
        }
    }
    let gone = gone.into_keys();
    causes.extend(gone.map(|(cluster, service)| Cause::MemberRemoved(cluster, service)));
    causes
}

fn of_member(before: &Member, after: &Member, causes: &mut Vec<Cause>) {
    let cluster = || after.cluster.name.clone();
    if before.state != after.state {
        causes.push(Cause::MemberState(cluster(), after.state));
    }
    if before.withheld != after.withheld {
        causes.push(Cause::Withheld(cluster(), after.withheld));
    }
    if before.facts != after.facts {
        causes.push(Cause::MemberService(cluster(), after.service.clone()));
    }
    let mut gone: BTreeMap<&Text, &Arc<Chunk>> = before
        .chunks
        .iter()
        .map(|chunk| (&chunk.name, chunk))
        .collect();
    for chunk in after.chunks.iter() {
        let name = chunk.name.clone();
        match gone.remove(&chunk.name) {
            None => causes.push(Cause::SliceAdded(cluster(), name)),
            Some(same) if Arc::ptr_eq(same, chunk) => {}
            Some(other) if other.facts == chunk.facts => {
                causes.push(Cause::Workloads(cluster(), name));
            }
            Some(_) => causes.push(Cause::SliceChanged(cluster(), name)),
        }
    }
    let gone = gone.into_keys();
    causes.extend(gone.map(|name| Cause::SliceRemoved(cluster(), name.clone())));
}

#[cfg(test)]
mod tests {
    use crate::index::{Change, causes};
    use crate::testing::{World, cluster, home, pod, service, slice};

    /// What a change is said to have caused, in short.
    fn check(world: &mut World, changes: Vec<Change>, expected: &[&str]) {
        let before = world.snapshot("shop/web");
        world.say(changes);
        let causes = causes(&before, &world.snapshot("shop/web"));
        let causes: Vec<_> = causes.iter().map(|cause| format!("{cause:?}")).collect();
        let begin = |(cause, expected): (&String, &&str)| cause.starts_with(expected);
        assert!(
            causes.len() == expected.len() && causes.iter().zip(expected).all(begin),
            "{causes:#?}"
        );
    }

    #[test]
    fn every_change_has_its_cause() {
        let mut world = World::default();
        let federated = |members| {
            let service = service("shop/web").port(80, "http");
            home().apply(service.federated("web-here", members).object())
        };
        let web = slice("w").of("shop/web-here");
        world.say(home().begins_with([service("shop/web-here").object()]));
        check(
            &mut world,
            vec![federated("web@east")],
            &["Appeared", "MemberAdded", "MemberAdded"],
        );
        let one = web.clone().endpoint("10.0.0.1").pod("shop/web-1");
        check(
            &mut world,
            vec![home().apply(one.object())],
            &["SliceAdded"],
        );
        let ready = pod("shop/web-1").ip("10.0.0.1");
        check(&mut world, vec![home().apply(ready)], &["Workloads"]);
        let two = web.endpoint("10.0.0.1").endpoint("10.0.0.2");
        check(
            &mut world,
            vec![home().apply(two.clone().object())],
            &["SliceChanged"],
        );
        check(
            &mut world,
            vec![home().delete(two.object())],
            &["SliceRemoved"],
        );
        check(&mut world, vec![cluster("east").linked()], &[]);
        let east = cluster("east").begins_with([service("shop/web").object()]);
        check(&mut world, east, &["MemberState", "MemberService"]);
        check(
            &mut world,
            vec![federated("")],
            &["Service", "MemberRemoved"],
        );
        let gone = home().delete(service("shop/web").object());
        check(&mut world, vec![gone], &["Vanished", "MemberRemoved"]);
    }
}
