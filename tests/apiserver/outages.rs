//! Linked clusters that cannot be reached, change behind our back, or change their credentials, while streams are open.
//!
//! Every test breaks a cluster of its own, which is linked to the shared home cluster through a bad network.

use std::net::SocketAddr;

use anyhow::Result;

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::fault_proxy::FaultProxy;
use crate::support::kubeconfig::Credentials;
use crate::support::link::{Link, unlink};
use crate::support::run;
use crate::support::services::{Backend, Local, authority, federated, slice, workload};
use crate::support::subscription::{Message, Subscription};
use crate::support::tributary::Tributary;

const HOME: &str = "10.50.4.1:8080";
const STAYS: &str = "10.90.4.1:8080";
const GOES: &str = "10.90.4.2:8080";
const COMES: &str = "10.90.4.3:8080";

/// A cluster to break, linked under its own name, with the Service `web` in a namespace of the same name.
struct Victim {
    home: &'static Cluster,
    cluster: Cluster,
    network: FaultProxy,
    link: Link,
    name: &'static str,
}

// === impl Victim ===

impl Victim {
    /// Starts the cluster, fills it and makes the federated Service at home, and links it.
    async fn start(name: &'static str) -> Result<Self> {
        let victim = Self::start_unlinked(name).await?;
        victim.link.store(victim.home).await?;
        Ok(victim)
    }

