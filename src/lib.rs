//! Tributary: endpoint discovery for multi-cluster Kubernetes.
//!
//! Facts come in from `sources`; the pure [`index`] turns them into one immutable snapshot per Service; `publish` hands
//! snapshots to every stream; `frontends` select the view of each client and translate it into their protocol. Imports
//! point at [`model`].

pub mod frontends;
pub mod index;
pub mod model;
pub mod proto;
pub mod publish;
pub mod readiness;
pub mod server;
pub mod sources;
