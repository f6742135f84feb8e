//! Clients of gRPC that resolve `xds:///` names: Python's, which is gRPC's own core, and Node's.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::support::peers::Peer;
use crate::support::process::Process;
use crate::support::scratch_folder;
use crate::world::Index;

/// A process with one channel for each name, and with servers to call. It ends with this value.
pub struct Grpc {
    process: Process,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    // Holds the bootstrap and the log; goes last.
    _folder: TempDir,
}

/// What came of some calls.
#[derive(Debug, Deserialize)]
pub struct Calls {
    /// How many each server answered.
    pub answered: BTreeMap<String, usize>,
    /// The failures, each as `CODE: text`.
    pub failed: Vec<String>,
}

/// Which gRPC it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Its core, which C++, Python, Ruby and PHP share.
    Python,
    /// All of it in JavaScript.
    Node,
}

/// Both of them.
pub const LANGUAGES: [Language; 2] = [Language::Python, Language::Node];

// === impl Language ===

impl Language {
    /// The program and its first argument.
    fn program(self) -> Result<(PathBuf, Vec<String>)> {
        let script = |name| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/xds")
                .join(name)
        };
        Ok(match self {
            Self::Python => {
                let script = script("proxyless.py").display().to_string();
                (Peer::Grpcio.program()?, vec!["-B".to_owned(), script])
            }
            Self::Node => {
                let script = script("proxyless.js").display().to_string();
                (PathBuf::from("node"), vec![script])
            }
        })
    }

    /// What it has to find in its environment, besides the bootstrap.
    fn environment(self) -> Result<(&'static str, PathBuf)> {
        Ok(match self {
            // Otherwise a name that nobody has is waited for.
            Self::Python => ("GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING", "true".into()),
            Self::Node => ("NODE_PATH", Peer::GrpcJs.program()?),
        })
    }
}

// === impl Grpc ===

impl Grpc {
    /// Starts servers at `addresses`, and a client that asks `index` where they are.
    pub fn start(
        language: Language,
        index: impl Into<Index>,
        port: u16,
        addresses: &[&str],
        metadata: &serde_json::Value,
    ) -> Result<Self> {
        let folder = scratch_folder("grpc")?;
        let bootstrap = folder.path().join("bootstrap.json");
        let text = json!({
            "xds_servers": [server(&index.into())],
            "node": {"id": "proxyless", "locality": {}, "metadata": metadata},
            "authorities": {"index.example": {"client_listener_resource_name_template":
                "xdstp://index.example/envoy.config.listener.v3.Listener/%s"}},
        });
        std::fs::write(&bootstrap, text.to_string())?;
        let (program, mut arguments) = language.program()?;
        arguments.push(port.to_string());
        arguments.extend(addresses.iter().map(|&address| address.to_owned()));
        let (name, value) = language.environment()?;
        let (process, commands, output) = Process::start_dialogue(
            "proxyless",
            &program,
            &arguments,
            &[("GRPC_XDS_BOOTSTRAP", &bootstrap), (name, &value)],
            &folder.path().join("log"),
        )?;
        let mut grpc = Self {
            process,
            commands,
            lines: BufReader::new(output).lines(),
            _folder: folder,
        };
        grpc.line()?;
        Ok(grpc)
    }

    /// Calls a name a number of times, one call after another.
    pub fn call(&mut self, name: &str, times: usize) -> Result<Calls> {
        writeln!(self.commands, "{}", json!({"call": name, "times": times}))?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    /// Ends one of the servers.
    pub fn stop(&mut self, address: &str) -> Result<()> {
        writeln!(self.commands, "{}", json!({"stop": address}))?;
        self.line().map(drop)
    }

    /// Begins it again.
    pub fn restart(&mut self, address: &str) -> Result<()> {
        writeln!(self.commands, "{}", json!({"start": address}))?;
        self.line().map(drop)
    }

    fn line(&mut self) -> Result<String> {
        let line = self.lines.next().and_then(Result::ok);
        line.with_context(|| format!("the client has ended: {}", self.process.log_tail(30)))
    }
}

/// The index as bootstraps name it.
fn server(index: &Index) -> serde_json::Value {
    let Some(tls) = &index.tls else {
        return json!({
            "server_uri": index.address.to_string(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        });
    };
    let mut files = json!({"ca_certificate_file": tls.ca});
    if let Some((certificate, key)) = &tls.identity {
        files["certificate_file"] = json!(certificate);
        files["private_key_file"] = json!(key);
    }
    json!({
        "server_uri": format!("localhost:{}", index.address.port()),
        "channel_creds": [{"type": "tls", "config": files}],
        "server_features": ["xds_v3"],
    })
}
