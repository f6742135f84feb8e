//! One Service: its endpoints as a picture and as a table, what changed lately, and why an address is in the answer or not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::look::{Look, Service, Wanted};
use crate::report::endpoints::Endpoint;
use crate::report::explanation::Explanation;
use crate::report::history::RecentChange;
use crate::report::text::{age, short_identity};

/// Marks of one cluster in one zone; the rest is counted.
const MARKS_MAX: usize = 120;
/// Rows of the table of endpoints; the rest is counted.
const ROWS_MAX: usize = 500;
/// Services that are listed where none is asked for.
const SERVICES_MAX: usize = 50;
/// Changes that are listed.
const CHANGES_MAX: usize = 12;

/// What an endpoint is, by its shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Served,
    Draining,
    Dropped,
}

/// The form that asks for a Service.
pub(super) fn search(look: &Look, wanted: &Wanted) -> Markup {
    html! {
        form id="search" action="/" method="get" role="search" {
            label.wide { "Service"
                input id="authority" name="authority" value=(wanted.authority) list="known" autocomplete="off" spellcheck="false"
                    placeholder="web.shop, web.shop:8080 or a full name";
            }
            label { "As seen from zone" input id="zone" name="zone" value=(wanted.zone) autocomplete="off" spellcheck="false"; }
            label { "Explain address" input id="ip" name="ip" value=(wanted.ip) autocomplete="off" spellcheck="false" placeholder="10.42.0.7"; }
            button type="submit" { "Show" }
            datalist id="known" {
                @for service in &look.services { option value={ (service.name) "." (service.namespace) } {} }
            }
        }
    }
}

/// The Service that is wanted, or a list of those that there are.
pub(super) fn service(look: &Look, wanted: &Wanted) -> Markup {
    match &look.service {
        None => list(look),
        Some(Err(reason)) => html! {
            p.sentence.bad role="alert" { "There is no answer for " (wanted.authority) ": " (reason) "." }
            (list(look))
        },
        Some(Ok(service)) => shown(service, wanted),
    }
}

fn list(look: &Look) -> Markup {
    html! {
        @if look.services.is_empty() { p { "No Service is known." } }
        @else {
            div.scroll role="region" aria-label="Services" tabindex="0" {
                table {
                    thead { tr { th { "Service" } th { "Clusters" } th.n { "Ready" } th.n { "Endpoints" } th { "Ports" } } }
                    tbody {
                        @for known in look.services.iter().take(SERVICES_MAX) {
                            @let name = format!("{}.{}", known.name, known.namespace);
                            @let port = known.ports.first().copied().unwrap_or(80);
                            tr {
                                td { a href={ "/?authority=" (name) ":" (port) } { (name) } }
                                td { (known.clusters.join(", ")) }
                                td.n { (known.ready) } td.n { (known.endpoints) }
                                td { (known.ports.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) }
                            }
                        }
                    }
                }
            }
            @if look.more_services || look.services.len() > SERVICES_MAX { p.dim { "There are more: search by name." } }
        }
    }
}

fn shown(service: &Service, wanted: &Wanted) -> Markup {
    let whole = &service.whole;
    let endpoints: Vec<&Endpoint> = whole
        .members
        .iter()
        .flat_map(|member| &member.slices)
        .flat_map(|slice| &slice.endpoints)
        .map(|explained| &explained.endpoint)
        .collect();
    let tone = if whole.fine { "ok" } else { "odd" };
    html! {
        p { b.mono { (whole.authority) } " " span.dim { (whole.service) } }
        p.sentence.(tone) { (whole.verdict) }
        @match &service.one {
            None => {}
            Some(Err(reason)) => p.bad role="alert" { (wanted.ip) ": " (reason) },
            Some(Ok(one)) => section aria-label={ "Explanation of " (wanted.ip) } { (explanation(one, wanted)) },
        }
        (picture(&endpoints, whole, wanted))
        (table(&endpoints, wanted))
        h3 { "Recent changes" }
        (timeline(&service.changes))
        @if service.one.is_none() {
            details id="explanation" open[!whole.fine] {
                summary { "Why the answer is what it is" }
                (explanation(whole, wanted))
            }
        }
    }
}

