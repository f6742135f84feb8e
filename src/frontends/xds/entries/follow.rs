//! Following one name: looking, waiting for news, looking again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::super::client::{Detail, Style, Terminating};
use super::super::resource::Completeness;
use super::super::resource_name::{Preference, Target};
use super::super::translate::{Assignment, Member};
use super::{Entries, Entry, State};
use crate::index::{
    ClientLocality, Exclusion, Families, Joined, MemberState, ServiceSnapshot, ViewEndpoint,
    ViewKey, examine,
};
use crate::model::{Backing, ClusterRole};
use crate::publish::{Catalog, Subscription};

/// A client that has nothing is told what is known when a cluster has not been read for this long. Clients wait for 15 s.
const GRACE_NEW: Duration = Duration::from_secs(10);
/// A client that has something keeps it for this long, and is told what is known then.
const GRACE_KNOWN: Duration = Duration::from_mins(1);
/// A name that nobody wants any more is kept for this long: a client that reconnects will want it again.
const RETENTION: Duration = Duration::from_secs(10);

/// Between two states of a name there is at least this time, and [`SPACING_PER_ENDPOINT`] for each endpoint: applying the
/// endpoints of one name keeps Envoy's main thread busy for about a tenth of that.
const SPACING: Duration = Duration::from_millis(20);
/// See [`SPACING`].
const SPACING_PER_ENDPOINT: Duration = Duration::from_micros(48);

/// What one look at a name found.
struct Look {
    state: State,
    /// Number of endpoints.
    endpoints: usize,
    /// When to look again even if nothing happens.
    until: Option<Instant>,
}

/// Follows a name until nobody wants it.
pub(super) async fn follow(entries: Entries, entry: Arc<Entry>) {
    let catalog = entries.0.catalog.clone();
    let mut reader = catalog.reader();
    let mut clusters = catalog.watch_clusters();
    let mut subscription: Option<Subscription> = None;
    let mut idle_until: Option<Instant> = None;
    loop {
        if subscription.is_none() {
            // Followed before it is looked for: one that comes in between is noticed.
            reader.look(|look| look.service(&entry.target.service).is_some());
            subscription = catalog.subscribe(&entry.target.service);
        }
        let look = look(&entry, subscription.as_ref(), &catalog);
        let spacing =
            SPACING + SPACING_PER_ENDPOINT * u32::try_from(look.endpoints).unwrap_or(u32::MAX);
        let (had_endpoints, look_again) = (look.endpoints > 0, look.until);
        entry.publish(look.state);
        let earliest = Instant::now() + spacing;
        loop {
            let wake = [look_again, idle_until].into_iter().flatten().min();
            let has_news = tokio::select! {
                () = news(subscription.as_mut(), &mut reader, &mut clusters) => true,
                () = sleep_until(wake) => look_again.is_some_and(|at| at <= Instant::now()),
                () = entry.abandoned.notified() => {
                    idle_until = Some(Instant::now() + RETENTION);
                    false
                }
            };
            if entry.holds.load(Ordering::Relaxed) > 0 {
                idle_until = None;
            } else if idle_until.is_some_and(|at| at <= Instant::now()) && entries.give_up(&entry) {
                return;
            }
            if has_news {
                break;
            }
        }
        // The first change goes out at once, those right behind it together; the first and the last endpoint do not wait.
        if Instant::now() < earliest
            && has_endpoints(&entry, subscription.as_ref()) == had_endpoints
        {
            tokio::time::sleep_until(earliest).await;
        }
    }
}

