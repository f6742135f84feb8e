//! Three linked clusters that the tests of one process share.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::OnceCell;

use super::cluster::Cluster;
use super::link::link;
use super::services::node;

/// A home cluster with two others linked to it under their own names, each with the nodes `n0` in zone `za` and `n1` in
/// zone `zb`.
///
/// Tests keep out of each other's way by namespaces of their own, and leave links and rights as they are. A test that
/// breaks a cluster starts one for itself.
pub struct Bed {
    /// Where the product runs.
    pub home: Arc<Cluster>,
    /// Linked as `east`.
    pub east: Arc<Cluster>,
    /// Linked as `north`.
    pub north: Arc<Cluster>,
}

// === impl Bed ===

impl Bed {
    /// The bed of this process, started by whoever asks first.
    pub async fn shared() -> Result<&'static Self> {
        static BED: OnceCell<Bed> = OnceCell::const_new();
        BED.get_or_try_init(Self::start).await
    }

    /// A bed for one test alone.
    pub async fn start() -> Result<Self> {
        let [home, east, north] = Cluster::start_all(["home", "east", "north"]).await?;
        let bed = Self { home, east, north };
        for cluster in bed.clusters() {
            cluster.define_linkerd_kinds().await?;
            cluster.apply(&node("n0", "za")).await?;
            cluster.apply(&node("n1", "zb")).await?;
        }
        link(&bed.home, &bed.east, "east").await?;
        link(&bed.home, &bed.north, "north").await?;
        Ok(bed)
    }

    /// All three.
    pub fn clusters(&self) -> [&Cluster; 3] {
        [&self.home, &self.east, &self.north]
    }
}
