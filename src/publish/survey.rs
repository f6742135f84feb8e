//! What operators are told about links, besides the state of each cluster: objects of the home cluster that take no part
//! in answers, and that something may be wrong with.

use std::collections::BTreeMap;

use crate::model::ClusterName;

/// What was found in the home cluster that links are made by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Secrets of the type that links clusters and that link none, and why; by `namespace/name`.
    pub idle_secrets: BTreeMap<String, String>,
    /// Secrets that name a cluster as a link does and are of another type, and what is wrong; by `namespace/name`.
    pub stray_secrets: BTreeMap<String, String>,
    /// Why the Secrets cannot be watched; `None` while they can.
    pub secrets_trouble: Option<String>,
    /// Linkerd's `Link` objects, by `namespace/name`.
    pub links: Reading<BTreeMap<String, LinkObject>>,
    /// Pods of Linkerd's own destination controller, with the version that made each; by `namespace/name`.
    pub stock_controllers: BTreeMap<String, String>,
}

/// Something that may not be readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reading<T> {
    /// It has not been read yet.
    #[default]
    Pending,
    /// We may not read it.
    Denied,
    /// The cluster does not have the kind.
    Absent,
    /// It is this.
    Known(T),
}

/// What a `Link` object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkObject {
    /// The cluster that it links.
    pub cluster: ClusterName,
    /// Namespace of Linkerd's control plane there; empty if it does not say.
    pub control_plane_namespace: String,
}
