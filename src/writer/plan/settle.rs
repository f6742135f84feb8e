//! From the copies of one cluster that are there to those that should be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::copy::{Content, Copy, Existing};
use super::{Action, Inputs, Judgement, Plan, Report, Tally, Unit};
use crate::model::{ClusterName, SliceName, Uid};

/// What leads from the copies of one cluster that are there to those that should be.
pub(super) fn settle(inputs: &Inputs<'_>, cluster: ClusterName, unit: Unit, plan: &mut Plan) {
    let there: Vec<&Existing> = inputs
        .existing
        .values()
        .filter(|existing| existing.cluster == cluster)
        .collect();
    let mut tally = Tally::default();
    let Unit::Wanted(copies) = unit else {
        tally.count_existing(&there);
        plan.tallies.insert(cluster, tally);
        return;
    };
    let judgement = judgement(inputs, &cluster, &there, plan);
    tally.is_other_cluster = judgement.is_some();
    tally.judge(&there, &copies);
    let wanted: BTreeSet<&SliceName> = copies.iter().map(|copy| &copy.name).collect();
    let obsolete = there
        .iter()
        .filter(|existing| !wanted.contains(&existing.name));
    let mut deletes: Vec<Action> = obsolete
        .filter(|existing| !existing.is_going)
        .map(|existing| Action::Delete {
            name: existing.name.clone(),
            uid: existing.uid.clone(),
            resource_version: existing.resource_version.clone(),
        })
        .collect();
    let (mut growing, mut shrinking) = (Vec::new(), Vec::new());
    for copy in copies {
        tally.count(&copy.content);
        let existing = inputs.existing.get(&copy.name);
        let Some((only_grows, over)) = difference(existing, &copy, judgement) else {
            continue;
        };
        let action = Action::Apply {
            copy: Box::new(copy),
            over,
            only_grows,
        };
        if only_grows {
            growing.push(action);
        } else {
            shrinking.push(action);
        }
    }
    if judgement == Some(Judgement::Doubted) && !(shrinking.is_empty() && deletes.is_empty()) {
        plan.reports.push(Report::Doubted(cluster.clone()));
        shrinking.clear();
        deletes.clear();
    }
    plan.is_urgent |= !shrinking.is_empty() || !deletes.is_empty();
    let mut actions = growing;
    actions.append(&mut shrinking);
    actions.append(&mut deletes);
    if !actions.is_empty() {
        plan.units.insert(cluster.clone(), actions);
    }
    plan.tallies.insert(cluster, tally);
}

/// Whether a cluster is another one than its copies were made from, and then: whether that is believed.
fn judgement(
    inputs: &Inputs<'_>,
    cluster: &ClusterName,
    there: &[&Existing],
    plan: &mut Plan,
) -> Option<Judgement> {
    let mut members = inputs.snapshot.members.iter();
    let uid = members
        .find(|member| member.cluster.name == *cluster)?
        .cluster_uid
        .as_ref()?;
    let is_another = there.iter().any(|existing| {
        let recorded = &existing.source.cluster_uid;
        !recorded.is_empty() && recorded != uid
    });
    if !is_another {
        return None;
    }
    let standing = inputs.clusters.get(cluster);
    let judged = standing.and_then(|standing| standing.judged.as_ref());
    if let Some((_, judgement)) = judged.filter(|(judged, _)| judged == uid) {
        return Some(*judgement);
    }
    plan.unjudged.insert(cluster.clone(), uid.clone());
    Some(Judgement::Doubted)
}

/// Whether a copy has to be written, and then: whether nobody loses anything by it, and which object it is written over.
fn difference(
    existing: Option<&Existing>,
    copy: &Copy,
    judgement: Option<Judgement>,
) -> Option<(bool, Option<Uid>)> {
    let Some(existing) = existing else {
        return Some((true, None));
    };
    // What is going takes no more changes: it is written anew once it is gone.
    if existing.is_going || existing.is_newer_than(copy) {
        return None;
    }
    let renamed = judgement == Some(Judgement::Believed)
        && existing.source.cluster_uid != copy.source.cluster_uid;
    if existing.says(copy) && !renamed {
        return None;
    }
    let before = existing.content.as_ref();
    let only_grows = before.is_some_and(|content| content.only_grows_into(&copy.content));
    Some((only_grows, Some(existing.uid.clone())))
}

// === impl Existing ===

impl Existing {
    /// Whether it was made from a later state of the very slice that `copy` was made from.
    fn is_newer_than(&self, copy: &Copy) -> bool {
        !copy.source.uid.is_empty()
            && self.source.uid == copy.source.uid
            && self.source.generation > copy.source.generation
    }
}

// === impl Tally ===

impl Tally {
    fn count(&mut self, content: &Content) {
        self.copies += 1;
        for endpoint in &content.endpoints {
            let conditions = endpoint.conditions;
            if conditions.terminating {
                self.terminating += 1;
            } else if conditions.ready {
                self.ready += 1;
            } else {
                self.not_ready += 1;
            }
        }
    }

    fn count_existing(&mut self, there: &[&Existing]) {
        for existing in there {
            self.before += existing.addresses;
            match &existing.content {
                Some(content) => self.count(content),
                None => self.copies += 1,
            }
        }
    }

    /// How much of what is there would go.
    fn judge(&mut self, there: &[&Existing], copies: &[Copy]) {
        self.before = there.iter().map(|existing| existing.addresses).sum();
        let kept: BTreeSet<IpAddr> = copies
            .iter()
            .flat_map(|copy| &copy.content.endpoints)
            .map(|endpoint| endpoint.address)
            .collect();
        let listed = there
            .iter()
            .filter_map(|existing| existing.content.as_ref());
        self.lost = listed
            .flat_map(|content| &content.endpoints)
            .filter(|endpoint| !kept.contains(&endpoint.address))
            .count();
    }

    /// Endpoints in all.
    pub(in crate::writer) fn endpoints(&self) -> usize {
        self.ready + self.not_ready + self.terminating
    }

    /// What of it can be added up over Services.
    pub(in crate::writer) fn lasting(self) -> Self {
        Self {
            before: 0,
            lost: 0,
            is_other_cluster: false,
            ..self
        }
    }

    pub(in crate::writer) fn add(&mut self, other: Self) {
        self.copies += other.copies;
        self.ready += other.ready;
        self.not_ready += other.not_ready;
        self.terminating += other.terminating;
    }

    pub(in crate::writer) fn subtract(&mut self, other: Self) {
        self.copies = self.copies.saturating_sub(other.copies);
        self.ready = self.ready.saturating_sub(other.ready);
        self.not_ready = self.not_ready.saturating_sub(other.not_ready);
        self.terminating = self.terminating.saturating_sub(other.terminating);
    }
}
