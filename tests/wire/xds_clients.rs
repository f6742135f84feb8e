//! Clients of xDS as they should not be, and what operators see of them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use envoy_types::pb::google::rpc::Status;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use tributary::proto::tributary_v1::xds_introspection_client::XdsIntrospectionClient;
use tributary::proto::tributary_v1::{
    ListXdsClientsRequest, ListXdsClientsResponse, XdsVariant, XdsVerdict,
};

use super::raw::{Answer, Raw, frame};
use super::xds::{CLUSTER, ENDPOINTS, WEB, assignments, next, request, scene_with};
use crate::support::manifests::Manifests;
use crate::support::services::{Backend, service, slice, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, runtime, wait_for};

const ADS: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// A state-of-the-world stream.
struct Sotw {
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

/// A delta stream.
struct Delta {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Sotw {
    async fn open(channel: &Channel, first: DiscoveryRequest) -> Result<Self, tonic::Status> {
        let (requests, receiver) = mpsc::channel(8);
        requests.try_send(first).expect("there is room");
        let mut client = AggregatedDiscoveryServiceClient::new(channel.clone());
        let responses = client
            .stream_aggregated_resources(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self {
            requests,
            responses,
        })
    }

    async fn next(&mut self) -> Result<DiscoveryResponse> {
        next(&mut self.responses).await
    }

    /// Answers a response: accepts it, or refuses it for a reason.
    async fn answer(
        &self,
        response: &DiscoveryResponse,
        names: &[&str],
        refusal: Option<&str>,
    ) -> Result<()> {
        let answer = DiscoveryRequest {
            response_nonce: response.nonce.clone(),
            version_info: response.version_info.clone(),
            error_detail: refusal.map(|reason| Status {
                code: 3,
                message: reason.to_owned(),
                ..Default::default()
            }),
            ..request(&response.type_url, names)
        };
        Ok(self.requests.send(answer).await?)
    }
}

impl Delta {
    async fn open(channel: &Channel, first: DeltaDiscoveryRequest) -> Result<Self> {
        let (requests, receiver) = mpsc::channel(8);
        requests.send(first).await?;
        let mut client = AggregatedDiscoveryServiceClient::new(channel.clone());
        let responses = client
            .delta_aggregated_resources(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self {
            requests,
            responses,
        })
    }

