//! Answers of every size.

use std::fmt::Write as _;

use linkerd2_proxy_api::destination::GetDestination;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;

use crate::support::manifests::{Manifests, shop};
use crate::support::run;
use crate::support::services::{authority, service};
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
