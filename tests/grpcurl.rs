//! `grpcurl`, which knows nothing but what reflection tells it: run by `scripts/test grpcurl`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

use std::process::Command;

use anyhow::{Result, ensure};
use base64::Engine as _;

use support::manifests::shop;
use support::peers::{Peer, free_port};
use support::process::Process;
use support::services::{Backend, workload};
use support::tributary::Tributary;
use support::{run, scratch_folder, wait_for};

/// What it prints for arguments that follow the address.
fn grpcurl(server: &Tributary, request: Option<&str>, arguments: &[&str]) -> Result<String> {
    let output = Command::new(Peer::Grpcurl.program()?)
        .args(all_arguments(server, request, arguments))
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {said}{complaint}");
    Ok(said)
}

fn all_arguments(server: &Tributary, request: Option<&str>, arguments: &[&str]) -> Vec<String> {
    let mut all = vec!["-plaintext".to_owned()];
    all.extend(
        request
            .into_iter()
            .flat_map(|json| ["-d".to_owned(), json.to_owned()]),
    );
    all.push(server.address().to_string());
    all.extend(arguments.iter().map(|&argument| argument.to_owned()));
    all
}

#[test]
#[ignore = "needs grpcurl: scripts/test grpcurl"]
fn services_are_listed_and_described() {
    run(async {
        let (_manifests, server) = shop().await?;
        let list = grpcurl(&server, None, &["list"])?;
        for service in [
            "grpc.health.v1.Health",
            "io.linkerd.proxy.destination.Destination",
            "tributary.v1.Introspection",
        ] {
            assert!(
                list.lines().any(|line| line == service),
                "{service}: {list}"
            );
        }
        let destination = "io.linkerd.proxy.destination.Destination";
        let described = grpcurl(&server, None, &["describe", destination])?;
        assert!(described.contains("rpc Get ("), "{described}");
        let message = "io.linkerd.proxy.destination.WeightedAddr";
        let described = grpcurl(&server, None, &["describe", message])?;
        assert!(described.contains("protocol_hint"), "{described}");
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcurl: scripts/test grpcurl"]
fn health_is_told() {
    run(async {
        let (_manifests, server) = shop().await?;
        let check = ["grpc.health.v1.Health/Check"];
        for request in [
            "{}",
            r#"{"service":"io.linkerd.proxy.destination.Destination"}"#,
        ] {
            let health = grpcurl(&server, Some(request), &check)?;
            assert!(health.contains("SERVING"), "{health}");
            assert!(!health.contains("NOT_SERVING"), "{health}");
        }
        let unknown = grpcurl(&server, Some(r#"{"service":"no.such"}"#), &check);
        let complaint = unknown.expect_err("nobody has that service").to_string();
        assert!(complaint.contains("NotFound"), "{complaint}");
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcurl: scripts/test grpcurl"]
fn get_is_answered_and_followed() {
    run(async {
        let (manifests, server) = shop().await?;
        let folder = scratch_folder("grpcurl")?;
        let request = r#"{"path":"web.shop.svc.cluster.local:80"}"#;
        let get = ["io.linkerd.proxy.destination.Destination/Get"];
        let stream = Process::start(
            "grpcurl",
            &Peer::Grpcurl.program()?,
            &all_arguments(&server, Some(request), &get),
            &folder.path().join("log"),
        )?;
        let printed = async |text: &str| {
            wait_for(&format!("grpcurl to print {text}"), || async {
                stream.log_text().contains(text).then_some(())
            })
            .await
        };
        printed("web.shop.serviceaccount.identity.linkerd.cluster.local").await?;
        let one = workload("shop", "web", &[Backend::ready("web-0", "10.1.0.1")]);
        manifests.write("home/web.yaml", &one)?;
        printed("\"remove\"").await?;

        let missing = r#"{"path":"missing.shop.svc.cluster.local:80"}"#;
        let refused = grpcurl(&server, Some(missing), &get).expect_err("nobody has that name");
        assert!(refused.to_string().contains("NotFound"), "{refused}");
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcurl: scripts/test grpcurl"]
fn introspection_is_asked_by_what_reflection_says() {
    run(async {
        let (_manifests, server) = shop().await?;
        let service = "tributary.v1.Introspection";
        let described = grpcurl(&server, None, &["describe", service])?;
        assert!(
            described.contains("each rule that kept it or dropped it"),
            "{described}"
        );
        let ask = |method: &str, request: &str| {
            let method = format!("{service}/{method}");
            let answer = grpcurl(&server, Some(request), &[&method])?;
            anyhow::Ok(serde_json::from_str::<serde_json::Value>(&answer)?)
        };
        let clusters = ask("ListClusters", "{}")?;
        assert_eq!(
            clusters["clusters"][0]["state"], "CLUSTER_STATE_SYNCED",
            "{clusters}"
        );
        let services = ask("ListServices", r#"{"contains": "web.sh"}"#)?;
        assert_eq!(services["services"][0]["name"], "web", "{services}");
        assert_eq!(services["services"][0]["ready"], 2, "{services}");
        let explained = ask(
            "Explain",
            r#"{"authority": "web.shop.svc.cluster.local:80", "ip": "10.1.0.1"}"#,
        )?;
        assert_eq!(
            explained["verdict"], "10.1.0.1 is in the answer.",
            "{explained}"
        );
        let findings = ask("ListFindings", "{}")?;
        assert!(findings["findings"].is_array(), "{findings}");

        let stream = server.get("web.shop.svc.cluster.local:80");
        stream.wait_for_exactly(&support::manifests::WEB).await;
        let views = ask("ListViews", "{}")?;
        assert_eq!(views["views"][0]["service"], "web", "{views}");
        assert_eq!(views["views"][0]["streams"], 1, "{views}");
        let refused = ask(
            "Explain",
            r#"{"authority": "web.shop.svc.cluster.local:80", "ip": "x"}"#,
        );
        assert!(refused.is_err());
        Ok(())
    });
}

/// As much of xDS as one question takes; resources are left as bytes.
const ENDPOINT_DISCOVERY: &str = "
syntax = 'proto3';
package envoy.service.endpoint.v3;
message Node { string id = 1; }
message DiscoveryRequest { Node node = 2; repeated string resource_names = 3; }
message DiscoveryResponse { string version_info = 1; repeated bytes resources = 2; string type_url = 4; }
service EndpointDiscoveryService {
  rpc StreamEndpoints(stream DiscoveryRequest) returns (stream DiscoveryResponse);
}
";

#[test]
#[ignore = "needs grpcurl: scripts/test grpcurl"]
fn xds_lists_its_services_tells_its_health_and_answers_one_question() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let xds = format!("127.0.0.1:{}", free_port()?);
        let server = Tributary::serve_manifests(manifests.path(), &["--xds-addr", &xds]).await?;
        let ask = |arguments: &[&str]| -> Result<String> {
            let output = Command::new(Peer::Grpcurl.program()?)
                .arg("-plaintext")
                .args(arguments)
                .output()?;
            let said = String::from_utf8(output.stdout)?;
            let complaint = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{arguments:?}: {said}{complaint}");
            Ok(said)
        };
        let list = ask(&[&xds, "list"])?;
        assert!(list.contains("grpc.health.v1.Health"), "{list}");
        let service = "envoy.service.discovery.v3.AggregatedDiscoveryService";
        let question = format!("{{\"service\":\"{service}\"}}");
        let health = ask(&["-d", &question, &xds, "grpc.health.v1.Health/Check"])?;
        assert!(health.contains("\"SERVING\""), "{health}");

        let folder = scratch_folder("protos")?;
        let file = folder.path().join("eds.proto");
        std::fs::write(&file, ENDPOINT_DISCOVERY)?;
        let path = folder.path().display().to_string();
        let question = r#"{"node":{"id":"t"},"resource_names":["web.shop.svc.cluster.local:80"]}"#;
        let method = "envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints";
        let arguments = ["-import-path", &path, "-proto", "eds.proto", "-d", question];
        let answer = ask(&[&arguments[..], &[&xds, method]].concat())?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        let resource = answer["resources"][0].as_str().unwrap_or_default();
        let resource = base64::engine::general_purpose::STANDARD.decode(resource)?;
        let text = String::from_utf8_lossy(&resource);
        assert!(
            text.contains("10.1.0.1") && text.contains("10.1.0.2"),
            "{text}"
        );

        // And who asked what is told on the other port.
        let clients = grpcurl(
            &server,
            None,
            &["tributary.v1.XdsIntrospection/ListXdsClients"],
        )?;
        assert!(clients.contains('{'), "{clients}");
        Ok(())
    });
}
