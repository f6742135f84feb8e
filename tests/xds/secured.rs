//! Clients that find the index behind TLS, with a certificate of their own or without, and files that change.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::backends::Backends;
use crate::envoy::{Envoy, VARIANTS};
use crate::grpc::{Grpc, Language};
use crate::support::peers::free_port;
use crate::support::pki::Pki;
use crate::support::{run, scratch_folder, wait_for};
use crate::world::{ClientTls, Index, Member, World, name};

const ONE: &str = "127.0.3.1";
const TWO: &str = "127.0.3.2";

/// The files of the product, and a client of its authority.
struct Files {
    folder: TempDir,
    client: ClientTls,
}

impl Files {
    fn new() -> Result<Self> {
        let folder = scratch_folder("tls")?;
        let client = authority(&folder.path().join("1"))?;
        let files = Self { folder, client };
        files.put("1")?;
        Ok(files)
    }

    /// Gives the product the certificate and the key of an authority.
    fn put(&self, authority: &str) -> Result<()> {
        let folder = self.folder.path();
        for (from, to) in [("apiserver.crt", "tls.crt"), ("apiserver.key", "tls.key")] {
            fs::copy(folder.join(authority).join(from), folder.join(to))?;
        }
        Ok(())
    }

    async fn start(&self, port: u16, mutual: bool) -> Result<World> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let (certificate, key, ca) = (file("tls.crt"), file("tls.key"), file("1/ca.crt"));
        let mut arguments = vec!["--xds-tls-cert", &certificate, "--xds-tls-key", &key];
        if mutual {
            arguments.extend(["--xds-tls-client-ca", &ca]);
        }
        let world = World::start_with(port, &arguments).await?;
        world.put("web", &[Member::ready(ONE), Member::ready(TWO)])?;
        Ok(world)
    }
}

/// Makes an authority, and what a client of it has.
fn authority(folder: &Path) -> Result<ClientTls> {
    let pki = Pki::create(folder)?;
    let identity = pki.client_identity("gateway")?;
    let (certificate, key) = (folder.join("client.crt"), folder.join("client.key"));
    fs::write(&certificate, identity.certificate_pem)?;
    fs::write(&key, identity.key_pem)?;
    Ok(ClientTls {
        ca: pki.ca_file,
        identity: Some((certificate, key)),
    })
}

fn index(world: &World, client: &ClientTls, mutual: bool) -> Index {
    let mut tls = client.clone();
    if !mutual {
        tls.identity = None;
    }
    Index {
        address: world.xds(),
        tls: Some(tls),
    }
}

/// The certificate that the product shows a client without one, who gets one byte further.
async fn certificate_of(world: &World, ca: &Path) -> Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = TcpStream::connect(world.xds()).await?;
    let name = ServerName::try_from("localhost")?;
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await?;
    // With TLS 1.3 a client learns only by reading that it is not let in.
    tokio::io::AsyncReadExt::read_u8(&mut stream).await?;
    let chain = stream.get_ref().1.peer_certificates();
    let first = chain.and_then(|chain| chain.first());
    Ok(first
        .context("there is a certificate")?
        .clone()
        .into_owned())
}

/// Waits until the product has noticed a change of its files, with this outcome.
async fn until_reload(world: &World, outcome: &str) -> Result<()> {
    let line = format!("tributary_grpc_tls_reloads_total{{outcome=\"{outcome}\"}} 1");
    wait_for(&format!("a reload: {outcome}"), || async {
        let metrics = world.tributary().metrics().await.ok()?;
        metrics.contains(&line).then_some(())
    })
    .await
}

#[test]
#[ignore = "needs Envoy and grpcio: scripts/test xds"]
fn the_index_may_be_behind_tls_and_ask_for_certificates() {
    run(async {
        for mutual in [false, true] {
            let backends = Backends::start(&[ONE, TWO]).await?;
            let files = Files::new()?;
            let world = files.start(backends.port, mutual).await?;
            let index = index(&world, &files.client, mutual);
            for variant in VARIANTS {
                let clusters = [("web", name("web"))];
                let envoy = Envoy::start(index.clone(), variant, &clusters, "").await?;
                envoy.until_hosts("web", &[ONE, TWO]).await?;
                assert_eq!(envoy.answerers(10).await?.len(), 2, "{variant}");
                world.put("web", &[Member::ready(TWO)])?;
                envoy.until_hosts("web", &[TWO]).await?;
                world.put("web", &[Member::ready(ONE), Member::ready(TWO)])?;
            }
            let refused = certificate_of(&world, &files.client.ca).await;
            assert_eq!(refused.is_err(), mutual, "{refused:?}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test xds"]
fn grpc_may_find_the_index_behind_tls() {
    run(async {
        for mutual in [false, true] {
            let port = free_port()?;
            let files = Files::new()?;
            let world = files.start(port, mutual).await?;
            let index = index(&world, &files.client, mutual);
            let mut grpc = Grpc::start(Language::Python, index, port, &[ONE, TWO], &json!({}))?;
            let calls = grpc.call(&name("web"), 20)?;
            assert_eq!(calls.failed, [""; 0]);
            assert_eq!(calls.answered.len(), 2, "{calls:?}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn certificates_are_replaced_without_a_restart() {
    run(async {
        let backends = Backends::start(&[ONE, TWO]).await?;
        let files = Files::new()?;
        let world = files.start(backends.port, false).await?;
        let first = certificate_of(&world, &files.client.ca).await?;
        let clusters = [("web", name("web"))];
        let before = index(&world, &files.client, false);
        let envoy = Envoy::start(before, "DELTA_GRPC", &clusters, "").await?;
        envoy.until_hosts("web", &[ONE, TWO]).await?;

        // Of no use: what was there before stays.
        fs::write(files.folder.path().join("tls.key"), "not a key")?;
        until_reload(&world, "failed").await?;
        assert_eq!(certificate_of(&world, &files.client.ca).await?, first);
        let log = world
            .tributary()
            .log_line("the last good ones stay in force")
            .await?;
        assert!(log.contains("tls.key"), "{log}");

        // Another authority's.
        let other = authority(&files.folder.path().join("2"))?;
        files.put("2")?;
        until_reload(&world, "ok").await?;
        assert!(certificate_of(&world, &files.client.ca).await.is_err());
        assert_ne!(certificate_of(&world, &other.ca).await?, first);
        let after = index(&world, &other, false);
        let second = Envoy::start(after, "GRPC", &clusters, "").await?;
        second.until_hosts("web", &[ONE, TWO]).await?;
        // Who was connected still is.
        world.put("web", &[Member::ready(ONE)])?;
        envoy.until_hosts("web", &[ONE]).await?;
        second.until_hosts("web", &[ONE]).await?;
        Ok(())
    });
}
