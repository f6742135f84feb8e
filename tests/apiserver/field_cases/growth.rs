//! What grows with what: memory, views and metrics under many streams and much churn.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::{GetDestination, Update};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::Streaming;

use super::scene::{Entry, Scene, once_known, quiet_cluster};
use crate::support::cluster::Cluster;
use crate::support::objects::parse;
use crate::support::services::{Backend, authority, pod, service, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

/// Requests to an API server at once, where there are hundreds to make.
const REQUESTS_AT_ONCE: usize = 16;

/// What may be kept for one stream more that is told what another is told already.
const STREAM_KIB_MAX: u64 = 20;

/// Creates many objects of one kind.
async fn create_all(cluster: &Cluster, kind: &str, objects: Vec<DynamicObject>) -> Result<()> {
    let namespace = objects[0].metadata.namespace.clone().unwrap_or_default();
    cluster.ensure_namespace(&namespace).await?;
    let (api, parameters) = (
        &cluster.api(kind, &namespace).await?,
        &PostParams::default(),
    );
    stream::iter(&objects)
        .map(|object| async move { api.create(parameters, object).await.map(|_| ()) })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(())
}

async fn delete_all(
    cluster: &Cluster,
    kind: &str,
    namespace: &str,
    names: &[String],
) -> Result<()> {
    let api = &cluster.api(kind, namespace).await?;
    let parameters = &DeleteParams::default().grace_period(0);
    stream::iter(names)
        .map(|name| async move { api.delete(name, parameters).await.map(|_| ()) })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Opens streams on one connection and reads the first message of each.
async fn hold(
    tributary: &Tributary,
    authority: &str,
    count: usize,
) -> Result<Vec<Streaming<Update>>> {
    let client = DestinationClient::new(tributary.connect_lazy());
    stream::iter(0..count)
        .map(|index| {
            let mut client = client.clone();
            let request = GetDestination {
                path: authority.to_owned(),
                context_token: format!(r#"{{"ns":"a","nodeName":"node-{}"}}"#, index % 20),
                ..GetDestination::default()
            };
            async move {
                let mut updates = client.get(request).await?.into_inner();
                updates.message().await?;
                Ok(updates)
            }
        })
        .buffer_unordered(100)
        .try_collect()
        .await
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_04_streams_with_one_answer_share_it() {
    run(async {
        let scene = Scene::open("fc-prf-04").await?;
        let names: Vec<_> = (0..40)
            .map(|index| (format!("web-{index}"), format!("10.52.34.{index}")))
            .collect();
        let backends: Vec<_> = names
            .iter()
            .map(|(pod, ip)| Backend::ready(pod, ip))
            .collect();
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        let tributary = Tributary::start(&scene.bed.home, &[]).await?;
        let authority = authority(scene.namespace, "web");
        once_known(|| tributary.get(&authority)).await?;

        let few = hold(&tributary, &authority, 500).await?;
        let before = tributary.resident_kib()?;
        let more = hold(&tributary, &authority, 3000).await?;
        let after = tributary.resident_kib()?;
        assert!(tributary.metric("tributary_views").await? <= 2.0);
        let each = after.saturating_sub(before) / more.len() as u64;
        assert!(
            each < STREAM_KIB_MAX,
            "{each} KiB for each of {} streams more, {before} KiB before",
            more.len()
        );
        drop((few, more));
        tributary.until_metric("tributary_views", 0.0).await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_06_nothing_is_kept_of_pods_and_clients_that_are_gone() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-prf-06";
        home.apply(&service(namespace, "web")).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        let authority = authority(namespace, "web");
        let lasting = once_known(|| tributary.get(&authority)).await?;
        let services = tributary.metric("tributary_services").await?;

        for round in 0..15 {
            let names: Vec<_> = (0..5)
                .map(|index| {
                    (
                        format!("web-{round}-{index}"),
                        format!("10.52.{round}.{index}"),
                    )
                })
                .collect();
            let backends: Vec<_> = names
                .iter()
                .map(|(pod, ip)| Backend::ready(pod, ip))
                .collect();
            home.apply(&workload(namespace, "web", &backends)).await?;
            // A Service that comes and goes with its clients.
            let brief = format!("brief-{round}");
            home.apply(&service(namespace, &brief)).await?;
            let brief_authority = crate::support::services::authority(namespace, &brief);
            let waiting = once_known(|| tributary.get(&brief_authority)).await?;
            home.delete_object("Service", namespace, &brief).await?;
            let clients = hold(&tributary, &authority, 20).await?;
            let sockets: Vec<_> = names.iter().map(|(_, ip)| format!("{ip}:8080")).collect();
            let sockets: Vec<_> = sockets.iter().map(String::as_str).collect();
            lasting.wait_for_exactly(&sockets).await;
            drop((waiting, clients));
            let pods: Vec<_> = names.into_iter().map(|(pod, _)| pod).collect();
            delete_all(&home, "Pod", namespace, &pods).await?;
        }
        tributary
            .until_metric("tributary_destination_get_streams_open", 1.0)
            .await?;
        drop(lasting);
        tributary.until_metric("tributary_views", 0.0).await?;
        tributary.until_metric("tributary_services", services).await
    });
}

/// How many watches an API server serves, by resource.
async fn watches(cluster: &Cluster) -> Result<Vec<(&'static str, u64)>> {
    let request = ::http::Request::get("/metrics").body(Vec::new())?;
    let metrics = cluster.client().request_text(request).await?;
    let kinds = [
        "services",
        "endpointslices",
        "pods",
        "nodes",
        "replicasets",
        "jobs",
        "secrets",
    ];
    let count = |kind| {
        let resource = format!("resource=\"{kind}\"");
        let served = |line: &&str| {
            line.starts_with("apiserver_longrunning_requests{")
                && line.contains(&resource)
                && line.contains("verb=\"WATCH\"")
        };
        let counts = metrics.lines().filter(served).filter_map(|line| {
            let value = line.rsplit(' ').next()?;
            value.parse::<u64>().ok()
        });
        (kind, counts.sum())
    };
    Ok(kinds.map(count).into())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_07_only_what_is_used_is_kept_and_no_kind_is_watched_twice() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-prf-07";
        let before = watches(&home).await?;
        let tributary = Tributary::start(&home, &[]).await?;
        wait_for("one watch more for every kind", || async {
            let now = watches(&home).await.ok()?;
            // Of Secrets there are two selections that have nothing in common: links, and what was meant to be one. Of Pods there is
            // the metadata of the stock controller's few besides, whose version is in an annotation that is kept of no other Pod.
            let as_due = |((kind, before), (_, now)): (&(_, u64), &(_, u64))| {
                *now == before
                    + if ["secrets", "pods"].contains(kind) {
                        2
                    } else {
                        1
                    }
            };
            before.iter().zip(&now).all(as_due).then_some(())
        })
        .await?;

        let started = tributary.resident_kib()?;
        let padding = "x".repeat(200_000);
        let count = 150_usize;
        let padded = |kind: &str, version: &str, index: usize| {
            let spec = match kind {
                "Pod" => json!({"containers": [{"name": "app", "image": "app"}]}),
                _ => json!({
                    "replicas": 0,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "app", "image": "app"}]},
                    },
                }),
            };
            json!({
                "apiVersion": version,
                "kind": kind,
                "metadata": {
                    "name": format!("web-{index}"),
                    "namespace": namespace,
                    "annotations": {"padding": padding},
                },
                "spec": spec,
            })
            .to_string()
        };
        for (kind, version) in [("Pod", "v1"), ("ReplicaSet", "apps/v1")] {
            let objects: Vec<_> = (0..count)
                .map(|index| parse(&padded(kind, version, index)).map(|mut all| all.remove(0)))
                .collect::<Result<_>>()?;
            create_all(&home, kind, objects).await?;
        }
        let backends = [Backend::ready("last", "10.51.37.1")];
        home.apply(&workload(namespace, "web", &backends)).await?;
        let authority = authority(namespace, "web");
        let stream = once_known(|| tributary.get(&authority)).await?;
        let state = stream.wait_for_exactly(&["10.51.37.1:8080"]).await;
        assert!(state.at("10.51.37.1:8080").identity().is_some());
        let grown = tributary.resident_kib()?.saturating_sub(started);
        let padding_kib = (2 * count * padding.len() / 1024) as u64;
        assert!(
            grown < padding_kib / 3,
            "{grown} KiB more for objects with {padding_kib} KiB of what nobody needs"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_prf_09_no_label_of_a_metric_names_an_address_a_pod_or_a_client() {
    run(async {
        let scene = Scene::open("fc-prf-09").await?;
        let backends = [Backend::ready("web-0", "10.51.39.1")];
        scene
            .apply(&workload(scene.namespace, "web", &backends))
            .await?;
        let stream = scene.get("web").await?;
        stream.wait_for_exactly(&["10.51.39.1:8080"]).await;
        let missing = authority(scene.namespace, "missing");
        scene.tributary.get(&missing).wait_for_end().await;

        let metrics = scene.tributary.metrics().await?;
        let mut keys = BTreeSet::new();
        for line in metrics.lines().filter(|line| !line.starts_with('#')) {
            let labels = line
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'));
            for label in labels.map_or("", |(labels, _)| labels).split(',') {
                if let Some((key, _)) = label.split_once('=') {
                    keys.insert(key.to_owned());
                }
            }
            for name in ["10.51.39.1", "web-0", scene.namespace, "127.0.0.1"] {
                assert!(!line.contains(name), "{line}");
            }
        }
        let bounded = [
            "between",
            "client",
            "cluster",
            "code",
            "grpc_code",
            "grpc_method",
            "grpc_service",
            "grpc_type",
            "le",
            "method",
            "outcome",
            "reason",
            "resource",
            "warning",
        ];
        let bounded: BTreeSet<_> = bounded.map(str::to_owned).into();
        let others: Vec<_> = keys.difference(&bounded).collect();
        assert!(
            others.is_empty(),
            "labels that nobody has vouched for: {others:?}"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_01_a_hundred_and_eighty_pods_are_replaced_again_and_again() {
    run(async {
        let scene = Scene::open("fc-rel-01").await?;
        let (namespace, home) = (scene.namespace, &scene.bed.home);
        let count = 180_usize;
        let name = |round: usize, index: usize| format!("dns-{round}-{index}");
        let ip = |round: usize, index: usize| format!("10.53.{round}.{index}");
        let unmeshed = |round: usize, index: usize| {
            let text = pod(namespace, "dns", &name(round, index), &ip(round, index));
            let text = text.replace(", linkerd.io/control-plane-ns: linkerd", "");
            parse(&text).map(|mut all| all.remove(0))
        };
        // Those below `replaced` are of this round, the others of the one before.
        let slices = async |round: usize, replaced: usize| {
            for (slice, range) in [("dns-a", 0..100), ("dns-b", 100..count)] {
                let entry = |index| {
                    let round = if index < replaced { round } else { round - 1 };
                    Entry::pod(namespace, &name(round, index), &ip(round, index))
                };
                let entries: Vec<_> = range.map(entry).collect();
                scene.slice("dns", slice, &entries).await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        scene.apply(&service(namespace, "dns")).await?;
        let pods = (0..count)
            .map(|index| unmeshed(0, index))
            .collect::<Result<_>>()?;
        create_all(home, "Pod", pods).await?;
        slices(1, 0).await?;
        let authority = authority(namespace, "dns");
        let first = once_known(|| scene.tributary.get(&authority)).await?;
        let connection = scene.tributary.connect_lazy();
        let streams: Vec<_> = (0..20)
            .map(|_| scene.tributary.get_on(connection.clone(), &authority, ""))
            .chain([first])
            .collect();

        let rounds = 2;
        for round in 1..=rounds {
            let pods = (0..count)
                .map(|index| unmeshed(round, index))
                .collect::<Result<_>>()?;
            let old: Vec<_> = (0..count).map(|index| name(round - 1, index)).collect();
            // Slices, new Pods and old Pods change side by side, in no order at all.
            let rolling = async {
                for replaced in (0..=count).step_by(20) {
                    slices(round, replaced).await?;
                }
                Ok(())
            };
            let creating = create_all(home, "Pod", pods);
            let deleting = delete_all(home, "Pod", namespace, &old);
            futures::future::try_join3(creating, deleting, rolling).await?;
        }
        let wanted: Vec<_> = (0..count)
            .map(|index| format!("{}:8080", ip(rounds, index)))
            .collect();
        let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
        for stream in &streams {
            stream.wait_for_exactly(&wanted).await;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_07_coming_and_going_while_everything_changes() {
    run(async {
        let scene = Scene::open("fc-rel-07").await?;
        scene.apply(&service(scene.namespace, "web")).await?;
        let tributary = Tributary::start(&scene.bed.home, &[]).await?;
        let authority = authority(scene.namespace, "web");
        let lasting = once_known(|| tributary.get(&authority)).await?;
        let (connection, changes) = (tributary.connect_lazy(), 100_usize);
        let listed = |change: usize| {
            let ip = |index| format!("10.52.47.{}", (change + index) % 200);
            (0..10).map(ip).collect::<Vec<_>>()
        };

        let coming_and_going = async {
            for round in 0..20_usize {
                let mut clients = JoinSet::new();
                for index in 0..20_usize {
                    let token = format!(r#"{{"nodeName":"n{}"}}"#, index % 3);
                    let stream = tributary.get_on(connection.clone(), &authority, &token);
                    // Some leave before they are answered, some after.
                    if (index + round) % 3 > 0 {
                        clients.spawn(async move { stream.begun().await });
                    }
                }
                while let Some(left) = clients.join_next().await {
                    left?;
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        let changing = async {
            for change in 0..=changes {
                let entries: Vec<_> = listed(change).iter().map(|ip| Entry::at(ip)).collect();
                scene.slice("web", "s1", &entries).await?;
            }
            Ok(())
        };
        futures::future::try_join(coming_and_going, changing).await?;

        let last: Vec<_> = listed(changes)
            .iter()
            .map(|ip| format!("{ip}:8080"))
            .collect();
        let last: Vec<_> = last.iter().map(String::as_str).collect();
        lasting.wait_for_exactly(&last).await;
        tributary
            .until_metric("tributary_destination_get_streams_open", 1.0)
            .await?;
        drop(lasting);
        tributary.until_metric("tributary_views", 0.0).await?;
        tributary.ensure_running()
    });
}
