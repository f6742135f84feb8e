//! Objects of every kind that is watched, hostile in detail.

use serde_json::{Value, json};

use super::super::HOME;
use super::shapes::Shape::{self, Condition, Either, Fields, Flag, List, Number, Text};
use super::shapes::text;
use crate::index::{Change, Kind, ObjectName};
use crate::sources::k8s::convert;
use crate::testing::Dice;

/// What a cluster says of an object.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) cluster: &'static str,
    kind: Kind,
    json: Value,
}

const NAMES: &[&str] = &["web", "api", "p0", "p1", "vm0", "s0", "o0", "n0", "east"];
const NAMESPACE: Shape = Text(&["a", "a", "a", "b"]);
const ADDRESS: Shape = Text(&["10.0.0.1", "10.0.0.2", "fd00::1", "10.1.0.1", "fd00::2"]);
const PORT: Shape = Number(&[80, 8080, 4143, 65535]);
const PORT_NAME: Shape = Text(&["http", "http", "db", "linkerd-proxy", ""]);
const ZONE: Shape = Text(&["z0", "z1"]);
const NODE: Shape = Text(&["n0", "n1"]);
const CLUSTER: Shape = Text(&["east", "east", "west", "home"]);
const PORT_LIST: Shape = Text(&["80", "http", "8080,http", "1-65535", "25,443,587,3306"]);

const OWNERS: Shape = List(&Fields(&[
    (
        "kind",
        Text(&["ReplicaSet", "Job", "Service", "Deployment", "Pod"]),
    ),
    ("name", Text(NAMES)),
]));

const METADATA: Shape = Fields(&[
    ("name", Text(NAMES)),
    ("namespace", NAMESPACE),
    ("resourceVersion", Text(&["1", "2"])),
    ("ownerReferences", OWNERS),
    ("creationTimestamp", Text(&["2026-05-01T00:00:00Z"])),
    (
        "deletionTimestamp",
        Either(&Text(&["2026-05-01T00:00:00Z"]), &Fields(&[])),
    ),
    (
        "labels",
        Fields(&[
            ("kubernetes.io/service-name", Text(&["web", "web", "api"])),
            ("linkerd.io/control-plane-ns", Text(&["linkerd"])),
            ("pod-template-hash", Text(&["5d"])),
            ("topology.kubernetes.io/zone", ZONE),
            ("tier", Text(&["gold"])),
        ]),
    ),
    (
        "annotations",
        Fields(&[
            ("config.linkerd.io/opaque-ports", PORT_LIST),
            ("config.linkerd.io/skip-inbound-ports", PORT_LIST),
        ]),
    ),
]);

/// Labels and annotations that only few objects have, since they change everything.
const UNUSUAL_LABELS: Shape = Fields(&[
    ("mirror.linkerd.io/cluster-name", CLUSTER),
    ("multicluster.linkerd.io/remote-discovery", CLUSTER),
    ("multicluster.linkerd.io/remote-service", Text(NAMES)),
    (
        "endpointslice.kubernetes.io/managed-by",
        Text(&["endpointslice-controller.k8s.io"]),
    ),
]);
const UNUSUAL_ANNOTATIONS: Shape = Fields(&[
    (
        "mirror.linkerd.io/remote-svc-fq-name",
        Text(&["web.a.svc.cluster.local"]),
    ),
    (
        "mirror.linkerd.io/remote-gateway-identity",
        Text(&["gateway.linkerd"]),
    ),
    ("multicluster.linkerd.io/local-discovery", Text(NAMES)),
    (
        "multicluster.linkerd.io/remote-discovery",
        Text(&["web@east", "web@east,api@west"]),
    ),
]);

const SERVICE: Shape = Fields(&[
    ("type", Text(&["ClusterIP", "ClusterIP", "ExternalName"])),
    ("internalTrafficPolicy", Text(&["Cluster", "Local"])),
    ("clusterIP", ADDRESS),
    ("clusterIPs", List(&ADDRESS)),
    (
        "ports",
        List(&Fields(&[("name", PORT_NAME), ("port", PORT)])),
    ),
]);

const SUBSETS: Shape = List(&Fields(&[
    ("addresses", SUBSET_ADDRESSES),
    ("notReadyAddresses", SUBSET_ADDRESSES),
    (
        "ports",
        List(&Fields(&[("name", PORT_NAME), ("port", PORT)])),
    ),
]));

