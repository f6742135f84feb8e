//! Facts and changes that read as sentences, for tests of this crate and of its users.
//!
//! ```
//! use tributary::testing::{cluster, pod, slice};
//!
//! let east = cluster("east");
//! let changes = [
//!     east.linked(),
//!     east.opened(),
//!     east.apply(pod("shop/web-0").ip("10.0.0.7").meshed().on_node("n0")),
//!     east.apply(slice("web-1").of("shop/web").endpoint("10.0.0.7").pod("shop/web-0").zone("a").ready()),
//! ];
//! # drop(changes);
//! ```
//!
//! Names are written `namespace/name`. A text that cannot be read panics: this is for tests only.

#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test says what it expects by failing"
)]

mod cluster;
mod dice;
mod external;
pub mod hostile;
mod in_process;
mod objects;
mod world;

use std::net::IpAddr;

pub use cluster::{ClusterBuilder, HOME, cluster, home};
pub use dice::Dice;
pub use external::{ExternalWorkloadBuilder, ServerBuilder, external_workload, server};
pub use in_process::{CLUSTER_DOMAIN, InProcess};
pub use objects::{
    PodBuilder, ServiceBuilder, SliceBuilder, job, node, node_in, pod, replica_set, service,
    service_profile, slice,
};
pub use world::{World, describe, describe_endpoint};

fn split(name: &str) -> (&str, &str) {
    name.split_once('/')
        .unwrap_or_else(|| panic!("expected namespace/name, got {name:?}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| panic!("expected an IP address, got {text:?}"))
}
