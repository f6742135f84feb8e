//! Kubernetes objects as plain structs with public fields, and how an API server would write them.
//!
//! Whatever people write as text stands here as text: what it means is for the product to find out, and for the rules.

use serde_json::{Map, Value, json};
use tributary::index::Kind;

/// An object of a kind that is watched.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Service(Service),
    Slice(Slice),
    Pod(Pod),
    Node(Node),
    Owner(Owned),
    External(External),
    Server(Server),
    Profile(Profile),
}

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) external_name: bool,
    pub(crate) node_local: bool,
    /// Name and number.
    pub(crate) ports: Vec<(&'static str, i64)>,
    pub(crate) cluster_ips: Vec<&'static str>,
    pub(crate) opaque_ports: Option<&'static str>,
    /// Labels of a mirror: its cluster, and its name there.
    pub(crate) mirror_of_cluster: Option<&'static str>,
    pub(crate) mirror_of: Option<&'static str>,
    /// Annotations of a federated Service.
    pub(crate) local_member: Option<&'static str>,
    pub(crate) remote_members: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) address_type: &'static str,
    /// The Service of the label.
    pub(crate) service: Option<&'static str>,
    /// The Service that owns it.
    pub(crate) owner: Option<&'static str>,
    /// Name and number.
    pub(crate) ports: Option<Vec<(&'static str, Option<i64>)>>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) mirrored_cluster: Option<&'static str>,
    pub(crate) mirrored_service: Option<&'static str>,
    pub(crate) gateway_identity: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) addresses: Vec<&'static str>,
    pub(crate) ready: Option<bool>,
    pub(crate) target: Option<Target>,
    pub(crate) hostname: Option<&'static str>,
    pub(crate) zone: Option<&'static str>,
    pub(crate) node: Option<&'static str>,
    pub(crate) for_zones: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: &'static str,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) phase: &'static str,
    pub(crate) deleting: bool,
    pub(crate) ips: Vec<&'static str>,
    pub(crate) host_network: bool,
    pub(crate) host_ips: Vec<&'static str>,
    pub(crate) ports: Vec<ContainerPort>,
    pub(crate) node: Option<&'static str>,
    pub(crate) account: Option<&'static str>,
    pub(crate) control_plane: Option<&'static str>,
    pub(crate) template_hash: Option<&'static str>,
    pub(crate) tier: Option<&'static str>,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) opaque_ports: Option<&'static str>,
    pub(crate) skip_inbound_ports: Option<&'static str>,
    pub(crate) proxy: Option<Proxy>,
}

#[derive(Clone, Debug)]
pub(crate) struct ContainerPort {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) host: Option<i64>,
}

/// Listen addresses in the environment of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    /// Whether it starts before the other containers.
    pub(crate) native_sidecar: bool,
    pub(crate) inbound: Option<&'static str>,
    pub(crate) admin: Option<&'static str>,
    pub(crate) control: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerReference {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) zone: Option<&'static str>,
}

/// A `ReplicaSet` or `Job`.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) kind: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) owners: Vec<OwnerReference>,
}

