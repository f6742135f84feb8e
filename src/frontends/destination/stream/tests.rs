use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, poll};
use prometheus_client::registry::Registry;
use prost::Message;
use tokio_util::sync::CancellationToken;

use super::{NotOpened, Opened, Request};
use crate::frontends::destination::client::Client;
use crate::frontends::destination::metrics::Metrics;
use crate::frontends::destination::token::ContextToken;
use crate::frontends::destination::translate::Translation;
use crate::frontends::ending::Ending;
use crate::frontends::grpc::PREFIX_LEN;
use crate::index::{Change, MeshPolicy, SelectPolicy};
use crate::model::{ClusterRole, EndpointKind};
use crate::proto::destination::{Update, update};
use crate::publish::{Catalog, IndexMetrics, Indexer, StatusBoard};
use crate::readiness::Readiness;
use crate::testing::{HOME, ServiceBuilder, cluster, describe, home, service, slice};

/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);

fn bridge() -> (Indexer, Catalog) {
    Indexer::new(
        HOME.into(),
        SelectPolicy::default(),
        StatusBoard::default(),
        Readiness::default(),
        IndexMetrics::register(&mut Registry::default()),
    )
}

/// A home cluster with `shop/web` and an endpoint of `shop/local`.
fn with(web: ServiceBuilder) -> (Indexer, Catalog) {
    let (mut indexer, catalog) = bridge();
    indexer.say(home().begins_with([
        web.object(),
        service("shop/local").object(),
        slice("l").of("shop/local").endpoint("10.0.0.1").object(),
        slice("w").endpoint("10.0.0.2").object(),
    ]));
    (indexer, catalog)
}

fn web() -> ServiceBuilder {
    service("shop/web")
}

fn union() -> ServiceBuilder {
    web().federated("local", "web@east")
}

fn east_has(address: &str) -> Vec<Change> {
    let slice = slice("web").endpoint(address).object();
    cluster("east").begins_with([web().object(), slice])
}

async fn open(catalog: &Catalog, grace: Duration) -> Result<Opened, NotOpened> {
    let request = Request {
        service: web().name(),
        instance: None,
        port: 80,
        node: None,
    };
    super::open(request, catalog, grace, &CancellationToken::new()).await
}

/// What the first message says, or why there is none.
fn check(opened: &Result<Opened, NotOpened>, expected: &str) {
    let text = match opened {
        Ok(opened) => describe(opened.first.view()),
        Err(error) => error.to_string(),
    };
    assert_eq!(text, expected);
}

fn run(opened: Result<Opened, NotOpened>) -> Pin<Box<dyn Stream<Item = Bytes> + Send>> {
    let translation = Translation {
        mesh: MeshPolicy::default(),
        zone_weights: false,
        http2: None,
    };
    let metrics = Metrics::default();
    let frames = opened.unwrap().run(
        Arc::new(translation),
        Ending::new(CancellationToken::new(), Duration::ZERO),
        metrics
            .get
            .open(Client::new(&ContextToken::default(), None, "web.shop")),
    );
    Box::pin(frames.map(|message| message.bytes))
}

/// The messages that are there now, in short; `end` if the stream has ended.
async fn read(stream: &mut Pin<Box<dyn Stream<Item = Bytes> + Send>>) -> String {
    let mut texts = Vec::new();
    loop {
        match poll!(stream.next()) {
            Poll::Ready(Some(frame)) => {
                let update = Update::decode(&frame[PREFIX_LEN..])
                    .unwrap()
                    .update
                    .unwrap();
                texts.push(match update {
                    update::Update::Add(set) => format!("add {}", set.addrs.len()),
                    update::Update::Remove(set) => format!("remove {}", set.addrs.len()),
                    update::Update::NoEndpoints(none) => format!("no_endpoints {}", none.exists),
                });
            }
            Poll::Ready(None) => {
                texts.push("end".to_owned());
                break;
            }
            Poll::Pending => break,
        }
    }
    texts.join(", ")
}

#[tokio::test]
async fn a_complete_answer_is_given_at_once() {
    let (mut indexer, catalog) = bridge();
    check(
        &open(&catalog, Duration::ZERO).await,
        "the home cluster has not been read yet",
    );
    indexer.say(home().begins_with([]));
    check(&open(&catalog, LONG).await, "service shop/web not found");
    indexer.say([home().apply(web())]);
    check(&open(&catalog, LONG).await, "-");
    indexer.say([home().apply(union())]);
    indexer.say(east_has("10.1.0.1"));
    check(&open(&catalog, LONG).await, "10.1.0.1:80@east");
}

#[tokio::test]
async fn a_cluster_that_is_not_read_is_waited_for_no_longer_than_the_grace_time() {
    let (_indexer, catalog) = with(union());
    let mut waiting = pin!(open(&catalog, LONG));
    assert!(poll!(&mut waiting).is_pending());
    let partial = open(&catalog, Duration::from_millis(30));
    let mut partial = pin!(partial);
    assert!(poll!(&mut partial).is_pending());
    check(&partial.await, "10.0.0.1:80");
    check(&open(&catalog, Duration::ZERO).await, "10.0.0.1:80");
    assert!(poll!(&mut waiting).is_pending());
}

