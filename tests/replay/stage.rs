//! Replaying one case on a set of clusters, of whatever make.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::Instant;

use super::answer::Actual;
use super::asker::Asker;
use super::case::{Case, Expectation, Step};
use super::client::Client;
use crate::support::tributary::Tributary;

/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// What Linkerd's destination controller was started with when it was recorded, and we are in every case.
const ARGUMENTS: [(&str, &str); 5] = [
    ("controller-namespace", "linkerd"),
    ("cluster-domain", "cluster.local"),
    ("identity-trust-domain", "cluster.local"),
    ("enable-ipv6", "false"),
    (
        "default-opaque-ports",
        "25,587,3306,4444,5432,6379,9300,11211",
    ),
];

/// Three clusters: `west` is home, `east` and `rogue` are linked by the cases themselves.
pub trait Stage {
    /// How long things take here.
    const PACE: Pace;

    /// Empties the clusters.
    async fn clear(&mut self) -> Result<()>;

    /// Starts the product with `west` as its home, and waits until it is ready.
    async fn serve(&mut self, arguments: &[&str]) -> Result<Tributary>;

    /// Creates the objects of a YAML text, or replaces those of their names.
    async fn apply(&mut self, cluster: &str, yaml: &str) -> Result<()>;

    /// Deletes an object.
    async fn delete(
        &mut self,
        cluster: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<()>;

    /// Waits until the product has heard of all that was done, if there is a way to know; otherwise `PACE.quiet` has to do.
    async fn heard(&mut self, tributary: &Tributary) -> Result<()>;
}

/// How long things take on a [`Stage`].
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nothing more is expected to happen when nothing has happened for this long after [`Stage::heard`].
    pub quiet: Duration,
    /// How long an answer may differ from the expected one before it counts as different.
    pub patience: Duration,
    /// Between the end of a client's stream and its next try; shorter than `quiet`, so that an error is not an old one.
    pub retry: Duration,
}

/// A case under way.
struct Play<'a> {
    case: &'a Case,
    pace: Pace,
    tributary: Tributary,
    /// For every request, a client of each make.
    clients: BTreeMap<&'a str, Vec<Client>>,
    askers: &'a [Arc<dyn Asker>],
}

/// Replays a case; an error says where the answers differ.
///
/// The answers to the first of `askers` are compared with what the case expects, those to the others with them.
pub async fn replay<S: Stage>(stage: &mut S, askers: &[Arc<dyn Asker>], case: &Case) -> Result<()> {
    stage.clear().await?;
    let arguments = arguments(&case.arguments);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut steps = case.steps.iter();
    let first = steps.next().context("a case has steps")?;
    let tributary = if case.starts_late {
        perform(stage, case, first).await?;
        stage.serve(&arguments).await?
    } else {
        let tributary = stage.serve(&arguments).await?;
        perform(stage, case, first).await?;
        tributary
    };
    stage.heard(&tributary).await?;
    let mut play = Play {
        case,
        pace: S::PACE,
        tributary,
        clients: BTreeMap::new(),
        askers,
    };
    for name in case.requests.keys() {
        play.open(name);
    }
    play.compare(1, first).await?;
    for (number, step) in (2..).zip(steps) {
        play.clients().for_each(Client::forget_ends);
        perform(stage, case, step).await?;
        stage.heard(&play.tributary).await?;
        if !step.reopen.is_empty() {
            // The recorded server knew of the step's changes when streams were opened anew.
            play.rest().await;
        }
        for name in &step.reopen {
            play.open(name);
        }
        play.compare(number, step).await?;
    }
    Ok(())
}

async fn perform(stage: &mut impl Stage, case: &Case, step: &Step) -> Result<()> {
    for object in &step.delete {
        let parts: Vec<_> = object.split('/').collect();
        let [cluster, kind, namespace, name] = parts[..] else {
            bail!("{object} names no object");
        };
        stage.delete(cluster, kind, namespace, name).await?;
    }
    for file in &step.apply {
        let cluster = file.split('.').next().unwrap_or_default();
        stage.apply(cluster, &case.text(file)?).await?;
    }
    Ok(())
}

// === impl Play ===