const SUBSET_ADDRESSES: Shape = List(&Fields(&[
    ("ip", ADDRESS),
    ("hostname", Text(&["web-0"])),
    ("nodeName", NODE),
    (
        "targetRef",
        Fields(&[
            ("kind", Text(&["Pod", "Pod", "Node"])),
            ("namespace", NAMESPACE),
            ("name", Text(NAMES)),
        ]),
    ),
]));

const ENDPOINTS: Shape = List(&Fields(&[
    ("addresses", List(&ADDRESS)),
    (
        "conditions",
        Fields(&[("ready", Flag), ("serving", Flag), ("terminating", Flag)]),
    ),
    (
        "targetRef",
        Fields(&[
            ("kind", Text(&["Pod", "Pod", "ExternalWorkload", "Node"])),
            ("namespace", NAMESPACE),
            ("name", Text(NAMES)),
        ]),
    ),
    ("hostname", Text(&["web-0"])),
    ("zone", ZONE),
    ("nodeName", NODE),
    (
        "hints",
        Fields(&[("forZones", List(&Fields(&[("name", ZONE)])))]),
    ),
]));

const CONTAINERS: Shape = List(&Fields(&[
    ("name", Text(&["app", "linkerd-proxy", "linkerd-proxy"])),
    (
        "ports",
        List(&Fields(&[
            ("name", PORT_NAME),
            ("containerPort", PORT),
            ("hostPort", PORT),
        ])),
    ),
    (
        "env",
        List(&Fields(&[
            (
                "name",
                Text(&[
                    "LINKERD2_PROXY_INBOUND_LISTEN_ADDR",
                    "LINKERD2_PROXY_ADMIN_LISTEN_ADDR",
                    "LINKERD2_PROXY_CONTROL_LISTEN_ADDR",
                ]),
            ),
            (
                "value",
                Text(&["0.0.0.0:4143", "[::]:4191", "127.0.0.1:8080"]),
            ),
        ])),
    ),
]));

const POD: Shape = Fields(&[
    ("nodeName", NODE),
    ("hostNetwork", Flag),
    ("serviceAccountName", Text(&["app", "default"])),
    ("initContainers", CONTAINERS),
    ("containers", CONTAINERS),
]);

const POD_STATUS: Shape = Fields(&[
    (
        "phase",
        Text(&["Running", "Running", "Running", "Pending", "Failed"]),
    ),
    ("podIP", ADDRESS),
    ("podIPs", List(&Fields(&[("ip", ADDRESS)]))),
    ("hostIP", ADDRESS),
    ("hostIPs", List(&Fields(&[("ip", ADDRESS)]))),
]);

const EXTERNAL_WORKLOAD: Shape = Fields(&[
    (
        "meshTLS",
        Fields(&[
            ("identity", Text(&["spiffe://vm"])),
            ("serverName", Text(&["vm.local"])),
        ]),
    ),
    (
        "ports",
        List(&Fields(&[("name", PORT_NAME), ("port", PORT)])),
    ),
    ("workloadIPs", List(&Fields(&[("ip", ADDRESS)]))),
]);

const SELECTOR: Shape = Fields(&[
    (
        "matchLabels",
        Fields(&[
            ("tier", Text(&["gold"])),
            ("linkerd.io/control-plane-ns", Text(&["linkerd"])),
        ]),
    ),
    (
        "matchExpressions",
        List(&Fields(&[
            ("key", Text(&["tier"])),
            ("operator", Text(&["In", "NotIn", "Exists", "DoesNotExist"])),
            ("values", List(&Text(&["gold"]))),
        ])),
    ),
]);

const SERVER: Shape = Fields(&[
    ("podSelector", SELECTOR),
    ("externalWorkloadSelector", SELECTOR),
    ("port", Either(&PORT, &PORT_NAME)),
    ("proxyProtocol", Text(&["opaque", "opaque", "HTTP/2"])),
]);

const REQUEST_CONDITION: Shape = Condition(&[
    ("method", Text(&["GET", "post"])),
    ("pathRegex", Text(&["/.*", "("])),
]);
const RESPONSE_CONDITION: Shape = Condition(&[(
    "status",
    Fields(&[
        ("min", Number(&[0, 200, 500])),
        ("max", Number(&[0, 299, 599])),
    ]),
)]);

