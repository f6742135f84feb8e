//! Where the real peers are, that `scripts/deps` installs.

use std::collections::HashSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;

/// The pinned versions, shared with `scripts/deps`.
const VERSIONS: &str = include_str!("../../scripts/peers/versions");

/// Programs that tests start.
#[derive(Clone, Copy, Debug)]
pub enum Peer {
    /// The store of an API server.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// The Kubernetes controllers, of which we want those that write endpoint slices.
    KubeControllerManager,
    /// A gRPC client that needs no generated code.
    Grpcurl,
    /// Python, with the gRPC library that has nothing in common with ours.
    Grpcio,
    /// Packages of Node with another gRPC library: the folder that they are in.
    GrpcJs,
    /// The proxy that most gateways are built on.
    Envoy,
    /// What installs charts.
    Helm,
    /// What people install manifests with.
    Kubectl,
    /// What Prometheus checks rules and metrics with.
    Promtool,
    /// What looks for mistakes in Dockerfiles.
    Hadolint,
}

// === impl Peer ===

impl Peer {
    /// The program's file, or the folder of what is none.
    ///
    /// Fails with what to do about it if the program is not installed.
    pub fn program(self) -> Result<PathBuf> {
        let (name, version, file) = match self {
            Self::Etcd => ("etcd", "ETCD", "etcd"),
            Self::KubeApiserver => ("kube-apiserver", "KUBERNETES", "kube-apiserver"),
            Self::KubeControllerManager => (
                "kube-controller-manager",
                "KUBERNETES",
                "kube-controller-manager",
            ),
            Self::Grpcurl => ("grpcurl", "GRPCURL", "grpcurl"),
            Self::Grpcio => ("grpcio", "GRPCIO", "bin/python"),
            Self::GrpcJs => ("grpc-js", "GRPC_JS", "node_modules"),
            Self::Envoy => ("envoy", "ENVOY", "envoy"),
            Self::Helm => ("helm", "HELM", "helm"),
            Self::Kubectl => ("kubectl", "KUBECTL", "kubectl"),
            Self::Promtool => ("promtool", "PROMTOOL", "promtool"),
            Self::Hadolint => ("hadolint", "HADOLINT", "hadolint"),
        };
        if let Some(program) = given(name) {
            return Ok(program);
        }
        let program = peers_folder()?
            .join(format!("{name}-{}", pinned(version)?))
            .join(file);
        if !program.exists() {
            bail!("{} is missing: run scripts/deps {name}", program.display());
        }
        Ok(program)
    }
}

/// A program from the folder that the usual tools for API server tests use, if it has what a cluster takes.
fn given(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(environment("KUBEBUILDER_ASSETS")?);
    let complete = folder.join("etcd").exists() && folder.join("kube-apiserver").exists();
    let program = folder.join(name);
    (complete && program.exists()).then_some(program)
}

fn peers_folder() -> Result<PathBuf> {
    if let Some(folder) = environment("TRIBUTARY_TEST_PEERS") {
        return Ok(folder.into());
    }
    let cache = match environment("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(environment("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("tributary").join("peers"))
}

fn pinned(name: &str) -> Result<&'static str> {
    VERSIONS
        .lines()
        .filter_map(|line| line.split_once('='))
        .find_map(|(key, version)| (key == name).then_some(version))
        .with_context(|| format!("scripts/peers/versions does not name {name}"))
}

/// A variable of the environment that is set to something.
#[allow(
    clippy::disallowed_methods,
    reason = "the product reads its environment in one place; tests are not the product"
)]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A TCP port of the loopback interface that was free just now, and that no one else in this process is given.
pub fn free_port() -> Result<u16> {
    static GIVEN: OnceLock<Mutex<HashSet<u16>>> = OnceLock::new();
    let given = GIVEN.get_or_init(Mutex::default);
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        if given.lock().insert(port) {
            return Ok(port);
        }
    }
}