#[tokio::test]
async fn a_cluster_that_is_read_during_the_grace_time_is_included() {
    let (mut indexer, catalog) = with(union());
    let mut waiting = pin!(open(&catalog, LONG));
    assert!(poll!(&mut waiting).is_pending());
    indexer.say([cluster("east").linked()]);
    assert!(poll!(&mut waiting).is_pending());
    indexer.say(east_has("10.1.0.1"));
    check(&waiting.await, "10.0.0.1:80, 10.1.0.1:80@east");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_linked_late_does_not_make_a_request_wait_longer() {
    let (mut indexer, catalog) = with(union());
    let grace = Duration::from_millis(100);
    let started = tokio::time::Instant::now();
    let mut waiting = pin!(open(&catalog, grace));
    assert!(poll!(&mut waiting).is_pending());
    tokio::time::sleep_until(started + grace / 2).await;
    catalog.board().add(
        &"east".into(),
        ClusterRole::Linked,
        EndpointKind::EndpointSlice,
    );
    indexer.say([cluster("east").linked()]);
    assert!(poll!(&mut waiting).is_pending());
    tokio::time::sleep_until(started + grace + Duration::from_millis(10)).await;
    let Poll::Ready(opened) = poll!(&mut waiting) else {
        panic!("still waiting");
    };
    check(&opened, "10.0.0.1:80");
}

#[tokio::test]
async fn the_cluster_known_for_the_shortest_time_is_waited_for() {
    let (_indexer, catalog) = with(web().federated("local", "web@east,web@west"));
    for name in ["east", "west"] {
        catalog.board().add(
            &name.into(),
            ClusterRole::Linked,
            EndpointKind::EndpointSlice,
        );
    }
    let snapshot = catalog.subscribe(&web().name()).unwrap().snapshot();
    let (since, youngest) = super::youngest_unread(&snapshot, &catalog).unwrap();
    assert_eq!(
        (since, youngest.as_str()),
        (catalog.known_since(&"west".into()), "west")
    );
}

#[tokio::test]
async fn a_client_is_sent_away_while_nothing_is_known() {
    let (_indexer, catalog) = with(web().mirrors("web@east"));
    check(
        &open(&catalog, Duration::ZERO).await,
        "nothing is known yet of shop/web in cluster east, which has not been read",
    );
}

#[tokio::test]
async fn an_unlinked_cluster_is_no_reason_to_wait() {
    let (mut indexer, catalog) = with(web().federated("", "web@east"));
    let mut waiting = pin!(open(&catalog, LONG));
    assert!(poll!(&mut waiting).is_pending());
    indexer.say([Change::LinksKnown]);
    check(&waiting.await, "-");
}

#[tokio::test]
async fn a_service_that_is_deleted_during_the_grace_time_is_not_found() {
    let (mut indexer, catalog) = with(union());
    let mut waiting = pin!(open(&catalog, LONG));
    assert!(poll!(&mut waiting).is_pending());
    indexer.say([home().delete(union())]);
    check(&waiting.await, "service shop/web not found");
    assert_eq!(catalog.view_count(), 0);
}

#[tokio::test]
async fn what_joins_later_follows_on_the_same_stream() {
    let (mut indexer, catalog) = with(union());
    let mut stream = run(open(&catalog, Duration::ZERO).await);
    assert_eq!(read(&mut stream).await, "add 1");
    indexer.say(east_has("10.1.0.1"));
    assert_eq!(read(&mut stream).await, "add 1");
    indexer.say([
        cluster("east").unlinked(),
        home().delete(service("shop/local")),
    ]);
    assert_eq!(read(&mut stream).await, "no_endpoints true");
    assert_eq!(read(&mut stream).await, "");
}

#[tokio::test]
async fn a_federated_service_takes_its_streams_along() {
    let (mut indexer, catalog) = with(union());
    let mut stream = run(open(&catalog, Duration::ZERO).await);
    assert_eq!(read(&mut stream).await, "add 1");
    indexer.say([home().apply(web().federated("local", "web@west"))]);
    assert_eq!(read(&mut stream).await, "");
    indexer.say([home().delete(web())]);
    assert_eq!(read(&mut stream).await, "end");
    drop(stream);
    assert_eq!((catalog.service_count(), catalog.view_count()), (1, 0));
}

#[tokio::test]
async fn a_service_that_is_made_again_goes_on_on_the_same_stream() {
    let (mut indexer, catalog) = with(web());
    let mut stream = run(open(&catalog, LONG).await);
    assert_eq!(read(&mut stream).await, "add 1");
    indexer.say([home().delete(web())]);
    assert_eq!(read(&mut stream).await, "no_endpoints false");
    indexer.say([home().apply(web())]);
    assert_eq!(read(&mut stream).await, "add 1");
    indexer.say([home().delete(web()), home().apply(web())]);
    assert_eq!(read(&mut stream).await, "");
}
