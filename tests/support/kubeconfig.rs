//! Kubeconfig texts, as operators and Linkerd's chart write them.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use super::pki::Identity;

/// How a client is to know that the server is the right one.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By this authority, embedded in the kubeconfig.
    Ca(String),
    /// By an authority in this file of the client's machine.
    CaFile(String),
    /// Not at all: `insecure-skip-tls-verify`.
    Anyone,
}

/// How a client shows who it is.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A bearer token.
    Token(String),
    /// A bearer token in this file of the client's machine.
    TokenFile(String),
    /// A client certificate.
    Certificate(Identity),
}

/// A kubeconfig with one context.
#[derive(Clone, Debug)]
pub struct Access {
    /// The server's URL.
    pub server: String,
    /// How the server is recognised.
    pub trust: Trust,
    /// The name to expect in the server's certificate, if it is not the URL's.
    pub tls_server_name: Option<String>,
    /// The proxy to go through, as a URL.
    pub proxy_url: Option<String>,
    /// How the client is recognised.
    pub credentials: Credentials,
}

// === impl Access ===

impl Access {
    /// The kubeconfig as text.
    ///
    /// # Panics
    ///
    /// Never: JSON that we make can be written.
    pub fn to_yaml(&self) -> String {
        let mut cluster = match &self.trust {
            Trust::Ca(pem) => json!({"certificate-authority-data": BASE64.encode(pem)}),
            Trust::CaFile(file) => json!({"certificate-authority": file}),
            Trust::Anyone => json!({"insecure-skip-tls-verify": true}),
        };
        cluster["server"] = json!(self.server);
        if let Some(name) = &self.tls_server_name {
            cluster["tls-server-name"] = json!(name);
        }
        if let Some(proxy) = &self.proxy_url {
            cluster["proxy-url"] = json!(proxy);
        }
        let user = match &self.credentials {
            Credentials::Token(token) => json!({"token": token}),
            Credentials::TokenFile(file) => json!({"tokenFile": file}),
            Credentials::Certificate(identity) => json!({
                "client-certificate-data": BASE64.encode(&identity.certificate_pem),
                "client-key-data": BASE64.encode(&identity.key_pem),
            }),
        };
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bed",
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}],
            "clusters": [{"name": "bed", "cluster": cluster}],
            "users": [{"name": "bed", "user": user}],
        });
        serde_saphyr::to_string(&kubeconfig).expect("JSON is a kind of YAML")
    }

    /// A client with this access.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::from_yaml(&self.to_yaml())?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }
}
