//! Which Services copies are written for.

use super::{Inputs, Report, is_own_name};
use crate::model::{Membership, ServiceDetails, ServiceFacts};

use crate::model::copying::Select;

/// Why nothing is written for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Ineligible {
    /// It is none that stands for Services of other clusters without a gateway.
    #[error("it is neither a mirror without a gateway nor a federated Service")]
    NotMulticluster,
    /// It has a selector, so that Kubernetes writes slices for it.
    #[error("it has a selector, so Kubernetes writes its EndpointSlices")]
    Selector,
    /// It is of type `ExternalName`.
    #[error("it is of type ExternalName")]
    ExternalName,
    /// Other clusters may mirror it.
    #[error("it is labelled for export: other clusters would mirror the copies; remove the label")]
    Exported,
    /// Its annotation, or the lack of one, says no.
    #[error("its annotation tributary.dev/endpoint-slices does not ask for it")]
    OptedOut,
    /// Settings leave it out.
    #[error("its namespace or its labels are not selected")]
    NotSelected,
}

/// What becomes of a Service.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    /// Copies are written for it.
    Eligible(&'a ServiceFacts, &'a ServiceDetails),
    /// Nothing is changed until something else does.
    Wait(Vec<Report>),
    /// Kubernetes is removing it, and its copies with it.
    Leave,
    /// Its copies have to go.
    Remove(Vec<Report>),
}

/// Decides whether copies are written for a Service of a home cluster that is synced.
pub(super) fn verdict<'a>(inputs: &Inputs<'a>) -> Verdict<'a> {
    let Some(facts) = inputs.snapshot.facts.as_deref() else {
        return Verdict::Remove(Vec::new());
    };
    let Some(details) = facts.details.as_deref().filter(|details| details.is_mirror) else {
        return Verdict::Remove(Vec::new());
    };
    if details.is_going {
        return Verdict::Leave;
    }
    if let Some(reason) = ineligible(inputs, facts, details) {
        // Gateway mirrors are what most Services of this label are: nothing to report.
        let is_news = reason != Ineligible::NotMulticluster;
        return Verdict::Remove(
            is_news
                .then_some(Report::NotEligible(reason))
                .into_iter()
                .collect(),
        );
    }
    let beside = inputs.snapshot.beside.iter();
    let foreign: Vec<_> = beside
        // One of ours that somebody has taken the label from: it is written again, and gets it back.
        .filter(|chunk| {
            !(chunk.facts.origin.managed_by.is_empty() && is_own_name(inputs, &chunk.name))
        })
        .map(|chunk| (chunk.name.clone(), chunk.facts.origin.managed_by.clone()))
        .collect();
    if foreign.is_empty() {
        return Verdict::Eligible(facts, details);
    }
    let reports = vec![Report::ForeignSlices(foreign)];
    if inputs.moment.yield_to_others {
        Verdict::Remove(reports)
    } else {
        Verdict::Wait(reports)
    }
}

fn ineligible(
    inputs: &Inputs<'_>,
    facts: &ServiceFacts,
    details: &ServiceDetails,
) -> Option<Ineligible> {
    let settings = inputs.settings;
    let is_multicluster = match &facts.membership {
        Membership::Local => false,
        Membership::Remote(remote) => {
            !remote.cluster.as_str().is_empty()
                && remote.service.as_ref().is_some_and(|name| !name.is_empty())
        }
        Membership::Federated(_) => true,
    };
    if !is_multicluster {
        return Some(Ineligible::NotMulticluster);
    }
    if details.has_selector {
        return Some(Ineligible::Selector);
    }
    if facts.external_name {
        return Some(Ineligible::ExternalName);
    }
    if details.is_exported {
        return Some(Ineligible::Exported);
    }
    let is_wanted = match details.endpoint_slices.as_deref() {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => settings.select == Select::All,
    };
    if !is_wanted {
        return Some(Ineligible::OptedOut);
    }
    let namespace = &inputs.snapshot.service.namespace;
    let is_selected = (settings.namespaces.is_empty() || settings.namespaces.contains(namespace))
        && settings.services.matches(&details.labels);
    (!is_selected).then_some(Ineligible::NotSelected)
}
