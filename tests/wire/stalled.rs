//! Clients that are there, answer pings, and read nothing.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use h2::RecvStream;
use http::Request;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::raw::{GET, question};
use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::services::{Backend, authority, workload};
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, run};

const OPEN: &str = "tributary_destination_get_streams_open";
const STALLED: &str = "tributary_grpc_stalled_total";

/// A stream whose client has room for a few bytes, and makes no more. The set keeps its connection alive.
async fn stuck(tributary: &Tributary) -> Result<(RecvStream, JoinSet<()>)> {
    let socket = TcpStream::connect(tributary.address()).await?;
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(16)
        .handshake::<_, Bytes>(socket)
        .await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // How it ends shows on the stream.
        connection.await.ok();
    });
    let request = Request::post(format!("http://tributary{GET}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut sending) = client.ready().await?.send_request(request, false)?;
    sending.send_data(question(&authority("shop", "web"), "").into(), true)?;
    Ok((response.await?.into_body(), driver))
}

/// Gives `web` other addresses; those of the last round stay.
fn change(manifests: &Manifests, round: u8) -> Result<()> {
    let ip = format!("10.1.9.{round}");
    let backends = [
        Backend::ready("web-0", "10.1.0.1"),
        Backend::ready("web-1", &ip),
    ];
    manifests.write("home/web.yaml", &workload("shop", "web", &backends))
}

#[test]
fn fc_rel_11_a_reader_that_stays_stuck_is_cut() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let arguments = ["--stream-stall-timeout", "200ms"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        let reads = tributary.get(&authority("shop", "web"));
        reads.wait_for_exactly(&WEB).await;
        let (mut stream, _driver) = stuck(&tributary).await?;
        tributary.until_metric(OPEN, 2.0).await?;
        // There is nothing new that it would have to make room for.
        assert!(tributary.metric(STALLED).await?.total_cmp(&0.0).is_eq());
        change(&manifests, 1)?;
        reads
            .wait_for_exactly(&["10.1.0.1:8080", "10.1.9.1:8080"])
            .await;
        tributary.until_metric(STALLED, 1.0).await?;
        tributary.until_metric(OPEN, 1.0).await?;
        let error = loop {
            if let Err(error) = stream.data().await.context("the stream ends well")? {
                break error;
            }
        };
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
        // Nobody else notices.
        change(&manifests, 2)?;
        reads
            .wait_for_exactly(&["10.1.0.1:8080", "10.1.9.2:8080"])
            .await;
        assert_eq!(reads.outcome(), None, "{}", reads.report());
        Ok(())
    });
}

#[test]
fn a_reader_that_is_stuck_for_less_long_gets_what_is_true_then() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let reads = tributary.get(&authority("shop", "web"));
        let (mut stream, _driver) = stuck(&tributary).await?;
        tributary.until_metric(OPEN, 2.0).await?;
        for round in 1..=20 {
            change(&manifests, round)?;
            let ip = format!("10.1.9.{round}:8080");
            reads.wait_for_exactly(&["10.1.0.1:8080", &ip]).await;
        }
        // The first message, one that was ready when the first did not fit, and the rest in one step.
        let mut bytes = Vec::new();
        while !contains(&bytes, [10, 1, 9, 20]) {
            let data = tokio::time::timeout(DEADLINE, stream.data()).await?;
            let data = data.context("the stream ends")??;
            stream.flow_control().release_capacity(data.len())?;
            bytes.extend_from_slice(&data);
        }
        assert!(messages(&bytes) <= 6, "{} messages", messages(&bytes));
        Ok(())
    });
}

/// Whether an IPv4 address is in it as protobuf has it: a number of fixed size, the lowest byte first.
fn contains(bytes: &[u8], ip: [u8; 4]) -> bool {
    let number = u32::from_be_bytes(ip).to_le_bytes();
    bytes.windows(number.len()).any(|window| window == number)
}

/// How many gRPC messages begin in it.
fn messages(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some(([_, len @ ..], rest)) = bytes.split_first_chunk::<5>() {
        count += 1;
        let len = u32::from_be_bytes(*len) as usize;
        bytes = rest.get(len..).unwrap_or_default();
    }
    count
}
