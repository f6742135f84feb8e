//! Facts of a made-up cluster, straight into an index: what the index costs without anything around it.
#![allow(unreachable_pub, reason = "two programs use it, each as a module")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tributary::index::{Change, Index, Kind, Object, ObjectChange, Touched};
use tributary::model::{
    AddressFamily, Backing, ClusterFacts, ClusterName, ClusterRole, Conditions, Endpoint,
    EndpointKind, NodeName, Owner, PodFacts, PodName, PodPhase, PodTemplate, ProxyPorts,
    ServiceFacts, ServiceName, ServicePort, SessionId, SliceFacts, SliceName, SliceOrigin,
    SlicePort, Text, Transport, Uid, Zone,
};

const SESSION: SessionId = SessionId(1);

/// An index of so many Services with one slice each, and meshed Pods behind it if wanted.
pub fn build(services: u32, per_service: u32, pods: bool) -> Index {
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
        index.apply(
            object(ObjectChange::Resync(*kind, Vec::new())),
            &mut touched,
        );
    }
    // One by one, so that nothing is left but the index.
    for number in 0..services {
        let service = Object::Service(service_name(number), service_facts());
        let slice = Object::Slice(slice_name(number), slice_facts(number, per_service, pods));
        let pods = (0..per_service)
            .filter(|_| pods)
            .map(|pod| Object::Pod(pod_name(number, pod), pod_facts(number, pod)));
        for one in [service, slice].into_iter().chain(pods) {
            let mut touched = Touched::default();
            index.apply(object(ObjectChange::Apply(one)), &mut touched);
        }
    }
    index
}

pub fn object(change: ObjectChange) -> Change {
    Change::Object {
        cluster: ClusterName::from("home"),
        session: SESSION,
        change,
    }
}

fn namespace(number: u32) -> String {
    format!("team-{}", number % 50)
}

pub fn service_name(number: u32) -> ServiceName {
    ServiceName::new(namespace(number).as_str(), format!("service-{number}"))
}

pub fn slice_name(number: u32) -> SliceName {
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

pub fn slice_facts(number: u32, per_service: u32, pods: bool) -> SliceFacts {
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
