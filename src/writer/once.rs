//! One look at everything, for people: what would be written, and how to get rid of all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::api::{GetParams, ListParams};
use kube::core::{ObjectList, PartialObjectMeta, Request};
use tokio::time::Instant;

use super::copy::Existing;
use super::limiter::Limiter;
use super::plan::{Inputs, Moment, Plan, Report, plan};
use super::reconciler::Home;
use super::requests::{Access, FIELD_MANAGER, Reason, Refusal, Requests};
use super::show;
use super::standings::Standings;
use super::store::Store;
use super::watches::{DESTINATION_PODS, is_ours};
use super::{Effect, Options};
use crate::index::{ClusterState, ClusterSummary, MemberState, ServiceSnapshot};
use crate::model::{ClusterName, ServiceName, SliceName};
use crate::publish::{Catalog, ChangedServices};

/// What would be done for one Service.
#[derive(Debug)]
pub struct Planned {
    /// The Service.
    pub service: ServiceName,
    /// What would be done.
    pub plan: Plan,
    /// The same for people, line by line; empty if nothing would be.
    pub lines: Vec<String>,
    /// Where everything comes from, line by line: members, their slices and the copies of these, endpoints that are not written.
    pub account: Vec<String>,
    /// What the API server would not take, and why.
    pub refused: Vec<(SliceName, Refusal)>,
}

/// What would be done for every Service that is concerned.
#[derive(Debug)]
pub struct Outlook {
    /// By name.
    pub services: Vec<Planned>,
    /// Clusters that have not been read: whatever is there of theirs would stay.
    pub unread: Vec<ClusterName>,
    /// Whether Linkerd's own destination controller runs in the home cluster, or may do so.
    pub stock_destination: bool,
}

/// Plans everything once, and has the API server check it without carrying it out.
///
/// The home cluster has to be synced; linked clusters are waited for no longer than `patience`. With `only`, one Service is looked
/// at, concerned or not.
pub async fn look_ahead(
    catalog: &Catalog,
    options: &Options,
    access: Arc<dyn Access>,
    patience: Duration,
    only: Option<&ServiceName>,
) -> Result<Outlook, Refusal> {
    let requests = Requests::new(access);
    let changed = catalog.follow_multicluster();
    let mut services = wait_for_members(catalog, &changed, patience).await;
    let mut store = Store::default();
    store.replace(requests.list().await?);
    let stock_destination = runs_stock_destination(&requests, options).await;
    let now = Instant::now();
    let mut standings = Standings::new(options.pace, options.settings.on_stale);
    let summaries = catalog.clusters();
    standings.update(&summaries, |_| None, now);
    services.extend(changed.take());
    services.extend(store.services().cloned());
    if let Some(only) = only {
        services = BTreeSet::from([only.clone()]);
    }
    let moment = Moment {
        stock_destination,
        ..Moment::default()
    };
    let none = BTreeMap::new();
    let mut planned = Vec::new();
    for service in services {
        let existing = store.of(&service).unwrap_or(&none);
        let missing = || ServiceSnapshot::missing(service.clone(), MemberState::Synced);
        let snapshot = catalog.snapshot(&service).unwrap_or_else(missing);
        let plan = plan(&Inputs {
            snapshot: &snapshot,
            existing,
            settings: &options.settings,
            clusters: standings.all(),
            moment: &moment,
            is_home: &Home(catalog),
        });
        let lines = show::lines(plan.actions(), Some(existing));
        let refused = check(&requests, &plan).await?;
        planned.push(Planned {
            account: show::account(&snapshot, &plan),
            service,
            plan,
            lines,
            refused,
        });
    }
    let unread = summaries
        .iter()
        .filter(|summary| summary.state == ClusterState::Syncing);
    Ok(Outlook {
        services: planned,
        unread: unread.map(|summary| summary.name.clone()).collect(),
        stock_destination,
    })
}

