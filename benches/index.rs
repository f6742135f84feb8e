//! What the index costs: bytes per endpoint, and the time of one change at two sizes of everything else.
//!
//! `cargo bench --bench index [ENDPOINTS] [SERVICES]` prints one tab-separated line per figure. Bytes are counted by the
//! allocator, so they are exact; times are medians of many changes in one run and only their ratio means something.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a program that measures and prints"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use tributary::index::{
    Change, ClientLocality, Index, Kind, Object, ObjectChange, SelectPolicy, Touched, ViewKey,
    diff, select,
};
use tributary::model::{
    AddressFamily, Backing, ClusterFacts, ClusterName, ClusterRole, Conditions, Endpoint,
    EndpointKind, NodeName, Owner, PodFacts, PodName, PodPhase, PodTemplate, ProxyPorts,
    ServiceFacts, ServiceName, ServicePort, SessionId, SliceFacts, SliceName, SliceOrigin,
    SlicePort, Text, Transport, Uid, Zone,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SESSION: SessionId = SessionId(1);
const CHANGES: u32 = 2_000;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<u32>().ok());
    let endpoints = numbers.next().unwrap_or(100_000);
    let services = numbers.next().unwrap_or(2_000);
    for (what, pods) in [("addresses", false), ("pods", true)] {
        let before = ALLOCATOR.current_usage();
        let index = build(services, endpoints / services, pods);
        let bytes = ALLOCATOR.current_usage() - before;
        println!(
            "bytes_per_endpoint\t{what}\t{:.1}",
            bytes as f64 / f64::from(endpoints)
        );
        drop(index);
    }
    let small = change_time(services / 20, endpoints / services);
    let large = change_time(services, endpoints / services);
    println!("change\t{} services\t{small:?}", services / 20);
    println!("change\t{services} services\t{large:?}");
    println!(
        "change_ratio\t\t{:.2}",
        large.as_secs_f64() / small.as_secs_f64()
    );
}

/// The median time to apply one readiness change, make the snapshot, select the view and find what changed.
fn change_time(services: u32, per_service: u32) -> Duration {
    let mut index = build(services, per_service, true);
    let policy = SelectPolicy::default();
    let client = ClientLocality::default();
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let number = round % services;
        let service = service_name(number);
        let snapshot = index.snapshot(&service);
        let key = ViewKey::new(&snapshot, 80, None, &client);
        let before = select(&snapshot, &key, &policy);
        let mut slice = slice_facts(number, per_service, true);
        slice.endpoints[0].conditions.ready = round / services % 2 == 1;
        let change = object(ObjectChange::Apply(Object::Slice(
            slice_name(number),
            slice,
        )));
        let start = Instant::now();
        let mut touched = Touched::default();
        index.apply(change, &mut touched);
        let snapshot = index.snapshot(&service);
        let after = select(&snapshot, &key, &policy);
        let delta = diff(Some(&before), &after);
        times.push(start.elapsed());
        assert_eq!(touched.services.len(), 1);
        assert!(!delta.is_empty());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn build(services: u32, per_service: u32, pods: bool) -> Index {
    let mut index = Index::new(ClusterName::from("home"));
    let mut touched = Touched::default();
    let facts = Arc::new(ClusterFacts {
        name: ClusterName::from("home"),
        role: ClusterRole::Home,
        trust_domain: Text::from("cluster.local"),
        endpoint_kind: EndpointKind::EndpointSlice,
    });
    index.apply(
        Change::Opened {
            facts,
            session: SESSION,
        },
        &mut touched,
    );
    for kind in Kind::watched_in(ClusterRole::Home, EndpointKind::EndpointSlice) {
        let objects = match kind {
            Kind::Service => (0..services)
                .map(|number| Object::Service(service_name(number), service_facts()))
                .collect(),
            Kind::EndpointSlice => (0..services)
                .map(|number| {
                    Object::Slice(slice_name(number), slice_facts(number, per_service, pods))
                })
                .collect(),
            Kind::Pod if pods => (0..services)
                .flat_map(|number| (0..per_service).map(move |pod| (number, pod)))
                .map(|(number, pod)| Object::Pod(pod_name(number, pod), pod_facts(number, pod)))
                .collect(),
            _ => Vec::new(),
        };
        index.apply(object(ObjectChange::Resync(*kind, objects)), &mut touched);
    }
    index
}

fn object(change: ObjectChange) -> Change {
    Change::Object {
        cluster: ClusterName::from("home"),
        session: SESSION,
        change,
    }
}

fn namespace(number: u32) -> String {
    format!("team-{}", number % 50)
}

fn service_name(number: u32) -> ServiceName {
    ServiceName::new(namespace(number).as_str(), format!("service-{number}"))
}

fn slice_name(number: u32) -> SliceName {
    SliceName::new(
        namespace(number).as_str(),
        format!("service-{number}-x7k2p"),
    )
}

fn pod_name(number: u32, pod: u32) -> PodName {
    PodName::new(
        namespace(number).as_str(),
        format!("service-{number}-5d9c8b7f6-{pod:05}"),
    )
}

fn address(number: u32, pod: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + number * 1024 + pod))
}

fn service_facts() -> ServiceFacts {
    ServiceFacts {
        ports: [ServicePort {
            port: 80,
            name: Text::from("http"),
            transport: Transport::Tcp,
            app_protocol: None,
        }]
        .into(),
        ..ServiceFacts::default()
    }
}

fn slice_facts(number: u32, per_service: u32, pods: bool) -> SliceFacts {
    let endpoints = (0..per_service)
        .map(|pod| Endpoint {
            address: address(number, pod),
            conditions: Conditions::READY,
            backing: if pods {
                Backing::Pod(pod_name(number, pod))
            } else {
                Backing::Address
            },
            zone: Some(Zone::from(format!("zone-{}", pod % 3))),
            node: Some(NodeName::from(format!("node-{}", (number + pod) % 500))),
            hostname: None,
            zone_hints: None,
        })
        .collect();
    SliceFacts {
        service: service_name(number),
        ports: [SlicePort {
            name: Text::from("http"),
            port: Some(8080),
            transport: Transport::Tcp,
            app_protocol: None,
        }]
        .into(),
        endpoints,
        mirror: None,
        family: AddressFamily::V4,
        origin: SliceOrigin {
            uid: Uid::from(format!("6f0c2a3e-1b4d-4c8f-9a7e-{number:012x}").as_str()),
            generation: 1,
            managed_by: Text::from("endpointslice-controller.k8s.io"),
            is_import: false,
        },
    }
}

fn pod_facts(number: u32, pod: u32) -> PodFacts {
    PodFacts {
        ips: address(number, pod).into(),
        node: Some(NodeName::from(format!("node-{}", (number + pod) % 500))),
        phase: PodPhase::Running,
        terminating: false,
        host_network: false,
        on_host: None,
        template: Arc::new(pod_template(number)),
    }
}

fn pod_template(number: u32) -> PodTemplate {
    PodTemplate {
        service_account: Text::from("default"),
        control_plane_namespace: Some(Text::from("linkerd")),
        template_hash: Some(Text::from("5d9c8b7f6")),
        owner: Some(Arc::new(Owner {
            kind: Text::from("ReplicaSet"),
            name: Text::from(format!("service-{number}-5d9c8b7f6")),
        })),
        proxy: ProxyPorts {
            inbound: Some(4143),
            admin: Some(4191),
            control: Some(4190),
        },
        ..PodTemplate::default()
    }
}
