//! Made-up objects of a cluster, how they change, and what clients have to believe of them in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

/// Where everything is.
pub const NAMESPACE: &str = "shop";
/// Where endpoints answer.
const PORT: u16 = 8080;
/// How the names of zones begin that a change has made up; the number of the change follows.
const MOVED: &str = "zone-after-";

/// How much there is of what.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub services: u32,
    /// EndpointSlices of each Service.
    pub slices: u32,
    /// Endpoints of each slice.
    pub endpoints: u32,
    /// Whether there is a meshed Pod behind each endpoint.
    pub pods: bool,
    pub nodes: u32,
}

/// What a change does to a slice. Each is seen by every client: it leaves its number in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first endpoint moves to another zone.
    One,
    /// All endpoints do.
    All,
    /// The first endpoint does, and another one leaves or comes back.
    Churn,
}

/// Kinds of objects that somebody may list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Service,
    Slice,
    Pod,
    Node,
    /// Any other: there is none.
    Other,
}

/// Who should be told: addresses, and the zone of each.
pub type Endpoints = BTreeMap<SocketAddr, String>;

/// All objects.
#[derive(Debug)]
pub struct World {
    shape: Shape,
    /// Of the newest change.
    pub version: u64,
    changes: u32,
    slices: Vec<Slice>,
}

#[derive(Clone, Debug, Default)]
struct Slice {
    version: u64,
    /// Numbers of the change before which the first, and all other, endpoints moved; 0 if they did not.
    first_moved: u32,
    all_moved: u32,
    churned: u32,
    absent: Vec<bool>,
}

// === impl Shape ===

impl Shape {
    /// One Service with so many endpoints, a hundred in each slice, as Kubernetes makes them.
    pub fn one_service(endpoints: u32) -> Self {
        Self {
            services: 1,
            slices: endpoints.div_ceil(100),
            endpoints: endpoints.min(100),
            pods: true,
            nodes: 10,
        }
    }

    pub fn endpoints_in_all(&self) -> u32 {
        self.services * self.slices * self.endpoints
    }
}

// === impl World ===

