//! Hints are a property of the whole Service: consumers ignore all of them if one ready endpoint has none.

use std::collections::BTreeMap;

use super::super::copy::Content;
use super::endpoints::is_label_value;
use super::{Inputs, Unit};
use crate::model::copying::Hints;
use crate::model::{ClusterName, Zone};

/// Gives every ready endpoint the hints that the setting asks for, if every one can have some, and otherwise none.
///
/// Returns whether every one can. What is there of clusters that are not known counts as well, as it is.
pub(super) fn compute(inputs: &Inputs<'_>, units: &mut BTreeMap<ClusterName, Unit>) -> bool {
    let mode = inputs.settings.hints;
    if mode == Hints::Off {
        return true;
    }
    let home = &inputs.settings.home;
    for (cluster, unit) in &mut *units {
        if let Unit::Wanted(copies) = unit {
            for copy in copies {
                hint(
                    mode,
                    (cluster != home).then_some(cluster),
                    &mut copy.content,
                );
            }
        }
    }
    let possible = units.iter().all(|(cluster, unit)| match unit {
        Unit::Wanted(copies) => copies.iter().all(|copy| is_complete(&copy.content)),
        Unit::Untouched => inputs
            .existing
            .values()
            .filter(|existing| existing.cluster == *cluster)
            .all(|existing| existing.content.as_ref().is_some_and(is_complete)),
    });
    if !possible || inputs.moment.hints_suspended {
        for unit in units.values_mut() {
            if let Unit::Wanted(copies) = unit {
                for endpoint in copies
                    .iter_mut()
                    .flat_map(|copy| &mut copy.content.endpoints)
                {
                    endpoint.hints.clear();
                }
            }
        }
    }
    possible
}

fn is_complete(content: &Content) -> bool {
    let mut ready = content
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.conditions.ready);
    ready.all(|endpoint| !endpoint.hints.is_empty())
}

/// Gives endpoints their hints; `elsewhere` is the cluster that they are in, if that is not the home cluster.
fn hint(mode: Hints, elsewhere: Option<&ClusterName>, content: &mut Content) {
    let elsewhere = elsewhere.map(|cluster| Zone::from(cluster.text().clone()));
    for endpoint in &mut content.endpoints {
        let zone = match mode {
            Hints::Off => None,
            // They are there already.
            Hints::Copy => continue,
            Hints::LocalFirst => elsewhere.as_ref().or(endpoint.zone.as_ref()),
            Hints::Zone => endpoint.zone.as_ref(),
        };
        let zone = zone.filter(|zone| endpoint.conditions.ready && is_label_value(zone.as_str()));
        endpoint.hints = zone.cloned().into_iter().collect();
    }
}
