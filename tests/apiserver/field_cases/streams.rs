//! Streams: slow readers, vanished clients, needless messages, and who is who in the log.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::{GetDestination, Update, update};
use serde_json::json;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::scene::{Entry, Scene, quiet_cluster};
use crate::support::fault_proxy::FaultProxy;
use crate::support::services::{Backend, authority, service, slice, workload};
use crate::support::subscription::{Message, Subscription};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// A client whose window is so small that the server can send next to nothing until the client reads.
async fn narrow_stream(tributary: &Tributary, authority: &str) -> Result<Streaming<Update>> {
    let connection = Endpoint::from_shared(format!("http://{}", tributary.address()))?
        .initial_stream_window_size(1024)
        .initial_connection_window_size(1024)
        .connect()
        .await?;
    let request = GetDestination {
        path: authority.to_owned(),
        ..GetDestination::default()
    };
    let answer = DestinationClient::new(connection).get(request).await?;
    Ok(answer.into_inner())
}

/// The IPs of a hundred endpoints, of which those below `replaced` are new ones.
fn hundred(subnet: u8, replaced: usize) -> Vec<String> {
    let ip = |index| {
        let generation = usize::from(index < replaced) * 100;
        format!("10.52.{subnet}.{}", generation + index)
    };
    (0..100).map(ip).collect()
}

fn entries(ips: &[String]) -> Vec<Entry> {
    ips.iter().map(|ip| Entry::at(ip)).collect()
}

async fn wait_for_all(stream: &Subscription, ips: &[String]) {
    let sockets: Vec<_> = ips.iter().map(|ip| format!("{ip}:8080")).collect();
    let sockets: Vec<_> = sockets.iter().map(String::as_str).collect();
    stream.wait_for_exactly(&sockets).await;
}

