//! xDS by hand: one message after another, and what no well-behaved client would send.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::envoy::service::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use crate::support::manifests::Manifests;
use crate::support::peers::free_port;
use crate::support::services::{Backend, workload};
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, run};

pub(crate) const ENDPOINTS: &str =
    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
pub(crate) const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const WEB: &str = "web.shop.svc.cluster.local:80";

async fn scene() -> Result<(Manifests, Tributary, Channel)> {
    scene_with(&[]).await
}

/// A home cluster with Service `web`, and its product, which serves xDS as the arguments say.
pub(crate) async fn scene_with(more: &[&str]) -> Result<(Manifests, Tributary, Channel)> {
    let manifests = Manifests::new()?;
    let backends = [Backend::ready("web-0", "10.1.0.1")];
    manifests.write("home/web.yaml", &workload("shop", "web", &backends))?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut arguments = vec!["--xds-addr", &address];
    arguments.extend(more);
    let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
    let channel = Channel::from_shared(format!("http://{address}"))?.connect_lazy();
    Ok((manifests, tributary, channel))
}

pub(crate) fn request(kind: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: kind.to_owned(),
        resource_names: names.iter().map(|&name| name.to_owned()).collect(),
        ..Default::default()
    }
}

pub(crate) async fn next<T>(stream: &mut Streaming<T>) -> Result<T> {
    let message = tokio::time::timeout(DEADLINE, stream.next()).await?;
    Ok(message.context("the stream has ended")??)
}

/// The names in a response and how many endpoints each has.
pub(crate) fn assignments(response: &DiscoveryResponse) -> Result<Vec<(String, usize)>> {
    let count = |assignment: &ClusterLoadAssignment| {
        let localities = assignment.endpoints.iter();
        localities.map(|locality| locality.lb_endpoints.len()).sum()
    };
    response
        .resources
        .iter()
        .map(|any| {
            let assignment = ClusterLoadAssignment::decode(&*any.value)?;
            let count = count(&assignment);
            Ok((assignment.cluster_name, count))
        })
        .collect()
}

#[test]
fn one_question_is_answered_and_the_stream_ends() {
    run(async {
        let (_manifests, _tributary, channel) = scene().await?;
        let question = tokio_stream::once(request("", &[WEB, "nobody.shop:80", "no name"]));
        let mut client = EndpointDiscoveryServiceClient::new(channel.clone());
        let mut stream = client.stream_endpoints(question).await?.into_inner();
        let mut answered = Vec::new();
        while let Some(response) = stream.message().await? {
            answered.extend(assignments(&response)?);
        }
        answered.sort();
        let expected = [("no name", 0), ("nobody.shop:80", 0), (WEB, 1)];
        assert_eq!(
            answered,
            expected.map(|(name, count)| (name.to_owned(), count))
        );

        let question = tokio_stream::once(request(LISTENER, &["nobody.shop:80"]));
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let mut stream = client
            .stream_aggregated_resources(question)
            .await?
            .into_inner();
        let response = next(&mut stream).await?;
        assert!(response.resources.is_empty());
        let error = response.resource_errors[0].error_detail.as_ref().unwrap();
        assert_eq!(error.code, 5);
        assert!(error.message.contains("no such Service"), "{error:?}");
        Ok(())
    });
}

#[test]
fn a_request_that_makes_no_sense_ends_its_own_stream_only() {
    run(async {
        let (_manifests, tributary, channel) = scene().await?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel.clone());
        let (sender, requests) = mpsc::channel(8);
        sender.send(request(ENDPOINTS, &[WEB])).await?;
        let mut good = client
            .stream_aggregated_resources(ReceiverStream::new(requests))
            .await?
            .into_inner();
        assert_eq!(assignments(&next(&mut good).await?)?[0].1, 1);

        let nothing = tokio_stream::once(request("", &[WEB]));
        let mut bad = client
            .stream_aggregated_resources(nothing)
            .await?
            .into_inner();
        let status = bad.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("type_url"), "{status}");

        let mut endpoints = EndpointDiscoveryServiceClient::new(channel);
        let other = tokio_stream::once(request(LISTENER, &[WEB]));
        let mut bad = endpoints.stream_endpoints(other).await?.into_inner();
        let status = bad.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let fetch = endpoints.fetch_endpoints(request(ENDPOINTS, &[WEB])).await;
        assert_eq!(fetch.unwrap_err().code(), Code::Unimplemented);

        // The other stream goes on.
        sender
            .send(request("type.googleapis.com/no.such.Kind", &["x"]))
            .await?;
        let more = DiscoveryRequest {
            response_nonce: "1".to_owned(),
            ..request(ENDPOINTS, &[WEB, "other.shop:80"])
        };
        sender.send(more).await?;
        let response = next(&mut good).await?;
        assert_eq!(assignments(&response)?, [("other.shop:80".to_owned(), 0)]);
        tributary.ensure_running()
    });
}

#[test]
fn ten_thousand_names_on_one_stream_leave_nothing_behind() {
    run(async {
        let (_manifests, tributary, channel) = scene().await?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let names: Vec<String> = (0..10_000).map(|n| format!("s{n}.shop:80")).collect();
        let (sender, requests) = mpsc::channel(8);
        let subscribe = DeltaDiscoveryRequest {
            type_url: ENDPOINTS.to_owned(),
            resource_names_subscribe: names.clone(),
            ..Default::default()
        };
        sender.send(subscribe).await?;
        let mut stream = client
            .delta_aggregated_resources(ReceiverStream::new(requests))
            .await?
            .into_inner();
        let mut answered = BTreeSet::new();
        while answered.len() < names.len() {
            let response: DeltaDiscoveryResponse = next(&mut stream).await?;
            for resource in &response.resources {
                answered.insert(resource.name.clone());
            }
            let accept = DeltaDiscoveryRequest {
                type_url: ENDPOINTS.to_owned(),
                response_nonce: response.nonce,
                ..Default::default()
            };
            sender.send(accept).await?;
        }
        assert_eq!(answered, names.into_iter().collect());
        tributary
            .until_metric("tributary_xds_names_followed", 10_000.0)
            .await?;
        drop((stream, sender));
        tributary
            .until_metric("tributary_xds_names_followed", 0.0)
            .await
    });
}
