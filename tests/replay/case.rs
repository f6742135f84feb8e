//! What a case is, whether it was recorded or written by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::Expected;

/// One case.
pub struct Case {
    /// Its folder, below the folder of all cases.
    pub name: String,
    /// What the clients ask for, by a short name.
    pub requests: BTreeMap<String, Request>,
    /// What happens, one thing after another.
    pub steps: Vec<Step>,
    /// Additional arguments, in the syntax of Linkerd's destination controller.
    pub arguments: Vec<String>,
    /// Whether the server starts after the first step, and not before.
    pub starts_late: bool,
    /// Whether it is to be replayed on API servers too.
    pub on_api_servers: bool,
    /// Where its files are.
    pub folder: PathBuf,
}

/// One stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is called.
    pub method: Method,
    /// What is asked for.
    pub authority: String,
    /// Who asks.
    #[serde(default)]
    pub token: String,
}

/// A method of the destination API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Method {
    /// Endpoints.
    Get,
    /// Routing settings.
    GetProfile,
}

/// One step, and what should be answered after it.
pub struct Step {
    /// Objects to delete: `cluster/Kind/namespace/name`.
    pub delete: Vec<String>,
    /// Files to apply, named after their cluster.
    pub apply: Vec<String>,
    /// Streams to end and open anew.
    pub reopen: Vec<String>,
    /// What is expected of each request; those that are not named may answer what they like.
    pub expected: BTreeMap<String, Expectation>,
}

/// What is expected of one request after one step.
pub struct Expectation {
    /// What is known in the end.
    pub answer: Expected,
    /// Whether a stream is to end with status OK in this step; `None` leaves that open.
    pub ended: Option<bool>,
}

// === impl Case ===

impl Case {
    /// The text of one of its files.
    pub fn text(&self, file: &str) -> Result<String> {
        std::fs::read_to_string(self.folder.join(file)).with_context(|| file.to_owned())
    }
}

/// Reads a file of YAML.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| file.display().to_string())
}

/// The folders in a folder, by name.
pub fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
