//! What is wrong with a command line, in one line.

use std::ffi::OsString;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Stop;

/// A mistake in the flags, the environment or a file that they name. Displays as one line: what, where, how to fix.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(String);

// === impl UsageError ===

impl UsageError {
    /// Exit code of a wrong command line (`EX_USAGE` of `sysexits.h`).
    pub const EXIT_CODE: u8 = 64;

    /// A value that clap accepts and we do not.
    pub fn flag(flag: &str, reason: impl fmt::Display) -> Self {
        Self(format!("{flag}: {reason}"))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Turns what clap says about a command line into an answer or one line.
pub(super) fn stop(error: &clap::Error, args: &[OsString]) -> Stop {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Stop::Answer(error.render().to_string())
        }
        _ => Stop::Usage(UsageError(one_line(error, args))),
    }
}

fn one_line(error: &clap::Error, args: &[OsString]) -> String {
    let text = error.render().to_string();
    let mut parts: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = words
            .trim_start_matches("error: ")
            .trim_start_matches("tip: ");
        if part.starts_with("Usage:") || part.starts_with("For more information") {
            break;
        }
        if !part.is_empty() {
            parts.push(part.to_owned());
        }
    }
    let line = format!("{}; see --help", parts.join("; "));
    match variable(error, args) {
        Some(variable) => format!("{variable} (environment): {line}"),
        None => line,
    }
}

/// The environment variable that a bad value came from, if it was not on the command line.
fn variable(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if !matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
    ) {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = argument.split([' ', '=', '[']).next()?;
    let name = flag.strip_prefix("--")?;
    let on_command_line = args.iter().any(|arg| {
        arg.to_str()
            .and_then(|arg| arg.strip_prefix(flag))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    (!on_command_line).then(|| format!("TRIBUTARY_{}", name.replace('-', "_").to_uppercase()))
}
