//! What scrapers are told, and what is said once in the log.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::services::{Backend, authority, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// How series of a method of the destination API are labelled.
fn labels(method: &str) -> String {
    format!(
        "grpc_type=\"server_stream\",grpc_service=\"io.linkerd.proxy.destination.Destination\",grpc_method=\"{method}\""
    )
}

/// Waits until there are these series, which stand for the beginnings of lines.
async fn until_series(tributary: &Tributary, expected: &[String]) -> Result<()> {
    wait_for(&format!("series {expected:#?}"), || async {
        let metrics = tributary.metrics().await.ok()?;
        let lines: BTreeSet<_> = metrics.lines().collect();
        expected
            .iter()
            .all(|line| lines.contains(line.as_str()))
            .then_some(())
    })
    .await
}

/// Names and labels of all series, without their values.
async fn series(tributary: &Tributary) -> Result<BTreeSet<String>> {
    let metrics = tributary.metrics().await?;
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let series = samples.filter_map(|line| line.rsplit_once(' '));
    Ok(series.map(|(series, _)| series.to_owned()).collect())
}

#[test]
fn streams_are_counted_from_their_start_to_their_end() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.wait_for_exactly(&WEB).await;
        tributary
            .get(&authority("shop", "missing"))
            .wait_for_end()
            .await;
        let labels = labels("Get");
        until_series(
            &tributary,
            &[
                format!("grpc_server_started_total{{{labels}}} 2"),
                format!("grpc_server_handled_total{{{labels},grpc_code=\"NotFound\"}} 1"),
                format!("grpc_server_handled_total{{{labels},grpc_code=\"Canceled\"}} 0"),
                format!("grpc_server_msg_received_total{{{labels}}} 2"),
                format!("grpc_server_msg_sent_total{{{labels}}} 1"),
                "endpoints_subscribers 1".to_owned(),
            ],
        )
        .await?;
        drop(stream);
        until_series(
            &tributary,
            &[
                format!("grpc_server_handled_total{{{labels},grpc_code=\"Canceled\"}} 1"),
                format!("grpc_server_handling_seconds_count{{{labels}}} 2"),
                "endpoints_subscribers 0".to_owned(),
            ],
        )
        .await
    });
}

#[test]
fn services_and_clients_add_no_series() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let ask = async |services: &[String]| {
            for name in services {
                let authority = authority("shop", name);
                let token = format!(r#"{{"ns":"{name}","nodeName":"n-{name}","pod":"p-{name}"}}"#);
                let stream = tributary.get_with_token(&authority, &token);
                stream.begun().await;
                tributary
                    .get_profile(&authority, &token)
                    .wait_for("a profile", |_| true)
                    .await;
                let missing = format!("none-{authority}");
                tributary.get(&missing).wait_for_end().await;
            }
        };
        ask(&["web".to_owned()]).await;
        let before = series(&tributary).await?;
        let more: Vec<_> = (0..10).map(|number| format!("more-{number}")).collect();
        for (number, name) in more.iter().enumerate() {
            let ip = format!("10.2.0.{number}");
            let backends = [Backend::ready("pod", &ip)];
            manifests.write(
                &format!("home/{name}.yaml"),
                &workload("shop", name, &backends),
            )?;
        }
        tributary.until_metric("tributary_services", 12.0).await?;
        ask(&more).await;
        let after = series(&tributary).await?;
        let grown: Vec<_> = after.difference(&before).collect();
        assert!(grown.is_empty(), "{grown:#?}");
        Ok(())
    });
}

#[test]
fn an_external_workload_on_the_ip_of_a_pod_is_counted_and_logged_once() {
    run(async {
        let manifests = Manifests::new()?;
        let backends = [Backend::ready("web-0", "10.1.0.1")];
        manifests.write("home/web.yaml", &workload("shop", "web", &backends))?;
        let external = |port: u16| {
            format!(
                "apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
                 metadata: {{name: vm, namespace: shop}}\n\
                 spec:\n  meshTLS: {{identity: 'spiffe://a/vm', serverName: vm.a}}\n\
                 \x20 ports: [{{port: {port}}}]\n  workloadIPs: [{{ip: 10.1.0.1}}]\n"
            )
        };
        manifests.write("home/vm.yaml", &external(8080))?;
        let tributary = manifests.serve().await?;
        let clash = |count| {
            format!(
                "tributary_index_address_clashes{{between=\"pod_and_external_workload\"}} {count}"
            )
        };
        until_series(&tributary, &[clash(1)]).await?;
        let message = "external workload is registered on the IP of a pod";
        let line = tributary.log_line(message).await?;
        assert!(
            line.contains("Pod shop/web-0, ExternalWorkload shop/vm"),
            "{line}"
        );
        assert!(line.contains("WARN") && line.contains("10.1.0.1"), "{line}");

        manifests.write("home/vm.yaml", &external(8081))?;
        manifests.write("home/more.yaml", &workload("shop", "more", &[]))?;
        tributary.until_metric("tributary_services", 2.0).await?;
        until_series(&tributary, &[clash(1)]).await?;
        manifests.write("home/vm.yaml", "# nobody\n")?;
        until_series(&tributary, &[clash(0)]).await?;
        assert_eq!(tributary.logs_containing(message).len(), 1);
        Ok(())
    });
}

#[test]
fn what_clients_do_again_and_again_is_a_warning_once() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let warnings = |message: &str| {
            let lines = tributary.logs_containing(message);
            lines.iter().filter(|line| line.contains("WARN")).count()
        };
        for _ in 0..3 {
            let undefined = authority("shop", "web").replace(":80", ":81");
            tributary
                .get_with_token(&undefined, "ns:shop")
                .begun()
                .await;
            tributary
                .get_with_token(&authority("shop", "web"), "ns:shop")
                .wait_for_exactly(&WEB)
                .await;
        }
        tributary
            .until_metric("tributary_destination_legacy_context_tokens_total", 6.0)
            .await?;
        assert_eq!(warnings("legacy context token"), 1);
        assert_eq!(warnings("service has no such port"), 1);
        Ok(())
    });
}

#[test]
fn a_start_says_what_it_runs_with() {
    run(async {
        let manifests = Manifests::new()?;
        let arguments = ["--default-opaque-ports", "25,443-447"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        for (message, data) in [
            ("starting", env!("CARGO_PKG_VERSION").to_owned()),
            ("default opaque ports in force", "25,443-447".to_owned()),
            ("admin server listening", tributary.admin().to_string()),
            ("gRPC server listening", tributary.address().to_string()),
            ("cluster synced", "home".to_owned()),
        ] {
            let line = tributary.log_line(message).await?;
            assert!(line.contains("INFO") && line.contains(&data), "{line}");
        }
        tributary.ask_to_end()?;
        tributary.ended().await?;
        let line = tributary.log_line("shutting down").await?;
        assert!(line.contains("SIGTERM"), "{line}");
        Ok(())
    });
}
