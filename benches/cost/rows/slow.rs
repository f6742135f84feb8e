//! Clients that do not read, and more changes than anybody could be told one by one.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::{Bench, Row, SETTLE, fleet, percentile};
use crate::client::{Fleet, Numbering, Sameness};
use crate::cluster::{Change, Shape};
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Server, Setting};

pub const ROWS: &[Row] = &[
    Row {
        name: "slow_readers",
        about: "20 of 100 streams stop reading for 2,000 changes, and go on",
        quick: "500 changes",
        run: slow_readers,
    },
    Row {
        name: "burst_converge",
        about: "10,000 changes at once to 500 connections with one stream each",
        quick: "",
        run: burst_converge,
    },
    Row {
        name: "storm_1x10k",
        about: "10,000 changes at once to 10,000 connections with one stream each",
        quick: "3,000 connections",
        run: |bench| storm(bench, bench.or_quick(10_000, 3_000), 1),
    },
    Row {
        name: "storm_100x100",
        about: "10,000 changes at once to 100 connections with 100 streams each",
        quick: "",
        run: |bench| storm(bench, 100, 100),
    },
    Row {
        name: "storm_10kx1",
        about: "10,000 changes at once to one connection with 10,000 streams",
        quick: "",
        run: |bench| storm(bench, 1, 10_000),
    },
];

/// Changes of a storm.
const STORM: u32 = 10_000;
/// Nothing comes any more.
const QUIET: Duration = Duration::from_millis(300);

/// What may be left of a storm: so much of what there was, and so many bytes that allocators keep for the next one.
const GROWTH_SHARE: f64 = 0.2;
const GROWTH_BYTES: f64 = 16.0 * 1_048_576.0;

fn slow_readers(bench: &Bench) -> Result<Vec<Figure>> {
    const STREAMS: usize = 100;
    const STUCK: usize = 20;
    /// What each may cost, in bytes.
    const SHARE: f64 = 65_536.0;
    let changes = bench.or_quick(2_000, 500);
    let setting = Setting {
        shape: Shape::one_service(100),
        change: Change::One,
    };
    let mut server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    fleet.open(STREAMS, 1, &[Question::about(0)])?;
    let others = STUCK..STREAMS;
    let p99 = |server: &mut Server, fleet: &mut Fleet, reading| {
        fleet.fold()?;
        let mut made = Vec::new();
        for _ in 0..changes {
            fleet.expect();
            let start = Instant::now();
            server.change(0)?;
            made.push((server.cluster()?.changes(), start));
            fleet.messages(reading)?;
        }
        let latencies = fleet.latencies(others.clone(), 0, &made, Numbering::Content)?;
        anyhow::Ok(percentile(&latencies, 99))
    };
    let without = p99(&mut server, &mut fleet, STREAMS)?;
    fleet.rest(SETTLE)?;
    let before = server.process.resident()?;
    fleet.set_stuck(0..STUCK, true)?;
    let with = p99(&mut server, &mut fleet, STREAMS - STUCK)?;
    fleet.rest(SETTLE)?;
    let growth = (server.process.resident()? - before).max(0.0);
    fleet.set_stuck(0..STUCK, false)?;
    fleet.quiet(QUIET)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    Ok(vec![
        Figure::at_most(1.15, "p99 / without stuck ones", with / without),
        Figure::at_most(1.0, "growth / 64 KiB each", growth / (SHARE * STUCK as f64)),
        Figure::shown("p99 with, µs", with * 1e6),
        Figure::shown("p99 without, µs", without * 1e6),
    ])
}

fn burst_converge(bench: &Bench) -> Result<Vec<Figure>> {
    const STREAMS: usize = 500;
    let mut server = Server::product(&bench.binary, &stormy())?;
    let mut alone = fleet(&server, Sameness::Bytes)?;
    alone.open(1, 1, &[Question::about(0)])?;
    alone.rest(SETTLE)?;
    let (publish, _) = burst(&mut server, &mut alone)?;
    drop(alone);
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    fleet.open(STREAMS, 1, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    let (converge, messages) = burst(&mut server, &mut fleet)?;
    Ok(vec![
        Figure::at_most(4.0, "converge / publish time", converge / publish),
        Figure::at_most(0.01, "messages / changes", messages / f64::from(STORM)),
        Figure::shown("converge, ms", converge * 1e3),
        Figure::shown("publish, ms", publish * 1e3),
        Figure::shown("messages a stream", messages),
    ])
}

fn storm(bench: &Bench, connections: usize, streams: usize) -> Result<Vec<Figure>> {
    let mut server = Server::product(&bench.binary, &stormy())?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    fleet.open(connections, streams, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    let before = server.process.resident()?;
    let (converge, messages) = burst(&mut server, &mut fleet)?;
    fleet.rest(SETTLE)?;
    let after = server.process.resident()?;
    let allowed = before * GROWTH_SHARE + GROWTH_BYTES;
    Ok(vec![
        Figure::at_most(1.0, "growth / allowed", (after - before) / allowed),
        Figure::shown("memory after / before", after / before),
        Figure::shown("converge, ms", converge * 1e3),
        Figure::shown("messages a stream", messages),
    ])
}

/// A hundred endpoints in slices as small as is usual, so that it is the changes that cost.
fn stormy() -> Setting {
    Setting {
        shape: Shape {
            services: 1,
            slices: 10,
            endpoints: 10,
            pods: true,
            nodes: 10,
        },
        change: Change::Churn,
    }
}

/// Makes changes as fast as they are taken, until every stream believes what is so. Gives the time that this took, in s, and how many
/// messages a stream was sent.
fn burst(server: &mut Server, fleet: &mut Fleet) -> Result<(f64, f64)> {
    let cluster = server.cluster()?;
    fleet.expect();
    let storm = cluster.storm((0..STORM).map(|_| 0), Change::Churn);
    fleet.until(|_| storm.is_finished())?;
    let start = storm.join().map_err(|_| anyhow!("the storm broke off"))?;
    let last = fleet.quiet(QUIET)?;
    let messages = fleet.message_count() as f64 / fleet.stream_count() as f64;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    Ok(((last - start).as_secs_f64(), messages))
}
