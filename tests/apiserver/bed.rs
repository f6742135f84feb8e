//! The test bed itself: what the other tests take for granted about it.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio_stream::StreamExt as _;

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::fault_proxy::FaultProxy;
use crate::support::kubeconfig::Credentials;
use crate::support::link::Link;
use crate::support::services::{Backend, node, pod, service, workload};
use crate::support::{run, wait_for};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_home_account_reads_and_does_no_more() {
    run(async {
        let bed = Bed::shared().await?;
        let client = bed.home.home_access().await?.client().await?;
        assert!(may_list::<Service>(&client).await?);
        assert!(may_list::<Pod>(&client).await?);
        assert!(may_list::<Node>(&client).await?);
        assert!(may_list::<EndpointSlice>(&client).await?);
        assert!(!may_list::<Secret>(&client).await?, "Secrets everywhere");
        let linkerd: Api<Secret> = Api::namespaced(client.clone(), "linkerd");
        linkerd.list(&ListParams::default()).await?;

        let services: Api<Service> = Api::namespaced(client, "default");
        let forbidden = services
            .create(&PostParams::default(), &Service::default())
            .await;
        assert_eq!(code(&forbidden), Some(403));
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_remote_account_has_the_rights_of_linkerds_chart() {
    run(async {
        let bed = Bed::shared().await?;
        let client = Link::to(&bed.east, "east").await?.access.client().await?;
        assert!(may_list::<Service>(&client).await?);
        assert!(may_list::<Pod>(&client).await?);
        assert!(may_list::<EndpointSlice>(&client).await?);
        assert!(!may_list::<Node>(&client).await?);
        assert!(!may_list::<Namespace>(&client).await?);
        assert!(!may_list::<Secret>(&client).await?);

        let certificate = bed.east.remote_certificate().await?;
        let client = bed.east.access(certificate).client().await?;
        assert!(may_list::<Pod>(&client).await?, "with a client certificate");
        assert!(!may_list::<Node>(&client).await?);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn objects_are_replaced_and_reset() {
    run(async {
        let cluster = Cluster::start("objects").await?;
        cluster.define_linkerd_kinds().await?;
        cluster.apply(&node("n0", "za")).await?;
        let web = workload("shop", "web", &[Backend::ready("web-0", "10.1.0.1")]);
        cluster.apply(&web).await?;
        cluster.apply(&web.replace("10.1.0.1", "10.1.0.2")).await?;
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "shop");
        let stored = pods.get("web-0").await?;
        assert_eq!(
            stored.status.and_then(|status| status.pod_ip),
            Some("10.1.0.2".to_owned())
        );

        // What cannot be changed in place is made anew.
        cluster
            .apply(&web.replace("nodeName: n0", "nodeName: n1"))
            .await?;
        assert_eq!(
            pods.get("web-0")
                .await?
                .spec
                .and_then(|spec| spec.node_name),
            Some("n1".to_owned())
        );

        cluster.terminate_pod("shop", "web-0").await?;
        assert!(
            pods.get("web-0")
                .await?
                .metadata
                .deletion_timestamp
                .is_some()
        );

        cluster.reset().await?;
        assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 0);
        let services: Api<Service> = Api::all(cluster.client());
        let left = services.list(&ListParams::default()).await?.items;
        assert_eq!(left.len(), 1, "only default/kubernetes stays");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn clusters_can_be_broken_in_many_ways() {
    run(async {
        let cluster = Cluster::start("broken").await?;
        cluster.apply(&service("shop", "web")).await?;
        let revision = revision(&cluster).await?;

        cluster.freeze()?;
        let client = cluster.client();
        let asking = may_list::<Pod>(&client);
        let answer = tokio::time::timeout(Duration::from_millis(300), asking).await;
        assert!(answer.is_err(), "a frozen API server says nothing");
        cluster.thaw()?;
        assert!(may_list::<Pod>(&client).await?);

        cluster.kill_apiserver();
        assert!(may_list::<Pod>(&client).await.is_err());
        cluster.start_apiserver().await?;
        assert!(may_list::<Pod>(&client).await?);

        cluster.apply(&service("shop", "api")).await?;
        cluster.compact_etcd().await?;
        assert_eq!(watch_from(&cluster, &revision).await?, Some(410));

        let before = cluster.address();
        cluster.move_apiserver().await?;
        assert_ne!(cluster.address(), before);
        assert!(may_list::<Pod>(&cluster.client()).await?);

        let old = cluster.client();
        cluster.renew_certificates().await?;
        assert!(may_list::<Pod>(&cluster.client()).await?);
        assert!(may_list::<Pod>(&old).await.is_err(), "another authority");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn rights_and_tokens_can_be_withdrawn() {
    run(async {
        let cluster = Cluster::start("rights").await?;
        let token = Credentials::Token(cluster.remote_token().await?);
        let client = cluster.access(token).client().await?;
        assert!(may_list::<Pod>(&client).await?);

        cluster.withdraw_pod_right().await?;
        until_listing_is(&client, Some(403)).await?;
        cluster.give_pod_right().await?;
        until_listing_is(&client, None).await?;

        cluster.revoke_tokens().await?;
        until_listing_is(&client, Some(401)).await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_network_can_be_bad() {
    run(async {
        let bed = Bed::shared().await?;
        let proxy = FaultProxy::start(bed.east.address()).await?;
        let link = Link::to(&bed.east, "east").await?.through(proxy.address());
        let client = link.access.client().await?;
        assert!(may_list::<Pod>(&client).await?);

        let pods: Api<Pod> = Api::namespaced(client.clone(), "nowhere");
        let watched = pods.watch(&WatchParams::default(), "0").await?;
        tokio::pin!(watched);
        proxy.cut();
        // Before it ends it may still deliver what was under way, such as a bookmark.
        let ended = async { while let Some(Ok(_)) = watched.next().await {} };
        let ended = tokio::time::timeout(Duration::from_mins(1), ended).await;
        assert!(ended.is_ok(), "a watch ends when it is cut");

        proxy.refuse().await;
        proxy.cut();
        assert!(may_list::<Pod>(&client).await.is_err());
        proxy.heal().await;
        // Not at once: a client may try a connection first that it has not yet noticed to be cut.
        until_listing_is(&client, None).await?;

        proxy.silence();
        let asking = may_list::<Pod>(&client);
        tokio::pin!(asking);
        let answer = tokio::time::timeout(Duration::from_millis(300), &mut asking).await;
        assert!(answer.is_err(), "nothing comes through");
        proxy.heal().await;
        assert!(asking.await?, "what was held back is delivered");

        proxy.slow_down();
        until_listing_is(&client, None).await?;

        // What is cut may be a connection that the client has given up already.
        wait_for("a list to be cut off", || async {
            proxy.cut_after(10, 1);
            may_list::<Pod>(&client).await.err()
        })
        .await?;
        until_listing_is(&client, None).await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn real_controllers_write_endpoint_slices() {
    run(async {
        let cluster = Cluster::start("controllers").await?;
        cluster.start_controller_manager()?;
        cluster.apply(&node("n0", "za")).await?;
        cluster.apply(&service("shop", "web")).await?;
        cluster
            .apply(&pod("shop", "web", "web-0", "10.1.0.1"))
            .await?;
        let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "shop");
        let found = wait_for("a slice with the Pod's address", || async {
            let list = slices.list(&ListParams::default()).await.ok()?;
            list.items
                .into_iter()
                .flat_map(|slice| slice.endpoints)
                .find(|endpoint| endpoint.addresses == ["10.1.0.1"])
        })
        .await?;
        assert_eq!(found.zone.as_deref(), Some("za"));

        cluster.terminate_pod("shop", "web-0").await?;
        wait_for("the slice to say that the Pod is terminating", || async {
            let list = slices.list(&ListParams::default()).await.ok()?;
            list.items
                .into_iter()
                .flat_map(|slice| slice.endpoints)
                .find(|endpoint| {
                    let conditions = endpoint.conditions.as_ref();
                    conditions.and_then(|conditions| conditions.terminating) == Some(true)
                })
        })
        .await?;
        Ok(())
    });
}

/// Whether a client may list a kind everywhere; an error if it was told anything but yes or no.
async fn may_list<K>(client: &Client) -> Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let answer = Api::<K>::all(client.clone())
        .list(&ListParams::default().limit(1))
        .await;
    if code(&answer) == Some(403) {
        return Ok(false);
    }
    answer?;
    Ok(true)
}

async fn until_listing_is(client: &Client, wanted: Option<u16>) -> Result<()> {
    let what = format!("listing Pods to be answered with {wanted:?}");
    wait_for(&what, || async {
        let answer = Api::<Pod>::all(client.clone())
            .list(&ListParams::default().limit(1))
            .await;
        (code(&answer) == wanted && (wanted.is_some() || answer.is_ok())).then_some(())
    })
    .await
}

fn code<T>(answer: &Result<T, kube::Error>) -> Option<u16> {
    match answer {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

async fn revision(cluster: &Cluster) -> Result<String> {
    let services: Api<Service> = Api::all(cluster.client());
    let list = services.list(&ListParams::default()).await?;
    list.metadata
        .resource_version
        .context("a list has a version")
}

/// The error code with which a watch from a version begins, if it does.
async fn watch_from(cluster: &Cluster, revision: &str) -> Result<Option<u16>> {
    let services: Api<Service> = Api::all(cluster.client());
    let watched = services.watch(&WatchParams::default(), revision).await;
    if watched.is_err() {
        return Ok(code(&watched.map(|_| ())));
    }
    let watched = watched?;
    tokio::pin!(watched);
    Ok(match watched.next().await {
        Some(Ok(WatchEvent::Error(status))) => Some(status.code),
        _ => None,
    })
}
