//! `tributary diff`: what two servers of Linkerd's destination API tell clients about one Service.

use std::io::{self, Write};

use serde::Serialize;
use tonic::Code;

use super::ask::served;
use super::changes::{Change, changes};
use super::table::{Detail, Look};
use crate::cli::Verdict;
use crate::cli::document::{self, Format};
use crate::cli::server::{AskError, failed};
use crate::cli::text::count;
use crate::config::{Colour, DiffQuery, EndpointsQuery, OutputFormat, Watch};
use crate::report::endpoints::Report;

/// What is different. The serialized form is an interface.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference<'a> {
    authority: &'a str,
    /// The servers.
    servers: [&'a str; 2],
    /// How many endpoints each serves; `None` for one that has no such Service.
    served: [Option<usize>; 2],
    /// What would have to change in the first answer to make it the second.
    changes: Vec<Change>,
}

/// Asks two servers and prints what is different in their answers.
///
/// Clusters of endpoints are not compared: Linkerd's controller does not tell them. `colour` is how `out` may be coloured. Fails only if
/// `out` or `err` cannot be written.
pub async fn diff(
    query: &DiffQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let [one, two] = &query.servers;
    let (one, two) = tokio::join!(ask(query, one), ask(query, two));
    let (one, two) = match (one, two) {
        (Ok(one), Ok(two)) => (one, two),
        (Err(error), _) | (_, Err(error)) => return failed(&error, &query.authority, err),
    };
    let served = [&one, &two].map(|report| report.as_ref().map(|report| report.endpoints.len()));
    let empty = |report: Option<Report>| report.unwrap_or_else(|| none(&query.authority));
    let difference = Difference {
        authority: &query.authority,
        servers: [&query.servers[0], &query.servers[1]],
        served,
        changes: changes(&empty(one), &empty(two)),
    };
    match query.output {
        OutputFormat::Json => document::write(out, Format::Json, &difference)?,
        OutputFormat::Yaml => document::write(out, Format::Yaml, &difference)?,
        OutputFormat::Table | OutputFormat::Wide => {
            let detail = match query.output {
                OutputFormat::Wide => Detail::Wide,
                _ => Detail::Narrow,
            };
            out.write_all(text(&difference, Look { detail, colour }).as_bytes())?;
            out.flush()?;
        }
    }
    let same_existence = served[0].is_some() == served[1].is_some();
    Ok(Verdict::of(difference.changes.is_empty() && same_existence))
}

/// What a server tells clients; `None` if it says that there is no such Service.
async fn ask(query: &DiffQuery, server: &str) -> Result<Option<Report>, AskError> {
    let asked = EndpointsQuery {
        server: server.to_owned(),
        authority: query.authority.clone(),
        context_token: query.context_token.clone(),
        zone: None,
        watch: Watch::Once,
        output: query.output,
    };
    match served(&asked).await {
        Ok(mut report) => {
            for endpoint in &mut report.endpoints {
                endpoint.cluster = None;
            }
            Ok(Some(report))
        }
        Err(AskError::Refused { status, .. }) if status.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn none(authority: &str) -> Report {
    super::fold::Folded::default().report(authority)
}

fn text(difference: &Difference<'_>, look: Look) -> String {
    let [one, two] = difference.servers;
    let told = difference.served.map(|served| match served {
        None => "no such Service".to_owned(),
        Some(served) => count(served, "endpoint"),
    });
    let mut text = format!(
        "{}   - {one}: {}   + {two}: {}\n",
        difference.authority, told[0], told[1]
    );
    if difference.changes.is_empty() && told[0] == told[1] {
        text.push_str("no difference\n");
    }
    for change in &difference.changes {
        text.push_str(&change.line(look));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::endpoints::samples::federated;

    #[test]
    fn a_difference_is_what_makes_the_first_answer_the_second() {
        let one = federated();
        let mut two = federated();
        two.endpoints.remove(0);
        two.endpoints[0].weight = 1;
        let difference = Difference {
            authority: "web.shop.svc.cluster.local:80",
            servers: ["a:8086", "b:8086"],
            served: [Some(4), Some(3)],
            changes: changes(&one, &two),
        };
        let text = text(&difference, Look::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "web.shop.svc.cluster.local:80   - a:8086: 4 endpoints   + b:8086: 3 endpoints",
                "~ 10.42.1.3:8080         home      weight 10000 → 1",
                "- 10.42.0.7:8080         home",
            ]
        );
    }
}