async fn news(
    subscription: Option<&mut Subscription>,
    reader: &mut crate::publish::Reader,
    clusters: &mut tokio::sync::watch::Receiver<Arc<[crate::index::ClusterSummary]>>,
) {
    if let Some(subscription) = subscription {
        subscription.changed().await;
        return;
    }
    tokio::select! {
        () = reader.changed() => {}
        changed = clusters.changed() => if changed.is_err() {
            // Nothing will be published any more.
            std::future::pending::<()>().await;
        },
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn look(entry: &Entry, subscription: Option<&Subscription>, catalog: &Catalog) -> Look {
    let Some(subscription) = subscription else {
        let exists = catalog.is_home_synced().then_some(false);
        return Look::nothing(entry, exists);
    };
    let (exists, unread) = subscription.with_snapshot(|snapshot| {
        let exists = snapshot
            .facts
            .as_ref()
            .is_some_and(|facts| !facts.external_name);
        let home = snapshot.home == MemberState::Synced;
        (home.then_some(exists), youngest_unread(snapshot, catalog))
    });
    if exists != Some(true) {
        return Look::nothing(entry, exists);
    }
    let assignment = assignment(&entry.target, &entry.key.style, subscription, catalog);
    let (completeness, until) = match unread {
        None => (Completeness::Complete, None),
        Some(since) => {
            let now = Instant::now();
            if now < since + GRACE_NEW {
                (Completeness::TooEarly, Some(since + GRACE_NEW))
            } else if now < since + GRACE_KNOWN {
                (Completeness::Partial, Some(since + GRACE_KNOWN))
            } else {
                (Completeness::Complete, None)
            }
        }
    };
    Look {
        endpoints: assignment.len(),
        state: State {
            exists,
            assignment: Some((assignment.resource(&entry.key.name), completeness)),
        },
        until,
    }
}

/// Since when the cluster is known that was linked last, of those that may have endpoints nobody knows of yet.
fn youngest_unread(snapshot: &ServiceSnapshot, catalog: &Catalog) -> Option<Instant> {
    snapshot
        .members
        .iter()
        .filter(|member| member.state == MemberState::Syncing)
        .map(|member| catalog.known_since(&member.cluster.name))
        .max()
}

fn has_endpoints(entry: &Entry, subscription: Option<&Subscription>) -> bool {
    subscription.is_some_and(|subscription| {
        let target = &entry.target;
        let client = client_of(&entry.key.style);
        let version = subscription.view(target.port, target.instance.as_ref(), &client);
        version
            .view()
            .endpoints
            .iter()
            .any(|endpoint| is_wanted(endpoint, target))
    })
}

/// Zone hints are for clients that do not choose for themselves; those of xDS are told where endpoints are, and do.
fn client_of(style: &Style) -> ClientLocality {
    ClientLocality {
        node: style.node.clone(),
        zone: None,
    }
}

fn is_wanted(endpoint: &ViewEndpoint, target: &Target) -> bool {
    target
        .cluster
        .as_ref()
        .is_none_or(|cluster| *cluster == endpoint.cluster.name)
}

/// The endpoints of a name as clients of a style are told of them.
fn assignment(
    target: &Target,
    style: &Style,
    subscription: &Subscription,
    catalog: &Catalog,
) -> Assignment {
    let client = client_of(style);
    let mesh = &catalog.policy().mesh;
    let preference = target.preference.unwrap_or(style.preference);
    let priority = |endpoint: &ViewEndpoint| {
        let own = match &style.cluster {
            Some(cluster) => *cluster == endpoint.cluster.name,
            None => endpoint.cluster.role == ClusterRole::Home,
        };
        u32::from(preference == Preference::Local && !own)
    };
    let version = subscription.view(target.port, target.instance.as_ref(), &client);
    let mut members: Vec<_> = version
        .view()
        .endpoints
        .iter()
        .filter(|endpoint| is_wanted(endpoint, target))
        .filter_map(|endpoint| Member::new(endpoint, priority(endpoint), false, mesh))
        .collect();
    if style.terminating == Terminating::Drain {
        // Clients of gRPC do not use what is draining, even if there is nothing else.
        let draining = !(members.is_empty() && style.detail == Detail::Lean);
        let terminating = terminating(target, &client, subscription, catalog);
        members.extend(
            terminating
                .iter()
                .filter_map(|endpoint| Member::new(endpoint, priority(endpoint), draining, mesh)),
        );
    }
    Assignment::new(members, style.detail)
}

/// Endpoints that terminate and still answer, by address and without duplicates.
fn terminating(
    target: &Target,
    client: &ClientLocality,
    subscription: &Subscription,
    catalog: &Catalog,
) -> Vec<ViewEndpoint> {
    let policy = catalog.policy();
    subscription.with_snapshot(|snapshot| {
        let key = ViewKey::new(snapshot, target.port, target.instance.clone(), client);
        let mut seen = None;
        let mut found = Vec::new();
        for candidate in examine(snapshot, &key, policy) {
            let endpoint = candidate.endpoint;
            let conditions = endpoint.endpoint().conditions;
            let usable = match endpoint.joined() {
                Joined::Held(_) => false,
                _ => {
                    policy.families != Families::Ipv4
                        || endpoint.socket.is_ipv4()
                        || endpoint.endpoint().backing == Backing::Address
                }
            };
            let asked_for =
                target.instance.is_none() || endpoint.endpoint().hostname == target.instance;
            let socket = endpoint.socket;
            if candidate.excluded == Some(Exclusion::NotReady)
                && conditions.terminating
                && conditions.serving
                && usable
                && asked_for
                && is_wanted(&endpoint, target)
                && seen != Some(socket)
            {
                found.push(endpoint);
                seen = Some(socket);
            } else if candidate.excluded.is_none() {
                seen = Some(socket);
            }
        }
        found
    })
}

// === impl Look ===

impl Look {
    /// There is nothing there, or it is not known whether there is.
    fn nothing(entry: &Entry, exists: Option<bool>) -> Self {
        let assignment = exists.map(|_| {
            let empty = Assignment::new(Vec::new(), entry.key.style.detail);
            (empty.resource(&entry.key.name), Completeness::Complete)
        });
        Self {
            state: State { exists, assignment },
            endpoints: 0,
            until: None,
        }
    }
}
