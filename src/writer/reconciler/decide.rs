//! What has to be done for one Service, and what else its plan says.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::super::events::{CONTESTED, contested_note};
use super::super::plan::{Action, HomeAddresses, Inputs, Moment, Plan, Standing, Tally, plan};
use super::super::watches::StockDestination;
use super::super::{Mode, show};
use super::Reconciler;
use crate::index::{MemberState, ServiceSnapshot};
use crate::model::{ClusterName, ServiceName, Uid};
use crate::publish::Catalog;

/// How long hints have to be possible before they are used again.
const HINTS_RETURN: Duration = Duration::from_secs(30);

/// Whether hints are used for a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HintState {
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
pub(in crate::writer) struct Home<'a>(pub(in crate::writer) &'a Catalog);

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
    /// What is to be done for a Service now; takes note of all else that the plan says.
    pub(super) fn prepare(&mut self, service: &ServiceName, now: Instant) -> Vec<Vec<Action>> {
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

    pub(super) fn decide(&self, service: &ServiceName, now: Instant) -> Plan {
        let started = Instant::now();
        let none = BTreeMap::new();
        let existing = self.store.of(service).unwrap_or(&none);
        let snapshot = match self.options.mode {
            // As if nothing had to be there.
            Mode::Remove => ServiceSnapshot::missing(service.clone(), MemberState::Synced),
            Mode::Off | Mode::On | Mode::DryRun => {
                self.catalog.snapshot(service).unwrap_or_else(|| {
                    let home = if self.catalog.is_home_synced() {
                        MemberState::Synced
                    } else {
                        MemberState::Syncing
                    };
                    ServiceSnapshot::missing(service.clone(), home)
                })
            }
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
            refused: self.ledger.refused().clone(),
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
    pub(super) fn judge(&mut self, cluster: &ClusterName, uid: &Uid, now: Instant) {
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
        let (admitted, contested) = self.ledger.admit(actions, now);
        for name in contested {
            self.announce(service, CONTESTED, contested_note(&name), true, now);
        }
        admitted
    }

    /// Says what would be done.
    fn rehearse(&mut self, service: &ServiceName, plan: &Plan) {
        let said = show::lines(plan.actions(), self.store.of(service)).join("\n");
        let known = self.services.entry(service.clone()).or_default();
        if known.rehearsed.as_deref() == Some(said.as_str()) {
            return;
        }
        if !said.is_empty() {
            info!(%service, requests = plan.len(), "EndpointSlices would be written (dry run):\n{said}");
        }
        known.rehearsed = Some(said);
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
