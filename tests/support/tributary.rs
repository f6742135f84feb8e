//! The product, as a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use super::cluster::Cluster;
use super::peers::free_port;
use super::process::{Process, Signal};
use super::profile::ProfileSubscription;
use super::subscription::Subscription;
use super::{http, scratch_folder, wait_for};

/// A running `tributary serve`, with its own ports on the loopback interface. It ends with this value.
pub struct Tributary {
    process: Arc<Process>,
    /// Since when it has been frozen.
    frozen: parking_lot::Mutex<Option<tokio::time::Instant>>,
    address: SocketAddr,
    admin: SocketAddr,
    // Holds the log; goes last.
    _folder: TempDir,
}

// === impl Tributary ===

impl Tributary {
    /// Starts it for the home cluster, with the account and rights that our chart gives it, and waits until it is ready.
    pub async fn start(home: &Cluster, arguments: &[&str]) -> Result<Self> {
        let access = home.home_access().await?;
        let kubeconfig = home.write_file("home.kubeconfig", &access.to_yaml())?;
        let tributary = Self::launch(&kubeconfig, arguments)?;
        tributary.until_ready().await?;
        Ok(tributary)
    }

    /// Starts it in the place of Linkerd's destination controller: by that one's arguments and with its account and rights.
    /// Waits until it is ready.
    pub async fn start_in_place(home: &Cluster, arguments: &[&str]) -> Result<Self> {
        let access = home.controller_access().await?;
        let kubeconfig = home.write_file("controller.kubeconfig", &access.to_yaml())?;
        let tributary = Self::spawn("destination", "--kubeconfig", &kubeconfig, arguments)?;
        tributary.until_ready().await?;
        Ok(tributary)
    }

    /// Starts it with a kubeconfig, and does not wait.
    pub fn launch(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        Self::spawn("serve", "--kubeconfig", kubeconfig, arguments)
    }

    /// Starts it by a command of your own, with a kubeconfig, and does not wait.
    pub fn launch_as(command: &str, kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        Self::spawn(command, "--kubeconfig", kubeconfig, arguments)
    }

    /// Starts it with a folder of manifests in place of any API server, and waits until it is ready.
    pub async fn serve_manifests(folder: &Path, arguments: &[&str]) -> Result<Self> {
        let tributary = Self::spawn("serve", "--manifests", folder, arguments)?;
        tributary.until_ready().await?;
        Ok(tributary)
    }

    fn spawn(command: &str, source: &str, path: &Path, arguments: &[&str]) -> Result<Self> {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let address = loopback(free_port()?);
        let admin = loopback(free_port()?);
        let folder = scratch_folder("tributary")?;
        let mut all = vec![command.to_owned()];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        // At the end: of the controller's arguments, the last of several values counts.
        all.extend([
            source.to_owned(),
            path.display().to_string(),
            "--addr".to_owned(),
            address.to_string(),
            "--metrics-addr".to_owned(),
            admin.to_string(),
        ]);
        let process = Process::start(
            "tributary",
            Path::new(env!("CARGO_BIN_EXE_tributary")),
            &all,
            &folder.path().join("log"),
        )?;
        Ok(Self {
            process: Arc::new(process),
            frozen: parking_lot::Mutex::new(None),
            address,
            admin,
            _folder: folder,
        })
    }

    /// Where it serves the destination API.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves metrics and its state.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Waits until `/ready` says so; fails at once if the process ends.
    pub async fn until_ready(&self) -> Result<()> {
        wait_for("tributary to be ready", || async {
            if let Err(ended) = self.process.ensure_running() {
                return Some(Err(ended));
            }
            let answer = http::get(self.admin, "/ready").await.ok()?;
            (answer.status == 200).then_some(Ok(()))
        })
        .await
        .with_context(|| self.process.log_tail(30))?
    }

    /// Opens a stream for an authority, without a context token.
    pub fn get(&self, authority: &str) -> Subscription {
        self.get_with_token(authority, "")
    }

