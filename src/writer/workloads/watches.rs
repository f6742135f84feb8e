//! What is watched for slices that list ExternalWorkloads: Services and ExternalWorkloads of the home cluster.
//!
//! The index keeps of Services neither selectors nor labels, of which every one has some; so they are watched by whoever writes
//! these slices, and by nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::requests::Requests;
use super::super::watches::{CopyEvent, RETRY, Trouble, is_refused};
use super::facts::{Selecting, Workload};
use crate::model::{Namespace, ServiceName, Text};

/// What the watches tell.
#[derive(Debug)]
pub(super) enum Told {
    /// Of slices.
    Slice(CopyEvent),
    /// Of Services that select workloads.
    Service(Seen<ServiceName, Selecting>),
    /// Of ExternalWorkloads, by namespace and name.
    Workload(Seen<WorkloadName, Workload>),
}

/// Namespace and name of an ExternalWorkload.
pub(super) type WorkloadName = (Namespace, Text);

/// What a watch tells of one kind of object.
#[derive(Debug)]
pub(super) enum Seen<K, V> {
    /// A list begins.
    ListStarted,
    /// The list has this; `None` for what does not matter here.
    Listed(K, Option<V>),
    /// The list is complete.
    ListEnded,
    /// The object is this now.
    Now(K, Option<V>),
}

/// Objects of one kind, as a watch has told. A list counts when it is complete.
#[derive(Debug)]
pub(super) struct Known<K, V> {
    by_name: BTreeMap<K, V>,
    staged: Option<BTreeMap<K, V>>,
    is_listed: bool,
}

/// Tells of every Service, for ever.
pub(super) async fn services(requests: Requests, told: mpsc::Sender<Told>) {
    let every = |client| Api::<Service>::all(client);
    follow(
        requests,
        "Services",
        every,
        told,
        |service| {
            let metadata = &service.metadata;
            let name = ServiceName::new(metadata.namespace.as_deref()?, metadata.name.as_deref()?);
            Some((name, Selecting::of(service)))
        },
        Told::Service,
    )
    .await;
}

/// Tells of every ExternalWorkload, for ever.
pub(super) async fn workloads(requests: Requests, told: mpsc::Sender<Told>) {
    let kind = GroupVersionKind::gvk("workload.linkerd.io", "v1beta1", "ExternalWorkload");
    let resource = ApiResource::from_gvk(&kind);
    let every = move |client| Api::<DynamicObject>::all_with(client, &resource);
    follow(
        requests,
        "ExternalWorkloads",
        every,
        told,
        |object| {
            let metadata = &object.metadata;
            let name = (
                metadata.namespace.as_deref()?.into(),
                metadata.name.as_deref()?.into(),
            );
            Some((name, Workload::of(object)))
        },
        Told::Workload,
    )
    .await;
}

async fn follow<O, K, V>(
    requests: Requests,
    what: &'static str,
    every: impl Fn(kube::Client) -> Api<O>,
    told: mpsc::Sender<Told>,
    facts: impl Fn(&O) -> Option<(K, Option<V>)>,
    wrap: impl Fn(Seen<K, V>) -> Told,
) where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut trouble = Trouble::default();
    loop {
        let client = match requests.client().await {
            Ok(client) => client,
            Err(error) => {
                trouble.note(what, &error.to_string());
                sleep(RETRY).await;
                continue;
            }
        };
        let mut watched = watcher(every(client), watcher::Config::default()).boxed();
        while let Some(event) = watched.next().await {
            let seen = match event {
                Ok(Event::Init) => Some(Seen::ListStarted),
                Ok(Event::InitDone) => Some(Seen::ListEnded),
                Ok(Event::InitApply(object)) => {
                    facts(&object).map(|(name, facts)| Seen::Listed(name, facts))
                }
                Ok(Event::Apply(object)) => {
                    facts(&object).map(|(name, facts)| Seen::Now(name, facts))
                }
                Ok(Event::Delete(object)) => facts(&object).map(|(name, _)| Seen::Now(name, None)),
                Err(error) => {
                    trouble.note(what, &error.to_string());
                    if is_refused(&error) {
                        requests.refresh();
                        break;
                    }
                    sleep(RETRY).await;
                    continue;
                }
            };
            trouble.clear();
            if let Some(seen) = seen
                && told.send(wrap(seen)).await.is_err()
            {
                return;
            }
        }
        sleep(RETRY).await;
    }
}

// === impl Known ===

impl<K: Ord + Clone, V: PartialEq> Known<K, V> {
    /// Whether there was a complete list.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(super) fn get(&self, name: &K) -> Option<&V> {
        self.by_name.get(name)
    }

    /// The objects whose names are in a range, in order.
    pub(super) fn range(&self, from: K) -> impl Iterator<Item = (&K, &V)> {
        self.by_name.range(from..)
    }

    /// Takes in what a watch tells. Returns the names of what differs, each with what it was.
    pub(super) fn take(&mut self, seen: Seen<K, V>) -> Vec<(K, Option<V>)> {
        match seen {
            Seen::ListStarted => self.staged = Some(BTreeMap::new()),
            Seen::Listed(name, Some(value)) => {
                self.staged.get_or_insert_default().insert(name, value);
            }
            Seen::Listed(_, None) => {}
            Seen::ListEnded => {
                let listed = self.staged.take().unwrap_or_default();
                self.is_listed = true;
                let gone = self
                    .by_name
                    .keys()
                    .filter(|name| !listed.contains_key(*name));
                let gone: BTreeSet<K> = gone.cloned().collect();
                let gone = gone.into_iter().map(|name| (name, None));
                let listed = listed.into_iter().map(|(name, value)| (name, Some(value)));
                return gone
                    .chain(listed)
                    .filter_map(|(name, value)| self.set(name, value))
                    .collect();
            }
            Seen::Now(name, value) => return self.set(name, value).into_iter().collect(),
        }
        Vec::new()
    }

    fn set(&mut self, name: K, value: Option<V>) -> Option<(K, Option<V>)> {
        if self.by_name.get(&name) == value.as_ref() {
            return None;
        }
        let before = match value {
            Some(value) => self.by_name.insert(name.clone(), value),
            None => self.by_name.remove(&name),
        };
        Some((name, before))
    }
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self {
            by_name: BTreeMap::new(),
            staged: None,
            is_listed: false,
        }
    }
}
