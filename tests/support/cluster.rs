//! One Kubernetes cluster: an etcd and a kube-apiserver, and what can go wrong with them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, ensure};
use kube::Client;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::kubeconfig::{Access, Credentials, Trust};
use super::objects::Resources;
use super::peers::{Peer, free_port};
use super::pki::{self, Pki};
use super::process::{Process, Signal};
use super::{http, scratch_folder, wait_for};

/// The administrator's token in every cluster of the bed.
const ADMIN_TOKEN: &str = "admin-token";

/// Small definitions of the custom resources that Linkerd brings.
const LINKERD_CRDS: &str = include_str!("linkerd-crds.yaml");

/// A running cluster without nodes: an API server that nothing acts upon, unless [`Cluster::start_controller_manager`] is called.
///
/// Every cluster has Service address ranges of its own, IPv4 and IPv6: `10.<n>.0.0/16` and `fd00:<n>::/112` with n from
/// [`Cluster::number`]. All ends when the value is dropped or the test process ends.
pub struct Cluster {
    name: String,
    number: u8,
    folder: TempDir,
    token_keys: (PathBuf, PathBuf),
    etcd: SocketAddr,
    etcd_process: Process,
    resources: Resources,
    state: Mutex<State>,
}

/// What changes while a cluster lives.
struct State {
    port: u16,
    pki: Arc<Pki>,
    certificates_made: u32,
    client: Client,
    apiserver: Option<Process>,
    controller_manager: Option<Process>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts a cluster and waits until its API server is ready. Several may start at the same time.
    pub async fn start(name: &str) -> Result<Self> {
        static NUMBERS: AtomicU8 = AtomicU8::new(96);
        Self::start_numbered(name, NUMBERS.fetch_add(1, Ordering::Relaxed)).await
    }

    /// Starts a cluster with that number in its Service address ranges, whether or not another one has it.
    pub async fn start_numbered(name: &str, number: u8) -> Result<Self> {
        let folder = scratch_folder(name)?;
        let path = folder.path();
        std::fs::write(
            path.join("tokens.csv"),
            format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"),
        )?;
        let pki = Pki::create(&path.join("pki-0"))?;
        let port = free_port()?;
        let (etcd, etcd_process) = start_etcd(name, path)?;
        wait_for(&format!("etcd of {name}"), || async {
            let answer = http::get(etcd, "/health").await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await
        .with_context(|| etcd_process.log_tail(20))?;

        let client = admin_access(port, &pki.ca_pem).client().await?;
        let cluster = Self {
            name: name.to_owned(),
            number,
            token_keys: pki::create_token_keys(path)?,
            etcd,
            etcd_process,
            resources: Resources::default(),
            state: Mutex::new(State {
                port,
                pki: Arc::new(pki),
                certificates_made: 1,
                client,
                apiserver: None,
                controller_manager: None,
            }),
            folder,
        };
        cluster.start_apiserver().await?;
        Ok(cluster)
    }

    /// Starts several clusters side by side.
    pub async fn start_all<const N: usize>(names: [&str; N]) -> Result<[Arc<Self>; N]> {
        let started = futures::future::try_join_all(names.map(Self::start)).await?;
        let clusters: Vec<_> = started.into_iter().map(Arc::new).collect();
        Ok(clusters
            .try_into()
            .ok()
            .expect("one cluster for every name"))
    }

    /// The name it was started with; it means nothing to the cluster itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number in its Service address ranges.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Where its API server listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.state.lock().port))
    }

    /// Its authority and certificates of the present.
    pub fn pki(&self) -> Arc<Pki> {
        self.state.lock().pki.clone()
    }

    /// An administrator's client for the API server as it is now.
    pub fn client(&self) -> Client {
        self.state.lock().client.clone()
    }

    /// The folder of its files. It goes when the cluster goes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Known kinds of objects.
    pub(super) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// An administrator's kubeconfig.
    pub fn kubeconfig_text(&self) -> String {
        let state = self.state.lock();
        admin_access(state.port, &state.pki.ca_pem).to_yaml()
    }

    /// The file of [`Cluster::kubeconfig_text`], written anew.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.write_file("admin.kubeconfig", &self.kubeconfig_text())
    }

    /// A kubeconfig with these credentials for the API server as it is now.
    pub fn access(&self, credentials: Credentials) -> Access {
        let state = self.state.lock();
        Access {
            server: url(state.port),
            trust: Trust::Ca(state.pki.ca_pem.clone()),
            tls_server_name: None,
            proxy_url: None,
            credentials,
        }
    }

