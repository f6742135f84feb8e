//! What the writer watches for itself: its own copies, and whether Linkerd's destination controller runs in the home cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::copy::Existing;
use super::encode::decode;
use super::requests::{Requests, managed_by};

/// Labels of the Pods of Linkerd's destination controller, and of ours where we took their place.
pub(super) const DESTINATION_PODS: &str = "linkerd.io/control-plane-component=destination";
/// The annotation of Pods that are ours.
const OURS: &str = "tributary.dev/destination";
/// Between attempts, where the server is away or refuses.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// What the watch of copies tells.
#[derive(Debug)]
pub(super) enum CopyEvent {
    /// A list begins.
    ListStarted,
    /// The list has this.
    Listed(Box<Existing>),
    /// The list is complete.
    ListEnded,
    /// A copy was made or changed.
    Applied(Box<Existing>),
    /// A copy is gone.
    Deleted(Box<Existing>),
}

/// Whether Linkerd's own destination controller runs in the home cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StockDestination {
    /// Not known, so perhaps.
    Unknown,
    /// It does.
    Runs,
    /// It does not.
    Absent,
}

/// Tells of every slice that has this manager, for ever.
pub(super) async fn slices(
    requests: Requests,
    manager: &'static str,
    events: mpsc::Sender<CopyEvent>,
) {
    let mut trouble = Trouble::default();
    loop {
        let client = match requests.client().await {
            Ok(client) => client,
            Err(error) => {
                trouble.note("EndpointSlices", &error.to_string());
                sleep(RETRY).await;
                continue;
            }
        };
        let config = watcher::Config::default().labels(&managed_by(manager));
        let mut watched = watcher(Api::<EndpointSlice>::all(client), config).boxed();
        while let Some(event) = watched.next().await {
            let told = match event {
                Ok(Event::Init) => Some(CopyEvent::ListStarted),
                Ok(Event::InitApply(slice)) => boxed(&slice).map(CopyEvent::Listed),
                Ok(Event::InitDone) => Some(CopyEvent::ListEnded),
                Ok(Event::Apply(slice)) => boxed(&slice).map(CopyEvent::Applied),
                Ok(Event::Delete(slice)) => boxed(&slice).map(CopyEvent::Deleted),
                Err(error) => {
                    trouble.note("EndpointSlices", &error.to_string());
                    if is_refused(&error) {
                        requests.refresh();
                        break;
                    }
                    sleep(RETRY).await;
                    continue;
                }
            };
            trouble.clear();
            if let Some(told) = told
                && events.send(told).await.is_err()
            {
                return;
            }
        }
        sleep(RETRY).await;
    }
}

fn boxed(slice: &EndpointSlice) -> Option<Box<Existing>> {
    decode(slice).map(Box::new)
}

/// Tells whether Pods of Linkerd's destination controller are there that are not ours, for ever.
pub(super) async fn stock_destination(
    requests: Requests,
    namespace: String,
    runs: watch::Sender<StockDestination>,
) {
    let mut trouble = Trouble::default();
    loop {
        if let Ok(client) = requests.client().await {
            let api = Api::<PartialObjectMeta<Pod>>::namespaced(client, &namespace);
            let config = watcher::Config::default().labels(DESTINATION_PODS);
            let mut watched = watcher(api, config).boxed();
            let mut pods: BTreeMap<String, bool> = BTreeMap::new();
            let mut listed = false;
            loop {
                match watched.try_next().await {
                    Ok(Some(Event::Init)) => pods.clear(),
                    Ok(Some(Event::InitApply(pod) | Event::Apply(pod))) => {
                        let (name, is_ours) = described(&pod);
                        pods.insert(name, is_ours);
                    }
                    Ok(Some(Event::Delete(pod))) => {
                        pods.remove(&described(&pod).0);
                    }
                    Ok(Some(Event::InitDone)) => listed = true,
                    Ok(None) => break,
                    Err(error) => {
                        trouble.note("Pods", &error.to_string());
                        if is_refused(&error) {
                            requests.refresh();
                            break;
                        }
                        sleep(RETRY).await;
                        continue;
                    }
                }
                trouble.clear();
                if listed {
                    let known = if pods.values().all(|is_ours| *is_ours) {
                        StockDestination::Absent
                    } else {
                        StockDestination::Runs
                    };
                    runs.send_if_modified(|before| std::mem::replace(before, known) != known);
                }
            }
        }
        // What may have changed in the meantime is not known.
        runs.send_if_modified(|before| {
            std::mem::replace(before, StockDestination::Unknown) != StockDestination::Unknown
        });
        sleep(RETRY).await;
    }
}

fn described(pod: &PartialObjectMeta<Pod>) -> (String, bool) {
    (pod.metadata.name.clone().unwrap_or_default(), is_ours(pod))
}

/// Whether a Pod of the destination service is one of ours.
pub(super) fn is_ours(pod: &PartialObjectMeta<Pod>) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(OURS))
}

/// Whether the server has refused us: the credentials may be old.
pub(super) fn is_refused(error: &watcher::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
            return matches!(status.code, 401 | 403);
        }
        cause = error.source();
    }
    false
}

/// Says once what stands in the way, until it is gone.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    told: bool,
}

// === impl Trouble ===

impl Trouble {
    pub(super) fn note(&mut self, resource: &'static str, error: &str) {
        if std::mem::replace(&mut self.told, true) {
            debug!(
                resource,
                error, "EndpointSlice writer cannot watch, trying on"
            );
        } else {
            warn!(
                resource,
                error, "EndpointSlice writer cannot watch, trying on"
            );
        }
    }

    pub(super) fn clear(&mut self) {
        self.told = false;
    }
}
