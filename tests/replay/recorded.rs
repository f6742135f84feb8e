//! Cases that were recorded: what Linkerd's destination controller answered, in `tests/fixtures/observed`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::answer::Expected;
use super::case::{Case, Expectation, Request, Step, read, subfolders};

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

/// All recorded cases whose names contain `wanted`, by name.
pub fn load_all(wanted: &str) -> Result<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/observed");
    let mut cases = Vec::new();
    for area in subfolders(&folder)? {
        for case in subfolders(&area)? {
            let name = case.strip_prefix(&folder)?.display().to_string();
            if name.contains(wanted) {
                cases.push(load(&case, &name).with_context(|| name.clone())?);
            }
        }
    }
    Ok(cases)
}

fn load(folder: &Path, name: &str) -> Result<Case> {
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
                let ended = None;
                expected.insert(request, Expectation { answer, ended });
            }
        }
        steps.push(Step {
            delete: step.delete,
            apply: step.apply,
            reopen: step.reopen,
            expected,
        });
    }
    Ok(Case {
        name: name.to_owned(),
        requests,
        steps,
        arguments: file.args,
        starts_late: file.start.as_deref() == Some("after"),
        on_api_servers: true,
        folder: folder.to_owned(),
    })
}