    /// Writes a file into [`Cluster::folder`], in one step: others may be reading what was there.
    pub fn write_file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        let staged = tempfile::NamedTempFile::new_in(self.folder.path())?;
        std::fs::write(staged.path(), text)?;
        staged.persist(&file)?;
        Ok(file)
    }

    /// Defines the kinds that Linkerd brings: `ServiceProfile`, `Server`, `ExternalWorkload` and `Link`.
    pub async fn define_linkerd_kinds(&self) -> Result<()> {
        self.apply(LINKERD_CRDS).await
    }

    /// Starts the API server, where it was before, and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        let process = {
            let state = self.state.lock();
            Process::start(
                &format!("kube-apiserver of {}", self.name),
                &Peer::KubeApiserver.program()?,
                &self.apiserver_arguments(&state, state.port, self.etcd),
                &self.folder.path().join("apiserver.log"),
            )?
        };
        self.until_ready(&process, &self.client()).await?;
        self.state.lock().apiserver = Some(process);
        Ok(())
    }

    async fn until_ready(&self, process: &Process, client: &Client) -> Result<()> {
        let what = format!("the API server of {}", self.name);
        let ready = wait_for(&what, || async {
            if let Err(ended) = process.ensure_running() {
                return Some(Err(ended));
            }
            let request = http_get("/readyz");
            let answer = tokio::time::timeout(
                std::time::Duration::from_secs(2),
                client.request_text(request),
            );
            matches!(answer.await, Ok(Ok(_))).then_some(Ok(()))
        });
        ready.await.with_context(|| process.log_tail(20))?
    }

    /// Where its etcd listens.
    pub fn etcd(&self) -> SocketAddr {
        self.etcd
    }

    /// Starts a second API server, which finds etcd at another address, and waits until it is ready.
    pub async fn start_second_apiserver(&self, etcd: SocketAddr) -> Result<(SocketAddr, Process)> {
        let port = free_port()?;
        let (arguments, ca_pem) = {
            let state = self.state.lock();
            let arguments = self.apiserver_arguments(&state, port, etcd);
            (arguments, state.pki.ca_pem.clone())
        };
        let process = Process::start(
            &format!("second kube-apiserver of {}", self.name),
            &Peer::KubeApiserver.program()?,
            &arguments,
            &self.folder.path().join("apiserver-2.log"),
        )?;
        let client = admin_access(port, &ca_pem).client().await?;
        self.until_ready(&process, &client).await?;
        Ok((SocketAddr::from(([127, 0, 0, 1], port)), process))
    }

    /// Ends the API server at once, as a crash does. etcd goes on.
    pub fn kill_apiserver(&self) {
        // Dropping the process outside of the lock: it waits.
        let process = self.state.lock().apiserver.take();
        drop(process);
    }

    /// A crash of the API server and a start on the same port.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.kill_apiserver();
        self.start_apiserver().await
    }

    /// Moves the API server to another port. What knows the old one finds nobody there.
    pub async fn move_apiserver(&self) -> Result<()> {
        self.kill_apiserver();
        self.change_server(free_port()?, self.pki()).await?;
        self.start_apiserver().await
    }

    /// Restarts the API server with a new authority and a new serving certificate.
    pub async fn renew_certificates(&self) -> Result<()> {
        self.kill_apiserver();
        let (port, number) = {
            let mut state = self.state.lock();
            state.certificates_made += 1;
            (state.port, state.certificates_made)
        };
        let pki = Pki::create(&self.folder.path().join(format!("pki-{number}")))?;
        self.change_server(port, Arc::new(pki)).await?;
        self.start_apiserver().await
    }

    /// Stops the API server in the middle of everything: connections stay, nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.signal_apiserver(Signal::Stop)
    }

    /// Undoes [`Cluster::freeze`].
    pub fn thaw(&self) -> Result<()> {
        self.signal_apiserver(Signal::Continue)
    }

    /// Makes every resourceVersion of the past expire: whoever resumes a watch is told `410 Gone` and has to list again.
    ///
    /// The API server is restarted on the way, since it would answer from its own memory of past events.
    pub async fn compact_etcd(&self) -> Result<()> {
        self.kill_apiserver();
        let range = http::post(self.etcd, "/v3/kv/range", r#"{"key":"AA=="}"#).await?;
        let answer: serde_json::Value = serde_json::from_str(&range.body)?;
        let revision = answer["header"]["revision"]
            .as_str()
            .with_context(|| format!("etcd told no revision: {}", range.body))?;
        let order = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        let answer = http::post(self.etcd, "/v3/kv/compaction", &order).await?;
        ensure!(answer.status == 200, "etcd: {}", answer.body);
        self.start_apiserver().await
    }

    /// Kills etcd under the API server, the ugliest of failures. There is no way back.
    pub fn kill_etcd(&self) {
        self.etcd_process.kill();
    }

    /// Starts the Kubernetes controllers that write `Endpoints` and `EndpointSlice` objects, run Deployments and clean up.
    ///
    /// Nodes have to exist before the Pods that name them, or the controllers back off for long.
    pub fn start_controller_manager(&self) -> Result<()> {
        let controllers = [
            "endpointslice-controller",
            "endpoints-controller",
            "endpointslice-mirroring-controller",
            "deployment-controller",
            "replicaset-controller",
            "namespace-controller",
            "garbage-collector-controller",
        ];
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig()?.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()?),
            "--leader-elect=false".to_owned(),
            format!(
                "--service-account-private-key-file={}",
                self.token_keys.0.display()
            ),
            format!("--controllers={}", controllers.join(",")),
        ];
        let process = Process::start(
            &format!("kube-controller-manager of {}", self.name),
            &Peer::KubeControllerManager.program()?,
            &arguments,
            &self.folder.path().join("controller-manager.log"),
        )?;
        self.state.lock().controller_manager = Some(process);
        Ok(())
    }

    /// Ends what [`Cluster::start_controller_manager`] started.
    pub fn stop_controller_manager(&self) {
        let process = self.state.lock().controller_manager.take();
        drop(process);
    }

    async fn change_server(&self, port: u16, pki: Arc<Pki>) -> Result<()> {
        let client = admin_access(port, &pki.ca_pem).client().await?;
        let mut state = self.state.lock();
        state.port = port;
        state.pki = pki;
        state.client = client;
        Ok(())
    }

    fn signal_apiserver(&self, signal: Signal) -> Result<()> {
        let state = self.state.lock();
        let process = state.apiserver.as_ref();
        process
            .context("the API server is not running")?
            .signal(signal)
    }

    fn apiserver_arguments(&self, state: &State, port: u16, etcd: SocketAddr) -> Vec<String> {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let number = self.number;
        let (signing_key, public_key) = &self.token_keys;
        vec![
            format!("--etcd-servers=http://{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", state.pki.certificate_file.display()),
            format!("--tls-private-key-file={}", state.pki.key_file.display()),
            format!("--client-ca-file={}", state.pki.ca_file.display()),
            format!("--cert-dir={}", file("generated")),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--service-cluster-ip-range=10.{number}.0.0/16,fd00:{number}::/112"),
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv")),
            // Pods may be created without a controller that makes a default account first.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={}", public_key.display()),
            format!(
                "--service-account-signing-key-file={}",
                signing_key.display()
            ),
        ]
    }
}

