//! Random histories: what happens to some clusters, and who reads when.
//!
//! Names and addresses come from small pools, so that everything collides with everything; texts that people write are
//! often wrong.

use tributary::index::Kind;
use tributary::testing::{Dice, HOME};

use super::objects::{
    Budget, ContainerPort, Endpoint, External, Node, Object, Owned, OwnerReference, Pod, Profile,
    Proxy, Route, Selector, Server, ServerPort, Service, Slice, Target,
};
use super::rules::Said;

/// The last one is mentioned, but never linked.
const CLUSTERS: &[&str] = &[HOME, "east", "west", "nowhere"];
const LINKED: &[&str] = &["east", "west"];
const READ: &[&str] = &[HOME, HOME, HOME, "east", "west"];
pub(crate) const NAMESPACES: &[&str] = &["a", "a", "a", "a", "a", "a", "a", "a", "a", "b"];
const SERVICES: &[&str] = &["web", "web", "web", "api", "db"];
const SLICES: &[&str] = &["s0", "s1", "s2"];
const PODS: &[&str] = &["p0", "p1", "p2", "p3"];
const EXTERNALS: &[&str] = &["vm0", "vm1"];
const SERVERS: &[&str] = &["srv0", "srv1"];
const OWNERS: &[&str] = &["o0", "o1"];
const OWNER_KINDS: &[&str] = &[
    "ReplicaSet",
    "ReplicaSet",
    "Job",
    "Job",
    "StatefulSet",
    "Deployment",
    "Node",
    "Pod",
];
pub(crate) const NODES: &[&str] = &["n0", "n1"];
const ZONES: &[&str] = &["z0", "z1"];
const HOSTNAMES: &[&str] = &["h0", "h1"];
const TIERS: &[&str] = &["gold", "tin"];
const PORT_NAMES: &[&str] = &["http", "http", ""];
/// Some of them are Pods', Nodes', Services' and ExternalWorkloads' at once; the last is no address.
const ADDRESSES: &[&str] = &[
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.1",
    "10.0.0.2",
    "fd00::1",
    "fd00::2",
    "10.0.0.256",
];
const CLUSTER_IPS: &[&str] = &["10.1.0.1", "10.1.0.2", "10.0.0.4", "fd00::2", "None", ""];
const OPAQUE_PORTS: &[&str] = &[
    "8080",
    "8081,",
    "1-65535",
    "",
    "http",
    " http , bad,9-1,,8081",
    "80",
    "80-81",
];

/// What a history is played with.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, as it is of the product"
)]
pub(crate) struct Setting {
    pub(crate) ipv6: bool,
    pub(crate) h2_upgrade: bool,
    pub(crate) transport_header: bool,
    pub(crate) zone_weights: bool,
    /// Whether port 8081 is opaque unless somebody says otherwise.
    pub(crate) opaque_by_default: bool,
}

/// A history.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) setting: Setting,
    pub(crate) readers: Vec<Asked>,
    pub(crate) steps: Vec<Step>,
}

/// What one reader asks for, and from where.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) node: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    GetProfile,
}

