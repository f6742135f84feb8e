//! API servers that fail, change behind our back, or take rights away, while streams are open.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::support::cluster::Cluster;
use crate::support::fault_proxy::FaultProxy;
use crate::support::services::{Backend, authority, pod, slice, workload};
use crate::support::subscription::Message;
use crate::support::tributary::Tributary;
use crate::support::{note, run};
use crate::victim::{COMES, GOES, HOME, HOME_COMES, STAYS, Victim, log_line_with, stays};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_18_a_crash_of_a_linked_api_server_takes_nothing_away() {
    run(async {
        let victim = Victim::start("crashing").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.cluster.kill_apiserver();
        log_line_with(&tributary, &["cluster unreachable", "cluster=crashing"]).await?;
        // Home goes on meanwhile.
        victim.change_home().await?;
        let federated = &streams.federated;
        federated
            .wait_for_exactly(&[HOME, HOME_COMES, STAYS, GOES])
            .await;

        victim.cluster.start_apiserver().await?;
        let healed = Instant::now();
        victim.change().await?;
        streams
            .heal_within(
                Duration::from_secs(5),
                "API server killed and restarted",
                healed,
                &[HOME, HOME_COMES],
            )
            .await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_26_what_changed_behind_a_cut_is_noticed_even_when_history_is_gone() {
    run(async {
        let victim = Victim::start("compacted").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.network.refuse().await;
        victim.network.cut();
        victim.change().await?;
        victim.cluster.compact_etcd().await?;
        victim.network.heal().await;
        streams.heal("history compacted", Instant::now()).await;
        let metrics = tributary.metrics().await?;
        let counted = metrics
            .lines()
            .any(|line| line.contains("\"compacted\"") && line.contains("\"expired\""));
        assert!(counted, "{metrics}");
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_frozen_api_server_holds_nobody_up_and_catches_up() {
    run(async {
        let victim = Victim::start("frozen").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.cluster.freeze()?;
        // A new stream is answered from what is known.
        let other = victim.subscribe(&tributary);
        other.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        other.assert_one_message();
        // Longer than any watch lasts.
        let silent = ["cluster unreachable", "cluster=frozen", "no sign of life"];
        log_line_with(&tributary, &silent).await?;
        victim.cluster.thaw()?;
        let healed = Instant::now();
        victim.change().await?;
        streams.heal("API server frozen and thawed", healed).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_list_that_breaks_off_is_begun_again() {
    run(async {
        let victim = Victim::start_unlinked("breaking").await?;
        // So that a list has a middle to be cut in.
        let bulk: String = (1..=40)
            .map(|number| pod("bulk", "bulk", &format!("bulk-{number}"), "10.91.0.1"))
            .collect();
        victim.cluster.apply(&bulk).await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME]).await;

        victim.network.cut_after(16_000, 5);
        victim.link.store(victim.home).await?;
        let state = stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        // Never half-known: an endpoint that joins has its identity.
        let identity = "web.breaking.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(state.at(STAYS).identity(), Some(identity));
        assert_eq!(stream.messages().len(), 2, "{}", stream.report());

        // Under open streams, after a loss of history, it is the same.
        let streams = victim.streams(&tributary).await;
        victim.network.refuse().await;
        victim.network.cut();
        victim.change().await?;
        victim.cluster.compact_etcd().await?;
        victim.network.cut_after(16_000, 4);
        streams.heal("relist cut four times", Instant::now()).await;
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
        let healed = Instant::now();
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let took = healed.elapsed().as_secs_f64();
        note(&format!(
            "API server down at the start: healed after {took:.1} s (due: 5 s)"
        ));
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
fn the_right_to_read_pods_is_withdrawn_and_given_back() {
    run(async {
        let victim = Victim::start("blinded").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.cluster.withdraw_pod_right().await?;
        // A watch that is open goes on; the next one is refused.
        victim.network.cut();
        log_line_with(&tributary, &["not allowed to list", "cluster=blinded"]).await?;
        victim.change().await?;
        let state = streams
            .federated
            .wait_for_exactly(&[HOME, STAYS, COMES])
            .await;
        assert_eq!(state.at(COMES).identity(), None);
        assert!(
            state.at(STAYS).identity().is_some(),
            "what was known of a Pod stays"
        );

        victim.cluster.give_pod_right().await?;
        streams
            .heal("right to Pods withdrawn and given back", Instant::now())
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
        let all = ["10.50.5.1:8080", "10.50.5.2:8080"];
        stream.wait_for_exactly(&all).await;
        let mark = stream.mark();

        home.kill_apiserver();
        log_line_with(&tributary, &["cluster unreachable", "cluster=home"]).await?;
        for _ in 0..3 {
            let late = tributary.get(&authority("shop", "web"));
            late.wait_for_exactly(&all).await;
            late.assert_one_message();
        }
        tributary.until_ready().await?;

        // Starts it again, without a past.
        home.compact_etcd().await?;
        let healed = Instant::now();
        home.apply(&slice("shop", "web", &both[..1])).await?;
        stream.wait_for_exactly(&all[..1]).await;
        let took = healed.elapsed().as_secs_f64();
        note(&format!(
            "home API server down: healed after {took:.1} s (due: 5 s)"
        ));
        let gone: SocketAddr = all[1].parse()?;
        assert_eq!(stream.messages_since(mark), [Message::Remove(vec![gone])]);
        assert!(tributary.terminate().await?.success());
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_35_an_api_server_that_lags_brings_nothing_back() {
    run(async {
        let victim = Victim::start("lagging").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        let etcd = FaultProxy::start(victim.cluster.etcd()).await?;
        let (laggard, _process) = victim
            .cluster
            .start_second_apiserver(etcd.address())
            .await?;
        etcd.silence();
        victim.change().await?;
        let federated = &streams.federated;
        federated.wait_for_exactly(&[HOME, STAYS, COMES]).await;
        let mark = federated.mark();

        // A watch that goes on there hears nothing until the server has caught up. What lists anew, as a new session does,
        // must not be content with what that server knows.
        victim.network.redirect(laggard);
        victim.network.cut();
        let mut link = victim.link.clone();
        link.access.credentials = victim.cluster.remote_certificate().await?;
        link.store(victim.home).await?;
        log_line_with(&tributary, &["cluster unreachable", "cluster=lagging"]).await?;
        // Home goes on, which also shows that time has passed.
        victim.change_home().await?;
        federated
            .wait_for_exactly(&[HOME, HOME_COMES, STAYS, COMES])
            .await;
        // It sees everything again, and so do we.
        etcd.heal().await;
        let healed = Instant::now();
        victim
            .cluster
            .apply(&workload(victim.name, "web", &[stays()]))
            .await?;
        federated.wait_for_exactly(&[HOME, HOME_COMES, STAYS]).await;
        let took = healed.elapsed().as_secs_f64();
        note(&format!(
            "lagging API server caught up: healed after {took:.1} s"
        ));
        streams.assert_kept();
        let back: SocketAddr = GOES.parse()?;
        let returned = federated
            .messages_since(mark)
            .iter()
            .any(|message| matches!(message, Message::Add(added) if added.contains(&back)));
        assert!(!returned, "{}", federated.report());
        victim.leave().await
    });
}