/// Waits until every member of every Service is known, and every cluster is read. Returns the Services.
///
/// Members first: which clusters are linked at all is known some time after the home cluster is.
async fn wait_for_members(
    catalog: &Catalog,
    changed: &ChangedServices,
    patience: Duration,
) -> BTreeSet<ServiceName> {
    let mut services = BTreeSet::new();
    let all_read = async {
        loop {
            services.extend(changed.take());
            let is_known = |service: &ServiceName| {
                let snapshot = catalog.snapshot(service);
                snapshot.is_none_or(|snapshot| snapshot.is_complete())
            };
            if services.iter().all(is_known) {
                break;
            }
            changed.wait().await;
        }
        let mut clusters = catalog.watch_clusters();
        let is_read = |cluster: &ClusterSummary| cluster.state == ClusterState::Synced;
        let all_read = clusters.wait_for(|clusters| clusters.iter().all(is_read));
        // The sender lives as long as the catalog.
        all_read.await.is_ok()
    };
    // Who is not there by then is named as such.
    tokio::time::timeout(patience, all_read).await.ok();
    services
}

async fn runs_stock_destination(requests: &Requests, options: &Options) -> bool {
    let namespace = options.namespace.as_str();
    let path = Request::new(Pod::url_path(&(), Some(namespace)));
    let params = ListParams::default().labels(DESTINATION_PODS);
    let pods: Result<ObjectList<PartialObjectMeta<Pod>>, _> =
        requests.send(path.list_metadata(&params)).await;
    pods.map_or(true, |pods| pods.items.iter().any(|pod| !is_ours(pod)))
}

async fn check(requests: &Requests, plan: &Plan) -> Result<Vec<(SliceName, Refusal)>, Refusal> {
    let mut refused = Vec::new();
    for action in plan.actions() {
        let super::plan::Action::Apply { copy, over, .. } = action else {
            continue;
        };
        match requests.apply(copy, over.as_ref(), Effect::DryRun).await {
            Ok(_) => {}
            Err(refusal) if refusal.reason == Reason::Unavailable => return Err(refusal),
            Err(refusal) => refused.push((copy.name.clone(), refusal)),
        }
    }
    Ok(refused)
}

// === impl Planned ===

impl Planned {
    /// What people should know besides, as sentences.
    pub fn remarks(&self) -> Vec<String> {
        let reports = self.plan.reports.iter().map(Report::announcement);
        let refused = self.refused.iter();
        let refused = refused.map(|(name, refusal)| format!("{}: {refusal}", name.name));
        reports.map(|(_, note)| note).chain(refused).collect()
    }
}

/// Every copy of ours that is there, and who is writing at the moment, if that can be told.
pub async fn inventory(
    access: Arc<dyn Access>,
    options: &Options,
) -> Result<(Vec<Existing>, Option<String>), Refusal> {
    let requests = Requests::new(access);
    let copies = requests.list().await?;
    let path = Request::new(Lease::url_path(&(), Some(options.namespace.as_str())));
    let lease: Result<Lease, _> = requests
        .send(path.get(FIELD_MANAGER, &GetParams::default()))
        .await;
    let holder = lease.ok().and_then(|lease| lease.spec?.holder_identity);
    Ok((copies, holder.filter(|holder| !holder.is_empty())))
}

/// Deletes copies one by one, no faster than the rate allows. Returns those that could not be deleted, and why.
pub async fn delete_all(
    access: Arc<dyn Access>,
    options: &Options,
    copies: &[Existing],
) -> Vec<(SliceName, Refusal)> {
    let requests = Requests::new(access);
    let pace = options.pace;
    let limiter = Limiter::new(pace.requests_per_second, pace.burst, Instant::now());
    let mut failed = Vec::new();
    for copy in copies {
        limiter.wait().await;
        let deleted = requests
            .delete(&copy.name, &copy.uid, &copy.resource_version)
            .await;
        if let Err(refusal) = deleted {
            if let Reason::Throttled(retry_after) = refusal.reason {
                limiter.throttled(retry_after);
            }
            failed.push((copy.name.clone(), refusal));
        }
    }
    failed
}
