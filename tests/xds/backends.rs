//! Servers behind the endpoints: each answers with its own address.

use std::sync::Arc;

use anyhow::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::support::peers::free_port;
use crate::support::pki::Pki;
use crate::support::runtime;

/// HTTP servers on addresses of the loopback interface, all at one port. They end with this value.
pub struct Backends {
    /// The port.
    pub port: u16,
    _servers: JoinSet<()>,
}

// === impl Backends ===

impl Backends {
    /// Starts a server at each address.
    pub async fn start(addresses: &[&str]) -> Result<Self> {
        let plain = addresses.iter().map(|&address| (address, None));
        Self::start_some_meshed(plain.collect()).await
    }

    /// The same, some of them meshed.
    pub async fn start_some_meshed(addresses: Vec<(&str, Option<Meshed>)>) -> Result<Self> {
        let port = free_port()?;
        let mut servers = JoinSet::new();
        for (address, meshed) in addresses {
            let listener = TcpListener::bind((address, port)).await?;
            let tls = meshed.map(|meshed| TlsAcceptor::from(Arc::new(meshed.config)));
            let serving = serve(listener, address.to_owned(), tls);
            servers.spawn_on(serving, runtime().handle());
        }
        Ok(Self {
            port,
            _servers: servers,
        })
    }
}

/// A server that stands in for the proxy of a meshed Pod: TLS 1.3 and nothing else, for clients that name it and have a
/// certificate of the mesh.
pub struct Meshed {
    config: ServerConfig,
}

impl Meshed {
    /// A server with an identity of its own from the mesh's authority.
    pub fn new(identity: &str, mesh: &Pki) -> Result<Self> {
        let own = mesh.serving_identity(identity)?;
        let provider = || Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(mesh.ca_pem.as_bytes())?)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes())?;
        let chain = vec![CertificateDer::from_pem_slice(
            own.certificate_pem.as_bytes(),
        )?];
        let certified = CertifiedKey::from_der(chain, key, &provider())?;
        let mut by_name = ResolvesServerCertUsingSni::new();
        by_name.add(identity, certified)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(by_name));
        Ok(Self { config })
    }
}

async fn serve(listener: TcpListener, name: String, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    while let Ok((connection, _)) = listener.accept().await {
        let (name, tls) = (name.clone(), tls.clone());
        connections.spawn(async move {
            match tls {
                None => answer(connection, name).await,
                // Who is not let in is told so by that.
                Some(tls) => {
                    if let Ok(connection) = tls.accept(connection).await {
                        answer(connection, name).await;
                    }
                }
            }
        });
    }
}

/// Answers one request after another until the client is gone.
async fn answer(mut connection: impl AsyncRead + AsyncWrite + Unpin, name: String) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
        }
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            let length = name.len();
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
            if connection.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
