//! `tributary top`: what streams are told now, those told to the most first.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::timeout;

use super::Verdict;
use super::columns::{Column, WIDTH, lines};
use super::document::{self, Format};
use super::paint::{Tone, paint};
use super::server::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, AskError, connect, failed, refused};
use super::text::{age, count, or_dash};
use crate::config::{Colour, OutputFormat, TopQuery};
use crate::proto::tributary_v1::ListViewsRequest;
use crate::proto::tributary_v1::introspection_client::IntrospectionClient;
use crate::report::views::Top;

/// Moves to the upper left corner of a terminal and clears what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Asks a server for its views and prints them: again and again on a terminal until Ctrl-C, once elsewhere.
///
/// `colour` is how `out` may be coloured. Fails only if `out` or `err` cannot be written.
pub async fn top(
    query: &TopQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let is_live = colour == Colour::Ansi && query.output == OutputFormat::Table && !query.once;
    let mut channel = None;
    loop {
        let answer = async {
            let connected = match channel.take() {
                Some(connected) => connected,
                None => connect(&query.server).await?,
            };
            let top = ask(query, IntrospectionClient::new(connected.clone())).await?;
            Ok((connected, top))
        };
        let top = match answer.await {
            Ok((connected, top)) => {
                channel = Some(connected);
                top
            }
            Err(error) => return failed(&error, "its views", err),
        };
        match query.output {
            OutputFormat::Json => document::write(out, Format::Json, &top)?,
            OutputFormat::Yaml => document::write(out, Format::Yaml, &top)?,
            OutputFormat::Table | OutputFormat::Wide => {
                if is_live {
                    out.write_all(CLEAR.as_bytes())?;
                }
                let width = (query.output == OutputFormat::Table).then_some(WIDTH);
                out.write_all(text(&top, width, colour).as_bytes())?;
                out.flush()?;
            }
        }
        if !is_live {
            return Ok(Verdict::Fine);
        }
        tokio::select! {
            () = tokio::time::sleep(query.interval) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(Verdict::Fine);
            }
        }
    }
}

async fn ask(
    query: &TopQuery,
    client: IntrospectionClient<tonic::transport::Channel>,
) -> Result<Top, AskError> {
    let mut client = client.max_decoding_message_size(ANSWER_BYTES_MAX);
    let limit = query.limit;
    match timeout(
        ANSWER_TIMEOUT,
        client.list_views(ListViewsRequest { limit }),
    )
    .await
    {
        Ok(Ok(response)) => Ok(response.into_inner().into()),
        Ok(Err(status)) => Err(refused(&query.server, status)),
        Err(_) => Err(AskError::Silent {
            server: query.server.clone(),
        }),
    }
}

fn text(top: &Top, width: Option<usize>, colour: Colour) -> String {
    let streams: usize = top.views.iter().map(|view| view.streams as usize).sum();
    let more = if top.more { " and more" } else { "" };
    let mut text = format!(
        "{} in {}{more}",
        count(streams, "stream"),
        count(top.views.len(), "view")
    );
    if let (Some(lag), Some(ago)) = (top.publish_lag_micros, top.publish_age_seconds) {
        let ago = age(Duration::from_secs(ago));
        // Writing to a String cannot fail.
        write!(
            text,
            "; the last change was published {}.{:03} ms after it was received, {ago} ago",
            lag / 1000,
            lag % 1000
        )
        .ok();
    }
    text.push('\n');
    if top.views.is_empty() {
        return text;
    }
    let columns = [
        Column::number("STREAMS"),
        Column::number("ENDPOINTS"),
        Column::text("SERVICE"),
        Column::number("PORT"),
        Column::text("ZONE"),
        Column::text("NODE"),
        Column::text("INSTANCE"),
    ];
    let rows: Vec<_> = top
        .views
        .iter()
        .map(|view| {
            [
                view.streams.to_string(),
                view.endpoints.to_string(),
                format!("{}.{}", view.service, view.namespace),
                view.port.to_string(),
                or_dash(view.zone.as_deref()),
                or_dash(view.node.as_deref()),
                or_dash(view.instance.as_deref()),
            ]
        })
        .collect();
    for (at, line) in lines(columns, &rows, width).iter().enumerate() {
        let tone = if at == 0 { Tone::Heading } else { Tone::Normal };
        text.push_str(&paint(line, tone, colour));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::tributary_v1::{ListViewsResponse, SharedView};

    #[test]
    fn views_are_a_table_under_a_sentence() {
        let view = |streams, zone: &str| SharedView {
            service: "web".to_owned(),
            namespace: "shop".to_owned(),
            port: 80,
            zone: zone.to_owned(),
            endpoints: 5,
            streams,
            ..SharedView::default()
        };
        let response = ListViewsResponse {
            views: vec![view(120, "eu-1a"), view(1, "")],
            more: false,
            publish_lag: Some(prost_types::Duration {
                seconds: 0,
                nanos: 412_000,
            }),
            publish_age: Some(prost_types::Duration {
                seconds: 61,
                nanos: 0,
            }),
        };
        let text = text(&response.into(), Some(WIDTH), Colour::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "121 streams in 2 views; the last change was published 0.412 ms after it was received, 1m1s ago",
                "STREAMS  ENDPOINTS  SERVICE   PORT  ZONE   NODE  INSTANCE",
                "    120          5  web.shop    80  eu-1a  -     -",
                "      1          5  web.shop    80  -      -     -",
            ]
        );
    }
}
