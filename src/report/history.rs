//! Recent changes of a Service.

use serde::Serialize;

use super::clusters::seconds;
use crate::proto::tributary_v1 as proto;

/// One change of what is known of a Service, and what clients were sent for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentChange {
    /// How long ago it was.
    pub age_seconds: Option<u64>,
    /// What caused it, in words.
    pub causes: Vec<String>,
    /// The clusters that caused it.
    pub clusters: Vec<String>,
    /// Addresses that clients were told of; not all if there are many.
    pub added: Vec<String>,
    /// Addresses that were taken away; not all if there are many.
    pub removed: Vec<String>,
    /// How many clients were told of.
    pub added_count: u32,
    /// How many were taken away.
    pub removed_count: u32,
    /// How many were left.
    pub left: u32,
}

// === impl RecentChange ===

impl From<proto::RecentChange> for RecentChange {
    fn from(change: proto::RecentChange) -> Self {
        Self {
            age_seconds: change.age.and_then(seconds),
            causes: change.causes,
            clusters: change.clusters,
            added: change.added,
            removed: change.removed,
            added_count: change.added_count,
            removed_count: change.removed_count,
            left: change.left,
        }
    }
}
