//! What is wrong with how clusters are linked, read and trusted, or may become so. Pure.
//!
//! Every check says something whether or not it finds anything, so that people see what was looked at.

mod clusters;
mod links;
mod services;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::overview::duration;
use crate::index::{Address, ClusterSummary};
use crate::model::ServiceName;
use crate::proto::tributary_v1 as pb;
use crate::publish::{Catalog, ClusterStatus, Survey};

/// What findings that are about no single cluster are about.
const LINKS: &str = "links";
/// See [`LINKS`].
const SERVICES: &str = "services";

/// Everything that is looked at.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) clusters: Vec<ClusterStatus>,
    pub(super) summaries: Arc<[ClusterSummary]>,
    pub(super) survey: Survey,
    /// Addresses that several have who should not.
    pub(super) addresses: Vec<(IpAddr, Arc<Address>)>,
    /// Clusters that Services name and nobody links, by Service.
    pub(super) unlinked: Vec<(ServiceName, String)>,
    pub(super) now: SystemTime,
}

/// A finding in the making.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    severity: pb::Severity,
    check: &'static str,
    subject: String,
    what: String,
    since: Option<Duration>,
    meaning: String,
    action: String,
}

// === impl Facts ===

impl Facts {
    /// What is known now.
    pub(super) fn of(catalog: &Catalog) -> Self {
        let clusters = catalog.board().all();
        let unlinked = catalog.services(|_| true).into_iter().flat_map(|overview| {
            let snapshot = overview.snapshot;
            let service = snapshot.service.clone();
            let members = snapshot.members.into_vec().into_iter();
            let unlinked = members
                .filter(|member| member.state == crate::index::MemberState::NotLinked)
                .map(move |member| (service.clone(), member.cluster.name.to_string()));
            unlinked.collect::<Vec<_>>()
        });
        Self {
            clusters,
            summaries: catalog.clusters(),
            survey: catalog.board().surveyed(),
            addresses: catalog.addresses(services::is_contested),
            unlinked: unlinked.collect(),
            now: SystemTime::now(),
        }
    }

    /// Everything that there is to say about them.
    pub(super) fn findings(&self) -> Vec<pb::Finding> {
        let mut findings = Vec::new();
        for cluster in &self.clusters {
            clusters::check(self, cluster, &mut findings);
        }
        links::check(self, &mut findings);
        services::check(self, &mut findings);
        let place = |finding: &Finding| {
            let at = |name: &str| {
                self.clusters
                    .iter()
                    .position(|known| known.name.as_str() == name)
            };
            match finding.subject.as_str() {
                SERVICES => usize::MAX,
                // Behind the home cluster.
                LINKS => 1,
                name => at(name).map_or(usize::MAX - 1, |at| 2 * at),
            }
        };
        findings.sort_by_key(|finding| {
            let worst_first = -(finding.severity as i32);
            (place(finding), worst_first)
        });
        findings.into_iter().map(Finding::into_message).collect()
    }

    fn summary(&self, cluster: &ClusterStatus) -> Option<&ClusterSummary> {
        self.summaries
            .iter()
            .find(|summary| summary.name == cluster.name)
    }
}

// === impl Finding ===

impl Finding {
    fn ok(check: &'static str, subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            severity: pb::Severity::Ok,
            check,
            subject: subject.into(),
            what: what.into(),
            since: None,
            meaning: String::new(),
            action: String::new(),
        }
    }

    fn new(
        severity: pb::Severity,
        check: &'static str,
        subject: impl Into<String>,
        what: impl Into<String>,
        meaning: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            meaning: meaning.into(),
            action: action.into(),
            ..Self::ok(check, subject, what)
        }
    }

    fn since(self, since: Duration) -> Self {
        Self {
            since: Some(since),
            ..self
        }
    }

    fn into_message(self) -> pb::Finding {
        pb::Finding {
            severity: self.severity.into(),
            check: self.check.to_owned(),
            subject: self.subject,
            what: self.what,
            since: self.since.and_then(duration),
            meaning: self.meaning,
            action: self.action,
        }
    }
}
