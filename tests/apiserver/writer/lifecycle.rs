//! Deletion of what copies belong to, removal of all of them, and rights that come and go. Real controllers clean up.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::scene::{Pair, Scene, one_ready};
use super::{HOME, WRITE_RIGHTS, copies, versions, wait_for_copies, writer};
use crate::support::cluster::Cluster;
use crate::support::link::{link, unlink};
use crate::support::services::{Backend, flat_mirror, slice, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn copies_go_with_their_service_and_come_back_with_it() {
    run(async {
        let [home, east] = Pair::with_controllers(["writer-gc-home", "writer-gc-east"]).await?;
        let namespace = "shop";
        let mirror = flat_mirror(namespace, "web", "east");
        let web = [Backend::ready("web-0", "10.60.51.1")];
        east.apply(&workload(namespace, "web", &web)).await?;
        home.apply(&mirror).await?;
        let tributary = writer(&home, namespace, &[]).await?;
        let line = one_ready("10.60.51.1");
        let first = wait_for_copies(&tributary, &home, namespace, &line).await?;

        // In the background, in the foreground, and orphaned: then nobody but us removes them.
        let services: Api<Service> = Api::namespaced(home.client(), namespace);
        for policy in [
            DeleteParams::background(),
            DeleteParams::foreground(),
            DeleteParams::orphan(),
        ] {
            services.delete("web-east", &policy).await?;
            wait_for_copies(&tributary, &home, namespace, "").await?;
            wait_for("the Service to be gone", || async {
                services
                    .get_opt("web-east")
                    .await
                    .ok()?
                    .is_none()
                    .then_some(())
            })
            .await?;
            home.apply(&mirror).await?;
            let again = wait_for_copies(&tributary, &home, namespace, &line).await?;
            let uid = |copies: &std::collections::BTreeMap<
                _,
                k8s_openapi::api::discovery::v1::EndpointSlice,
            >| {
                let owners = copies
                    .values()
                    .next()
                    .and_then(|copy| copy.metadata.owner_references.clone());
                owners
                    .and_then(|owners| owners.into_iter().next())
                    .map(|owner| owner.uid)
            };
            assert_ne!(uid(&first), uid(&again));
        }

        // Without the collector, the copy is taken over by the Service of the same name.
        home.stop_controller_manager();
        services
            .delete("web-east", &DeleteParams::background())
            .await?;
        home.apply(&mirror).await?;
        let owner = services.get("web-east").await?.metadata.uid;
        wait_for("the copy to belong to the new Service", || async {
            let copies = copies(&home, namespace).await.ok()?;
            let owners = copies.values().next()?.metadata.owner_references.clone()?;
            owners
                .iter()
                .any(|reference| Some(&reference.uid) == owner.as_ref())
                .then_some(())
        })
        .await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn copies_go_with_their_namespace_and_come_back_with_it() {
    run(async {
        let [home, east] =
            Pair::with_controllers(["writer-namespace-home", "writer-namespace-east"]).await?;
        let namespace = "shop";
        let mirror = flat_mirror(namespace, "web", "east");
        let web = [Backend::ready("web-0", "10.60.51.1")];
        east.apply(&workload(namespace, "web", &web)).await?;
        home.apply(&mirror).await?;
        let tributary = writer(&home, namespace, &[]).await?;
        let line = one_ready("10.60.51.1");
        wait_for_copies(&tributary, &home, namespace, &line).await?;

        // The namespace goes, held open for a while, and comes back.
        let hold = "{apiVersion: v1, kind: ConfigMap, metadata: {name: hold, namespace: shop, finalizers: [test.example/hold]}}";
        home.apply(hold).await?;
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(home.client());
        namespaces
            .delete(namespace, &DeleteParams::default())
            .await?;
        east.apply(&slice(
            namespace,
            "web",
            &[Backend::ready("web-0", "10.60.51.2")],
        ))
        .await?;
        wait_for_copies(&tributary, &home, namespace, "").await?;
        home.patch(
            "ConfigMap",
            namespace,
            "hold",
            json!({"metadata": {"finalizers": null}}),
        )
        .await?;
        wait_for("the namespace to be gone", || async {
            namespaces
                .get_opt(namespace)
                .await
                .ok()?
                .is_none()
                .then_some(())
        })
        .await?;
        home.forget_namespace(namespace);
        home.apply(&mirror).await?;
        let line = one_ready("10.60.51.2");
        wait_for_copies(&tributary, &home, namespace, &line).await?;
        assert_eq!(tributary.logs_containing("panicked").len(), 0);
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn turned_off_nothing_is_touched_and_remove_leaves_only_what_is_others() {
    run(async {
        let scene =
            Scene::mirror("writer-remove", &[Backend::ready("web-0", "10.60.52.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let stranger = slice(namespace, "plain", &[Backend::ready("x", "10.50.52.1")]);
        bed.home.apply(&stranger).await?;
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.52.1");
        scene.until(&tributary, &line).await?;
        tributary.terminate().await?;

        let off = Tributary::start(&bed.home, &[]).await?;
        off.log_line("nobody keeps them").await?;
        scene.until(&off, &line).await?;
        off.terminate().await?;

        let name = format!("--cluster-name={HOME}");
        let removing = Tributary::start(&bed.home, &["--endpoint-slices=remove", &name]).await?;
        scene.until(&removing, "").await?;
        removing
            .until_metric("tributary_writer_leftover_slices", 0.0)
            .await?;
        removing.terminate().await?;
        let slices: Api<k8s_openapi::api::discovery::v1::EndpointSlice> =
            Api::namespaced(bed.home.client(), namespace);
        assert!(slices.get_opt("plain-s1").await?.is_some());
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_right_that_was_taken_away_and_given_back_heals() {
    run(async {
        let scene =
            Scene::mirror("writer-rights", &[Backend::ready("web-0", "10.60.53.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = |last: u8| {
            format!("web-east from east: http=8080 | 10.60.53.{last} ready serving zone:za")
        };
        scene.until(&tributary, &line(1)).await?;
        let withheld = WRITE_RIGHTS.replace("create, patch, delete]", "get]");
        assert_ne!(withheld, WRITE_RIGHTS);
        bed.home.apply(&withheld).await?;
        let mut last = 1;
        // Rights are withdrawn a moment after they are changed.
        while tributary
            .logs_containing("not allowed to write EndpointSlices")
            .is_empty()
        {
            last += 1;
            let ip = format!("10.60.53.{last}");
            let backend = [Backend::ready("web-0", &ip)];
            scene.list(&backend).await?;
            wait_for("the change to be written or refused", || async {
                let written = scene.copies().await.ok()?;
                let done = super::describe(&written) == line(last)
                    || !tributary
                        .logs_containing("not allowed to write EndpointSlices")
                        .is_empty();
                done.then_some(())
            })
            .await?;
        }
        bed.home.apply(WRITE_RIGHTS).await?;
        // At the latest when it is tried again at the slowest rate, or when something else changes.
        last += 1;
        let ip = format!("10.60.53.{last}");
        let backend = [Backend::ready("web-0", &ip)];
        scene.list(&backend).await?;
        super::wait_long_for_copies(&tributary, &bed.home, namespace, &line(last)).await?;
        assert!(tributary.ensure_running().is_ok());
        tributary.terminate().await?;
        Ok(())
    });
}

/// One of the ways in which it can end.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The link is cut.
    Unlink,
    /// The mirror is deleted.
    DeleteMirror,
    /// The writer is told to remove everything, and to write nothing any more.
    TurnOff,
    /// Everything is removed from outside, and then the rights are.
    Uninstall,
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn in_whatever_order_it_ends_nothing_of_ours_is_left_and_nothing_of_others_touched() {
    run(async {
        let names = ["writer-ends-home", "writer-ends-east"];
        let [home, east] = Pair::with_controllers(names).await?;
        let namespace = "shop";
        let web = [Backend::ready("web-0", "10.60.79.1")];
        east.apply(&workload(namespace, "web", &web)).await?;
        let strangers = ["plain", "web-east-too"].map(|service| {
            let slice = slice(namespace, service, &[Backend::ready("x", "10.50.79.1")]);
            slice.replace("endpointslice-controller.k8s.io", "somebody.example")
        });
        home.apply(&strangers.concat()).await?;
        let all = || async { anyhow::Ok(versions(&super::slices(&home, namespace, "").await?)) };
        let before = all().await?;
        assert_eq!(before.len(), 2);
        let mirror = flat_mirror(namespace, "web", "east");
        for order in [
            [End::Unlink, End::DeleteMirror, End::TurnOff],
            [End::Unlink, End::TurnOff, End::DeleteMirror],
            [End::DeleteMirror, End::Unlink, End::Uninstall],
            [End::DeleteMirror, End::TurnOff, End::Unlink],
            [End::TurnOff, End::Unlink, End::DeleteMirror],
            [End::Uninstall, End::DeleteMirror, End::Unlink],
        ] {
            link(&home, &east, "east").await?;
            home.apply(&mirror).await?;
            let mut tributary = Some(writer(&home, namespace, &[]).await?);
            let running = tributary.as_ref().unwrap();
            wait_for_copies(running, &home, namespace, &one_ready("10.60.79.1")).await?;
            for end in order {
                end.come(&home, namespace, &mut tributary).await?;
            }
            wait_for(&format!("nothing to be left after {order:?}"), || async {
                (all().await.ok()? == before).then_some(())
            })
            .await?;
            if let Some(running) = tributary {
                running.terminate().await?;
            }
        }
        Ok(())
    });
}

impl End {
    async fn come(
        self,
        home: &Cluster,
        namespace: &str,
        tributary: &mut Option<Tributary>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Unlink => unlink(home, "east").await,
            Self::DeleteMirror => home.delete(&flat_mirror(namespace, "web", "east")).await,
            Self::TurnOff => {
                if let Some(running) = tributary.take() {
                    running.terminate().await?;
                }
                let removing = writer(home, namespace, &["--endpoint-slices=remove"]).await?;
                removing
                    .until_metric("tributary_writer_leader", 1.0)
                    .await?;
                wait_for_copies(&removing, home, namespace, "").await?;
                removing.terminate().await?;
                Ok(())
            }
            Self::Uninstall => {
                if let Some(running) = tributary.take() {
                    running.terminate().await?;
                }
                let access = home.home_access().await?;
                let kubeconfig = home.write_file("uninstall.kubeconfig", &access.to_yaml())?;
                let cleaned = super::commands::command(&kubeconfig, &["cleanup", "--yes"]).await?;
                assert_eq!(cleaned.status.code(), Some(0), "{cleaned:?}");
                home.delete(WRITE_RIGHTS).await
            }
        }
    }
}
