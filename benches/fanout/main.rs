//! What it costs to tell many streams of one change, as ratios to a server that only sends ready-made bytes.
//!
//! `cargo bench --bench fanout -- [--repetitions N] [--binary PATH]… [--only raw|naive]… [WORKLOAD]…`
//!
//! Server and client are processes of their own on cores of their own; the client knows nothing of this crate, reads HTTP/2
//! by itself, and never sleeps. In each repetition every server does the same, one after the other; ratios are taken
//! within a repetition, and the median of the repetitions is printed, with the range. Every message of every stream is
//! compared; a message too few or too many, or a stream that ends, fails the run. With `--binary`, given any number of times, those
//! binaries are measured in place of the one built with the bench: two versions side by side.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::cast_precision_loss,
    clippy::disallowed_types,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that measures and prints"
)]

mod client;
mod http2;
mod manifests;
mod naive;
mod raw;
mod server;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use prost::Message as _;

use client::{Fleet, Sameness};
use manifests::{NAMESPACE, SERVICE};
use server::{Kind, Server};

const PATH: &str = "/io.linkerd.proxy.destination.Destination/Get";
/// Connections, and streams on each.
const WORKLOADS: &[(&str, usize, usize)] = &[
    ("fanout_1x1k", 1_000, 1),
    ("fanout_1x10k", 10_000, 1),
    ("fanout_10x1k", 1_000, 10),
    ("fanout_100x100", 100, 100),
    ("fanout_10kx1", 1, 10_000),
];
/// Changes in one repetition, of which the median counts.
const CHANGES: usize = 5;
/// How long a server has for a change and everything that follows from it.
const WINDOW: Duration = Duration::from_millis(400);
/// How long a server has to come to rest.
const SETTLE: Duration = Duration::from_millis(500);

/// What one server needed in one repetition. Times are for one stream.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Processor time of one change.
    cpu: f64,
    /// From the first stream that was told to the last.
    spread: f64,
    /// From the change to the last stream that was told.
    last: f64,
    /// Processor time of opening the stream and of its first message.
    open: f64,
    /// Resident memory.
    resident: f64,
}

struct Options {
    repetitions: usize,
    servers: Vec<Kind>,
    workloads: Vec<String>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let options = match arguments.next() {
        Some(flag) if flag == "--server" => {
            let folder = || PathBuf::from(std::env::args().nth(3).unwrap_or_default());
            rlimit::increase_nofile_limit(u64::MAX)?;
            return match arguments.next().as_deref() {
                Some("raw") => raw::serve(&folder()),
                _ => naive::serve(),
            };
        }
        first => options(first.into_iter().chain(arguments))?,
    };
    rlimit::increase_nofile_limit(u64::MAX)?;
    server::pin_client()?;
    let messages = record(&options)?;
    println!("workload\tserver\tcpu_us\tspread_ms\tlast_ms\topen_us\tresident_kb\tcpu/raw\trange");
    for (name, connections, streams) in WORKLOADS {
        if !options.workloads.is_empty()
            && !options
                .workloads
                .iter()
                .any(|wanted| name.ends_with(wanted))
        {
            continue;
        }
        let mut figures = vec![Vec::new(); options.servers.len()];
        for _ in 0..options.repetitions {
            for (kind, figures) in options.servers.iter().zip(&mut figures) {
                let measured = measure(kind, *connections, *streams, messages.path());
                figures.push(measured.with_context(|| format!("{name}, {kind:?}"))?);
            }
        }
        report(name, &options.servers, &figures);
    }
    Ok(())
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options {
        repetitions: 3,
        servers: Vec::new(),
        workloads: Vec::new(),
    };
    let mut only = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .with_context(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--repetitions" => options.repetitions = value()?.parse()?,
            "--binary" => options.servers.push(Kind::Product(value()?.into())),
            "--only" => only.push(value()?),
            // What Cargo adds.
            "--bench" => {}
            workload if WORKLOADS.iter().any(|(name, ..)| name.ends_with(workload)) => {
                options.workloads.push(argument);
            }
            unknown => bail!("no workload or option is called {unknown}"),
        }
    }
    if options.servers.is_empty() {
        options
            .servers
            .push(Kind::Product(env!("CARGO_BIN_EXE_tributary").into()));
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    if wanted("naive") {
        options.servers.push(Kind::Naive);
    }
    if wanted("raw") {
        options.servers.push(Kind::Raw);
    }
    Ok(options)
}

