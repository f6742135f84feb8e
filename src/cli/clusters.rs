//! `tributary clusters`: which clusters are read, and how fresh each is.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::Verdict;
use super::columns::{Column, WIDTH, lines};
use super::document::{self, Format};
use super::paint::{Tone, paint};
use super::server::{
    ANSWER_TIMEOUT, AskError, RETRY_MAX, RETRY_MIN, connect, failed, is_final, refused, what,
};
use super::text::{age, or_dash, time_of_day};
use crate::config::{ClustersQuery, Colour, OutputFormat, Watch};
use crate::proto::tributary_v1::introspection_client::IntrospectionClient;
use crate::proto::tributary_v1::{ListClustersRequest, ListClustersResponse};
use crate::report::clusters::{Cluster, State};

/// What is asked about, where an error has to say so.
const SUBJECT: &str = "its clusters";

/// One difference between two looks. The serialized form is an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Change<'a> {
    /// The whole, at the beginning.
    Snapshot { clusters: &'a [Cluster] },
    /// A cluster is linked now.
    Added { cluster: &'a Cluster },
    /// A cluster is not linked any more.
    Removed { cluster: &'a Cluster },
    /// A cluster is not what it was.
    Changed {
        cluster: &'a Cluster,
        was: &'a Cluster,
    },
}

/// Asks a server for its clusters and prints them; with a watch, what changes in them until Ctrl-C.
///
/// `colour` is how `out` may be coloured. Fails only if `out` or `err` cannot be written.
pub async fn clusters(
    query: &ClustersQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let mut shown = Vec::new();
    let mut answers = match first(query, &mut shown, colour, out).await? {
        Ok(answers) => answers,
        Err(error) => return failed(&error, SUBJECT, err),
    };
    if query.watch == Watch::Changes {
        let watched = tokio::select! {
            watched = watch(query, &mut answers, &mut shown, colour, out, err) => Some(watched?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                None
            }
        };
        if let Some(error) = watched {
            return failed(&error, SUBJECT, err);
        }
    }
    Ok(Verdict::of(is_fine(&shown)))
}

fn is_fine(clusters: &[Cluster]) -> bool {
    clusters
        .iter()
        .all(|cluster| cluster.state == State::Synced && note(cluster) == "-")
}

type Answers = Streaming<ListClustersResponse>;

/// Asks, and prints the first answer.
async fn first(
    query: &ClustersQuery,
    shown: &mut Vec<Cluster>,
    colour: Colour,
    out: &mut dyn Write,
) -> io::Result<Result<Answers, AskError>> {
    let server = &query.server;
    let asked = async {
        let mut client = IntrospectionClient::new(connect(server).await?);
        let answers = client.watch_clusters(ListClustersRequest {}).await;
        let mut answers = answers
            .map_err(|status| refused(server, status))?
            .into_inner();
        let first = answers.message().await;
        let first = first.map_err(|status| refused(server, status))?;
        let ended = || refused(server, Status::unavailable("the server ended the stream"));
        Ok((answers, first.ok_or_else(ended)?))
    };
    let silent = AskError::Silent {
        server: server.clone(),
    };
    match timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(silent)) {
        Ok((answers, first)) => {
            show(query, shown, first, colour, out)?;
            Ok(Ok(answers))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Prints changes for as long as asking makes sense; returns why it does not any more.
async fn watch(
    query: &ClustersQuery,
    answers: &mut Answers,
    shown: &mut Vec<Cluster>,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<AskError> {
    loop {
        let mut reason = match answers.message().await {
            Ok(Some(response)) => {
                show(query, shown, response, colour, out)?;
                continue;
            }
            Ok(None) => format!("{} ended the stream", query.server),
            Err(status) => what(&refused(&query.server, status), SUBJECT),
        };
        let mut pause = RETRY_MIN;
        loop {
            writeln!(err, "{reason}; asking again in {}", age(pause))?;
            tokio::time::sleep(pause).await;
            pause = RETRY_MAX.min(pause * 2);
            match first(query, shown, colour, out).await? {
                Ok(again) => {
                    writeln!(err, "{} answers again", query.server)?;
                    *answers = again;
                    break;
                }
                Err(error) if is_final(&error) => return Ok(error),
                Err(error) => reason = what(&error, SUBJECT),
            }
        }
    }
}

/// Prints the whole the first time, and then what is different.
fn show(
    query: &ClustersQuery,
    shown: &mut Vec<Cluster>,
    response: ListClustersResponse,
    colour: Colour,
    out: &mut dyn Write,
) -> io::Result<()> {
    let clusters: Vec<Cluster> = response.clusters.into_iter().map(Cluster::from).collect();
    let is_first = shown.is_empty();
    let format = match query.output {
        OutputFormat::Json => Some(Format::Json),
        OutputFormat::Yaml => Some(Format::Yaml),
        OutputFormat::Table | OutputFormat::Wide => None,
    };
    match (is_first, format) {
        (true, None) => {
            let width = (query.output == OutputFormat::Table).then_some(WIDTH);
            out.write_all(table(&clusters, width, colour).as_bytes())?;
        }
        (true, Some(format)) if query.watch == Watch::Once => {
            document::write(out, format, &clusters)?;
        }
        (true, Some(format)) => {
            let clusters = &clusters;
            document::write_next(out, format, &Change::Snapshot { clusters })?;
        }
        (false, format) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = time_of_day(now.unwrap_or_default());
            for change in changes(shown, &clusters) {
                match format {
                    Some(format) => document::write_next(out, format, &change)?,
                    None => writeln!(out, "{now} {}", line(&change, colour))?,
                }
            }
        }
    }
    *shown = clusters;
    out.flush()
}

fn table(clusters: &[Cluster], width: Option<usize>, colour: Colour) -> String {
    let columns = [
        Column::text("CLUSTER"),
        Column::text("ROLE"),
        Column::text("STATE"),
        Column::number("SERVICES"),
        Column::number("ENDPOINTS"),
        Column::text("FRESH"),
        Column::text("SINCE"),
        Column::text("NOTE"),
    ];
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let rows: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            [
                cluster.name.clone(),
                cluster.role.word().to_owned(),
                cluster.state.word().to_owned(),
                number(cluster.services),
                number(cluster.endpoints),
                cluster.age().map_or_else(|| "-".to_owned(), age),
                cluster.since().map_or_else(|| "-".to_owned(), age),
                note(cluster),
            ]
        })
        .collect();
    let mut text = String::new();
    for (at, line) in lines(columns, &rows, width).iter().enumerate() {
        let tone = match at.checked_sub(1).map(|at| clusters[at].state) {
            None => Tone::Heading,
            Some(State::Synced) => Tone::Normal,
            Some(State::Syncing | State::Stale | State::Unknown) => Tone::Odd,
            Some(State::Unreachable | State::Rejected) => Tone::Bad,
        };
        text.push_str(&paint(line, tone, colour));
        text.push('\n');
    }
    text
}

/// What is different, in the order of `after`, then what went.
fn changes<'a>(before: &'a [Cluster], after: &'a [Cluster]) -> Vec<Change<'a>> {
    let find = |among: &'a [Cluster], name: &str| among.iter().find(|known| known.name == name);
    let here = after
        .iter()
        .filter_map(|cluster| match find(before, &cluster.name) {
            None => Some(Change::Added { cluster }),
            Some(was) if says(was) == says(cluster) => None,
            Some(was) => Some(Change::Changed { cluster, was }),
        });
    let went = before
        .iter()
        .filter(|cluster| find(after, &cluster.name).is_none())
        .map(|cluster| Change::Removed { cluster });
    here.chain(went).collect()
}

/// What is wrong with a cluster, and what is withheld of it; `-` for nothing.
fn note(cluster: &Cluster) -> String {
    let percent = cluster.withheld_per_mille / 10;
    let withheld = cluster.withheld_why.as_ref();
    let withheld = withheld.map(|why| format!("{percent}% withheld where others are left: {why}"));
    let parts: Vec<_> = cluster.note.clone().into_iter().chain(withheld).collect();
    match &parts[..] {
        [] => "-".to_owned(),
        parts => parts.join("; "),
    }
}

/// What of a cluster is worth a line when it changes.
fn says(cluster: &Cluster) -> impl PartialEq + use<> {
    let kinds = cluster.kinds.iter();
    let kinds: Vec<_> = kinds.map(|kind| (kind.name.clone(), kind.state)).collect();
    (cluster.state, note(cluster), cluster.link.clone(), kinds)
}

fn line(change: &Change<'_>, colour: Colour) -> String {
    let note = |cluster: &Cluster| match note(cluster).as_str() {
        "-" => String::new(),
        note => format!("  {note}"),
    };
    let (tone, text) = match change {
        Change::Snapshot { .. } => return String::new(),
        Change::Added { cluster } => (
            Tone::Good,
            format!(
                "+ {}  {}{}",
                cluster.name,
                cluster.state.word(),
                note(cluster)
            ),
        ),
        Change::Removed { cluster } => (Tone::Bad, format!("- {}", cluster.name)),
        Change::Changed { cluster, was } => {
            let mut parts = Vec::new();
            if was.state != cluster.state {
                parts.push(format!("{} → {}", was.state.word(), cluster.state.word()));
            }
            let fingerprint = |cluster: &Cluster| {
                let link = cluster.link.as_ref();
                or_dash(link.map(|link| link.fingerprint.as_str()))
            };
            let (from, to) = (fingerprint(was), fingerprint(cluster));
            if from != to {
                parts.push(format!("credentials {from} → {to}"));
            }
            for kind in &cluster.kinds {
                let before = was.kinds.iter().find(|known| known.name == kind.name);
                let before = before.map_or("-", |before| before.state);
                if before != kind.state {
                    parts.push(format!("{} {before} → {}", kind.name, kind.state));
                }
            }
            let parts = parts.join("; ");
            (
                Tone::Odd,
                format!("~ {}  {parts}{}", cluster.name, note(cluster)),
            )
        }
    };
    paint(text.trim_end(), tone, colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::clusters::samples::cluster;

    #[test]
    fn a_table_is_aligned_and_says_what_is_wrong() {
        let mut east = cluster("east", State::Stale);
        east.note =
            Some("API server unreachable: connection refused; serving last known".to_owned());
        let north = cluster("north", State::Rejected);
        let text = table(
            &[cluster("west", State::Synced), east, north],
            Some(WIDTH),
            Colour::Plain,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "CLUSTER  ROLE    STATE     SERVICES  ENDPOINTS  FRESH  SINCE  NOTE",
                "west     linked  synced          12         96  1s     6m40s  -",
                "east     linked  stale           12         96  6m31s  6m40s",
                "    API server unreachable: connection refused; serving last known",
                "north    linked  rejected         -          -  -      6m40s  -",
            ]
        );
    }

    #[test]
    fn a_watch_says_what_came_went_and_changed() {
        let before = [
            cluster("east", State::Synced),
            cluster("west", State::Synced),
        ];
        let mut east = cluster("east", State::Stale);
        east.note = Some("connection refused".to_owned());
        let after = [east, cluster("north", State::Syncing)];
        let changes = changes(&before, &after);
        let lines: Vec<String> = changes
            .iter()
            .map(|change| line(change, Colour::Plain))
            .collect();
        assert_eq!(
            lines,
            [
                "~ east  synced → stale  connection refused",
                "+ north  syncing",
                "- west"
            ]
        );
        let types: Vec<_> = changes
            .iter()
            .map(|change| serde_json::to_value(change).unwrap()["type"].clone())
            .collect();
        assert_eq!(types, ["changed", "added", "removed"]);
    }

    #[test]
    fn ages_and_counts_are_no_changes() {
        let before = [cluster("east", State::Synced)];
        let mut after = before.clone();
        after[0].age_seconds = Some(9);
        after[0].endpoints = Some(97);
        assert_eq!(changes(&before, &after), []);
    }
}
