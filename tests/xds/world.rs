//! A home cluster of files, the product that serves it by xDS, and Services whose Pods are servers of these tests.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use crate::support::manifests::Manifests;
use crate::support::peers::free_port;
use crate::support::services::pod;
use crate::support::tributary::Tributary;

/// A home cluster and its product.
pub struct World {
    manifests: Manifests,
    tributary: Option<Tributary>,
    xds: SocketAddr,
    arguments: Vec<String>,
    port: u16,
}

/// Where a client finds xDS, and what it takes to be let in.
#[derive(Clone, Debug)]
pub struct Index {
    /// The listener.
    pub address: SocketAddr,
    /// How it is secured, if it is.
    pub tls: Option<ClientTls>,
}

/// What a client has for TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The authority that it trusts.
    pub ca: PathBuf,
    /// Its own certificate and key, if it has one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// One endpoint of a Service.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    ip: &'a str,
    zone: &'a str,
    terminating: bool,
    /// The service account of the meshed Pod that it is, if it is one.
    account: Option<&'a str>,
}

// === impl Member ===

impl<'a> Member<'a> {
    /// A ready endpoint.
    pub fn ready(ip: &'a str) -> Self {
        Self {
            ip,
            zone: "za",
            terminating: false,
            account: None,
        }
    }

    /// A ready endpoint that is a meshed Pod with a service account.
    pub fn meshed(ip: &'a str, account: &'a str) -> Self {
        Self {
            account: Some(account),
            ..Self::ready(ip)
        }
    }

    /// One that is going away, and still answers.
    pub fn terminating(ip: &'a str) -> Self {
        Self {
            terminating: true,
            ..Self::ready(ip)
        }
    }
}

// === impl World ===

impl World {
    /// Starts the product; endpoints are at `port`.
    pub async fn start(port: u16) -> Result<Self> {
        Self::start_with(port, &[]).await
    }

    /// The same, with arguments.
    pub async fn start_with(port: u16, arguments: &[&str]) -> Result<Self> {
        let mut world = Self {
            manifests: Manifests::new()?,
            tributary: None,
            xds: SocketAddr::from(([127, 0, 0, 1], free_port()?)),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            port,
        };
        world.start_again().await?;
        Ok(world)
    }

    /// Starts the product where it was before.
    pub async fn start_again(&mut self) -> Result<()> {
        let xds = self.xds.to_string();
        let mut arguments = vec!["--xds-addr", &xds, "--drain-timeout", "0s"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let tributary = Tributary::serve_manifests(self.manifests.path(), &arguments).await?;
        self.tributary = Some(tributary);
        Ok(())
    }

    /// Ends the product as Kubernetes does.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(tributary) = self.tributary.take() {
            tributary.terminate().await?;
        }
        Ok(())
    }

    /// Ends the product as a failing machine does.
    pub fn kill(&mut self) {
        self.tributary = None;
    }

    /// Where xDS is served.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// The product.
    pub fn tributary(&self) -> &Tributary {
        self.tributary.as_ref().expect("it runs")
    }

    /// Writes a Service of the home cluster and its endpoints.
    pub fn put(&self, service: &str, members: &[Member<'_>]) -> Result<()> {
        self.put_in("home", service, members)
    }

    /// Writes a Service of a cluster and its endpoints.
    pub fn put_in(&self, cluster: &str, service: &str, members: &[Member<'_>]) -> Result<()> {
        let text = service_text(service, self.port, members);
        self.manifests
            .write(&format!("{cluster}/{service}.yaml"), &text)
    }

    /// Writes a file.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        self.manifests.write(file, text)
    }

    /// Deletes a Service with all that is its own.
    pub fn delete(&self, service: &str) -> Result<()> {
        let file = self.manifests.path().join(format!("home/{service}.yaml"));
        Ok(std::fs::remove_file(file)?)
    }
}

// === impl Index ===

impl From<SocketAddr> for Index {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

/// The name of a resource.
pub fn name(service: &str) -> String {
    format!("{service}.shop.svc.cluster.local:80")
}

fn service_text(service: &str, port: u16, members: &[Member<'_>]) -> String {
    let mut text = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {service}, namespace: shop}}
spec:
  ports: [{{name: http, port: 80}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-1
  namespace: shop
  labels: {{kubernetes.io/service-name: {service}}}
addressType: IPv4
ports: [{{name: http, port: {port}}}]
endpoints:
"
    );
    if members.is_empty() {
        text.truncate(text.len() - 1);
        text += " []\n";
    }
    for member in members {
        let ready = !member.terminating;
        writeln!(
            text,
            "- addresses: [{}]\n  zone: {}\n  conditions: {{ready: {ready}, serving: true, terminating: {}}}",
            member.ip, member.zone, member.terminating
        )
        .expect("a text takes everything");
        if member.account.is_some() {
            let target = format!("{{kind: Pod, name: {}, namespace: shop}}", pod_name(member));
            writeln!(text, "  targetRef: {target}").expect("a text takes everything");
        }
    }
    for member in members {
        if let Some(account) = member.account {
            text += "---";
            text += &pod("shop", account, &pod_name(member), member.ip);
        }
    }
    text
}

fn pod_name(member: &Member<'_>) -> String {
    format!("pod-{}", member.ip.replace('.', "-"))
}
