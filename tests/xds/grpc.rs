//! Clients of gRPC that resolve `xds:///` names: Python's, which is gRPC's own core.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::support::peers::Peer;
use crate::support::process::Process;
use crate::support::scratch_folder;

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

// === impl Grpc ===

impl Grpc {
    /// Starts servers at `addresses`, and a client that asks `index` where they are.
    pub fn start(
        index: SocketAddr,
        port: u16,
        addresses: &[&str],
        metadata: &serde_json::Value,
    ) -> Result<Self> {
        let folder = scratch_folder("grpc")?;
        let bootstrap = folder.path().join("bootstrap.json");
        let server = json!({
            "server_uri": index.to_string(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        });
        let text = json!({
            "xds_servers": [server],
            "node": {"id": "proxyless", "metadata": metadata},
        });
        std::fs::write(&bootstrap, text.to_string())?;
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xds/proxyless.py");
        let mut arguments = vec!["-B".to_owned(), program.display().to_string()];
        arguments.push(port.to_string());
        arguments.extend(addresses.iter().map(|&address| address.to_owned()));
        let (process, commands, output) = Process::start_dialogue(
            "proxyless.py",
            &Peer::Grpcio.program()?,
            &arguments,
            &[
                ("GRPC_XDS_BOOTSTRAP", &bootstrap),
                (
                    "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING",
                    Path::new("true"),
                ),
            ],
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

    fn line(&mut self) -> Result<String> {
        let line = self.lines.next().and_then(Result::ok);
        line.with_context(|| format!("the client has ended: {}", self.process.log_tail(30)))
    }
}
