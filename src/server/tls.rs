//! TLS of a listener. Certificate, key and the authorities of clients come from files, and are read again when these change.
//!
//! What is not usable is not used: the last that was stays in force, and connections that are open go on as they are.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Files are looked at this often even if nothing tells of a change.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// A change of several files is over when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(100);
/// What gRPC speaks.
const HTTP2: &[u8] = b"h2";

/// The files, all of them PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and the authority that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities whose clients are let in; with none, clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// Why files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("reading {} failed", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file is not what it should be.
    #[error("{} is not the {} that was expected", .0.display(), .1)]
    Pem(PathBuf, Expected, #[source] pem::Error),
    /// A file has no certificates.
    #[error("there is no certificate in {}", .0.display())]
    Empty(PathBuf),
    /// The authorities of clients cannot be used.
    #[error("the authorities of clients cannot be used")]
    Authorities(#[source] VerifierBuilderError),
    /// One of the authorities cannot be used.
    #[error("an authority in {} cannot be used", .0.display())]
    Authority(PathBuf, #[source] rustls::Error),
    /// Certificate and key cannot be used together.
    #[error("the certificate in {} cannot be used with the key in {}", .0.display(), .1.display())]
    Pair(PathBuf, PathBuf, #[source] rustls::Error),
}

/// What a file should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Certificates.
    Certificates,
    /// A private key.
    Key,
}

/// How connections are secured now. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls(watch::Receiver<Arc<ServerConfig>>);

/// Keeps a [`Tls`] in step with its files; has to run.
#[derive(Debug)]
pub struct Reload {
    files: TlsFiles,
    config: watch::Sender<Arc<ServerConfig>>,
    /// What was read last, of use or not.
    read: Read,
    metrics: Metrics,
}

/// What is counted of TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    pub(super) handshakes_failed: Counter,
    reloads: Family<Outcome, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// What came of reading the files, so that equal results are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Read {
    Contents(Contents),
    /// They could not be read, for this reason.
    Failed(String),
}

// === impl Tls ===

impl Tls {
    /// Reads the files, and says what has to run so that changes in them are noticed.
    pub async fn load(
        files: TlsFiles,
        metrics: &super::Metrics,
    ) -> Result<(Self, Reload), TlsError> {
        let contents = Contents::read(&files).await?;
        let (config, current) = watch::channel(Arc::new(contents.config(&files)?));
        let reload = Reload {
            files,
            config,
            read: Read::Contents(contents),
            metrics: metrics.tls.clone(),
        };
        Ok((Self(current), reload))
    }

    /// What the next connection is accepted with.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.borrow()))
    }
}

// === impl Reload ===

impl Reload {
    /// Works until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let changed = Arc::new(Notify::new());
        let watcher = watcher(&self.files, &changed);
        if let Err(error) = &watcher {
            warn!(%error, "cannot watch the files of TLS, looking at them once a minute");
        }
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = changed.notified() => tokio::time::sleep(QUIET).await,
            }
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let (found, config) = match Contents::read(&self.files).await {
            Ok(contents) => {
                let config = contents.config(&self.files);
                (Read::Contents(contents), config)
            }
            Err(error) => (Read::Failed(chain(&error)), Err(error)),
        };
        if found == self.read {
            return;
        }
        self.read = found;
        match config {
            Ok(config) => {
                self.metrics.reloaded("ok");
                self.config.send_replace(Arc::new(config));
                info!(certificate = %self.files.certificate.display(), "certificate of TLS replaced");
            }
            Err(error) => {
                self.metrics.reloaded("failed");
                warn!(error = %chain(&error), "files of TLS changed and are of no use, the last good ones stay in force");
            }
        }
    }
}

/// Notices changes in the folders of the files: a file may be replaced as a whole, or be a link that is made to point
/// elsewhere, as in volumes of Kubernetes.
fn watcher(files: &TlsFiles, changed: &Arc<Notify>) -> Result<RecommendedWatcher, notify::Error> {
    let changed = Arc::clone(changed);
    let handler = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            changed.notify_one();
        }
    };
    let mut watcher = notify::recommended_watcher(handler)?;
    let mut seen: Vec<&Path> = Vec::new();
    for file in files.all() {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !seen.contains(&folder) {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            seen.push(folder);
        }
    }
    Ok(watcher)
}

/// An error and what it comes from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

// === impl TlsFiles ===

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &Path> {
        let files = [
            Some(&self.certificate),
            Some(&self.key),
            self.client_ca.as_ref(),
        ];
        files.into_iter().flatten().map(PathBuf::as_path)
    }
}

// === impl Contents ===

impl Contents {
    async fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: read(&files.certificate).await?,
            key: read(&files.key).await?,
            client_ca: match &files.client_ca {
                Some(file) => Some(read(file).await?),
                None => None,
            },
        })
    }

    /// The settings of TLS that they make.
    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let chain = certificates(&files.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| TlsError::Pem(files.key.clone(), Expected::Key, error))?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| pair(files, error))?;
        let builder = match files.client_ca.as_deref().zip(self.client_ca.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((file, pem)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(file, pem)? {
                    roots
                        .add(authority)
                        .map_err(|error| TlsError::Authority(file.to_owned(), error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                        .build()
                        .map_err(TlsError::Authorities)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| pair(files, error))?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(config)
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(file)
        .await
        .map_err(|error| TlsError::Read(file.to_owned(), error))
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(TlsError::Empty(file.to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(TlsError::Pem(
            file.to_owned(),
            Expected::Certificates,
            error,
        )),
    }
}

fn pair(files: &TlsFiles, error: rustls::Error) -> TlsError {
    TlsError::Pair(files.certificate.clone(), files.key.clone(), error)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

// === impl Expected ===

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificates => "list of certificates",
            Self::Key => "private key",
        })
    }
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for outcome in ["ok", "failed"] {
            drop(metrics.reloads.get_or_create(&Outcome { outcome }));
        }
        registry.register(
            "grpc_tls_handshakes_failed",
            "Connections to a listener with TLS that did not get as far as gRPC",
            metrics.handshakes_failed.clone(),
        );
        registry.register(
            "grpc_tls_reloads",
            "Changes noticed in the files of TLS, by outcome: ok, or failed if the last good ones stay in force",
            metrics.reloads.clone(),
        );
        metrics
    }

    fn reloaded(&self, outcome: &'static str) {
        self.reloads.get_or_create(&Outcome { outcome }).inc();
    }
}

#[cfg(test)]
mod tests;
