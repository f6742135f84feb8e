//! Commands for people: they ask a running server and print what it says.
//!
//! Answers go to stdout, everything else to stderr; [`Verdict`] becomes the exit code. Nothing here knows the index.

mod check;
mod clusters;
mod columns;
mod document;
mod endpoints;
mod explain;
mod paint;
mod profile;
mod server;
mod text;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

use clap_complete::Shell;

pub use check::check;
pub use clusters::clusters;
pub use endpoints::{diff, endpoints};
pub use explain::explain;
pub use profile::profile;
pub use top::top;

use crate::config::{self, UsageError};

/// What a command found out; each is an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well: 0.
    Fine,
    /// There is something to look into: 1.
    Findings,
    /// The server could not be asked: 2.
    CouldNotAsk,
    /// The command line is wrong: 64.
    Usage,
}

// === impl Verdict ===

impl Verdict {
    fn of(is_fine: bool) -> Self {
        if is_fine { Self::Fine } else { Self::Findings }
    }

    fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Findings => 1,
            Self::CouldNotAsk => 2,
            Self::Usage => UsageError::EXIT_CODE,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(verdict.code())
    }
}

/// Prints the completion script of a shell.
pub fn completions(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    // clap_complete panics on a writer that fails, so it gets one that cannot.
    let mut script = Vec::new();
    let mut command = config::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    out.flush()
}
