//! Endpoints that stayed too long, went too early, or belonged to somebody else.

use std::net::SocketAddr;

use serde_json::json;

use super::scene::{Entry, Scene, once_known, quiet_cluster, slice_of};
use crate::support::fault_proxy::FaultProxy;
use crate::support::run;
use crate::support::services::{Backend, authority, pod, service, slice, workload};
use crate::support::subscription::{Folded, Message};
use crate::support::tributary::Tributary;

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_01_a_removal_needs_no_pod_object() {
    run(async {
        let scene = Scene::open("fc-mis-01").await?;
        let both = [
            Backend::ready("web-0", "10.51.1.1"),
            Backend::ready("web-1", "10.51.1.2"),
        ];
        scene
            .apply(&workload(scene.namespace, "web", &both))
            .await?;
        let stream = scene.get("web").await?;
        stream
            .wait_for_exactly(&["10.51.1.1:8080", "10.51.1.2:8080"])
            .await;
        let mark = stream.mark();

        let home = &scene.bed.home;
        home.delete_object("Pod", scene.namespace, "web-1").await?;
        scene
            .apply(&slice(scene.namespace, "web", &both[..1]))
            .await?;
        stream.wait_for_exactly(&["10.51.1.1:8080"]).await;

        // The slice itself may go after its Pods, too.
        home.delete_object("Pod", scene.namespace, "web-0").await?;
        scene.delete_slice("web-s1").await?;
        stream.wait_for("an empty answer", Folded::is_empty).await;
        let gone = |address: &str| {
            address
                .parse()
                .map(|address| Message::Remove(vec![address]))
        };
        let messages = stream.messages_since(mark);
        assert_eq!(messages[0], gone("10.51.1.2:8080")?, "{messages:?}");
        assert_eq!(messages.len(), 2, "one removal each: {messages:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_02_kube_system_is_a_namespace_like_any_other() {
    run(async {
        let scene = Scene::open("kube-system").await?;
        let before = [
            Backend::ready("fc-dns-0", "10.51.2.1"),
            Backend::ready("fc-dns-1", "10.51.2.2"),
        ];
        scene
            .apply(&workload(scene.namespace, "fc-dns", &before))
            .await?;
        let stream = scene.get("fc-dns").await?;
        stream
            .wait_for_exactly(&["10.51.2.1:8080", "10.51.2.2:8080"])
            .await;

        let after = [before[0], Backend::ready("fc-dns-2", "10.51.2.3")];
        scene
            .apply(&workload(scene.namespace, "fc-dns", &after))
            .await?;
        stream
            .wait_for_exactly(&["10.51.2.1:8080", "10.51.2.3:8080"])
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_03_what_was_sent_is_not_what_is_true_now() {
    run(async {
        let scene = Scene::open("fc-mis-03").await?;
        let both = [
            Backend::ready("web-0", "10.51.3.1"),
            Backend::ready("web-1", "10.51.3.2"),
        ];
        scene
            .apply(&workload(scene.namespace, "web", &both[..1]))
            .await?;
        // No token, no hints, no policy: nothing is filtered.
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&["10.51.3.1:8080"]).await;
        let mark = stream.mark();

        scene
            .apply(&workload(scene.namespace, "web", &both))
            .await?;
        stream
            .wait_for_exactly(&["10.51.3.1:8080", "10.51.3.2:8080"])
            .await;
        let added: SocketAddr = "10.51.3.2:8080".parse()?;
        assert_eq!(stream.messages_since(mark), [Message::Add(vec![added])]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_04_a_pod_that_changes_is_replaced_in_place() {
    run(async {
        let scene = Scene::open("fc-mis-04").await?;
        let both = [
            Backend::ready("web-0", "10.51.4.1"),
            Backend::ready("web-1", "10.51.4.2"),
        ];
        let addresses = ["10.51.4.1:8080", "10.51.4.2:8080"];
        scene
            .apply(&workload(scene.namespace, "web", &both))
            .await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&addresses).await;
        let mark = stream.mark();

        let home = &scene.bed.home;
        let patch = |patch| home.patch("Pod", scene.namespace, "web-0", patch);
        patch(json!({"metadata": {"labels": {"pod-template-hash": "6f4"}}})).await?;
        stream
            .wait_for("the new label", |state| {
                state.at(addresses[0]).label("pod_template_hash") == Some("6f4")
            })
            .await;
        home.patch_status(
            "Pod",
            scene.namespace,
            "web-0",
            json!({"phase": "Running", "message": "busy", "conditions": [{"type": "Ready", "status": "False"}]}),
        )
        .await?;
        let opaque = json!({"config.linkerd.io/opaque-ports": "8080"});
        patch(json!({"metadata": {"annotations": opaque}})).await?;
        stream
            .wait_for("the opaque port", |state| {
                state.at(addresses[0]).protocol() == Some("opaque")
            })
            .await;

        stream.assert_kept_since(mark, &addresses);
        let changed = Message::Add(vec![addresses[0].parse()?]);
        assert_eq!(
            stream.messages_since(mark),
            [changed.clone(), changed],
            "one message for each change that a client can see"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_05_the_newest_slice_wins_over_what_was_remembered() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-mis-05";
        home.apply(&service(namespace, "web")).await?;
        home.apply(&pod(namespace, "web", "web-0", "10.51.5.1"))
            .await?;
        let ports = json!([{"name": "http", "port": 8080}]);
        let listed = |name: &str, ip: &str| {
            let entry = Entry::pod(namespace, "web-0", ip);
            slice_of(namespace, "web", name, &ports, &[entry])
        };
        home.apply(&listed("s1", "10.51.5.1")).await?;

        let network = FaultProxy::start(home.address()).await?;
        let mut access = home.home_access().await?;
        access.server = format!("https://{}", network.address());
        let kubeconfig = home.write_file("proxied.kubeconfig", &access.to_yaml())?;
        let tributary = Tributary::launch(&kubeconfig, &[])?;
        tributary.until_ready().await?;
        let stream = tributary.get(&authority(namespace, "web"));
        stream.wait_for_exactly(&["10.51.5.1:8080"]).await;

        network.refuse().await;
        network.cut();
        home.delete_object("EndpointSlice", namespace, "s1").await?;
        home.apply(&pod(namespace, "web", "web-0", "10.51.5.2"))
            .await?;
        home.apply(&listed("s2", "10.51.5.2")).await?;
        // What happened in the meantime can only be told by a new list.
        home.compact_etcd().await?;
        network.heal().await;

        // The lists of slices and of Pods come one after the other: the identity may be a moment behind.
        stream
            .wait_for("the new address alone, with its identity", |state| {
                state.is_exactly(&["10.51.5.2:8080"])
                    && state.at("10.51.5.2:8080").identity().is_some()
            })
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_06_every_port_has_the_same_pods_when_a_roll_out_ends() {
    run(async {
        let scene = Scene::open("fc-mis-06").await?;
        let namespace = scene.namespace;
        let numbers = [80_u16, 81, 82, 83];
        let ports = |first: u16| {
            let port = |number: &u16| json!({"name": format!("p{number}"), "port": first + number});
            json!(numbers.iter().map(port).collect::<Vec<_>>())
        };
        let object = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "agent", "namespace": namespace},
            "spec": {"selector": {"app": "agent"}, "ports": ports(0)},
        });
        scene.apply(&object.to_string()).await?;
        let name = |generation: usize, index: usize| format!("agent-{generation}-{index}");
        let ip = |generation: usize, index: usize| format!("10.51.{}.{index}", 60 + generation);
        let pods = 6;
        for index in 0..pods {
            let pod = pod(namespace, "agent", &name(0, index), &ip(0, index));
            scene.apply(&pod).await?;
        }
        let listed = |replaced: usize| {
            let entries: Vec<_> = (0..pods)
                .map(|index| {
                    let generation = usize::from(index < replaced);
                    let (name, ip) = (name(generation, index), ip(generation, index));
                    Entry::pod(namespace, &name, &ip)
                })
                .collect();
            slice_of(namespace, "agent", "agent-1", &ports(8000), &entries)
        };
        scene.apply(&listed(0)).await?;
        let mut streams = Vec::new();
        for number in numbers {
            let authority = format!("agent.{namespace}.svc.cluster.local:{number}");
            streams.push(once_known(|| scene.tributary.get(&authority)).await?);
        }

        let home = &scene.bed.home;
        for index in 0..pods {
            home.delete_object("Pod", namespace, &name(0, index))
                .await?;
            let pod = pod(namespace, "agent", &name(1, index), &ip(1, index));
            scene.apply(&pod).await?;
            scene.apply(&listed(index + 1)).await?;
        }
        for (stream, number) in streams.iter().zip(numbers) {
            let wanted: Vec<_> = (0..pods)
                .map(|index| format!("{}:{}", ip(1, index), 8000 + number))
                .collect();
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            stream.wait_for_exactly(&wanted).await;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_sec_01_a_finished_pod_is_not_served_and_does_not_name_its_successor() {
    run(async {
        let scene = Scene::open("fc-sec-01").await?;
        let backends = [
            Backend::ready("failed", "10.51.7.1"),
            Backend::ready("succeeded", "10.51.7.2"),
            Backend::ready("runs", "10.51.7.3"),
        ];
        let first = workload(scene.namespace, "web", &backends);
        scene.apply(&first).await?;
        for (name, phase) in [("failed", "Failed"), ("succeeded", "Succeeded")] {
            let status = json!({ "phase": phase });
            let home = &scene.bed.home;
            home.patch_status("Pod", scene.namespace, name, status)
                .await?;
        }
        // The address of the one that failed has been given to a Pod of somebody else.
        let successor = [Backend::ready("api-0", "10.51.7.1")];
        scene
            .apply(&workload("fc-sec-01-other", "api", &successor))
            .await?;

        let stream = scene.get("web").await?;
        let state = stream.wait_for_exactly(&["10.51.7.3:8080"]).await;
        let identity = "web.fc-sec-01.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(state.at("10.51.7.3:8080").identity(), Some(identity));

        let authority = authority("fc-sec-01-other", "api");
        let stream = once_known(|| scene.tributary.get(&authority)).await?;
        let state = stream.wait_for_exactly(&["10.51.7.1:8080"]).await;
        let identity = "api.fc-sec-01-other.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(state.at("10.51.7.1:8080").identity(), Some(identity));
        Ok(())
    });
}
