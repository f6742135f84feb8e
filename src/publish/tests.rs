use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use prometheus_client::registry::Registry;

use super::indexer::IndexMetrics;
use super::{
    Catalog, ClusterCollector, Indexer, LinkerdCollector, StatusBoard, Subscription,
    ViewSubscription, ViewVersion, change_channel,
};
use crate::index::{Change, ClientLocality, Delta, SelectPolicy, View};
use crate::readiness::Readiness;
use crate::testing::{
    ServiceBuilder, cluster, describe, describe_endpoint, external_workload, home, node_in, pod,
    service, slice,
};

/// The writer and what it publishes to.
struct Bridge {
    indexer: Indexer,
    catalog: Catalog,
    readiness: Readiness,
    registry: Registry,
}

impl Bridge {
    fn new() -> Self {
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        let (indexer, catalog) = Indexer::new(
            crate::testing::HOME.into(),
            SelectPolicy::default(),
            StatusBoard::default(),
            readiness.clone(),
            IndexMetrics::register(&mut registry),
        );
        registry.register_collector(Box::new(ClusterCollector::new(catalog.clone())));
        registry.register_collector(Box::new(LinkerdCollector::new(catalog.clone())));
        Self {
            indexer,
            catalog,
            readiness,
            registry,
        }
    }

    /// A home cluster with one Service of one endpoint, and another Service.
    fn with_web() -> Self {
        let mut bridge = Self::new();
        bridge.say(home().begins_with([
            web().object(),
            service("shop/api").object(),
            slice("web").endpoint("10.0.0.1").zone("a").object(),
            node_in("a", "n0"),
        ]));
        bridge
    }

    /// One batch.
    fn say(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.indexer.say(changes);
    }

    /// The series of a metric that are not nought, without the name.
    fn metric(&self, name: &str) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines()
            .filter_map(|line| line.strip_prefix(name))
            .filter(|rest| rest.starts_with(['{', ' ']))
            .filter(|rest| !rest.ends_with(" 0") && !rest.ends_with(" 0.0"))
            .map(str::to_owned)
            .collect()
    }

    fn subscribe(&self, service: &ServiceBuilder) -> Option<Subscription> {
        self.catalog.subscribe(&service.name())
    }

    fn kept(&self) -> (usize, usize) {
        (self.catalog.service_count(), self.catalog.view_count())
    }
}

fn web() -> ServiceBuilder {
    service("shop/web").port(80, "http")
}

fn view(subscription: &Subscription, port: u16) -> Arc<ViewVersion> {
    subscription.view(port, None, &ClientLocality::default())
}

/// Messages as text, so that it shows which difference was made.
fn encode(delta: &Delta, _: &View, _: Option<&View>) -> Vec<Bytes> {
    let added = delta
        .add
        .iter()
        .map(|endpoint| format!("+{}", describe_endpoint(endpoint)));
    let removed = delta.remove.iter().map(|socket| format!("-{socket}"));
    added.chain(removed).map(Bytes::from).collect()
}

fn check(version: &ViewVersion, sent: Option<&ViewVersion>, expected: &[&str]) {
    assert_eq!(&*version.frames_since(sent, encode), expected);
}

#[test]
fn streams_that_are_told_the_same_share_views_and_bytes() {
    let mut bridge = Bridge::with_web();
    let one = bridge.subscribe(&web()).unwrap();
    let two = bridge.subscribe(&web()).unwrap();
    let (first, again) = (view(&one, 80), view(&two, 80));
    assert!(Arc::ptr_eq(&first, &again));
    let frames = first.frames_since(None, encode);
    assert!(Arc::ptr_eq(
        &frames,
        &again.frames_since(None, |_, _, _| panic!("encoded twice"))
    ));
    assert!(!Arc::ptr_eq(&first, &view(&one, 81)));

    bridge.say([home().apply(slice("web").endpoint("10.0.0.2"))]);
    let next = view(&one, 80);
    assert!(Arc::ptr_eq(&next, &view(&two, 80)));
    check(&next, Some(&first), &["+10.0.0.2:8080", "-10.0.0.1:8080"]);
    let shared = next.frames_since(Some(&again), |_, _, _| panic!("encoded twice"));
    assert_eq!(shared.len(), 2);
}