impl World {
    pub fn new(shape: Shape) -> Self {
        let slice = Slice {
            version: 1,
            absent: vec![false; shape.endpoints as usize],
            ..Slice::default()
        };
        Self {
            shape,
            version: 1,
            changes: 0,
            slices: vec![slice; (shape.services * shape.slices) as usize],
        }
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Service => self.shape.services,
            Kind::Slice => self.shape.services * self.shape.slices,
            Kind::Pod if self.shape.pods => self.shape.endpoints_in_all(),
            Kind::Node => self.shape.nodes,
            Kind::Pod | Kind::Other => 0,
        }
    }

    /// Version of an object; only slices change.
    pub fn version_of(&self, kind: Kind, number: u32) -> u64 {
        match kind {
            Kind::Slice => self.slices[number as usize].version,
            _ => 1,
        }
    }

    /// Changes a Service, in each of its slices in turn, or in all if everything is to change. Gives the slices that are not as they
    /// were.
    pub fn change(&mut self, service: u32, change: Change) -> std::ops::Range<u32> {
        self.changes += 1;
        let first = service * self.shape.slices;
        let changed = match change {
            Change::One => first..first + 1,
            Change::All => first..first + self.shape.slices,
            Change::Churn => {
                let slice = first + self.changes % self.shape.slices;
                slice..slice + 1
            }
        };
        for slice in changed.clone() {
            self.version += 1;
            let slice = &mut self.slices[slice as usize];
            slice.version = self.version;
            slice.first_moved = self.changes;
            match change {
                Change::One => {}
                Change::All => slice.all_moved = self.changes,
                Change::Churn => {
                    // Those with even numbers stay, so that there is always somebody.
                    slice.churned += 1;
                    let endpoint = (slice.churned * 2 - 1) % self.shape.endpoints;
                    if endpoint % 2 == 1 {
                        let absent = &mut slice.absent[endpoint as usize];
                        *absent = !*absent;
                    }
                }
            }
        }
        changed
    }

    /// How many changes there have been.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// What clients of a Service have to know.
    pub fn endpoints(&self, service: u32) -> Endpoints {
        let mut endpoints = Endpoints::new();
        let first = service * self.shape.slices;
        for slice in first..first + self.shape.slices {
            for endpoint in self.present(slice) {
                let ip = Ipv4Addr::from_bits(self.ip(slice, endpoint));
                endpoints.insert((ip, PORT).into(), self.zone(slice, endpoint));
            }
        }
        endpoints
    }

    /// An object as the API gives it.
    pub fn json(&self, kind: Kind, number: u32) -> String {
        match kind {
            Kind::Service => service_json(number),
            Kind::Slice => self.slice_json(number),
            Kind::Pod => {
                let slice = number / self.shape.endpoints;
                self.pod_json(slice, number % self.shape.endpoints)
            }
            Kind::Node => node_json(number),
            Kind::Other => String::new(),
        }
    }

    fn present(&self, slice: u32) -> impl Iterator<Item = u32> + '_ {
        let absent = &self.slices[slice as usize].absent;
        (0..self.shape.endpoints).filter(|endpoint| !absent[*endpoint as usize])
    }

    fn ip(&self, slice: u32, endpoint: u32) -> u32 {
        0x0a00_0001 + slice * self.shape.endpoints + endpoint
    }

    fn zone(&self, slice: u32, endpoint: u32) -> String {
        let slice = &self.slices[slice as usize];
        let moved = match endpoint {
            0 => slice.first_moved,
            _ => slice.all_moved,
        };
        match moved {
            0 => format!("zone-{}", endpoint % 3),
            _ => format!("{MOVED}{moved}-{}", endpoint % 3),
        }
    }

    fn service_of(&self, slice: u32) -> String {
        service_name(slice / self.shape.slices)
    }

    fn slice_json(&self, slice: u32) -> String {
        let service = self.service_of(slice);
        let version = self.slices[slice as usize].version;
        let mut json = format!(
            r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"{service}-x{slice}","generateName":"{service}-","namespace":"{NAMESPACE}","uid":"6f0c2a3e-1b4d-4c8f-9a7e-{slice:012x}","resourceVersion":"{version}","generation":{version},"creationTimestamp":"2026-01-02T03:04:05Z","labels":{{"app":"{service}","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"{service}"}},"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"2026-01-02T03:04:05Z"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Service","name":"{service}","uid":"7a0c2a3e-1b4d-4c8f-9a7e-{slice:012x}","controller":true,"blockOwnerDeletion":true}}]}},"addressType":"IPv4","endpoints":["#
        );
        let mut comma = "";
        for endpoint in self.present(slice) {
            let ip = Ipv4Addr::from_bits(self.ip(slice, endpoint));
            let zone = self.zone(slice, endpoint);
            let node = self.node(slice, endpoint);
            write!(
                json,
                r#"{comma}{{"addresses":["{ip}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"#
            )
            .expect("a String takes everything");
            if self.shape.pods {
                let pod = pod_name(&service, slice, endpoint);
                write!(
                    json,
                    r#""targetRef":{{"kind":"Pod","namespace":"{NAMESPACE}","name":"{pod}","uid":"8b0c2a3e-1b4d-4c8f-{endpoint:04x}-{slice:012x}"}},"#
                )
                .expect("a String takes everything");
            }
            write!(json, r#""nodeName":"{node}","zone":"{zone}"}}"#)
                .expect("a String takes everything");
            comma = ",";
        }
        json.push_str(r#"],"ports":[{"name":"http","protocol":"TCP","port":8080}]}"#);
        json
    }

    fn node(&self, slice: u32, endpoint: u32) -> String {
        node_name((slice + endpoint) % self.shape.nodes)
    }

    fn pod_json(&self, slice: u32, endpoint: u32) -> String {
        let service = self.service_of(slice);
        let name = pod_name(&service, slice, endpoint);
        let ip = Ipv4Addr::from_bits(self.ip(slice, endpoint));
        let node = self.node(slice, endpoint);
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"{service}-5d9c8b7f6-","namespace":"{NAMESPACE}","uid":"8b0c2a3e-1b4d-4c8f-{endpoint:04x}-{slice:012x}","resourceVersion":"1","creationTimestamp":"2026-01-02T03:04:05Z","labels":{{"app":"{service}","linkerd.io/control-plane-ns":"linkerd","linkerd.io/proxy-deployment":"{service}","pod-template-hash":"5d9c8b7f6"}},"annotations":{{"linkerd.io/inject":"enabled","linkerd.io/proxy-version":"edge-26.8.1"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{service}-5d9c8b7f6","uid":"9c0c2a3e-1b4d-4c8f-9a7e-{slice:012x}","controller":true,"blockOwnerDeletion":true}}]}},"spec":{{"volumes":[{{"name":"linkerd-identity-end-entity","emptyDir":{{"medium":"Memory"}}}}],"containers":[{{"name":"{service}","image":"registry.example.com/shop/{service}:1.4.2","ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"LOG_LEVEL","value":"info"}}],"resources":{{"limits":{{"memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}},{{"name":"linkerd-proxy","image":"cr.l5d.io/linkerd/proxy:edge-26.8.1","ports":[{{"name":"linkerd-proxy","containerPort":4143,"protocol":"TCP"}},{{"name":"linkerd-admin","containerPort":4191,"protocol":"TCP"}}],"env":[{{"name":"LINKERD2_PROXY_INBOUND_LISTEN_ADDR","value":"0.0.0.0:4143"}},{{"name":"LINKERD2_PROXY_ADMIN_LISTEN_ADDR","value":"0.0.0.0:4191"}},{{"name":"LINKERD2_PROXY_CONTROL_LISTEN_ADDR","value":"0.0.0.0:4190"}}],"resources":{{}},"imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{service}","nodeName":"{node}","schedulerName":"default-scheduler"}},"status":{{"phase":"Running","conditions":[{{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-02T03:04:07Z"}},{{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:09Z"}}],"hostIP":"172.18.0.2","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"2026-01-02T03:04:05Z","qosClass":"Burstable"}}}}"#
        )
    }
}

/// The number of the change that made a zone up, if one did.
pub fn change_in_zone(zone: &str) -> Option<u32> {
    let (number, _) = zone.strip_prefix(MOVED)?.split_once('-')?;
    number.parse().ok()
}

/// What clients ask for, without namespace and port.
pub fn service_name(number: u32) -> String {
    format!("web-{number}")
}

/// Where a client says that it runs.
pub fn node_name(number: u32) -> String {
    format!("node-{number}")
}

fn pod_name(service: &str, slice: u32, endpoint: u32) -> String {
    format!("{service}-5d9c8b7f6-{slice:05}{endpoint:03}")
}

fn service_json(number: u32) -> String {
    let service = service_name(number);
    let ip = Ipv4Addr::from_bits(0xac20_0001 + number);
    format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{service}","namespace":"{NAMESPACE}","uid":"5e0c2a3e-1b4d-4c8f-9a7e-{number:012x}","resourceVersion":"1","creationTimestamp":"2026-01-02T03:04:05Z","labels":{{"app":"{service}"}}}},"spec":{{"ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":8080}}],"selector":{{"app":"{service}"}},"clusterIP":"{ip}","clusterIPs":["{ip}"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}},"status":{{"loadBalancer":{{}}}}}}"#
    )
}

fn node_json(number: u32) -> String {
    let node = node_name(number);
    format!(
        r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{node}","uid":"4d0c2a3e-1b4d-4c8f-9a7e-{number:012x}","resourceVersion":"1","creationTimestamp":"2026-01-02T03:04:05Z","labels":{{"kubernetes.io/hostname":"{node}","topology.kubernetes.io/region":"region","topology.kubernetes.io/zone":"zone-{}"}}}}}}"#,
        number % 3
    )
}
