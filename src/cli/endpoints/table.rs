//! An answer as a table.

use crate::cli::paint::{Tone, paint};
use crate::cli::text::{age, count, or_dash, short_identity, shorten};
use crate::config::Colour;
use crate::report::endpoints::{Api, Endpoint, Member, MemberState, Report, Resolution, Workload};

/// Widest line of a table that is not wide.
const WIDTH: usize = 120;
/// Space between columns.
const GAP: &str = "  ";
/// How a note is set off that has a line for itself.
const INDENT: &str = "    ";

/// How a table looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// How much is shown.
    pub(super) detail: Detail,
    /// Whether colours say again what the words say.
    pub(super) colour: Colour,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What fits into [`WIDTH`] columns.
    Narrow,
    /// Everything.
    Wide,
}

/// Which side of its column a cell is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A column: heading, side, cell, and how narrow it may be made; `None` if what is in it must stay whole.
struct Column {
    heading: &'static str,
    side: Side,
    narrowest: Option<usize>,
    cell: fn(&Endpoint, Detail) -> String,
}

const NARROW: [Column; 8] = [
    Column::new("ADDRESS", |endpoint, _| endpoint.address.clone()),
    Column::new("CLUSTER", |endpoint, _| {
        or_dash(endpoint.cluster.as_deref())
    }),
    Column::new("ZONE", |endpoint, _| or_dash(endpoint.zone.as_deref())).down_to(8),
    Column::new("LOCALITY", |endpoint, _| endpoint.locality.clone()),
    Column::new("SERVED", |endpoint, _| {
        yes_or_no(endpoint.served).to_owned()
    }),
    Column::new("WEIGHT", |endpoint, _| weight(endpoint)).right(),
    Column::new("POD", |endpoint, detail| {
        pod(endpoint.workload.as_ref(), detail)
    })
    .down_to(12),
    Column::new("IDENTITY", |endpoint, detail| {
        identity(endpoint.identity.as_deref(), detail)
    })
    .down_to(8),
];

const MORE: [Column; 3] = [
    Column::new("NODE", |endpoint, _| or_dash(endpoint.node.as_deref())),
    Column::new("HOSTNAME", |endpoint, _| {
        or_dash(endpoint.hostname.as_deref())
    }),
    Column::new("PROTOCOL", |endpoint, _| {
        or_dash(endpoint.protocol_hint.as_deref())
    }),
];

/// Writes an answer: a line about the whole, then a line per endpoint.
pub(super) fn table(report: &Report, look: Look) -> String {
    let mut text = headline(report, look);
    if report.endpoints.is_empty() {
        return text;
    }
    let columns: Vec<&Column> = match look.detail {
        Detail::Narrow => NARROW.iter().collect(),
        Detail::Wide => NARROW.iter().chain(&MORE).collect(),
    };
    let rows: Vec<Vec<String>> = report
        .endpoints
        .iter()
        .map(|endpoint| {
            let cell = |column: &&Column| (column.cell)(endpoint, look.detail);
            columns.iter().map(cell).collect()
        })
        .collect();
    let widths = widths(&columns, &rows, look.detail);
    let headings: Vec<String> = columns
        .iter()
        .map(|column| column.heading.to_owned())
        .collect();
    let heading = line(&columns, &widths, &headings);
    text.push_str(&paint(heading.trim_end(), Tone::Heading, look.colour));
    text.push('\n');
    for (endpoint, cells) in report.endpoints.iter().zip(&rows) {
        let tone = if endpoint.served {
            Tone::Normal
        } else {
            Tone::Odd
        };
        let row = with_note(&line(&columns, &widths, cells), endpoint, look.detail);
        text.push_str(&paint(&row, tone, look.colour));
        text.push('\n');
    }
    text
}

/// The line about the whole; several if one would be too long.
fn headline(report: &Report, look: Look) -> String {
    let members = members(report);
    let endpoints = match (report.endpoints.len(), report.api) {
        (0, _) => "no endpoints".to_owned(),
        (number, Api::Introspection) => {
            format!("{}, {} served", count(number, "endpoint"), report.served())
        }
        (number, Api::Destination) => format!("{} served", count(number, "endpoint")),
    };
    let parts = [report.authority.clone(), members, endpoints];
    let line = parts.join("   ");
    if look.detail == Detail::Wide || line.chars().count() <= WIDTH {
        return line + "\n";
    }
    let mut text = String::new();
    for (position, part) in parts.iter().enumerate() {
        let indent = if position == 0 { "" } else { "  " };
        let mut rest = String::from(indent);
        for word in part.split_inclusive(", ") {
            let long = rest.chars().count() + word.trim_end().chars().count() > WIDTH;
            if long && rest.trim() != "" {
                text.push_str(rest.trim_end());
                text.push('\n');
                INDENT.clone_into(&mut rest);
            }
            rest.push_str(word);
        }
        text.push_str(rest.trim_end());
        text.push('\n');
    }
    text
}