/// What the raw server is to say: what the product says.
fn record(options: &Options) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let mut server = Server::start(&options.servers[0], folder.path())?;
    let mut fleet = Fleet::new(server.address, Sameness::Bytes)?;
    fleet.open(1, 1, PATH, &question())?;
    fleet.expect();
    server.change()?;
    fleet.next_message()?;
    for (name, number) in [("first", 0), ("update", 1)] {
        std::fs::write(folder.path().join(name), fleet.message(number))?;
        println!("# {name} message: {} bytes", fleet.message(number).len());
    }
    Ok(folder)
}

fn question() -> Vec<u8> {
    let message = linkerd2_proxy_api::destination::GetDestination {
        path: format!("{SERVICE}.{NAMESPACE}.svc.cluster.local:80"),
        context_token: format!(r#"{{"ns":"{NAMESPACE}","nodeName":"node-1","pod":"client"}}"#),
        ..Default::default()
    }
    .encode_to_vec();
    let len = u32::try_from(message.len()).expect("it is short");
    let mut question = vec![0];
    question.extend_from_slice(&len.to_be_bytes());
    question.extend_from_slice(&message);
    question
}

fn measure(
    kind: &Kind,
    connections: usize,
    streams: usize,
    messages: &std::path::Path,
) -> Result<Figures> {
    let mut server = Server::start(kind, messages)?;
    let sameness = if *kind == Kind::Naive {
        Sameness::Length
    } else {
        Sameness::Bytes
    };
    let mut fleet = Fleet::new(server.address, sameness)?;
    // Everything that happens once.
    let mut warm = Fleet::new(server.address, sameness)?;
    warm.open(1, 1, PATH, &question())?;
    drop(warm);
    fleet.rest(SETTLE)?;

    let (resident, cpu) = (server.resident()?, server.cpu()?);
    fleet.open(connections, streams, PATH, &question())?;
    fleet.rest(SETTLE)?;
    let count = fleet.stream_count() as f64;
    let open = server.cpu()?.saturating_sub(cpu);
    let resident = server.resident()?.saturating_sub(resident);

    let mut changes = Vec::new();
    for _ in 0..CHANGES {
        let idle = server.cpu()?;
        server.change_elsewhere()?;
        fleet.rest(WINDOW)?;
        let before = server.cpu()?;
        fleet.expect();
        let start = Instant::now();
        server.change()?;
        let arrival = fleet.next_message()?;
        fleet.rest(WINDOW.saturating_sub(start.elapsed()).max(WINDOW / 4))?;
        let after = server.cpu()?;
        let cpu = after
            .saturating_sub(before)
            .saturating_sub(before.saturating_sub(idle));
        changes.push(Figures {
            cpu: cpu.as_secs_f64() * 1e6 / count,
            spread: (arrival.last - arrival.first).as_secs_f64() * 1e3,
            last: (arrival.last - start).as_secs_f64() * 1e3,
            open: open.as_secs_f64() * 1e6 / count,
            resident: resident as f64 / 1024.0 / count,
        });
    }
    Ok(middle(&changes))
}

fn middle(all: &[Figures]) -> Figures {
    let of = |part: fn(&Figures) -> f64| median(all.iter().map(part).collect());
    Figures {
        cpu: of(|figures| figures.cpu),
        spread: of(|figures| figures.spread),
        last: of(|figures| figures.last),
        open: of(|figures| figures.open),
        resident: of(|figures| figures.resident),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(workload: &str, servers: &[Kind], figures: &[Vec<Figures>]) {
    let raw = servers.iter().position(|kind| *kind == Kind::Raw);
    for (kind, own) in servers.iter().zip(figures) {
        let name = match kind {
            Kind::Product(binary) => binary.display().to_string(),
            Kind::Raw => "raw".to_owned(),
            Kind::Naive => "naive".to_owned(),
        };
        let Figures {
            cpu,
            spread,
            last,
            open,
            resident,
        } = middle(own);
        print!("{workload}\t{name}\t{cpu:.2}\t{spread:.1}\t{last:.1}\t{open:.1}\t{resident:.1}");
        if let Some(raw) = raw {
            let mut ratios: Vec<_> = own
                .iter()
                .zip(&figures[raw])
                .map(|(own, raw)| own.cpu / raw.cpu)
                .collect();
            ratios.sort_by(f64::total_cmp);
            let range = (ratios[0], ratios[ratios.len() - 1]);
            print!("\t{:.2}\t{:.2}-{:.2}", median(ratios), range.0, range.1);
        }
        println!();
    }
}