const SERVICE_PROFILE: Shape = Fields(&[
    (
        "routes",
        List(&Fields(&[
            ("name", Text(&["all"])),
            ("condition", REQUEST_CONDITION),
            (
                "responseClasses",
                List(&Fields(&[
                    ("condition", RESPONSE_CONDITION),
                    ("isFailure", Flag),
                ])),
            ),
            ("isRetryable", Flag),
            ("timeout", Text(&["1s", "300ms", "1h30m"])),
        ])),
    ),
    (
        "retryBudget",
        Fields(&[
            ("retryRatio", Number(&[0, 1])),
            ("minRetriesPerSecond", Number(&[0, 10])),
            ("ttl", Text(&["10s", "1m"])),
        ]),
    ),
    (
        "dstOverrides",
        List(&Fields(&[
            ("authority", Text(&["web.a.svc.cluster.local:80", "api.a"])),
            ("weight", Either(&Text(&["1", "500m"]), &Number(&[1, 10]))),
        ])),
    ),
    ("opaquePorts", List(&PORT_NAME)),
]);

const SECRET: Shape = Fields(&[
    ("type", Text(&["mirror.linkerd.io/remote-kubeconfig"])),
    (
        "metadata",
        Fields(&[
            ("name", Text(NAMES)),
            ("namespace", Text(&["linkerd"])),
            (
                "creationTimestamp",
                Text(&["2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z"]),
            ),
            (
                "labels",
                Fields(&[("multicluster.linkerd.io/cluster-name", CLUSTER)]),
            ),
            (
                "annotations",
                Fields(&[
                    (
                        "multicluster.linkerd.io/trust-domain",
                        Text(&["east.example", ""]),
                    ),
                    (
                        "multicluster.linkerd.io/cluster-domain",
                        Text(&["cluster.local", ""]),
                    ),
                ]),
            ),
        ]),
    ),
]);

const KUBECONFIG: Shape = Fields(&[
    ("apiVersion", Text(&["v1"])),
    ("current-context", Text(&["c"])),
    (
        "contexts",
        List(&Fields(&[
            ("name", Text(&["c"])),
            (
                "context",
                Fields(&[("cluster", Text(&["c"])), ("user", Text(&["u"]))]),
            ),
        ])),
    ),
    (
        "clusters",
        List(&Fields(&[
            ("name", Text(&["c"])),
            (
                "cluster",
                Fields(&[
                    (
                        "server",
                        Text(&[
                            "https://10.0.0.1:6443",
                            "http://[::1]",
                            "https://a.b/c?d",
                            "ftp://a",
                        ]),
                    ),
                    (
                        "certificate-authority-data",
                        Text(&[
                            "",
                            "bm9uZQ==",
                            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
                        ]),
                    ),
                    ("insecure-skip-tls-verify", Flag),
                    ("tls-server-name", Text(&["", "a.b", "10.0.0.1"])),
                    ("proxy-url", Text(&["", "http://proxy:3128", "socks5://a"])),
                ]),
            ),
        ])),
    ),
    (
        "users",
        List(&Fields(&[
            ("name", Text(&["u"])),
            (
                "user",
                Fields(&[
                    ("token", Text(&["abc", "a b", ""])),
                    ("client-key-data", Text(&["", "bm9uZQ=="])),
                ]),
            ),
        ])),
    ),
]);

/// An object of any kind that the cluster's role has.
pub(super) fn object(dice: &mut Dice<'_>) -> Said {
    let kind = dice.one(&[
        Kind::Service,
        Kind::EndpointSlice,
        Kind::EndpointSlice,
        Kind::Endpoints,
        Kind::Pod,
        Kind::Pod,
        Kind::ExternalWorkload,
        Kind::Server,
        Kind::ServiceProfile,
        Kind::Node,
        Kind::ReplicaSet,
        Kind::Job,
    ]);
    said(kind, dice)
}

/// A Service or its ServiceProfile.
pub(super) fn service_profile(dice: &mut Dice<'_>) -> Said {
    let kind = dice.one(&[Kind::ServiceProfile, Kind::ServiceProfile, Kind::Service]);
    let mut said = said(kind, dice);
    said.cluster = HOME;
    if kind == Kind::ServiceProfile {
        said.json["metadata"] = json!({"name": "web.a.svc.cluster.local", "namespace": "a"});
    } else {
        said.json["metadata"] = json!({"name": "web", "namespace": "a"});
        said.json["spec"] = json!({"ports": [{"port": 80}]});
    }
    said
}

