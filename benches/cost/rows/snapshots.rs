//! Whole states: for many who come at once, after a change of everything, and for all who come back.

use std::time::Instant;

use anyhow::Result;

use super::fanout::tell;
use super::{Bench, Row, SETTLE, fleet};
use crate::client::{Fleet, Sameness};
use crate::cluster::{Change, Shape};
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Script, Server, Setting};

pub const ROWS: &[Row] = &[
    Row {
        name: "snapshot_storm",
        about: "1,000 connections at once ask for a Service of 1,000 endpoints",
        quick: "",
        run: snapshot_storm,
    },
    Row {
        name: "full_push",
        about: "all of 1,000 endpoints change, and 1,000 connections are told",
        quick: "fewer changes",
        run: full_push,
    },
    Row {
        name: "reconnect_storm",
        about: "10,000 connections are cut and made anew as fast as can be; 100 endpoints",
        quick: "3,000 connections",
        run: reconnect_storm,
    },
];

/// What it took to tell everybody who came at once.
struct Came {
    /// Processor time in s, until everything was quiet.
    cpu: f64,
    /// Until the last snapshot, in s.
    time: f64,
    /// The most memory in between, to that of the same streams at rest.
    peak: f64,
}

fn snapshot_storm(bench: &Bench) -> Result<Vec<Figure>> {
    const CONNECTIONS: usize = 1_000;
    let setting = Setting {
        shape: Shape::one_service(1_000),
        change: Change::One,
    };
    let server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    let product = come(&server, &mut fleet, CONNECTIONS)?;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    drop((server, fleet));

    let server = Server::raw(&script)?;
    let mut fleet = super::fleet(&server, Sameness::Bytes)?;
    let raw = come(&server, &mut fleet, CONNECTIONS)?;
    Ok(vec![
        Figure::at_most(3.2, "cpu / raw", product.cpu / raw.cpu),
        Figure::at_most(1.2, "peak / idle memory", product.peak),
        Figure::shown("time / raw", product.time / raw.time),
        Figure::shown("cpu, ms", product.cpu * 1e3),
        Figure::shown("raw cpu, ms", raw.cpu * 1e3),
    ])
}

fn come(server: &Server, fleet: &mut Fleet, connections: usize) -> Result<Came> {
    server.process.forget_peak()?;
    let before = server.process.cpu()?;
    let start = Instant::now();
    let last_message = fleet.open(connections, 1, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    Ok(Came {
        cpu: server.process.cpu()?.saturating_sub(before).as_secs_f64(),
        time: (last_message - start).as_secs_f64(),
        peak: server.process.peak()? / server.process.resident()?,
    })
}

fn full_push(bench: &Bench) -> Result<Vec<Figure>> {
    const CONNECTIONS: usize = 1_000;
    let setting = Setting {
        // In one slice, so that it is one change.
        shape: Shape {
            services: 1,
            slices: 1,
            endpoints: 1_000,
            pods: true,
            nodes: 10,
        },
        change: Change::All,
    };
    let pushed = |mut server: Server, sameness, changes| {
        let mut fleet = fleet(&server, sameness)?;
        fleet.open(CONNECTIONS, 1, &[Question::about(0)])?;
        let told = tell(&mut server, &mut fleet, changes)?;
        anyhow::Ok((told.cpu, server, fleet))
    };
    let changes = bench.or_quick(5, 3);
    let server = Server::product(&bench.binary, &setting)?;
    let (product, server, mut fleet) = pushed(server, Sameness::Bytes, changes)?;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    drop((server, fleet));
    let (raw, ..) = pushed(Server::raw(&script)?, Sameness::Bytes, changes)?;
    // It needs seconds for each.
    let (naive, ..) = pushed(Server::naive(&setting)?, Sameness::Length, 1)?;
    Ok(vec![
        Figure::at_most(3.4, "cpu / raw", product / raw),
        Figure::at_most(0.09, "cpu / naive", product / naive).known_to_miss(0.24),
        Figure::shown("cpu, µs a stream", product),
        Figure::shown("raw cpu, µs a stream", raw),
        Figure::shown("naive cpu, µs a stream", naive),
    ])
}

fn reconnect_storm(bench: &Bench) -> Result<Vec<Figure>> {
    let connections = bench.or_quick(10_000, 3_000);
    let setting = Setting {
        shape: Shape::one_service(100),
        change: Change::One,
    };
    let server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    let product = come_back(&server, &mut fleet, connections)?;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    drop((server, fleet));

    let server = Server::raw(&script)?;
    let mut fleet = super::fleet(&server, Sameness::Bytes)?;
    let raw = come_back(&server, &mut fleet, connections)?;
    Ok(vec![
        Figure::at_most(4.0, "time to all snapshots / raw", product.time / raw.time),
        Figure::at_most(1.3, "peak / idle memory", product.peak),
        Figure::shown("time, ms", product.time * 1e3),
        Figure::shown("raw time, ms", raw.time * 1e3),
    ])
}

fn come_back(server: &Server, fleet: &mut Fleet, connections: usize) -> Result<Came> {
    fleet.open(connections, 1, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    let idle = server.process.resident()?;
    server.process.forget_peak()?;
    let before = server.process.cpu()?;
    let start = Instant::now();
    fleet.cut(0..connections);
    let last_message = fleet.open(connections, 1, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    Ok(Came {
        cpu: server.process.cpu()?.saturating_sub(before).as_secs_f64(),
        time: (last_message - start).as_secs_f64(),
        peak: server.process.peak()? / idle,
    })
}
