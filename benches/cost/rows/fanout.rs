//! One Service of 100 endpoints, one of which changes, and all streams are told.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, Row, SETTLE, fleet, median};
use crate::client::{Fleet, Sameness};
use crate::cluster::{Change, Shape};
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Script, Server, Setting};

pub const ROWS: &[Row] = &[
    Row {
        name: "fanout_1x1k",
        about: "1,000 connections with one stream each are told of one change",
        quick: "",
        run: |bench| one_each(bench, 1_000, 3.3, 2.5),
    },
    Row {
        name: "fanout_1x10k",
        about: "10,000 connections with one stream each",
        quick: "5,000 connections",
        run: |bench| one_each(bench, bench.or_quick(10_000, 5_000), 2.6, 2.6),
    },
    Row {
        name: "fanout_10x1k",
        about: "1,000 connections with 10 streams each",
        quick: "",
        run: |bench| shared(bench, 1_000, 10, (5.0, 5.0), (0.20, 0.25)),
    },
    Row {
        name: "fanout_100x100",
        about: "100 connections with 100 streams each",
        quick: "",
        run: |bench| shared(bench, 100, 100, (12.0, 12.0), (0.17, 0.17)),
    },
    Row {
        name: "fanout_10kx1",
        about: "one connection with 10,000 streams",
        quick: "",
        run: |bench| shared(bench, 1, 10_000, (4.5, 15.0), (0.11, 0.35)),
    },
];

/// Changes in one repetition, of which the median counts.
pub const CHANGES: usize = 7;
/// How long a server has for what follows from a change that it has told everybody of.
const REST: Duration = Duration::from_millis(60);

/// What one server needed in one repetition.
pub struct Told {
    /// Processor time of one change, in µs for each stream.
    pub cpu: f64,
    /// From the change to the last stream that was told, in ms.
    pub last: f64,
}

fn one_each(bench: &Bench, connections: usize, max: f64, goal: f64) -> Result<Vec<Figure>> {
    let (product, script) = product(bench, connections, 1)?;
    let raw = raw(&script, connections, 1)?;
    Ok(vec![
        Figure::with_goal(max, goal, "cpu / raw", product.cpu / raw.cpu),
        Figure::at_most(2.7, "last / raw", product.last / raw.last),
        Figure::shown("cpu, µs a stream", product.cpu),
        Figure::shown("raw cpu, µs a stream", raw.cpu),
        Figure::shown("last, ms", product.last),
        Figure::shown("raw last, ms", raw.last),
    ])
}

/// `of_raw` and `of_naive` are targets, each with what is known to be needed.
fn shared(
    bench: &Bench,
    connections: usize,
    streams: usize,
    of_raw: (f64, f64),
    of_naive: (f64, f64),
) -> Result<Vec<Figure>> {
    let (product, script) = product(bench, connections, streams)?;
    let raw = raw(&script, connections, streams)?;
    let naive = naive(connections, streams)?;
    Ok(vec![
        Figure::at_most(of_raw.0, "cpu / raw", product.cpu / raw.cpu).known_to_miss(of_raw.1),
        Figure::at_most(of_naive.0, "cpu / naive", product.cpu / naive.cpu)
            .known_to_miss(of_naive.1),
        Figure::shown("last / raw", product.last / raw.last),
        Figure::shown("cpu, µs a stream", product.cpu),
        Figure::shown("raw cpu, µs a stream", raw.cpu),
        Figure::shown("naive cpu, µs a stream", naive.cpu),
    ])
}

fn setting() -> Setting {
    Setting {
        shape: Shape::one_service(100),
        change: Change::One,
    }
}

fn product(bench: &Bench, connections: usize, streams: usize) -> Result<(Told, Script)> {
    let mut server = Server::product(&bench.binary, &setting())?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    fleet.open(connections, streams, &[Question::about(0)])?;
    let told = tell(&mut server, &mut fleet, CHANGES)?;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    Ok((told, script))
}

fn raw(script: &Script, connections: usize, streams: usize) -> Result<Told> {
    let mut server = Server::raw(script)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    fleet.open(connections, streams, &[Question::about(0)])?;
    tell(&mut server, &mut fleet, CHANGES)
}

fn naive(connections: usize, streams: usize) -> Result<Told> {
    let mut server = Server::naive(&setting())?;
    let mut fleet = fleet(&server, Sameness::Length)?;
    fleet.open(connections, streams, &[Question::about(0)])?;
    tell(&mut server, &mut fleet, CHANGES)
}

/// Changes the Service some times, and waits each time until all streams have been told.
pub fn tell(server: &mut Server, fleet: &mut Fleet, changes: usize) -> Result<Told> {
    let streams = fleet.stream_count() as f64;
    let (mut cpu, mut last) = (Vec::new(), Vec::new());
    fleet.rest(SETTLE)?;
    for _ in 0..changes {
        let before = server.process.cpu()?;
        fleet.expect();
        let start = Instant::now();
        server.change(0)?;
        let last_message = fleet.next_message()?;
        fleet.rest(REST)?;
        let used = server.process.cpu()?.saturating_sub(before);
        cpu.push(used.as_secs_f64() * 1e6 / streams);
        last.push((last_message - start).as_secs_f64() * 1e3);
    }
    Ok(Told {
        cpu: median(cpu),
        last: median(last),
    })
}
