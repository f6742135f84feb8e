//! Who writes.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::scene::{Scene, one_ready};
use super::{OURS, applies, versions, wait_long_for_copies};
use crate::support::cluster::Cluster;
use crate::support::link::Link;
use crate::support::services::{Backend, authority, flat_mirror, slice, workload};
use crate::support::{note, run, wait_for};

const LEASE: &str = "tributary-endpointslice-writer";

async fn holder(home: &Cluster) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(home.client(), "linkerd");
    let lease = leases.get(LEASE).await.ok()?;
    lease
        .spec?
        .holder_identity
        .filter(|holder| !holder.is_empty())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn of_two_replicas_one_writes_and_the_other_takes_over_at_once() {
    run(async {
        let scene =
            Scene::mirror("writer-replicas", &[Backend::ready("web-0", "10.60.49.1")]).await?;
        let bed = scene.bed;
        let first = scene.writer(&[]).await?;
        let line = |last: u8| {
            format!("web-east from east: http=8080 | 10.60.49.{last} ready serving zone:za")
        };
        scene.until(&first, &line(1)).await?;
        let second = scene.writer(&[]).await?;
        scene.list(&[Backend::ready("web-0", "10.60.49.2")]).await?;
        scene.until(&first, &line(2)).await?;
        assert!(second.metric("tributary_writer_leader").await?.abs() < 0.5);
        let held_by = holder(&bed.home).await;

        first.terminate().await?;
        scene.list(&[Backend::ready("web-0", "10.60.49.3")]).await?;
        let before = scene.until(&second, &line(3)).await?;
        let now_held_by = holder(&bed.home).await;
        assert!(
            now_held_by.is_some() && now_held_by != held_by,
            "{now_held_by:?}"
        );
        assert_eq!(versions(&before), versions(&scene.copies().await?));
        second.terminate().await?;
        assert_eq!(holder(&bed.home).await, None, "given up");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_thaws() {
    run(async {
        let scene =
            Scene::mirror("writer-frozen", &[Backend::ready("web-0", "10.60.50.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let line = |last: u8| {
            format!("web-east from east: http=8080 | 10.60.50.{last} ready serving zone:za")
        };
        let first = scene.writer(&[]).await?;
        scene.until(&first, &line(1)).await?;
        let second = scene.writer(&[]).await?;
        let held_by = holder(&bed.home).await;
        first.freeze()?;
        // As if its last renewal were long ago: the other one takes over without half a minute of waiting.
        let expired = json!({"spec": {"leaseDurationSeconds": 1}});
        bed.home.patch("Lease", "linkerd", LEASE, expired).await?;
        wait_for("the other one to lead", || async {
            let holder = holder(&bed.home).await;
            (holder.is_some() && holder != held_by).then_some(())
        })
        .await?;
        scene.list(&[Backend::ready("web-0", "10.60.50.2")]).await?;
        scene.until(&second, &line(2)).await?;
        // Longer than a leader trusts its Lease without renewing it.
        wait_for("the frozen one's time to run out", || async {
            let age = first.frozen_for()?;
            (age > std::time::Duration::from_secs(11)).then_some(())
        })
        .await?;
        // Now there is something to write, and nobody to do it: the other one is dead, and its Lease holds on.
        drop(second);
        scene.list(&[Backend::ready("web-0", "10.60.50.3")]).await?;
        let before = scene.copies().await?;
        let asked = applies(&bed.home).await?;
        first.thaw()?;
        first.until_metric("tributary_writer_leader", 0.0).await?;
        first.log_line("state=following").await?;
        // It knows what would have to be written, and does not write it.
        let stream = first.get(&authority(namespace, "web-east"));
        stream.wait_for_exactly(&["10.60.50.3:8080"]).await;
        assert_eq!(versions(&before), versions(&scene.copies().await?));
        assert!((applies(&bed.home).await? - asked).abs() < 0.5);
        // Until the Lease has run out.
        wait_long_for_copies(&first, &bed.home, namespace, line(3)).await?;
        first.terminate().await?;
        Ok(())
    });
}

/// Follows every state of the slices of ours in a namespace, one by one, and notes which address was ever missing.
async fn follow(
    home: std::sync::Arc<Cluster>,
    namespace: &'static str,
    wanted: Vec<String>,
    missing: std::sync::Arc<parking_lot::Mutex<Vec<String>>>,
) {
    let api: Api<EndpointSlice> = Api::namespaced(home.client(), namespace);
    let config = kube::runtime::watcher::Config::default().labels(OURS);
    let mut events = kube::runtime::watcher(api, config).boxed();
    let mut state: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut listed = false;
    while let Some(event) = events.next().await {
        let addresses = |slice: &EndpointSlice| {
            let ready = slice.endpoints.iter().filter(|endpoint| {
                endpoint
                    .conditions
                    .as_ref()
                    .and_then(|conditions| conditions.ready)
                    == Some(true)
            });
            ready
                .flat_map(|endpoint| endpoint.addresses.clone())
                .collect::<Vec<_>>()
        };
        match event {
            Ok(Event::InitApply(slice) | Event::Apply(slice)) => {
                state.insert(slice.name_any(), addresses(&slice));
            }
            Ok(Event::Delete(slice)) => {
                state.remove(&slice.name_any());
            }
            Ok(Event::InitDone) => listed = true,
            Ok(Event::Init) | Err(_) => {}
        }
        if listed {
            let there: Vec<&String> = state.values().flatten().collect();
            let gone = wanted.iter().filter(|address| !there.contains(address));
            missing.lock().extend(gone.cloned());
        }
    }
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_leader_killed_in_the_middle_is_followed_by_one_that_loses_nothing() {
    run(async {
        let scene = Scene::empty("writer-killed").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let count = 30;
        let ip = |number: usize| format!("10.60.63.{}", number + 1);
        for number in 0..count {
            let name = format!("web{number:02}");
            let address = ip(number);
            bed.east
                .apply(&workload(
                    namespace,
                    &name,
                    &[Backend::ready("web-0", &address)],
                ))
                .await?;
            bed.home
                .apply(&flat_mirror(namespace, &name, "east"))
                .await?;
        }
        let all = |zone: &str| {
            let lines = (0..count).map(|number| {
                format!(
                    "web{number:02}-east from east: http=8080 | {} ready serving zone:{zone}",
                    ip(number)
                )
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let slow = [
            "--endpoint-slices-write-qps=10",
            "--endpoint-slices-write-burst=1",
        ];
        let first = scene.writer(&[]).await?;
        scene.until(&first, &all("za")).await?;
        first.terminate().await?;
        let missing = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let mut following = tokio::task::JoinSet::new();
        let wanted = (0..count).map(ip).collect();
        following.spawn(follow(bed.home.clone(), namespace, wanted, missing.clone()));

        // Every endpoint moves to another slice, so that each Service needs a write and a deletion.
        let first = scene.writer(&slow).await?;
        first.until_metric("tributary_writer_leader", 1.0).await?;
        let before = applies(&bed.home).await?;
        for number in 0..count {
            let (name, address) = (format!("web{number:02}"), ip(number));
            let moved = slice(
                namespace,
                &name,
                &[Backend::ready("web-0", &address).zone("zb")],
            )
            .replace(&format!("name: {name}-s1"), &format!("name: {name}-s2"));
            bed.east.apply(&moved).await?;
            bed.east
                .delete_object("EndpointSlice", namespace, &format!("{name}-s1"))
                .await?;
        }
        wait_for("some of the writes", || async {
            (applies(&bed.home).await.ok()? - before > 5.0).then_some(())
        })
        .await?;
        drop(first); // Killed.
        let expired = json!({"spec": {"leaseDurationSeconds": 1}});
        bed.home.patch("Lease", "linkerd", LEASE, expired).await?;
        let second = scene.writer(&[]).await?;
        scene.until(&second, &all("zb")).await?;
        second.terminate().await?;
        following.shutdown().await;
        assert_eq!(
            *missing.lock(),
            Vec::<String>::new(),
            "endpoints that were absent for a moment"
        );
        Ok(())
    });
}

/// What a second installation needs beside the rights of the first: the Secrets of its links, and a Lease, in its namespace.
const SECOND_INSTALLATION: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: second, namespace: linkerd-second}
rules:
- {apiGroups: [''], resources: [secrets], verbs: [list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: second, namespace: linkerd-second}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: second}
subjects: [{kind: ServiceAccount, name: tributary, namespace: linkerd}]
---
";

/// Counts how often each slice of ours in a namespace changes.
async fn count_changes(
    home: std::sync::Arc<Cluster>,
    namespace: &'static str,
    changes: std::sync::Arc<parking_lot::Mutex<BTreeMap<String, usize>>>,
) {
    let api: Api<EndpointSlice> = Api::namespaced(home.client(), namespace);
    let config = kube::runtime::watcher::Config::default().labels(OURS);
    let mut events = kube::runtime::watcher(api, config).boxed();
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(slice)) = event {
            *changes.lock().entry(slice.name_any()).or_default() += 1;
        }
    }
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn two_that_lead_at_once_write_the_same_and_where_they_differ_the_fight_ends() {
    run(async {
        let web = [Backend::ready("web-0", "10.60.75.1")];
        let scene = Scene::mirror("writer-overlap", &web).await?;
        let (namespace, home) = (scene.namespace, &scene.bed.home);
        home.apply(SECOND_INSTALLATION).await?;
        let mut secret = Link::to(&scene.bed.east, "east").await?.to_json();
        secret["metadata"]["namespace"] = json!("linkerd-second");
        home.apply(&secret.to_string()).await?;
        // Each has a Lease of its own, so that nothing keeps the one from doing what the other does.
        let first = scene.writer(&[]).await?;
        scene.until(&first, &one_ready("10.60.75.1")).await?;
        let elsewhere = "--controller-namespace=linkerd-second";
        let second = scene.writer(&[elsewhere]).await?;
        second.until_metric("tributary_writer_leader", 1.0).await?;
        first.until_metric("tributary_writer_leader", 1.0).await?;
        let changes = std::sync::Arc::new(parking_lot::Mutex::new(BTreeMap::new()));
        let mut counting = tokio::task::JoinSet::new();
        counting.spawn(count_changes(home.clone(), namespace, changes.clone()));
        let asked = applies(home).await?;
        for last in 2..=6 {
            let ip = format!("10.60.75.{last}");
            scene.list(&[Backend::ready("web-0", &ip)]).await?;
            scene.until(&first, &one_ready(&ip)).await?;
        }
        // Both have written, and what the later one wrote changed nothing.
        wait_for("the changes to be counted", || async {
            (changes.lock().values().sum::<usize>() >= 5).then_some(())
        })
        .await?;
        note(&format!(
            "two leaders at once, 5 changes: {} requests, {:?} versions",
            applies(home).await? - asked,
            changes.lock()
        ));
        assert_eq!(changes.lock().values().sum::<usize>(), 5, "{changes:?}");
        second.terminate().await?;

        // One of another mind: each finds its own undone, and lets go of it.
        let second = scene
            .writer(&[elsewhere, "--endpoint-slices-zones=drop"])
            .await?;
        wait_for("an Event about the fight", || async {
            let events: Api<k8s_openapi::api::events::v1::Event> =
                Api::namespaced(home.client(), namespace);
            let events = events.list(&kube::api::ListParams::default()).await.ok()?;
            let found = events
                .items
                .iter()
                .any(|event| event.reason.as_deref() == Some("Contested"));
            found.then_some(())
        })
        .await?;
        // A fight without end would be hundreds of versions by now: a write every few milliseconds.
        let fought: usize = changes.lock().values().sum::<usize>() - 5;
        assert!(fought <= 14, "{fought} versions in the fight");
        first.terminate().await?;
        second.terminate().await?;
        // Whoever is left alone is right.
        let first = scene.writer(&[]).await?;
        scene.until(&first, &one_ready("10.60.75.6")).await?;
        first.terminate().await?;
        home.delete(SECOND_INSTALLATION).await?;
        Ok(())
    });
}
