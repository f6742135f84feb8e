//! What strangers do to our slices, and what is theirs.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::scene::{Scene, one_ready};
use super::{applies, versions};
use crate::support::services::{Backend, flat_mirror, service, slice, workload};
use crate::support::{run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_29_edits_of_strangers_are_undone_and_what_is_theirs_is_left() {
    run(async {
        let scene = Scene::mirror("writer-edits", &[Backend::ready("web-0", "10.60.45.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.45.1");
        let written = scene.until(&tributary, &line).await?;
        let name = written.keys().next().unwrap().clone();
        let api: Api<EndpointSlice> = Api::namespaced(bed.home.client(), namespace);
        let stranger = PatchParams {
            field_manager: Some("stranger".to_owned()),
            ..PatchParams::default()
        };
        let edit = |patch: serde_json::Value| {
            let (api, name, stranger) = (api.clone(), name.clone(), stranger.clone());
            async move { api.patch(&name, &stranger, &Patch::Merge(patch)).await }
        };

        edit(json!({"metadata": {"labels": {"stranger": "yes"}, "annotations": {"stranger": "yes"}}})).await?;
        edit(json!({"endpoints": [{"addresses": ["10.66.6.6"]}]})).await?;
        scene.until(&tributary, &line).await?;
        edit(json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": null}}}))
            .await?;
        let put_right = wait_for("the label to come back", || async {
            let slice = api.get(&name).await.ok()?;
            let labels = slice.metadata.labels.clone()?;
            labels
                .contains_key("service.kubernetes.io/service-proxy-name")
                .then_some(slice)
        })
        .await?;
        let metadata = put_right.metadata;
        assert_eq!(
            metadata.labels.unwrap().get("stranger").map(String::as_str),
            Some("yes")
        );
        assert_eq!(
            metadata
                .annotations
                .unwrap()
                .get("stranger")
                .map(String::as_str),
            Some("yes")
        );

        // Deleted, it comes back; unlabelled, it is found again.
        api.delete(&name, &kube::api::DeleteParams::default())
            .await?;
        scene.until(&tributary, &line).await?;
        edit(json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": null}}}))
            .await?;
        scene.until(&tributary, &line).await?;
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_strangers_slice_on_our_name_stays_as_it_is() {
    run(async {
        let scene = Scene::mirror(
            "writer-name-taken",
            &[Backend::ready("web-0", "10.60.46.1")],
        )
        .await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.46.1");
        let written = scene.until(&tributary, &line).await?;
        let name = written.keys().next().unwrap().clone();
        tributary.terminate().await?;

        bed.home
            .delete_object("EndpointSlice", namespace, &name)
            .await?;
        let theirs = slice(namespace, "other", &[Backend::ready("x", "10.50.46.9")])
            .replace("name: other-s1", &format!("name: {name}"));
        bed.home.apply(&theirs).await?;
        let api: Api<EndpointSlice> = Api::namespaced(bed.home.client(), namespace);
        let before = api.get(&name).await?;
        let tributary = scene.writer(&[]).await?;
        let written = scene.until(&tributary, &line).await?;
        assert!(!written.contains_key(&name));
        let after = api.get(&name).await?;
        assert_eq!(
            before.metadata.resource_version,
            after.metadata.resource_version
        );
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn slices_of_others_stop_the_writer_until_they_are_gone() {
    run(async {
        let scene =
            Scene::mirror("writer-foreign", &[Backend::ready("web-0", "10.60.47.1")]).await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let tributary = scene.writer(&[]).await?;
        let line = one_ready("10.60.47.1");
        scene.until(&tributary, &line).await?;
        let foreign = slice(namespace, "web-east", &[Backend::ready("x", "10.50.47.1")]);
        bed.home.apply(&foreign).await?;
        wait_for("an Event that names the slice", || async {
            let events: Api<k8s_openapi::api::events::v1::Event> =
                Api::namespaced(bed.home.client(), namespace);
            let events = events.list(&kube::api::ListParams::default()).await.ok()?;
            events.items.into_iter().find(|event| {
                event.reason.as_deref() == Some("ForeignSlices")
                    && event
                        .note
                        .as_deref()
                        .is_some_and(|note| note.contains("web-east-s1"))
            })
        })
        .await?;
        scene.until(&tributary, "").await?;
        bed.home.delete(&foreign).await?;
        scene.until(&tributary, &line).await?;
        // An ordinary Service of the same namespace has nothing to do with all this.
        bed.home.apply(&service(namespace, "plain")).await?;
        assert_eq!(scene.copies().await?.len(), 1);
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_restart_writes_nothing() {
    run(async {
        let scene = Scene::empty("writer-restart").await?;
        let (bed, namespace) = (scene.bed, scene.namespace);
        let mut expected = Vec::new();
        for number in 0..12 {
            let (name, ip) = (
                format!("web{number:02}"),
                format!("10.60.48.{}", number + 1),
            );
            bed.east
                .apply(&workload(namespace, &name, &[Backend::ready(&name, &ip)]))
                .await?;
            bed.home
                .apply(&flat_mirror(namespace, &name, "east"))
                .await?;
            expected.push(format!(
                "{name}-east from east: http=8080 | {ip} ready serving zone:za"
            ));
        }
        let expected = expected.join("\n");
        let tributary = scene.writer(&[]).await?;
        let before = scene.until(&tributary, &expected).await?;
        tributary.terminate().await?;
        let asked = applies(&bed.home).await?;

        let tributary = scene.writer(&[]).await?;
        // It leads, has read everything, and has looked at every Service.
        tributary
            .until_metric("tributary_writer_leader", 1.0)
            .await?;
        let looked = || async {
            let count = tributary
                .metric("tributary_writer_plan_seconds_count")
                .await
                .ok()?;
            let waiting = tributary
                .metric("tributary_writer_queue_services")
                .await
                .ok()?;
            let synced = tributary.metrics().await.ok()?;
            let synced = synced
                .contains("tributary_writer_member_state{cluster=\"east\",state=\"synced\"} 1");
            (count >= 12.0 && waiting < 0.5 && synced).then_some(())
        };
        wait_for("every Service to be looked at", looked).await?;
        assert_eq!(versions(&before), versions(&scene.copies().await?));
        assert!(
            (applies(&bed.home).await? - asked).abs() < 0.5,
            "nothing is even asked for"
        );
        tributary.terminate().await?;
        Ok(())
    });
}
