//! What may say a [`Change`](crate::index::Change): Kubernetes clusters and files.
//!
//! Sources turn objects into facts and hand them to the index. They make no answers, know no client and keep no copy of
//! what they said.

pub mod file;
pub mod k8s;
pub mod metrics;
pub mod standing;