    async fn start_unlinked(name: &'static str) -> Result<Self> {
        let home: &Cluster = &Bed::shared().await?.home;
        let cluster = Cluster::start(name).await?;
        cluster.define_linkerd_kinds().await?;
        let here = [Backend::ready("web-0", "10.50.4.1")];
        home.apply(&workload(name, "web", &here)).await?;
        home.apply(&federated(name, "web", Local::Member, &[name]))
            .await?;
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

    fn subscribe(&self, tributary: &Tributary) -> Subscription {
        tributary.get(&authority(self.name, "web-federated"))
    }

    /// Takes one Pod away and adds another.
    async fn change(&self) -> Result<()> {
        let there = [stays(), Backend::ready("web-2", "10.90.4.3")];
        let changed = workload(self.name, "web", &there);
        self.cluster.apply(&changed).await?;
        self.cluster.delete_object("Pod", self.name, "web-1").await
    }

    /// Leaves the home cluster as it was for others.
    async fn leave(self) -> Result<()> {
        unlink(self.home, self.name).await
    }
}

fn stays() -> Backend<'static> {
    Backend::ready("web-0", "10.90.4.1")
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_crash_of_a_linked_api_server_takes_nothing_away() {
    run(async {
        let victim = Victim::start("crashing").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let mark = stream.mark();

        victim.cluster.kill_apiserver();
        // Home goes on meanwhile, which also shows that the outage has been lived through.
        let more = [
            Backend::ready("web-0", "10.50.4.1"),
            Backend::ready("web-9", "10.50.4.9"),
        ];
        victim
            .home
            .apply(&workload(victim.name, "web", &more))
            .await?;
        stream
            .wait_for_exactly(&[HOME, "10.50.4.9:8080", STAYS, GOES])
            .await;

        victim.cluster.start_apiserver().await?;
        victim.change().await?;
        stream
            .wait_for_exactly(&[HOME, "10.50.4.9:8080", STAYS, COMES])
            .await;
        stream.assert_kept_since(mark, &[HOME, STAYS]);
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn what_changed_behind_a_cut_is_noticed_even_when_history_is_gone() {
    run(async {
        let victim = Victim::start("compacted").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let mark = stream.mark();

        victim.network.refuse().await;
        victim.network.cut();
        victim.change().await?;
        victim.cluster.compact_etcd().await?;
        victim.network.heal().await;
        stream.wait_for_exactly(&[HOME, STAYS, COMES]).await;
        stream.assert_kept_since(mark, &[HOME, STAYS]);
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_frozen_api_server_holds_nobody_up_and_catches_up() {
    run(async {
        let victim = Victim::start("frozen").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;

        victim.cluster.freeze()?;
        // A new stream is answered from what is known.
        let other = victim.subscribe(&tributary);
        other.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        other.assert_one_message();
        victim.cluster.thaw()?;
        victim.change().await?;
        stream.wait_for_exactly(&[HOME, STAYS, COMES]).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_list_that_breaks_off_is_begun_again() {
    run(async {
        let victim = Victim::start_unlinked("breaking").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME]).await;

        victim.network.cut_after(4_000, 5);
        victim.link.store(victim.home).await?;
        let state = stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        // Never half-known: an endpoint that joins has its identity.
        let identity = "web.breaking.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(state.at(STAYS).identity(), Some(identity));
        assert_eq!(stream.messages().len(), 2, "{}", stream.report());
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_that_is_down_at_the_start_joins_when_it_is_up() {
    run(async {
        let victim = Victim::start("sleeping").await?;
        victim.cluster.kill_apiserver();
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME]).await;
        victim.cluster.start_apiserver().await?;
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn an_api_server_that_moves_is_followed_by_its_secret() {
    run(async {
        let victim = Victim::start("moving").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let mark = stream.mark();

        victim.cluster.move_apiserver().await?;
        // Another authority besides, so that address and trust change in one edit.
        victim.cluster.renew_certificates().await?;
        Link::to(&victim.cluster, victim.name)
            .await?
            .store(victim.home)
            .await?;
        victim.change().await?;
        stream.wait_for_exactly(&[HOME, STAYS, COMES]).await;
        stream.assert_kept_since(mark, &[HOME, STAYS]);
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn credentials_rotate_without_anyone_noticing() {
    run(async {
        let victim = Victim::start("rotating").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let mark = stream.mark();

        victim.cluster.revoke_tokens().await?;
        let mut link = victim.link.clone();
        link.access.credentials = victim.cluster.remote_certificate().await?;
        link.store(victim.home).await?;
        let token = Link::to(&victim.cluster, victim.name).await?;
        assert!(matches!(token.access.credentials, Credentials::Token(_)));
        token.store(victim.home).await?;
        victim.network.cut();

        victim.change().await?;
        stream.wait_for_exactly(&[HOME, STAYS, COMES]).await;
        stream.assert_kept_since(mark, &[HOME, STAYS]);
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn without_the_right_to_read_pods_endpoints_have_no_identity() {
    run(async {
        let victim = Victim::start_unlinked("podless").await?;
        victim.cluster.withdraw_pod_right().await?;
        victim.link.store(victim.home).await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        let state = stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        assert_eq!(state.at(STAYS).identity(), None);
        assert!(state.at(HOME).identity().is_some());

        victim.cluster.give_pod_right().await?;
        stream
            .wait_for("the identity of a Pod that may be read", |state| {
                state.is_exactly(&[HOME, STAYS, GOES]) && state.at(STAYS).identity().is_some()
            })
            .await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_restart_of_the_home_api_server_takes_nothing_away() {
    run(async {
        let home = Cluster::start("restarting").await?;
        home.define_linkerd_kinds().await?;
        let both = [
            Backend::ready("web-0", "10.50.5.1"),
            Backend::ready("web-1", "10.50.5.2"),
        ];
        home.apply(&workload("shop", "web", &both)).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream
            .wait_for_exactly(&["10.50.5.1:8080", "10.50.5.2:8080"])
            .await;
        let mark = stream.mark();

        home.compact_etcd().await?;
        home.apply(&slice("shop", "web", &both[..1])).await?;
        stream.wait_for_exactly(&["10.50.5.1:8080"]).await;
        let gone: SocketAddr = "10.50.5.2:8080".parse()?;
        assert_eq!(stream.messages_since(mark), [Message::Remove(vec![gone])]);
        assert!(tributary.terminate().await?.success());
        Ok(())
    });
}
