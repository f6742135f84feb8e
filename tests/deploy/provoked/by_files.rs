//! What needs no API server.

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::google::rpc::Status;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::Story;
use crate::rights::until_series;
use crate::support::manifests::{Manifests, shop};
use crate::support::peers::{Peer, free_port};
use crate::support::run;
use crate::support::services::{Backend, authority, service, slice, workload};
use crate::support::tributary::Tributary;
use crate::tools::{file_with, output};

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn metrics_are_as_prometheus_wants_them() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.begun().await;
        let (_folder, file) = file_with("metrics", &tributary.metrics().await?)?;
        let output = output(Peer::Promtool, &["check", "metrics"], Some(&file))?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}");
        Ok(())
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn nobody_is_there() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let story = Story::default().then(&[&tributary]).await?;
        story.then(&[]).await?.raises(&["TributaryAbsent"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn it_starts_again_and_again() {
    run(async {
        let manifests = Manifests::new()?;
        let mut story = Story::default();
        for _ in 0..4 {
            let tributary = manifests.serve().await?;
            story = story.then(&[&tributary]).await?;
        }
        story.raises(&["TributaryRestarts"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn a_pod_is_listed_and_not_there() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let story = Story::default().then(&[&tributary]).await?;
        let backends = [Backend::ready("gone", "10.1.0.7")];
        let service_and_slice = service("shop", "idle") + &slice("shop", "idle", &backends);
        manifests.write("home/idle.yaml", &service_and_slice)?;
        let held = "tributary_cluster_endpoints_held{cluster=\"home\",reason=\"pod_unknown\"}";
        until_series(&tributary, held, |count| count > 0.0).await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryEndpointsHeld"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn two_pods_claim_one_address() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let story = Story::default().then(&[&tributary]).await?;
        let backends = [Backend::ready("twin", "10.1.0.1")];
        manifests.write("home/twin.yaml", &workload("shop", "twin", &backends))?;
        let clashes = "tributary_index_address_clashes{between=\"pods\"}";
        until_series(&tributary, clashes, |count| count > 0.0).await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryAddressClash"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn one_replica_knows_less() {
    run(async {
        let ((_first, one), (second, two)) = (shop().await?, shop().await?);
        let story = Story::default().then(&[&one, &two]).await?;
        second.write("home/web.yaml", &workload("shop", "web", &[]))?;
        let endpoints = "tributary_cluster_endpoints{cluster=\"home\"}";
        until_series(&two, endpoints, |count| count.total_cmp(&0.0).is_eq()).await?;
        story
            .then(&[&one, &two])
            .await?
            .raises(&["TributaryReplicasDisagree"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn more_streams_come_than_may() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let tributary = Tributary::serve_manifests(manifests.path(), &["--max-streams=1"]).await?;
        let refuse = async || {
            tributary
                .get(&authority("shop", "web"))
                .wait_for_end()
                .await
        };
        let stream = tributary.get(&authority("shop", "web"));
        stream.begun().await;
        // A series that is new has not increased, to Prometheus.
        refuse().await;
        let story = Story::default().then(&[&tributary]).await?;
        refuse().await;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryStreamsRefused"])
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn a_gateway_refuses_what_it_is_sent() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let address = format!("127.0.0.1:{}", free_port()?);
        let tributary =
            Tributary::serve_manifests(manifests.path(), &["--xds-addr", &address]).await?;
        let story = Story::default().then(&[&tributary]).await?;

        let channel = Channel::from_shared(format!("http://{address}"))?.connect_lazy();
        let (requests, receiver) = mpsc::channel(4);
        let first = DiscoveryRequest {
            type_url: "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
                .to_owned(),
            resource_names: vec![authority("shop", "web")],
            ..DiscoveryRequest::default()
        };
        requests.send(first.clone()).await?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let answer = client
            .stream_aggregated_resources(ReceiverStream::new(receiver))
            .await?;
        let response = answer.into_inner().message().await?.unwrap_or_default();
        let refusal = DiscoveryRequest {
            response_nonce: response.nonce,
            error_detail: Some(Status {
                code: 3,
                message: "no such thing".to_owned(),
                details: Vec::new(),
            }),
            ..first
        };
        requests.send(refusal).await?;
        let refused = "tributary_xds_requests_total{kind=\"endpoints\",verdict=\"refused\"}";
        until_series(&tributary, refused, |count| count >= 1.0).await?;
        story
            .then(&[&tributary])
            .await?
            .raises(&["TributaryResourcesRefused"])
    });
}
