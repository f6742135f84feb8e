//! The alerts, by promtool.

use std::collections::BTreeSet;

use anyhow::Context;

use crate::dashboard::{ALERTS, alerts};
use crate::support::peers::Peer;
use crate::support::run;
use crate::tools::{read, succeed};

const TESTS: &str = "tests/deploy/alerts.test.yaml";

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn rules_are_right() {
    run(async {
        let mut arguments = vec!["check", "rules", "--lint=all", "--lint-fatal"];
        arguments.extend(ALERTS);
        succeed(Peer::Promtool, &arguments)?;
        Ok(())
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn every_alert_fires_when_it_has_to_and_not_before() {
    run(async {
        succeed(Peer::Promtool, &["test", "rules", TESTS])?;
        Ok(())
    });
}

#[test]
fn every_alert_is_tested_and_leads_to_help() {
    run(async {
        let tests: serde_json::Value = serde_saphyr::from_str(&read(TESTS)?)?;
        let tested = tests["tests"].as_array().context("tests")?;
        let mut tested: BTreeSet<_> = tested
            .iter()
            .filter_map(|test| test["name"].as_str())
            .collect();
        let page = read("docs/troubleshoot.md")?;
        let anchors: BTreeSet<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(anchor)
            .collect();
        for (name, rule) in alerts()? {
            assert!(
                tested.remove(name.as_str()),
                "{name} has no test in {TESTS}"
            );
            for annotation in ["summary", "description"] {
                let text = rule["annotations"][annotation].as_str();
                assert!(
                    text.is_some_and(|text| text.len() > 20),
                    "{name}: {annotation}"
                );
            }
            let severity = rule["labels"]["severity"].as_str();
            assert!(
                matches!(severity, Some("critical" | "warning" | "info")),
                "{name}"
            );
            let runbook = rule["annotations"]["runbook"]
                .as_str()
                .context("a runbook")?;
            let anchor = runbook
                .strip_prefix("docs/troubleshoot.md#")
                .context("an anchor")?;
            assert!(anchors.contains(anchor), "{name}: {runbook} is not there");
            assert!(
                page.contains(&format!("`{name}`")),
                "docs/troubleshoot.md does not name {name}"
            );
        }
        assert!(
            tested.is_empty(),
            "tests of alerts that are not there: {tested:?}"
        );
        Ok(())
    });
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || matches!(character, ' ' | '-'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
