//! Links that come and go while streams are open, and clusters that claim the same address.

use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use crate::support::bed::Bed;
use crate::support::link::unlink;
use crate::support::services::{Backend, Local, authority, federated, slice, workload};
use crate::support::subscription::{Folded, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{note, run};
use crate::victim::{GOES, HOME, STAYS, Victim, log_line_with};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_28_unlinking_takes_a_clusters_endpoints_from_every_stream_and_no_others() {
    run(async {
        let victim = Victim::shared("leaving").await?;
        let other = Victim::shared("remaining").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        let again = victim.subscribe(&tributary);
        again.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        let others = other.streams(&tributary).await;
        let quiet = (others.federated.mark(), others.flat.mark());

        for round in ["unlinked", "unlinked again"] {
            let mark = streams.federated.mark();
            let unlinked = Instant::now();
            unlink(victim.home, victim.name).await?;
            for stream in [&streams.federated, &again] {
                stream
                    .wait_within(Duration::from_secs(8), round, |state| {
                        state.is_exactly(&[HOME])
                    })
                    .await;
            }
            streams
                .flat
                .wait_within(Duration::from_secs(8), round, Folded::is_empty)
                .await;
            note(&format!(
                "{round}: gone after {:.1} s (due: 2 s)",
                unlinked.elapsed().as_secs_f64()
            ));
            assert_eq!(
                streams.federated.messages_since(mark).len(),
                1,
                "one removal: {}",
                streams.federated.report()
            );

            // The same streams have it again as soon as it is linked again.
            let linked = Instant::now();
            victim.link.store(victim.home).await?;
            streams
                .federated
                .wait_for_exactly(&[HOME, STAYS, GOES])
                .await;
            streams.flat.wait_for_exactly(&[STAYS, GOES]).await;
            note(&format!(
                "linked again: there after {:.1} s (due: 5 s)",
                linked.elapsed().as_secs_f64()
            ));
        }
        let disturbed = [
            others.federated.messages_since(quiet.0),
            others.flat.messages_since(quiet.1),
        ];
        assert!(disturbed.iter().all(Vec::is_empty), "{disturbed:?}");
        victim.leave().await?;
        other.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_that_is_linked_late_joins_both_kinds_of_streams() {
    run(async {
        let victim = Victim::shared_unlinked("late").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let federated = victim.subscribe(&tributary);
        federated.wait_for_exactly(&[HOME]).await;
        // What leads nowhere is told so, and asks again.
        let early = victim.subscribe_flat(&tributary);
        let refused = early.wait_for_end().await;
        assert!(
            matches!(refused, Outcome::Failed(Code::NotFound, _)),
            "{refused:?}"
        );

        let linked = Instant::now();
        victim.link.store(victim.home).await?;
        let flat = victim.flat_when_known(&tributary).await?;
        flat.wait_for_exactly(&[STAYS, GOES]).await;
        federated.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        note(&format!(
            "linked late: there after {:.1} s (due: 5 s)",
            linked.elapsed().as_secs_f64()
        ));
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn an_address_that_several_clusters_claim_is_the_first_ones_as_long_as_any_has_it() {
    const SHARED: &str = "10.55.0.1:8080";
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "same-address";
        let backend = [Backend::ready("web-0", "10.55.0.1")];
        for cluster in bed.clusters() {
            cluster.apply(&workload(namespace, "web", &backend)).await?;
        }
        let service = federated(namespace, "web", Local::Member, &["north", "east"]);
        bed.home.apply(&service).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        let of = async |cluster: &str| {
            stream
                .wait_for(&format!("{SHARED} of {cluster}"), |state| {
                    state.is_exactly(&[SHARED])
                        && state.at(SHARED).label("target_cluster") == Some(cluster)
                })
                .await;
        };
        let home = cluster_label(&*stream.wait_for_exactly(&[SHARED]).await);
        let claims = "two clusters claim one address";
        for loser in ["ignoring=east", "ignoring=north"] {
            let line = log_line_with(&tributary, &[claims, loser]).await?;
            assert!(
                line.contains("address=10.55.0.1:8080 serving=home"),
                "{line}"
            );
        }
        // Another client of the same kind is no news.
        let other = tributary.get(&authority(namespace, "web-federated"));
        other.wait_for_exactly(&[SHARED]).await;
        let lines = tributary.logs_containing(claims);
        assert_eq!(lines.len(), 2, "one for each loser: {lines:?}");
        let mark = stream.mark();

        bed.home.apply(&slice(namespace, "web", &[])).await?;
        of("east").await;
        bed.east.apply(&slice(namespace, "web", &[])).await?;
        of("north").await;
        bed.east.apply(&slice(namespace, "web", &backend)).await?;
        of("east").await;
        stream.assert_kept_since(mark, &[SHARED]);
        bed.home.apply(&slice(namespace, "web", &backend)).await?;
        stream
            .wait_for("home again", |state| {
                state.is_exactly(&[SHARED]) && cluster_label(state) == home
            })
            .await;
        stream.assert_kept_since(mark, &[SHARED]);

        log_line_with(&tributary, &[claims, "serving=east ignoring=north"]).await?;

        bed.home.apply(&slice(namespace, "web", &[])).await?;
        bed.east.apply(&slice(namespace, "web", &[])).await?;
        bed.north.apply(&slice(namespace, "web", &[])).await?;
        stream.wait_for("nothing", Folded::is_empty).await;
        Ok(())
    });
}

/// The cluster of the first endpoint, as its labels have it.
fn cluster_label(state: &Folded) -> Option<String> {
    let endpoint = state.endpoints.values().next()?;
    endpoint.label("target_cluster").map(str::to_owned)
}
