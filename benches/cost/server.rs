//! The servers that are compared, each started, changed and measured in the same way.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::client::Fleet;
use crate::cluster::{Change, Cluster, Shape};
use crate::process::Process;

/// Longer than any start takes on a busy machine.
const START_MAX: Duration = Duration::from_mins(2);

/// What the servers are about.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub shape: Shape,
    /// What happens to a Service when it is changed.
    pub change: Change,
}

/// What a server without a cluster says: a first message, and one for each change.
pub struct Script(TempDir);

/// A running server, which ends with this value.
pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
    feed: Feed,
    change: Change,
}

/// How a server comes to know of a change.
enum Feed {
    Cluster(Cluster),
    Line(ChildStdin),
}

// === impl Script ===

impl Script {
    /// What a stream has been told first, and then.
    pub fn of(fleet: &Fleet) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (first, update) = fleet.first_two_messages()?;
        std::fs::write(folder.path().join("first"), first)?;
        std::fs::write(folder.path().join("update"), update)?;
        Ok(Self(folder))
    }
}

// === impl Server ===

impl Server {
    /// The product, watching a cluster of its own. It has read everything.
    pub fn product(binary: &Path, setting: &Setting) -> Result<Self> {
        Self::product_of(binary, setting, Cluster::start(setting.shape, true)?)
    }

    /// The product, watching a given cluster. It has read everything.
    pub fn product_of(binary: &Path, setting: &Setting, cluster: Cluster) -> Result<Self> {
        let (address, admin) = (free_address()?, free_address()?);
        let mut command = Command::new(binary);
        command.arg("serve");
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        command.args(["--addr", &address.to_string()]);
        command.args(["--metrics-addr", &admin.to_string()]);
        command.args(["--log-level", "error"]);
        let mut process = Process::start(&mut command)?;
        let start = Instant::now();
        while !is_ready(admin) {
            process.ensure_running()?;
            ensure!(start.elapsed() < START_MAX, "it does not become ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self {
            process,
            address,
            feed: Feed::Cluster(cluster),
            change: setting.change,
        })
    }

    /// The floor: a server that only sends ready-made bytes.
    pub fn raw(script: &Script) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--server", "raw"]).arg(script.0.path());
        Self::own(command)
    }

    /// The shape to beat: queues, translates and encodes for each stream.
    pub fn naive(setting: &Setting) -> Result<Self> {
        let Shape {
            slices, endpoints, ..
        } = setting.shape;
        let all = slices * endpoints;
        let changed = match setting.change {
            Change::All => all,
            Change::One | Change::Churn => 1,
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--server", "naive", &all.to_string(), &changed.to_string()]);
        Self::own(command)
    }

    fn own(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let stdout = process.child().stdout.take().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let stdin = process.child().stdin.take().context("no stdin")?;
        Ok(Self {
            process,
            address: line.trim().parse()?,
            feed: Feed::Line(stdin),
            change: Change::One,
        })
    }

    /// Changes what streams about a Service are told.
    pub fn change(&mut self, service: u32) -> Result<()> {
        match &mut self.feed {
            Feed::Cluster(cluster) => cluster.change(service, self.change),
            Feed::Line(stdin) => writeln!(stdin, "{service}")?,
        }
        Ok(())
    }

    /// Changes what streams about many Services are told, at once.
    pub fn change_all(&mut self, services: Range<u32>) -> Result<()> {
        match &mut self.feed {
            Feed::Cluster(cluster) => cluster.change_all(services, self.change),
            Feed::Line(stdin) => {
                let mut lines = Vec::new();
                for service in services {
                    writeln!(lines, "{service}")?;
                }
                stdin.write_all(&lines)?;
            }
        }
        Ok(())
    }

    /// What it watches.
    pub fn cluster(&self) -> Result<&Cluster> {
        match &self.feed {
            Feed::Cluster(cluster) => Ok(cluster),
            Feed::Line(_) => anyhow::bail!("it watches nothing"),
        }
    }
}

/// Nobody else asks for a port in between, or the bench fails.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

fn is_ready(admin: SocketAddr) -> bool {
    let ask = || {
        let mut connection = TcpStream::connect(admin)?;
        connection.write_all(b"GET /ready HTTP/1.0\r\n\r\n")?;
        let mut answer = [0; 12];
        connection.read_exact(&mut answer)?;
        std::io::Result::Ok(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
