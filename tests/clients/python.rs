//! `destination.py` as a process: commands go in, answers come out.

#![allow(
    dead_code,
    reason = "every test binary compiles all of it and uses a part"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Code;

use crate::support::peers::Peer;
use crate::support::process::Process;
use crate::support::subscription::Outcome;
use crate::support::{DEADLINE, scratch_folder};

/// What the client's code is generated from, in Linkerd's own text.
const PROTOS: [&str; 4] = [
    "destination.proto",
    "http_types.proto",
    "meta.proto",
    "net.proto",
];

/// A running client, with everything that it holds. It ends with the last of its streams.
#[derive(Clone)]
pub(crate) struct Python(Arc<Running>);

struct Running {
    process: Process,
    commands: Mutex<ChildStdin>,
    said: watch::Receiver<Said>,
    last_id: AtomicU64,
    // Holds the generated code and the log; goes last.
    _folder: TempDir,
}

/// A stream that the client reads until this value is dropped.
pub(crate) struct Reading {
    python: Python,
    id: u64,
    authority: String,
    opened: Instant,
}

/// What the client has said.
#[derive(Default)]
struct Said {
    streams: BTreeMap<u64, Heard>,
    /// Lines that say nothing.
    nonsense: Vec<String>,
    is_over: bool,
}

/// What has come on a stream.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) answer: Answer,
    pub(crate) outcome: Option<Outcome>,
    /// The protocol's rules that the server has broken.
    pub(crate) breaches: Vec<String>,
    /// Since when nothing has come.
    pub(crate) quiet_since: Instant,
}

/// What the messages of a stream have come to: messages in the JSON form of protocol buffers, with the names of the `.proto` files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// There were none.
    Silence,
    /// Addresses, with all that is said of each. The labels of its set and its own are together in `labels`.
    Addresses(Arc<BTreeMap<SocketAddr, Value>>),
    /// The latest profile.
    Profile(Arc<Value>),
}

/// One line of the client.
#[derive(Deserialize)]
struct Line {
    id: u64,
    #[serde(flatten)]
    news: News,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum News {
    Addresses {
        addresses: BTreeMap<SocketAddr, Value>,
    },
    Profile {
        profile: Value,
    },
    Status {
        status: i32,
        message: String,
    },
    Breach {
        breach: String,
    },
}

// === impl Python ===

impl Python {
    /// Generates its code and starts it.
    pub(crate) fn start() -> Result<Self> {
        let folder = scratch_folder("python")?;
        generate(folder.path())?;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/destination.py");
        let (process, commands, lines) = Process::start_dialogue(
            "destination.py",
            &Peer::Grpcio.program()?,
            // No compiled code beside the source.
            &["-B".to_owned(), program.display().to_string()],
            &[("PYTHONPATH", folder.path())],
            &folder.path().join("log"),
        )?;
        let (sender, said) = watch::channel(Said::default());
        std::thread::spawn(move || listen(lines, &sender));
        Ok(Self(Arc::new(Running {
            process,
            commands: Mutex::new(commands),
            said,
            last_id: AtomicU64::new(0),
            _folder: folder,
        })))
    }

    /// Opens a stream. `method` is `Get` or `GetProfile`.
    ///
    /// # Panics
    ///
    /// If the client has ended.
    pub(crate) fn open(
        &self,
        server: SocketAddr,
        method: &str,
        authority: &str,
        token: &str,
    ) -> Reading {
        let id = self.0.last_id.fetch_add(1, Ordering::Relaxed);
        let command = json!({
            "open": id,
            "address": server.to_string(),
            "method": method,
            "authority": authority,
            "token": token,
        });
        let written = self.command(&command);
        written.unwrap_or_else(|error| panic!("{error}\n{}", self.0.process.log_tail(40)));
        Reading {
            python: self.clone(),
            id,
            authority: authority.to_owned(),
            opened: Instant::now(),
        }
    }

