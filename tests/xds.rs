//! Needs Envoy, Python's grpcio and Node's grpc-js: run by `scripts/test xds`.
//!
//! Gateways and proxyless clients that know nothing of us but an address and the name of a Service, with traffic through them.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]
#![allow(
    unreachable_pub,
    reason = "nothing is reachable from outside of a test"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "xds/backends.rs"]
mod backends;
#[path = "xds/envoy.rs"]
mod envoy;
#[path = "xds/gateway.rs"]
mod gateway;
#[path = "xds/grpc.rs"]
mod grpc;
#[path = "xds/proxyless.rs"]
mod proxyless;
#[path = "xds/secured.rs"]
mod secured;
#[path = "xds/upkeep.rs"]
mod upkeep;
#[path = "xds/world.rs"]
mod world;
