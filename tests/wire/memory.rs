//! What clients leave behind when they have gone: neither streams nor subscriptions, and no memory.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use h2::client::Builder;
use tonic::Code;

use super::raw::{Answer, GET, GET_PROFILE, Raw, question};
use crate::support::manifests::{Manifests, shop};
use crate::support::services::{authority, service};
use crate::support::tributary::Tributary;
use crate::support::{note, run, wait_for};

/// Rounds before memory is measured: what a process takes once and uses again is not left behind.
const ROUNDS_BEFORE: usize = 2;

/// Rounds like those before, after which memory is measured again.
const ROUNDS_AFTER: usize = 4;

/// All rounds of a test.
const ROUNDS: usize = ROUNDS_BEFORE + ROUNDS_AFTER;

/// Memory may grow by this part of itself and not more, in all rounds together.
const GROWTH_MAX: f64 = 0.05;

/// Questions that one client has under way at a time.
const AT_ONCE: usize = 50;

/// Connections of one client.
const CONNECTIONS: usize = 4;

/// What is there while somebody asks, and at no other time.
const COUNTS: [&str; 4] = [
    "tributary_destination_get_streams_open",
    "tributary_destination_get_profile_streams_open",
    "tributary_views",
    "tributary_followed",
];

/// Runs rounds that are all alike, and checks that they do not add up.
async fn memory_stays(
    what: &str,
    tributary: &Tributary,
    round: impl AsyncFn(usize) -> Result<()>,
) -> Result<()> {
    for number in 0..ROUNDS_BEFORE {
        round(number).await?;
    }
    let before = tributary.resident_kib()?;
    for number in ROUNDS_BEFORE..ROUNDS {
        round(number).await?;
    }
    let after = tributary.resident_kib()?;
    let figures = format!("{what}: {before} KiB, and {after} KiB later");
    note(&figures);
    // Allocators may take their time to give memory back.
    wait_for("memory to be what it was", || async {
        is_back(before, tributary.resident_kib().ok()?).then_some(())
    })
    .await
    .context(figures)
}