fn said(kind: Kind, dice: &mut Dice<'_>) -> Said {
    let mut metadata = METADATA.make(dice);
    if dice.percent(40) {
        for (field, shape) in [
            ("labels", UNUSUAL_LABELS),
            ("annotations", UNUSUAL_ANNOTATIONS),
        ] {
            let unusual = shape.make(dice);
            if let (Some(known), Value::Object(unusual)) = (metadata.get_mut(field), unusual)
                && let Some(known) = known.as_object_mut()
            {
                let some = unusual.into_iter().filter(|_| dice.percent(40));
                known.extend(some.collect::<Vec<_>>());
            }
        }
    }
    let json = match kind {
        Kind::Service => json!({"metadata": metadata, "spec": SERVICE.make(dice)}),
        Kind::EndpointSlice => json!({
            "metadata": metadata,
            "addressType": Text(&["IPv4", "IPv6", "FQDN"]).make(dice),
            "endpoints": ENDPOINTS.make(dice),
            "ports": List(&Fields(&[("name", PORT_NAME), ("port", PORT)])).make(dice),
        }),
        Kind::Endpoints => json!({"metadata": metadata, "subsets": SUBSETS.make(dice)}),
        Kind::Pod => {
            json!({"metadata": metadata, "spec": POD.make(dice), "status": POD_STATUS.make(dice)})
        }
        Kind::ExternalWorkload => {
            json!({"metadata": metadata, "spec": EXTERNAL_WORKLOAD.make(dice)})
        }
        Kind::Server => json!({"metadata": metadata, "spec": SERVER.make(dice)}),
        Kind::ServiceProfile => json!({"metadata": metadata, "spec": SERVICE_PROFILE.make(dice)}),
        Kind::Node | Kind::ReplicaSet | Kind::Job => json!({"metadata": metadata}),
    };
    let cluster = if dice.percent(25) { "east" } else { HOME };
    Said {
        cluster,
        kind,
        json,
    }
}

/// A Secret as JSON; its kubeconfig is mostly one.
pub(super) fn secret(dice: &mut Dice<'_>) -> Vec<u8> {
    use base64::Engine as _;
    let mut secret = SECRET.make(dice);
    let kubeconfig = match dice.below(8) {
        0 => text(dice, &[]),
        _ => KUBECONFIG.make(dice).to_string(),
    };
    let encoded = match dice.below(8) {
        0 => kubeconfig,
        _ => base64::engine::general_purpose::STANDARD.encode(kubeconfig),
    };
    if let Some(secret) = secret.as_object_mut() {
        secret.insert("data".to_owned(), json!({"kubeconfig": encoded}));
    }
    secret.to_string().into_bytes()
}

// === impl Said ===

impl Said {
    /// The object's name, and the change that a source makes of it; none of one that cannot be decoded.
    pub(super) fn change(&self) -> Option<(ObjectName, Change)> {
        let converted = convert::decode(self.kind, &self.json).ok()??;
        for warning in &converted.warnings {
            assert!(warning.to_string().len() < 4096, "a warning without end");
        }
        let says = crate::testing::cluster(self.cluster);
        let change = match converted.object {
            Some(object) => says.apply(object),
            None => says.delete_named(converted.name.clone()),
        };
        Some((converted.name, change))
    }

    /// What clients ask that has to do with it: method and path.
    pub(super) fn questions(&self) -> Vec<(&'static str, String)> {
        let metadata = &self.json["metadata"];
        let part = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (part("name"), part("namespace"));
        match self.kind {
            Kind::Service => {
                let number = self.json["spec"]["ports"][0]["port"].as_u64().unwrap_or(80);
                let path = format!("{name}.{namespace}.svc.cluster.local:{number}");
                vec![
                    ("Get", path.clone()),
                    ("GetProfile", path.clone()),
                    ("GetProfile", format!("web-0.{path}")),
                ]
            }
            Kind::Pod | Kind::ExternalWorkload => vec![
                ("GetProfile", "10.0.0.1:8080".to_owned()),
                ("GetProfile", "[fd00::1]:80".to_owned()),
            ],
            _ => Vec::new(),
        }
    }
}