    async fn next(&mut self) -> Result<DeltaDiscoveryResponse> {
        let response = next(&mut self.responses).await?;
        let accept = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.requests.send(accept).await?;
        Ok(response)
    }
}

fn delta(kind: &str, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.to_owned(),
        resource_names_subscribe: names.iter().map(|&name| name.to_owned()).collect(),
        ..Default::default()
    }
}

fn node(id: &str, metadata: &[(&str, &str)]) -> Node {
    let fields = metadata.iter().map(|(key, text)| {
        let kind = Some(Kind::StringValue((*text).to_owned()));
        ((*key).to_owned(), Value { kind })
    });
    Node {
        id: id.to_owned(),
        user_agent_name: "envoy".to_owned(),
        metadata: Some(Struct {
            fields: fields.collect(),
        }),
        ..Default::default()
    }
}

/// Gives `web` other addresses; the first stays.
fn change(manifests: &Manifests, round: u8) -> Result<()> {
    let ip = format!("10.1.9.{round}");
    let backends = [
        Backend::ready("web-0", "10.1.0.1"),
        Backend::ready("web-1", &ip),
    ];
    manifests.write("home/web.yaml", &workload("shop", "web", &backends))
}

/// Whether a response has an address of [`change`].
fn has(response: &DiscoveryResponse, round: u8) -> bool {
    let ip = format!("10.1.9.{round}");
    let mut bodies = response.resources.iter().map(|any| &any.value);
    bodies.any(|body| body.windows(ip.len()).any(|part| part == ip.as_bytes()))
}

/// Where it serves xDS, as its log says.
fn xds_of(tributary: &Tributary) -> Result<SocketAddr> {
    let lines = tributary.logs_containing("gRPC server listening");
    let addresses = lines.iter().filter_map(|line| {
        let text = line.split("addr=").nth(1)?.split_whitespace().next()?;
        text.parse().ok()
    });
    let mut others = addresses.filter(|address| *address != tributary.address());
    others.next().context("xDS is served somewhere")
}

async fn list(
    tributary: &Tributary,
    asked: ListXdsClientsRequest,
) -> Result<ListXdsClientsResponse> {
    let mut client = XdsIntrospectionClient::new(tributary.connect_lazy());
    Ok(client.list_xds_clients(asked).await?.into_inner())
}

#[test]
fn one_bad_resource_costs_itself_and_operators_see_who_refused_it() {
    run(async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        manifests.write("home/idle.yaml", &workload("shop", "idle", &[]))?;
        let names = [WEB, "idle.shop:80"];
        let first = DiscoveryRequest {
            node: Some(node("picky", &[])),
            ..request(ENDPOINTS, &names)
        };
        let (mut picky, both) = wait_for("both names to be known", || async {
            let mut picky = Sotw::open(&channel, first.clone()).await.ok()?;
            let both = picky.next().await.ok()?;
            (both.resources.len() == 2).then_some((picky, both))
        })
        .await?;
        picky
            .answer(&both, &names, Some("I do not like web"))
            .await?;
        // Each goes out alone once; the one that is refused again is not sent again.
        let mut alone = Vec::new();
        for _ in 0..2 {
            let response = picky.next().await?;
            let name = assignments(&response)?.remove(0).0;
            let refusal = (name == WEB).then_some("still not");
            picky.answer(&response, &names, refusal).await?;
            alone.push(name);
        }
        alone.sort();
        assert_eq!(alone, ["idle.shop:80", WEB]);
        let refused = "tributary_xds_requests_total{kind=\"endpoints\",verdict=\"refused\"} 2";
        wait_for("both refusals to be counted", || async {
            tributary
                .metrics()
                .await
                .ok()?
                .contains(refused)
                .then_some(())
        })
        .await?;
        // The next one is another state, not what was refused.
        change(&manifests, 7)?;
        let response = picky.next().await?;
        assert!(has(&response, 7));
        picky
            .answer(&response, &names, Some(&"no! ".repeat(1000)))
            .await?;

        let troubled = ListXdsClientsRequest {
            troubled: true,
            ..Default::default()
        };
        let seen = wait_for("the client to be seen in trouble", || async {
            let seen = list(&tributary, troubled.clone()).await.ok()?;
            let refusal = &seen.clients.first()?.subscriptions.first()?.refusal;
            refusal.starts_with("no! ").then_some(seen)
        })
        .await?;
        let client = &seen.clients[0];
        assert_eq!(
            (client.node_id.as_str(), client.user_agent.as_str()),
            ("picky", "envoy")
        );
        assert_eq!(client.variant(), XdsVariant::Sotw);
        assert!(
            client.aggregated && client.address.starts_with("127.0.0.1:"),
            "{client:?}"
        );
        let subscription = &client.subscriptions[0];
        assert_eq!(subscription.type_url, ENDPOINTS);
        assert_eq!(subscription.names, ["idle.shop:80", WEB]);
        assert_eq!(subscription.verdict(), XdsVerdict::Refused);
        assert_eq!(subscription.refusal.len(), 1024);
        assert_eq!(subscription.version, subscription.refused_version);
        assert_ne!(subscription.accepted_version, "");
        let other = ListXdsClientsRequest {
            text: "nobody".to_owned(),
            ..Default::default()
        };
        assert_eq!(list(&tributary, other).await?.clients, []);
        drop(picky);
        wait_for("the client to be gone", || async {
            let all = list(&tributary, ListXdsClientsRequest::default())
                .await
                .ok()?;
            (all.streams_open == 0 && all.clients.is_empty()).then_some(())
        })
        .await
    });
}

