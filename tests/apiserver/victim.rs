//! A cluster to break: linked to the shared home cluster through a bad network, under a name of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::fault_proxy::FaultProxy;
use crate::support::link::{Link, unlink};
use crate::support::services::{Backend, Local, authority, federated, flat_mirror, workload};
use crate::support::subscription::{Folded, Mark, Subscription};
use crate::support::tributary::Tributary;
use crate::support::{note, wait_for};

/// Of the home cluster; there all the time.
pub(crate) const HOME: &str = "10.50.4.1:8080";
/// Comes with [`Victim::change_home`].
pub(crate) const HOME_COMES: &str = "10.50.4.9:8080";
/// Of the broken cluster; there all the time.
pub(crate) const STAYS: &str = "10.90.4.1:8080";
/// Goes with [`Victim::change`].
pub(crate) const GOES: &str = "10.90.4.2:8080";
/// Comes with [`Victim::change`], in a Pod that is new.
pub(crate) const COMES: &str = "10.90.4.3:8080";

/// What was changed during an outage is to be there so long after it.
const HEALING: Duration = Duration::from_secs(5);

/// The same for a connection that has died without a packet, which has to be noticed first.
pub(crate) const SILENT_HEALING: Duration = Duration::from_mins(1);

/// Machines that run tests may be slower than those that serve by so much.
const PATIENCE: u32 = 4;

/// The Service `web` in a namespace of the victim's name, at home and in the victim; at home also its federated Service and the
/// mirror of the victim's.
pub(crate) struct Victim {
    pub(crate) home: &'static Cluster,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) network: FaultProxy,
    pub(crate) link: Link,
    pub(crate) name: &'static str,
}

/// Both kinds of streams that a linked cluster's endpoints are in, and since when nothing may be missing in them.
pub(crate) struct Streams {
    pub(crate) federated: Subscription,
    pub(crate) flat: Subscription,
    marks: (Mark, Mark),
}

// === impl Victim ===

impl Victim {
    /// A cluster of its own, linked.
    pub(crate) async fn start(name: &'static str) -> Result<Self> {
        let victim = Self::start_unlinked(name).await?;
        victim.link.store(victim.home).await?;
        Ok(victim)
    }

    /// A cluster of its own that is yet to be linked.
    pub(crate) async fn start_unlinked(name: &'static str) -> Result<Self> {
        let cluster = Arc::new(Cluster::start(name).await?);
        cluster.define_linkerd_kinds().await?;
        Self::of(name, cluster).await
    }

    /// The cluster that all share, yet to be linked once more: only the way to it and the link may be broken.
    pub(crate) async fn shared_unlinked(name: &'static str) -> Result<Self> {
        Self::of(name, Bed::shared().await?.east.clone()).await
    }

    /// The same, linked.
    pub(crate) async fn shared(name: &'static str) -> Result<Self> {
        let victim = Self::shared_unlinked(name).await?;
        victim.link.store(victim.home).await?;
        Ok(victim)
    }

    async fn of(name: &'static str, cluster: Arc<Cluster>) -> Result<Self> {
        let home: &Cluster = &Bed::shared().await?.home;
        let here = [Backend::ready("web-0", "10.50.4.1")];
        home.apply(&workload(name, "web", &here)).await?;
        home.apply(&federated(name, "web", Local::Member, &[name]))
            .await?;
        home.apply(&flat_mirror(name, "web", name)).await?;
        let there = [stays(), Backend::ready("web-1", "10.90.4.2")];
        cluster.apply(&workload(name, "web", &there)).await?;
        let network = FaultProxy::start(cluster.address()).await?;
        let link = Link::to(&cluster, name).await?.through(network.address());
        Ok(Self {
            home,
            cluster,
            network,
            link,
            name,
        })
    }

    /// A stream for the federated Service.
    pub(crate) fn subscribe(&self, tributary: &Tributary) -> Subscription {
        tributary.get(&authority(self.name, "web-federated"))
    }

    /// A stream for the mirror.
    pub(crate) fn subscribe_flat(&self, tributary: &Tributary) -> Subscription {
        tributary.get(&authority(self.name, &format!("web-{}", self.name)))
    }

