//! Cases: what happens in some clusters, what clients ask meanwhile, and what they should be answered.
//!
//! A case is a folder of files ([`case`]). Recorded cases ([`recorded`]) hold what Linkerd's destination controller answered,
//! hand-written ones ([`golden`]) what we want. Either is replayed on a [`stage`], which puts objects into clusters
//! and starts the product: API servers in `tests/observed`, folders of manifests in `tests/golden`. [`client`]s ask as proxies
//! do, by way of one or more implementations of gRPC ([`asker`]); what they know in the end is compared ([`answer`], [`profile`]).
//! [`lanes`] replays many cases at a time and gives verdicts.

#![allow(
    dead_code,
    reason = "every test binary compiles all of it and uses a part"
)]

pub mod answer;
pub mod asker;
pub mod case;
pub mod client;
pub mod golden;
pub mod lanes;
pub mod profile;
pub mod recorded;
pub mod stage;
