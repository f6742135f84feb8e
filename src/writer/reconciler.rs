//! The loop that brings copies to what they should be: it gathers what is known, decides, and hands the work out.
//!
//! All state is here, in one task. Turns of work run beside it, each for one Service, and report back.

mod decide;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::events::{Announcer, Notice};
use super::lease::Leadership;
use super::ledger::Ledger;
use super::metrics::MemberState as Known;
use super::plan::{Report, Tally};
use super::schedule::{Outcome, Schedule};
use super::standings::{Contact, Standings};
use super::store::Store;
use super::turn::{self, Finished, Tools};
use super::watches::{CopyEvent, StockDestination};
use super::{HOUSEKEEPING, Mode, Options, wait_until};
use crate::index::ClusterState;
use crate::model::{ClusterName, ServiceName, Uid};
use crate::publish::{Catalog, ChangedServices};
use decide::HintState;

pub(super) use decide::Home;

/// Between looks at everything, whether or not anything has changed.
const SWEEP: Duration = Duration::from_mins(10);
/// Between looks at a cluster that is doubted.
const DOUBT: Duration = Duration::from_secs(30);

/// Keeps the copies of every Service.
#[derive(Debug)]
pub(super) struct Reconciler {
    catalog: Catalog,
    options: Options,
    tools: Tools,
    changed: ChangedServices,
    store: Store,
    /// Whether the copies that are there are known.
    is_listed: bool,
    /// Whether they have been read since we may write.
    is_current: bool,
    standings: Standings,
    schedule: Schedule,
    ledger: Ledger,
    announcer: Announcer,
    stock: watch::Receiver<StockDestination>,
    services: BTreeMap<ServiceName, Remembered>,
    totals: BTreeMap<ClusterName, Tally>,
    turns: JoinSet<Finished>,
    swept: Instant,
    doubted_at: Instant,
    is_forbidden: bool,
}

/// What is remembered of one Service.
#[derive(Debug, Default)]
struct Remembered {
    uid: Uid,
    tallies: BTreeMap<ClusterName, Tally>,
    reports: Vec<Report>,
    /// Since when hints have been possible again; `None` if they are not possible, or always were.
    hints: HintState,
    /// Since when slices of others are in our way.
    waits_since: Option<Instant>,
    /// When the first change came that has not been written yet.
    changed: Option<Instant>,
    /// What would be done, where nothing is done: said once.
    rehearsed: Option<String>,
}

// === impl Reconciler ===

impl Reconciler {
    pub(super) fn new(
        catalog: Catalog,
        options: Options,
        tools: Tools,
        announcer: Announcer,
        stock: watch::Receiver<StockDestination>,
    ) -> Self {
        let now = Instant::now();
        let pace = options.pace;
        Self {
            changed: catalog.follow_multicluster(),
            catalog,
            standings: Standings::new(pace, options.settings.on_stale),
            options,
            tools,
            store: Store::default(),
            is_listed: false,
            is_current: false,
            schedule: Schedule::new(pace.batch),
            ledger: Ledger::default(),
            announcer,
            stock,
            services: BTreeMap::new(),
            totals: BTreeMap::new(),
            turns: JoinSet::new(),
            swept: now,
            doubted_at: now,
            is_forbidden: false,
        }
    }

