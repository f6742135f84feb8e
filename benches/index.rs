//! What the index costs: bytes per endpoint, and the time of one change at two sizes of everything else.
//!
//! `cargo bench --bench index [ENDPOINTS] [SERVICES]` prints one tab-separated line per figure. Bytes are counted by the
//! allocator, so they are exact; times are medians of many changes in one run and only their ratio means something.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a program that measures and prints"
)]

#[path = "cost/facts.rs"]
mod facts;

use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use tributary::index::{
    ClientLocality, Object, ObjectChange, SelectPolicy, Touched, ViewKey, diff, select,
};

use facts::{build, object, service_name, slice_facts, slice_name};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const CHANGES: u32 = 2_000;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<u32>().ok());
    let endpoints = numbers.next().unwrap_or(100_000);
    let services = numbers.next().unwrap_or(2_000);
    for (what, pods) in [("addresses", false), ("pods", true)] {
        let before = ALLOCATOR.current_usage();
        let index = build(services, endpoints / services, pods);
        let bytes = ALLOCATOR.current_usage() - before;
        println!(
            "bytes_per_endpoint\t{what}\t{:.1}",
            bytes as f64 / f64::from(endpoints)
        );
        drop(index);
    }
    let small = change_time(services / 20, endpoints / services);
    let large = change_time(services, endpoints / services);
    println!("change\t{} services\t{small:?}", services / 20);
    println!("change\t{services} services\t{large:?}");
    println!(
        "change_ratio\t\t{:.2}",
        large.as_secs_f64() / small.as_secs_f64()
    );
}

/// The median time to apply one readiness change, make the snapshot, select the view and find what changed.
fn change_time(services: u32, per_service: u32) -> Duration {
    let mut index = build(services, per_service, true);
    let policy = SelectPolicy::default();
    let client = ClientLocality::default();
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let number = round % services;
        let service = service_name(number);
        let snapshot = index.snapshot(&service);
        let key = ViewKey::new(&snapshot, 80, None, &client);
        let before = select(&snapshot, &key, &policy);
        let mut slice = slice_facts(number, per_service, true);
        slice.endpoints[0].conditions.ready = round / services % 2 == 1;
        let change = object(ObjectChange::Apply(Object::Slice(
            slice_name(number),
            slice,
        )));
        let start = Instant::now();
        let mut touched = Touched::default();
        index.apply(change, &mut touched);
        let snapshot = index.snapshot(&service);
        let after = select(&snapshot, &key, &policy);
        let delta = diff(Some(&before), &after);
        times.push(start.elapsed());
        assert_eq!(touched.services.len(), 1);
        assert!(!delta.is_empty());
    }
    times.sort_unstable();
    times[times.len() / 2]
}