    /// A stream for the mirror, opened again and again until it is not refused, as clients do.
    pub(crate) async fn flat_when_known(&self, tributary: &Tributary) -> Result<Subscription> {
        wait_for("an answer about the mirror", || async {
            let stream = self.subscribe_flat(tributary);
            let answered = stream.until_answered().await;
            answered.then_some(stream)
        })
        .await
    }

    /// Both streams, when they have everything.
    pub(crate) async fn streams(&self, tributary: &Tributary) -> Streams {
        let federated = self.subscribe(tributary);
        federated.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let flat = self
            .flat_when_known(tributary)
            .await
            .expect("the federated Service has the cluster already");
        flat.wait_for_exactly(&[STAYS, GOES]).await;
        let marks = (federated.mark(), flat.mark());
        Streams {
            federated,
            flat,
            marks,
        }
    }

    /// Takes one Pod away and adds another.
    pub(crate) async fn change(&self) -> Result<()> {
        let there = [stays(), Backend::ready("web-2", "10.90.4.3")];
        let changed = workload(self.name, "web", &there);
        self.cluster.apply(&changed).await?;
        self.cluster.delete_object("Pod", self.name, "web-1").await
    }

    /// Adds a Pod at home.
    pub(crate) async fn change_home(&self) -> Result<()> {
        let more = [
            Backend::ready("web-0", "10.50.4.1"),
            Backend::ready("web-9", "10.50.4.9"),
        ];
        self.home.apply(&workload(self.name, "web", &more)).await
    }

    /// Leaves the home cluster as it was for others.
    pub(crate) async fn leave(self) -> Result<()> {
        unlink(self.home, self.name).await
    }
}

/// The Pod that is there all the time.
pub(crate) fn stays() -> Backend<'static> {
    Backend::ready("web-0", "10.90.4.1")
}

// === impl Streams ===

impl Streams {
    /// Waits until what [`Victim::change`] did is there; whatever should be there was never missing on the way.
    pub(crate) async fn heal(&self, what: &str, since: Instant) {
        self.heal_within(HEALING, what, since, HOME_ALONE).await;
    }

    /// The same, with another bound, and these endpoints of the home cluster.
    pub(crate) async fn heal_within(
        &self,
        bound: Duration,
        what: &str,
        since: Instant,
        home: &[&str],
    ) {
        let wanted: Vec<&str> = home.iter().copied().chain([STAYS, COMES]).collect();
        let deadline = bound * PATIENCE;
        let identity = |address: &str, state: &Folded| {
            // Not only there, but with the identity that its new Pod vouches for.
            state.at(address).identity().is_some()
        };
        self.federated
            .wait_within(deadline, what, |state| {
                state.is_exactly(&wanted) && identity(COMES, state)
            })
            .await;
        self.flat
            .wait_within(deadline, what, |state| {
                state.is_exactly(&[STAYS, COMES]) && identity(COMES, state)
            })
            .await;
        let took = since.elapsed().as_secs_f64();
        note(&format!(
            "{what}: healed after {took:.1} s (due: {} s)",
            bound.as_secs()
        ));
        self.assert_kept();
    }

    /// Checks that nothing that stays was ever missing.
    pub(crate) fn assert_kept(&self) {
        self.federated
            .assert_kept_since(self.marks.0, &[HOME, STAYS]);
        self.flat.assert_kept_since(self.marks.1, &[STAYS]);
    }
}

/// What is at home while nobody changes it.
pub(crate) const HOME_ALONE: &[&str] = &[HOME];

/// Waits for a line of the log that has all of these in it.
pub(crate) async fn log_line_with(tributary: &Tributary, parts: &[&str]) -> Result<String> {
    let (first, rest) = parts.split_first().expect("something to look for");
    wait_for(&format!("a log line with {parts:?}"), || async {
        tributary
            .logs_containing(first)
            .into_iter()
            .find(|line| rest.iter().all(|part| line.contains(part)))
    })
    .await
    .map_err(|error| error.context(tributary.log_tail(40)))
}