#[test]
fn what_a_client_does_not_see_makes_no_new_version() {
    let mut bridge = Bridge::with_web();
    let mut reader = bridge.subscribe(&web()).unwrap();
    let first = view(&reader, 80);
    for change in [
        home().apply(
            slice("web")
                .endpoint("10.0.0.1")
                .zone("a")
                .node("n7")
                .hostname("web-0"),
        ),
        home().apply(slice("web-b").port(9090, "admin").endpoint("10.0.0.9")),
        home().apply(web().port(90, "admin")),
        home().apply(slice("api").of("shop/api").endpoint("10.0.0.7")),
        home().apply(pod("shop/other")),
    ] {
        let text = format!("{change:?}");
        bridge.say([change]);
        assert!(Arc::ptr_eq(&first, &view(&reader, 80)), "{text}");
    }
    let woken = |reader: &mut Subscription| {
        let mut changed = std::pin::pin!(reader.changed());
        futures::FutureExt::now_or_never(&mut changed).is_some()
    };
    assert!(woken(&mut reader));
    assert!(!woken(&mut reader));
    bridge.say([home().apply(slice("api").of("shop/api").endpoint("10.0.0.8"))]);
    assert!(!woken(&mut reader));
}

#[test]
fn becoming_multicluster_is_news() {
    let mut bridge = Bridge::with_web();
    let reader = bridge.subscribe(&web()).unwrap();
    let before = view(&reader, 80);
    bridge.say([home().apply(web().federated("web", ""))]);
    check(&view(&reader, 80), Some(&before), &["+10.0.0.1:8080 in a"]);
}

#[test]
fn a_lagging_stream_gets_one_merged_difference() {
    let mut bridge = Bridge::with_web();
    let reader = bridge.subscribe(&web()).unwrap();
    let sent = view(&reader, 80);
    for last in 2..50 {
        bridge.say([home().apply(slice("web").endpoint(&format!("10.0.0.{last}")))]);
        if last % 3 == 0 {
            view(&reader, 80);
        }
    }
    check(
        &view(&reader, 80),
        Some(&sent),
        &["+10.0.0.49:8080", "-10.0.0.1:8080"],
    );
    bridge.say([home().apply(slice("web").endpoint("10.0.0.1").zone("a"))]);
    check(&view(&reader, 80), Some(&sent), &[]);
}

#[test]
fn a_service_that_is_gone_comes_back_to_its_readers() {
    let mut bridge = Bridge::with_web();
    let reader = bridge.subscribe(&web()).unwrap();
    let sent = view(&reader, 80);
    bridge.say([home().delete(web())]);
    let gone = view(&reader, 80);
    assert!(!gone.view().exists);
    check(&gone, Some(&sent), &["-10.0.0.1:8080"]);
    assert!(bridge.subscribe(&web()).is_none());
    bridge.say([home().apply(web())]);
    assert_eq!(describe(view(&reader, 80).view()), "10.0.0.1:8080 in a");
    let other = bridge.subscribe(&web()).unwrap();
    assert!(Arc::ptr_eq(&view(&reader, 80), &view(&other, 80)));
}

#[test]
fn nothing_remains_when_readers_have_left() {
    let mut bridge = Bridge::with_web();
    assert_eq!(bridge.kept(), (2, 0));
    let (one, two) = (
        bridge.subscribe(&web()).unwrap(),
        bridge.subscribe(&web()).unwrap(),
    );
    drop([view(&one, 80), view(&two, 81)]);
    drop(one);
    assert_eq!(bridge.kept(), (2, 2));
    drop(two);
    // Clients come back.
    bridge.catalog.let_go();
    assert_eq!(bridge.kept(), (2, 2));
    drop(view(&bridge.subscribe(&web()).unwrap(), 81));
    bridge.catalog.let_go();
    assert_eq!(bridge.kept(), (2, 1));
    bridge.catalog.let_go();
    assert_eq!(bridge.kept(), (2, 0));

    let reader = bridge.subscribe(&web()).unwrap();
    bridge.say([home().delete(web())]);
    view(&reader, 80);
    assert_eq!(bridge.kept(), (2, 1));
    bridge.say([home().delete(service("shop/api"))]);
    assert_eq!(bridge.kept(), (1, 1));
    drop(reader);
    assert_eq!(bridge.kept(), (0, 0));
}

#[test]
fn asking_for_many_ports_keeps_few_views() {
    let bridge = Bridge::with_web();
    let reader = bridge.subscribe(&web()).unwrap();
    let held = view(&reader, 80);
    for port in 1000..3000 {
        view(&reader, port);
    }
    assert!(
        bridge.catalog.view_count() <= 32,
        "{}",
        bridge.catalog.view_count()
    );
    assert!(Arc::ptr_eq(&held, &view(&reader, 80)));
}

#[test]
fn a_batch_publishes_a_service_once_and_others_not_at_all() {
    let mut bridge = Bridge::with_web();
    let revision = bridge.indexer.revision;
    bridge.say((2..100).map(|last| home().apply(slice("web").endpoint(&format!("10.0.0.{last}")))));
    assert_eq!(bridge.indexer.revision, revision + 1);
    bridge.say([home().apply(pod("shop/a")), home().apply(pod("shop/b"))]);
    bridge.say([home().apply(slice("web").endpoint("10.0.0.99"))]);
    assert_eq!(bridge.indexer.revision, revision + 1);
}

