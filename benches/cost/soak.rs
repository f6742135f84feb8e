//! A server under churn, reconnects and clients that do not read, for as long as is wanted: nothing may grow.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::{Fleet, Sameness};
use crate::cluster::{Change, Shape};
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Server, Setting};

const SERVICES: u32 = 20;
/// Streams of each connection, each about another Service.
const STREAMS: usize = 10;
/// Connections that stay and read.
const STEADY: Range<usize> = 0..100;
/// Connections that are cut and come back, all at once.
const WAVES: Range<usize> = 100..180;
/// Connections that read for a while and then do not.
const STUCK: Range<usize> = 180..200;

const CHANGE_PERIOD: Duration = Duration::from_millis(5);
const WAVE_PERIOD: Duration = Duration::from_secs(3);
const STUCK_PERIOD: Duration = Duration::from_secs(5);
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// How long a server may take to let go of what was closed.
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// Growth that is no leak: so much of what there was, and so many bytes besides.
const GROWTH_SHARE: f64 = 0.05;
const GROWTH_BYTES: f64 = 1_048_576.0;

/// Something that is due again and again.
struct Every {
    period: Duration,
    next: Instant,
}

pub fn run(binary: &Path, time: Duration) -> Result<Vec<Figure>> {
    let setting = Setting {
        shape: Shape {
            services: SERVICES,
            slices: 4,
            endpoints: 25,
            pods: true,
            nodes: 10,
        },
        change: Change::Churn,
    };
    let mut server = Server::product(binary, &setting)?;
    let questions: Vec<_> = (0..SERVICES).map(Question::about).collect();
    let mut fleet = Fleet::new(server.address, Sameness::Bytes)?;
    fleet.rest(SAMPLE_PERIOD)?;
    let descriptors = server.process.descriptors()?;

    let start = Instant::now();
    fleet.join(STUCK.end, STREAMS, &questions)?;
    let (mut change, mut wave) = (Every::new(CHANGE_PERIOD), Every::new(WAVE_PERIOD));
    let (mut stuck, mut sample) = (Every::new(STUCK_PERIOD), Every::new(SAMPLE_PERIOD));
    let (mut changes, mut is_stuck, mut resident) = (0, false, Vec::new());
    while start.elapsed() < time {
        fleet.until(|_| Instant::now() >= change.next)?;
        if change.is_due() {
            server.change(changes % SERVICES)?;
            changes += 1;
        }
        if wave.is_due() {
            fleet.cut(WAVES);
            fleet.join(WAVES.len(), STREAMS, &questions)?;
        }
        if stuck.is_due() {
            is_stuck = !is_stuck;
            fleet.set_stuck(STUCK, is_stuck)?;
        }
        if sample.is_due() {
            fleet.forget()?;
            resident.push(server.process.resident()?);
            if resident.len().is_multiple_of(30) {
                let megabytes = resident[resident.len() - 1] / 1e6;
                eprintln!(
                    "soak: {} s, {changes} changes, {megabytes:.1} MB",
                    resident.len()
                );
            }
        }
    }
    fleet.set_stuck(STUCK, false)?;
    fleet.quiet(SAMPLE_PERIOD)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;

    fleet.cut(STEADY.start..STUCK.end);
    let closing = Instant::now();
    while server.process.descriptors()? > descriptors && closing.elapsed() < CLOSING_MAX {
        fleet.rest(Duration::from_millis(100))?;
    }
    let left = server.process.descriptors()?.saturating_sub(descriptors);

    // The first third warms up.
    let third = resident.len() / 3;
    let before = median(&resident[third..third * 2]);
    let after = median(&resident[third * 2..]);
    let allowed = before * GROWTH_SHARE + GROWTH_BYTES;
    Ok(vec![
        Figure::at_most(1.0, "growth / allowed", (after - before) / allowed),
        Figure::at_most(0.0, "descriptors left", left as f64),
        Figure::shown("memory of the second third, MB", before / 1e6),
        Figure::shown("memory of the last third, MB", after / 1e6),
        Figure::shown("changes", f64::from(changes)),
    ])
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

// === impl Every ===

impl Every {
    fn new(period: Duration) -> Self {
        Self {
            period,
            next: Instant::now() + period,
        }
    }

    fn is_due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next += self.period;
        }
        due
    }
}
