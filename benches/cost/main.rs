//! What the product costs, as ratios to servers that do as little, and as much, as can be.
//!
//! `cargo bench --bench cost -- [--quick] [--repetitions N] [--json FILE] [--binary PATH]… [ROW]…`
//! `cargo bench --bench cost -- --list`
//! `cargo bench --bench cost -- --soak MINUTES [--json FILE] [--binary PATH]`
//!
//! Server and client are processes of their own on cores of their own; the client knows nothing of this crate, reads HTTP/2
//! by itself, and never sleeps. The product watches an API server that is made up, beside the client. In each repetition all
//! servers do the same, one after the other, and ratios are taken within a repetition. What every stream believes in the end
//! is compared with what is so. `docs/performance.md` says what each row means.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::cast_precision_loss,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a program that measures and prints"
)]

mod client;
mod cluster;
mod facts;
mod http2;
mod naive;
mod objects;
mod process;
mod question;
mod raw;
mod report;
mod rows;
mod server;
mod soak;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use report::{Figure, Report, Summary, Verdict};
use rows::{Bench, Row};

/// How often a row is measured anew in quick mode before it has failed: the machine may have had something else to do.
const AGAIN: usize = 2;

struct Options {
    quick: bool,
    repetitions: usize,
    json: Option<PathBuf>,
    binaries: Vec<PathBuf>,
    rows: Vec<&'static Row>,
    /// Instead of all else, how long to let it run.
    soak: Option<Duration>,
}

fn main() -> Result<ExitCode> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--server", "raw", folder] => raw::serve(folder.as_ref())?,
        ["--server", "naive", endpoints, changed] => {
            naive::serve(endpoints.parse()?, changed.parse()?)?;
        }
        ["--server", "decode", cluster] => objects::serve_decode(cluster.parse()?)?,
        ["--server", "reflect", cluster] => objects::serve_reflect(cluster.parse()?)?,
        ["--server", "keep", services, endpoints, backing] => {
            rows::serve_keep(services.parse()?, endpoints.parse()?, backing == "pods")?;
        }
        ["--list", ..] | ["--bench", "--list"] => list()?,
        _ => return run(&Options::parse(&arguments)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what rows there are.
fn list() -> Result<()> {
    for row in rows::all() {
        writeln!(std::io::stdout(), "{}\t{}", row.name, row.about)?;
    }
    Ok(())
}

fn run(options: &Options) -> Result<ExitCode> {
    process::pin_client()?;
    let mut report = Report::begin()?;
    let (mut passed, mut failed) = (0, Vec::new());
    if let Some(time) = options.soak {
        match soak(options, time, &mut report) {
            Ok(true) => passed += 1,
            Ok(false) => failed.push("soak"),
            Err(error) => {
                eprintln!("bench: soak: {error:#}");
                failed.push("soak");
            }
        }
    }
    for row in &options.rows {
        let fine = match measure(row, options, &mut report) {
            Ok(fine) => fine,
            Err(error) => {
                eprintln!("bench: {}: {error:#}", row.name);
                false
            }
        };
        if fine {
            passed += 1;
        } else {
            failed.push(row.name);
        }
    }
    if let Some(file) = &options.json {
        report.write_json(file)?;
    }
    if failed.is_empty() {
        eprintln!("bench result: ok. {passed} passed; 0 failed");
        return Ok(ExitCode::SUCCESS);
    }
    let (count, names) = (failed.len(), failed.join(" "));
    eprintln!("bench result: FAILED. {passed} passed; {count} failed: {names}");
    Ok(ExitCode::FAILURE)
}

/// Lets a server run for some time; whether nothing grew.
fn soak(options: &Options, time: Duration, report: &mut Report) -> Result<bool> {
    let figures = soak::run(&options.binaries[0], time)?;
    let summaries = Summary::of(&[figures]);
    report.add("soak", "", &summaries)?;
    Ok(summaries.iter().all(|one| one.verdict() != Verdict::Failed))
}

/// Measures and reports a row; whether all its figures are near enough to their targets.
fn measure(row: &Row, options: &Options, report: &mut Report) -> Result<bool> {
    let mut fine = true;
    let form = if options.quick { row.quick } else { "" };
    let mut measured = repeat(row, options)?;
    for _ in 0..AGAIN {
        let Some(worst) = measured
            .iter()
            .flatten()
            .find(|one| one.verdict() == Verdict::Failed)
        else {
            break;
        };
        if !options.quick {
            break;
        }
        eprintln!("bench: {} is measured once more after {worst}", row.name);
        measured = repeat(row, options)?;
    }
    for (number, summaries) in measured.iter().enumerate() {
        let name = match options.binaries.len() {
            1 => row.name.to_owned(),
            _ => format!("{}@{number}", row.name),
        };
        report.add(&name, form, summaries)?;
        fine &= summaries.iter().all(|one| one.verdict() != Verdict::Failed);
    }
    Ok(fine)
}

/// Measures every binary in turn, as often as is wanted.
fn repeat(row: &Row, options: &Options) -> Result<Vec<Vec<Summary>>> {
    let mut measured: Vec<Vec<Vec<Figure>>> = vec![Vec::new(); options.binaries.len()];
    for repetition in 1..=options.repetitions {
        for (binary, measured) in options.binaries.iter().zip(&mut measured) {
            let start = Instant::now();
            let bench = Bench {
                binary: binary.clone(),
                quick: options.quick,
            };
            measured.push((row.run)(&bench)?);
            let (name, time) = (row.name, start.elapsed().as_secs_f64());
            eprintln!("bench: {name}, repetition {repetition}: {time:.1} s");
        }
    }
    Ok(measured.iter().map(|all| Summary::of(all)).collect())
}

// === impl Options ===

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            quick: false,
            repetitions: 0,
            json: None,
            binaries: Vec::new(),
            rows: Vec::new(),
            soak: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.with_context(|| format!("{argument} needs a value"))
            };
            match *argument {
                "--quick" => options.quick = true,
                "--repetitions" => options.repetitions = value()?.parse()?,
                "--json" => options.json = Some(value()?.into()),
                "--binary" => options.binaries.push(value()?.into()),
                "--soak" => options.soak = Some(Duration::from_mins(value()?.parse()?)),
                // What Cargo adds.
                "--bench" => {}
                name => {
                    let before = options.rows.len();
                    options
                        .rows
                        .extend(rows::all().filter(|row| row.name.starts_with(name)));
                    if options.rows.len() == before {
                        let all: Vec<_> = rows::all().map(|row| row.name).collect();
                        bail!("no row begins with {name}; there are: {}", all.join(" "));
                    }
                }
            }
        }
        if options.repetitions == 0 {
            options.repetitions = if options.quick { 1 } else { 5 };
        }
        if options.rows.is_empty() && options.soak.is_none() {
            options.rows.extend(rows::all());
        }
        if options.binaries.is_empty() {
            options
                .binaries
                .push(env!("CARGO_BIN_EXE_tributary").into());
        }
        Ok(options)
    }
}
