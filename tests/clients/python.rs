//! `destination.py` as a process: commands go in, answers come out.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::peers::Peer;
use crate::support::process::Process;
use crate::support::{DEADLINE, scratch_folder};

/// What the client's code is generated from, in Linkerd's own text.
const PROTOS: [&str; 4] = [
    "destination.proto",
    "http_types.proto",
    "meta.proto",
    "net.proto",
];

/// A running client. It ends with this value.
pub(crate) struct Python {
    process: Process,
    commands: Mutex<ChildStdin>,
    heard: watch::Receiver<Heard>,
    last_id: AtomicU64,
    // Holds the generated code and the log; goes last.
    _folder: TempDir,
}

/// A name that the client asks for until this value is dropped.
pub(crate) struct Question<'a> {
    python: &'a Python,
    id: String,
}

/// What the client has said.
#[derive(Debug, Default)]
struct Heard {
    /// The latest answer to each question that was ever asked.
    answers: BTreeMap<String, Value>,
    /// Rules of the protocol that the server has broken.
    breaches: Vec<String>,
    ended: bool,
}

/// One line of the client.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Answer { id: String, answer: Value },
    Breach { id: String, breach: String },
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
        let (sender, heard) = watch::channel(Heard::default());
        std::thread::spawn(move || listen(lines, &sender));
        Ok(Self {
            process,
            commands: Mutex::new(commands),
            heard,
            last_id: AtomicU64::new(0),
            _folder: folder,
        })
    }

    /// Asks a server for a name. `method` is `Get` or `GetProfile`.
    pub(crate) fn open(
        &self,
        server: SocketAddr,
        method: &str,
        authority: &str,
        token: &str,
    ) -> Result<Question<'_>> {
        let number = self.last_id.fetch_add(1, Ordering::Relaxed);
        let id = format!("{number} {method} {authority}");
        self.command(&json!({
            "open": id,
            "address": server.to_string(),
            "method": method,
            "authority": authority,
            "token": token,
        }))?;
        Ok(Question { python: self, id })
    }

    /// Fails if a server has ever said what the client could not make sense of.
    pub(crate) fn ensure_no_breach(&self) -> Result<()> {
        let heard = self.heard.borrow();
        ensure!(heard.breaches.is_empty(), "{:#?}", heard.breaches);
        Ok(())
    }

    fn command(&self, command: &Value) -> Result<()> {
        let written = writeln!(self.commands.lock(), "{command}");
        written.with_context(|| self.process.log_tail(40))
    }
}

// === impl Question ===

impl Question<'_> {
    /// Waits until the answer is as wanted, and returns it.
    pub(crate) async fn wait_for(
        &self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let is_there = |heard: &Heard| heard.answers.get(&self.id).is_some_and(&wanted);
        let is_over = |heard: &Heard| heard.ended || !heard.breaches.is_empty();
        let mut heard = self.python.heard.clone();
        let waiting = heard.wait_for(|heard| is_there(heard) || is_over(heard));
        let answer = match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(Ok(heard)) if is_there(&heard) => heard.answers.get(&self.id).cloned(),
            Ok(_) | Err(_) => None,
        };
        answer.with_context(|| self.report(what))
    }

    fn report(&self, what: &str) -> String {
        let heard = self.python.heard.borrow();
        format!(
            "waited in vain for {what}\n{}: {:#}\nbroken rules: {:#?}\nlog:\n{}",
            self.id,
            heard.answers.get(&self.id).unwrap_or(&Value::Null),
            heard.breaches,
            self.python.process.log_tail(40),
        )
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        // It fails only if the client is gone, and the question with it.
        self.python.command(&json!({"close": self.id})).ok();
    }
}

/// Takes in lines until there are no more.
fn listen(lines: ChildStdout, heard: &watch::Sender<Heard>) {
    for line in BufReader::new(lines).lines() {
        let said = line.map_err(anyhow::Error::from).and_then(|line| {
            serde_json::from_str(&line).with_context(|| format!("what is {line}"))
        });
        heard.send_modify(|heard| match said {
            Ok(Line::Answer { id, answer }) => {
                heard.answers.insert(id, answer);
            }
            Ok(Line::Breach { id, breach }) => heard.breaches.push(format!("{id}: {breach}")),
            Err(error) => heard.breaches.push(format!("{error:#}")),
        });
    }
    heard.send_modify(|heard| heard.ended = true);
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
