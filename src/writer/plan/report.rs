//! What a plan says besides what to do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Ineligible, Rejection};
use crate::model::{ClusterName, SliceName, Text, Uid};

/// Something that operators should know about one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Report {
    /// Nothing is written for it.
    NotEligible(Ineligible),
    /// Slices of others name it, so that nothing is written: name and manager of each.
    ForeignSlices(Vec<(Text, Text)>),
    /// A cluster's Service has none of the ports.
    PortNotExported(ClusterName),
    /// A cluster's Service is itself a mirror.
    Loop(ClusterName),
    /// A cluster is another one under a second name.
    Twin(ClusterName, ClusterName),
    /// Endpoints were left out: cluster, why, how many, and the first of their addresses.
    Rejected(ClusterName, Rejection, usize, IpAddr),
    /// A slice was left out: it has no port or no family of the Service.
    SliceSkipped(ClusterName, Rejection, Text),
    /// Nothing more of this cluster is written: it would be more than is allowed.
    Full(ClusterName),
    /// Nothing of this cluster is removed: it may be another cluster than before.
    Doubted(ClusterName),
    /// A stranger's slice has a copy's name.
    NameTaken(SliceName),
    /// GKE is asked to balance its load without kube-proxy.
    Neg,
}

/// A slice of a member, and its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The member's cluster.
    pub cluster: ClusterName,
    /// The slice there.
    pub slice: Text,
    /// The copy.
    pub copy: SliceName,
    /// Endpoints in it.
    pub endpoints: usize,
}

/// An endpoint that is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its cluster.
    pub cluster: ClusterName,
    /// The slice that lists it.
    pub slice: Text,
    /// Its address.
    pub address: IpAddr,
    /// Why it is not written.
    pub reason: Rejection,
}

/// Endpoints that the API server has refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The state of the source slice that they were of.
    pub source: (Uid, i64),
    /// Their addresses.
    pub addresses: BTreeSet<IpAddr>,
}
