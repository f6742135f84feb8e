//! Each right to write, taken away.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use tokio::sync::{Mutex, MutexGuard};

use super::world::until_series;
use super::{Grant, Right};
use crate::support::bed::Bed;
use crate::support::rbac::CONTROL_PLANE_NAMESPACE;
use crate::support::services::{Backend, flat_mirror, slice, workload};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::tools::read;

const OURS: &str = "endpointslice.kubernetes.io/managed-by=endpointslice-writer.tributary.dev";

/// What is lost without a right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// No copy can be made.
    Copies,
    /// Copies that nobody needs stay.
    Removal,
    /// Nothing is said at the Service.
    Events,
    /// Nobody leads, so nobody writes.
    Leadership,
}

const RIGHTS: [(&str, &str, Lost); 8] = [
    ("nothing", "", Lost::Nothing),
    ("endpointslices", "create", Lost::Copies),
    ("endpointslices", "patch", Lost::Copies),
    ("endpointslices", "delete", Lost::Removal),
    ("events", "create", Lost::Events),
    ("leases", "create", Lost::Leadership),
    ("leases", "get", Lost::Leadership),
    ("leases", "update", Lost::Leadership),
];

/// There is one Lease in the shared home cluster, so tests that write there take turns.
pub(super) async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

async fn copies(bed: &Bed, namespace: &str) -> Result<BTreeSet<String>> {
    let api: Api<EndpointSlice> = Api::namespaced(bed.home.client(), namespace);
    let list = api.list(&ListParams::default().labels(OURS)).await?;
    Ok(list
        .items
        .into_iter()
        .filter_map(|slice| slice.metadata.name)
        .collect())
}

async fn events(bed: &Bed, namespace: &str) -> Result<usize> {
    let api: Api<Event> = Api::namespaced(bed.home.client(), namespace);
    let list = api.list(&ListParams::default()).await?;
    Ok(list
        .items
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ForeignSlices"))
        .count())
}

async fn until_copies(
    bed: &Bed,
    tributary: &Tributary,
    namespace: &str,
    wanted: usize,
) -> Result<()> {
    wait_for(&format!("{wanted} copies in {namespace}"), || async {
        (copies(bed, namespace).await.ok()?.len() == wanted).then_some(())
    })
    .await
    .map_err(|error| error.context(tributary.log_tail(30)))
}

async fn check(
    bed: &Bed,
    manifests: &[&str],
    (resource, verb, lost): (&str, &str, Lost),
) -> Result<()> {
    let name = format!(
        "writing-{resource}{}{verb}",
        if verb.is_empty() { "" } else { "-" }
    );
    let namespace = name.as_str();
    bed.home
        .delete_object(
            "Lease",
            CONTROL_PLANE_NAMESPACE,
            "tributary-endpointslice-writer",
        )
        .await?;
    let web = [Backend::ready("web-0", "10.60.82.1")];
    for service in ["web", "api"] {
        bed.east.apply(&workload(namespace, service, &web)).await?;
        bed.home
            .apply(&flat_mirror(namespace, service, "east"))
            .await?;
    }
    // Of somebody else, which the writer leaves alone, and says so.
    bed.home.apply(&slice(namespace, "api-east", &web)).await?;

    let grant = Grant::of(manifests, CONTROL_PLANE_NAMESPACE, namespace)?;
    // The right to read slices is another role's.
    let access = grant
        .without(resource, Some(&[verb]))
        .apply(&bed.home)
        .await?;
    let kubeconfig = bed
        .home
        .write_file(&format!("{namespace}.kubeconfig"), &access.to_yaml())?;
    let only = format!("--endpoint-slices-namespaces={namespace}");
    let tributary = Tributary::launch(
        &kubeconfig,
        &[
            "--endpoint-slices=on",
            "--cluster-name=hub",
            "--endpoint-slices-batch=50ms",
            "--endpoint-slices-unlink-grace=3s",
            "--log-level=debug",
            &only,
        ],
    )?;
    tributary.until_ready().await?;
    let refused = |verb: &str| {
        format!("tributary_writer_actions_total{{verb=\"{verb}\",result=\"forbidden\"}}")
    };
    match lost {
        Lost::Leadership => {
            tributary
                .log_line("the Lease cannot be renewed or taken")
                .await?;
            tributary
                .until_metric("tributary_writer_leader", 0.0)
                .await?;
        }
        Lost::Copies => {
            until_series(&tributary, &refused("apply"), |count| count >= 1.0).await?;
            assert_eq!(
                copies(bed, namespace).await?,
                BTreeSet::new(),
                "{namespace}"
            );
        }
        Lost::Nothing | Lost::Removal | Lost::Events => {
            until_copies(bed, &tributary, namespace, 1).await?;
            if lost == Lost::Events {
                tributary.log_line("Event not sent").await?;
                assert_eq!(events(bed, namespace).await?, 0);
            } else {
                wait_for("an Event", || async {
                    (events(bed, namespace).await.ok()? > 0).then_some(())
                })
                .await?;
            }
            bed.home
                .delete_object("Service", namespace, "web-east")
                .await?;
            if lost == Lost::Removal {
                until_series(&tributary, &refused("delete"), |count| count >= 1.0).await?;
                assert_eq!(copies(bed, namespace).await?.len(), 1);
            } else {
                until_copies(bed, &tributary, namespace, 0).await?;
            }
        }
    }
    tributary.terminate().await?;
    let left: Api<EndpointSlice> = Api::namespaced(bed.home.client(), namespace);
    left.delete_collection(
        &DeleteParams::default(),
        &ListParams::default().labels(OURS),
    )
    .await?;
    Ok(())
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn without_a_right_to_write_what_it_is_for_is_lost_and_nothing_else() {
    run(async {
        let bed = Bed::shared().await?;
        let _turn = turn().await;
        let manifests = [
            read("deploy/rbac-read.yaml")?,
            read("deploy/rbac-write.yaml")?,
        ];
        let manifests = manifests.each_ref().map(String::as_str);
        let granted = Grant::of(&manifests[1..], "linkerd", "x")?.rights();
        let granted: BTreeSet<_> = granted
            .into_iter()
            .map(|(_, resource, _, verb): Right| (resource, verb))
            .collect();
        let rows = RIGHTS.iter().skip(1);
        let tested = rows
            .map(|(resource, verb, _)| ((*resource).to_owned(), (*verb).to_owned()))
            .collect();
        assert_eq!(granted, tested, "each right has a row");
        for row in RIGHTS {
            check(bed, &manifests, row).await?;
        }
        Ok(())
    });
}
