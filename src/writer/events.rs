//! What people are told at the Service itself: Events, each at most once in a while.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use super::plan::{Rejection, Report};
use super::requests::{FIELD_MANAGER, Requests};
use crate::model::{ServiceName, SliceName, Uid};

/// How long the same is not said again of one Service.
const REPEAT: Duration = Duration::from_mins(30);
/// Events that wait to be sent; more are dropped.
const QUEUE_MAX: usize = 256;
/// How long sending one may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters that the API allows in a note.
const NOTE_MAX: usize = 1024;

/// Reason of the Event that tells of a fight.
pub(super) const CONTESTED: &str = "Contested";

/// What is said of a slice that somebody else keeps changing.
pub(super) fn contested_note(slice: &SliceName) -> String {
    format!(
        "Somebody keeps changing EndpointSlice {}; it is left as it is for a while. Its managedFields say who.",
        slice.name
    )
}

/// Something to be said of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The Service.
    pub(super) service: ServiceName,
    /// Its uid.
    pub(super) uid: Uid,
    /// In one word, in the form of Kubernetes.
    pub(super) reason: &'static str,
    /// In a sentence.
    pub(super) note: String,
    /// Whether somebody should look at it.
    pub(super) is_warning: bool,
}

/// Says each thing once in a while.
#[derive(Debug)]
pub(super) struct Announcer {
    said: BTreeMap<(ServiceName, &'static str), (String, Instant)>,
    queue: mpsc::Sender<Notice>,
}

// === impl Announcer ===

impl Announcer {
    /// An announcer, and what has to be sent.
    pub(super) fn new() -> (Self, mpsc::Receiver<Notice>) {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let announcer = Self {
            said: BTreeMap::new(),
            queue,
        };
        (announcer, receiver)
    }

    /// Says it, unless it was said not long ago.
    pub(super) fn say(&mut self, notice: Notice, now: Instant) {
        let key = (notice.service.clone(), notice.reason);
        let is_old = self.said.get(&key).is_some_and(|(note, at)| {
            *note == notice.note && now.saturating_duration_since(*at) < REPEAT
        });
        if is_old {
            return;
        }
        self.said.insert(key, (notice.note.clone(), now));
        if self.queue.try_send(notice).is_err() {
            debug!("too many Events wait to be sent, one dropped");
        }
    }

    /// Whether this has been said of a Service before.
    pub(super) fn has_said(&self, service: &ServiceName, reason: &'static str) -> bool {
        self.said.contains_key(&(service.clone(), reason))
    }

    /// Forgets Services of which nothing has been said for long.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.said
            .retain(|_, (_, at)| now.saturating_duration_since(*at) < REPEAT);
    }
}

/// Sends what is in the queue, for ever. What cannot be sent is dropped: it is in the log and the metrics too.
pub(super) async fn send(requests: Requests, instance: String, mut queue: mpsc::Receiver<Notice>) {
    let reporter = Reporter {
        controller: format!("tributary.dev/{FIELD_MANAGER}"),
        instance: Some(instance),
    };
    while let Some(notice) = queue.recv().await {
        let Ok(client) = requests.client().await else {
            continue;
        };
        let recorder = Recorder::new(client, reporter.clone());
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(notice.service.namespace.to_string()),
            name: Some(notice.service.name.to_string()),
            uid: Some(notice.uid.to_string()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if notice.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: notice.reason.to_owned(),
            note: Some(notice.note.chars().take(NOTE_MAX).collect()),
            action: "WriteEndpointSlices".to_owned(),
            secondary: None,
        };
        let sent = tokio::time::timeout(SEND_TIMEOUT, recorder.publish(&event, &regarding)).await;
        if let Ok(Err(error)) = sent {
            debug!(service = %notice.service, reason = notice.reason, %error, "Event not sent");
        }
    }
}

// === impl Report ===

impl Report {
    /// What people are told of it: a reason in one word, and a sentence.
    pub fn announcement(&self) -> (&'static str, String) {
        match self {
            Self::NotEligible(reason) => (
                "NotEligible",
                format!("No EndpointSlices are written: {reason}."),
            ),
            Self::ForeignSlices(slices) => {
                let slices: Vec<_> = slices
                    .iter()
                    .map(|(name, manager)| match manager.as_str() {
                        "" => format!("{name} (managed by nobody)"),
                        manager => format!("{name} (managed by {manager})"),
                    })
                    .collect();
                let note = format!(
                    "EndpointSlices of others belong to this Service, so none are written: {}. Delete them, or the Endpoints \
                     object that they are made from.",
                    slices.join(", ")
                );
                ("ForeignSlices", note)
            }
            Self::PortNotExported(cluster) => (
                "PortNotExported",
                format!(
                    "The Service of cluster {cluster} has none of this Service's ports: compare their numbers and protocols."
                ),
            ),
            Self::Loop(cluster) => (
                "NotEligible",
                format!(
                    "The Service of cluster {cluster} is itself a mirror; its endpoints are not copied."
                ),
            ),
            Self::Twin(cluster, other) => (
                "ClusterLinkedTwice",
                format!(
                    "Cluster {cluster} is cluster {other} under another name; its endpoints are written once."
                ),
            ),
            Self::Rejected(cluster, reason, count, first) => (
                if *reason == Rejection::Overlap {
                    "OverlappingAddress"
                } else {
                    "AddressRejected"
                },
                format!(
                    "{count} endpoints of cluster {cluster} are not written, {first} for one: {}.",
                    reason.explain()
                ),
            ),
            Self::SliceSkipped(cluster, reason, slice) => (
                "SliceSkipped",
                format!(
                    "EndpointSlice {slice} of cluster {cluster} is not copied: {}.",
                    reason.explain()
                ),
            ),
            Self::Full(cluster) => (
                "TooManyEndpoints",
                format!(
                    "Cluster {cluster} has more endpoints than are written of one cluster; no more are added \
                     (--endpoint-slices-max-endpoints)."
                ),
            ),
            Self::Doubted(cluster) => (
                "ClusterIdentityChanged",
                format!(
                    "The cluster linked as {cluster} is another one than its EndpointSlices were copied from, and would lose most \
                     endpoints: nothing is removed. Check its credentials. If the cluster was replaced, delete the slices labelled \
                     multicluster.kubernetes.io/source-cluster={cluster}."
                ),
            ),
            Self::Neg => (
                "NegAnnotation",
                "The annotations of this Service ask GKE for container-native load balancing, which stops at the first endpoint \
                 without a node of this cluster: it would lose this cluster's endpoints too. Remove cloud.google.com/neg."
                    .to_owned(),
            ),
            Self::NameTaken(name) => (
                "NameTaken",
                format!(
                    "EndpointSlice {} belongs to somebody else; the copy gets another name.",
                    name.name
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_in_a_while() {
        let (mut announcer, mut queue) = Announcer::new();
        let notice = |note: &str| Notice {
            service: ServiceName::new("shop", "web"),
            uid: Uid::default(),
            reason: "ForeignSlices",
            note: note.to_owned(),
            is_warning: true,
        };
        let now = Instant::now();
        for (note, after) in [("a", 0), ("a", 60), ("b", 61), ("b", 1800), ("b", 1861)] {
            announcer.say(notice(note), now + Duration::from_secs(after));
        }
        drop(announcer);
        let mut said = Vec::new();
        while let Some(notice) = queue.blocking_recv() {
            said.push(notice.note);
        }
        assert_eq!(said, ["a", "b", "b"]);
    }
}
