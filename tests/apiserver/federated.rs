//! Federated Services: the union of one Service over clusters.

use std::net::SocketAddr;

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::link::{link, unlink};
use crate::support::run;
use crate::support::services::{
    Backend, Condition, Local, authority, federated, flat_mirror, slice, workload,
};
use crate::support::subscription::Message;
use crate::support::tributary::Tributary;

/// The Service `web` in all three clusters, and its federated Service in the home cluster.
async fn web_everywhere(bed: &Bed, namespace: &str) -> anyhow::Result<()> {
    let home = [Backend::ready("web-0", "10.50.2.1")];
    let east = [
        Backend::ready("web-0", "10.60.2.1"),
        Backend::ready("web-1", "10.60.2.2"),
    ];
    let north = [Backend::ready("web-0", "10.70.2.1")];
    bed.home.apply(&workload(namespace, "web", &home)).await?;
    bed.east.apply(&workload(namespace, "web", &east)).await?;
    bed.north.apply(&workload(namespace, "web", &north)).await?;
    let service = federated(namespace, "web", Local::Member, &["east", "north"]);
    bed.home.apply(&service).await
}

/// Where [`web_everywhere`] is.
const EVERYWHERE: [&str; 4] = [
    "10.50.2.1:8080",
    "10.60.2.1:8080",
    "10.60.2.2:8080",
    "10.70.2.1:8080",
];

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_first_message_is_the_union_of_all_clusters() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "federated-first";
        web_everywhere(bed, namespace).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        // Until both linked clusters are synced; then a new stream has everything at once.
        let first = tributary.get(&authority(namespace, "web-federated"));
        first.wait_for_exactly(&EVERYWHERE).await;

        let stream = tributary.get(&authority(namespace, "web-federated"));
        let state = stream.wait_for_exactly(&EVERYWHERE).await;
        stream.assert_one_message();
        let east = state.at("10.60.2.1:8080");
        let identity = "web.federated-first.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(east.identity(), Some(identity));
        assert_eq!(east.label("target_cluster"), Some("east"));
        assert_eq!(east.label("service"), Some("web"));
        assert_eq!(east.weight(), 10_000);
        let north = state.at("10.70.2.1:8080");
        assert_eq!(north.label("target_cluster"), Some("north"));
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_remote_pods_life_is_one_minimal_update_at_a_time() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "federated-life";
        web_everywhere(bed, namespace).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        stream.wait_for_exactly(&EVERYWHERE).await;

        let pod = Backend::ready("web-1", "10.60.2.2");
        let address: SocketAddr = "10.60.2.2:8080".parse()?;
        let others = [EVERYWHERE[0], EVERYWHERE[1], EVERYWHERE[3]];
        let other = Backend::ready("web-0", "10.60.2.1");
        let begin = stream.mark();
        for condition in [Condition::Unready, Condition::Terminating] {
            let mark = stream.mark();
            let backends = [other, pod.condition(condition)];
            bed.east.apply(&slice(namespace, "web", &backends)).await?;
            stream.wait_for_exactly(&others).await;
            assert_eq!(
                stream.messages_since(mark),
                [Message::Remove(vec![address])]
            );

            let mark = stream.mark();
            bed.east
                .apply(&slice(namespace, "web", &[other, pod]))
                .await?;
            stream.wait_for_exactly(&EVERYWHERE).await;
            assert_eq!(stream.messages_since(mark), [Message::Add(vec![address])]);
        }

        let mark = stream.mark();
        bed.east.delete_object("Pod", namespace, "web-1").await?;
        bed.east.apply(&slice(namespace, "web", &[other])).await?;
        stream.wait_for_exactly(&others).await;
        assert_eq!(
            stream.messages_since(mark),
            [Message::Remove(vec![address])]
        );
        stream.assert_kept_since(begin, &others);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn members_come_and_go_while_the_stream_is_open() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "federated-members";
        web_everywhere(bed, namespace).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        stream.wait_for_exactly(&EVERYWHERE).await;
        let mark = stream.mark();

        let without_north = federated(namespace, "web", Local::Member, &["east"]);
        bed.home.apply(&without_north).await?;
        stream.wait_for_exactly(&EVERYWHERE[..3]).await;

        let without_home = federated(namespace, "web", Local::Absent, &["east"]);
        bed.home.apply(&without_home).await?;
        stream.wait_for_exactly(&EVERYWHERE[1..3]).await;

        let all = federated(namespace, "web", Local::Member, &["north", "east"]);
        bed.home.apply(&all).await?;
        stream.wait_for_exactly(&EVERYWHERE).await;
        stream.assert_kept_since(mark, &EVERYWHERE[1..3]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_cluster_that_is_linked_later_joins_open_streams_and_leaves_them() {
    run(async {
        let bed = Bed::shared().await?;
        let south = Cluster::start("south").await?;
        south.define_linkerd_kinds().await?;
        let namespace = "federated-late";
        let home = [Backend::ready("web-0", "10.50.2.1")];
        let late = [Backend::ready("web-0", "10.80.2.1")];
        bed.home.apply(&workload(namespace, "web", &home)).await?;
        south.apply(&workload(namespace, "web", &late)).await?;
        let service = federated(namespace, "web", Local::Member, &["south"]);
        bed.home.apply(&service).await?;

        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        stream.wait_for_exactly(&["10.50.2.1:8080"]).await;
        let mark = stream.mark();

        link(&bed.home, &south, "south").await?;
        stream
            .wait_for_exactly(&["10.50.2.1:8080", "10.80.2.1:8080"])
            .await;
        unlink(&bed.home, "south").await?;
        stream.wait_for_exactly(&["10.50.2.1:8080"]).await;
        stream.assert_kept_since(mark, &["10.50.2.1:8080"]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_mirror_and_a_federated_service_of_the_same_service_agree() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "federated-mirror";
        web_everywhere(bed, namespace).await?;
        let mirror = flat_mirror(namespace, "web", "east");
        bed.home.apply(&mirror).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let federated = tributary.get(&authority(namespace, "web-federated"));
        let flat = tributary.get(&authority(namespace, "web-east"));
        let all = federated.wait_for_exactly(&EVERYWHERE).await;
        let east = flat.wait_for_exactly(&EVERYWHERE[1..3]).await;
        assert_eq!(all.at(EVERYWHERE[1]), east.at(EVERYWHERE[1]));
        Ok(())
    });
}
