//! The dashboard and the alerts ask for nothing that Tributary does not have.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::support::peers::Peer;
use crate::support::run;
use crate::tools::{file_with, read, succeed};

const DASHBOARD: &str = "deploy/chart/tributary/files/dashboard.json";
pub(crate) const ALERTS: [&str; 2] = [
    "deploy/chart/tributary/files/alerts.yaml",
    "deploy/chart/tributary/files/alerts-writer.yaml",
];

/// Functions of Prometheus and of Grafana whose names look like a metric's.
const FUNCTIONS: [&str; 2] = ["histogram_quantile", "label_values"];

/// Names of series that the binary registers, as `docs/metrics.md` has them, which another test compares with the binary.
fn registered() -> Result<BTreeSet<String>> {
    let page = read("docs/metrics.md")?;
    let mut names = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        if cells.get(2) == Some(&"histogram") {
            names.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
        names.insert(name);
    }
    Ok(names)
}

/// Names in an expression that could be metrics: neither in quotes, nor in braces or brackets, nor of the language.
pub(crate) fn metrics_in(expression: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut depth, mut quoted, mut word) = (0_u32, false, String::new());
    for character in expression.chars().chain([' ']) {
        match character {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if !quoted && depth == 0 && (character.is_ascii_alphanumeric() || character == '_') {
            word.push(character);
            continue;
        }
        let name = std::mem::take(&mut word);
        // No keyword and no label that we group by has an underscore; every metric has.
        if name.contains('_') && !FUNCTIONS.contains(&name.as_str()) {
            names.insert(name);
        }
    }
    names
}

/// Every expression of the dashboard, with the title of its panel.
fn dashboard_queries() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)?)?;
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().context("panels")? {
        let title = panel["title"].as_str().context("a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().context("an expression")?;
            queries.push((title.to_owned(), expression.to_owned()));
        }
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .context("variables")?
    {
        if let Some(definition) = variable["definition"].as_str() {
            queries.push(("variables".to_owned(), definition.to_owned()));
        }
    }
    Ok(queries)
}

/// Every alert: its name and what it is.
pub(crate) fn alerts() -> Result<Vec<(String, Value)>> {
    let mut alerts = Vec::new();
    for file in ALERTS {
        let rules: Value = serde_saphyr::from_str(&read(file)?)?;
        for group in rules["groups"].as_array().context("groups")? {
            for rule in group["rules"].as_array().context("rules")? {
                let name = rule["alert"].as_str().context("a name")?;
                alerts.push((name.to_owned(), rule.clone()));
            }
        }
    }
    Ok(alerts)
}

#[test]
fn every_query_is_for_metrics_that_are_registered() {
    run(async {
        let registered = registered()?;
        let mut queries = dashboard_queries()?;
        let panels = queries.len();
        for (name, rule) in alerts()? {
            let expression = rule["expr"].as_str().context("an expression")?;
            queries.push((name, expression.to_owned()));
        }
        assert!(panels > 40, "{panels} queries in the dashboard");
        let mut wrong = Vec::new();
        for (place, expression) in &queries {
            let metrics = metrics_in(expression);
            assert!(!metrics.is_empty(), "{place}: {expression}");
            let unknown = metrics.iter().filter(|name| !registered.contains(*name));
            wrong.extend(unknown.map(|name| format!("{place}: {name}")));
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        Ok(())
    });
}

#[test]
fn panels_do_not_overlap_and_say_what_they_show() {
    run(async {
        let dashboard: Value = serde_json::from_str(&read(DASHBOARD)?)?;
        let (mut cells, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().context("panels")? {
            assert!(ids.insert(panel["id"].as_u64()), "{}", panel["title"]);
            let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
            for x in place("x")..place("x") + place("w") {
                assert!(x < 24, "{}", panel["title"]);
                for y in place("y")..place("y") + place("h") {
                    assert!(cells.insert((x, y)), "{}", panel["title"]);
                }
            }
            let said = panel["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(said || panel["type"] == "row", "{}", panel["title"]);
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs promtool: scripts/test deploy"]
fn every_query_of_the_dashboard_is_promql() {
    run(async {
        let rules: Vec<Value> = dashboard_queries()?
            .into_iter()
            .filter(|(place, _)| place != "variables")
            .enumerate()
            .map(|(number, (_, expression))| {
                let expression = expression
                    .replace("$cluster", "east")
                    .replace("$instance", "a");
                serde_json::json!({"record": format!("panel:{number}"), "expr": expression})
            })
            .collect();
        let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
        let (_folder, file) = file_with("rules.yaml", &groups.to_string())?;
        succeed(
            Peer::Promtool,
            &["check", "rules", &file.display().to_string()],
        )?;
        Ok(())
    });
}
