//! From the API server in: lists, and single events all the way to the clients.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::memory::keep;
use super::{Bench, Row, SETTLE, fleet, percentile};
use crate::client::{Fleet, Numbering, Sameness};
use crate::cluster::{Change, Cluster, Shape};
use crate::objects;
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Script, Server, Setting};

pub const ROWS: &[Row] = &[
    Row {
        name: "list_load",
        about: "100,000 endpoints with Pods are listed, streamed and in pages",
        quick: "20,000 endpoints",
        run: list_load,
    },
    Row {
        name: "event_to_wire",
        about: "100 slice events a second, to 100 connections with 10 streams each",
        quick: "3 s",
        run: event_to_wire,
    },
];

fn list_load(bench: &Bench) -> Result<Vec<Figure>> {
    let shape = Shape {
        services: bench.or_quick(1_000, 200),
        slices: 1,
        endpoints: 100,
        pods: true,
        nodes: 500,
    };
    let empty = load(
        bench,
        Shape {
            services: 0,
            nodes: 0,
            ..shape
        },
        true,
    )?;
    let streamed = load(bench, shape, true)?;
    let paged = load(bench, shape, false)?;
    let typed = objects::decode(shape)?.as_secs_f64();
    // Not what the process keeps in the end: where an allocator returns nothing, that is the peak.
    let index = keep(shape)?;
    let peak = |loaded: &Loaded| (loaded.peak - empty.resident) / index;
    let each = |bytes: f64| bytes / f64::from(shape.endpoints_in_all());
    Ok(vec![
        Figure::at_most(
            0.85,
            "streamed: cpu / serde_json into k8s-openapi",
            streamed.cpu / typed,
        )
        .known_to_miss(1.2),
        Figure::at_most(
            0.85,
            "paged: cpu / serde_json into k8s-openapi",
            paged.cpu / typed,
        )
        .known_to_miss(1.2),
        Figure::at_most(1.5, "streamed: peak / final index", peak(&streamed)).known_to_miss(6.0),
        Figure::at_most(1.5, "paged: peak / final index", peak(&paged)).known_to_miss(6.0),
        Figure::shown("streamed: cpu, µs an endpoint", each(streamed.cpu * 1e6)),
        Figure::shown(
            "memory, bytes an endpoint",
            each(streamed.resident - empty.resident),
        ),
    ])
}

/// What it took to read everything.
struct Loaded {
    /// Processor time in s.
    cpu: f64,
    peak: f64,
    resident: f64,
}

fn load(bench: &Bench, shape: Shape, streams_lists: bool) -> Result<Loaded> {
    let setting = Setting {
        shape,
        change: Change::One,
    };
    let cluster = Cluster::start(shape, streams_lists)?;
    let server = Server::product_of(&bench.binary, &setting, cluster)?;
    std::thread::sleep(SETTLE);
    Ok(Loaded {
        cpu: server.process.cpu()?.as_secs_f64(),
        peak: server.process.peak()?,
        resident: server.process.resident()?,
    })
}

fn event_to_wire(bench: &Bench) -> Result<Vec<Figure>> {
    let events = bench.or_quick(1_000, 300);
    let setting = Setting {
        shape: Shape::one_service(100),
        change: Change::One,
    };
    let mut server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    let product = p99(&mut server, &mut fleet, events, Numbering::Content)?;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    drop((server, fleet));

    let mut server = Server::raw(&script)?;
    let mut fleet = super::fleet(&server, Sameness::Bytes)?;
    let raw = p99(&mut server, &mut fleet, events, Numbering::Order)?;
    Ok(vec![
        Figure::at_most(3.5, "p99 / raw p99", product / raw).known_to_miss(12.0),
        Figure::shown("p99, µs", product * 1e6),
        Figure::shown("raw p99, µs", raw * 1e6),
    ])
}

/// The time within which 99 of 100 streams are told of an event, in s.
fn p99(server: &mut Server, fleet: &mut Fleet, events: u32, numbering: Numbering) -> Result<f64> {
    const CONNECTIONS: usize = 100;
    const STREAMS: usize = 10;
    /// Messages of each stream that are not measured.
    const SCRIPT: usize = 2;
    const PERIOD: Duration = Duration::from_millis(10);
    fleet.open(CONNECTIONS, STREAMS, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    fleet.expect();
    server.change(0)?;
    fleet.next_message()?;
    let mut made = Vec::new();
    let mut next = Instant::now();
    for event in 1..=events {
        fleet.until(|_| Instant::now() >= next)?;
        next += PERIOD;
        made.push((event + 1, Instant::now()));
        server.change(0)?;
    }
    fleet.quiet(SETTLE)?;
    let latencies = fleet.latencies(0..CONNECTIONS, SCRIPT, &made, numbering)?;
    Ok(percentile(&latencies, 99))
}
