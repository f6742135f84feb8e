//! Random histories.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::index::{Families, Kind, Object};
use crate::model::{
    AddressFamily, Backing, Condition, Conditions, Endpoint, ExternalWorkloadFacts,
    ExternalWorkloadName, Federation, HostPorts, Membership, MirrorFacts, NamedPort, NodeFacts,
    NodeName, Override, Owner, OwnerKind, OwnerName, PodFacts, PodName, PodPhase, PodTemplate,
    PortSet, ProfileFacts, ProfileName, ProxyPorts, RemoteService, Requirement, Selector,
    ServerFacts, ServerName, ServerPort, ServiceFacts, ServiceName, ServicePort, SliceFacts,
    SliceName, SliceOrigin, SlicePort, Text, TrafficPolicy, Traits, Transport, Uid, Zone,
};
use crate::testing::HOME;

/// Clusters of a history; the last one is mentioned, but never linked.
const CLUSTERS: [&str; 4] = [HOME, "east", "west", "nowhere"];
const NAMESPACES: [&str; 2] = ["a", "b"];
const SERVICES: [&str; 3] = ["web", "api", "db"];
const ZONES: [&str; 2] = ["z0", "z1"];
const NODES: [&str; 2] = ["n0", "n1"];
const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];
const OWNERS: [&str; 2] = ["o0", "o1"];
const HOSTNAMES: [&str; 2] = ["h0", "h1"];
const EXTERNALS: [&str; 2] = ["vm0", "vm1"];
const TIERS: [&str; 2] = ["gold", "tin"];
const PORT_NAMES: [&str; 2] = ["http", ""];
const ADDRESSES: [&str; 6] = [
    "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fd00::2",
];

