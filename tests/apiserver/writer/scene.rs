//! What most tests of the writer begin with.

use std::sync::Arc;

use anyhow::Result;

use super::{Copies, Turn, turn, wait_for_copies, writer};
use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::fault_proxy::FaultProxy;
use crate::support::link::{Link, link};
use crate::support::services::{Backend, flat_mirror, node, slice, workload};
use crate::support::tributary::Tributary;

/// A namespace of the shared clusters, whose home Service `web-east` mirrors `web` of east. No other test writes meanwhile.
pub(super) struct Scene {
    pub(super) bed: &'static Bed,
    pub(super) namespace: &'static str,
    _turn: Turn,
}

/// A home cluster and one linked as `east`, for one test alone.
pub(super) struct Pair {
    pub(super) home: Arc<Cluster>,
    pub(super) east: Arc<Cluster>,
    /// What leads to east.
    pub(super) relay: FaultProxy,
}

// === impl Scene ===

impl Scene {
    /// An empty namespace.
    pub(super) async fn empty(namespace: &'static str) -> Result<Self> {
        let turn = turn().await?;
        Ok(Self {
            bed: turn.bed,
            namespace,
            _turn: turn,
        })
    }

    /// `web` of east has these Pods, and home mirrors it.
    pub(super) async fn mirror(namespace: &'static str, backends: &[Backend<'_>]) -> Result<Self> {
        let scene = Self::empty(namespace).await?;
        let (bed, web) = (scene.bed, workload(namespace, "web", backends));
        bed.east.apply(&web).await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        Ok(scene)
    }

    /// East's slice of `web` lists these from now on.
    pub(super) async fn list(&self, backends: &[Backend<'_>]) -> Result<()> {
        let slice = slice(self.namespace, "web", backends);
        self.bed.east.apply(&slice).await
    }

    /// Starts a writer for the namespace.
    pub(super) async fn writer(&self, more: &[&str]) -> Result<Tributary> {
        writer(&self.bed.home, self.namespace, more).await
    }

    /// Waits until the copies are exactly these.
    pub(super) async fn until(
        &self,
        tributary: &Tributary,
        expected: impl AsRef<str>,
    ) -> Result<Copies> {
        wait_for_copies(tributary, &self.bed.home, self.namespace, expected).await
    }

    /// The copies that are there.
    pub(super) async fn copies(&self) -> Result<Copies> {
        super::copies(&self.bed.home, self.namespace).await
    }
}

// === impl Pair ===

impl Pair {
    /// Starts both; east is reached through a relay that can fail.
    pub(super) async fn start(names: [&str; 2]) -> Result<Self> {
        let (home, east) = Self::clusters(names).await?;
        let relay = FaultProxy::start(east.address()).await?;
        let to_east = Link::to(&east, "east").await?.through(relay.address());
        to_east.store(&home).await?;
        Ok(Self { home, east, relay })
    }

    /// Starts both, with Kubernetes' own controllers at home. What they clean up is theirs.
    pub(super) async fn with_controllers(names: [&str; 2]) -> Result<[Arc<Cluster>; 2]> {
        let (home, east) = Self::clusters(names).await?;
        home.start_controller_manager()?;
        link(&home, &east, "east").await?;
        Ok([home, east])
    }

    async fn clusters(names: [&str; 2]) -> Result<(Arc<Cluster>, Arc<Cluster>)> {
        let [home, east] = Cluster::start_all(names).await?;
        for cluster in [&home, &east] {
            cluster.define_linkerd_kinds().await?;
            cluster.apply(&node("n0", "za")).await?;
        }
        Ok((home, east))
    }
}

/// The one copy of `web` of east as a line: a ready endpoint at this address.
pub(super) fn one_ready(ip: &str) -> String {
    format!("web-east from east: http=8080 | {ip} ready serving zone:za")
}
