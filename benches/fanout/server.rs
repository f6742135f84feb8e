//! Servers as processes of their own, on a core of their own, and what they use.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::manifests::{Manifests, SERVICE, UNWATCHED};

/// Where servers run.
const SERVER_CORE: usize = 0;
/// Where the client runs.
const CLIENT_CORE: usize = 1;

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `tributary` binary.
    Product(PathBuf),
    Raw,
    Naive,
}

pub struct Server {
    process: Child,
    pub address: SocketAddr,
    change: Change,
}

/// How a server is told to tell its streams something.
enum Change {
    Manifests(Manifests),
    Line(ChildStdin),
}

// === impl Server ===

impl Server {
    /// Starts a server; `messages` is a folder with what the raw one says.
    pub fn start(kind: &Kind, messages: &Path) -> Result<Self> {
        match kind {
            Kind::Product(binary) => Self::start_product(binary),
            Kind::Raw => Self::start_own("raw", messages),
            Kind::Naive => Self::start_own("naive", messages),
        }
    }

    fn start_product(binary: &Path) -> Result<Self> {
        let manifests = Manifests::new()?;
        // Nobody else asks for a port in between, or the bench fails.
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--manifests")
            .arg(manifests.path());
        command.args(["--addr", &address.to_string(), "--metrics-addr", ""]);
        command.args(["--log-level", "error"]);
        let process = spawn_pinned(&mut command)?;
        let start = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(
                start.elapsed() < Duration::from_secs(30),
                "{} does not listen",
                binary.display()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            process,
            address,
            change: Change::Manifests(manifests),
        })
    }

    /// Starts this program once more, as a server.
    fn start_own(name: &str, messages: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--server").arg(name).arg(messages);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn_pinned(&mut command)?;
        let stdout = process.stdout.take().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let stdin = process.stdin.take().context("no stdin")?;
        Ok(Self {
            process,
            address: line.trim().parse()?,
            change: Change::Line(stdin),
        })
    }

    /// Changes what streams are told.
    pub fn change(&mut self) -> Result<()> {
        match &mut self.change {
            Change::Manifests(manifests) => manifests.change(SERVICE),
            Change::Line(stdin) => Ok(stdin.write_all(b"\n")?),
        }
    }

    /// Makes the same change to something that no stream is about, if there is such a thing.
    pub fn change_elsewhere(&mut self) -> Result<()> {
        match &mut self.change {
            Change::Manifests(manifests) => manifests.change(UNWATCHED),
            Change::Line(_) => Ok(()),
        }
    }

    /// Processor time of all its threads.
    pub fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            // Threads may end between the two looks; those of servers that do anything do not.
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
                continue;
            };
            let first = text.split_whitespace().next().context("empty schedstat")?;
            nanoseconds += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id()))?;
        let pages = text.split_whitespace().nth(1).context("empty statm")?;
        Ok(pages.parse::<u64>()? * rustix::param::page_size() as u64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Moves this thread to the client's core.
pub fn pin_client() -> Result<()> {
    pin(CLIENT_CORE)
}

/// Children run where the thread that starts them runs.
fn spawn_pinned(command: &mut Command) -> Result<Child> {
    pin(SERVER_CORE)?;
    let child = command.spawn();
    pin_client()?;
    Ok(child?)
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
        .with_context(|| format!("core {core} is not there; two are needed"))
}