/// One event of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Link(&'static str),
    Unlink(&'static str),
    LinksKnown,
    /// All of a cluster is withheld, or nothing of it.
    Withhold(&'static str, bool),
    /// The next session with a cluster begins, with a trust domain.
    Open(&'static str, &'static str),
    Say(&'static str, Speaker, Box<Saying>),
    /// The latest session with a cluster reads every kind that it has not read, and finds what it has said so far.
    Settle(&'static str),
}

/// Which session with a cluster speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Speaker {
    Latest,
    Previous,
}

/// What a session says.
#[derive(Clone, Debug)]
pub(super) enum Saying {
    Apply(Object),
    Delete(Object),
    Resync(Kind, Vec<Object>),
    Unreadable(Kind),
}

/// What is asked of a state.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) service: ServiceName,
    pub(super) port: u16,
    pub(super) instance: Option<Text>,
    pub(super) zone: Option<Zone>,
    pub(super) node: Option<NodeName>,
    pub(super) families: Families,
}

/// A history, with a query for each of its states.
pub(super) fn history() -> impl Strategy<Value = Vec<(Step, Query)>> {
    let beginning = (any::<bool>(), any::<bool>()).prop_map(|(home, east)| {
        let mut steps = vec![Step::Open(HOME, "home.example")];
        if home {
            steps.push(Step::Settle(HOME));
        }
        if east {
            steps.extend([
                Step::Link("east"),
                Step::Open("east", "east.example"),
                Step::Settle("east"),
            ]);
        }
        steps
    });
    (beginning, vec(step(), 1..50), vec(query(), 60)).prop_map(|(mut steps, more, queries)| {
        steps.extend(more);
        steps.into_iter().zip(queries).collect()
    })
}

/// Every Service there can be.
pub(super) fn services() -> Vec<ServiceName> {
    NAMESPACES
        .iter()
        .flat_map(|namespace| SERVICES.map(|name| ServiceName::new(*namespace, name)))
        .collect()
}

/// Every address that anybody may have.
pub(super) fn addresses() -> Vec<IpAddr> {
    ADDRESSES
        .iter()
        .map(|address| address.parse().unwrap())
        .collect()
}

/// Every ServiceProfile there can be.
pub(super) fn nodes() -> [NodeName; NODES.len()] {
    NODES.map(NodeName::from)
}

pub(super) fn profiles() -> Vec<ProfileName> {
    NAMESPACES
        .map(|namespace| ProfileName::new(namespace, "web"))
        .to_vec()
}

fn query() -> impl Strategy<Value = Query> {
    (
        service_name(),
        select(vec![80_u16, 81, 9999]),
        option::weighted(0.2, pick(&HOSTNAMES)),
        option::of(pick(&ZONES)),
        option::of(pick(&NODES)),
        select(vec![Families::Ipv4, Families::Ipv6First, Families::Any]),
    )
        .prop_map(|(service, port, instance, zone, node, families)| Query {
            service,
            port,
            instance: instance.map(Text::from),
            zone: zone.map(Zone::from),
            node: node.map(NodeName::from),
            families,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let linked = || pick(&["east", "west"]);
    let read = || pick(&[HOME, HOME, "east", "west"]);
    prop_oneof![
        2 => linked().prop_map(Step::Link),
        2 => (linked(), any::<bool>()).prop_map(|(cluster, all)| Step::Withhold(cluster, all)),
        1 => linked().prop_map(Step::Unlink),
        1 => Just(Step::LinksKnown),
        3 => (read(), pick(&["one.example", "two.example", ""]))
            .prop_map(|(cluster, domain)| Step::Open(cluster, domain)),
        5 => read().prop_map(Step::Settle),
        30 => (read(), speaker(), saying())
            .prop_map(|(cluster, speaker, saying)| Step::Say(cluster, speaker, Box::new(saying))),
    ]
}

fn speaker() -> impl Strategy<Value = Speaker> {
    prop_oneof![9 => Just(Speaker::Latest), 2 => Just(Speaker::Previous)]
}

fn saying() -> impl Strategy<Value = Saying> {
    prop_oneof![
        20 => object().prop_map(Saying::Apply),
        6 => object().prop_map(Saying::Delete),
        3 => (kind(), vec(object(), 0..8)).prop_map(|(kind, mut objects)| {
            objects.retain(|object| object.name().kind() == kind);
            Saying::Resync(kind, objects)
        }),
        1 => kind().prop_map(Saying::Unreadable),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        1 => Just(Kind::Service),
        1 => Just(Kind::EndpointSlice),
        1 => Just(Kind::Endpoints),
        2 => Just(Kind::Pod),
        1 => Just(Kind::Node),
        1 => Just(Kind::ReplicaSet),
        1 => Just(Kind::Job),
        1 => Just(Kind::ExternalWorkload),
        1 => Just(Kind::Server),
        1 => Just(Kind::ServiceProfile),
    ]
}

/// Boxed, as the strategies by value would fill the stack of a test.
fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        4 => service().boxed(),
        6 => slice().boxed(),
        3 => endpoints().boxed(),
        5 => pod().boxed(),
        1 => node().boxed(),
        2 => owner_object().boxed(),
        2 => external_workload().boxed(),
        3 => server().boxed(),
        1 => profile().boxed(),
    ]
}

fn service() -> impl Strategy<Value = Object> {
    let port = (select(vec![80_u16, 81]), pick(&PORT_NAMES));
    (
        service_name(),
        vec(port, 0..3),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
        membership(),
        vec(address(), 0..2),
    )
        .prop_map(
            |(name, ports, external_name, local, membership, cluster_ips)| {
                let port = |(port, name): (u16, &str)| ServicePort {
                    port,
                    name: name.into(),
                    transport: Transport::Tcp,
                    app_protocol: None,
                };
                let facts = ServiceFacts {
                    ports: ports.into_iter().map(port).collect(),
                    external_name,
                    internal_traffic_policy: if local {
                        TrafficPolicy::Local
                    } else {
                        TrafficPolicy::Cluster
                    },
                    membership,
                    cluster_ips: cluster_ips.into(),
                    opaque_ports: None,
                    details: None,
                };
                Object::Service(name, facts)
            },
        )
}

fn membership() -> impl Strategy<Value = Membership> {
    let remote = (pick(&CLUSTERS), option::weighted(0.9, pick(&SERVICES)));
    let member = (pick(&CLUSTERS), pick(&SERVICES))
        .prop_map(|(cluster, service)| format!("{service}@{cluster}"));
    prop_oneof![
        2 => Just(Membership::Local),
        1 => remote.prop_map(|(cluster, service)| {
            Membership::Remote(RemoteService {
                cluster: cluster.into(),
                service: service.map(Text::from),
            })
        }),
        2 => (option::of(pick(&SERVICES)), vec(member, 0..4)).prop_map(|(local, remote)| {
            Federation::parse(local, Some(&remote.join(",")))
                .map_or(Membership::Local, |(federation, _)| Membership::Federated(federation))
        }),
    ]
}

fn slice() -> impl Strategy<Value = Object> {
    (pick(&["s0", "s1", "s2"]), slice_facts()).prop_map(|(name, facts)| {
        let name = SliceName::new(facts.service.namespace.clone(), name);
        Object::Slice(name, facts)
    })
}

fn endpoints() -> impl Strategy<Value = Object> {
    (service_name(), vec(slice_facts(), 0..3)).prop_map(|(service, subsets)| {
        let subsets = subsets.into_iter().map(|facts| SliceFacts {
            service: service.clone(),
            ..facts
        });
        let subsets = subsets.collect();
        Object::Endpoints(service, subsets)
    })
}

fn slice_facts() -> impl Strategy<Value = SliceFacts> {
    let port = (pick(&PORT_NAMES), select(vec![8080_u16, 8081]));
    let mirror = any::<bool>().prop_map(|gateway| {
        Box::new(MirrorFacts {
            cluster: Some("east".into()),
            remote_service: Some("web.a.svc.cluster.local".into()),
            gateway_identity: gateway.then(|| "gateway".into()),
        })
    });
    (
        service_name(),
        vec(port, 0..3),
        vec(endpoint(), 0..4),
        option::weighted(0.1, mirror),
    )
        .prop_map(|(service, ports, endpoints, mirror)| {
            let port = |(name, port): (&str, u16)| SlicePort {
                name: name.into(),
                port: Some(port),
                transport: Transport::Tcp,
                app_protocol: None,
            };
            SliceFacts {
                ports: ports.into_iter().map(port).collect(),
                endpoints: endpoints.into(),
                mirror,
                service,
                family: AddressFamily::V4,
                origin: SliceOrigin::default(),
            }
        })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let backing = prop_oneof![
        4 => pod_name().prop_map(Backing::Pod),
        1 => Just(Backing::Address),
        2 => pick(&EXTERNALS).prop_map(|name| Backing::ExternalWorkload(name.into())),
    ];
    let hints = option::weighted(0.8, vec(pick(&ZONES).prop_map(Zone::from), 1..3));
    (
        address(),
        prop::bool::weighted(0.8),
        backing,
        option::of(pick(&ZONES)),
        option::of(pick(&NODES)),
        option::weighted(0.3, pick(&HOSTNAMES)),
        hints,
    )
        .prop_map(
            |(address, ready, backing, zone, node, hostname, hints)| Endpoint {
                address,
                conditions: Conditions::from_optional(Some(ready), None, None),
                backing,
                zone: zone.map(Zone::from),
                node: node.map(NodeName::from),
                hostname: hostname.map(Text::from),
                zone_hints: hints.map(Arc::new),
            },
        )
}

fn profile() -> impl Strategy<Value = Object> {
    (pick(&NAMESPACES), 0..3_u32).prop_map(|(namespace, weight)| {
        let facts = ProfileFacts {
            overrides: [Override {
                authority: "web".into(),
                weight,
            }]
            .into(),
            ..ProfileFacts::default()
        };
        Object::Profile(ProfileName::new(namespace, "web"), facts)
    })
}

fn pod() -> impl Strategy<Value = Object> {
    let ports = |inbound, admin| ProxyPorts {
        inbound,
        admin,
        control: Some(4190),
    };
    let proxy = prop_oneof![
        4 => Just(ports(Some(4143), Some(8081))),
        1 => Just(ports(None, None)),
        1 => Just(ports(Some(0), Some(4191))),
    ];
    (
        pod_name(),
        vec(address(), 0..3),
        (
            phase(),
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.2),
        ),
        option::of(pick(&NODES)),
        option::of(pick(&["linkerd", "other"])),
        option::of(owner()),
        option::weighted(0.3, pick(&["8080", "8081", "1-65535", ""])),
        (prop::bool::weighted(0.2), proxy, traits()),
        option::weighted(0.2, (address(), select(vec![80_u16, 81]))),
    )
        .prop_map(
            |(name, ips, life, node, mesh, owner, opaque, (skip, proxy, traits), on_host)| {
                let ports = |list: &str| PortSet::parse(list, |_| None).0;
                let (phase, terminating, host_network) = life;
                let template = PodTemplate {
                    service_account: "default".into(),
                    control_plane_namespace: mesh.map(Text::from),
                    template_hash: None,
                    owner: owner.map(Arc::new),
                    opaque_ports: opaque.map(ports),
                    skip_inbound_ports: ports(if skip { "8080" } else { "" }),
                    proxy,
                    traits,
                };
                let facts = PodFacts {
                    ips: ips.into(),
                    phase,
                    terminating,
                    host_network,
                    on_host: on_host.map(|(ip, port)| {
                        Box::new(HostPorts {
                            ips: ip.into(),
                            ports: [port].into(),
                        })
                    }),
                    node: node.map(NodeName::from),
                    template: Arc::new(template),
                };
                Object::Pod(name, facts)
            },
        )
}

