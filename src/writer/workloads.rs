//! EndpointSlices that list ExternalWorkloads: what Linkerd's destination controller writes besides answering, done in its place.
//!
//! Services select ExternalWorkloads of their namespace as they select Pods, and nothing in Kubernetes makes slices of these.
//! Names, labels and conditions are those of Linkerd's controller, and so is the Lease: while one of the two has it, the other
//! leaves its slices alone, and whoever comes next goes on with the slices that are there.
//!
//! Works only while it has the Lease. It begins with what it reads then, so that there is nothing that it could remember wrongly.

mod facts;
mod pack;
mod plan;
mod watches;

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::copy::Copy;
use super::encode::WORKLOADS_MANAGED_BY;
use super::events::{self, Announcer, CONTESTED, Notice, contested_note};
use super::lease::{Candidate, Leadership};
use super::ledger::Ledger;
use super::plan::Action;
use super::requests::{Reason, Refusal};
use super::schedule::{Outcome, Schedule};
use super::store::Store;
use super::turn::{self, ActionResult, Finished, Tools};
use super::watches::{CopyEvent, slices};
use super::{HOUSEKEEPING, Options, Workloads, show};
use crate::model::copying::Pace;
use crate::model::{ServiceName, Text};
use facts::{Selecting, Workload};
use plan::{Plan, plan};
use watches::{Known, Told, WorkloadName};

/// The Lease of Linkerd's controller.
const LEASE: &str = "linkerd-destination-endpoint-write";
/// Things told that may wait.
const TOLD_MAX: usize = 256;
/// Workloads that an Event names at most.
const NAMED_MAX: usize = 3;

/// Writes slices of ExternalWorkloads whenever it has the Lease, until told to stop.
///
/// `tools` are those of the other writer, so that both keep to one rate; only the Lease is another one.
pub(super) async fn run(options: Options, tools: Tools, shutdown: CancellationToken) {
    let (namespace, instance) = (options.namespace.to_string(), options.instance.clone());
    let mut candidacy = JoinSet::new();
    let candidacy_ends = CancellationToken::new();
    let mut leadership = if options.workloads == Workloads::DryRun {
        let until = Instant::now();
        watch::Sender::new(Leadership::Leading { until }).subscribe()
    } else {
        let (candidate, leadership) =
            Candidate::new(tools.requests.clone(), LEASE, namespace, &instance);
        let until = candidacy_ends.clone();
        candidacy.spawn(async move { candidate.run(until).await });
        leadership
    };
    let tools = Tools {
        leadership: leadership.clone(),
        ..tools
    };
    let leading = async {
        loop {
            let leads = leadership.wait_for(|now| *now != Leadership::Following);
            if leads.await.is_err() {
                return;
            }
            let writes = options.workloads == Workloads::Written;
            tools.metrics.leading_workloads(writes);
            Leader::new(&options, tools.clone())
                .run(&mut leadership)
                .await;
            tools.metrics.leading_workloads(false);
        }
    };
    shutdown.run_until_cancelled(Box::pin(leading)).await;
    // Nothing is under way any more: the next one may begin.
    candidacy_ends.cancel();
    while candidacy.join_next().await.is_some() {}
}

/// What whoever has the Lease knows and does.
#[derive(Debug)]
struct Leader {
    tools: Tools,
    mode: Workloads,
    pace: Pace,
    instance: String,
    services: Known<ServiceName, Selecting>,
    workloads: Known<WorkloadName, Workload>,
    slices: Store,
    /// Whether the slices that are there are known.
    is_listed: bool,
    schedule: Schedule,
    ledger: Ledger,
    turns: JoinSet<Finished>,
    /// Slices and endpoints that there are of each Service.
    written: BTreeMap<ServiceName, (usize, usize)>,
    is_forbidden: bool,
}

// === impl Leader ===

impl Leader {
    fn new(options: &Options, tools: Tools) -> Self {
        Self {
            tools,
            mode: options.workloads,
            pace: options.pace,
            instance: options.instance.clone(),
            services: Known::default(),
            workloads: Known::default(),
            slices: Store::default(),
            is_listed: false,
            schedule: Schedule::new(options.pace.batch),
            ledger: Ledger::default(),
            turns: JoinSet::new(),
            written: BTreeMap::new(),
            is_forbidden: false,
        }
    }

