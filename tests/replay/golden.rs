//! Cases that were written by hand: what we want to be answered, in `tests/fixtures/golden`. Its README has the format.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tonic::Code;

use super::answer::{Content, Expected, without_defaults};
use super::case::{Case, Expectation, Method, Request, Step, read, subfolders};

/// What an endpoint weighs unless a case says otherwise.
const USUAL_WEIGHT: u32 = 10_000;

/// Identities that begin like this are URIs, others are names.
const URI_SCHEME: &str = "spiffe://";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    about: String,
    requests: BTreeMap<String, Request>,
    steps: Vec<StepFile>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    start: Option<Start>,
    #[serde(default)]
    api: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Start {
    After,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFile {
    #[serde(default)]
    delete: Vec<String>,
    #[serde(default)]
    apply: Vec<String>,
    #[serde(default)]
    reopen: Vec<String>,
    #[serde(default)]
    want: BTreeMap<String, Want>,
}

/// What is wanted of one request: exactly one of the answers, and perhaps the end of a stream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Want {
    #[serde(default)]
    addresses: Option<Value>,
    #[serde(default)]
    empty: bool,
    #[serde(default)]
    profile: Option<WantedProfile>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    ended: bool,
}

/// All that is said of an address, in short.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedEndpoint {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default = "usual_weight")]
    weight: u32,
    #[serde(default)]
    identity: Option<String>,
    #[serde(default)]
    server_name: Option<String>,
    #[serde(default)]
    hint: Option<Hint>,
    #[serde(default)]
    inbound_port: Option<u32>,
    #[serde(default)]
    authority: Option<String>,
    #[serde(default)]
    http2: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Hint {
    H2,
    Opaque,
}

/// All that is said in a profile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedProfile {
    #[serde(default)]
    fully_qualified_name: String,
    #[serde(default)]
    opaque_protocol: bool,
    #[serde(default)]
    parent_ref: Option<Value>,
    #[serde(default)]
    profile_ref: Option<Value>,
    #[serde(default)]
    retry_budget: Option<Value>,
    #[serde(default)]
    routes: Option<Value>,
    #[serde(default)]
    dst_overrides: Option<Value>,
    #[serde(default)]
    endpoint: Option<BTreeMap<SocketAddr, WantedEndpoint>>,
}

/// All hand-written cases whose names contain `wanted`, by name.
pub fn load_all(wanted: &str) -> Result<Vec<Case>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut cases = Vec::new();
    for folder in subfolders(&fixtures.join("golden"))? {
        let name = folder.strip_prefix(&fixtures)?.display().to_string();
        if name.contains(wanted) {
            cases.push(load(&folder, &name).with_context(|| name.clone())?);
        }
    }
    Ok(cases)
}

fn load(folder: &Path, name: &str) -> Result<Case> {
    let file: CaseFile = read(&folder.join("case.yaml"))?;
    ensure!(!file.about.is_empty(), "it does not say what it is about");
    let requests = file.requests;
    let mut steps = Vec::new();
    for (number, step) in (1..).zip(file.steps) {
        let step = read_step(step, &requests).with_context(|| format!("step {number}"))?;
        steps.push(step);
    }
    for request in requests.keys() {
        let is_wanted = |step: &Step| step.expected.contains_key(request);
        ensure!(
            steps.iter().any(is_wanted),
            "nothing is wanted of {request}"
        );
    }
    ensure!(!requests.is_empty(), "nothing is asked for");
    let case = Case {
        name: name.to_owned(),
        requests,
        steps,
        arguments: file.args,
        starts_late: file.start.is_some(),
        on_api_servers: file.api,
        folder: folder.to_owned(),
    };
    ensure_files(&case)?;
    Ok(case)
}

fn read_step(step: StepFile, requests: &BTreeMap<String, Request>) -> Result<Step> {
    let StepFile {
        delete,
        apply,
        reopen,
        want,
    } = step;
    for name in &reopen {
        ensure!(requests.contains_key(name), "there is no request {name}");
    }
    let mut expected = BTreeMap::new();
    for (name, want) in want {
        let request = requests.get(&name);
        let request = request.with_context(|| format!("there is no request {name}"))?;
        let ended = Some(want.ended);
        let answer = want.answer(request.method).with_context(|| name.clone())?;
        expected.insert(name, Expectation { answer, ended });
    }
    Ok(Step {
        delete,
        apply,
        reopen,
        expected,
    })
}

