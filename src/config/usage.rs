//! What is wrong with a command line, in one line.

use std::ffi::OsString;
use std::fmt;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use clap::parser::ValueSource;

use super::Stop;

/// A mistake in the flags, the environment or a file that they name. Displays as one line: what, where, how to fix.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(String);

/// Where the values of a subcommand's flags came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origins<'a>(pub(super) &'a ArgMatches);

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
    if let Some((flag, reason)) = stray_value(error, args) {
        return Stop::Usage(UsageError::flag(flag, reason));
    }
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Stop::Answer(error.render().to_string())
        }
        _ => Stop::Usage(UsageError(one_line(error, args))),
    }
}

/// A value that clap does not take for one, where it is clear which flag it belongs to: the flag, and what to write.
fn stray_value<'a>(error: &clap::Error, args: &'a [OsString]) -> Option<(&'a str, String)> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let command = super::command();
    let of = command.find_subcommand(args.get(1)?)?;
    args.windows(2).find_map(|pair| {
        let (flag, value) = (pair[0].to_str()?, pair[1].to_str()?);
        let name = flag.strip_prefix("--")?;
        let arg = of
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))?;
        let is_negative = value
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if arg.is_require_equals_set() && value == unknown {
            let reason = format!("a value follows after an equals sign: write {flag}={value}");
            Some((flag, reason))
        } else if is_negative && value.starts_with(unknown.as_str()) {
            Some((flag, format!("must not be negative, as {value} is")))
        } else {
            None
        }
    })
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
    (!on_command_line).then(|| variable_of(name))
}

/// The variable that sets a flag, given without its dashes.
fn variable_of(name: &str) -> String {
    format!("TRIBUTARY_{}", name.replace('-', "_").to_uppercase())
}

// === impl Origins ===

impl Origins<'_> {
    /// What to call a flag in a message: the variable, if its value came from there.
    pub(super) fn name(self, flag: &str) -> String {
        let name = flag.trim_start_matches('-');
        match self.0.value_source(&name.replace('-', "_")) {
            Some(ValueSource::EnvVariable) => format!("{} (environment)", variable_of(name)),
            _ => flag.to_owned(),
        }
    }

    /// Whether nobody has given a value for an argument, by its id.
    pub(super) fn is_default(self, id: &str) -> bool {
        self.0.value_source(id) == Some(ValueSource::DefaultValue)
    }

    /// A value that clap accepts and we do not.
    pub(super) fn refuse(self, flag: &str, reason: impl fmt::Display) -> UsageError {
        UsageError::flag(&self.name(flag), reason)
    }
}
