//! Answers of every size.

use std::fmt::Write as _;

use linkerd2_proxy_api::destination::GetDestination;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;

use crate::support::manifests::{Manifests, shop};
use crate::support::run;
use crate::support::services::{Backend, authority, pod, service, slice};
use crate::support::subscription::Message;

/// Enough for an answer that is far too large for one message.
const ENDPOINTS: usize = 20_000;

#[test]
fn a_large_answer_is_split_and_whole() {
    run(async {
        let manifests = Manifests::new()?;
        manifests.write("home/service.yaml", &service("shop", "web"))?;
        let ip = |index: usize| {
            format!(
                "10.{}.{}.{}",
                1 + index / 65_536,
                index / 256 % 256,
                index % 256
            )
        };
        let (mut pods, mut slices) = (String::new(), String::new());
        for index in 0..ENDPOINTS {
            // One line each: reading it should not take longer than the test.
            let (ip, comma) = (ip(index), if index == 0 { "" } else { "," });
            write!(
                pods,
                r#"{comma}{{"metadata":{{"name":"web-{index}","namespace":"shop","labels":{{"linkerd.io/control-plane-ns":"linkerd","pod-template-hash":"{index}"}}}},"spec":{{"serviceAccountName":"web","containers":[{{"name":"linkerd-proxy","env":[{{"name":"LINKERD2_PROXY_ADMIN_LISTEN_ADDR","value":"0.0.0.0:4191"}},{{"name":"LINKERD2_PROXY_CONTROL_LISTEN_ADDR","value":"0.0.0.0:4190"}}]}}]}},"status":{{"phase":"Running","podIP":"{ip}"}}}}"#
            )?;
            if index % 1000 == 0 {
                let begin = if index == 0 { "" } else { "]}," };
                write!(
                    slices,
                    r#"{begin}{{"metadata":{{"name":"web-{index}","namespace":"shop","labels":{{"kubernetes.io/service-name":"web"}}}},"addressType":"IPv4","ports":[{{"name":"http","port":8080}}],"endpoints":["#
                )?;
            } else {
                slices.push(',');
            }
            write!(
                slices,
                r#"{{"addresses":["{ip}"],"targetRef":{{"kind":"Pod","namespace":"shop","name":"web-{index}"}}}}"#
            )?;
        }
        let list = |version: &str, kind: &str, items: &str| {
            format!(r#"{{"apiVersion":"{version}","kind":"{kind}List","items":[{items}]}}"#)
        };
        manifests.write("home/pods.json", &list("v1", "Pod", &pods))?;
        let slices = list(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            &format!("{slices}]}}"),
        );
        manifests.write("home/slices.json", &slices)?;

        let tributary = manifests.serve().await?;
        let stream = tributary.get(&authority("shop", "web"));
        // The client notes every message above 3.5 MiB as a broken rule.
        let state = stream
            .wait_for("every endpoint", |state| state.endpoints.len() == ENDPOINTS)
            .await;
        for index in (0..ENDPOINTS).step_by(997) {
            let endpoint = state.at(&format!("{}:8080", ip(index)));
            assert_eq!(endpoint.label("pod"), Some(&*format!("web-{index}")));
            assert!(endpoint.identity().is_some());
        }
        let messages = stream.messages();
        assert!(messages.len() > 1, "{} messages", messages.len());
        let additions = messages.iter().map(|message| match message {
            Message::Add(addresses) => addresses.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(additions.sum::<usize>(), ENDPOINTS, "each of them once");
        Ok(())
    });
}

#[test]
fn the_scheme_of_a_question_means_nothing() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let mut answers = Vec::new();
        // Proxies leave it empty, Linkerd's command line has the second, its own tests the third.
        for scheme in ["", "http:", "k8s", "https", "no scheme at all"] {
            let question = GetDestination {
                scheme: scheme.to_owned(),
                path: authority("shop", "web"),
                context_token: String::new(),
            };
            let mut client = DestinationClient::new(tributary.connect_lazy());
            let mut updates = client.get(question).await?.into_inner();
            answers.push(updates.message().await?);
        }
        assert!(answers[0].is_some());
        for answer in &answers {
            assert_eq!(*answer, answers[0]);
        }
        Ok(())
    });
}

#[test]
fn a_renamed_port_is_one_difference() {
    run(async {
        let manifests = Manifests::new()?;
        // Two slices, so that there is something that could be told in two parts. Each has both ports.
        let mut objects = String::new();
        for (name, ip) in [("web-0", "10.1.0.1"), ("web-1", "10.1.0.2")] {
            let of_one = slice("shop", "web", &[Backend::ready(name, ip)]);
            objects += &pod("shop", "web", name, ip);
            objects += &of_one
                .replace("name: web-s1", &format!("name: slice-of-{name}"))
                .replace(
                    "ports: [",
                    "ports: [{name: grpc, port: 9090, protocol: TCP}, ",
                );
        }
        manifests.write("home/endpoints.yaml", &objects)?;
        manifests.write("home/service.yaml", &service("shop", "web"))?;
        let tributary = manifests.serve().await?;
        let stream = tributary.get(&authority("shop", "web"));
        let [before, after] = [
            ["10.1.0.1:8080", "10.1.0.2:8080"],
            ["10.1.0.1:9090", "10.1.0.2:9090"],
        ];
        stream.wait_for_exactly(&before).await;
        let mark = stream.mark();

        let renamed = service("shop", "web").replace("name: http", "name: grpc");
        manifests.write("home/service.yaml", &renamed)?;
        stream.wait_for_exactly(&after).await;
        let parse = |addresses: [&str; 2]| addresses.map(|address| address.parse().unwrap());
        assert_eq!(
            stream.messages_since(mark),
            [
                Message::Add(parse(after).to_vec()),
                Message::Remove(parse(before).to_vec())
            ],
            "the new ones before the old ones go, each at once"
        );
        Ok(())
    });
}
