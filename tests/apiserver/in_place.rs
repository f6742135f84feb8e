//! Tributary in the place of Linkerd's destination controller: its arguments, its account, its rights, its probes.

use linkerd2_proxy_api::destination::http2_client_params::KeepAlive;

use crate::support::services::{Backend, Local, authority, federated, workload};
use crate::support::tributary::Tributary;
use crate::support::{http, run};

/// What Linkerd's chart passes where nothing is configured otherwise, after the name of the command.
const CHART_ARGUMENTS: [&str; 13] = [
    "-addr=:8086",
    "-controller-namespace=linkerd",
    "-outbound-transport-mode=transport-header",
    "-enable-h2-upgrade=true",
    "-log-level=info",
    "-log-format=plain",
    "-enable-endpoint-slices=true",
    "-cluster-domain=cluster.local",
    "-identity-trust-domain=cluster.local",
    "-default-opaque-ports=25,587,3306,4444,5432,6379,9300,11211",
    "-enable-ipv6=false",
    "-enable-pprof=false",
    r#"--meshed-http2-client-params={"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}"#,
];

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_charts_arguments_and_the_controllers_rights_are_all_it_needs() {
    run(async {
        // It takes the Lease of that controller, as tests of the writer do.
        let turn = crate::writer::turn().await?;
        let bed = turn.bed;
        let namespace = "in-place";
        let home = [Backend::ready("web-0", "10.53.1.1")];
        let east = [Backend::ready("web-0", "10.63.1.1")];
        bed.home.apply(&workload(namespace, "web", &home)).await?;
        bed.east.apply(&workload(namespace, "web", &east)).await?;
        let members = federated(namespace, "web", Local::Member, &["east"]);
        bed.home.apply(&members).await?;

        bed.home.apply(&external_workload(namespace)).await?;
        let tributary = Tributary::start_in_place(&bed.home, &CHART_ARGUMENTS).await?;
        let stream = tributary.get_from_node(&authority(namespace, "web-federated"), "n0");
        let state = stream
            .wait_for_exactly(&["10.53.1.1:8080", "10.63.1.1:8080"])
            .await;
        for address in ["10.53.1.1:8080", "10.63.1.1:8080"] {
            let endpoint = state.at(address);
            let identity = "web.in-place.serviceaccount.identity.linkerd.cluster.local";
            assert_eq!(endpoint.identity(), Some(identity), "{address}");
            assert_eq!(endpoint.inbound_port(), Some(4143), "{address}");
            assert_eq!(endpoint.label("zone_locality"), Some("local"));
            let keep_alive = KeepAlive {
                interval: Some(seconds(10)),
                timeout: Some(seconds(3)),
                while_idle: true,
            };
            let http2 = endpoint.content.http2.as_ref();
            let http2 = http2.and_then(|http2| http2.keep_alive.as_ref());
            assert_eq!(http2, Some(&keep_alive), "{address}");
        }
        // It does what that one does besides: nobody else lists ExternalWorkloads in slices.
        let stream = tributary.get(&authority(namespace, "vm"));
        let state = stream.wait_for_exactly(&["10.53.1.9:8080"]).await;
        let identity = Some("spiffe://root.linkerd.cluster.local/vm-0");
        assert_eq!(state.at("10.53.1.9:8080").identity(), identity);
        for (path, body) in [("/ping", "pong\n"), ("/ready", "ok\n")] {
            let answer = http::get(tributary.admin(), path).await?;
            assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        }
        // No flag is without effect, and no kind of the home cluster is out of reach.
        let unused = tributary.logs_containing("has no effect here");
        assert_eq!(unused, Vec::<String>::new());
        let metrics = tributary.metrics().await?;
        let is_refusal =
            |line: &&str| line.contains("cluster=\"home\"") && line.contains("\"forbidden\"");
        assert_eq!(metrics.lines().find(is_refusal), None);
        bed.home.delete(&external_workload(namespace)).await?;
        tributary.terminate().await?;
        Ok(())
    });
}

/// An ExternalWorkload and the Service that selects it.
fn external_workload(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: vm, namespace: {namespace}}}
spec: {{selector: {{app: vm}}, ports: [{{name: http, port: 80, targetPort: web}}]}}
---
apiVersion: workload.linkerd.io/v1beta1
kind: ExternalWorkload
metadata: {{name: vm-0, namespace: {namespace}, labels: {{app: vm}}}}
spec:
  meshTLS: {{identity: 'spiffe://root.linkerd.cluster.local/vm-0', serverName: vm-0.cluster.local}}
  workloadIPs: [{{ip: 10.53.1.9}}]
  ports: [{{name: web, port: 8080}}]
status: {{conditions: [{{type: Ready, status: 'True'}}]}}
"
    )
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
