//! What slices mean: duplicates, conditions, families, Services without a selector.

use serde_json::json;

use super::scene::{Entry, Scene, slice_of};
use crate::support::run;
use crate::support::services::{pod, service};
use crate::support::subscription::Message;

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_08_an_endpoint_of_two_slices_is_listed_once() {
    run(async {
        let scene = Scene::open("fc-mis-08").await?;
        let namespace = scene.namespace;
        scene.apply(&service(namespace, "web")).await?;
        scene
            .apply(&pod(namespace, "web", "web-0", "10.51.8.1"))
            .await?;
        let entry = Entry::pod(namespace, "web-0", "10.51.8.1");
        for name in ["s1", "s2"] {
            scene
                .slice("web", name, std::slice::from_ref(&entry))
                .await?;
        }
        let settled = scene.get("web").await?;
        settled.wait_for_exactly(&["10.51.8.1:8080"]).await;
        let stream = scene.get("web").await?;
        let once = Message::Add(vec!["10.51.8.1:8080".parse()?]);
        assert_eq!(stream.messages(), [once]);

        // It stays for as long as either lists it.
        let mark = stream.mark();
        scene.delete_slice("s1").await?;
        scene.slice("web", "s3", &[Entry::at("10.51.8.2")]).await?;
        let both = ["10.51.8.1:8080", "10.51.8.2:8080"];
        stream.wait_for_exactly(&both).await;
        stream.assert_kept_since(mark, &["10.51.8.1:8080"]);
        scene.delete_slice("s2").await?;
        stream.wait_for_exactly(&["10.51.8.2:8080"]).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_10_ready_is_true_unless_it_is_false() {
    run(async {
        let scene = Scene::open("fc-mis-10").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let entries = [
            Entry::at("10.51.10.1"),
            Entry::at("10.51.10.2").ready(true),
            Entry::at("10.51.10.3").ready(false),
            Entry::at("10.51.10.4").with("conditions", json!({"serving": false})),
        ];
        scene.slice("web", "s1", &entries).await?;
        let stream = scene.get("web").await?;
        stream
            .wait_for_exactly(&["10.51.10.1:8080", "10.51.10.2:8080", "10.51.10.4:8080"])
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_11_a_dual_stack_pod_has_one_address_whichever_slice_comes_first() {
    run(async {
        let scene = Scene::open("fc-mis-11").await?;
        let namespace = scene.namespace;
        for (name, order) in [("four-first", ["v4", "v6"]), ("six-first", ["v6", "v4"])] {
            let dual = service(namespace, name)
                .replace("spec:\n", "spec:\n  ipFamilyPolicy: RequireDualStack\n");
            scene.apply(&dual).await?;
            for index in [1, 2] {
                let single = pod(namespace, name, &format!("{name}-{index}"), "10.51.11.1");
                let dual = single.replace(
                    "podIP: 10.51.11.1\n  podIPs: [{ip: 10.51.11.1}]",
                    &format!("podIP: 10.51.11.{index}\n  podIPs: [{{ip: 10.51.11.{index}}}, {{ip: 'fd51::{index}'}}]"),
                );
                scene.apply(&dual).await?;
            }
            let entries = |family: &str, indices: &[u8]| {
                let entry = |index: &u8| {
                    let ip = match family {
                        "v4" => format!("10.51.11.{index}"),
                        _ => format!("fd51::{index}"),
                    };
                    Entry::pod(namespace, &format!("{name}-{index}"), &ip)
                };
                indices.iter().map(entry).collect::<Vec<_>>()
            };
            for family in order {
                let slice = format!("{name}-{family}");
                scene.slice(name, &slice, &entries(family, &[1])).await?;
            }
            let stream = scene.get(name).await?;
            stream.wait_for_exactly(&["[fd51::1]:8080"]).await;

            // One of the two is updated later, then the other.
            for family in order {
                let slice = format!("{name}-{family}");
                scene.slice(name, &slice, &entries(family, &[1, 2])).await?;
            }
            stream
                .wait_for_exactly(&["[fd51::1]:8080", "[fd51::2]:8080"])
                .await;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_12_a_service_without_selector_is_served_from_hand_made_slices() {
    run(async {
        let scene = Scene::open("fc-mis-12").await?;
        let namespace = scene.namespace;
        let selectorless = service(namespace, "db").replace("  selector: {app: db}\n", "");
        scene.apply(&selectorless).await?;
        let ports = json!([{"name": "http", "port": 5432}]);
        let entries = [Entry::at("192.0.2.7")];
        let slice = slice_of(namespace, "db", "by-hand", &ports, &entries);
        scene.apply(&slice).await?;
        let stream = scene.get("db").await?;
        let state = stream.wait_for_exactly(&["192.0.2.7:5432"]).await;
        let endpoint = state.at("192.0.2.7:5432");
        assert_eq!(endpoint.identity(), None);
        assert_eq!(endpoint.protocol(), None);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_13_an_old_pod_does_not_take_its_successor_along() {
    run(async {
        let scene = Scene::open("fc-mis-13").await?;
        let namespace = scene.namespace;
        scene.apply(&service(namespace, "web")).await?;
        for name in ["old", "new", "newer"] {
            scene
                .apply(&pod(namespace, "web", name, "10.51.13.1"))
                .await?;
        }
        let entry = |pod: &str| Entry::pod(namespace, pod, "10.51.13.1");
        let address = "10.51.13.1:8080";
        scene.slice("web", "s1", &[entry("old")]).await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&[address]).await;
        let mark = stream.mark();
        let until_it_is = async |pod: &str| {
            stream
                .wait_for(&format!("{address} to be {pod}"), |state| {
                    state.is_exactly(&[address]) && state.at(address).label("pod") == Some(pod)
                })
                .await
        };

        // In different slices,
        scene.slice("web", "s2", &[entry("new")]).await?;
        scene.delete_slice("s1").await?;
        until_it_is("new").await;
        // and in the same one.
        scene
            .slice("web", "s2", &[entry("new"), entry("newer")])
            .await?;
        scene.slice("web", "s2", &[entry("newer")]).await?;
        until_it_is("newer").await;

        stream.assert_kept_since(mark, &[address]);
        let removals = stream.messages_since(mark);
        let removals = removals
            .iter()
            .filter(|message| !matches!(message, Message::Add(_)));
        assert_eq!(removals.count(), 0, "{}", stream.report());
        Ok(())
    });
}