/// Clusters as columns, zones as rows, one mark for each endpoint.
fn picture(endpoints: &[&Endpoint], whole: &Explanation, wanted: &Wanted) -> Markup {
    let mut clusters: Vec<&str> = Vec::new();
    let members = whole
        .members
        .iter()
        .filter_map(|explained| explained.member.as_ref());
    for member in members {
        if !clusters.contains(&member.cluster.as_str()) {
            clusters.push(&member.cluster);
        }
    }
    let mut cells: BTreeMap<(&str, &str), Vec<&Endpoint>> = BTreeMap::new();
    let mut zones = BTreeSet::new();
    for endpoint in endpoints {
        let zone = endpoint.zone.as_deref().unwrap_or("no zone");
        let cluster = endpoint.cluster.as_deref().unwrap_or("-");
        zones.insert(zone);
        cells.entry((zone, cluster)).or_default().push(endpoint);
    }
    html! {
        @if !endpoints.is_empty() {
            div.scroll role="region" aria-label="Endpoints by cluster and zone" tabindex="0" {
                table.picture {
                    caption.dim.legend {
                        (mark(Shape::Served)) " in the answer  " (mark(Shape::Draining)) " draining  " (mark(Shape::Dropped)) " left out"
                    }
                    thead { tr { th { "Zone" } @for cluster in &clusters { th scope="col" { (cluster) } } } }
                    tbody {
                        @for zone in &zones {
                            tr {
                                th scope="row" { (zone) }
                                @for cluster in &clusters {
                                    td { @if let Some(cell) = cells.get(&(*zone, *cluster)) { (marks(cell, wanted)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn marks(endpoints: &[&Endpoint], wanted: &Wanted) -> Markup {
    html! {
        ul.marks {
            @for endpoint in endpoints.iter().take(MARKS_MAX) {
                @let says = describe(endpoint);
                li { a id={ "m-" (endpoint.address) } href=(link(wanted, &endpoint.address)) title=(says) aria-label=(says) { (mark(Shape::of(endpoint))) } }
            }
        }
        @if endpoints.len() > MARKS_MAX { small { "and " (endpoints.len() - MARKS_MAX) " more" } }
    }
}

fn mark(shape: Shape) -> Markup {
    html! {
        svg viewBox="0 0 16 16" aria-hidden="true" {
            @match shape {
                Shape::Served => circle.f-ok cx="8" cy="8" r="7" {},
                Shape::Draining => path.f-odd d="M8 1 15.5 14.5H.5z" {},
                Shape::Dropped => path.f-bad d="M2.5 2.5l11 11m0-11l-11 11" {},
            }
        }
    }
}

fn describe(endpoint: &Endpoint) -> String {
    let workload = endpoint.workload.as_ref();
    let workload = workload.map(|workload| format!(", {} {}", workload.kind, workload.name));
    let became = match &endpoint.note {
        Some(note) if !endpoint.served => format!("left out: {note}"),
        _ => "in the answer".to_owned(),
    };
    format!(
        "{}{}, {became}",
        endpoint.address,
        workload.unwrap_or_default()
    )
}

/// The same page, with an explanation of an address.
fn link(wanted: &Wanted, address: &str) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (authority, zone) = (encoded(&wanted.authority), encoded(&wanted.zone));
    format!(
        "/?authority={authority}&zone={zone}&ip={}",
        encoded(address)
    )
}

fn table(endpoints: &[&Endpoint], wanted: &Wanted) -> Markup {
    html! {
        @if !endpoints.is_empty() {
            details id="endpoints" open[endpoints.len() <= 20] {
                summary { "Endpoints as a table" }
                div.scroll role="region" aria-label="Endpoints" tabindex="0" {
                    table {
                        thead { tr { th { "Address" } th { "Cluster" } th { "Zone" } th { "Locality" } th { "Pod" } th { "Identity" } th { "What became of it" } } }
                        tbody {
                            @for endpoint in endpoints.iter().take(ROWS_MAX) {
                                @let tone = if endpoint.served { "ok" } else { "odd" };
                                tr {
                                    td.mono { a href=(link(wanted, &endpoint.address)) { (endpoint.address) } }
                                    td { (endpoint.cluster.as_deref().unwrap_or("-")) }
                                    td { (endpoint.zone.as_deref().unwrap_or("-")) }
                                    td { (endpoint.locality) }
                                    td { (endpoint.workload.as_ref().map_or("-", |workload| &workload.name)) }
                                    td { (endpoint.identity.as_deref().map_or("-", short_identity)) }
                                    td.(tone) { @if endpoint.served { "in the answer" } @else { (endpoint.note.as_deref().unwrap_or("left out")) } }
                                }
                            }
                        }
                    }
                }
                @if endpoints.len() > ROWS_MAX { p.dim { "and " (endpoints.len() - ROWS_MAX) " more: " code { "tributary endpoints" } " has all" } }
            }
        }
    }
}

fn timeline(changes: &[RecentChange]) -> Markup {
    html! {
        @if changes.is_empty() { p.dim { "None since the server started." } }
        @else {
            ol.time {
                @for change in changes.iter().take(CHANGES_MAX) {
                    li {
                        span.dim { @if let Some(ago) = change.age_seconds { (age(Duration::from_secs(ago))) " ago" } }
                        span {
                            (change.causes.join("; "))
                            @if change.added_count + change.removed_count > 0 {
                                ": " span.ok { "+" (change.added_count) } " " span.bad { "-" (change.removed_count) } ", " (change.left) " left"
                            }
                            @else { span.dim { ": nothing was sent" } }
                            @if !change.removed.is_empty() { br; small { "gone: " span.mono { (change.removed.join(" ")) } } }
                            @if !change.added.is_empty() { br; small { "told of: " span.mono { (change.added.join(" ")) } } }
                        }
                    }
                }
            }
        }
    }
}

/// The tree of an explanation, and what it means.
fn explanation(explanation: &Explanation, wanted: &Wanted) -> Markup {
    let is_about_one = !wanted.ip.is_empty();
    let tone = if explanation.fine { "ok" } else { "bad" };
    html! {
        @if is_about_one { p.sentence.(tone) { (explanation.verdict) } }
        ul.tree {
            @for explained in &explanation.members {
                li {
                    @if let Some(member) = &explained.member { "member " b { (member.service) "@" (member.cluster) } " " }
                    span.dim { (explained.note) }
                    ul {
                        @for slice in &explained.slices {
                            li {
                                "EndpointSlice " span.mono { (slice.name) } " " span.dim { (slice.note) }
                                ul {
                                    @for endpoint in &slice.endpoints {
                                        @let tone = if endpoint.endpoint.served { "ok" } else { "odd" };
                                        li {
                                            span.mono { (endpoint.endpoint.address) } " " span.(tone) { (describe(&endpoint.endpoint)) }
                                            @if is_about_one {
                                                ul { @for rule in &endpoint.rules {
                                                    li { b { (rule.rule) } ": " @if rule.passed { "passed" } @else { strong.bad { "broken" } } ", " (rule.reason) }
                                                } }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @for holder in explanation.holders.iter().filter(|_| is_about_one) {
            p { "The address belongs to " (holder.kind) " " (holder.namespace) "/" (holder.name) " of cluster " (holder.cluster) "." }
        }
        @for advice in &explanation.advice {
            div.advice { p { b { "What it means: " } (advice.meaning) } p { b { "What to do: " } (advice.action) } }
        }
    }
}

// === impl Shape ===

impl Shape {
    fn of(endpoint: &Endpoint) -> Self {
        match &endpoint.note {
            _ if endpoint.served => Self::Served,
            Some(note) if note.starts_with("draining") => Self::Draining,
            _ => Self::Dropped,
        }
    }
}
