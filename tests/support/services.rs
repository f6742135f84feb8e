//! Services as teams write them, and the ones that Linkerd's service mirror derives from them, as YAML.
//!
//! Every Service here has one port, `http`, 80, which is port 8080 of the Pods.

use std::fmt::Write as _;

/// What a slice says about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Ready to serve.
    Ready,
    /// Not ready.
    Unready,
    /// Shutting down, and still serving what it has.
    Terminating,
}

/// One Pod behind a Service.
#[derive(Clone, Copy, Debug)]
pub struct Backend<'a> {
    /// The Pod's name.
    pub pod: &'a str,
    /// Its address, IPv4.
    pub ip: &'a str,
    /// The zone that the slice gives it.
    pub zone: &'a str,
    /// What the slice says about it.
    pub condition: Condition,
}

// === impl Backend ===

impl<'a> Backend<'a> {
    /// A ready Pod in zone `za`.
    pub fn ready(pod: &'a str, ip: &'a str) -> Self {
        Self {
            pod,
            ip,
            zone: "za",
            condition: Condition::Ready,
        }
    }

    /// The same Pod, in another condition.
    #[must_use]
    pub fn condition(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }

    /// The same Pod, in another zone.
    #[must_use]
    pub fn zone(self, zone: &'a str) -> Self {
        Self { zone, ..self }
    }
}

/// A Service with a selector.
pub fn service(namespace: &str, name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
"
    )
}

/// A running, meshed Pod with label `app`, on node `n0`.
pub fn pod(namespace: &str, app: &str, name: &str, ip: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app: {app}, linkerd.io/control-plane-ns: linkerd}}
spec:
  nodeName: n0
  serviceAccountName: {app}
  containers:
  - {{name: app, image: app, ports: [{{name: http, containerPort: 8080}}]}}
  - name: linkerd-proxy
    image: proxy
    env:
    - {{name: LINKERD2_PROXY_INBOUND_LISTEN_ADDR, value: '0.0.0.0:4143'}}
    - {{name: LINKERD2_PROXY_ADMIN_LISTEN_ADDR, value: '0.0.0.0:4191'}}
    - {{name: LINKERD2_PROXY_CONTROL_LISTEN_ADDR, value: '0.0.0.0:4190'}}
status:
  phase: Running
  podIP: {ip}
  podIPs: [{{ip: {ip}}}]
  conditions: [{{type: Ready, status: 'True'}}]
---
"
    )
}

/// The one `EndpointSlice` of a Service, as the slice controller would write it.
pub fn slice(namespace: &str, service: &str, backends: &[Backend<'_>]) -> String {
    let mut text = format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-s1
  namespace: {namespace}
  labels:
    kubernetes.io/service-name: {service}
    endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
"
    );
    text += if backends.is_empty() {
        "endpoints: []\n"
    } else {
        "endpoints:\n"
    };
    for backend in backends {
        let Backend {
            pod,
            ip,
            zone,
            condition,
        } = backend;
        let (ready, serving, terminating) = match condition {
            Condition::Ready => (true, true, false),
            Condition::Unready => (false, false, false),
            Condition::Terminating => (false, true, true),
        };
        writeln!(
            text,
            "- addresses: [{ip}]
  conditions: {{ready: {ready}, serving: {serving}, terminating: {terminating}}}
  nodeName: n0
  zone: {zone}
  targetRef: {{kind: Pod, name: {pod}, namespace: {namespace}}}"
        )
        .expect("a String takes any text");
    }
    text += "---\n";
    text
}

