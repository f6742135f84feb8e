//! `tributary check`: what is wrong with how clusters are linked, read and trusted.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::timeout;

use super::Verdict;
use super::columns::WIDTH;
use super::document::{self, Format};
use super::paint::{Tone, paint};
use super::server::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, AskError, connect, failed, refused};
use super::text::{age, count, wrapped};
use crate::config::{CheckQuery, Colour, OutputFormat};
use crate::proto::tributary_v1::ListFindingsRequest;
use crate::proto::tributary_v1::introspection_client::IntrospectionClient;
use crate::report::findings::{Finding, Severity};

/// Asks a server what is wrong, and prints it.
///
/// `colour` is how `out` may be coloured. Fails only if `out` or `err` cannot be written.
pub async fn check(
    query: &CheckQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let findings = match ask(&query.server).await {
        Ok(findings) => findings,
        Err(error) => return failed(&error, "its findings", err),
    };
    match query.output {
        OutputFormat::Json => document::write(out, Format::Json, &findings)?,
        OutputFormat::Yaml => document::write(out, Format::Yaml, &findings)?,
        OutputFormat::Table | OutputFormat::Wide => {
            let verbose = query.verbose || query.output == OutputFormat::Wide;
            out.write_all(text(&findings, verbose, colour).as_bytes())?;
            out.flush()?;
        }
    }
    let is_fine = |finding: &Finding| finding.severity <= Severity::Note;
    Ok(Verdict::of(findings.iter().all(is_fine)))
}

async fn ask(server: &str) -> Result<Vec<Finding>, AskError> {
    let channel = connect(server).await?;
    let mut client = IntrospectionClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let asked = client.list_findings(ListFindingsRequest {});
    match timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(response)) => {
            let findings = response.into_inner().findings;
            Ok(findings.into_iter().map(Finding::from).collect())
        }
        Ok(Err(status)) => Err(refused(server, status)),
        Err(_) => Err(AskError::Silent {
            server: server.to_owned(),
        }),
    }
}

/// Findings by subject. What is fine is counted, or has a line each if `verbose`.
fn text(findings: &[Finding], verbose: bool, colour: Colour) -> String {
    let mut text = String::new();
    for group in findings.chunk_by(|one, two| one.subject == two.subject) {
        let shown: Vec<_> = group
            .iter()
            .filter(|finding| verbose || finding.severity > Severity::Ok)
            .collect();
        let fine = group.len() - group.iter().filter(|f| f.severity > Severity::Ok).count();
        let subject = paint(&group[0].subject, Tone::Heading, colour);
        let folded = match (verbose, fine) {
            (true, _) | (_, 0) => String::new(),
            (false, fine) => format!("  {} ok", count(fine, "check")),
        };
        // Writing to a String cannot fail.
        writeln!(text, "{subject}{folded}").ok();
        for finding in shown {
            text.push_str(&paragraph(finding, colour));
        }
    }
    text.push_str(&summary(findings));
    text
}

fn paragraph(finding: &Finding, colour: Colour) -> String {
    let since = finding.since_seconds.map(Duration::from_secs);
    let since = since.map_or_else(String::new, |since| format!(" (for {})", age(since)));
    let what = format!("{}{since}", finding.what);
    let (title, tone) = match finding.severity {
        Severity::Ok => ("  ok       ", Tone::Good),
        Severity::Note => ("  note     ", Tone::Normal),
        Severity::Warning => ("  WARNING  ", Tone::Odd),
        Severity::Error => ("  ERROR    ", Tone::Bad),
    };
    let mut text = String::new();
    for line in wrapped(title, &what, WIDTH).lines() {
        text.push_str(&paint(line, tone, colour));
        text.push('\n');
    }
    if !finding.meaning.is_empty() {
        text.push_str(&wrapped(
            "           What it means: ",
            &finding.meaning,
            WIDTH,
        ));
    }
    if !finding.action.is_empty() {
        text.push_str(&wrapped("           What to do: ", &finding.action, WIDTH));
    }
    text
}

fn summary(findings: &[Finding]) -> String {
    let number = |severity| {
        let alike = findings
            .iter()
            .filter(|finding| finding.severity == severity);
        alike.count()
    };
    let fine = format!("{} ok", count(number(Severity::Ok), "check"));
    let bad: Vec<String> = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ]
    .into_iter()
    .map(|(severity, word)| (number(severity), word))
    .filter(|(number, _)| *number > 0)
    .map(|(number, word)| count(number, word))
    .collect();
    if bad.is_empty() {
        return format!("\nAll is well: {fine}.\n");
    }
    format!("\n{}; {fine}.\n", bad.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, subject: &str, what: &str) -> Finding {
        let is_fine = severity == Severity::Ok;
        let unless_fine = |text: &str| {
            if is_fine {
                String::new()
            } else {
                text.to_owned()
            }
        };
        Finding {
            severity,
            check: "rights".to_owned(),
            subject: subject.to_owned(),
            what: what.to_owned(),
            since_seconds: (!is_fine).then_some(400),
            meaning: unless_fine("Something follows."),
            action: unless_fine("Do something."),
        }
    }

    #[test]
    fn what_is_fine_is_folded_and_the_rest_says_what_to_do() {
        let findings = [
            finding(Severity::Ok, "home", "one"),
            finding(Severity::Ok, "home", "two"),
            finding(Severity::Error, "west", "three"),
            finding(Severity::Ok, "west", "four"),
        ];
        assert_eq!(
            text(&findings, false, Colour::Plain),
            "\
home  2 checks ok
west  1 check ok
  ERROR    three (for 6m40s)
           What it means: Something follows.
           What to do: Do something.

1 error; 3 checks ok.
"
        );
        assert_eq!(
            text(&findings[..2], true, Colour::Plain),
            "home\n  ok       one\n  ok       two\n\nAll is well: 2 checks ok.\n"
        );
    }
}
