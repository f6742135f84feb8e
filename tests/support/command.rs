//! Commands of the product that ask a running server, as a shell runs them.

use std::process::Command;

use anyhow::{Context, Result};

use super::tributary::Tributary;

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The exit code.
    pub code: i32,
}

// === impl Tributary ===

impl Tributary {
    /// Runs a command against this server.
    pub async fn command(&self, arguments: &[&str]) -> Result<Said> {
        let mut all: Vec<String> = arguments.iter().map(|&part| part.to_owned()).collect();
        all.extend(["--addr".to_owned(), self.address().to_string()]);
        run(all).await
    }
}

/// Runs a command with exactly these arguments.
pub async fn run(arguments: Vec<String>) -> Result<Said> {
    let ended = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_tributary"))
            .args(arguments)
            .output()
    });
    let output = ended.await??;
    Ok(Said {
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
        code: output.status.code().context("ended by a signal")?,
    })
}

// === impl Said ===

impl Said {
    /// Standard output as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }

    /// The line of standard output with this in it.
    #[track_caller]
    pub fn line(&self, part: &str) -> &str {
        let line = self.out.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no line has {part:?}: {self:?}"))
    }
}
