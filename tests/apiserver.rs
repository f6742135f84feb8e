//! Needs kube-apiserver, etcd, kube-controller-manager and Envoy: run by `scripts/test apiserver`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "apiserver/bed.rs"]
mod bed;
#[path = "apiserver/client.rs"]
mod client;
#[path = "apiserver/endpoints_objects.rs"]
mod endpoints_objects;
#[path = "apiserver/federated.rs"]
mod federated;
#[path = "apiserver/field_cases.rs"]
mod field_cases;
#[path = "apiserver/home.rs"]
mod home;
#[path = "apiserver/in_place.rs"]
mod in_place;
#[path = "apiserver/kinds.rs"]
mod kinds;
#[path = "apiserver/links.rs"]
mod links;
#[path = "apiserver/malformed.rs"]
mod malformed;
#[path = "apiserver/metrics.rs"]
mod metrics;
#[path = "apiserver/mirrors.rs"]
mod mirrors;
#[path = "apiserver/network.rs"]
mod network;
#[path = "apiserver/operate.rs"]
mod operate;
#[path = "apiserver/outages.rs"]
mod outages;
#[path = "apiserver/rotation.rs"]
mod rotation;
#[path = "apiserver/victim.rs"]
mod victim;
#[path = "apiserver/writer.rs"]
mod writer;
#[path = "apiserver/xds.rs"]
mod xds;
