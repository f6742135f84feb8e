//! `tributary profile`: how the mesh is told to treat the requests to a Service or an address.

mod report;

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::Verdict;
use super::server::{
    ANSWER_BYTES_MAX, ANSWER_TIMEOUT, AskError, RETRY_MAX, RETRY_MIN, connect, failed, is_final,
    refused, what,
};
use super::text::{age, time_of_day};
use crate::config::{OutputFormat, ProfileQuery, Watch};
use crate::proto::destination::destination_client::DestinationClient;
use crate::proto::destination::{DestinationProfile, GetDestination};
use report::Report;

/// Asks a server and prints the profile, or, with a watch, every later one until Ctrl-C.
///
/// Fails only if `out` or `err` cannot be written.
pub async fn profile(
    query: &ProfileQuery,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let mut printer = Printer {
        out,
        format: query.output,
        watch: query.watch,
        shown: None,
    };
    let mut profiles = match first(query, &mut printer).await? {
        Ok(profiles) => profiles,
        Err(error) => return failed(&error, &query.authority, err),
    };
    if query.watch == Watch::Changes {
        let ended = tokio::select! {
            ended = watch(query, &mut profiles, &mut printer, err) => Some(ended?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                None
            }
        };
        if let Some(error) = ended {
            return failed(&error, &query.authority, err);
        }
    }
    Ok(Verdict::Fine)
}

/// Asks, and prints the first answer.
async fn first(
    query: &ProfileQuery,
    printer: &mut Printer<'_>,
) -> io::Result<Result<Streaming<DestinationProfile>, AskError>> {
    let asked = timeout(ANSWER_TIMEOUT, ask(query)).await;
    let server = query.server.clone();
    match asked.unwrap_or(Err(AskError::Silent { server })) {
        Ok((profile, profiles)) => {
            printer.show(&query.authority, &profile)?;
            Ok(Ok(profiles))
        }
        Err(error) => Ok(Err(error)),
    }
}

async fn ask(
    query: &ProfileQuery,
) -> Result<(DestinationProfile, Streaming<DestinationProfile>), AskError> {
    let server = &query.server;
    let channel = connect(server).await?;
    let request = GetDestination {
        scheme: String::new(),
        path: query.authority.clone(),
        context_token: query.context_token.clone(),
    };
    let mut client = DestinationClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let answered = client.get_profile(request).await;
    let mut profiles = answered
        .map_err(|status| refused(server, status))?
        .into_inner();
    match profiles.message().await {
        Ok(Some(profile)) => Ok((profile, profiles)),
        Ok(None) => Err(refused(
            server,
            Status::unavailable("the server ended the stream"),
        )),
        Err(status) => Err(refused(server, status)),
    }
}

/// Prints profiles for as long as asking makes sense; returns why it does not any more.
async fn watch(
    query: &ProfileQuery,
    profiles: &mut Streaming<DestinationProfile>,
    printer: &mut Printer<'_>,
    err: &mut dyn Write,
) -> io::Result<AskError> {
    let authority = &query.authority;
    loop {
        let mut reason = match profiles.message().await {
            Ok(Some(profile)) => {
                printer.show(authority, &profile)?;
                continue;
            }
            Ok(None) => format!("{} ended the stream", query.server),
            Err(status) => what(&refused(&query.server, status), authority),
        };
        let mut pause = RETRY_MIN;
        loop {
            writeln!(err, "{reason}; asking again in {}", age(pause))?;
            tokio::time::sleep(pause).await;
            pause = RETRY_MAX.min(pause * 2);
            match first(query, printer).await? {
                Ok(again) => {
                    writeln!(err, "{} answers again", query.server)?;
                    *profiles = again;
                    break;
                }
                Err(error) if is_final(&error) => return Ok(error),
                Err(error) => reason = what(&error, authority),
            }
        }
    }
}

/// Profiles on stdout, each whole, and none twice in a row.
struct Printer<'a> {
    out: &'a mut dyn Write,
    format: OutputFormat,
    watch: Watch,
    shown: Option<Report>,
}

impl Printer<'_> {
    fn show(&mut self, authority: &str, profile: &DestinationProfile) -> io::Result<()> {
        let report = Report::new(authority, profile);
        if self.shown.as_ref() == Some(&report) {
            return Ok(());
        }
        match (self.format, self.watch) {
            (OutputFormat::Table | OutputFormat::Wide, _) => {
                if self.shown.is_some() {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH);
                    writeln!(self.out, "\n{} now:", time_of_day(now.unwrap_or_default()))?;
                }
                self.out.write_all(report.table().as_bytes())?;
            }
            (OutputFormat::Json, Watch::Once) => {
                serde_json::to_writer_pretty(&mut *self.out, &report)?;
                writeln!(self.out)?;
            }
            (OutputFormat::Json, Watch::Changes) => {
                serde_json::to_writer(&mut *self.out, &report)?;
                writeln!(self.out)?;
            }
            (OutputFormat::Yaml, watch) => {
                if watch == Watch::Changes {
                    writeln!(self.out, "---")?;
                }
                let text = serde_saphyr::to_string(&report).map_err(io::Error::other)?;
                writeln!(self.out, "{}", text.trim_end())?;
            }
        }
        self.shown = Some(report);
        self.out.flush()
    }
}