/// The `Endpoints` object of a Service, as the endpoints controller would write it. Pods are instances by their names.
pub fn endpoints(namespace: &str, service: &str, backends: &[Backend<'_>]) -> String {
    let list = |wanted: &[Condition]| {
        let listed = backends
            .iter()
            .filter(|backend| wanted.contains(&backend.condition));
        let listed = listed.map(|Backend { pod, ip, .. }| {
            format!(
                "{{ip: {ip}, hostname: {pod}, nodeName: n0, targetRef: {{kind: Pod, name: {pod}, namespace: {namespace}}}}}"
            )
        });
        listed.collect::<Vec<_>>().join(", ")
    };
    let ready = list(&[Condition::Ready]);
    let not_ready = list(&[Condition::Unready, Condition::Terminating]);
    format!(
        "
apiVersion: v1
kind: Endpoints
metadata: {{name: {service}, namespace: {namespace}}}
subsets:
- addresses: [{ready}]
  notReadyAddresses: [{not_ready}]
  ports: [{{name: http, port: 8080, protocol: TCP}}]
---
"
    )
}

/// A Service, its Pods and its slice.
pub fn workload(namespace: &str, name: &str, backends: &[Backend<'_>]) -> String {
    let mut text = service(namespace, name);
    for backend in backends {
        text += &pod(namespace, name, backend.pod, backend.ip);
    }
    text + &slice(namespace, name, backends)
}

/// A node with a zone.
pub fn node(name: &str, zone: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{topology.kubernetes.io/zone: {zone}}}}}
---
"
    )
}

/// The mirror of `service` of `cluster` in flat mode, called `<service>-<cluster>`.
pub fn flat_mirror(namespace: &str, service: &str, cluster: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata:
  name: {service}-{cluster}
  namespace: {namespace}
  labels:
    mirror.linkerd.io/mirrored-service: 'true'
    mirror.linkerd.io/cluster-name: {cluster}
    multicluster.linkerd.io/remote-discovery: {cluster}
    multicluster.linkerd.io/remote-service: {service}
  annotations:
    mirror.linkerd.io/remote-svc-fq-name: {service}.{namespace}.svc.cluster.local
    mirror.linkerd.io/remote-resource-version: '1'
spec:
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
"
    )
}

/// The mirror of `service` of `cluster` in gateway mode, with the slice that leads to the gateway at `gateway_ip`, port 4143.
pub fn gateway_mirror(
    namespace: &str,
    service: &str,
    cluster: &str,
    gateway_ip: &str,
    gateway_identity: &str,
) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata:
  name: {service}-{cluster}
  namespace: {namespace}
  labels:
    mirror.linkerd.io/mirrored-service: 'true'
    mirror.linkerd.io/cluster-name: {cluster}
  annotations:
    mirror.linkerd.io/remote-svc-fq-name: {service}.{namespace}.svc.cluster.local
    mirror.linkerd.io/remote-resource-version: '1'
spec:
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{cluster}-s1
  namespace: {namespace}
  labels:
    kubernetes.io/service-name: {service}-{cluster}
    endpointslice.kubernetes.io/managed-by: endpointslicemirroring-controller.k8s.io
    mirror.linkerd.io/mirrored-service: 'true'
    mirror.linkerd.io/cluster-name: {cluster}
  annotations:
    mirror.linkerd.io/remote-svc-fq-name: {service}.{namespace}.svc.cluster.local
    mirror.linkerd.io/remote-gateway-identity: {gateway_identity}
addressType: IPv4
ports: [{{name: http, port: 4143, protocol: TCP}}]
endpoints:
- {{addresses: [{gateway_ip}], conditions: {{ready: true}}}}
---
"
    )
}

/// The federated Service of `service`, called `<service>-federated`: of the clusters in `remote`, and of this one if `local`.
pub fn federated(namespace: &str, service: &str, local: Local, remote: &[&str]) -> String {
    let members: Vec<_> = remote
        .iter()
        .map(|cluster| format!("{service}@{cluster}"))
        .collect();
    let mut annotations = format!(
        "    multicluster.linkerd.io/remote-discovery: '{}'\n",
        members.join(",")
    );
    if local == Local::Member {
        writeln!(
            annotations,
            "    multicluster.linkerd.io/local-discovery: {service}"
        )
        .expect("a String takes any text");
    }
    format!(
        "
apiVersion: v1
kind: Service
metadata:
  name: {service}-federated
  namespace: {namespace}
  labels: {{mirror.linkerd.io/mirrored-service: 'true'}}
  annotations:
{annotations}spec:
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
"
    )
}

/// Whether the home cluster takes part in a federated Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// It does.
    Member,
    /// It does not.
    Absent,
}

/// What a client asks for.
pub fn authority(namespace: &str, service: &str) -> String {
    format!("{service}.{namespace}.svc.cluster.local:80")
}