impl Play<'_> {
    /// Lets new clients that know nothing ask for a request; those that did so before are gone.
    fn open(&mut self, name: &str) {
        let case = self.case;
        if let Some((name, request)) = case.requests.get_key_value(name) {
            let open = |asker| Client::open(asker, &self.tributary, request, self.pace.retry);
            let clients = self.askers.iter().map(open).collect();
            self.clients.insert(name, clients);
        }
    }

    fn clients(&mut self) -> impl Iterator<Item = &mut Client> {
        self.clients.values_mut().flatten()
    }

    /// Waits until every answer is as expected and nothing more comes, or until that has taken too long.
    async fn compare(&mut self, number: usize, step: &Step) -> Result<()> {
        let Pace {
            quiet, patience, ..
        } = self.pace;
        let begin = Instant::now();
        loop {
            self.tend()?;
            let differences = self.differences(step);
            if differences.is_empty() && self.quiet_since(begin).elapsed() >= quiet {
                break;
            }
            if begin.elapsed() >= patience {
                ensure!(
                    differences.is_empty(),
                    "  after step {number}\n{}",
                    differences.join("\n")
                );
                bail!("  after step {number}: as expected, but it does not come to rest");
            }
            tokio::time::sleep(POLL).await;
        }
        for (name, clients) in &self.clients {
            for (asker, client) in self.askers.iter().zip(clients) {
                let violations = client.violations();
                ensure!(
                    violations.is_empty(),
                    "  after step {number}, {name}, {}: {violations:?}",
                    asker.name()
                );
            }
        }
        Ok(())
    }

    /// Waits until the streams have been quiet for a while.
    async fn rest(&self) {
        let begin = Instant::now();
        while self.quiet_since(begin).elapsed() < self.pace.quiet {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Does what clients do between looks, and makes sure that there is still a server.
    fn tend(&mut self) -> Result<()> {
        self.tributary.ensure_running()?;
        for client in self.clients.values_mut().flatten() {
            client.tend(&self.tributary);
        }
        Ok(())
    }

    /// Since when no stream has had a message; not before `begin`.
    fn quiet_since(&self, begin: Instant) -> Instant {
        let clients = self.clients.values().flatten();
        clients.map(Client::quiet_since).fold(begin, Instant::max)
    }

    fn differences(&self, step: &Step) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, clients) in &self.clients {
            let expected = step.expected.get(*name);
            if let Some(lines) = self.difference(expected, clients) {
                let authority = &self.case.requests[*name].authority;
                differences.push(format!("  {name} ({authority})\n{lines}"));
            }
        }
        differences
    }

    /// How the answers to one request differ from what is expected, or from each other.
    fn difference(&self, expected: Option<&Expectation>, clients: &[Client]) -> Option<String> {
        let mut lines = Vec::new();
        let (first, others) = clients.split_first()?;
        let answer = first.answer(self.pace.quiet);
        if let Some(Expectation {
            answer: expected,
            ended,
        }) = expected
        {
            lines.extend(expected.difference(&answer));
            match (ended, first.has_ended()) {
                (Some(true), false) => {
                    lines.push("    no stream has ended, and one should".to_owned());
                }
                (Some(false), true) => {
                    lines.push("    a stream has ended, and none should".to_owned());
                }
                _ => {}
            }
        }
        for (asker, other) in self.askers.iter().skip(1).zip(others) {
            let other = other.answer(self.pace.quiet);
            if other != answer {
                lines.push(format!(
                    "    {} has {}\n    {} has {}",
                    self.askers[0].name(),
                    in_full(&answer),
                    asker.name(),
                    in_full(&other)
                ));
            }
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

fn in_full(answer: &Actual) -> String {
    match answer {
        Actual::Addresses(addresses) => format!("{addresses:?}"),
        other => other.to_string(),
    }
}

/// The recorded server's arguments in our syntax: those of every case, unless the case itself has others.
fn arguments(of_case: &[String]) -> Vec<String> {
    let of_case: Vec<_> = of_case
        .iter()
        .map(|argument| {
            let long = argument.starts_with('-') && !argument.starts_with("--");
            format!("{}{argument}", if long { "-" } else { "" })
        })
        .collect();
    let is_given = |name: &str| {
        let flag = format!("--{name}");
        of_case
            .iter()
            .any(|argument| argument.split('=').next() == Some(&flag))
    };
    ARGUMENTS
        .iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .chain(of_case.iter().cloned())
        .collect()
}
