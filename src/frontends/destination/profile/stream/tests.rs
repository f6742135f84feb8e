use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use futures::{StreamExt, poll};
use prometheus_client::registry::Registry;
use prost::Message;

use super::*;
use crate::frontends::destination::client::Client;
use crate::frontends::destination::metrics::Metrics;
use crate::frontends::destination::token::ContextToken;
use crate::frontends::grpc::PREFIX_LEN;
use crate::index::{Change, MeshPolicy, SelectPolicy};
use crate::model::{ClusterRole, EndpointKind, Override, PortSet};
use crate::proto::destination::DestinationProfile;
use crate::publish::{IndexMetrics, Indexer, StatusBoard};
use crate::readiness::Readiness;
use crate::testing::{
    HOME, PodBuilder, ServiceBuilder, cluster, home, pod, service, service_profile, slice,
};

/// Longer than any test.
const LONG: Duration = Duration::from_hours(1);
const WEB: &str = "web.shop.svc.cluster.local";
const IP: &str = "10.0.0.1";

/// A server without a network.
struct Server {
    indexer: Indexer,
    catalog: Catalog,
    profiles: Profiles,
    metrics: Metrics,
}

type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl Server {
    fn new() -> Self {
        let (indexer, catalog) = Indexer::new(
            HOME.into(),
            SelectPolicy::default(),
            StatusBoard::default(),
            Readiness::default(),
            IndexMetrics::register(&mut Registry::default()),
        );
        let translation = Translation {
            mesh: MeshPolicy {
                controller_namespace: "linkerd".into(),
                default_opaque_ports: PortSet::parse("3306", |_| None).0,
                ..MeshPolicy::default()
            },
            zone_weights: false,
            http2: None,
        };
        Self {
            profiles: Profiles::new(catalog.clone(), Arc::new(translation), "cluster.local"),
            indexer,
            catalog,
            metrics: Metrics::default(),
        }
    }

    fn with_web() -> Self {
        let mut server = Self::new();
        server.say(home().begins_with([
            web().object(),
            slice("w").endpoint(IP).object(),
            web_pod().object(),
        ]));
        server
    }

    fn say(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.indexer.say(changes);
    }

    async fn open(&self, asked: Asked, port: u16, grace: Duration) -> Result<Opened, NoProfile> {
        self.open_from(None, asked, port, grace).await
    }

    async fn open_from(
        &self,
        namespace: Option<&str>,
        asked: Asked,
        port: u16,
        grace: Duration,
    ) -> Result<Opened, NoProfile> {
        let request = Request {
            asked,
            port,
            namespace: namespace.map(Namespace::from),
        };
        self.profiles
            .open(request, grace, &CancellationToken::new())
            .await
    }

    fn run(&self, opened: Result<Opened, NoProfile>) -> Frames {
        let ending = Ending::new(CancellationToken::new(), Duration::ZERO);
        let messages = opened.unwrap().run(
            ending,
            self.metrics
                .get_profile
                .open(Client::new(&ContextToken::default(), None, "")),
        );
        Box::pin(messages.map(|message| message.bytes))
    }

    /// A stream that is open.
    async fn stream(&self, asked: Asked, port: u16) -> Frames {
        let opened = self.open(asked, port, Duration::ZERO).await;
        self.run(opened)
    }
}

fn web() -> ServiceBuilder {
    service("shop/web").port(80, "http").port(3306, "db")
}

fn web_pod() -> PodBuilder {
    pod("shop/web-0").ip(IP).meshed()
}

fn by_name() -> Asked {
    Asked::Service(web().name(), WEB.into())
}

fn by_ip() -> Asked {
    Asked::Address(IP.parse().unwrap())
}

fn profile_of_web(namespace: &str, target: &str) -> crate::index::Object {
    let facts = ProfileFacts {
        overrides: [Override {
            authority: target.into(),
            weight: 1,
        }]
        .into(),
        ..ProfileFacts::default()
    };
    service_profile(&format!("{namespace}/{WEB}"), facts)
}

/// A profile in short.
fn describe(frame: &Bytes) -> String {
    let profile = DestinationProfile::decode(&frame[PREFIX_LEN..]).unwrap();
    if profile == DestinationProfile::default() {
        return "empty".to_owned();
    }
    let mut parts = Vec::new();
    if !profile.fully_qualified_name.is_empty() {
        parts.push("service".to_owned());
    }
    if let Some(endpoint) = profile.endpoint {
        let pod = endpoint.metric_labels.get("pod");
        parts.push(pod.map_or("address".to_owned(), |pod| format!("pod {pod}")));
    }
    if profile.opaque_protocol {
        parts.push("opaque".to_owned());
    }
    let targets = profile.dst_overrides.iter();
    parts.extend(targets.map(|target| format!("to {}", target.authority)));
    parts.join(" ")
}