    /// Opens a stream for an authority, as a proxy on `node` would.
    pub fn get_from_node(&self, authority: &str, node: &str) -> Subscription {
        self.get_with_token(
            authority,
            &format!(r#"{{"ns":"shop","nodeName":"{node}","pod":"client"}}"#),
        )
    }

    /// Opens a stream for an authority, with a context token.
    pub fn get_with_token(&self, authority: &str, token: &str) -> Subscription {
        self.get_on(self.connect_lazy(), authority, token)
    }

    /// Opens a stream on a connection that other streams use too.
    pub fn get_on(&self, connection: Channel, authority: &str, token: &str) -> Subscription {
        Subscription::open_on(connection, authority, token, Some(self.process.clone()))
    }

    /// A connection that is made when it is first used.
    ///
    /// # Panics
    ///
    /// Never: an address makes a URL.
    pub fn connect_lazy(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address))
            .expect("an address makes a URL")
            .connect_lazy()
    }

    /// The value of a metric that has no labels.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let metrics = self.metrics().await?;
        let value = metrics
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find_map(|(key, value)| (key == name).then_some(value));
        Ok(value
            .with_context(|| format!("there is no {name} in {metrics}"))?
            .parse()?)
    }

    /// Waits until a metric that has no labels has this value.
    pub async fn until_metric(&self, name: &str, wanted: f64) -> Result<()> {
        wait_for(&format!("{name} to be {wanted}"), || async {
            let value = self.metric(name).await.ok()?;
            (value.total_cmp(&wanted).is_eq()).then_some(())
        })
        .await
        .with_context(|| self.process.log_tail(20))
    }

    /// Memory that it has in use, in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        let file = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(&file).with_context(|| file.clone())?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .with_context(|| format!("no VmRSS in {file}"))?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// Opens a stream of profiles for an authority, with a context token.
    pub fn get_profile(&self, authority: &str, token: &str) -> ProfileSubscription {
        ProfileSubscription::open(self.address, authority, token, Some(self.process.clone()))
    }

    /// What `/metrics` says.
    pub async fn metrics(&self) -> Result<String> {
        Ok(http::get(self.admin, "/metrics").await?.body)
    }

    /// The lines of its log that contain `text`.
    pub fn logs_containing(&self, text: &str) -> Vec<String> {
        let log = self.process.log_text();
        log.lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Waits until a line of its log contains `text`.
    pub async fn log_line(&self, text: &str) -> Result<String> {
        wait_for(&format!("a log line with {text:?}"), || async {
            self.logs_containing(text).pop()
        })
        .await
        .with_context(|| self.process.log_tail(30))
    }

    /// The end of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// Fails, with the end of the log, if it has ended.
    pub fn ensure_running(&self) -> Result<()> {
        self.process.ensure_running()
    }

    /// Stops it in the middle of everything: connections stay, nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.process.signal(Signal::Stop)?;
        *self.frozen.lock() = Some(tokio::time::Instant::now());
        Ok(())
    }

    /// Undoes [`Tributary::freeze`].
    pub fn thaw(&self) -> Result<()> {
        *self.frozen.lock() = None;
        self.process.signal(Signal::Continue)
    }

    /// For how long it has been frozen, if it is.
    pub fn frozen_for(&self) -> Option<std::time::Duration> {
        self.frozen.lock().map(|since| since.elapsed())
    }

    /// Asks it to end, as Kubernetes does.
    pub fn ask_to_end(&self) -> Result<()> {
        self.process.signal(Signal::Terminate)
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> Result<ExitStatus> {
        self.process.ended().await
    }

    /// Asks it to end, as Kubernetes does, and waits until it has.
    pub async fn terminate(&self) -> Result<ExitStatus> {
        self.ask_to_end()?;
        self.ended().await
    }

    /// How it ended, if it has.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        self.process.exit_status()
    }
}