/// Reads until these are the endpoints, and returns how many messages that took.
async fn read_until(stream: &mut Streaming<Update>, ips: &[String]) -> Result<usize> {
    let bits = |ip: &String| Ok::<_, anyhow::Error>(u32::from(ip.parse::<std::net::Ipv4Addr>()?));
    let wanted: BTreeSet<u32> = ips.iter().map(bits).collect::<Result<_>>()?;
    let ipv4 = |address: &linkerd2_proxy_api::net::TcpAddress| {
        let ip = address
            .ip
            .and_then(|ip| std::net::IpAddr::try_from(ip).ok());
        match ip {
            Some(std::net::IpAddr::V4(ip)) => u32::from(ip),
            _ => 0,
        }
    };
    let mut state = BTreeSet::new();
    let mut messages = 0;
    while state != wanted {
        let update = stream.message().await?.context("the stream has ended")?;
        messages += 1;
        match update.update {
            Some(update::Update::Add(set)) => {
                state.extend(
                    set.addrs
                        .iter()
                        .filter_map(|addr| addr.addr.as_ref())
                        .map(ipv4),
                );
            }
            Some(update::Update::Remove(set)) => {
                for address in &set.addrs {
                    state.remove(&ipv4(address));
                }
            }
            _ => state.clear(),
        }
    }
    Ok(messages)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_03_a_slow_reader_gets_one_difference_to_the_newest_state() {
    run(async {
        let scene = Scene::open("fc-prf-03").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let first = hundred(33, 0);
        scene.slice("web", "s1", &entries(&first)).await?;
        let quick = scene.get("web").await?;
        wait_for_all(&quick, &first).await;
        let mut slow = narrow_stream(scene.tributary, &authority(scene.namespace, "web")).await?;

        let changes = 100;
        for replaced in 1..=changes {
            let ips = hundred(33, replaced);
            scene.slice("web", "s1", &entries(&ips)).await?;
        }
        let last = hundred(33, changes);
        wait_for_all(&quick, &last).await;
        let messages = read_until(&mut slow, &last).await?;
        // The first, what was on its way when the window closed, and an add and a remove to the newest state.
        assert!(messages <= 6, "{messages} messages for {changes} changes");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_11_a_reader_that_is_stuck_holds_up_nobody() {
    run(async {
        let scene = Scene::open("fc-rel-11").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let first = hundred(51, 0);
        scene.slice("web", "s1", &entries(&first)).await?;
        wait_for_all(&scene.get("web").await?, &first).await;
        let authority = authority(scene.namespace, "web");
        let mut stuck = narrow_stream(scene.tributary, &authority).await?;
        let connection = scene.tributary.connect_lazy();
        let healthy: Vec<_> = (0..100)
            .map(|_| scene.tributary.get_on(connection.clone(), &authority, ""))
            .collect();
        for stream in &healthy {
            wait_for_all(stream, &first).await;
        }

        let changes = 40;
        let mut in_turn = healthy.iter();
        for replaced in 1..=changes {
            let ips = hundred(51, replaced);
            scene.slice("web", "s1", &entries(&ips)).await?;
            // Nobody waits for the one that is stuck, at any time.
            if replaced % 10 == 0
                && let Some(stream) = in_turn.next()
            {
                wait_for_all(stream, &ips).await;
            }
        }
        let last = hundred(51, changes);
        for stream in &healthy {
            wait_for_all(stream, &last).await;
        }
        // What waited for it was bounded.
        let messages = read_until(&mut stuck, &last).await?;
        assert!(messages <= 6, "{messages} messages for {changes} changes");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_12_what_changes_nothing_for_a_client_sends_nothing() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-rel-12";
        let backends = [
            Backend::ready("web-0", "10.51.52.1"),
            Backend::ready("web-1", "10.51.52.2"),
            Backend::ready("web-2", "10.51.52.3"),
        ];
        home.apply(&workload(namespace, "web", &backends[..2]))
            .await?;
        let tributary = Tributary::start(&home, &[]).await?;
        let streams: Vec<_> = (0..50)
            .map(|_| tributary.get(&authority(namespace, "web")))
            .collect();
        for stream in &streams {
            stream
                .wait_for_exactly(&["10.51.52.1:8080", "10.51.52.2:8080"])
                .await;
        }

        for round in 0..20 {
            let touched = json!({"metadata": {"annotations": {"touched": round.to_string()}}});
            for (kind, name) in [
                ("Service", "web"),
                ("EndpointSlice", "web-s1"),
                ("Pod", "web-0"),
            ] {
                home.patch(kind, namespace, name, touched.clone()).await?;
            }
        }
        // Everything is listed again, unchanged.
        home.compact_etcd().await?;
        home.apply(&workload(namespace, "web", &backends)).await?;
        let added = Message::Add(vec!["10.51.52.3:8080".parse()?]);
        for stream in &streams {
            stream
                .wait_for_exactly(&["10.51.52.1:8080", "10.51.52.2:8080", "10.51.52.3:8080"])
                .await;
            let later = stream.messages().split_off(1);
            assert_eq!(later, std::slice::from_ref(&added), "{}", stream.report());
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_13_a_client_that_vanished_is_forgotten() {
    run(async {
        let scene = Scene::open("fc-rel-13").await?;
        let backends = [Backend::ready("web-0", "10.51.53.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        let tributary = Tributary::start(&scene.bed.home, &[]).await?;
        let network = FaultProxy::start(tributary.address()).await?;
        let authority = authority(scene.namespace, "web");
        let stream = Subscription::open(network.address(), &authority, "", None);
        stream.wait_for_exactly(&["10.51.53.1:8080"]).await;
        let open = "tributary_destination_get_streams_open";
        tributary.until_metric(open, 1.0).await?;
        tributary.until_metric("tributary_views", 1.0).await?;

        // Connections stay open, and nothing comes through any more: neither data nor the end of a connection.
        network.silence();
        tributary.until_metric(open, 0.0).await?;
        tributary.until_metric("tributary_views", 0.0).await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_ux_04_the_log_says_whose_a_stream_is() {
    run(async {
        let scene = Scene::open("fc-ux-04").await?;
        scene.apply(&slice(scene.namespace, "web", &[])).await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        drop(scene.get("web").await?);
        let authority = authority(scene.namespace, "web");
        let token = r#"{"ns":"fc-ux-04","nodeName":"n0","pod":"client-7"}"#;
        let stream = scene.tributary.get_with_token(&authority, token);
        stream.begun().await;
        drop(stream);
        let missing = authority.replace("web.", "missing.");
        let refused = scene.tributary.get_with_token(&missing, token);
        refused.wait_for_end().await;
        let half_read = r#"{"ns":"fc-ux-04","pod":"client-7","nodeName":0}"#;
        scene
            .tributary
            .get_with_token(&authority, half_read)
            .begun()
            .await;

        // What a client says of itself cannot look like a line of the log.
        let forged = r#"{"ns":"fc-ux-04","pod":"x\n2026-01-01T00:00:00Z ERROR forged\u001b[31m"}"#;
        let stream = scene.tributary.get_with_token(&authority, forged);
        stream.begun().await;
        let line = scene.tributary.log_line("ERROR forged").await?;
        assert!(!line.starts_with("2026-01-01T00:00:00Z"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");

        for (message, authority, aged) in [
            ("stream begins", &authority, true),
            ("stream is over", &authority, true),
            ("request refused", &missing, true),
            ("context token ignored", &authority, false),
        ] {
            let about =
                |line: &String| line.contains(message) && line.contains("fc-ux-04/client-7");
            let what = format!("{message:?} in the log");
            let line = wait_for(&what, || async {
                let lines = scene.tributary.logs_containing(authority);
                lines.into_iter().find(about)
            })
            .await?;
            assert!(line.contains("fc-ux-04/client-7 at 127.0.0.1:"), "{line}");
            assert_eq!(line.contains("age_seconds="), aged, "{line}");
        }
        Ok(())
    });
}