impl Drop for Cluster {
    /// The API server goes before etcd: the other way round it would spend its last moments complaining.
    fn drop(&mut self) {
        self.stop_controller_manager();
        self.kill_apiserver();
    }
}

fn start_etcd(name: &str, folder: &Path) -> Result<(SocketAddr, Process)> {
    let clients = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let peers = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let arguments = [
        "--name=bed".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls=http://{clients}"),
        format!("--advertise-client-urls=http://{clients}"),
        format!("--listen-peer-urls=http://{peers}"),
        format!("--initial-advertise-peer-urls=http://{peers}"),
        format!("--initial-cluster=bed=http://{peers}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    let process = Process::start(
        &format!("etcd of {name}"),
        &Peer::Etcd.program()?,
        &arguments,
        &folder.join("etcd.log"),
    )?;
    Ok((clients, process))
}

fn admin_access(port: u16, ca_pem: &str) -> Access {
    Access {
        server: url(port),
        trust: Trust::Ca(ca_pem.to_owned()),
        tls_server_name: None,
        proxy_url: None,
        credentials: Credentials::Token(ADMIN_TOKEN.to_owned()),
    }
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn http_get(path: &str) -> ::http::Request<Vec<u8>> {
    ::http::Request::get(path)
        .body(Vec::new())
        .expect("a path makes a request")
}
