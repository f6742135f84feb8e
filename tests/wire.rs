//! The binary with manifests in place of API servers, seen from the wire: by a client of an independent make, and byte by
//! byte. Needs nothing.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "wire/answers.rs"]
mod answers;
#[path = "wire/errors.rs"]
mod errors;
#[path = "wire/garbage.rs"]
mod garbage;
#[path = "wire/life.rs"]
mod life;
#[path = "wire/manifests.rs"]
mod manifests;
#[path = "wire/memory.rs"]
mod memory;
#[path = "wire/metrics.rs"]
mod metrics;
#[path = "wire/page.rs"]
mod page;
#[path = "wire/raw.rs"]
mod raw;
#[path = "wire/reflection.rs"]
mod reflection;
#[path = "wire/stalled.rs"]
mod stalled;
#[path = "wire/xds.rs"]
mod xds;
#[path = "wire/xds_clients.rs"]
mod xds_clients;