/// Makes sure that the files that are applied are those that are there.
fn ensure_files(case: &Case) -> Result<()> {
    let applied = case.steps.iter().flat_map(|step| &step.apply);
    let applied: BTreeSet<_> = applied.map(String::as_str).chain(["case.yaml"]).collect();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&case.folder)? {
        found.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    for file in &found {
        ensure!(applied.contains(&**file), "{file} is never applied");
    }
    for file in applied {
        ensure!(found.contains(file), "there is no {file}");
    }
    Ok(())
}

// === impl Want ===

impl Want {
    fn answer(self, method: Method) -> Result<Expected> {
        let answer = match self {
            Self {
                addresses: Some(addresses),
                empty: false,
                profile: None,
                error: None,
                ..
            } => addresses_of(addresses)?,
            Self {
                addresses: None,
                empty: true,
                profile: None,
                error: None,
                ..
            } => Expected::Empty,
            Self {
                addresses: None,
                empty: false,
                profile: Some(profile),
                error: None,
                ..
            } => Expected::Profile(Content::Exactly(profile.into_json()?)),
            Self {
                addresses: None,
                empty: false,
                profile: None,
                error: Some(code),
                ..
            } => Expected::Code(code_of(&code)?),
            _ => bail!("one of addresses, empty, profile and error is wanted"),
        };
        let is_possible = match answer {
            Expected::Profile(_) => method == Method::GetProfile,
            Expected::Code(_) => true,
            _ => method == Method::Get,
        };
        ensure!(is_possible, "{method:?} does not answer so");
        Ok(answer)
    }
}

/// A list of addresses, of which nothing else matters, or a map with all that is said of them.
fn addresses_of(addresses: Value) -> Result<Expected> {
    let addresses: BTreeMap<_, _> = if addresses.is_array() {
        let list: Vec<SocketAddr> = serde_json::from_value(addresses)?;
        let unspecified = || Content::Some(json!({}));
        list.into_iter()
            .map(|address| (address, unspecified()))
            .collect()
    } else {
        let map: BTreeMap<SocketAddr, WantedEndpoint> = serde_json::from_value(addresses)?;
        map.into_iter()
            .map(|(address, endpoint)| (address, Content::Exactly(endpoint.into_json("labels"))))
            .collect()
    };
    ensure!(!addresses.is_empty(), "no address is written `empty: true`");
    Ok(Expected::Addresses(addresses))
}

fn code_of(name: &str) -> Result<Code> {
    Ok(match name {
        "UNKNOWN" => Code::Unknown,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "NOT_FOUND" => Code::NotFound,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "INTERNAL" => Code::Internal,
        "UNAVAILABLE" => Code::Unavailable,
        _ => bail!("{name} is no code that is answered"),
    })
}

// === impl WantedEndpoint ===

impl WantedEndpoint {
    /// In the form of the recordings, where labels are `labels` in the answers of `Get` and `metric_labels` in profiles.
    fn into_json(self, labels: &str) -> Value {
        let mut json = json!({});
        if labels == "labels" || !self.labels.is_empty() {
            json[labels] = json!(self.labels);
        }
        if self.weight != 0 {
            json["weight"] = json!(self.weight);
        }
        if let Some(identity) = &self.identity {
            let is_uri = identity.starts_with(URI_SCHEME);
            let server_name = match self.server_name {
                None if !is_uri => Some(identity.clone()),
                given => given.filter(|name| !name.is_empty()),
            };
            let mut tls = if is_uri {
                json!({"uri_like_identity": {"uri": identity}})
            } else {
                json!({"dns_like_identity": {"name": identity}})
            };
            if let Some(name) = server_name {
                tls["server_name"] = json!({"name": name});
            }
            json["tls_identity"] = tls;
        }
        let mut hint = Map::new();
        match self.hint {
            Some(Hint::H2) => {
                hint.insert("h2".to_owned(), json!({}));
            }
            Some(Hint::Opaque) => {
                hint.insert("opaque".to_owned(), json!({}));
            }
            None => {}
        }
        if let Some(port) = self.inbound_port {
            hint.insert("opaque_transport".to_owned(), json!({"inbound_port": port}));
        }
        if !hint.is_empty() {
            json["protocol_hint"] = hint.into();
        }
        if let Some(authority) = self.authority {
            json["authority_override"] = json!({"authority_override": authority});
        }
        if let Some(http2) = self.http2 {
            json["http2"] = http2;
        }
        json
    }
}

fn usual_weight() -> u32 {
    USUAL_WEIGHT
}

// === impl WantedProfile ===