#[test]
fn a_client_that_never_answers_gets_one_response_and_then_the_latest() {
    run(async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        let mut silent = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await?;
        let first = silent.next().await?;
        let mut other = Delta::open(&channel, delta(ENDPOINTS, &[WEB])).await?;
        other.next().await?;
        for round in 1..=20 {
            change(&manifests, round)?;
            other.next().await?;
        }
        silent.answer(&first, &[WEB], None).await?;
        let latest = silent.next().await?;
        assert!(has(&latest, 20), "the next has the latest");
        silent.answer(&latest, &[WEB], None).await?;
        let responses = "tributary_xds_responses_total{kind=\"endpoints\"} 23";
        let metrics = tributary.metrics().await?;
        assert!(
            metrics.contains(responses),
            "two, and one for each change: {metrics}"
        );
        Ok(())
    });
}

#[test]
fn one_address_may_have_only_so_many_streams_and_names() {
    run(async {
        let limits = [
            "--xds-max-streams-per-peer",
            "2",
            "--xds-max-names-per-peer",
            "5",
        ];
        let (_manifests, tributary, channel) = scene_with(&limits).await?;
        let mut one = Sotw::open(&channel, request(ENDPOINTS, &[WEB, "a.b:1", "a.b:2"])).await?;
        one.next().await?;
        let mut two = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await?;
        let response = two.next().await?;
        let refused = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await;
        let refused = refused.err().context("a third stream is too many")?;
        assert_eq!(refused.code(), Code::ResourceExhausted);
        two.answer(&response, &[WEB, "a.b:3", "a.b:4"], None)
            .await?;
        let error = two.responses.message().await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        let metrics = tributary.metrics().await?;
        for limit in ["peer_streams", "peer_names"] {
            let line = format!("tributary_xds_limits_met_total{{limit=\"{limit}\"}} 1");
            assert!(metrics.contains(&line), "{metrics}");
        }
        // What it had is free again, and the first stream never noticed.
        let mut three = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await?;
        three.next().await?;
        assert_eq!(
            list(&tributary, ListXdsClientsRequest::default())
                .await?
                .streams_open,
            2
        );
        Ok(())
    });
}

#[test]
fn a_connection_that_is_old_enough_ends_and_the_next_goes_on() {
    run(async {
        let age = [
            "--xds-max-connection-age",
            "300ms",
            "--drain-timeout",
            "100ms",
        ];
        let (_manifests, tributary, channel) = scene_with(&age).await?;
        for _ in 0..2 {
            // A client may have tried the connection that is about to end.
            let mut stream = wait_for("a stream", || async {
                Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await.ok()
            })
            .await?;
            let first = stream.next().await?;
            stream.answer(&first, &[WEB], None).await?;
            let end = stream.responses.message().await?;
            assert_eq!(end, None, "it ends well");
        }
        let ended = "tributary_xds_streams_ended_total{reason=\"drained\"} 2";
        let metrics = tributary.metrics().await?;
        assert!(metrics.contains(ended), "{metrics}");
        Ok(())
    });
}

#[test]
fn equal_facts_have_equal_versions_on_every_replica_and_after_a_restart() {
    run(async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        let versions = async |channel: &Channel| -> Result<Vec<String>> {
            let mut all = Vec::new();
            for kind in [ENDPOINTS, CLUSTER] {
                let mut sotw = Sotw::open(channel, request(kind, &[WEB])).await?;
                all.push(sotw.next().await?.version_info);
                let mut stream = Delta::open(channel, delta(kind, &[WEB])).await?;
                all.push(stream.next().await?.resources[0].version.clone());
            }
            Ok(all)
        };
        let here = versions(&channel).await?;
        let address = format!("127.0.0.1:{}", crate::support::peers::free_port()?);
        let other = Tributary::serve_manifests(manifests.path(), &["--xds-addr", &address]).await?;
        let elsewhere = Channel::from_shared(format!("http://{address}"))?.connect_lazy();
        assert_eq!(versions(&elsewhere).await?, here, "another replica");
        other.terminate().await?;
        let again = Tributary::serve_manifests(manifests.path(), &["--xds-addr", &address]).await?;
        assert_eq!(versions(&elsewhere).await?, here, "after a restart");
        tributary.ensure_running()?;
        again.ensure_running()
    });
}

