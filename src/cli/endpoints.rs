//! `tributary endpoints`: which endpoints the mesh is told about for a Service.

mod ask;
mod changes;
mod diff;
mod fold;
mod print;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

pub use diff::diff;

use tonic::Status;

use super::Verdict;
use super::server::{AskError, RETRY_MAX, RETRY_MIN, failed, is_final, what};
use crate::cli::text::age;
use crate::config::{Colour, EndpointsQuery, Watch};
use ask::Answers;
use print::Printer;

/// Asks a server and prints the answer, or, with a watch, what changes in it until Ctrl-C.
///
/// `colour` is how `out` may be coloured. Fails only if `out` or `err` cannot be written.
pub async fn endpoints(
    query: &EndpointsQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let mut printer = Printer::new(out, query.output, query.watch, colour);
    let mut answers = match first(query, &mut printer, err).await? {
        Ok(answers) => answers,
        Err(error) => return failed(&error, &query.authority, err),
    };
    if query.watch == Watch::Changes {
        let watched = tokio::select! {
            watched = watch(query, &mut answers, &mut printer, err) => Some(watched?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                None
            }
        };
        if let Some(error) = watched {
            return failed(&error, &query.authority, err);
        }
    }
    Ok(printer
        .shown()
        .map_or(Verdict::CouldNotAsk, |report| Verdict::of(report.is_fine())))
}

/// Asks, and prints the first answer.
async fn first(
    query: &EndpointsQuery,
    printer: &mut Printer<'_>,
    err: &mut dyn Write,
) -> io::Result<Result<Answers, AskError>> {
    let mut answers = match Answers::open(query).await {
        Ok(answers) => answers,
        Err(error) => return Ok(Err(error)),
    };
    if answers.is_folded() && printer.shown().is_none() {
        writeln!(
            err,
            "{} has no tributary.v1 API; showing what Linkerd's Get serves{}",
            query.server,
            if query.zone.is_some() {
                ", which cannot be looked at from another zone: use --node"
            } else {
                ""
            }
        )?;
    }
    match answers.first().await {
        Ok(Some(report)) => {
            printer.show(report)?;
            Ok(Ok(answers))
        }
        Ok(None) => {
            let status = Box::new(Status::unavailable("the server ended the stream"));
            let server = query.server.clone();
            Ok(Err(AskError::Refused { server, status }))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Prints changes for as long as asking makes sense; returns why it does not any more.
async fn watch(
    query: &EndpointsQuery,
    answers: &mut Answers,
    printer: &mut Printer<'_>,
    err: &mut dyn Write,
) -> io::Result<AskError> {
    loop {
        let mut reason = match answers.next().await {
            Ok(Some(report)) => {
                printer.show(report)?;
                continue;
            }
            Ok(None) => format!("{} ended the stream", query.server),
            Err(error) if is_final(&error) => return Ok(error),
            Err(error) => what(&error, &query.authority),
        };
        let mut pause = RETRY_MIN;
        loop {
            writeln!(err, "{reason}; asking again in {}", age(pause))?;
            tokio::time::sleep(pause).await;
            pause = RETRY_MAX.min(pause * 2);
            match first(query, printer, err).await? {
                Ok(again) => {
                    writeln!(err, "{} answers again", query.server)?;
                    *answers = again;
                    break;
                }
                Err(error) if is_final(&error) => return Ok(error),
                Err(error) => reason = what(&error, &query.authority),
            }
        }
    }
}