#[test]
fn readiness_waits_for_the_home_cluster_only() {
    let mut bridge = Bridge::new();
    assert_eq!(bridge.readiness.pending(), ["cluster home"]);
    bridge.say([cluster("east").linked(), home().opened()]);
    assert_eq!(bridge.readiness.pending(), ["cluster home"]);
    bridge.say(home().synced([]));
    assert!(bridge.readiness.is_ready());
    bridge.say([home().session(2).opened()]);
    assert!(bridge.readiness.is_ready());
}

#[test]
fn sizes_are_published_without_waking_anybody() {
    let mut bridge = Bridge::with_web();
    let mut clusters = bridge.catalog.watch_clusters();
    clusters.mark_unchanged();
    bridge.say([home().apply(slice("web").endpoint("10.0.0.1").endpoint("10.0.0.2"))]);
    assert_eq!(bridge.catalog.clusters()[0].endpoints, 2);
    assert!(!clusters.has_changed().unwrap());
    bridge.say([cluster("east").linked()]);
    assert!(clusters.has_changed().unwrap());
}

#[test]
fn clashes_are_counted_while_they_are_there() {
    let mut bridge = Bridge::with_web();
    let workload = || external_workload("shop/vm").ip("10.0.0.9").port(80, "http");
    assert!(bridge.metric("address_clashes").is_empty());
    bridge.say([
        home().apply(pod("shop/p").ip("10.0.0.9")),
        home().apply(workload()),
    ]);
    let one = "{between=\"pod_and_external_workload\"} 1";
    assert_eq!(bridge.metric("address_clashes"), [one]);
    // Other changes of the same address do not count it again.
    bridge.say([home().apply(workload().port(81, "https"))]);
    assert_eq!(bridge.metric("address_clashes"), [one]);
    bridge.say([home().delete(workload())]);
    assert!(bridge.metric("address_clashes").is_empty());
}

#[test]
fn caches_have_the_names_of_linkerds_and_go_with_their_cluster() {
    let mut bridge = Bridge::with_web();
    let east = cluster("east");
    assert!(bridge.metric("cluster_store_size").is_empty());
    bridge.say([east.linked()]);
    bridge.say(east.begins_with([pod("shop/p").object(), pod("shop/q").object()]));
    assert_eq!(bridge.metric("cluster_store_size"), [" 1"]);
    assert_eq!(
        bridge.metric("service_cache_size"),
        ["{cluster=\"local\"} 2"]
    );
    assert_eq!(bridge.metric("node_cache_size"), ["{cluster=\"local\"} 1"]);
    assert_eq!(bridge.metric("pod_cache_size"), ["{cluster=\"east\"} 2"]);
    bridge.say([east.unlinked()]);
    assert!(bridge.metric("pod_cache_size").is_empty());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bridge.registry).unwrap();
    assert!(!text.contains("east"), "{text}");
}

#[test]
fn readers_are_counted_for_as_long_as_they_follow() {
    let bridge = Bridge::with_web();
    let followers = || {
        let names = [
            "service_subscribers",
            "workload_subscribers",
            "profile_subscribers",
        ];
        names.map(|name| bridge.metric(name).concat())
    };
    let (mut one, mut two) = (bridge.catalog.reader(), bridge.catalog.reader());
    let (ip, name) = ("10.0.0.1".parse().unwrap(), web().name());
    for reader in [&mut one, &mut two] {
        reader.look(|look| {
            look.service(&name);
            look.address(ip);
        });
    }
    assert_eq!(followers(), [" 2", " 2", ""]);
    one.look(|look| look.address(ip));
    assert_eq!(followers(), [" 1", " 2", ""]);
    drop((one, two));
    assert_eq!(followers(), ["", "", ""]);
}

#[test]
fn instances_of_a_service_that_does_not_exist_are_those_of_the_session_that_counts() {
    let mut bridge = Bridge::new();
    let instance = slice("w").endpoint("10.0.0.1").hostname("web-0").object();
    bridge.say(home().begins_with([instance]));
    assert!(bridge.catalog.instances(&web().name()).is_some());
    bridge.say(home().session(2).begins_with([]));
    assert!(bridge.catalog.instances(&web().name()).is_none());
}

