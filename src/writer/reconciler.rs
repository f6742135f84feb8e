//! The loop that brings copies to what they should be: it gathers what is known, decides, and hands the work out.
//!
//! All state is here, in one task. Turns of work run beside it, each for one Service, and report back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::copy::Copy;
use super::events::{Announcer, Notice};
use super::lease::Leadership;
use super::ledger::Ledger;
use super::metrics::MemberState as Known;
use super::plan::{Action, HomeAddresses, Inputs, Moment, Plan, Report, Standing, Tally, plan};
use super::requests::{Reason, Refusal};
use super::schedule::{Outcome, Schedule};
use super::standings::{Contact, Standings};
use super::store::Store;
use super::turn::{self, ActionResult, Finished, Tools};
use super::watches::{CopyEvent, StockDestination};
use super::{Mode, Options};
use crate::index::{ClusterState, MemberState, ServiceSnapshot};
use crate::model::{ClusterName, ServiceName, Uid};
use crate::publish::{Catalog, ChangedServices};

/// Between looks at what changes by itself with time.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Between looks at everything, whether or not anything has changed.
const SWEEP: Duration = Duration::from_mins(10);
/// How long hints have to be possible before they are used again.
const HINTS_RETURN: Duration = Duration::from_secs(30);
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HintState {
    /// They are used if they can be.
    #[default]
    Free,
    /// They cannot be used.
    Off,
    /// They could be used again since then.
    Returning(Instant),
}

/// The home cluster's addresses, as the catalog has them.
#[derive(Clone, Copy)]
pub(super) struct Home<'a>(pub(super) &'a Catalog);

impl fmt::Debug for Home<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Home")
    }
}