#[test]
fn a_wildcard_lists_the_services_that_the_client_names_and_what_comes_and_goes() {
    run(async {
        let (manifests, _tributary, channel) = scene_with(&[]).await?;
        manifests.write("home/bank.yaml", &workload("bank", "vault", &[]))?;
        let first = DeltaDiscoveryRequest {
            node: Some(node("gateway", &[("TRIBUTARY_LIST", "shop")])),
            ..delta(CLUSTER, &[])
        };
        let mut gateway = Delta::open(&channel, first).await?;
        let names = |response: &DeltaDiscoveryResponse| -> Vec<String> {
            response
                .resources
                .iter()
                .map(|resource| resource.name.clone())
                .collect()
        };
        assert_eq!(names(&gateway.next().await?), [WEB]);
        manifests.write("home/api.yaml", &workload("shop", "api", &[]))?;
        assert_eq!(
            names(&gateway.next().await?),
            ["api.shop.svc.cluster.local:80"]
        );
        std::fs::remove_file(manifests.path().join("home/web.yaml"))?;
        let gone = gateway.next().await?;
        assert_eq!(
            (names(&gone), gone.removed_resources),
            (vec![], vec![WEB.to_owned()])
        );

        let everything = DiscoveryRequest {
            node: Some(node("gateway", &[("TRIBUTARY_LIST", "*")])),
            ..request(CLUSTER, &[])
        };
        let mut all = Sotw::open(&channel, everything).await?;
        assert_eq!(all.next().await?.resources.len(), 2, "of both namespaces");
        let mut modest = Sotw::open(&channel, request(CLUSTER, &[])).await?;
        assert_eq!(modest.next().await?.resources.len(), 0, "by default, none");
        Ok(())
    });
}

/// Service `web` with a thousand endpoints that are addresses and nothing else.
fn large(manifests: &Manifests) -> Result<()> {
    let ips: Vec<String> = (0..1000)
        .map(|n| format!("10.2.{}.{}", n / 250, n % 250))
        .collect();
    let backends: Vec<_> = ips.iter().map(|ip| Backend::ready("none", ip)).collect();
    let slice = slice("shop", "web", &backends);
    let addresses = slice.lines().filter(|line| !line.contains("targetRef"));
    let text = service("shop", "web") + &addresses.collect::<Vec<_>>().join("\n");
    manifests.write("home/web.yaml", &text)
}

#[test]
fn a_thousand_streams_share_what_they_are_sent() {
    run(async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        large(&manifests)?;
        let len = wait_for("all endpoints to be there", || async {
            let mut stream = Sotw::open(&channel, request(ENDPOINTS, &[WEB]))
                .await
                .ok()?;
            let response = stream.next().await.ok()?;
            let count = assignments(&response).ok()?[0].1;
            (count == 1000).then(|| response.resources[0].value.len())
        })
        .await?;
        let before = tributary.resident_kib()?;
        let mut streams = Vec::new();
        for _ in 0..1000 {
            let mut stream = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await?;
            stream.next().await?;
            streams.push(stream);
        }
        tributary
            .until_metric("tributary_xds_names_followed", 1.0)
            .await?;
        let grown = tributary.resident_kib()?.saturating_sub(before);
        let copies = 1000 * len as u64 / 1024;
        crate::support::note(&format!(
            "1000 streams of {len} bytes: {grown} KiB more, copies would be {copies} KiB"
        ));
        assert!(grown < copies / 2, "{grown} KiB");
        let seen = list(
            &tributary,
            ListXdsClientsRequest {
                page_size: 10_000,
                ..Default::default()
            },
        );
        assert_eq!(seen.await?.clients.len(), 1000);
        drop(streams);
        wait_for("all of them to be gone", || async {
            let all = list(&tributary, ListXdsClientsRequest::default())
                .await
                .ok()?;
            (all.streams_open == 0).then_some(())
        })
        .await
    });
}

