//! The rows of the table: what is measured, and what it should be.

mod fanout;
mod ingest;
mod memory;
mod sharing;
mod slow;
mod snapshots;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::client::{Fleet, Sameness};
use crate::question::Question;
use crate::report::Figure;
use crate::server::Server;

pub use memory::serve_keep;

/// How long a server has to come to rest.
const SETTLE: Duration = Duration::from_millis(300);

/// One row.
pub struct Row {
    pub name: &'static str,
    /// What it measures, in words.
    pub about: &'static str,
    /// What of it is smaller in quick mode; empty if nothing is.
    pub quick: &'static str,
    /// One repetition.
    pub run: fn(&Bench) -> Result<Vec<Figure>>,
}

/// What is measured, and how.
pub struct Bench {
    /// A `tributary` binary.
    pub binary: PathBuf,
    /// Whether there is little time.
    pub quick: bool,
}

/// All rows, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Row> {
    [
        fanout::ROWS,
        sharing::ROWS,
        snapshots::ROWS,
        memory::ROWS,
        slow::ROWS,
        ingest::ROWS,
    ]
    .into_iter()
    .flatten()
}

// === impl Bench ===

impl Bench {
    /// The second in quick mode.
    fn or_quick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Clients of a server to which everything has happened that happens once.
fn fleet(server: &Server, sameness: Sameness) -> Result<Fleet> {
    let mut warm = Fleet::new(server.address, sameness)?;
    warm.open(1, 1, &[Question::about(0)])?;
    drop(warm);
    let mut fleet = Fleet::new(server.address, sameness)?;
    fleet.rest(SETTLE)?;
    Ok(fleet)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value that so many of a hundred are at or under; they are in order of size.
fn percentile(values: &[f64], percent: usize) -> f64 {
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
