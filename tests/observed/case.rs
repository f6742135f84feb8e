//! Recorded cases, as they are in files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::answer::Expected;

/// One case.
pub struct Case {
    /// Its folder, below the folder of all cases.
    pub name: String,
    /// What the clients ask for, by a short name.
    pub requests: BTreeMap<String, Request>,
    /// What happens, one thing after another.
    pub steps: Vec<Step>,
    /// Additional arguments, in the recorded server's syntax.
    pub arguments: Vec<String>,
    /// Whether the server starts after the first step, and not before.
    pub starts_late: bool,
    folder: PathBuf,
}

/// One stream.
#[derive(Clone, Debug, Deserialize)]
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
    pub expected: BTreeMap<String, Expected>,
}

#[derive(Deserialize)]
struct CaseFile {
    verdict: RecordedVerdict,
    requests: BTreeMap<String, Request>,
    steps: Vec<StepFile>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    start: Option<String>,
    #[serde(default)]
    want: BTreeMap<usize, BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecordedVerdict {
    /// Our answers have to be equal.
    Keep,
    /// Our answers have to be better, in the way that `want` says.
    Deviate,
}

#[derive(Deserialize)]
struct StepFile {
    #[serde(default)]
    delete: Vec<String>,
    #[serde(default)]
    apply: Vec<String>,
    #[serde(default)]
    reopen: Vec<String>,
}

#[derive(Deserialize)]
struct Recording {
    steps: Vec<RecordedStep>,
}

#[derive(Deserialize)]
struct RecordedStep {
    answers: BTreeMap<String, Value>,
}

// === impl Case ===

impl Case {
    /// All cases below `folder` whose names contain `wanted`, by name.
    pub fn load_all(folder: &Path, wanted: &str) -> Result<Vec<Self>> {
        let mut cases = Vec::new();
        for area in subfolders(folder)? {
            for case in subfolders(&area)? {
                let name = case.strip_prefix(folder)?.display().to_string();
                if name.contains(wanted) {
                    cases.push(Self::load(&case, &name).with_context(|| name.clone())?);
                }
            }
        }
        Ok(cases)
    }

    /// The text of one of its files.
    pub fn text(&self, file: &str) -> Result<String> {
        std::fs::read_to_string(self.folder.join(file)).with_context(|| file.to_owned())
    }

    fn load(folder: &Path, name: &str) -> Result<Self> {
        let file: CaseFile = read(&folder.join("case.yaml"))?;
        let recording: Recording = read(&folder.join("observed.yaml"))?;
        let requests = file.requests;
        let mut steps = Vec::new();
        for (number, (step, recorded)) in (1..).zip(file.steps.into_iter().zip(recording.steps)) {
            let answers = match file.verdict {
                RecordedVerdict::Keep => recorded.answers,
                RecordedVerdict::Deviate => file.want.get(&number).cloned().unwrap_or_default(),
            };
            let mut expected = BTreeMap::new();
            for (request, answer) in answers {
                if let Some(Request { method, .. }) = requests.get(&request) {
                    let answer = match file.verdict {
                        RecordedVerdict::Keep => Expected::recorded(*method, &answer),
                        RecordedVerdict::Deviate => Expected::wanted(&answer),
                    };
                    let answer = answer.with_context(|| format!("step {number}, {request}"))?;
                    expected.insert(request, answer);
                }
            }
            steps.push(Step {
                delete: step.delete,
                apply: step.apply,
                reopen: step.reopen,
                expected,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            requests,
            steps,
            arguments: file.args,
            starts_late: file.start.as_deref() == Some("after"),
            folder: folder.to_owned(),
        })
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read_to_string(file)?;
    serde_saphyr::from_str(&text).with_context(|| file.display().to_string())
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
