//! A bad network between the product and a linked cluster that is well, while streams are open.

use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use crate::support::services::{Backend, authority, workload};
use crate::support::subscription::{Message, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{note, run};
use crate::victim::{
    COMES, GOES, HOME, HOME_ALONE, HOME_COMES, SILENT_HEALING, STAYS, Victim, log_line_with, stays,
};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn connections_that_are_reset_are_made_anew() {
    run(async {
        let victim = Victim::shared("resetting").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        victim.network.refuse().await;
        victim.network.cut();
        log_line_with(&tributary, &["cluster unreachable", "cluster=resetting"]).await?;
        victim.change().await?;
        victim.network.heal().await;
        streams.heal("connections cut by RST", Instant::now()).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_25_a_connection_that_has_silently_died_is_noticed() {
    run(async {
        let victim = Victim::shared("stranded").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        victim.network.strand();
        let healed = Instant::now();
        victim.change().await?;
        streams
            .heal_within(
                SILENT_HEALING,
                "connections dead without a packet",
                healed,
                HOME_ALONE,
            )
            .await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_network_that_drops_everything_for_long_is_noticed_and_left() {
    run(async {
        let victim = Victim::shared("silent").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        victim.network.silence();
        victim.change().await?;
        let silent = ["cluster unreachable", "cluster=silent", "no sign of life"];
        log_line_with(&tributary, &silent).await?;
        // FC-REL-18: how old what is served is, everybody can see.
        let metrics = tributary.metrics().await?;
        let age = metrics.lines().find_map(|line| {
            line.strip_prefix("tributary_cluster_age_seconds{cluster=\"silent\"} ")
        });
        let age: f64 = age.expect("an age").parse().expect("a number");
        assert!(age > 10.0, "nothing was heard since the silence: {age}");
        // What was sent into the void stays there.
        victim.network.strand();
        victim.network.heal().await;
        streams
            .heal_within(
                SILENT_HEALING,
                "network silent for longer than a watch lasts",
                Instant::now(),
                HOME_ALONE,
            )
            .await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_slow_link_is_followed_and_holds_nobody_up() {
    run(async {
        let victim = Victim::shared_unlinked("slow").await?;
        victim.network.slow_down();
        victim.link.store(victim.home).await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        // Home is told at once, although the slow one had its turn before.
        let before = streams.federated.mark();
        victim.change().await?;
        victim.change_home().await?;
        streams
            .federated
            .wait_for("the change at home", |state| {
                state.addresses().contains(&address(HOME_COMES))
            })
            .await;
        let first = streams.federated.messages_since(before);
        assert!(
            matches!(&first[0], Message::Add(added) if *added == [address(HOME_COMES)]),
            "{first:?}"
        );
        victim.network.heal().await;
        streams
            .heal_within(
                Duration::from_secs(5),
                "every chunk half a second late",
                Instant::now(),
                &[HOME, HOME_COMES],
            )
            .await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_17_a_cluster_that_is_out_of_reach_at_the_start_keeps_nobody_waiting() {
    run(async {
        let victim = Victim::shared_unlinked("unreachable").await?;
        victim.network.silence();
        victim.link.store(victim.home).await?;
        // Ready without it, which this waits for.
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME]).await;
        stream.assert_one_message();
        // FC-REL-19: home is as fresh as ever.
        victim.change_home().await?;
        stream.wait_for_exactly(&[HOME, HOME_COMES]).await;
        let mark = stream.mark();

        // FC-MIS-29: nobody is told that there is nothing where nothing is known.
        let flat = victim.subscribe_flat(&tributary);
        let Outcome::Failed(code, why) = flat.wait_for_end().await else {
            panic!("an answer without knowing: {}", flat.report());
        };
        assert_eq!(code, Code::Unavailable, "{why}");
        assert!(flat.messages().is_empty(), "{}", flat.report());

        victim.change().await?;
        victim.network.strand();
        victim.network.heal().await;
        let healed = Instant::now();
        stream
            .wait_for_exactly(&[HOME, HOME_COMES, STAYS, COMES])
            .await;
        stream.assert_kept_since(mark, &[HOME, HOME_COMES]);
        note(&format!(
            "linked cluster silent at the start: healed after {:.1} s (due: 60 s)",
            healed.elapsed().as_secs_f64()
        ));
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_30_pods_that_went_during_an_outage_go_at_its_end_and_not_before() {
    run(async {
        let victim = Victim::shared_unlinked("deleting").await?;
        let names: Vec<String> = (0..10).map(|number| format!("many-{number}")).collect();
        let ips: Vec<String> = (0..10).map(|number| format!("10.92.0.{number}")).collect();
        let mut pods: Vec<_> = names
            .iter()
            .zip(&ips)
            .map(|(name, ip)| Backend::ready(name, ip))
            .collect();
        pods.insert(0, stays());
        victim
            .cluster
            .apply(&workload(victim.name, "web", &pods))
            .await?;
        victim.link.store(victim.home).await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = tributary.get(&authority(victim.name, "web-deleting"));
        stream
            .wait_for("eleven endpoints", |state| state.endpoints.len() == 11)
            .await;
        let mark = stream.mark();

        victim.network.refuse().await;
        victim.network.cut();
        log_line_with(&tributary, &["cluster unreachable", "cluster=deleting"]).await?;
        for name in &names {
            victim
                .cluster
                .delete_object("Pod", victim.name, name)
                .await?;
        }
        victim
            .cluster
            .apply(&workload(victim.name, "web", &pods[..1]))
            .await?;
        assert!(
            stream.messages_since(mark).is_empty(),
            "nothing is known yet"
        );
        victim.network.heal().await;
        let healed = Instant::now();
        // FC-MIS-34 asks for the same.
        stream.wait_for_exactly(&[STAYS]).await;
        stream.assert_kept_since(mark, &[STAYS]);
        note(&format!(
            "ten Pods deleted during an outage: gone after {:.1} s (due: 5 s)",
            healed.elapsed().as_secs_f64()
        ));
        assert!(!stream.now().addresses().contains(&address(GOES)));
        victim.leave().await
    });
}

fn address(text: &str) -> std::net::SocketAddr {
    text.parse().expect("an address")
}
