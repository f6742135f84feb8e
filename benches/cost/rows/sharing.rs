//! What must not matter: how many Services there are to be told of, and on how many nodes clients are.

use std::time::Duration;

use anyhow::Result;

use super::fanout::{CHANGES, tell};
use super::{Bench, Row, SETTLE, fleet, median};
use crate::client::{Fleet, Sameness};
use crate::cluster::{Change, Shape};
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Script, Server, Setting};

pub const ROWS: &[Row] = &[
    Row {
        name: "many_services",
        about: "1,000 Services change at once; each of 1,000 connections has 10 streams about 10 of them",
        quick: "",
        run: many_services,
    },
    Row {
        name: "node_spread",
        about: "1,000 connections with 10 streams each, from 3 nodes and from 1,000, in 3 zones",
        quick: "",
        run: node_spread,
    },
];

const SERVICES: u32 = 1_000;
const CONNECTIONS: usize = 1_000;
const STREAMS: usize = 10;
/// How often all Services change in one repetition, of which the median counts.
const ROUNDS: usize = 5;

fn many_services(bench: &Bench) -> Result<Vec<Figure>> {
    let setting = Setting {
        shape: Shape {
            services: SERVICES,
            slices: 1,
            endpoints: 10,
            pods: true,
            nodes: 10,
        },
        change: Change::One,
    };
    let mut server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    let streams = (CONNECTIONS * STREAMS) as f64;
    let ingest = ingest(&mut server, &mut fleet)? / streams;
    let all = change_all(&mut server, &mut fleet)?;
    // The others read no events.
    let product = all - ingest;
    let script = Script::of(&fleet)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    drop((server, fleet));

    let mut server = Server::raw(&script)?;
    let mut fleet = super::fleet(&server, Sameness::Bytes)?;
    let raw = change_all(&mut server, &mut fleet)?;
    drop((server, fleet));

    let mut server = Server::naive(&setting)?;
    let mut fleet = super::fleet(&server, Sameness::Length)?;
    let naive = change_all(&mut server, &mut fleet)?;
    Ok(vec![
        Figure::at_most(4.0, "cpu / raw", product / raw),
        Figure::at_most(0.28, "cpu / naive", product / naive).known_to_miss(0.38),
        Figure::shown("with reading events: cpu / raw", all / raw),
        Figure::shown("with reading events: cpu / naive", all / naive),
        Figure::shown("cpu, µs a stream", product),
        Figure::shown("cpu of reading events, µs a stream", ingest),
        Figure::shown("raw cpu, µs a stream", raw),
        Figure::shown("naive cpu, µs a stream", naive),
    ])
}

/// What the same changes cost when nobody is told of them; processor time in µs.
fn ingest(server: &mut Server, fleet: &mut Fleet) -> Result<f64> {
    let mut cpu = Vec::new();
    for _ in 0..ROUNDS {
        let before = server.process.cpu()?;
        server.change_all(0..SERVICES)?;
        fleet.rest(SETTLE)?;
        cpu.push(server.process.cpu()?.saturating_sub(before).as_secs_f64() * 1e6);
    }
    Ok(median(cpu))
}

/// Changes all Services at once, a few times; processor time in µs for each stream.
fn change_all(server: &mut Server, fleet: &mut Fleet) -> Result<f64> {
    let questions: Vec<_> = (0..SERVICES).map(Question::about).collect();
    fleet.open(CONNECTIONS, STREAMS, &questions)?;
    fleet.rest(SETTLE)?;
    let mut cpu = Vec::new();
    for _ in 0..ROUNDS {
        let before = server.process.cpu()?;
        fleet.expect();
        server.change_all(0..SERVICES)?;
        fleet.next_message()?;
        fleet.rest(Duration::from_millis(100))?;
        let used = server.process.cpu()?.saturating_sub(before);
        cpu.push(used.as_secs_f64() * 1e6 / fleet.stream_count() as f64);
    }
    Ok(median(cpu))
}

fn node_spread(bench: &Bench) -> Result<Vec<Figure>> {
    let few = spread(bench, 3)?;
    let many = spread(bench, 1_000)?;
    Ok(vec![
        Figure::at_most(1.1, "cpu of 1,000 nodes / of 3", many / few),
        Figure::shown("cpu of 3 nodes, µs a stream", few),
        Figure::shown("cpu of 1,000 nodes, µs a stream", many),
    ])
}

fn spread(bench: &Bench, nodes: u32) -> Result<f64> {
    let setting = Setting {
        shape: Shape {
            nodes: 1_000,
            ..Shape::one_service(100)
        },
        change: Change::One,
    };
    let mut server = Server::product(&bench.binary, &setting)?;
    let mut fleet = fleet(&server, Sameness::Bytes)?;
    let questions: Vec<_> = (0..nodes)
        .map(|node| Question::from_node(0, node))
        .collect();
    fleet.open(CONNECTIONS, STREAMS, &questions)?;
    let told = tell(&mut server, &mut fleet, CHANGES)?;
    let cluster = server.cluster()?;
    fleet.ensure_equal(|service| cluster.endpoints(service))?;
    Ok(told.cpu)
}
