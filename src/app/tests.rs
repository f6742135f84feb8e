use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::index::Kind;
use crate::model::ClusterRole;
use crate::publish::KindStatus;
use crate::testing::{HOME, cluster, home};

/// What is known of one metric: its type, its labels and its unit.
type Families = BTreeMap<String, (String, String, String)>;

#[test]
fn an_error_counts_more_than_an_end_that_was_seen_before() {
    let mut cause = Cause::default();
    cause.add_end(Ok(("indexer", Ok(()))));
    cause.add_end(Ok(("source", Err(anyhow::anyhow!("no files")))));
    cause.add_end(Ok(("admin listener", Err(anyhow::anyhow!("no socket")))));
    let error = cause.outcome().unwrap_err();
    assert_eq!(format!("{error:#}"), "source failed: no files");

    let mut cause = Cause::default();
    cause.add_end(Ok(("indexer", Ok(()))));
    let error = cause.outcome().unwrap_err();
    assert_eq!(error.to_string(), "indexer ended unexpectedly");
    assert!(Cause::default().outcome().is_ok());
}

/// Everything that may be registered, having counted something.
fn everything() -> Registries {
    let mut registries = Registries::default();
    let (ours, linkerd) = (&mut registries.ours, &mut registries.linkerd);
    linkerd.register_collector(Box::new(ProcessCollector));
    let sources = SourceMetrics::default();
    sources.register(ours, linkerd);
    sources.touch();
    FileMetrics::register(ours).touch();
    destination::Metrics::register(ours.sub_registry_with_prefix("destination"), linkerd).touch();
    crate::frontends::xds::Metrics::register(ours.sub_registry_with_prefix("xds")).touch();
    server::Metrics::register(ours, linkerd).expect("descriptors");
    writer::Metrics::register(ours.sub_registry_with_prefix("writer")).touch();
    let board = StatusBoard::default();
    board.add(&HOME.into(), ClusterRole::Home, EndpointKind::EndpointSlice);
    for kind in Kind::ALL {
        board.report_kind(&HOME.into(), kind, KindStatus::Watched);
    }
    let (mut indexer, catalog) = Indexer::new(
        HOME.into(),
        SelectPolicy::default(),
        board,
        Readiness::default(),
        IndexMetrics::register(ours.sub_registry_with_prefix("index")),
    );
    indexer.say(home().begins_with([]));
    let east = cluster("east").of_endpoints();
    indexer.say([east.linked()]);
    indexer.say(east.begins_with([]));
    ours.register_collector(Box::new(ClusterCollector::new(catalog.clone())));
    linkerd.register_collector(Box::new(LinkerdCollector::new(catalog)));
    registries
}

/// What a scrape says, by the names that samples have.
fn scraped(text: &str) -> Families {
    let mut families = Families::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').expect("a type");
            let name = if kind == "counter" {
                format!("{name}_total")
            } else {
                name.to_owned()
            };
            let kind = kind.to_owned();
            let before = families.insert(name.clone(), (kind, String::new(), String::new()));
            assert_eq!(before, None, "{name} is registered twice");
        } else if let Some(described) = line.strip_prefix("# UNIT ") {
            let (name, unit) = described.split_once(' ').expect("a unit");
            let names = [name.to_owned(), format!("{name}_total")];
            let family = families.iter_mut().find(|(known, _)| names.contains(known));
            family.expect("a family").1.2 = unit.to_owned();
        }
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line
            .split_once(' ')
            .map_or("", |(sample, _)| sample)
            .trim_end_matches('}')
            .split_once('{')
            .unwrap_or((line.split(' ').next().unwrap_or_default(), ""));
        let keys: BTreeSet<_> = labels
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(key, _)| key)
            .filter(|key| *key != "le")
            .collect();
        let parts = ["_bucket", "_count", "_sum"];
        let of = parts.iter().find_map(|part| name.strip_suffix(part));
        let known = of.filter(|of| families.contains_key(*of)).unwrap_or(name);
        let family = families
            .get_mut(known)
            .unwrap_or_else(|| panic!("{line} has no type"));
        family.1 = keys.into_iter().collect::<Vec<_>>().join(", ");
    }
    families
}

/// What the page says, which has a row for each metric up to the list of those that are left out.
fn documented(page: &str) -> Families {
    let (listed, _) = page
        .split_once("## Metrics of the controller that are left out")
        .expect("a list");
    let rows = listed.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, unit, meaning, ..] = &cells[..] else {
            panic!("a row with too few cells: {row}");
        };
        assert!(!meaning.is_empty(), "{row}");
        let name = name.trim_matches('`').to_owned();
        let labels = labels.replace('`', "");
        (name, ((*kind).to_owned(), labels, (*unit).to_owned()))
    })
    .collect()
}

#[test]
fn every_metric_is_documented_with_its_type_labels_and_unit() {
    let page = include_str!("../../docs/metrics.md");
    let (text, mut documented) = (everything().encode().expect("text"), documented(page));
    let mut wrong = Vec::new();
    for (name, (kind, labels, unit)) in scraped(&text) {
        match documented.remove(&name) {
            None => wrong.push(format!(
                "{name}: not documented, {kind} with {labels:?} in {unit:?}"
            )),
            Some(row) => {
                let unit_matches = unit.is_empty() || unit == row.2;
                if row.0 != kind || row.1 != labels || !unit_matches {
                    wrong.push(format!(
                        "{name}: {kind} with {labels:?} in {unit:?}, not {row:?}"
                    ));
                }
            }
        }
    }
    wrong.extend(
        documented
            .into_keys()
            .map(|name| format!("{name}: documented, and not there")),
    );
    assert!(wrong.is_empty(), "docs/metrics.md:\n{}", wrong.join("\n"));
}

#[test]
fn no_series_is_shown_twice() {
    let text = everything().encode().expect("text");
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        assert!(seen.insert(series), "{series}");
    }
}