    /// Works until told to stop. What is under way then is broken off: it is decided anew by whoever comes next.
    pub(super) async fn run(
        mut self,
        mut copies: mpsc::Receiver<CopyEvent>,
        shutdown: CancellationToken,
    ) {
        let mut leadership = self.tools.leadership.clone();
        let mut clusters = self.catalog.watch_clusters();
        let mut stock = self.stock.clone();
        let mut tick = interval(HOUSEKEEPING);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.follow_leadership(&mut leadership) => {}
            }
            self.start_turns();
            let next = self.schedule.next().filter(|_| self.may_start());
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.changed.wait() => self.take_changed(),
                Some(event) = copies.recv() => {
                    self.on_copy(event);
                    // What else is there already is taken in before anything is decided.
                    while let Ok(event) = copies.try_recv() {
                        self.on_copy(event);
                    }
                }
                Some(ended) = self.turns.join_next() => match ended {
                    Ok(finished) => self.on_finished(finished),
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
                Ok(()) = leadership.changed() => {}
                Ok(()) = clusters.changed() => self.follow_clusters(Instant::now()),
                Ok(()) = stock.changed() => self.touch_everything(),
                () = wait_until(next) => {}
                _ = tick.tick() => self.keep_house(Instant::now()),
            }
        }
        self.turns.shutdown().await;
    }

    // --- what happens ---

    fn take_changed(&mut self) {
        for service in self.changed.take() {
            self.touch(&service);
        }
    }

    fn on_copy(&mut self, event: CopyEvent) {
        let touched = match event {
            CopyEvent::ListStarted => {
                self.store.list_started();
                return;
            }
            CopyEvent::Listed(copy) => {
                self.store.listed(*copy);
                return;
            }
            CopyEvent::ListEnded => {
                self.is_listed = true;
                self.store.list_ended()
            }
            CopyEvent::Applied(copy) => self.store.set(*copy),
            CopyEvent::Deleted(copy) => {
                // The name is free now, whoever had it.
                self.ledger.forget(&copy.name);
                self.store.remove(&copy)
            }
        };
        for service in touched {
            self.touch(&service);
        }
    }

    /// Reads the copies anew, once, when we have become the one who writes: the watch may lag.
    async fn follow_leadership(&mut self, leadership: &mut watch::Receiver<Leadership>) {
        if self.options.mode == Mode::DryRun {
            self.is_current = true;
            return;
        }
        let now = Instant::now();
        let leads = leadership.borrow_and_update().deadline(now).is_some();
        self.tools.metrics.leading(leads);
        if !leads {
            if std::mem::take(&mut self.is_current) {
                self.turns.abort_all();
                self.schedule.abandon(now);
            }
            return;
        }
        if self.is_current || !self.is_listed {
            return;
        }
        match self.tools.requests.list().await {
            Ok(all) => {
                self.is_current = true;
                let touched = self.store.replace(all);
                self.touch_everything();
                for service in touched {
                    self.touch(&service);
                }
            }
            Err(error) => {
                warn!(%error, "EndpointSlice writer leads but cannot read its slices, trying on");
                tokio::time::sleep(HOUSEKEEPING).await;
            }
        }
    }

    fn follow_clusters(&mut self, now: Instant) {
        let summaries = self.catalog.clusters();
        let board = self.catalog.board();
        let age = |cluster: &ClusterName| board.status(cluster)?.age;
        let changed = self.standings.update(&summaries, age, now);
        self.touch_clusters(&changed);
    }

    fn keep_house(&mut self, now: Instant) {
        let before: BTreeMap<ClusterName, bool> = self.stale_clusters();
        self.follow_clusters(now);
        self.tell_contact(&before, now);
        if now >= self.doubted_at + DOUBT {
            self.doubted_at = now;
            for (cluster, uid) in self.standings.doubted() {
                self.judge(&cluster, &uid, now);
            }
        }
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.announcer.sweep(now);
            self.touch_everything();
        }
        self.ledger.expire(now);
        self.count();
    }

    fn stale_clusters(&self) -> BTreeMap<ClusterName, bool> {
        let names = self.standings.all().keys();
        let known = names.filter_map(|name| {
            let contact = self.standings.contact(name)?;
            Some((name.clone(), contact != Contact::Healthy))
        });
        known.collect()
    }

    /// Tells of clusters that have come into contact or gone out of it, at every Service they are behind.
    fn tell_contact(&mut self, before: &BTreeMap<ClusterName, bool>, now: Instant) {
        for (cluster, is_stale) in self.stale_clusters() {
            if before.get(&cluster).is_none_or(|was| *was == is_stale) {
                continue;
            }
            let (reason, note) = if is_stale {
                let note = format!(
                    "Cluster {cluster} is out of contact; its EndpointSlices stay as they are unless settings say otherwise."
                );
                ("MemberStale", note)
            } else {
                (
                    "MemberRecovered",
                    format!("Cluster {cluster} is in contact again."),
                )
            };
            let concerned: Vec<_> = self
                .services
                .iter()
                .filter(|(_, known)| known.tallies.contains_key(&cluster))
                .map(|(service, _)| service.clone())
                .collect();
            for service in concerned {
                self.announce(&service, reason, note.clone(), is_stale, now);
            }
        }
    }

    // --- what has to be looked at ---

    fn touch(&mut self, service: &ServiceName) {
        let now = Instant::now();
        let known = self.services.entry(service.clone()).or_default();
        known.changed.get_or_insert(now);
        self.schedule.touch(service, now);
        if self.may_start()
            && !self.schedule.is_urgent(service)
            && self.decide(service, now).is_urgent
        {
            self.schedule.hasten(service, now);
        }
    }

    fn touch_everything(&mut self) {
        let all: BTreeSet<ServiceName> = self
            .services
            .keys()
            .chain(self.store.services())
            .cloned()
            .collect();
        let now = Instant::now();
        for service in all {
            self.schedule.touch(&service, now);
        }
    }

    fn touch_clusters(&mut self, clusters: &BTreeSet<ClusterName>) {
        if clusters.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut concerned = BTreeSet::new();
        for cluster in clusters {
            concerned.extend(self.store.services_with(cluster).cloned());
            let services = self.services.iter();
            let named = services.filter(|(_, known)| known.tallies.contains_key(cluster));
            concerned.extend(named.map(|(service, _)| service.clone()));
        }
        for service in concerned {
            self.schedule.touch(&service, now);
        }
    }

    /// Whether anything may be decided and done: what is there is known, and so is what should be.
    fn may_start(&self) -> bool {
        let is_known = self.options.mode == Mode::Remove || self.catalog.is_home_synced();
        self.is_listed && self.is_current && is_known
    }

    fn start_turns(&mut self) {
        while self.may_start() && self.turns.len() < self.options.pace.workers {
            let now = Instant::now();
            let Some(service) = self.schedule.start(now) else {
                return;
            };
            let units = self.prepare(&service, now);
            if units.is_empty() {
                self.schedule.finish(&service, Outcome::Done, now);
                self.forget_if_gone(&service);
                continue;
            }
            self.turns
                .spawn(turn::run(self.tools.clone(), service, units));
        }
    }

    fn announce(
        &mut self,
        service: &ServiceName,
        reason: &'static str,
        note: String,
        is_warning: bool,
        now: Instant,
    ) {
        // Only who writes speaks: others would say the same.
        if self.options.mode != Mode::On || !self.is_current {
            return;
        }
        let uid = self.services.get(service).map(|known| known.uid.clone());
        let notice = Notice {
            service: service.clone(),
            uid: uid.unwrap_or_default(),
            reason,
            note,
            is_warning,
        };
        self.announcer.say(notice, now);
    }

    fn forget_if_gone(&mut self, service: &ServiceName) {
        if self.store.of(service).is_none() && self.catalog.snapshot(service).is_none() {
            self.services.remove(service);
        }
    }

    fn count(&self) {
        let metrics = &self.tools.metrics;
        metrics.queue(self.schedule.waiting(), self.schedule.held());
        metrics.written(&self.totals);
        metrics.stock_destination(*self.stock.borrow() != StockDestination::Absent);
        if self.options.mode == Mode::Remove {
            metrics.leftover(self.store.len());
        }
        let mut skipped = BTreeMap::new();
        for report in self.services.values().flat_map(|known| &known.reports) {
            match report {
                Report::Rejected(_, reason, count, _) => {
                    *skipped.entry(*reason).or_default() += *count;
                }
                Report::SliceSkipped(_, reason, _) => *skipped.entry(*reason).or_default() += 1,
                _ => {}
            }
        }
        metrics.skipped(&skipped);
        let summaries = self.catalog.clusters();
        let board = self.catalog.board();
        metrics.members(summaries.iter().map(|summary| {
            let contact = self.standings.contact(&summary.name);
            let state = match (summary.state, contact) {
                (ClusterState::Syncing, _) => Known::Unknown,
                (ClusterState::Synced, Some(Contact::Stale { .. })) => Known::Stale,
                (ClusterState::Synced, _) => Known::Synced,
            };
            let age = board.status(&summary.name).and_then(|status| status.age);
            (&summary.name, state, age.map(|age| age.as_secs_f64()))
        }));
    }
}
