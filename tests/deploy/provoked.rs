//! Alerts, provoked: a running server is brought into the state that an alert is for, and Prometheus' own evaluation of what its
//! `/metrics` says before and after has to raise that alert. Only time is made up: each state is taken to last for a while.
//!
//! Not provoked, because no test can or should: `TributaryInternalErrors` (a bug), `TributarySlow`, `TributaryWriterSlow`,
//! `TributaryConnectionsFail`, `TributaryFilesRunOut` (a machine at its limits), `TributaryClientsStalled` (shown by
//! `fc_rel_11_a_reader_that_stays_stuck_is_cut`). Their series are made up, in `alerts.test.yaml`.

#[path = "provoked/by_clusters.rs"]
mod by_clusters;
#[path = "provoked/by_files.rs"]
mod by_files;
#[path = "provoked/by_the_writer.rs"]
mod by_the_writer;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::dashboard::{ALERTS, alerts, metrics_in};
use crate::support::peers::Peer;
use crate::support::tributary::Tributary;
use crate::tools::{file_with, root, succeed};

/// For how many minutes a state lasts, but for the last one.
const PHASE: usize = 12;

/// For how many minutes the last state lasts: longer than any alert waits.
const LAST: usize = 90;

/// What each replica says in one state.
type Scrapes = Vec<String>;

/// States one after another.
#[derive(Default)]
pub(crate) struct Story {
    phases: Vec<Scrapes>,
    /// Gauges that go on growing by a second each second: the last value of a state is where they begin.
    growing: Option<&'static str>,
    /// Whether it is an installation that writes EndpointSlices, with the alerts of that.
    writes: bool,
}

// === impl Story ===

impl Story {
    /// What these servers say now is the next state.
    pub(crate) async fn then(mut self, replicas: &[&Tributary]) -> Result<Self> {
        let mut scrapes = Vec::new();
        for replica in replicas {
            scrapes.push(replica.metrics().await?);
        }
        self.phases.push(scrapes);
        Ok(self)
    }

    /// In the last state, this gauge grows with time.
    pub(crate) fn growing(self, metric: &'static str) -> Self {
        Self {
            growing: Some(metric),
            ..self
        }
    }

    /// It is an installation that writes EndpointSlices, with the alerts of that.
    pub(crate) fn of_a_writer() -> Self {
        Self {
            writes: true,
            ..Self::default()
        }
    }

    /// Every series with its values, minute by minute, as promtool reads them.
    fn series(&self) -> Result<Vec<Value>> {
        let mut wanted = BTreeSet::new();
        for (_, rule) in alerts()? {
            wanted.extend(metrics_in(rule["expr"].as_str().context("an expression")?));
        }
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut minutes = 0;
        for (number, scrapes) in self.phases.iter().enumerate() {
            let is_last = number + 1 == self.phases.len();
            let length = if is_last { LAST } else { PHASE };
            for (replica, text) in scrapes.iter().enumerate() {
                for (series, value) in samples(text) {
                    let name = series.split('{').next().unwrap_or(series);
                    if !wanted.contains(name) {
                        continue;
                    }
                    let values = all.entry(labelled(series, replica)).or_default();
                    values.resize(minutes, "_".to_owned());
                    let grows = is_last && self.growing == Some(name);
                    for minute in 0..length {
                        let value: f64 = value.parse()?;
                        #[expect(clippy::cast_precision_loss, reason = "minutes are few")]
                        let more = if grows { 60.0 * minute as f64 } else { 0.0 };
                        values.push((value + more).to_string());
                    }
                }
            }
            minutes += length;
        }
        Ok(all
            .into_iter()
            .map(|(series, mut values)| {
                if values.len() < minutes {
                    values.push("stale".to_owned());
                }
                json!({"series": series, "values": values.join(" ")})
            })
            .collect())
    }

    /// These alerts are raised after the first state, no others, and none in it.
    pub(crate) fn raises(&self, expected: &[&str]) -> Result<()> {
        let installed = if self.writes {
            &ALERTS[..]
        } else {
            &ALERTS[..1]
        };
        let files: Vec<_> = installed.iter().map(|file| root().join(file)).collect();
        let end = PHASE * (self.phases.len().saturating_sub(1)) + LAST;
        let samples: Vec<_> = expected
            .iter()
            .map(|alert| json!({"labels": format!("{{alertname=\"{alert}\"}}"), "value": 1}))
            .collect();
        let test = json!({
            "rule_files": files,
            "evaluation_interval": "1m",
            "tests": [{
                "interval": "1m",
                "input_series": self.series()?,
                "promql_expr_test": [
                    {"expr": "ALERTS{alertstate=\"firing\"}", "eval_time": format!("{}m", PHASE - 1), "exp_samples": []},
                    {
                        "expr": "count by (alertname) (count by (alertname) (count_over_time(ALERTS{alertstate=\"firing\"}[1d])))",
                        "eval_time": format!("{}m", end - 1),
                        "exp_samples": samples,
                    },
                ],
            }],
        });
        let (_folder, file) = file_with("provoked.yaml", &test.to_string())?;
        succeed(
            Peer::Promtool,
            &["test", "rules", &file.display().to_string()],
        )
        .with_context(|| format!("{expected:?} are expected"))?;
        Ok(())
    }
}

/// Series and values in a scrape.
fn samples(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' '))
}

/// A series with what Prometheus adds to it.
fn labelled(series: &str, replica: usize) -> String {
    let added = format!("instance=\"replica-{replica}\",job=\"tributary\"");
    match series.split_once('{') {
        Some((name, labels)) => format!("{name}{{{added},{labels}"),
        None => format!("{series}{{{added}}}"),
    }
}