fn phase() -> impl Strategy<Value = PodPhase> {
    prop_oneof![
        1 => Just(PodPhase::Starting),
        8 => Just(PodPhase::Running),
        1 => Just(PodPhase::Finished),
    ]
}

fn node() -> impl Strategy<Value = Object> {
    (pick(&NODES), option::of(pick(&ZONES))).prop_map(|(name, zone)| {
        let zone = zone.map(Zone::from);
        Object::Node(name.into(), NodeFacts { zone })
    })
}

fn owner_object() -> impl Strategy<Value = Object> {
    let kind = select(vec![OwnerKind::ReplicaSet, OwnerKind::Job]);
    (kind, pick(&NAMESPACES), pick(&OWNERS), option::of(owner())).prop_map(
        |(kind, namespace, name, owner)| {
            let name = OwnerName {
                kind,
                namespace: namespace.into(),
                name: name.into(),
            };
            Object::Owner(name, owner)
        },
    )
}

/// Up to one label, and named ports of which both may have one name.
fn traits() -> impl Strategy<Value = Arc<Traits>> {
    let port = (pick(&["http", "db"]), select(vec![8080_u16, 8081]));
    (option::of(pick(&TIERS)), vec(port, 0..3)).prop_map(|(tier, ports)| {
        let port = |(name, port): (&str, u16)| NamedPort {
            name: name.into(),
            port,
        };
        let tier = tier.map(|tier| ("tier".into(), tier.into()));
        Arc::new(Traits {
            labels: tier.into_iter().collect(),
            ports: ports.into_iter().map(port).collect(),
        })
    })
}

