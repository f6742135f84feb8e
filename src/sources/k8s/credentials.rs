//! Kubeconfigs of credential Secrets → credentials, or why they cannot be used.
//!
//! Pure. Whoever may write a Secret must not thereby run commands or read files where we run, so only what stands in the
//! kubeconfig itself counts: tokens, certificates, keys. Nothing of those is ever printed, not even in an error.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::convert::quote;

/// Longest kubeconfig that is looked at.
const KUBECONFIG_BYTES_MAX: usize = 512 * 1024;

/// What is needed to talk to the API server of one cluster.
#[derive(Clone)]
pub(super) struct Credentials {
    config: kube::Config,
}

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    #[error("it is longer than {KUBECONFIG_BYTES_MAX} bytes")]
    TooLong,
    #[error("it is not base64")]
    Base64,
    #[error("it is not text in UTF-8")]
    Utf8,
    #[error("it is not YAML with the structure of a kubeconfig{0}")]
    Yaml(Place),
    #[error("it has no current-context")]
    NoCurrentContext,
    #[error("current-context names context {0:?}, which it does not have")]
    NoContext(String),
    #[error("context {0:?} names no cluster that it has")]
    NoCluster(String),
    #[error("context {0:?} names no user that it has")]
    NoUser(String),
    #[error("cluster {0:?} has no server")]
    NoServer(String),
    #[error("server of cluster {0:?} is not an http or https URL, or has a user in it")]
    Server(String),
    #[error("proxy-url of cluster {0:?} is not an http or https URL")]
    ProxyUrl(String),
    #[error("tls-server-name of cluster {0:?} is not a host name")]
    TlsServerName(String),
    #[error("certificate-authority-data of cluster {0:?} is not a PEM certificate in base64")]
    Authority(String),
    #[error(
        "{field} of {owner} names a file; put its contents into {field}-data instead: files are not read, as a Secret's author could name any"
    )]
    File { owner: String, field: &'static str },
    #[error(
        "user {user:?} uses {mechanism}; only tokens and client certificates are accepted: a Secret's author could make it run commands or read files here"
    )]
    Mechanism {
        user: String,
        mechanism: &'static str,
    },
    #[error("token of user {0:?} has characters that no token has")]
    Token(String),
    #[error("client-certificate-data or client-key-data of user {0:?} is missing or not in base64")]
    Certificate(String),
    #[error("user {0:?} has neither a token nor a client certificate")]
    Nothing(String),
}