/// How often somebody was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_zone_of_a_node_is_news_to_its_clients_only() {
    let mut bridge = Bridge::with_web();
    let bells = [(); 3].map(|()| Arc::<Bell>::default());
    let nodes = [Some("n0"), Some("n1"), None];
    let mut places = nodes.map(|node| bridge.catalog.place(node.map(Into::into)));
    let mut moved = || {
        let polled = places.iter_mut().zip(&bells).map(|(place, bell)| {
            let waker = Waker::from(Arc::clone(bell));
            let moved = place.poll_moved(&mut Context::from_waker(&waker));
            let zone = place.locality().zone.as_ref();
            let zone = zone.map_or("-", |zone| zone.as_str());
            format!("{}{zone}", if moved.is_ready() { "!" } else { "" })
        });
        polled.collect::<Vec<_>>().join(" ")
    };
    let rings = || bells.each_ref().map(|bell| bell.0.load(Ordering::Relaxed));
    assert_eq!(moved(), "a - -");
    bridge.say([home().apply(node_in("b", "n2"))]);
    bridge.say([home().apply(node_in("a", "n0"))]);
    assert_eq!(rings(), [0, 0, 0]);
    bridge.say([home().apply(node_in("b", "n1"))]);
    assert_eq!(rings(), [0, 1, 0]);
    assert_eq!(moved(), "a !b -");
    assert_eq!(moved(), "a b -");
    bridge.say([home().apply(node_in("c", "n0"))]);
    bridge.say([home().apply(node_in("a", "n0"))]);
    assert_eq!(rings(), [1, 1, 0]);
    assert_eq!(moved(), "a b -");
    drop(places);
    assert_eq!(bridge.catalog.followed_count(), 0);
}

#[test]
fn a_client_that_moves_gets_the_view_of_its_new_zone() {
    let mut bridge = Bridge::with_web();
    let place = bridge.catalog.place(Some("n0".into()));
    let mut client = bridge
        .subscribe(&web())
        .unwrap()
        .for_client(80, None, place);
    let changed = |client: &mut ViewSubscription| client.changed().now_or_never().is_some();
    let before = client.view();
    assert!(!changed(&mut client));
    bridge.say([home().apply(node_in("b", "n0"))]);
    assert!(changed(&mut client));
    assert_eq!(client.view().view().zone, Some("b".into()));
    assert!(!Arc::ptr_eq(&client.view(), &before));
    bridge.say([home().apply(web().node_local())]);
    assert!(changed(&mut client));
    assert_eq!(describe(client.view().view()), "-");
}

#[test]
fn bytes_that_nobody_asks_for_are_let_go() {
    let bridge = Bridge::with_web();
    let reader = bridge.subscribe(&web()).unwrap();
    let held = view(&reader, 80);
    let encoded = std::cell::Cell::new(0);
    let ask = || {
        held.frames_since(None, |delta, after, before| {
            encoded.set(encoded.get() + 1);
            encode(delta, after, before)
        });
        encoded.get()
    };
    assert_eq!(ask(), 1);
    bridge.catalog.let_go();
    assert_eq!(ask(), 1);
    bridge.catalog.let_go();
    bridge.catalog.let_go();
    assert_eq!(ask(), 2);
    assert_eq!(bridge.catalog.view_count(), 1, "somebody holds it");
}

#[test]
fn laggards_are_seen_for_as_long_as_they_lag() {
    let mut bridge = Bridge::with_web();
    let subscribe = || {
        let place = bridge.catalog.place(None);
        bridge
            .subscribe(&web())
            .unwrap()
            .for_client(80, None, place)
    };
    let (mut prompt, mut slow) = (subscribe(), subscribe());
    let (_, sent) = (prompt.view(), slow.view());
    for last in 2..6 {
        bridge.say([home().apply(slice("web").endpoint(&format!("10.0.0.{last}")))]);
        prompt.view();
    }
    assert!(bridge.metric("coalesced_changes_total").is_empty());
    assert_eq!(bridge.metric("pinned_bytes").len(), 1);
    drop(sent);
    slow.view();
    assert_eq!(bridge.metric("coalesced_changes_total"), [" 3"]);
    assert!(bridge.metric("pinned_bytes").is_empty());
}

#[tokio::test]
async fn changes_within_the_interval_are_published_as_one() {
    let bridge = Bridge::new();
    let indexer = bridge.indexer.at_most_every(Duration::from_hours(1));
    let (sender, receiver) = change_channel();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_blocking(move || indexer.run(receiver));
    for change in home().begins_with([web().object(), slice("web").endpoint("10.0.0.1").object()]) {
        sender.send(change).await.unwrap();
    }
    for last in 2..50 {
        let change = home().apply(slice("web").endpoint(&format!("10.0.0.{last}")));
        sender.send(change).await.unwrap();
    }
    drop(sender);
    tasks.join_next().await.unwrap().unwrap();
    let reader = bridge.catalog.subscribe(&web().name()).unwrap();
    assert_eq!(describe(view(&reader, 80).view()), "10.0.0.49:8080");
    // What came first was published at once, and all the rest at the end.
    let published = published(&bridge.registry);
    assert!(published <= 2, "{published}");
}

fn published(registry: &Registry) -> u32 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let name = "published_snapshots_total ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}
