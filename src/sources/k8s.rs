//! Kubernetes clusters: the home cluster and those linked to it.

pub mod convert;
pub mod objects;
