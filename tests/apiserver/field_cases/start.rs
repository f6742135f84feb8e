//! Starts: what is answered before everything is known, and what a client is told when it comes back.

use anyhow::Result;
use tonic::Code;

use super::scene::Scene;
use crate::support::fault_proxy::FaultProxy;
use crate::support::link::{Link, unlink};
use crate::support::services::{Backend, Local, authority, federated, slice, workload};
use crate::support::subscription::{Folded, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{http, run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_25_a_client_that_comes_back_is_told_that_nothing_is_left() {
    run(async {
        let scene = Scene::open("fc-mis-25").await?;
        let backends = [Backend::ready("web-0", "10.51.25.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        let broken = scene.get("web").await?;
        broken.wait_for_exactly(&["10.51.25.1:8080"]).await;
        let watching = scene.get("web").await?;
        drop(broken);

        scene.apply(&slice(scene.namespace, "web", &[])).await?;
        watching.wait_for("an empty answer", Folded::is_empty).await;
        let back = scene.get("web").await?;
        let state = back.wait_for("an empty answer", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));
        back.assert_one_message();

        // Of a Service whose slices are all gone, the same is said.
        scene.delete_slice("web-s1").await?;
        let back = scene.get("web").await?;
        let state = back.wait_for("an empty answer", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));
        Ok(())
    });
}

/// A cluster that is away at first, and gone from the bed when this value is.
async fn link_through(scene: &Scene, network: &FaultProxy, name: &str) -> Result<()> {
    let link = Link::to(&scene.bed.north, name).await?;
    link.through(network.address()).store(&scene.bed.home).await
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_26_the_first_add_is_every_cluster_that_is_known() {
    run(async {
        let scene = Scene::open("fc-mis-26").await?;
        let namespace = scene.namespace;
        let home = [Backend::ready("web-0", "10.51.26.1")];
        let east = [Backend::ready("web-0", "10.61.26.1")];
        let north = [Backend::ready("web-0", "10.71.26.1")];
        let away = [Backend::ready("far-0", "10.81.26.1")];
        scene.apply(&workload(namespace, "web", &home)).await?;
        let bed = scene.bed;
        bed.east.apply(&workload(namespace, "web", &east)).await?;
        bed.north.apply(&workload(namespace, "web", &north)).await?;
        bed.north.apply(&workload(namespace, "far", &away)).await?;
        let members = federated(namespace, "web", Local::Member, &["east", "north"]);
        let members = members.replace("web@north", "web@north,far@fc-mis-26-away");
        scene.apply(&members).await?;

        let network = FaultProxy::start(bed.north.address()).await?;
        network.refuse().await;
        link_through(&scene, &network, "fc-mis-26-away").await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;
        let reached = ["10.51.26.1:8080", "10.61.26.1:8080", "10.71.26.1:8080"];
        let first = tributary.get(&authority(namespace, "web-federated"));
        first.wait_for_exactly(&reached).await;

        // The cluster that is away has been waited for already: whoever comes back has the others in one message.
        let back = tributary.get(&authority(namespace, "web-federated"));
        back.wait_for_exactly(&reached).await;
        back.assert_one_message();
        network.heal().await;
        let all = [reached[0], reached[1], reached[2], "10.81.26.1:8080"];
        back.wait_for_exactly(&all).await;
        let last = tributary.get(&authority(namespace, "web-federated"));
        last.wait_for_exactly(&all).await;
        last.assert_one_message();
        unlink(&bed.home, "fc-mis-26-away").await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_15_alive_at_once_and_ready_when_the_home_cluster_is_read() {
    run(async {
        let scene = Scene::open("fc-rel-15").await?;
        let backends = [Backend::ready("web-0", "10.51.55.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        scene.apply(&workload(scene.namespace, "idle", &[])).await?;
        let home = &scene.bed.home;
        let network = FaultProxy::start(home.address()).await?;
        network.silence();
        let mut access = home.home_access().await?;
        access.server = format!("https://{}", network.address());
        let kubeconfig = home.write_file("fc-rel-15.kubeconfig", &access.to_yaml())?;
        let tributary = Tributary::launch(&kubeconfig, &["--startup-grace", "100ms"])?;

        let live = wait_for("a sign of life", || async {
            http::get(tributary.admin(), "/live").await.ok()
        });
        assert_eq!(live.await?.status, 200);
        let ready = http::get(tributary.admin(), "/ready").await?;
        assert_eq!(ready.status, 503);
        assert!(ready.body.contains("cluster home"), "{}", ready.body);
        for service in ["web", "idle", "missing"] {
            let early = tributary.get(&authority(scene.namespace, service));
            let Outcome::Failed(code, message) = early.wait_for_end().await else {
                panic!("an error was due\n{}", early.report());
            };
            assert_eq!(code, Code::Unavailable, "{service}: {message}");
            assert!(early.messages().is_empty());
        }

        // One that still waits can be ended, too.
        let waiting = Tributary::launch(&kubeconfig, &[])?;
        waiting.log_line("admin server listening").await?;
        assert!(waiting.terminate().await?.success());

        network.heal().await;
        tributary.until_ready().await?;
        let web = tributary.get(&authority(scene.namespace, "web"));
        web.wait_for_exactly(&["10.51.55.1:8080"]).await;
        let idle = tributary.get(&authority(scene.namespace, "idle"));
        let state = idle.wait_for("an empty answer", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));
        Ok(())
    });
}
