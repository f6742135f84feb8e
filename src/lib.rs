//! Tributary: endpoint discovery for multi-cluster Kubernetes.
//!
//! Facts come in from `sources`; the pure [`index`] turns them into one immutable snapshot per Service; [`publish`] hands
//! snapshots to every stream; [`frontends`] select the view of each client and translate it into their protocol. Imports
//! point at [`model`]; [`app`] wires it all. Where it is turned on, the [`writer`] keeps EndpointSlices for gateways.

pub mod admin;
pub mod answer;
pub mod app;
pub mod cli;
pub mod config;
pub mod demo;
pub mod frontends;
pub mod index;
pub mod model;
pub mod page;
pub mod proto;
pub mod publish;
pub mod readiness;
pub mod report;
pub mod server;
pub mod sources;
pub mod telemetry;
pub mod writer;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