#[derive(Clone, Debug)]
pub(crate) enum Host {
    Service(&'static str, &'static str),
    /// Instance, Service, namespace.
    Instance(&'static str, &'static str, &'static str),
    Address(&'static str),
}

/// Something happens, and then somebody reads.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) event: Event,
    /// Places of readers.
    pub(crate) reads: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Nothing,
    Link(&'static str),
    Unlink(&'static str),
    /// Every link that exists has been reported.
    LinksKnown,
    /// The next session with a cluster begins, with a trust domain.
    Open(&'static str, &'static str),
    Say(&'static str, Speaker, Box<Saying>),
}

/// Which session with a cluster speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Latest,
    Previous,
}

/// What a session says. What an event is about is found when it happens, so that it makes sense whatever came before.
#[derive(Clone, Debug)]
pub(crate) enum Saying {
    Apply(Box<Object>),
    /// One field of one of the objects that it has said is different; a seed says which, and how.
    Edit(u64),
    /// One of the objects that it has said is gone; a seed says which.
    Delete(u64),
    /// A list of a kind: of what it has said, every object whose bit is set, and these.
    List(Kind, u16, Vec<Object>),
    /// Every kind that it has not read yet is listed: what it has said, and besides what the session before it knew.
    ListRest,
    /// A kind may not be read.
    Deny(Kind),
    /// Just this, as it was found when it happened: for histories that are made shorter.
    Exactly(Vec<Said>),
}

// === impl History ===

impl History {
    /// The history of a seed. Everybody reads at its end.
    pub(crate) fn of(seed: u64, home_is_read: bool, steps: usize) -> Self {
        let mut dice = Dice::seeded(seed);
        let dice = &mut dice;
        let setting = Setting {
            ipv6: dice.percent(50),
            h2_upgrade: dice.percent(60),
            transport_header: dice.percent(25),
            zone_weights: dice.percent(25),
            opaque_by_default: dice.percent(40),
        };
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(asked(dice, Method::Get));
        }
        for _ in 0..3 {
            readers.push(asked(dice, Method::GetProfile));
        }
        readers.push(asked_address(dice));
        let mut all = beginning(dice, home_is_read);
        while all.len() + 1 < steps {
            let event = event(dice);
            let reads = dice.list(1..3, |dice| dice.below(readers.len()));
            all.push(Step { event, reads });
        }
        all.push(Step {
            event: Event::Nothing,
            reads: (0..readers.len()).collect(),
        });
        Self {
            setting,
            readers,
            steps: all,
        }
    }
}

/// The home cluster begins, with some objects; often there is a linked one, and often all of it is read.
fn beginning(dice: &mut Dice<'_>, home_is_read: bool) -> Vec<Step> {
    let mut events = vec![Event::Open(
        HOME,
        dice.pick(&["home.example", "home.example", ""]),
    )];
    if dice.percent(70) {
        let link = dice.pick(LINKED);
        events.extend([Event::Link(link), Event::Open(link, "east.example")]);
        events.extend(populated(dice, link));
        if dice.percent(80) {
            events.push(Event::Say(
                link,
                Speaker::Latest,
                Box::new(Saying::ListRest),
            ));
        }
    }
    events.extend(populated(dice, HOME));
    if home_is_read || dice.percent(75) {
        events.push(Event::Say(
            HOME,
            Speaker::Latest,
            Box::new(Saying::ListRest),
        ));
    }
    let unread = |event| Step {
        event,
        reads: Vec::new(),
    };
    events.into_iter().map(unread).collect()
}

/// Most of the objects that there are names for.
fn populated(dice: &mut Dice<'_>, cluster: &'static str) -> Vec<Event> {
    let mut objects = Vec::new();
    for name in ["web", "api", "db"] {
        let namespace = "a";
        objects.push(Object::Service(Service {
            namespace,
            name,
            ..service(dice)
        }));
    }
    for name in PODS {
        let namespace = "a";
        objects.push(Object::Pod(Pod {
            namespace,
            name,
            ..pod(dice)
        }));
    }
    for name in SLICES {
        let namespace = "a";
        objects.push(Object::Slice(Slice {
            namespace,
            name,
            ..slice(dice)
        }));
    }
    if cluster == HOME {
        for name in NODES {
            let zone = dice.maybe(90, |dice| dice.pick(ZONES));
            objects.push(Object::Node(Node { name, zone }));
        }
        for name in EXTERNALS {
            let namespace = "a";
            objects.push(Object::External(External {
                namespace,
                name,
                ..external(dice)
            }));
        }
    }
    objects.retain(|_| dice.percent(85));
    objects.extend(dice.list(0..4, object));
    if cluster != HOME {
        let is_watched = |object: &Object| {
            !matches!(
                object,
                Object::Node(_) | Object::External(_) | Object::Profile(_)
            )
        };
        objects.retain(is_watched);
    }
    let say = |object| {
        Event::Say(
            cluster,
            Speaker::Latest,
            Box::new(Saying::Apply(Box::new(object))),
        )
    };
    objects.into_iter().map(say).collect()
}

fn asked(dice: &mut Dice<'_>, method: Method) -> Asked {
    let (service, namespace) = (dice.pick(SERVICES), dice.pick(NAMESPACES));
    let host = match dice.below(10) {
        0 => Host::Instance(dice.pick(HOSTNAMES), service, namespace),
        1..4 if method == Method::GetProfile => {
            Host::Address(dice.pick(&[ADDRESSES, ADDRESSES, CLUSTER_IPS].concat()))
        }
        _ => Host::Service(service, namespace),
    };
    Asked {
        method,
        host,
        port: dice.one(&[80, 80, 80, 81, 8080, 8081]),
        namespace: dice.maybe(60, |dice| dice.pick(NAMESPACES)),
        node: dice.maybe(75, |dice| dice.pick(&["n0", "n1", ""])),
    }
}

fn asked_address(dice: &mut Dice<'_>) -> Asked {
    Asked {
        host: Host::Address(dice.pick(&ADDRESSES[..6])),
        port: dice.one(&[8080, 8081, 80]),
        ..asked(dice, Method::GetProfile)
    }
}

fn event(dice: &mut Dice<'_>) -> Event {
    match dice.below(100) {
        0..2 => Event::Nothing,
        2..5 => Event::Link(dice.pick(LINKED)),
        5..7 => Event::Unlink(dice.pick(LINKED)),
        7 => Event::LinksKnown,
        8..12 => Event::Open(
            dice.pick(READ),
            dice.pick(&["one.example", "two.example", ""]),
        ),
        12..17 => Event::Say(dice.pick(READ), Speaker::Latest, Box::new(Saying::ListRest)),
        _ => {
            let speaker = if dice.percent(90) {
                Speaker::Latest
            } else {
                Speaker::Previous
            };
            Event::Say(dice.pick(READ), speaker, Box::new(saying(dice)))
        }
    }
}

fn saying(dice: &mut Dice<'_>) -> Saying {
    match dice.below(100) {
        0..42 => Saying::Apply(Box::new(object(dice))),
        42..84 => Saying::Edit(dice.number()),
        84..92 => Saying::Delete(dice.number()),
        92..99 => {
            let kind = kind(dice);
            // Mostly all but one object, or all of them.
            let kept = if dice.percent(70) {
                !(1 << dice.below(16))
            } else {
                u16::MAX
            };
            let mut more = dice.list(0..3, object);
            more.retain(|object| object.kind() == kind);
            Saying::List(kind, kept, more)
        }
        _ => Saying::Deny(kind(dice)),
    }
}

fn kind(dice: &mut Dice<'_>) -> Kind {
    dice.one(&[
        Kind::Service,
        Kind::EndpointSlice,
        Kind::EndpointSlice,
        Kind::Pod,
        Kind::Pod,
        Kind::Node,
        Kind::ReplicaSet,
        Kind::Job,
        Kind::ExternalWorkload,
        Kind::Server,
        Kind::ServiceProfile,
    ])
}

fn object(dice: &mut Dice<'_>) -> Object {
    match dice.below(29) {
        0..5 => Object::Service(service(dice)),
        5..11 => Object::Slice(slice(dice)),
        11..17 => Object::Pod(pod(dice)),
        17..19 => Object::Node(Node {
            name: dice.pick(NODES),
            zone: dice.maybe(85, |dice| dice.pick(ZONES)),
        }),
        19..21 => Object::Owner(Owned {
            kind: dice.pick(&["ReplicaSet", "Job"]),
            namespace: dice.pick(NAMESPACES),
            name: dice.pick(OWNERS),
            owners: owners(dice),
        }),
        21..23 => Object::External(external(dice)),
        23..26 => Object::Server(server(dice)),
        _ => Object::Profile(profile(dice)),
    }
}

/// The object with something else in one place, as a seed says.
pub(crate) fn edited(object: &Object, seed: u64) -> Object {
    let mut dice = Dice::seeded(seed);
    let dice = &mut dice;
    let mut object = object.clone();
    match &mut object {
        Object::Service(it) => {
            let new = service(dice);
            match dice.below(7) {
                0 => it.external_name = !it.external_name,
                1 => it.node_local = new.node_local,
                2 => it.ports = new.ports,
                3 => it.cluster_ips = new.cluster_ips,
                4 => it.opaque_ports = new.opaque_ports,
                _ => {
                    it.mirror_of_cluster = new.mirror_of_cluster;
                    it.mirror_of = new.mirror_of;
                    it.local_member = new.local_member;
                    it.remote_members = new.remote_members;
                }
            }
        }
        Object::Slice(it) => {
            let new = slice(dice);
            match dice.below(10) {
                0 => (it.service, it.owner) = (new.service, new.owner),
                1 => it.ports = new.ports,
                2 => it.gateway_identity = new.gateway_identity,
                3 => {
                    it.mirrored_cluster = new.mirrored_cluster;
                    it.mirrored_service = new.mirrored_service;
                }
                4 => it.endpoints.extend(new.endpoints),
                5 => drop(it.endpoints.pop()),
                _ => edit_endpoint(&mut it.endpoints, dice),
            }
        }
        Object::Pod(it) => {
            let new = pod(dice);
            match dice.below(13) {
                0 | 1 => it.phase = new.phase,
                2 => it.deleting = new.deleting,
                3 => it.ips = new.ips,
                4 => it.ports = new.ports,
                5 => it.host_network = new.host_network,
                6 => it.owners = new.owners,
                7 => it.control_plane = new.control_plane,
                8 => it.opaque_ports = new.opaque_ports,
                9 => it.skip_inbound_ports = new.skip_inbound_ports,
                10 => it.proxy = new.proxy,
                11 => (it.tier, it.template_hash) = (new.tier, new.template_hash),
                _ => (it.node, it.account) = (new.node, new.account),
            }
        }
        Object::Node(it) => it.zone = dice.maybe(80, |dice| dice.pick(ZONES)),
        Object::Owner(it) => it.owners = owners(dice),
        Object::External(it) => {
            let new = external(dice);
            match dice.below(5) {
                0 => it.ips = new.ips,
                1 => it.identity = new.identity,
                2 => it.ports = new.ports,
                3 => it.opaque_ports = new.opaque_ports,
                _ => (it.owners, it.tier) = (new.owners, new.tier),
            }
        }
        Object::Server(it) => {
            let new = server(dice);
            match dice.below(3) {
                0 => it.protocol = new.protocol,
                1 => it.port = new.port,
                _ => (it.pods, it.externals) = (new.pods, new.externals),
            }
        }
        Object::Profile(it) => {
            let new = profile(dice);
            match dice.below(3) {
                0 => it.routes = new.routes,
                1 => it.budget = new.budget,
                _ => it.overrides = new.overrides,
            }
        }
    }
    object
}

fn edit_endpoint(endpoints: &mut [Endpoint], dice: &mut Dice<'_>) {
    if endpoints.is_empty() {
        return;
    }
    let place = dice.below(endpoints.len());
    let (it, new) = (&mut endpoints[place], endpoint(dice));
    match dice.below(6) {
        0 => it.addresses = new.addresses,
        1 => it.ready = new.ready,
        2 => it.target = new.target,
        3 => it.hostname = new.hostname,
        4 => (it.zone, it.node) = (new.zone, new.node),
        _ => it.for_zones = new.for_zones,
    }
}

fn service(dice: &mut Dice<'_>) -> Service {
    let mut mirrored = (None, None);
    let mut members = (None, None);
    match dice.below(12) {
        0..7 => {}
        7 | 8 => {
            mirrored = (
                Some(dice.pick(&[LINKED, LINKED, CLUSTERS].concat())),
                dice.maybe(90, |dice| dice.pick(SERVICES)),
            );
        }
        _ => {
            members = (
                dice.maybe(60, |dice| dice.pick(&["web", "api", " db ", "", "web"])),
                dice.maybe(80, remote_members),
            );
        }
    }
    Service {
        namespace: dice.pick(NAMESPACES),
        name: dice.pick(SERVICES),
        external_name: dice.percent(10),
        node_local: dice.percent(15),
        ports: if dice.percent(60) {
            vec![("http", 80)]
        } else {
            dice.list(0..4, |dice| {
                (
                    dice.pick(PORT_NAMES),
                    dice.one(&[80, 80, 81, 8080, 0, 65536]),
                )
            })
        },
        cluster_ips: dice.list(0..3, |dice| dice.pick(CLUSTER_IPS)),
        opaque_ports: dice.maybe(30, |dice| dice.pick(OPAQUE_PORTS)),
        mirror_of_cluster: mirrored.0,
        mirror_of: mirrored.1,
        local_member: members.0,
        remote_members: members.1,
    }
}

/// Names members well, twice, or in ways that make no sense.
fn remote_members(dice: &mut Dice<'_>) -> String {
    let items = dice.list(0..5, |dice| {
        let (service, cluster) = (
            dice.pick(SERVICES),
            dice.pick(&[LINKED, LINKED, CLUSTERS].concat()),
        );
        match dice.below(12) {
            0 => format!(" {service} @ {cluster} "),
            1 => service.to_owned(),
            2 => format!("{service}@{cluster}@x"),
            3 => String::new(),
            _ => format!("{service}@{cluster}"),
        }
    });
    items.join(",")
}

fn slice(dice: &mut Dice<'_>) -> Slice {
    let is_mirror = dice.percent(15);
    let by_owner = dice.percent(10);
    Slice {
        namespace: dice.pick(NAMESPACES),
        name: dice.pick(SLICES),
        address_type: dice.pick(&[
            "IPv4", "IPv4", "IPv4", "IPv6", "IPv4", "IPv6", "IPv4", "FQDN",
        ]),
        service: if by_owner {
            dice.maybe(30, |_| "")
        } else {
            dice.maybe(97, |dice| dice.pick(SERVICES))
        },
        owner: dice.maybe(if by_owner { 95 } else { 5 }, |dice| dice.pick(SERVICES)),
        ports: dice.maybe(96, |dice| {
            if dice.percent(60) {
                return vec![("http", Some(8080))];
            }
            dice.list(0..4, |dice| {
                (
                    dice.pick(PORT_NAMES),
                    dice.one(&[Some(8080), Some(8080), Some(8081), Some(80), None, Some(0)]),
                )
            })
        }),
        endpoints: dice.list(0..6, endpoint),
        mirrored_cluster: dice.maybe(if is_mirror { 90 } else { 0 }, |dice| {
            dice.pick(&["east", "far", ""])
        }),
        mirrored_service: dice.maybe(if is_mirror { 90 } else { 0 }, |dice| {
            dice.pick(&["web.a.svc.cluster.local", "web", "", "a:b.c"])
        }),
        gateway_identity: dice.maybe(if is_mirror { 70 } else { 0 }, |dice| {
            dice.pick(&["gateway.east", "gateway.west", ""])
        }),
    }
}

fn endpoint(dice: &mut Dice<'_>) -> Endpoint {
    let target = match dice.below(12) {
        0..7 => Some(Target {
            kind: "Pod",
            namespace: dice.maybe(97, |dice| dice.pick(NAMESPACES)),
            name: dice.pick(PODS),
        }),
        7..9 => Some(Target {
            kind: "ExternalWorkload",
            namespace: dice.maybe(50, |dice| dice.pick(NAMESPACES)),
            name: dice.pick(EXTERNALS),
        }),
        9 => dice.maybe(30, |dice| Target {
            kind: dice.pick(&["Node", "", "Pod", "ExternalWorkload"]),
            namespace: Some("a"),
            name: dice.pick(&["", "p0"]),
        }),
        _ => None,
    };
    Endpoint {
        addresses: dice.list(1..3, |dice| dice.pick(ADDRESSES)),
        ready: dice.one(&[Some(true), Some(true), Some(true), None, None, Some(false)]),
        target,
        hostname: dice.maybe(35, |dice| dice.pick(&["h0", "h1", ""])),
        zone: dice.maybe(80, |dice| dice.pick(&["z0", "z1", "z0", "z1", ""])),
        node: dice.maybe(50, |dice| dice.pick(NODES)),
        for_zones: dice.list(0..3, |dice| dice.pick(&["z0", "z1", "z0", "z1", ""])),
    }
}

fn pod(dice: &mut Dice<'_>) -> Pod {
    let host_network = dice.percent(12);
    let proxy = |dice: &mut Dice<'_>| Proxy {
        native_sidecar: dice.percent(30),
        inbound: dice.maybe(95, |dice| {
            dice.pick(&[
                "0.0.0.0:4143",
                "[::]:4143",
                "0.0.0.0:4143",
                "0.0.0.0:0",
                ":4143",
            ])
        }),
        admin: dice.maybe(95, |dice| {
            dice.pick(&["0.0.0.0:4191", "127.0.0.1:8081", "[::]:4191"])
        }),
        control: dice.maybe(97, |dice| {
            dice.pick(&["0.0.0.0:4190", "[fe80::1%eth0]:4190"])
        }),
    };
    Pod {
        namespace: dice.pick(NAMESPACES),
        name: dice.pick(PODS),
        phase: dice.pick(&[
            "Running",
            "Running",
            "Running",
            "Running",
            "Running",
            "Running",
            "Running",
            "Running",
            "Pending",
            "Succeeded",
            "Failed",
            "Unknown",
        ]),
        deleting: dice.percent(12),
        ips: match dice.below(8) {
            0 => Vec::new(),
            _ => dice.list(1..3, |dice| dice.pick(ADDRESSES)),
        },
        host_network,
        host_ips: dice.list(0..2, |dice| dice.pick(ADDRESSES)),
        ports: dice.list(0..3, |dice| ContainerPort {
            name: dice.pick(&["http", "db", ""]),
            number: dice.one(&[8080, 8081, 80]),
            host: dice.maybe(20, |dice| dice.one(&[80, 8080, 0, 70000])),
        }),
        node: dice.maybe(80, |dice| dice.pick(NODES)),
        account: dice.maybe(50, |dice| dice.pick(&["app", "other", ""])),
        control_plane: dice.maybe(75, |dice| {
            dice.pick(&["linkerd", "linkerd", "linkerd", "elsewhere", ""])
        }),
        template_hash: dice.maybe(30, |dice| dice.pick(&["5d", "6e", ""])),
        tier: dice.maybe(60, |dice| dice.pick(TIERS)),
        owners: owners(dice),
        opaque_ports: dice.maybe(30, |dice| dice.pick(OPAQUE_PORTS)),
        skip_inbound_ports: dice.maybe(20, |dice| dice.pick(&["8080", "8081-8082,x", "http", ""])),
        proxy: dice.maybe(92, proxy),
    }
}

fn owners(dice: &mut Dice<'_>) -> Vec<OwnerReference> {
    let count = dice.one(&[0, 1, 1, 1, 1, 2]);
    dice.list(count..count + 1, |dice| OwnerReference {
        kind: dice.pick(OWNER_KINDS),
        name: dice.pick(OWNERS),
    })
}

fn external(dice: &mut Dice<'_>) -> External {
    External {
        namespace: dice.pick(NAMESPACES),
        name: dice.pick(EXTERNALS),
        ips: dice.list(0..3, |dice| dice.pick(ADDRESSES)),
        identity: dice.maybe(85, |dice| {
            dice.pick(&["spiffe://one/vm", "spiffe://two/vm", ""])
        }),
        server_name: dice.maybe(80, |dice| dice.pick(&["vm.one", ""])),
        ports: dice.list(0..4, |dice| {
            (
                dice.pick(&["http", "linkerd-proxy", "db", ""]),
                dice.one(&[8080, 8080, 8081, 5143, 0]),
            )
        }),
        tier: dice.maybe(60, |dice| dice.pick(TIERS)),
        owners: owners(dice),
        opaque_ports: dice.maybe(30, |dice| dice.pick(OPAQUE_PORTS)),
    }
}

fn server(dice: &mut Dice<'_>) -> Server {
    Server {
        namespace: dice.pick(NAMESPACES),
        name: dice.pick(SERVERS),
        protocol: dice.pick(&["opaque", "opaque", "opaque", "HTTP/2", "unknown"]),
        port: dice.one(&[
            ServerPort::Number(8080),
            ServerPort::Number(8081),
            ServerPort::Name("http"),
            ServerPort::Name("db"),
            ServerPort::Name(""),
            ServerPort::Number(0),
        ]),
        pods: dice.maybe(65, selector),
        externals: dice.maybe(35, selector),
    }
}

fn selector(dice: &mut Dice<'_>) -> Selector {
    dice.one(&[
        Selector::Empty,
        Selector::Label("gold"),
        Selector::Label("tin"),
        Selector::Label("gold"),
        Selector::Expression("In", &["gold", "tin"]),
        Selector::Expression("NotIn", &["gold"]),
        Selector::Expression("Exists", &[]),
        Selector::Expression("DoesNotExist", &[]),
        Selector::Expression("In", &[]),
        Selector::Expression("Near", &["gold"]),
    ])
}

fn profile(dice: &mut Dice<'_>) -> Profile {
    Profile {
        namespace: dice.pick(NAMESPACES),
        of: (dice.pick(SERVICES), dice.pick(NAMESPACES)),
        routes: dice.list(0..3, |dice| Route {
            name: dice.pick(&["r0", "r1"]),
            method: dice.maybe(60, |dice| dice.pick(&["get", "POST", "purge", ""])),
            path: dice.maybe(60, |dice| dice.pick(&["/a", "/b.*"])),
            negated: dice.percent(20),
            retryable: dice.percent(50),
            timeout: dice.maybe(60, |dice| {
                dice.pick(&["1s", "250ms", "0", "soon", "-1s", ""])
            }),
            classes: dice.list(0..3, |dice| {
                let (min, max) = dice.one(&[(500, 599), (0, 0), (404, 0), (599, 500), (99, 100)]);
                (min, max, dice.percent(50))
            }),
        }),
        budget: dice.maybe(50, |dice| Budget {
            ratio: dice.one(&[0.25, 0.5]),
            min_per_second: dice.one(&[0, 20, -1]),
            ttl: dice.pick(&["5s", "0s", "", "long"]),
        }),
        overrides: dice.list(0..3, |dice| {
            (
                dice.pick(&[
                    "api.a.svc.cluster.local",
                    "api.a.svc.cluster.local:90",
                    "fd00::9",
                    "",
                ]),
                dice.pick(&["1", "500m", "-1", "much", "1k"]),
            )
        }),
    }
}