/// Waits until the server knows that all clients have gone.
async fn nobody_is_left(tributary: &Tributary) -> Result<()> {
    for count in COUNTS {
        tributary.until_metric(count, 0.0).await?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a part of some MiB")]
fn is_back(before: u64, after: u64) -> bool {
    after as f64 <= before as f64 * (1.0 + GROWTH_MAX)
}

/// A server of [`shop`] that logs no more than it does in earnest.
async fn serve() -> Result<(Manifests, Tributary)> {
    let (manifests, talkative) = shop().await?;
    drop(talkative);
    let tributary = Tributary::serve_manifests(manifests.path(), &[]).await?;
    Ok((manifests, tributary))
}

async fn connect(tributary: &Tributary) -> Result<Vec<Raw>> {
    let connecting = (0..CONNECTIONS).map(|_| Raw::connect(tributary.address()));
    futures::future::try_join_all(connecting).await
}

#[test]
fn streams_that_are_opened_and_cancelled_leave_nothing_behind() {
    const STREAMS: usize = 100_000;
    run(async {
        let (_manifests, tributary) = serve().await?;
        let web = &authority("shop", "web");
        let round = async |_| {
            let connections = &connect(&tributary).await?;
            stream::iter(0..STREAMS.div_ceil(ROUNDS))
                .map(|index| async move {
                    let raw = &connections[index % CONNECTIONS];
                    let method = [GET, GET_PROFILE][index / CONNECTIONS % 2];
                    if index % 3 == 0 {
                        return raw.ask_and_leave(method, question(web, "")).await;
                    }
                    match raw.ask(method, question(web, "")).await? {
                        Answer::Began(_) => Ok(()),
                        Answer::Refused(refusal) => bail!("{refusal:?}"),
                    }
                })
                .buffer_unordered(AT_ONCE)
                .try_collect::<()>()
                .await?;
            nobody_is_left(&tributary).await
        };
        memory_stays("streams opened and cancelled", &tributary, round).await
    });
}

/// Asks for something that does not exist, a different one for each number.
async fn ask_for_nothing(raw: &Raw, number: usize) -> Result<Option<h2::RecvStream>> {
    let nobody = authority("shop", &format!("nobody-{number}"));
    let [high, low] = [number / 250, number % 250];
    let (method, name, is_refused) = match number % 5 {
        0 => (GET, nobody, true),
        1 => (GET_PROFILE, nobody, true),
        2 => (
            GET,
            format!("web.shop.svc.cluster.local:{}", 1000 + number),
            false,
        ),
        3 => (
            GET_PROFILE,
            format!("web.shop.svc.cluster.local:{}", 1000 + number),
            false,
        ),
        _ => (GET_PROFILE, format!("10.77.{high}.{low}:80"), false),
    };
    let token = format!(r#"{{"ns":"ns-{number}","nodeName":"node-{number}"}}"#);
    let body = question(&name, &token);
    if !is_refused {
        return raw.subscribe(method, body).await.map(Some);
    }
    match raw.ask(method, body).await? {
        Answer::Refused(refusal) if refusal.code == Code::NotFound => Ok(None),
        other => bail!("{method} {name}: {other:?}"),
    }
}

#[test]
fn names_that_do_not_exist_leave_nothing_behind() {
    /// Those of one round, which are all held at the same time.
    const NAMES: usize = 10_000;
    run(async {
        let (_manifests, tributary) = serve().await?;
        let round = async |round: usize| {
            let connections = &connect(&tributary).await?;
            let held: Vec<_> = stream::iter(round * NAMES..(round + 1) * NAMES)
                .map(|number| ask_for_nothing(&connections[number % CONNECTIONS], number))
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            assert_eq!(held.iter().flatten().count(), NAMES / 5 * 3);
            drop(held);
            nobody_is_left(&tributary).await
        };
        memory_stays("names that do not exist", &tributary, round).await
    });
}

/// Endpoints of [`large_slice`].
const ENDPOINTS: usize = 500;

fn large_slice_ip(version: usize, index: usize) -> Ipv4Addr {
    let [third, fourth] =
        [index / 250, index % 250].map(|part| u8::try_from(part).expect("a byte"));
    Ipv4Addr::new(10, 2 + u8::from(version % 2 == 1), third, fourth)
}

/// A slice of `web` with as many endpoints as make a message of some size, others in each version.
fn large_slice(version: usize) -> String {
    let mut text = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{name: http, port: 8080}], \
         metadata: {name: web-large, namespace: shop, labels: {kubernetes.io/service-name: web}}, endpoints: ["
        .to_owned();
    for index in 0..ENDPOINTS {
        let ip = large_slice_ip(version, index);
        write!(text, "{{addresses: [{ip}]}},").expect("a String takes any text");
    }
    text + "]}"
}

#[test]
fn a_reader_that_is_stuck_costs_no_more_with_every_change() {
    const CHANGES_PER_ROUND: usize = 20;
    run(async {
        let manifests = Manifests::new()?;
        manifests.write("home/web.yaml", &service("shop", "web"))?;
        manifests.write("home/slice.yaml", &large_slice(0))?;
        let tributary = Tributary::serve_manifests(manifests.path(), &[]).await?;
        let web = &authority("shop", "web");
        // Takes a few bytes of the first message, and no more of any.
        let mut settings = Builder::new();
        settings.initial_window_size(16);
        let stuck = Raw::connect_with(tributary.address(), &settings).await?;
        let unread = [
            stuck.subscribe(GET, question(web, "")).await?,
            stuck.subscribe(GET_PROFILE, question(web, "")).await?,
        ];
        let reader = tributary.get(web);
        let round = async |_| {
            for change in 1..=CHANGES_PER_ROUND {
                manifests.write("home/slice.yaml", &large_slice(change))?;
                let first = SocketAddr::from((large_slice_ip(change, 0), 8080));
                reader
                    .wait_for("the changed endpoints", |state| {
                        state.endpoints.len() == ENDPOINTS && state.endpoints.contains_key(&first)
                    })
                    .await;
            }
            Ok(())
        };
        memory_stays("a stuck reader", &tributary, round).await?;
        tributary.until_metric(COUNTS[0], 2.0).await?;
        drop((unread, stuck, reader));
        nobody_is_left(&tributary).await
    });
}