    /// Works until the Lease is lost. What is under way then is broken off.
    async fn run(mut self, leadership: &mut watch::Receiver<Leadership>) {
        let (mut announcer, notices) = Announcer::new();
        let (told, mut heard) = mpsc::channel(TOLD_MAX);
        let mut background = JoinSet::new();
        let requests = &self.tools.requests;
        background.spawn(events::send(
            requests.clone(),
            self.instance.clone(),
            notices,
        ));
        background.spawn(watches::services(requests.clone(), told.clone()));
        background.spawn(watches::workloads(requests.clone(), told));
        let (slice_events, mut slices_heard) = mpsc::channel(TOLD_MAX);
        background.spawn(slices(requests.clone(), WORKLOADS_MANAGED_BY, slice_events));
        let mut tick = interval(HOUSEKEEPING);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.start_turns(&mut announcer);
            let next = self.schedule.next().filter(|_| self.may_start());
            tokio::select! {
                Ok(()) = leadership.changed() => {
                    if *leadership.borrow() == Leadership::Following {
                        break;
                    }
                }
                Some(told) = heard.recv() => {
                    self.on_told(told);
                    while let Ok(told) = heard.try_recv() {
                        self.on_told(told);
                    }
                }
                Some(event) = slices_heard.recv() => {
                    self.on_told(Told::Slice(event));
                    while let Ok(event) = slices_heard.try_recv() {
                        self.on_told(Told::Slice(event));
                    }
                }
                Some(ended) = self.turns.join_next() => match ended {
                    Ok(finished) => self.on_finished(finished, &mut announcer),
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
                Some(Err(error)) = background.join_next() => {
                    if error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
                () = super::wait_until(next) => {}
                _ = tick.tick() => {
                    self.ledger.expire(Instant::now());
                    self.count();
                }
            }
        }
        self.turns.shutdown().await;
        self.written.clear();
        self.count();
    }

    // --- what happens ---

    fn on_told(&mut self, told: Told) {
        let touched: BTreeSet<ServiceName> = match told {
            Told::Slice(event) => self.on_slice(event),
            Told::Service(seen) => {
                let differ = self.services.take(seen);
                differ.into_iter().map(|(name, _)| name).collect()
            }
            Told::Workload(seen) => {
                let differ = self.workloads.take(seen);
                let services = differ.iter().flat_map(|(name, before)| {
                    let versions = [before.as_ref(), self.workloads.get(name)];
                    let of_namespace = self.services_of(name);
                    of_namespace.filter(move |service| {
                        let mut versions = versions.iter().flatten();
                        versions.any(|workload| service.selects(workload))
                    })
                });
                services.map(|service| service.name.clone()).collect()
            }
        };
        for service in touched {
            self.touch(&service);
        }
    }

    fn services_of(&self, workload: &WorkloadName) -> impl Iterator<Item = &Selecting> {
        let namespace = workload.0.clone();
        let first = ServiceName::new(namespace.clone(), Text::default());
        let services = self.services.range(first).map(|(_, service)| service);
        services.take_while(move |service| service.name.namespace == namespace)
    }

    fn on_slice(&mut self, event: CopyEvent) -> BTreeSet<ServiceName> {
        match event {
            CopyEvent::ListStarted => self.slices.list_started(),
            CopyEvent::Listed(slice) => self.slices.listed(*slice),
            CopyEvent::ListEnded => {
                self.is_listed = true;
                return self.slices.list_ended();
            }
            CopyEvent::Applied(slice) => return self.slices.set(*slice),
            CopyEvent::Deleted(slice) => {
                // The name is free now, whoever had it.
                self.ledger.forget(&slice.name);
                return self.slices.remove(&slice);
            }
        }
        BTreeSet::new()
    }

    fn on_finished(&mut self, finished: Finished, announcer: &mut Announcer) {
        let now = Instant::now();
        let service = finished.service;
        let mut outcome = if finished.is_cut {
            Outcome::More
        } else {
            Outcome::Done
        };
        for result in finished.results {
            match result {
                ActionResult::Applied(copy, there) => {
                    self.is_forbidden = false;
                    self.ledger.written(&copy);
                    if let Some(there) = there {
                        self.slices.set(*there);
                    }
                }
                ActionResult::Deleted(name, version) => {
                    self.ledger.forget(&name);
                    self.slices.deleted(&name, &version);
                }
                ActionResult::NotLeading => outcome = outcome.worse(Outcome::Again),
                ActionResult::Refused(action, refusal) => {
                    let refused = self.on_refused(&service, &action, &refusal, now, announcer);
                    outcome = outcome.worse(refused);
                }
            }
        }
        self.schedule.finish(&service, outcome, now);
    }

    fn on_refused(
        &mut self,
        service: &ServiceName,
        action: &Action,
        refusal: &Refusal,
        now: Instant,
        announcer: &mut Announcer,
    ) -> Outcome {
        let slice = action.name();
        match refusal.reason {
            Reason::NameTaken => self.ledger.name_taken(slice.clone()),
            Reason::QuotaExceeded | Reason::Rejected => {
                if let Some(copy) = copy_of(action) {
                    self.ledger.park(copy, refusal.reason, now);
                }
                warn!(%slice, error = %refusal, "EndpointSlice of external workloads refused");
                let note = format!(
                    "EndpointSlice {} is refused: {}",
                    slice.name, refusal.message
                );
                self.announce(service, "Rejected", note, now, announcer);
            }
            Reason::Forbidden => {
                if !std::mem::replace(&mut self.is_forbidden, true) {
                    warn!(error = %refusal, "not allowed to write EndpointSlices of external workloads; apply deploy/rbac-write.yaml");
                }
                let note = format!("EndpointSlices cannot be written: {}", refusal.message);
                self.announce(service, "WriteForbidden", note, now, announcer);
            }
            Reason::Outdated
            | Reason::Absent
            | Reason::NamespaceGone
            | Reason::Throttled(_)
            | Reason::Unavailable => {}
        }
        refusal.reason.outcome()
    }

    // --- what has to be done ---

    fn touch(&mut self, service: &ServiceName) {
        let now = Instant::now();
        self.schedule.touch(service, now);
        if self.may_start()
            && !self.schedule.is_urgent(service)
            && self.decide(service).is_some_and(|plan| plan.is_urgent)
        {
            self.schedule.hasten(service, now);
        }
    }

    /// Whether everything has been read.
    fn may_start(&self) -> bool {
        self.is_listed && self.services.is_listed() && self.workloads.is_listed()
    }

    /// `None` if the Service is gone, or is none of those that slices are written for: what is there of it stays.
    fn decide(&self, service: &ServiceName) -> Option<Plan> {
        let service = self.services.get(service)?;
        let none = BTreeMap::new();
        let existing = self.slices.of(&service.name).unwrap_or(&none);
        let first = (service.name.namespace.clone(), Text::default());
        let workloads = self.workloads.range(first).map(|(_, workload)| workload);
        let workloads =
            workloads.take_while(|workload| workload.namespace == service.name.namespace);
        Some(plan(service, workloads, existing, self.ledger.taken()))
    }

    fn start_turns(&mut self, announcer: &mut Announcer) {
        while self.may_start() && self.turns.len() < self.pace.workers {
            let now = Instant::now();
            let Some(service) = self.schedule.start(now) else {
                return;
            };
            let actions = self.prepare(&service, now, announcer);
            if actions.is_empty() {
                self.schedule.finish(&service, Outcome::Done, now);
                continue;
            }
            self.turns
                .spawn(turn::run(self.tools.clone(), service, vec![actions]));
        }
    }

    fn prepare(
        &mut self,
        service: &ServiceName,
        now: Instant,
        announcer: &mut Announcer,
    ) -> Vec<Action> {
        let Some(plan) = self.decide(service) else {
            self.written.remove(service);
            return Vec::new();
        };
        if plan.slices > 0 {
            let written = (plan.slices, plan.endpoints);
            self.written.insert(service.clone(), written);
        } else {
            self.written.remove(service);
        }
        if !plan.without_port.is_empty() {
            let note = without_port(&plan);
            self.announce(service, "WorkloadPortMissing", note, now, announcer);
        }
        if self.mode == Workloads::DryRun {
            let said = show::lines(&plan.actions, self.slices.of(service)).join("\n");
            if !said.is_empty() {
                info!(%service, requests = plan.actions.len(), "EndpointSlices of external workloads would be written (dry run):\n{said}");
            }
            return Vec::new();
        }
        let (actions, contested) = self.ledger.admit(plan.actions, now);
        for name in contested {
            self.announce(service, CONTESTED, contested_note(&name), now, announcer);
        }
        actions
    }

    fn announce(
        &self,
        service: &ServiceName,
        reason: &'static str,
        note: String,
        now: Instant,
        announcer: &mut Announcer,
    ) {
        if self.mode == Workloads::DryRun {
            return;
        }
        let uid = self.services.get(service).map(|known| known.uid.clone());
        let notice = Notice {
            service: service.clone(),
            uid: uid.unwrap_or_default(),
            reason,
            note,
            is_warning: true,
        };
        announcer.say(notice, now);
    }

    fn count(&self) {
        let slices = self.written.values().map(|(slices, _)| slices).sum();
        let endpoints = self.written.values().map(|(_, endpoints)| endpoints).sum();
        self.tools.metrics.workloads(slices, endpoints);
    }
}

fn copy_of(action: &Action) -> Option<&Copy> {
    match action {
        Action::Apply { copy, .. } => Some(copy),
        Action::Delete { .. } => None,
    }
}

/// Which workloads lack which ports, as a sentence.
fn without_port(plan: &Plan) -> String {
    let named = plan.without_port.iter().take(NAMED_MAX);
    let named: Vec<_> = named
        .map(|(workload, ports)| {
            let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
            format!("{workload} ({})", ports.join(", "))
        })
        .collect();
    let more = plan.without_port.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "ExternalWorkloads lack ports that this Service leads to: {}{more}. Compare names, numbers and protocols.",
        named.join(", ")
    )
}