#[derive(Clone, Debug)]
pub(crate) struct External {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) ips: Vec<&'static str>,
    pub(crate) identity: Option<&'static str>,
    pub(crate) server_name: Option<&'static str>,
    pub(crate) ports: Vec<(&'static str, i64)>,
    pub(crate) tier: Option<&'static str>,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) opaque_ports: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) port: ServerPort,
    pub(crate) pods: Option<Selector>,
    pub(crate) externals: Option<Selector>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerPort {
    Number(i64),
    Name(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Selector {
    /// Selects everything.
    Empty,
    /// By a value of the label `tier`.
    Label(&'static str),
    /// By an operator on the label `tier`, which may be no operator, or not go with that many values.
    Expression(&'static str, &'static [&'static str]),
}

#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) namespace: &'static str,
    /// The Service in it that the full name is about: name and namespace.
    pub(crate) of: (&'static str, &'static str),
    pub(crate) routes: Vec<Route>,
    pub(crate) budget: Option<Budget>,
    pub(crate) overrides: Vec<(&'static str, &'static str)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) name: &'static str,
    /// A condition without any of them makes no sense.
    pub(crate) method: Option<&'static str>,
    pub(crate) path: Option<&'static str>,
    pub(crate) negated: bool,
    pub(crate) retryable: bool,
    pub(crate) timeout: Option<&'static str>,
    /// Status of a response class: least, greatest, and whether it is a failure.
    pub(crate) classes: Vec<(u16, u16, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) ratio: f32,
    pub(crate) min_per_second: i64,
    pub(crate) ttl: &'static str,
}

// === impl Object ===

impl Object {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Kind::Service,
            Self::Slice(_) => Kind::EndpointSlice,
            Self::Pod(_) => Kind::Pod,
            Self::Node(_) => Kind::Node,
            Self::Owner(owned) if owned.kind == "Job" => Kind::Job,
            Self::Owner(_) => Kind::ReplicaSet,
            Self::External(_) => Kind::ExternalWorkload,
            Self::Server(_) => Kind::Server,
            Self::Profile(_) => Kind::ServiceProfile,
        }
    }

    /// Kind, namespace and name: what tells it from all others of its cluster.
    pub(crate) fn key(&self) -> (Kind, &'static str, String) {
        let (namespace, name) = match self {
            Self::Service(it) => (it.namespace, it.name),
            Self::Slice(it) => (it.namespace, it.name),
            Self::Pod(it) => (it.namespace, it.name),
            Self::Node(it) => ("", it.name),
            Self::Owner(it) => (it.namespace, it.name),
            Self::External(it) => (it.namespace, it.name),
            Self::Server(it) => (it.namespace, it.name),
            Self::Profile(it) => return (self.kind(), it.namespace, it.full_name()),
        };
        (self.kind(), namespace, name.to_owned())
    }

    /// The object as an API server writes it, as far as anybody may look at it.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Service(it) => it.to_json(),
            Self::Slice(it) => it.to_json(),
            Self::Pod(it) => it.to_json(),
            Self::Node(it) => {
                let labels = texts(&[("topology.kubernetes.io/zone", it.zone)]);
                json!({"metadata": {"name": it.name, "labels": labels}})
            }
            Self::Owner(it) => json!({"metadata": {
                "name": it.name,
                "namespace": it.namespace,
                "ownerReferences": owner_references(&it.owners),
            }}),
            Self::External(it) => it.to_json(),
            Self::Server(it) => it.to_json(),
            Self::Profile(it) => it.to_json(),
        }
    }
}

impl Service {
    fn to_json(&self) -> Value {
        let remote_members = self.remote_members.as_deref();
        json!({
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": texts(&[
                    ("multicluster.linkerd.io/remote-discovery", self.mirror_of_cluster),
                    ("multicluster.linkerd.io/remote-service", self.mirror_of),
                ]),
                "annotations": texts(&[
                    ("config.linkerd.io/opaque-ports", self.opaque_ports),
                    ("multicluster.linkerd.io/local-discovery", self.local_member),
                    ("multicluster.linkerd.io/remote-discovery", remote_members),
                ]),
            },
            "spec": {
                "type": if self.external_name { "ExternalName" } else { "ClusterIP" },
                "internalTrafficPolicy": if self.node_local { "Local" } else { "Cluster" },
                "clusterIP": self.cluster_ips.first(),
                "clusterIPs": self.cluster_ips,
                "ports": self.ports.iter().map(|(name, number)| named_port(name, Some(*number))).collect::<Vec<_>>(),
            },
        })
    }
}

impl Slice {
    fn to_json(&self) -> Value {
        let owner = self.owner.map(|name| OwnerReference {
            kind: "Service",
            name,
        });
        let ports = self.ports.as_ref().map(|ports| {
            let ports = ports.iter().map(|(name, number)| named_port(name, *number));
            ports.collect::<Vec<_>>()
        });
        json!({
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": texts(&[
                    ("kubernetes.io/service-name", self.service),
                    ("mirror.linkerd.io/cluster-name", self.mirrored_cluster),
                ]),
                "annotations": texts(&[
                    ("mirror.linkerd.io/remote-svc-fq-name", self.mirrored_service),
                    ("mirror.linkerd.io/remote-gateway-identity", self.gateway_identity),
                ]),
                "ownerReferences": owner_references(owner.as_slice()),
            },
            "addressType": self.address_type,
            "ports": ports,
            "endpoints": self.endpoints.iter().map(Endpoint::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Endpoint {
    fn to_json(&self) -> Value {
        let for_zones: Vec<Value> = self
            .for_zones
            .iter()
            .map(|zone| json!({"name": zone}))
            .collect();
        json!({
            "addresses": self.addresses,
            "conditions": {"ready": self.ready},
            "targetRef": self.target.as_ref().map(|target| json!({
                "kind": target.kind,
                "namespace": target.namespace,
                "name": target.name,
            })),
            "hostname": self.hostname,
            "zone": self.zone,
            "nodeName": self.node,
            "hints": {"forZones": for_zones},
        })
    }
}

impl Pod {
    fn to_json(&self) -> Value {
        let ips = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
        let ports: Vec<Value> = self
            .ports
            .iter()
            .map(|port| {
                json!({"name": port.name, "containerPort": port.number, "hostPort": port.host})
            })
            .collect();
        let (mut first, mut others) = (Vec::new(), vec![json!({"name": "app", "ports": ports})]);
        if let Some(proxy) = &self.proxy {
            let containers = if proxy.native_sidecar {
                &mut first
            } else {
                &mut others
            };
            containers.push(proxy.to_json());
        }
        json!({
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": texts(&[
                    ("linkerd.io/control-plane-ns", self.control_plane),
                    ("pod-template-hash", self.template_hash),
                    ("tier", self.tier),
                ]),
                "annotations": texts(&[
                    ("config.linkerd.io/opaque-ports", self.opaque_ports),
                    ("config.linkerd.io/skip-inbound-ports", self.skip_inbound_ports),
                ]),
                "ownerReferences": owner_references(&self.owners),
                "deletionTimestamp": self.deleting.then_some("2026-01-01T00:00:00Z"),
            },
            "spec": {
                "nodeName": self.node,
                "hostNetwork": self.host_network,
                "serviceAccountName": self.account,
                "initContainers": first,
                "containers": others,
            },
            "status": {
                "phase": self.phase,
                "podIP": self.ips.first(),
                "podIPs": ips(&self.ips),
                "hostIP": self.host_ips.first(),
                "hostIPs": ips(&self.host_ips),
            },
        })
    }
}