fn members(report: &Report) -> String {
    let named = |member: &Member| format!("{}@{}", member.service, member.cluster);
    let list = |name: &dyn Fn(&Member) -> String| {
        let members: Vec<String> = report
            .members
            .iter()
            .map(|member| name(member) + &trouble(member))
            .collect();
        members.join(", ")
    };
    if report.api == Api::Destination {
        return "as served".to_owned();
    }
    let members = match report.resolution {
        Resolution::Unknown => String::new(),
        Resolution::Local => return format!("local{}", list(&|_| String::new())),
        Resolution::RemoteDiscovery => list(&named),
        Resolution::Federated if report.members.is_empty() => "no members".to_owned(),
        Resolution::Federated if report.clusters_repeat() => list(&named),
        Resolution::Federated => list(&|member| member.cluster.clone()),
    };
    let separator = if members.is_empty() { "" } else { ": " };
    format!("{}{separator}{members}", report.resolution.word())
}

/// What is wrong with a member, in brackets; nothing if nothing is.
pub(super) fn trouble(member: &Member) -> String {
    match (member.state, member.age()) {
        (MemberState::Synced, _) if member.withheld_per_mille > 0 => {
            format!(" ({}% withheld)", member.withheld_per_mille / 10)
        }
        (MemberState::Synced, _) => String::new(),
        (MemberState::Stale, Some(silent)) if member.withheld_per_mille > 0 => {
            format!(" (stale {}, withheld)", age(silent))
        }
        (MemberState::Stale, Some(silent)) => format!(" (stale {})", age(silent)),
        (state, _) => format!(" ({})", state.word()),
    }
}

/// Widths of columns: what is in them needs, or less where a line would get too long.
fn widths(columns: &[&Column], rows: &[Vec<String>], detail: Detail) -> Vec<usize> {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells
                .map(|cell| cell.chars().count())
                .chain([column.heading.len()])
                .max()
                .unwrap_or_default()
        })
        .collect();
    if detail == Detail::Wide {
        return widths;
    }
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(WIDTH);
    for (column, width) in columns.iter().zip(&mut widths).rev() {
        if let Some(narrowest) = column.narrowest {
            let less = excess.min(width.saturating_sub(narrowest));
            *width -= less;
            excess -= less;
        }
    }
    widths
}

fn line(columns: &[&Column], widths: &[usize], cells: &[String]) -> String {
    let cells: Vec<String> = columns
        .iter()
        .zip(widths)
        .zip(cells)
        .map(|((column, width), cell)| {
            let cell = shorten(cell, *width);
            match column.side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            }
        })
        .collect();
    cells.join(GAP)
}

/// The line with the endpoint's note behind it, or below it where that would be too long.
fn with_note(line: &str, endpoint: &Endpoint, detail: Detail) -> String {
    let Some(note) = &endpoint.note else {
        return line.trim_end().to_owned();
    };
    let length = line.chars().count() + GAP.len() + note.chars().count();
    if detail == Detail::Wide || length <= WIDTH {
        return format!("{line}{GAP}{note}");
    }
    let note = shorten(note, WIDTH - INDENT.len());
    format!("{}\n{INDENT}{note}", line.trim_end())
}

pub(super) fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn weight(endpoint: &Endpoint) -> String {
    if endpoint.served {
        endpoint.weight.to_string()
    } else {
        "-".to_owned()
    }
}

pub(super) fn pod(workload: Option<&Workload>, detail: Detail) -> String {
    let Some(workload) = workload else {
        return "-".to_owned();
    };
    let kind = match workload.kind.as_str() {
        "Pod" => String::new(),
        kind => format!("{}/", kind.to_lowercase()),
    };
    match (&workload.namespace, detail) {
        (Some(namespace), Detail::Wide) => format!("{kind}{namespace}/{}", workload.name),
        _ => format!("{kind}{}", workload.name),
    }
}

pub(super) fn identity(identity: Option<&str>, detail: Detail) -> String {
    match (identity, detail) {
        (Some(identity), Detail::Narrow) => short_identity(identity).to_owned(),
        (identity, _) => or_dash(identity),
    }
}

// === impl Look ===

impl Look {
    /// Text only, nothing more than fits.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self {
        detail: Detail::Narrow,
        colour: Colour::Plain,
    };
}

// === impl Column ===

impl Column {
    const fn new(heading: &'static str, cell: fn(&Endpoint, Detail) -> String) -> Self {
        Self {
            heading,
            side: Side::Left,
            narrowest: None,
            cell,
        }
    }