impl HomeAddresses for Home<'_> {
    fn contains(&self, ip: IpAddr) -> bool {
        let address = self.0.address(ip);
        !address.services.is_empty() || !address.pods.is_empty() || !address.host_ports.is_empty()
    }
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

    /// What is to be done for a Service now; takes note of all else that the plan says.
    fn prepare(&mut self, service: &ServiceName, now: Instant) -> Vec<Vec<Action>> {
        let plan = self.decide(service, now);
        let plan = if plan.unjudged.is_empty() {
            plan
        } else {
            for (cluster, uid) in &plan.unjudged {
                self.judge(cluster, uid, now);
            }
            self.decide(service, now)
        };
        self.remember(service, &plan, now);
        if self.options.mode == Mode::DryRun {
            self.rehearse(service, &plan);
            return Vec::new();
        }
        let mut units = Vec::new();
        for actions in plan.units.into_values() {
            let actions = self.admit(service, actions, now);
            if !actions.is_empty() {
                units.push(actions);
            }
        }
        units
    }

    fn decide(&self, service: &ServiceName, now: Instant) -> Plan {
        let started = Instant::now();
        let none = BTreeMap::new();
        let existing = self.store.of(service).unwrap_or(&none);
        let snapshot = match self.options.mode {
            // As if nothing had to be there.
            Mode::Remove => ServiceSnapshot::missing(service.clone(), MemberState::Synced),
            Mode::On | Mode::DryRun => self.catalog.snapshot(service).unwrap_or_else(|| {
                let home = if self.catalog.is_home_synced() {
                    MemberState::Synced
                } else {
                    MemberState::Syncing
                };
                ServiceSnapshot::missing(service.clone(), home)
            }),
        };
        let known = self.services.get(service);
        let grace = self.options.pace.unlink_grace;
        let moment = Moment {
            stock_destination: *self.stock.borrow() != StockDestination::Absent,
            hints_suspended: known.is_some_and(|known| known.hints.is_suspended(now)),
            yield_to_others: known
                .and_then(|known| known.waits_since)
                .is_some_and(|since| now >= since + grace),
            taken: self.ledger.taken().clone(),
        };
        let decided = plan(&Inputs {
            snapshot: &snapshot,
            existing,
            settings: &self.options.settings,
            clusters: &self.clusters_for(service),
            moment: &moment,
            is_home: &Home(&self.catalog),
        });
        self.tools
            .metrics
            .plan_seconds
            .observe(started.elapsed().as_secs_f64());
        decided
    }

    /// The standing of every cluster, with what room there is beside other Services.
    fn clusters_for(&self, service: &ServiceName) -> BTreeMap<ClusterName, Standing> {
        let own = self.services.get(service).map(|known| &known.tallies);
        let mut clusters = self.standings.all().clone();
        for (cluster, standing) in &mut clusters {
            let total = self.totals.get(cluster).map_or(0, Tally::endpoints);
            let own = own
                .and_then(|own| own.get(cluster))
                .map_or(0, Tally::endpoints);
            standing.room = self
                .options
                .settings
                .endpoints_max
                .saturating_sub(total.saturating_sub(own));
        }
        clusters
    }

    /// Decides whether a cluster that has become another one is believed, by what all its copies would lose.
    fn judge(&mut self, cluster: &ClusterName, uid: &Uid, now: Instant) {
        let services: Vec<ServiceName> = self.store.services_with(cluster).cloned().collect();
        let (mut before, mut lost) = (0, 0);
        for service in &services {
            let plan = self.decide(service, now);
            if let Some(tally) = plan
                .tallies
                .get(cluster)
                .filter(|tally| tally.is_other_cluster)
            {
                before += tally.before;
                lost += tally.lost;
            }
        }
        let judgement = self.standings.judge(cluster, uid, before, lost);
        let changed = self.standings.settle(now);
        if changed.contains(cluster) {
            warn!(%cluster, before, lost, ?judgement, "cluster is another one than its EndpointSlices were copied from");
        }
        self.touch_clusters(&changed);
    }

    /// Takes note of what a plan says besides what to do.
    fn remember(&mut self, service: &ServiceName, plan: &Plan, now: Instant) {
        for cluster in &plan.not_linked {
            self.standings.not_linked(cluster, now);
        }
        let uid = self.catalog.snapshot(service).and_then(|snapshot| {
            let details = snapshot.facts.as_ref()?.details.as_ref()?;
            Some(details.uid.clone())
        });
        let known = self.services.entry(service.clone()).or_default();
        known.uid = uid.unwrap_or_default();
        for (cluster, tally) in &known.tallies {
            if let Some(total) = self.totals.get_mut(cluster) {
                total.subtract(*tally);
                if *total == Tally::default() {
                    self.totals.remove(cluster);
                }
            }
        }
        known.tallies = plan
            .tallies
            .iter()
            .map(|(cluster, tally)| (cluster.clone(), tally.lasting()))
            .collect();
        for (cluster, tally) in &known.tallies {
            self.totals.entry(cluster.clone()).or_default().add(*tally);
        }
        known.reports.clone_from(&plan.reports);
        known.waits_since = match known.waits_since {
            _ if !plan.waits_for_others => None,
            None => Some(now),
            since => since,
        };
        let yields_at = known
            .waits_since
            .map(|since| since + self.options.pace.unlink_grace);
        known.hints = known.hints.after(plan.hints_possible, now);
        let hints_at = match known.hints {
            HintState::Returning(since) => Some(since + HINTS_RETURN),
            HintState::Free | HintState::Off => None,
        };
        for at in [yields_at, hints_at]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
        {
            self.schedule.touch_at(service, at);
        }
        for report in &plan.reports {
            let (reason, note) = report.announcement();
            self.announce(service, reason, note, true, now);
        }
    }

    /// Leaves out what would be refused, or fought about, again.
    fn admit(&mut self, service: &ServiceName, actions: Vec<Action>, now: Instant) -> Vec<Action> {
        let mut admitted = Vec::with_capacity(actions.len());
        let mut is_held = false;
        for action in actions {
            match &action {
                Action::Apply { copy, over, .. } => {
                    if self.ledger.is_parked(copy, now) {
                        is_held = true;
                        continue;
                    }
                    if over.is_some() && self.ledger.is_contested(copy, now) {
                        is_held = true;
                        let who = format!(
                            "Somebody keeps changing EndpointSlice {}; it is left as it is for a while. Its managedFields say who.",
                            copy.name.name
                        );
                        self.announce(service, "Contested", who, true, now);
                        continue;
                    }
                }
                // What is to take its place is not there.
                Action::Delete { .. } if is_held => continue,
                Action::Delete { .. } => {}
            }
            admitted.push(action);
        }
        admitted
    }

    /// Says what would be done.
    fn rehearse(&mut self, service: &ServiceName, plan: &Plan) {
        let said = super::show::lines(plan, self.store.of(service)).join("\n");
        let known = self.services.entry(service.clone()).or_default();
        if known.rehearsed.as_deref() == Some(said.as_str()) {
            return;
        }
        if !said.is_empty() {
            info!(%service, requests = plan.len(), "EndpointSlices would be written (dry run):\n{said}");
        }
        known.rehearsed = Some(said);
    }

    // --- what became of the work ---

    fn on_finished(&mut self, finished: Finished) {
        let now = Instant::now();
        let Finished {
            service,
            results,
            is_cut,
        } = finished;
        let mut outcome = if is_cut { Outcome::More } else { Outcome::Done };
        let mut wrote = false;
        for result in results {
            match result {
                ActionResult::Applied(copy, there) => {
                    wrote = true;
                    self.ledger.written(&copy);
                    if let Some(there) = there {
                        self.store.set(*there);
                    }
                }
                ActionResult::Deleted(name, version) => {
                    self.ledger.forget(&name);
                    self.store.deleted(&name, &version);
                }
                ActionResult::NotLeading => outcome = Outcome::Again,
                ActionResult::Refused(action, refusal) => {
                    outcome = outcome.worse(self.on_refused(&service, &action, &refusal, now));
                }
            }
        }
        if wrote {
            self.is_forbidden = false;
            self.on_written(&service, now);
        }
        self.schedule.finish(&service, outcome, now);
    }

    fn on_written(&mut self, service: &ServiceName, now: Instant) {
        if let Some(known) = self.services.get_mut(service)
            && let Some(changed) = known.changed.take()
        {
            let passed = now.saturating_duration_since(changed);
            self.tools
                .metrics
                .propagation_seconds
                .observe(passed.as_secs_f64());
        }
        if !self.announcer.has_said(service, "EndpointSlicesSynced") {
            let note =
                "EndpointSlices with the endpoints of linked clusters are kept for this Service."
                    .to_owned();
            self.announce(service, "EndpointSlicesSynced", note, false, now);
        }
    }

    fn on_refused(
        &mut self,
        service: &ServiceName,
        action: &Action,
        refusal: &Refusal,
        now: Instant,
    ) -> Outcome {
        let slice = action.name();
        let copy = match action {
            Action::Apply { copy, .. } => Some(&**copy),
            Action::Delete { .. } => None,
        };
        match refusal.reason {
            Reason::Outdated | Reason::Absent => Outcome::Again,
            Reason::NameTaken => {
                self.ledger.name_taken(slice.clone());
                warn!(%slice, "somebody else's EndpointSlice has the name of a copy, taking another name");
                Outcome::Again
            }
            Reason::NamespaceGone => Outcome::Done,
            Reason::QuotaExceeded | Reason::Rejected => {
                self.park(copy, refusal.reason, now);
                warn!(%slice, error = %refusal, "EndpointSlice refused");
                let reason = if refusal.reason == Reason::Rejected {
                    "Rejected"
                } else {
                    "QuotaExceeded"
                };
                let note = format!(
                    "EndpointSlice {} is refused: {}",
                    slice.name, refusal.message
                );
                self.announce(service, reason, note, true, now);
                Outcome::Failed
            }
            Reason::Forbidden => {
                if !std::mem::replace(&mut self.is_forbidden, true) {
                    warn!(error = %refusal, "not allowed to write EndpointSlices; apply deploy/rbac-write.yaml");
                }
                let note = format!("EndpointSlices cannot be written: {}", refusal.message);
                self.announce(service, "WriteForbidden", note, true, now);
                Outcome::Hopeless
            }
            Reason::Throttled(_) | Reason::Unavailable => Outcome::Failed,
        }
    }

    fn park(&mut self, copy: Option<&Copy>, reason: Reason, now: Instant) {
        if let Some(copy) = copy {
            self.ledger.park(copy, reason, now);
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
                    *skipped.entry(*reason).or_default() += *count
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

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

// === impl HintState ===

impl HintState {
    fn is_suspended(self, now: Instant) -> bool {
        match self {
            Self::Free => false,
            Self::Off => true,
            Self::Returning(since) => now < since + HINTS_RETURN,
        }
    }

    fn after(self, possible: bool, now: Instant) -> Self {
        match (self, possible) {
            (_, false) => Self::Off,
            (Self::Free, true) => Self::Free,
            (Self::Off, true) => Self::Returning(now),
            (Self::Returning(since), true) if now >= since + HINTS_RETURN => Self::Free,
            (Self::Returning(since), true) => Self::Returning(since),
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Endpoints in all.
    fn endpoints(&self) -> usize {
        self.ready + self.not_ready + self.terminating
    }

    /// What of it can be added up over Services.
    fn lasting(self) -> Self {
        Self {
            before: 0,
            lost: 0,
            is_other_cluster: false,
            ..self
        }
    }

    fn add(&mut self, other: Self) {
        self.copies += other.copies;
        self.ready += other.ready;
        self.not_ready += other.not_ready;
        self.terminating += other.terminating;
    }

    fn subtract(&mut self, other: Self) {
        self.copies = self.copies.saturating_sub(other.copies);
        self.ready = self.ready.saturating_sub(other.ready);
        self.not_ready = self.not_ready.saturating_sub(other.not_ready);
        self.terminating = self.terminating.saturating_sub(other.terminating);
    }
}

// === impl Outcome ===

impl Outcome {
    /// The one of two that asks for more patience.
    fn worse(self, other: Self) -> Self {
        let rank = |outcome: Self| match outcome {
            Self::Done => 0,
            Self::More => 1,
            Self::Again => 2,
            Self::Failed => 3,
            Self::Hopeless => 4,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}