impl Proxy {
    fn to_json(&self) -> Value {
        let env: Vec<Value> = [
            ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", self.inbound),
            ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", self.admin),
            ("LINKERD2_PROXY_CONTROL_LISTEN_ADDR", self.control),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(json!({"name": name, "value": value?})))
        .collect();
        json!({"name": "linkerd-proxy", "env": env})
    }
}

impl External {
    fn to_json(&self) -> Value {
        json!({
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": texts(&[("tier", self.tier)]),
                "annotations": texts(&[("config.linkerd.io/opaque-ports", self.opaque_ports)]),
                "ownerReferences": owner_references(&self.owners),
            },
            "spec": {
                "meshTLS": {"identity": self.identity, "serverName": self.server_name},
                "workloadIPs": self.ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "ports": self.ports.iter().map(|(name, number)| named_port(name, Some(*number))).collect::<Vec<_>>(),
            },
        })
    }
}

impl Server {
    fn to_json(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "proxyProtocol": self.protocol,
                "port": match self.port {
                    ServerPort::Number(number) => json!(number),
                    ServerPort::Name(name) => json!(name),
                },
                "podSelector": self.pods.map(Selector::to_json),
                "externalWorkloadSelector": self.externals.map(Selector::to_json),
            },
        })
    }
}

impl Selector {
    fn to_json(self) -> Value {
        match self {
            Self::Empty => json!({}),
            Self::Label(value) => json!({"matchLabels": {"tier": value}}),
            Self::Expression(operator, values) => json!({"matchExpressions": [
                {"key": "tier", "operator": operator, "values": values},
            ]}),
        }
    }
}

impl Profile {
    pub(crate) fn full_name(&self) -> String {
        let (service, namespace) = self.of;
        format!("{service}.{namespace}.svc.cluster.local")
    }

    fn to_json(&self) -> Value {
        let budget = self.budget.as_ref().map(|budget| {
            json!({
                "retryRatio": budget.ratio,
                "minRetriesPerSecond": budget.min_per_second,
                "ttl": budget.ttl,
            })
        });
        let overrides: Vec<Value> = self
            .overrides
            .iter()
            .map(|(authority, weight)| json!({"authority": authority, "weight": weight}))
            .collect();
        json!({
            "metadata": {"name": self.full_name(), "namespace": self.namespace},
            "spec": {
                "routes": self.routes.iter().map(Route::to_json).collect::<Vec<_>>(),
                "retryBudget": budget,
                "dstOverrides": overrides,
            },
        })
    }
}

impl Route {
    fn to_json(&self) -> Value {
        let condition = texts(&[("method", self.method), ("pathRegex", self.path)]);
        let classes: Vec<Value> = self
            .classes
            .iter()
            .map(|(min, max, failure)| {
                json!({"condition": {"status": {"min": min, "max": max}}, "isFailure": failure})
            })
            .collect();
        json!({
            "name": self.name,
            "condition": if self.negated { json!({"not": condition}) } else { condition },
            "isRetryable": self.retryable,
            "timeout": self.timeout,
            "responseClasses": classes,
        })
    }
}

/// Labels or annotations, of which some may be missing.
fn texts(all: &[(&str, Option<&str>)]) -> Value {
    let present = all
        .iter()
        .filter_map(|(key, value)| Some(((*key).to_owned(), json!((*value)?))));
    Value::Object(present.collect::<Map<_, _>>())
}

fn owner_references(owners: &[OwnerReference]) -> Value {
    let entry = |owner: &OwnerReference| json!({"kind": owner.kind, "name": owner.name});
    owners.iter().map(entry).collect()
}

fn named_port(name: &str, number: Option<i64>) -> Value {
    json!({"name": name, "port": number})
}
