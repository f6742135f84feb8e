//! A home cluster in files: one Service that everybody asks for, and one just like it that nobody does.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use tempfile::TempDir;

pub const NAMESPACE: &str = "shop";
pub const SERVICE: &str = "web";
/// Changes to it show what a change costs by itself.
pub const UNWATCHED: &str = "unwatched";
/// Endpoints of each Service.
pub const ENDPOINTS: u32 = 100;

pub struct Manifests {
    folder: TempDir,
    /// Of each Service.
    changes: [u32; 2],
}

// === impl Manifests ===

impl Manifests {
    pub fn new() -> Result<Self> {
        let manifests = Self {
            folder: tempfile::tempdir()?,
            changes: [0, 0],
        };
        std::fs::create_dir(manifests.path().join("home"))?;
        for (number, service) in [SERVICE, UNWATCHED].into_iter().enumerate() {
            let pods: String = (0..ENDPOINTS)
                .map(|pod| pod_yaml(service, number, pod))
                .collect();
            manifests.write(&format!("{service}-pods.yaml"), &pods)?;
            manifests.write(
                &format!("{service}.yaml"),
                &service_yaml(service, number, 0),
            )?;
        }
        Ok(manifests)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the first endpoint of a Service another zone.
    pub fn change(&mut self, service: &str) -> Result<()> {
        let number = usize::from(service == UNWATCHED);
        self.changes[number] += 1;
        self.write(
            &format!("{service}.yaml"),
            &service_yaml(service, number, self.changes[number]),
        )
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let staged = self.path().join("staged");
        std::fs::write(&staged, text)?;
        std::fs::rename(staged, self.path().join("home").join(file))?;
        Ok(())
    }
}

fn ip(service: usize, pod: u32) -> String {
    format!("10.42.{service}.{pod}")
}

fn pod_yaml(service: &str, number: usize, pod: u32) -> String {
    let ip = ip(number, pod);
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {service}-{pod}
  namespace: {NAMESPACE}
  labels: {{app: {service}, linkerd.io/control-plane-ns: linkerd}}
  ownerReferences: [{{apiVersion: apps/v1, kind: StatefulSet, name: {service}}}]
spec:
  nodeName: node-{node}
  serviceAccountName: {service}
  containers:
  - {{name: {service}, ports: [{{name: http, containerPort: 8080}}]}}
  - name: linkerd-proxy
    env:
    - {{name: LINKERD2_PROXY_INBOUND_LISTEN_ADDR, value: \"0.0.0.0:4143\"}}
    - {{name: LINKERD2_PROXY_ADMIN_LISTEN_ADDR, value: \"0.0.0.0:4191\"}}
    - {{name: LINKERD2_PROXY_CONTROL_LISTEN_ADDR, value: \"0.0.0.0:4190\"}}
status: {{phase: Running, podIP: {ip}, podIPs: [{{ip: {ip}}}]}}
---",
        node = pod % 10,
    )
}

fn service_yaml(service: &str, number: usize, changes: u32) -> String {
    let mut yaml = format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {service}, namespace: {NAMESPACE}}}
spec: {{ports: [{{name: http, port: 80, targetPort: 8080}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-1
  namespace: {NAMESPACE}
  labels: {{kubernetes.io/service-name: {service}}}
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
endpoints:"
    );
    for pod in 0..ENDPOINTS {
        let zone = if pod == 0 { changes % 2 + 3 } else { pod % 3 };
        write!(
            yaml,
            "
- addresses: [{ip}]
  conditions: {{ready: true, serving: true, terminating: false}}
  nodeName: node-{node}
  zone: zone-{zone}
  targetRef: {{kind: Pod, name: {service}-{pod}, namespace: {NAMESPACE}}}",
            ip = ip(number, pod),
            node = pod % 10,
        )
        .expect("writing to a String cannot fail");
    }
    yaml.push_str("\n---\n");
    yaml
}