    fn command(&self, command: &Value) -> std::io::Result<()> {
        writeln!(self.0.commands.lock(), "{command}")
    }
}

// === impl Reading ===

impl Reading {
    /// What has come so far.
    ///
    /// # Panics
    ///
    /// If the client has ended, or says what nobody understands.
    pub(crate) fn heard(&self) -> Heard {
        let said = self.python.0.said.borrow();
        assert!(said.is_sound(), "{}", self.report(&said));
        said.streams
            .get(&self.id)
            .cloned()
            .unwrap_or_else(|| Heard::nothing(self.opened))
    }

    /// Waits until what has come is as wanted.
    ///
    /// # Panics
    ///
    /// If it never is, or if the server breaks a rule of the protocol.
    pub(crate) async fn wait_for(&self, what: &str, wanted: impl Fn(&Heard) -> bool) -> Heard {
        let mut said = self.python.0.said.clone();
        let is_there = |said: &Said| said.streams.get(&self.id).is_some_and(&wanted);
        let is_broken = |said: &Said| {
            let heard = said.streams.get(&self.id);
            !said.is_sound() || heard.is_some_and(|heard| !heard.breaches.is_empty())
        };
        let waiting = said.wait_for(|said| is_there(said) || is_broken(said));
        let reached = match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(Ok(said)) => !is_broken(&said),
            Ok(Err(_)) | Err(_) => false,
        };
        let said = self.python.0.said.borrow();
        assert!(reached, "waited in vain for {what}\n{}", self.report(&said));
        said.streams[&self.id].clone()
    }

    fn report(&self, said: &Said) -> String {
        format!(
            "{}: {:#?}\nnot understood: {:#?}\nlog:\n{}",
            self.authority,
            said.streams.get(&self.id),
            said.nonsense,
            self.python.0.process.log_tail(40),
        )
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // It fails only if the client is gone, and the stream with it.
        self.python.command(&json!({"close": self.id})).ok();
    }
}

// === impl Said ===

impl Said {
    fn is_sound(&self) -> bool {
        !self.is_over && self.nonsense.is_empty()
    }

    fn take(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Line { id, news }) => {
                let now = Instant::now();
                let heard = self.streams.entry(id).or_insert(Heard::nothing(now));
                heard.take(news);
                heard.quiet_since = now;
            }
            Err(error) => self.nonsense.push(format!("{error}: {line}")),
        }
    }
}

// === impl Heard ===

impl Heard {
    fn nothing(since: Instant) -> Self {
        Self {
            answer: Answer::Silence,
            outcome: None,
            breaches: Vec::new(),
            quiet_since: since,
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Addresses { addresses } => self.answer = Answer::Addresses(Arc::new(addresses)),
            News::Profile { profile } => self.answer = Answer::Profile(Arc::new(profile)),
            News::Status { status: 0, .. } => self.outcome = Some(Outcome::Ended),
            News::Status { status, message } => {
                self.outcome = Some(Outcome::Failed(Code::from_i32(status), message));
            }
            News::Breach { breach } => self.breaches.push(breach),
        }
    }
}

/// Takes in lines until there are no more.
fn listen(lines: ChildStdout, said: &watch::Sender<Said>) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        said.send_modify(|said| said.take(&line));
    }
    said.send_modify(|said| said.is_over = true);
}

/// Generates the client's code from the `.proto` files that Linkerd publishes with its crate.
fn generate(into: &Path) -> Result<()> {
    let output = Command::new(Peer::Grpcio.program()?)
        .args(["-m", "grpc_tools.protoc"])
        .arg(option("--proto_path", protos()?))
        .arg(option("--python_out", into))
        .arg(option("--grpc_python_out", into))
        .args(PROTOS)
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "grpc_tools.protoc: {complaint}");
    Ok(())
}

fn option(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

/// The folder of Linkerd's `.proto` files, in the sources of the crate that `Cargo.lock` pins.
fn protos() -> Result<&'static Path> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    if let Some(folder) = FOLDER.get() {
        return Ok(folder);
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {complaint}");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array();
    let manifest = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "linkerd2-proxy-api")
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .context("cargo metadata does not know linkerd2-proxy-api")?;
    Ok(FOLDER.get_or_init(|| manifest.join("proto")))
}
