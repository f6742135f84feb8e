//! Links between clusters: the Secrets that Linkerd's `multicluster link-gen` writes for the discovery service.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kubeconfig::{Access, Credentials};
use super::rbac::CONTROL_PLANE_NAMESPACE;

/// A Secret that links a cluster, before it is stored.
#[derive(Clone, Debug)]
pub struct Link {
    /// The Secret's name.
    pub secret: String,
    /// The name by which the cluster will be known.
    pub cluster: String,
    /// The domain of its identities; empty for none.
    pub trust_domain: String,
    /// The domain of its names.
    pub cluster_domain: String,
    /// How it is reached.
    pub access: Access,
}

// === impl Link ===

impl Link {
    /// A link to `remote` under the name `cluster`, with a new token, as Linkerd's tools would make it.
    pub async fn to(remote: &Cluster, cluster: &str) -> Result<Self> {
        let token = remote.remote_token().await?;
        Ok(Self {
            secret: format!("cluster-credentials-{cluster}"),
            cluster: cluster.to_owned(),
            trust_domain: "cluster.local".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            access: remote.access(Credentials::Token(token)),
        })
    }

    /// The same, through another address, such as a [`super::fault_proxy::FaultProxy`]'s.
    #[must_use]
    pub fn through(mut self, address: std::net::SocketAddr) -> Self {
        self.access.server = format!("https://{address}");
        self
    }

    /// The Secret.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "mirror.linkerd.io/remote-kubeconfig",
            "metadata": {
                "name": self.secret,
                "namespace": CONTROL_PLANE_NAMESPACE,
                "labels": {"multicluster.linkerd.io/cluster-name": self.cluster},
                "annotations": {
                    "multicluster.linkerd.io/trust-domain": self.trust_domain,
                    "multicluster.linkerd.io/cluster-domain": self.cluster_domain,
                },
            },
            "data": {"kubeconfig": BASE64.encode(self.access.to_yaml())},
        })
    }

    /// The Secret with another text for a kubeconfig.
    pub fn with_kubeconfig(&self, text: &str) -> Value {
        let mut secret = self.to_json();
        secret["data"]["kubeconfig"] = json!(BASE64.encode(text));
        secret
    }

    /// Stores the Secret in `home`, in place of an earlier one of its name.
    pub async fn store(&self, home: &Cluster) -> Result<()> {
        home.apply(&self.to_json().to_string()).await
    }
}

/// Links `remote` to `home` under `name`.
pub async fn link(home: &Cluster, remote: &Cluster, name: &str) -> Result<()> {
    Link::to(remote, name).await?.store(home).await
}

/// Takes the link `name` away from `home`.
pub async fn unlink(home: &Cluster, name: &str) -> Result<()> {
    home.delete_object(
        "Secret",
        CONTROL_PLANE_NAMESPACE,
        &format!("cluster-credentials-{name}"),
    )
    .await
}