/// Where in a text something is wrong, if that is known.
#[derive(Debug)]
pub(super) struct Place(Option<(u64, u64)>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    current_context: Option<String>,
    contexts: Option<Vec<ContextEntry>>,
    clusters: Option<Vec<ClusterEntry>>,
    users: Option<Vec<UserEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextEntry {
    name: Option<String>,
    context: Option<ContextFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextFields {
    cluster: Option<String>,
    user: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClusterEntry {
    name: Option<String>,
    cluster: Option<ClusterFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct ClusterFields {
    server: Option<String>,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserEntry {
    name: Option<String>,
    user: Option<UserFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UserFields {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    username: Option<IgnoredAny>,
    password: Option<IgnoredAny>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    #[serde(rename = "as")]
    impersonate: Option<IgnoredAny>,
}

// === impl Credentials ===

impl Credentials {
    /// Reads the value that a Secret has under `kubeconfig`.
    pub(super) fn from_base64(data: &str) -> Result<Self, CredentialsError> {
        if data.len() > KUBECONFIG_BYTES_MAX / 3 * 4 {
            return Err(CredentialsError::TooLong);
        }
        let bytes = STANDARD
            .decode(data.trim())
            .map_err(|_| CredentialsError::Base64)?;
        Self::parse(&bytes)
    }

    /// Reads a kubeconfig. Only its current context counts; what else it has is not looked at.
    pub(super) fn parse(kubeconfig: &[u8]) -> Result<Self, CredentialsError> {
        if kubeconfig.len() > KUBECONFIG_BYTES_MAX {
            return Err(CredentialsError::TooLong);
        }
        let text = std::str::from_utf8(kubeconfig).map_err(|_| CredentialsError::Utf8)?;
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            // The error itself may quote the text, and with it a token.
            let location = error.location();
            CredentialsError::Yaml(Place(location.map(|at| (at.line(), at.column()))))
        })?;
        let wanted = filled(file.current_context).ok_or(CredentialsError::NoCurrentContext)?;
        let context = file
            .contexts
            .into_iter()
            .flatten()
            .find(|entry| entry.name.as_deref() == Some(wanted.as_str()))
            .and_then(|entry| entry.context)
            .ok_or_else(|| CredentialsError::NoContext(quote(&wanted)))?;
        let (cluster_name, cluster) = file
            .clusters
            .into_iter()
            .flatten()
            .find(|entry| entry.name.is_some() && entry.name == context.cluster)
            .and_then(|entry| Some((entry.name?, entry.cluster?)))
            .ok_or_else(|| CredentialsError::NoCluster(quote(&wanted)))?;
        let (user_name, user) = file
            .users
            .into_iter()
            .flatten()
            .find(|entry| entry.name.is_some() && entry.name == context.user)
            .and_then(|entry| Some((entry.name?, entry.user?)))
            .ok_or_else(|| CredentialsError::NoUser(quote(&wanted)))?;
        let cluster = cluster.accept(&quote(&cluster_name))?;
        let user = user.accept(&quote(&user_name))?;
        let name = quote(&cluster_name);
        let config =
            kube::Config::try_from(assemble(cluster, user)).map_err(|error| match error {
                kube::config::KubeconfigError::ParseProxyUrl(_) => CredentialsError::ProxyUrl(name),
                _ => CredentialsError::Authority(name),
            })?;
        Ok(Self { config })
    }

    /// The configuration of a client.
    pub(super) fn config(&self) -> &kube::Config {
        &self.config
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("server", &self.config.cluster_url)
            .finish_non_exhaustive()
    }
}

fn assemble(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
    let name = || "linked".to_owned();
    Kubeconfig {
        current_context: Some(name()),
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context {
                cluster: name(),
                user: Some(name()),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        clusters: vec![NamedCluster {
            name: name(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        ..Kubeconfig::default()
    }
}

// === impl ClusterFields ===

impl ClusterFields {
    fn accept(self, name: &str) -> Result<Cluster, CredentialsError> {
        let named = || name.to_owned();
        if filled(self.certificate_authority).is_some() {
            return Err(CredentialsError::File {
                owner: format!("cluster {name:?}"),
                field: "certificate-authority",
            });
        }
        let server = filled(self.server).ok_or_else(|| CredentialsError::NoServer(named()))?;
        if !is_web_address(&server) || server.contains('@') {
            return Err(CredentialsError::Server(named()));
        }
        let proxy_url = filled(self.proxy_url);
        if proxy_url
            .as_deref()
            .is_some_and(|proxy| !is_web_address(proxy))
        {
            return Err(CredentialsError::ProxyUrl(named()));
        }
        let tls_server_name = filled(self.tls_server_name);
        if let Some(host) = &tls_server_name {
            rustls::pki_types::ServerName::try_from(host.as_str())
                .map_err(|_| CredentialsError::TlsServerName(named()))?;
        }
        Ok(Cluster {
            server: Some(server),
            certificate_authority_data: filled(self.certificate_authority_data),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            tls_server_name,
            proxy_url,
            ..Cluster::default()
        })
    }
}

// === impl UserFields ===

impl UserFields {
    fn accept(self, name: &str) -> Result<AuthInfo, CredentialsError> {
        let named = || name.to_owned();
        for (present, mechanism) in [
            (self.exec.is_some(), "exec"),
            (self.auth_provider.is_some(), "auth-provider"),
            (
                self.username.is_some() || self.password.is_some(),
                "a username and password",
            ),
            (self.impersonate.is_some(), "impersonation"),
        ] {
            if present {
                return Err(CredentialsError::Mechanism {
                    user: named(),
                    mechanism,
                });
            }
        }
        if filled(self.token_file).is_some() {
            return Err(CredentialsError::Mechanism {
                user: named(),
                mechanism: "tokenFile",
            });
        }
        for (path, field) in [
            (self.client_certificate, "client-certificate"),
            (self.client_key, "client-key"),
        ] {
            if filled(path).is_some() {
                return Err(CredentialsError::File {
                    owner: format!("user {name:?}"),
                    field,
                });
            }
        }
        let token = filled(self.token.map(|token| token.trim().to_owned()));
        if token
            .as_deref()
            .is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(CredentialsError::Token(named()));
        }
        let is_base64 = |data: &String| STANDARD.decode(data).is_ok();
        let certificate = filled(self.client_certificate_data);
        let key = filled(self.client_key_data);
        match (&certificate, &key) {
            (None, None) if token.is_none() => return Err(CredentialsError::Nothing(named())),
            (None, None) => {}
            (Some(certificate), Some(key)) if is_base64(certificate) && is_base64(key) => {}
            _ => return Err(CredentialsError::Certificate(named())),
        }
        Ok(AuthInfo {
            token: token.map(Into::into),
            client_certificate_data: certificate,
            client_key_data: key.map(Into::into),
            ..AuthInfo::default()
        })
    }
}

// === impl Place ===

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((line, column)) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn is_web_address(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    })
}

#[cfg(test)]
mod tests;