    const fn right(self) -> Self {
        Self {
            side: Side::Right,
            ..self
        }
    }

    const fn down_to(self, narrowest: usize) -> Self {
        Self {
            narrowest: Some(narrowest),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::endpoints::samples::{federated, member};

    fn check(report: &Report, look: Look, expected: &[&str]) {
        let text = table(report, look);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, expected);
    }

    const WIDE: Look = Look {
        detail: Detail::Wide,
        colour: Colour::Plain,
    };

    #[test]
    fn a_table_is_aligned() {
        check(
            &federated(),
            Look::PLAIN,
            &[
                "web-federated.shop.svc.cluster.local:80   federated: home, west, east (stale 6m40s)   4 endpoints, 3 served",
                "ADDRESS         CLUSTER  ZONE   LOCALITY  SERVED  WEIGHT  POD           IDENTITY",
                "10.42.0.7:8080  home     eu-1a  local     yes      10000  web-5d9c-x2k  default.shop",
                "10.42.1.3:8080  home     eu-1b  remote    yes      10000  web-5d9c-x2k  default.shop",
                "10.50.0.9:8080  west     eu-1a  local     yes      10000  web-5d9c-x2k  default.shop",
                "10.60.0.5:8080  east     -      unknown   no           -  web-5d9c-x2k  -             draining (terminating, serving)",
            ],
        );
    }

    #[test]
    fn a_wide_table_shortens_nothing() {
        let mut report = federated();
        report.endpoints.truncate(1);
        check(
            &report,
            WIDE,
            &[
                "web-federated.shop.svc.cluster.local:80   federated: home, west, east (stale 6m40s)   1 endpoint, 1 served",
                "ADDRESS         CLUSTER  ZONE   LOCALITY  SERVED  WEIGHT  POD                IDENTITY                                                    NODE    HOSTNAME  PROTOCOL",
                "10.42.0.7:8080  home     eu-1a  local     yes      10000  shop/web-5d9c-x2k  default.shop.serviceaccount.identity.linkerd.cluster.local  node-1  -         h2",
            ],
        );
    }

    #[test]
    fn nothing_is_wider_than_the_limit_and_addresses_stay_whole() {
        let mut report = federated();
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535";
        for endpoint in &mut report.endpoints {
            address.clone_into(&mut endpoint.address);
            endpoint.zone = Some("a-zone-with-a-rather-long-name".to_owned());
            endpoint.identity = Some("spiffe://example.org/a/workload/with/a/long/path".to_owned());
            endpoint.note = Some("one sentence that goes on and on ".repeat(8));
        }
        for number in 0..30 {
            let cluster = format!("cluster-number-{number}");
            report.members.push(member(&cluster, MemberState::Syncing));
        }
        let text = table(&report, Look::PLAIN);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert_eq!(text.matches(address).count(), 4);
        assert_eq!(text.matches("cluster-number-").count(), 30);
    }

    #[test]
    fn a_headline_says_where_endpoints_come_from() {
        let mut report = federated();
        report.endpoints.clear();
        report.members.drain(1..);
        let mut headline = |resolution: Resolution, members: &[(&str, MemberState)]| {
            report.resolution = resolution;
            report.members = members
                .iter()
                .map(|(cluster, state)| member(cluster, *state))
                .collect();
            let text = table(&report, Look::PLAIN);
            text.split("   ").nth(1).unwrap().to_owned()
        };
        let (synced, syncing) = (MemberState::Synced, MemberState::Syncing);
        assert_eq!(headline(Resolution::Local, &[("home", synced)]), "local");
        assert_eq!(
            headline(Resolution::Local, &[("home", syncing)]),
            "local (syncing)"
        );
        let one = [("west", MemberState::NotLinked)];
        assert_eq!(
            headline(Resolution::RemoteDiscovery, &one),
            "remote discovery: web@west (not linked)"
        );
        let two = [("west", synced), ("west", synced)];
        assert_eq!(
            headline(Resolution::Federated, &two),
            "federated: web@west, web@west"
        );
        assert_eq!(
            headline(Resolution::Federated, &[]),
            "federated: no members"
        );
        assert_eq!(headline(Resolution::Unknown, &[]), "unknown");
    }

    #[test]
    fn colour_adds_only_escape_sequences() {
        let coloured = Look {
            colour: Colour::Ansi,
            ..Look::PLAIN
        };
        let text = table(&federated(), coloured);
        let plain = ["\u{1b}[1m", "\u{1b}[33m", "\u{1b}[0m"]
            .iter()
            .fold(text.clone(), |text, code| text.replace(code, ""));
        assert_ne!(text, plain);
        assert_eq!(plain, table(&federated(), Look::PLAIN));
    }
}
