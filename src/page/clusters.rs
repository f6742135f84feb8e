//! The whole in a sentence, clusters as cards, findings, and streams.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};

use super::Settings;
use super::look::Look;
use crate::report::clusters::{Cluster, Role, State};
use crate::report::findings::Severity;
use crate::report::text::{age, count};

/// What freshness is measured against where nothing is withheld for being old.
const FRESH_ENOUGH: Duration = Duration::from_mins(1);

/// One sentence about the whole, in the colour of the worst of it.
pub(super) fn summary(look: &Look) -> Markup {
    let linked = || {
        let all = look.clusters.iter();
        all.filter(|cluster| cluster.role == Role::Linked)
    };
    let home = look.clusters.iter().find(|known| known.role == Role::Home);
    let home_is_well = home.is_some_and(|home| home.state == State::Synced);
    let troubled: Vec<_> = linked()
        .filter(|cluster| cluster.state != State::Synced)
        .map(|cluster| format!("{} is {}", cluster.name, cluster.state.word()))
        .collect();
    let (tone, mut text) = match (home_is_well, &troubled[..]) {
        (false, _) => (
            "bad",
            format!(
                "The home cluster is {}: nothing can be answered yet",
                home.map_or("unknown", |home| home.state.word())
            ),
        ),
        (true, []) => (
            "ok",
            match linked().count() {
                0 => "The home cluster is in sync; no cluster is linked".to_owned(),
                1 => "The linked cluster is in sync".to_owned(),
                linked => format!("All {linked} linked clusters are in sync"),
            },
        ),
        (true, troubled) => ("odd", format!("Cluster {}", troubled.join(", cluster "))),
    };
    let endpoints: u64 = look
        .clusters
        .iter()
        .filter_map(|known| known.endpoints)
        .sum();
    // Writing to a String cannot fail.
    write!(text, "; {endpoints} endpoints").ok();
    if let Some(ago) = look.since_change() {
        write!(text, "; last change {} ago", age(ago)).ok();
    }
    html! { p.sentence.(tone) { (text) "." } }
}

/// A card for each cluster.
pub(super) fn cards(look: &Look, settings: &Settings) -> Markup {
    html! {
        ul.cards {
            @for cluster in &look.clusters {
                li { (card(cluster, settings)) }
            }
        }
    }
}

fn card(cluster: &Cluster, settings: &Settings) -> Markup {
    let tone = match cluster.state {
        State::Synced => "ok",
        State::Syncing | State::Stale | State::Unknown => "odd",
        State::Unreachable | State::Rejected => "bad",
    };
    let limit = settings.staleness_ttl.unwrap_or(FRESH_ENOUGH).as_secs();
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    html! {
        p { b { (cluster.name) } " " span.dim { (cluster.role.word()) } " " strong.(tone) { (cluster.state.word()) }
            @if let Some(since) = cluster.since() { span.dim { " for " (age(since)) } }
        }
        p { (number(cluster.services)) " Services, " (number(cluster.endpoints)) " endpoints" }
        @if let Some(silent) = cluster.age() {
            p {
                meter min="0" max=(limit) low=(limit / 2) high=(limit * 9 / 10) optimum="0" value=(silent.as_secs().min(limit))
                    aria-label={ "Age of what is known of " (cluster.name) } { (age(silent)) }
                small { "heard of " (age(silent)) " ago"
                    @if settings.staleness_ttl.is_some() { ", withheld after " (age(Duration::from_secs(limit))) }
                }
            }
        }
        @if let Some(why) = &cluster.withheld_why {
            p.odd { (cluster.withheld_per_mille / 10) "% withheld where others are left: " (why) }
        }
        @if let Some(note) = &cluster.note { p.(tone) { (note) } }
        @if let Some(link) = &cluster.link {
            p { small { "Secret " span.mono { (link.secret) } ", " (link.credentials) " " span.mono { (link.fingerprint) } } }
        }
        @for kind in cluster.kinds.iter().filter(|kind| kind.state == "denied") {
            p { small { span.mono { (kind.name) } " may not be read" } }
        }
    }
}

/// What is wrong and what to do.
pub(super) fn findings(look: &Look) -> Markup {
    let bad: Vec<_> = look
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note)
        .collect();
    html! {
        @if !bad.is_empty() {
            details id="all-findings" open[bad.len() <= 3] {
                summary { strong { (count(bad.len(), "finding")) } " of " code { "tributary check" } }
                @for finding in &bad {
                    @let tone = if finding.severity == Severity::Error { "bad" } else { "odd" };
                    div.advice {
                        p { strong.(tone) { (finding.severity.word()) } " " b { (finding.subject) } ": " (finding.what)
                            @if let Some(since) = finding.since_seconds { span.dim { " (for " (age(Duration::from_secs(since))) ")" } }
                        }
                        p { b { "What it means: " } (finding.meaning) }
                        p { b { "What to do: " } (finding.action) }
                    }
                }
            }
        }
    }
}

/// What open streams are told.
pub(super) fn streams(look: &Look) -> Markup {
    let Some(top) = &look.top else {
        return html! { p { "Not known." } };
    };
    let total: usize = top.views.iter().map(|view| view.streams as usize).sum();
    html! {
        p {
            (count(total, "stream")) " in " (count(top.views.len(), "view")) @if top.more { " and more" }
            @if let Some(lag) = top.publish_lag_micros {
                "; the last change was published " (lag / 1000) "." (format!("{:03}", lag % 1000)) " ms after it was received"
            }
            "."
        }
        @if !top.views.is_empty() {
            div.scroll role="region" aria-label="Views" tabindex="0" {
                table {
                    thead { tr { th.n { "Streams" } th.n { "Endpoints" } th { "Service" } th.n { "Port" } th { "Zone" } th { "Node" } th { "Instance" } } }
                    tbody {
                        @for view in &top.views {
                            @let name = format!("{}.{}", view.service, view.namespace);
                            tr {
                                td.n { (view.streams) } td.n { (view.endpoints) }
                                td { a href={ "/?authority=" (name) ":" (view.port) } { (name) } }
                                td.n { (view.port) }
                                td { (view.zone.as_deref().unwrap_or("-")) }
                                td { (view.node.as_deref().unwrap_or("-")) }
                                td { (view.instance.as_deref().unwrap_or("-")) }
                            }
                        }
                    }
                }
            }
        }
    }
}
