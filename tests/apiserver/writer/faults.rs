//! Member clusters that are away, silent, unlinked, or suddenly another cluster.

use serde_json::json;

use super::scene::{Pair, Scene, one_ready};
use super::{WRITE_RIGHTS, copies, versions, wait_for_copies, writer};
use crate::support::cluster::Cluster;
use crate::support::link::{Link, unlink};
use crate::support::services::{Backend, Local, federated, flat_mirror, slice, workload};
use crate::support::{run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_28_a_start_beside_a_dead_cluster_and_its_outage_change_nothing() {
    run(async {
        let pair = Pair::start(["writer-dead-home", "writer-dead-east"]).await?;
        let (home, namespace) = (&pair.home, "shop");
        pair.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.54.1")],
            ))
            .await?;
        home.apply(&workload(
            namespace,
            "web",
            &[Backend::ready("web-0", "10.50.54.1")],
        ))
        .await?;
        home.apply(&federated(namespace, "web", Local::Member, &["east"]))
            .await?;
        let tributary = writer(home, namespace, &[]).await?;
        let both = |home_ip: &str| {
            format!(
                "web-federated from east: http=8080 | 10.60.54.1 ready serving zone:za
                 web-federated from hub: http=8080 | {home_ip} ready serving zone:za node:n0 target:web-0"
            )
        };
        wait_for_copies(&tributary, home, namespace, &both("10.50.54.1")).await?;

        // Refused, then silent: the rest goes on, east's copies stand still.
        for ip in ["10.50.54.2", "10.50.54.3"] {
            if ip.ends_with('2') {
                pair.relay.refuse().await;
                pair.relay.cut();
            } else {
                pair.relay.heal().await;
                pair.relay.silence();
            }
            home.apply(&workload(namespace, "web", &[Backend::ready("web-0", ip)]))
                .await?;
            wait_for_copies(&tributary, home, namespace, &both(ip)).await?;
        }
        tributary.terminate().await?;

        // A start that cannot reach east.
        pair.relay.refuse().await;
        pair.relay.cut();
        let tributary = writer(home, namespace, &[]).await?;
        home.apply(&workload(
            namespace,
            "web",
            &[Backend::ready("web-0", "10.50.54.4")],
        ))
        .await?;
        wait_for_copies(&tributary, home, namespace, &both("10.50.54.4")).await?;

        // When it is back, what changed meanwhile follows.
        pair.east.apply(&slice(namespace, "web", &[])).await?;
        pair.relay.heal().await;
        wait_for_copies(
            &tributary,
            home,
            namespace,
            "web-federated from east: http=8080 |
             web-federated from hub: http=8080 | 10.50.54.4 ready serving zone:za node:n0 target:web-0",
        )
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_out_of_contact_is_acted_upon_only_if_asked_and_comes_back() {
    run(async {
        let pair = Pair::start(["writer-ttl-home", "writer-ttl-east"]).await?;
        let north = Cluster::start("writer-ttl-north").await?;
        let (home, namespace) = (&pair.home, "shop");
        Link::to(&north, "north").await?.store(home).await?;
        pair.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.55.1")],
            ))
            .await?;
        north
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.70.55.1")],
            ))
            .await?;
        home.apply(&federated(
            namespace,
            "web",
            Local::Absent,
            &["east", "north"],
        ))
        .await?;
        let policy = [
            "--endpoint-slices-on-stale=not-ready",
            "--endpoint-slices-stale-after=30s",
            "--endpoint-slices-act-after=1s",
        ];
        let tributary = writer(home, namespace, &policy).await?;
        let with = |east: &str| {
            format!(
                "web-federated from east: http=8080 | 10.60.55.1{east} zone:za
                 web-federated from north: http=8080 | 10.70.55.1 ready serving zone:za"
            )
        };
        wait_for_copies(&tributary, home, namespace, &with(" ready serving")).await?;
        pair.relay.refuse().await;
        pair.relay.cut();
        wait_for_copies(&tributary, home, namespace, &with("")).await?;
        pair.relay.heal().await;
        super::wait_long_for_copies(&tributary, home, namespace, &with(" ready serving")).await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn credentials_that_are_deleted_and_made_anew_within_the_grace_cost_no_write() {
    run(async {
        let pair = Pair::start(["writer-rotate-home", "writer-rotate-east"]).await?;
        let (home, namespace) = (&pair.home, "shop");
        pair.east
            .apply(&workload(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.56.1")],
            ))
            .await?;
        home.apply(&flat_mirror(namespace, "web", "east")).await?;
        let tributary = writer(home, namespace, &["--endpoint-slices-unlink-grace=10s"]).await?;
        let line = one_ready("10.60.56.1");
        let before = wait_for_copies(&tributary, home, namespace, line).await?;
        unlink(home, "east").await?;
        tributary.log_line("cluster unlinked").await?;
        Link::to(&pair.east, "east").await?.store(home).await?;
        wait_for("the cluster to be read again", || async {
            let metrics = tributary.metrics().await.ok()?;
            let synced = "tributary_writer_member_state{cluster=\"east\",state=\"synced\"} 1";
            metrics.contains(synced).then_some(())
        })
        .await?;
        // A change that comes after it is written, and nothing was before.
        assert_eq!(versions(&before), versions(&copies(home, namespace).await?));
        pair.east
            .apply(&slice(
                namespace,
                "web",
                &[Backend::ready("web-0", "10.60.56.2")],
            ))
            .await?;
        let line = one_ready("10.60.56.2");
        wait_for_copies(&tributary, home, namespace, line).await?;

        // Unlinked for good, the copies go after the grace.
        unlink(home, "east").await?;
        wait_for_copies(&tributary, home, namespace, "").await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_link_that_leads_to_another_cluster_removes_nothing() {
    run(async {
        let pair = Pair::start(["writer-brake-home", "writer-brake-east"]).await?;
        let other = Cluster::start("writer-brake-other").await?;
        let (home, namespace) = (&pair.home, "shop");
        let names: Vec<_> = (1..=30)
            .map(|number| (format!("web-{number}"), format!("10.60.57.{number}")))
            .collect();
        let backends: Vec<_> = names
            .iter()
            .map(|(name, ip)| Backend::ready(name, ip))
            .collect();
        pair.east
            .apply(&workload(namespace, "web", &backends))
            .await?;
        other.apply(&workload(namespace, "web", &[])).await?;
        home.apply(&flat_mirror(namespace, "web", "east")).await?;
        let tributary = writer(home, namespace, &[]).await?;
        let before = wait_for("thirty endpoints", || async {
            let copies = copies(home, namespace).await.ok()?;
            let count: usize = copies.values().map(|copy| copy.endpoints.len()).sum();
            (count == 30).then_some(copies)
        })
        .await?;
        Link::to(&other, "east").await?.store(home).await?;
        tributary.log_line("cluster is another one").await?;
        wait_for("an Event about it", || async {
            let events: kube::Api<k8s_openapi::api::events::v1::Event> =
                kube::Api::namespaced(home.client(), namespace);
            let events = events.list(&kube::api::ListParams::default()).await.ok()?;
            let found = events
                .items
                .iter()
                .any(|event| event.reason.as_deref() == Some("ClusterIdentityChanged"));
            found.then_some(())
        })
        .await?;
        assert_eq!(versions(&before), versions(&copies(home, namespace).await?));

        // An operator who means it deletes the copies, and the new cluster is believed.
        for name in before.keys() {
            home.delete_object("EndpointSlice", namespace, name).await?;
        }
        wait_for_copies(
            &tributary,
            home,
            namespace,
            "web-east from east: http=8080 |",
        )
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_throttled_writer_obeys_and_gets_there_in_the_end() {
    run(async {
        let scene = Scene::empty("writer-throttled").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let mut expected = Vec::new();
        for number in 0..8 {
            let (name, ip) = (
                format!("web{number:02}"),
                format!("10.60.58.{}", number + 1),
            );
            bed.east
                .apply(&workload(namespace, &name, &[Backend::ready(&name, &ip)]))
                .await?;
            bed.home
                .apply(&flat_mirror(namespace, &name, "east"))
                .await?;
            expected.push(format!(
                "{name}-east from east: http=8080 | {ip} ready serving zone:za"
            ));
        }
        // Writes of our account are refused if there are several at once; all else goes on.
        let flow = "
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: writer-throttled}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, lendablePercent: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: writer-throttled}
spec:
  matchingPrecedence: 2
  priorityLevelConfiguration: {name: writer-throttled}
  rules:
  - subjects: [{kind: ServiceAccount, serviceAccount: {name: tributary, namespace: linkerd}}]
    resourceRules:
    - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [patch, delete], namespaces: ['*']}
";
        bed.home.apply(flow).await?;
        let tributary = scene.writer(&["--endpoint-slices-workers=8"]).await?;
        let throttled = wait_for("a refusal", || async {
            let metrics = tributary.metrics().await.ok()?;
            let seen = metrics
                .contains("tributary_writer_actions_total{verb=\"apply\",result=\"throttled\"}");
            let done = super::describe(&scene.copies().await.ok()?) == expected.join("\n");
            (seen || done).then_some(seen)
        })
        .await;
        bed.home.delete(flow).await?;
        assert!(
            throttled?,
            "no request was one too many: {}",
            tributary.metrics().await?
        );
        super::wait_long_for_copies(&tributary, &bed.home, namespace, &expected.join("\n")).await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_rolling_restart_costs_no_more_writes_than_its_slices_change() {
    run(async {
        let scene = Scene::empty("writer-churn").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let ips: Vec<_> = (0..100_u32)
            .map(|number| format!("10.61.{}.{}", number / 50, number % 50 + 1))
            .collect();
        let names: Vec<_> = (0..100_u32).map(|number| format!("web-{number}")).collect();
        let all = |condition: fn(Backend<'_>) -> Backend<'_>| {
            let backends: Vec<_> = names
                .iter()
                .zip(&ips)
                .map(|(name, ip)| condition(Backend::ready(name, ip)))
                .collect();
            slice(namespace, "web", &backends)
        };
        bed.east
            .apply(&crate::support::services::service(namespace, "web"))
            .await?;
        bed.east.apply(&all(|backend| backend)).await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let tributary = scene.writer(&[]).await?;
        wait_for("a hundred endpoints", || async {
            let copies = scene.copies().await.ok()?;
            (copies
                .values()
                .map(|copy| copy.endpoints.len())
                .sum::<usize>()
                == 100)
                .then_some(())
        })
        .await?;
        let asked = super::applies(&bed.home).await?;
        // Changes that alter nothing that is written.
        for number in 0..10 {
            let note = json!({"metadata": {"annotations": {"note": number.to_string()}, "labels": {"note": number.to_string()}}});
            bed.east
                .patch("EndpointSlice", namespace, "web-s1", note)
                .await?;
        }
        bed.east.apply(&all(|backend| backend.zone("zb"))).await?;
        wait_for("the zone", || async {
            let copies = scene.copies().await.ok()?;
            let endpoints = copies.values().flat_map(|copy| &copy.endpoints);
            endpoints
                .into_iter()
                .all(|endpoint| endpoint.zone.as_deref() == Some("zb"))
                .then_some(())
        })
        .await?;
        let writes = super::applies(&bed.home).await? - asked;
        assert!(writes < 1.5, "{writes} writes for one change");
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_loss_goes_before_growth_that_waits() {
    run(async {
        let scene = Scene::empty("writer-overtakes").await?;
        let (namespace, home, east) = (scene.namespace, &scene.bed.home, &scene.bed.east);
        let count = 20;
        let names: Vec<_> = (0..count).map(|number| format!("web{number:02}")).collect();
        let ip = |number: usize, last: usize| format!("10.60.{}.{last}", 100 + number);
        for (number, name) in names.iter().enumerate() {
            let ips = [ip(number, 1), ip(number, 2)];
            let backends = [
                Backend::ready("web-1", &ips[0]),
                Backend::ready("web-2", &ips[1]),
            ];
            east.apply(&workload(namespace, name, &backends)).await?;
            home.apply(&flat_mirror(namespace, name, "east")).await?;
        }
        let first = scene.writer(&[]).await?;
        wait_for("every copy", || async {
            (scene.copies().await.ok()?.len() == count).then_some(())
        })
        .await?;
        first.terminate().await?;
        // Two writes a second: what grows has to queue.
        let slow = [
            "--endpoint-slices-write-qps=2",
            "--endpoint-slices-write-burst=1",
            "--endpoint-slices-workers=1",
        ];
        let tributary = scene.writer(&slow).await?;
        tributary
            .until_metric("tributary_writer_leader", 1.0)
            .await?;
        for (number, name) in names.iter().enumerate() {
            let ips = [ip(number, 1), ip(number, 2), ip(number, 3)];
            let backends = [
                Backend::ready("web-1", &ips[0]),
                Backend::ready("web-2", &ips[1]),
                Backend::ready("web-3", &ips[2]),
            ];
            east.apply(&slice(namespace, name, &backends)).await?;
        }
        let sizes = || async {
            let copies = scene.copies().await.ok()?;
            let mut sizes = std::collections::BTreeMap::new();
            for copy in copies.values() {
                let labels = copy.metadata.labels.clone()?;
                let service = labels.get("kubernetes.io/service-name")?.clone();
                sizes.insert(service, copy.endpoints.len());
            }
            Some(sizes)
        };
        wait_for("growth to begin", || async {
            sizes().await?.values().any(|size| *size == 3).then_some(())
        })
        .await?;
        // The last in the queue loses one.
        let last = count - 1;
        let left = ip(last, 1);
        east.apply(&slice(
            namespace,
            &names[last],
            &[Backend::ready("web-1", &left)],
        ))
        .await?;
        let service = format!("{}-east", names[last]);
        let then = wait_for("the loss to be written", || async {
            let sizes = sizes().await?;
            (sizes[&service] == 1).then_some(sizes)
        })
        .await?;
        let grown = then.values().filter(|size| **size == 3).count();
        assert!(
            grown < count - 1,
            "the loss waited for all {grown} that grew"
        );
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_32_what_is_said_of_services_holds_up_no_endpoint() {
    run(async {
        let web = [Backend::ready("web-0", "10.60.78.1")];
        let scene = Scene::mirror("writer-silent", &web).await?;
        let (namespace, home, east) = (scene.namespace, &scene.bed.home, &scene.bed.east);
        // Each of these has something to be said of it, again and again; and nothing may be said.
        let silenced = WRITE_RIGHTS.replace("events.k8s.io", "events.example");
        assert_ne!(silenced, WRITE_RIGHTS);
        for number in 0..30 {
            let name = format!("odd{number:02}");
            east.apply(&workload(namespace, &name, &[])).await?;
            let mirror = flat_mirror(namespace, &name, "east");
            home.apply(&mirror.replace("port: 80,", "port: 81,"))
                .await?;
        }
        let tributary = scene.writer(&[]).await?;
        home.apply(&silenced).await?;
        for last in 1..=20 {
            let ip = format!("10.60.78.{last}");
            for number in (last..30).step_by(20) {
                let label = json!({"metadata": {"annotations": {"turn": last.to_string()}}});
                let name = format!("odd{number:02}-east");
                home.patch("Service", namespace, &name, label).await?;
            }
            scene.list(&[Backend::ready("web-0", &ip)]).await?;
            scene.until(&tributary, &one_ready(&ip)).await?;
        }
        home.apply(WRITE_RIGHTS).await?;
        tributary.terminate().await?;
        Ok(())
    });
}
