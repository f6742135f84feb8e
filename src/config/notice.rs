//! What is odd about flags, and keeps nothing from running.

use tracing::{error, warn};

use super::DEFAULT_DOMAIN;
use crate::model::Text;

/// Something odd about a flag that does not keep the server from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `--cluster-domain` is empty.
    ClusterDomainEmpty,
    /// `--identity-trust-domain` is empty though the cluster domain is not the default.
    TrustDomainUnset {
        /// The cluster domain, which one might have expected instead.
        cluster_domain: Text,
    },
    /// An item of `--default-opaque-ports` cannot be read.
    OpaquePort(String),
    /// The value of `--outbound-transport-mode` is not known.
    TransportMode(String),
    /// A flag of Linkerd's destination controller means nothing here.
    NoEffect(String),
}

// === impl Notice ===

impl Notice {
    /// Writes it to the log.
    pub fn log(&self) {
        match self {
            Self::ClusterDomainEmpty => {
                warn!(
                    flag = "--cluster-domain",
                    using = DEFAULT_DOMAIN,
                    "flag is empty, using the default"
                );
            }
            Self::TrustDomainUnset { cluster_domain } => warn!(
                flag = "--identity-trust-domain",
                using = DEFAULT_DOMAIN,
                %cluster_domain,
                "flag is not set, nor taken from the cluster domain; set it to the trust domain of the mesh"
            ),
            Self::OpaquePort(item) => {
                warn!(
                    flag = "--default-opaque-ports",
                    item, "item is neither a port nor a range, left out"
                );
            }
            Self::NoEffect(flag) => warn!(flag, "has no effect here"),
            Self::TransportMode(mode) => error!(
                flag = "--outbound-transport-mode",
                mode,
                "unknown mode, using transparent: proxies connect to workloads at their own ports; write transparent or transport-header"
            ),
        }
    }
}