/// The messages that are there now; `end` if the stream has ended.
async fn read(stream: &mut Frames) -> String {
    let mut texts = Vec::new();
    loop {
        match poll!(stream.next()) {
            Poll::Ready(Some(frame)) => texts.push(describe(&frame)),
            Poll::Ready(None) => {
                texts.push("end".to_owned());
                break;
            }
            Poll::Pending => break,
        }
    }
    texts.join(", ")
}

fn check(opened: &Result<Opened, NoProfile>, expected: &str) {
    let text = match opened {
        Ok(opened) => describe(&opened.first.frame),
        Err(error) => error.to_string(),
    };
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_service_is_answered_when_home_is_known() {
    let mut server = Server::new();
    let unknown = server.open(by_name(), 80, Duration::ZERO).await;
    check(&unknown, "the home cluster has not been read yet");
    server.say(home().begins_with([]));
    let missing = server.open(by_name(), 80, LONG).await;
    check(&missing, "service shop/web not found");
    server.say([home().apply(web())]);
    check(&server.open(by_name(), 80, LONG).await, "service");
    check(&server.open(by_name(), 3306, LONG).await, "service opaque");
    check(&server.open(by_name(), 81, LONG).await, "empty");
    server.say([home().apply(web().external_name())]);
    let external = server.open(by_name(), 80, LONG).await;
    check(
        &external,
        "shop/web is of type ExternalName, which has no endpoints",
    );
    check(&server.open(by_name(), 81, LONG).await, "empty");
}

#[tokio::test]
async fn a_stream_follows_its_service_and_nothing_else() {
    let mut server = Server::with_web();
    let mut stream = server.stream(by_name(), 80).await;
    let mut early = server.stream(by_name(), 8080).await;
    assert_eq!(read(&mut stream).await, "service");
    assert_eq!(read(&mut early).await, "empty");
    server.say([
        home().apply(slice("w").endpoint("10.0.0.2")),
        home().apply(web().opaque("443")),
    ]);
    assert_eq!(read(&mut stream).await, "");
    server.say([home().apply(web().opaque("80").port(8080, "alt"))]);
    assert_eq!(read(&mut stream).await, "service opaque");
    assert_eq!(read(&mut early).await, "service");
    server.say([home().apply(web())]);
    assert_eq!(read(&mut stream).await, "service");
    assert_eq!(read(&mut early).await, "empty");
}

#[tokio::test]
async fn a_stream_outlives_its_service() {
    let mut server = Server::with_web();
    server.say([
        home().apply(web().opaque("80")),
        home().apply(profile_of_web("shop", "a")),
    ]);
    let mut stream = server.stream(by_name(), 80).await;
    let mut undefined = server.stream(by_name(), 81).await;
    assert_eq!(read(&mut stream).await, "service opaque to a:80");
    assert_eq!(read(&mut undefined).await, "empty");
    server.say([home().delete(web())]);
    assert_eq!(read(&mut stream).await, "service to a:80");
    assert_eq!(read(&mut undefined).await, "");
    let late = server.open(by_name(), 80, LONG).await;
    check(&late, "service shop/web not found");
    server.say([home().apply(web().opaque("80"))]);
    assert_eq!(read(&mut stream).await, "service opaque to a:80");
    server.say([home().apply(web().external_name())]);
    assert_eq!(read(&mut stream).await, "end");
}

#[tokio::test]
async fn the_profile_of_the_clients_namespace_goes_first() {
    let mut server = Server::with_web();
    server.say([home().apply(profile_of_web("shop", "a"))]);
    let opened = server.open_from(Some("bank"), by_name(), 80, LONG).await;
    let mut client = server.run(opened);
    let mut own = server.stream(by_name(), 80).await;
    assert_eq!(read(&mut client).await, "service to a:80");
    assert_eq!(read(&mut own).await, "service to a:80");
    server.say([home().apply(profile_of_web("bank", "b"))]);
    server.say([home().apply(profile_of_web("shop", "c"))]);
    assert_eq!(read(&mut client).await, "service to b:80");
    assert_eq!(read(&mut own).await, "service to c:80");
    server.say([home().delete(profile_of_web("bank", "b"))]);
    assert_eq!(read(&mut client).await, "service to c:80");
    server.say([home().delete(profile_of_web("shop", "c"))]);
    assert_eq!(read(&mut client).await, "service");
    server.say([home().apply(service_profile(
        &format!("shop/{WEB}"),
        ProfileFacts::default(),
    ))]);
    let reference = {
        let frame = client.next().await.unwrap();
        DestinationProfile::decode(&frame[PREFIX_LEN..])
            .unwrap()
            .profile_ref
    };
    assert!(reference.is_some());
}

#[tokio::test]
async fn an_address_is_whoever_has_it_now() {
    let mut server = Server::with_web();
    let mut stream = server.stream(by_ip(), 8080).await;
    let mut opaque = server.stream(by_ip(), 3306).await;
    assert_eq!(read(&mut stream).await, "pod web-0");
    assert_eq!(read(&mut opaque).await, "pod web-0 opaque");
    // About to go is not gone, for those who use it.
    server.say([home().apply(web_pod().terminating())]);
    assert_eq!(read(&mut stream).await, "");
    check(&server.open(by_ip(), 8080, LONG).await, "address");
    server.say([home().delete(web_pod())]);
    assert_eq!(read(&mut stream).await, "address");
    assert_eq!(read(&mut opaque).await, "address opaque");
    server.say([home().apply(pod("shop/new").ip(IP).starting())]);
    assert_eq!(read(&mut stream).await, "");
    server.say([home().apply(pod("shop/new").ip(IP).opaque(""))]);
    assert_eq!(read(&mut stream).await, "pod new");
    assert_eq!(read(&mut opaque).await, "pod new");
    server.say([home().apply(pod("shop/other").ip("10.0.0.9"))]);
    assert_eq!(read(&mut stream).await, "");
    server.say([home().apply(service("shop/api").cluster_ip(IP).port(8080, "x"))]);
    assert_eq!(read(&mut stream).await, "service");
    assert_eq!(read(&mut opaque).await, "empty");
    server.say([home().delete(service("shop/api"))]);
    assert_eq!(read(&mut stream).await, "pod new");
}

#[tokio::test]
async fn a_host_port_goes_from_pod_to_pod() {
    let mut server = Server::with_web();
    let hosted = |name: &str| pod(name).ip("10.0.0.8").host_port("10.1.0.1", 9100);
    server.say([home().apply(hosted("shop/old"))]);
    let asked = Asked::Address("10.1.0.1".parse().unwrap());
    let mut stream = server.stream(asked, 9100).await;
    assert_eq!(read(&mut stream).await, "pod old");
    server.say([home().delete(hosted("shop/old"))]);
    assert_eq!(read(&mut stream).await, "address");
    server.say([home().apply(hosted("shop/new"))]);
    assert_eq!(read(&mut stream).await, "pod new");
}

#[tokio::test]
async fn a_cluster_ip_is_its_service() {
    let mut server = Server::with_web();
    server.say([
        home().apply(web().cluster_ip("10.9.0.1")),
        home().apply(profile_of_web("shop", "a")),
    ]);
    let asked = Asked::Address("10.9.0.1".parse().unwrap());
    check(
        &server.open(asked.clone(), 80, LONG).await,
        "service to a:80",
    );
    check(&server.open(asked.clone(), 81, LONG).await, "empty");
    server.say([home().apply(service("shop/api").cluster_ip("10.9.0.1"))]);
    let conflict = server.open(asked, 80, LONG).await;
    check(&conflict, "2 Services claim 10.9.0.1:80");
}

#[tokio::test]
async fn conflicts_refuse_new_streams_and_spare_open_ones() {
    let mut server = Server::with_web();
    let mut stream = server.stream(by_ip(), 8080).await;
    assert_eq!(read(&mut stream).await, "pod web-0");
    server.say([home().apply(pod("shop/twin").ip(IP))]);
    assert_eq!(read(&mut stream).await, "");
    let conflict = server.open(by_ip(), 8080, LONG).await;
    check(&conflict, "2 Pods claim 10.0.0.1:8080");
    server.say([home().delete(web_pod())]);
    assert_eq!(read(&mut stream).await, "pod twin");
}

#[tokio::test]
async fn an_instance_is_its_pod_and_stays_that() {
    let mut server = Server::with_web();
    let asked = || Asked::Instance(web().name(), "web-0".into());
    let missing = server.open(asked(), 80, LONG).await;
    check(&missing, "service shop/web has no instance web-0");
    let named = |pod: &str| {
        slice("w")
            .endpoint("10.0.0.7")
            .hostname("web-0")
            .pod(pod)
            .not_ready()
    };
    server.say([home().apply(named("shop/ghost"))]);
    let unknown = server.open(asked(), 80, LONG).await;
    check(
        &unknown,
        "the Pod behind instance web-0 of service shop/web is not known",
    );
    server.say([
        home().apply(named("shop/web-0")),
        home().apply(pod("shop/twin").ip(IP)),
    ]);
    let mut stream = server.stream(asked(), 80).await;
    assert_eq!(read(&mut stream).await, "pod web-0");
    server.say([home().delete(web()), home().apply(named("shop/twin"))]);
    assert_eq!(read(&mut stream).await, "");
    let opened = server.open(asked(), 80, LONG).await;
    check(&opened, "pod twin");
    server.say([home().apply(slice("w").endpoint("10.0.0.7").hostname("web-0"))]);
    check(&server.open(asked(), 80, LONG).await, "address");
    server.say([home().delete(slice("w"))]);
    let missing = server.open(asked(), 80, LONG).await;
    check(&missing, "service shop/web has no instance web-0");
}

#[tokio::test]
async fn an_address_that_may_be_a_linked_clusters_waits_for_it() {
    let mut server = Server::with_web();
    server.catalog.board().add(
        &"east".into(),
        ClusterRole::Linked,
        EndpointKind::EndpointSlice,
    );
    server.say([cluster("east").linked()]);
    let asked = || Asked::Address("10.9.0.1".parse().unwrap());
    // What is known at home waits for nobody.
    check(&server.open(by_ip(), 80, LONG).await, "pod web-0");
    check(&server.open(asked(), 80, Duration::ZERO).await, "address");
    let (catalog, profiles) = (server.catalog.clone(), server.profiles.clone());
    let mut early = server.stream(asked(), 80).await;
    assert_eq!(read(&mut early).await, "address");
    let request = Request {
        asked: asked(),
        port: 80,
        namespace: None,
    };
    let shutdown = CancellationToken::new();
    let mut waiting = pin!(profiles.open(request, LONG, &shutdown));
    assert!(poll!(&mut waiting).is_pending());
    let far = pod("shop/far").ip("10.9.0.1").meshed().object();
    server.say(cluster("east").begins_with([far]));
    check(&waiting.await, "pod far");
    assert_eq!(read(&mut early).await, "pod far");
    server.say([cluster("east").unlinked()]);
    assert_eq!(read(&mut early).await, "address");
    assert!(catalog.followed_count() > 0);
}

#[tokio::test]
async fn equal_profiles_are_encoded_once_and_nothing_outlives_its_readers() {
    let mut server = Server::with_web();
    let one = server.open(by_name(), 80, LONG).await.unwrap();
    let two = server
        .open_from(Some("bank"), by_name(), 80, LONG)
        .await
        .unwrap();
    assert!(Arc::ptr_eq(&one.first, &two.first));
    let unknown = Asked::Address("10.255.0.1".parse().unwrap());
    let three = server.open(unknown, 80, LONG).await.unwrap();
    // The Service, its two ServiceProfiles, and the address.
    assert_eq!(server.catalog.followed_count(), 4);
    drop((one, two, three));
    assert_eq!(server.catalog.followed_count(), 0);
    server.say([home().delete(web())]);
    assert_eq!(server.catalog.service_count(), 0);
}

#[tokio::test]
async fn a_resync_that_says_nothing_new_sends_nothing() {
    let mut server = Server::with_web();
    server.say([home().apply(profile_of_web("shop", "a"))]);
    let mut by_name = server.stream(by_name(), 80).await;
    let mut by_ip = server.stream(by_ip(), 80).await;
    assert_eq!(read(&mut by_name).await, "service to a:80");
    assert_eq!(read(&mut by_ip).await, "pod web-0");
    server.say(home().synced([
        web().object(),
        web_pod().object(),
        profile_of_web("shop", "a"),
    ]));
    server.say([home().apply(web_pod().on_node("n1"))]);
    assert_eq!(read(&mut by_name).await, "");
    assert_eq!(read(&mut by_ip).await, "");
}