fn external_workload() -> impl Strategy<Value = Object> {
    (
        pick(&NAMESPACES),
        pick(&EXTERNALS),
        vec(address(), 0..3),
        option::weighted(0.8, pick(&["spiffe://one", "spiffe://two"])),
        option::of(owner()),
        option::weighted(0.3, pick(&["8080", ""])),
        option::of(select(vec![0_u16, 5143])),
        traits(),
    )
        .prop_map(
            |(namespace, name, ips, identity, owner, opaque, inbound_port, traits)| {
                let facts = ExternalWorkloadFacts {
                    uid: Uid::default(),
                    ips: ips.into(),
                    identity: identity.map(Text::from),
                    server_name: identity.map(|_| "vm.example".into()),
                    owner,
                    opaque_ports: opaque.map(|list| PortSet::parse(list, |_| None).0),
                    ports: [8080].into(),
                    inbound_port,
                    traits,
                };
                Object::ExternalWorkload(ExternalWorkloadName::new(namespace, name), facts)
            },
        )
}

fn server() -> impl Strategy<Value = Object> {
    let tiers = || vec(pick(&TIERS).prop_map(Text::from), 1..3);
    let condition = prop_oneof![
        2 => tiers().prop_map(|tiers| Condition::In(tiers.into())),
        1 => tiers().prop_map(|tiers| Condition::NotIn(tiers.into())),
        1 => Just(Condition::Exists),
        1 => Just(Condition::DoesNotExist),
    ];
    let requirement = condition.prop_map(|condition| Requirement {
        key: "tier".into(),
        condition,
    });
    let selector = vec(requirement, 0..3)
        .prop_map(|requirements| requirements.into_iter().collect::<Selector>());
    let selector = option::weighted(0.7, selector).boxed();
    let port = prop_oneof![
        1 => select(vec![8080_u16, 81]).prop_map(ServerPort::Number),
        1 => pick(&["http", "db"]).prop_map(|name| ServerPort::Name(name.into())),
    ];
    (
        pick(&NAMESPACES),
        pick(&["one", "two"]),
        selector.clone(),
        selector,
        port,
    )
        .prop_map(|(namespace, name, pods, external_workloads, port)| {
            let facts = ServerFacts {
                pods,
                external_workloads,
                port,
            };
            Object::Server(ServerName::new(namespace, name), facts)
        })
}

fn owner() -> impl Strategy<Value = Owner> {
    let kind = pick(&["ReplicaSet", "Job", "Deployment", "Rollout"]);
    (kind, pick(&OWNERS)).prop_map(|(kind, name)| Owner {
        kind: kind.into(),
        name: name.into(),
    })
}

fn service_name() -> impl Strategy<Value = ServiceName> {
    (pick(&NAMESPACES), pick(&SERVICES))
        .prop_map(|(namespace, name)| ServiceName::new(namespace, name))
}

fn pod_name() -> impl Strategy<Value = PodName> {
    (pick(&NAMESPACES), pick(&PODS)).prop_map(|(namespace, name)| PodName::new(namespace, name))
}

fn address() -> impl Strategy<Value = IpAddr> {
    pick(&ADDRESSES).prop_map(|address| address.parse().unwrap())
}

fn pick(pool: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
    select(pool.to_vec())
}
