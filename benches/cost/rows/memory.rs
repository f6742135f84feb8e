//! What connections, streams and endpoints keep.

use std::io::Write as _;
use std::process::Command;

use anyhow::Result;

use super::{Bench, Row, SETTLE, fleet};
use crate::client::Sameness;
use crate::cluster::{Change, Shape};
use crate::process::own_resident;
use crate::question::Question;
use crate::report::Figure;
use crate::server::{Server, Setting};
use crate::{facts, objects};

pub const ROWS: &[Row] = &[
    Row {
        name: "idle_memory",
        about: "what a stream keeps: 10,000 connections with one each, and 100 with 100",
        quick: "2,000 connections with one each",
        run: idle_memory,
    },
    Row {
        name: "index_memory",
        about: "what an endpoint keeps: 100,000 of them, with and without Pods, and a million without",
        quick: "100,000 only",
        run: index_memory,
    },
];

/// A shape of clients.
struct Clients {
    connections: usize,
    streams: usize,
}

fn idle_memory(bench: &Bench) -> Result<Vec<Figure>> {
    let alone = Clients {
        connections: bench.or_quick(10_000, 2_000),
        streams: 1,
    };
    let together = Clients {
        connections: 100,
        streams: 100,
    };
    let alone = of_each(bench, &alone)?;
    let together = of_each(bench, &together)?;
    let growth = |kept: &Kept| kept.of_thousand / kept.of_ten;
    let share = |kept: &Kept| kept.of_hundred / kept.naive;
    Ok(vec![
        Figure::at_most(0.28, "one each: memory a stream / naive", share(&alone))
            .known_to_miss(0.40),
        Figure::at_most(0.07, "100 each: memory a stream / naive", share(&together))
            .known_to_miss(0.09),
        Figure::at_most(1.15, "one each: 1,000 endpoints / 10", growth(&alone)),
        Figure::at_most(1.15, "100 each: 1,000 endpoints / 10", growth(&together)),
        Figure::shown("one each: kB a stream", alone.of_hundred / 1e3),
        Figure::shown("100 each: kB a stream", together.of_hundred / 1e3),
        Figure::shown("one each: naive kB a stream", alone.naive / 1e3),
        Figure::shown("100 each: naive kB a stream", together.naive / 1e3),
    ])
}

/// Bytes that a stream keeps, by how many endpoints it is about; `naive` is about a hundred.
struct Kept {
    of_ten: f64,
    of_hundred: f64,
    of_thousand: f64,
    naive: f64,
}

fn of_each(bench: &Bench, clients: &Clients) -> Result<Kept> {
    let setting = |endpoints| Setting {
        shape: Shape::one_service(endpoints),
        change: Change::One,
    };
    let product = |endpoints| {
        let server = Server::product(&bench.binary, &setting(endpoints))?;
        of_stream(&server, clients, Sameness::Bytes)
    };
    Ok(Kept {
        of_ten: product(10)?,
        of_hundred: product(100)?,
        of_thousand: product(1_000)?,
        naive: of_stream(&Server::naive(&setting(100))?, clients, Sameness::Length)?,
    })
}

fn of_stream(server: &Server, clients: &Clients, sameness: Sameness) -> Result<f64> {
    let mut fleet = fleet(server, sameness)?;
    let before = server.process.resident()?;
    let Clients {
        connections,
        streams,
    } = *clients;
    fleet.open(connections, streams, &[Question::about(0)])?;
    fleet.rest(SETTLE)?;
    let grown = server.process.resident()? - before;
    if let Ok(cluster) = server.cluster() {
        fleet.ensure_equal(|service| cluster.endpoints(service))?;
    }
    Ok(grown / (connections * streams) as f64)
}

fn index_memory(bench: &Bench) -> Result<Vec<Figure>> {
    const TARGET: f64 = 0.22;
    const GOAL: f64 = 0.08;
    let shape = |endpoints: u32, pods| Shape {
        services: endpoints / 100,
        slices: 1,
        endpoints: 100,
        pods,
        nodes: 500,
    };
    let each = |shape: Shape| {
        let endpoints = f64::from(shape.endpoints_in_all());
        anyhow::Ok((
            keep(shape)? / endpoints,
            objects::reflect(shape)? / endpoints,
        ))
    };
    let (addresses, addresses_reflected) = each(shape(100_000, false))?;
    let (pods, pods_reflected) = each(shape(100_000, true))?;
    let mut figures = vec![
        Figure::with_goal(
            TARGET,
            GOAL,
            "addresses / reflector store",
            addresses / addresses_reflected,
        ),
        Figure::with_goal(
            TARGET,
            GOAL,
            "with Pods / reflector stores",
            pods / pods_reflected,
        ),
        Figure::shown("addresses, bytes an endpoint", addresses),
        Figure::shown("with Pods, bytes an endpoint", pods),
        Figure::shown(
            "addresses, bytes an endpoint of the store",
            addresses_reflected,
        ),
        Figure::shown("with Pods, bytes an endpoint of the stores", pods_reflected),
    ];
    if !bench.quick {
        let (million, reflected) = each(shape(1_000_000, false))?;
        let ratio = million / reflected;
        figures.push(Figure::with_goal(
            TARGET,
            GOAL,
            "a million addresses / reflector store",
            ratio,
        ));
    }
    Ok(figures)
}

/// Memory that an index of so many endpoints takes, in bytes.
pub fn keep(shape: Shape) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    let pods = if shape.pods { "pods" } else { "addresses" };
    let (services, endpoints) = (shape.services.to_string(), shape.endpoints.to_string());
    command.args(["--server", "keep", &services, &endpoints, pods]);
    Ok(objects::answer(command)?.parse()?)
}

/// Keeps an index, and prints by how many bytes that has made this process grow.
pub fn serve_keep(services: u32, endpoints: u32, pods: bool) -> Result<()> {
    let before = own_resident()?;
    let index = facts::build(services, endpoints, pods);
    let grown = own_resident()? - before;
    drop(index);
    writeln!(std::io::stdout(), "{grown}")?;
    Ok(())
}
