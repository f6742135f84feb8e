//! `tributary endpoints`: which endpoints the mesh is told about for a Service.

mod ask;
mod changes;
mod fold;
mod print;
mod report;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::time::Duration;

use tonic::{Code, Status};

use super::Verdict;
use crate::cli::text::age;
use crate::config::{Colour, EndpointsQuery, Watch};
use ask::{Answers, AskError};
use print::Printer;

/// Pause before the first attempt to get a lost server back; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(30);

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
        Err(error) => return failed(&error, query, err),
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
            return failed(&error, query, err);
        }
    }
    Ok(printer
        .shown()
        .map_or(Verdict::CouldNotAsk, report::Report::verdict))
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
            Err(error) => what(&error, query),
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
                Err(error) => reason = what(&error, query),
            }
        }
    }
}

/// Whether asking again cannot help.
fn is_final(error: &AskError) -> bool {
    matches!(error, AskError::Refused { status, .. } if status.code() == Code::InvalidArgument)
}

fn failed(error: &AskError, query: &EndpointsQuery, err: &mut dyn Write) -> io::Result<Verdict> {
    writeln!(err, "tributary: {}; {}", what(error, query), remedy(error))?;
    Ok(match error {
        AskError::Connect { .. } | AskError::Silent { .. } => Verdict::CouldNotAsk,
        AskError::Refused { status, .. } => match status.code() {
            Code::NotFound | Code::FailedPrecondition => Verdict::Findings,
            Code::InvalidArgument => Verdict::Usage,
            _ => Verdict::CouldNotAsk,
        },
    })
}

/// What is wrong, in one line.
fn what(error: &AskError, query: &EndpointsQuery) -> String {
    let authority = &query.authority;
    match error {
        AskError::Connect { .. } => format!("{error}: {}", error.root()),
        AskError::Silent { .. } => error.to_string(),
        AskError::Refused { server, status } => {
            let said = one_line(status.message());
            match status.code() {
                Code::NotFound => format!("{server} knows no endpoints of {authority}: {said}"),
                Code::FailedPrecondition => format!("{authority} cannot be resolved: {said}"),
                Code::InvalidArgument => format!("{server} refuses the name {authority}: {said}"),
                Code::Unavailable => format!("{server} cannot answer now: {said}"),
                Code::ResourceExhausted => format!("{server} is full: {said}"),
                code => format!("{server} failed ({code:?}): {said}"),
            }
        }
    }
}

/// What can be done about it.
fn remedy(error: &AskError) -> &'static str {
    match error {
        AskError::Connect { .. } => {
            "is it running there? Name another with --addr, or forward its port: \
             kubectl -n linkerd port-forward deploy/tributary 8086"
        }
        AskError::Silent { .. } => "its /ready page says what it waits for",
        AskError::Refused { status, .. } => match status.code() {
            Code::NotFound => "`kubectl get services -A` lists the Services there are",
            Code::FailedPrecondition => "mend the labels of the Service",
            Code::InvalidArgument => "if your cluster has another domain, add --cluster-domain",
            Code::Unavailable => "its /ready page says what it waits for",
            Code::ResourceExhausted => "raise --max-streams there, or try again later",
            _ => "its log says more",
        },
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