impl WantedProfile {
    /// In the form of the recordings.
    fn into_json(self) -> Result<Value> {
        let option = |value: Option<Value>| value.unwrap_or(Value::Null);
        let reference = |value: Option<Value>| {
            value.map_or(Value::Null, |resource| json!({"resource": resource}))
        };
        let mut endpoint = Value::Null;
        if let Some(endpoints) = self.endpoint {
            let mut endpoints = endpoints.into_iter();
            let (Some((address, content)), None) = (endpoints.next(), endpoints.next()) else {
                bail!("a profile has one endpoint");
            };
            endpoint = content.into_json("metric_labels");
            endpoint["addr"] = json!(address);
        }
        Ok(without_defaults(&[
            ("fully_qualified_name", json!(self.fully_qualified_name)),
            ("opaque_protocol", json!(self.opaque_protocol)),
            ("parent_ref", reference(self.parent_ref)),
            ("profile_ref", reference(self.profile_ref)),
            ("retry_budget", option(self.retry_budget)),
            ("routes", option(self.routes)),
            ("dst_overrides", option(self.dst_overrides)),
            ("endpoint", endpoint),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a case, then what is wrong with it.
    fn check(case: &str, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("case.yaml"), case).unwrap();
        std::fs::write(folder.path().join("west.yaml"), "").unwrap();
        let outcome = match load(folder.path(), "case") {
            Ok(_) => "fine".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        assert!(outcome.contains(expected), "{case}\n{outcome}");
    }

    fn with_step(step: &str) -> String {
        format!(
            "about: it\nrequests:\n  web: {{method: Get, authority: web}}\n  profile: {{method: GetProfile, authority: web}}\n\
             steps:\n- apply: [west.yaml]\n  want:\n    profile: {{profile: {{}}}}\n{step}"
        )
    }

    #[test]
    fn a_case_that_is_not_as_it_should_be_is_refused() {
        let fine = with_step("    web: {addresses: ['10.0.0.1:80']}");
        check(&fine, "fine");
        check(&fine.replace("about", "abuot"), "abuot");
        check(
            &fine.replace("method: Get,", "method: Get, tokn: x,"),
            "tokn",
        );
        check(
            &fine.replace("[west.yaml]", "[]"),
            "west.yaml is never applied",
        );
        check(
            &fine.replace("[west.yaml]", "[west.yaml, east.yaml]"),
            "there is no east.yaml",
        );
        check(
            &(fine.clone() + "\n  reopen: [wob]"),
            "there is no request wob",
        );
        check(&with_step(""), "nothing is wanted of web");
        for (want, expected) in [
            ("{addresses: []}", "no address is written `empty: true`"),
            ("{addresses: {}}", "no address is written `empty: true`"),
            ("{addresses: [here]}", "invalid socket address"),
            ("{addresses: {'10.0.0.1:80': {lables: {}}}}", "lables"),
            ("{}", "one of addresses, empty, profile and error"),
            (
                "{ended: true}",
                "one of addresses, empty, profile and error",
            ),
            (
                "{empty: true, error: NOT_FOUND}",
                "one of addresses, empty, profile and error",
            ),
            ("{error: GONE}", "GONE is no code that is answered"),
            ("{profile: {}}", "Get does not answer so"),
            ("{empty: true, ended: true}", "fine"),
        ] {
            check(&with_step(&format!("    web: {want}")), expected);
        }
    }

    #[test]
    fn a_short_endpoint_stands_for_all_that_is_said_of_it() {
        let json = |yaml: &str| {
            let endpoint: WantedEndpoint = serde_saphyr::from_str(yaml).unwrap();
            endpoint.into_json("labels")
        };
        assert_eq!(json("{}"), json!({"labels": {}, "weight": 10_000}));
        assert_eq!(
            json("{labels: {a: b}, identity: web.sa, hint: h2, inbound_port: 4143}"),
            json!({
                "labels": {"a": "b"},
                "weight": 10_000,
                "tls_identity": {
                    "dns_like_identity": {"name": "web.sa"},
                    "server_name": {"name": "web.sa"},
                },
                "protocol_hint": {"h2": {}, "opaque_transport": {"inbound_port": 4143}},
            })
        );
        assert_eq!(
            json(
                "{identity: 'spiffe://root/vm', server_name: vm.local, hint: opaque, weight: 1, authority: 'web:80'}"
            ),
            json!({
                "labels": {},
                "weight": 1,
                "tls_identity": {
                    "uri_like_identity": {"uri": "spiffe://root/vm"},
                    "server_name": {"name": "vm.local"},
                },
                "protocol_hint": {"opaque": {}},
                "authority_override": {"authority_override": "web:80"},
            })
        );
    }
}