fn question() -> Vec<u8> {
    let message = request(ENDPOINTS, &[WEB]).encode_to_vec();
    frame(
        0,
        u32::try_from(message.len()).expect("it is short"),
        &message,
    )
}

#[test]
fn a_client_that_reads_nothing_is_owed_one_response_and_no_one_else_notices() {
    run(async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        let mut other = Delta::open(&channel, delta(ENDPOINTS, &[WEB])).await?;
        other.next().await?;
        let mut settings = h2::client::Builder::new();
        settings.initial_window_size(16);
        let stuck = Raw::connect_with(xds_of(&tributary)?, &settings).await?;
        let _stream = stuck.begin(ADS, question()).await?;
        wait_for("it to be sent something", || async {
            let asked = ListXdsClientsRequest::default();
            let clients = list(&tributary, asked).await.ok()?.clients;
            let stuck = clients
                .iter()
                .find(|client| client.variant() == XdsVariant::Sotw)?;
            let subscription = stuck.subscriptions.first()?;
            (subscription.verdict() == XdsVerdict::Waiting).then_some(())
        })
        .await?;
        for round in 1..=20 {
            change(&manifests, round)?;
            other.next().await?;
        }
        let metrics = tributary.metrics().await?;
        let responses = "tributary_xds_responses_total{kind=\"endpoints\"} 22";
        assert!(
            metrics.contains(responses),
            "one, and the other's: {metrics}"
        );
        Ok(())
    });
}

#[test]
fn bytes_that_mean_nothing_end_their_own_stream_only() {
    let start = async {
        let (manifests, tributary, channel) = scene_with(&[]).await?;
        let good = Sotw::open(&channel, request(ENDPOINTS, &[WEB])).await?;
        let raw = Raw::connect(xds_of(&tributary)?).await?;
        Ok::<_, anyhow::Error>((manifests, tributary, good, raw))
    };
    let (manifests, tributary, mut good, raw) = runtime().block_on(start).unwrap();
    let config = Config {
        cases: 2000,
        failure_persistence: None,
        ..Config::default()
    };
    let bodies = (
        any::<bool>(),
        vec(any::<u8>(), 0..200),
        any::<bool>(),
        any::<bool>(),
    );
    let outcome = TestRunner::new(config).run(&bodies, |(framed, bytes, after, delta)| {
        let mut body = if after { question() } else { Vec::new() };
        if framed {
            body.extend(frame(0, u32::try_from(bytes.len()).unwrap_or(0), &bytes));
        } else {
            body.extend(bytes);
        }
        let path = if delta {
            ADS.replace("Stream", "Delta")
        } else {
            ADS.to_owned()
        };
        // Whether it is refused, or makes sense by chance, is all the same.
        let answer: Result<Answer> = runtime().block_on(raw.ask(&path, body));
        drop(answer);
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
    run(async {
        tributary.ensure_running()?;
        let first = good.next().await?;
        good.answer(&first, &[WEB], None).await?;
        change(&manifests, 5)?;
        assert!(has(&good.next().await?, 5), "{}", tributary.log_tail(20));
        wait_for("only the good stream to be left", || async {
            let all = list(&tributary, ListXdsClientsRequest::default())
                .await
                .ok()?;
            (all.streams_open == 1).then_some(())
        })
        .await
    });
}
