//! One look through `tributary.v1` at all that a page shows.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use tonic::{Request, Status};

use super::Settings;
use crate::config::complete_authority;
use crate::proto::tributary_v1::introspection_server::Introspection;
use crate::proto::tributary_v1::{
    ExplainRequest, ListChangesRequest, ListClustersRequest, ListFindingsRequest,
    ListServicesRequest, ListViewsRequest, ServiceSummary,
};
use crate::report::clusters::Cluster;
use crate::report::explanation::Explanation;
use crate::report::findings::Finding;
use crate::report::history::RecentChange;
use crate::report::views::Top;

/// Services that are offered while one types.
const SERVICES_MAX: u32 = 200;
/// Views that are listed.
const VIEWS_MAX: u32 = 15;
/// Longest text of a query that is looked at.
const QUERY_MAX: usize = 2_000;

/// What somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// As it was typed; empty for no Service.
    pub(super) authority: String,
    /// Look from this zone; empty for none in particular.
    pub(super) zone: String,
    /// Explain this address; empty for none in particular.
    pub(super) ip: String,
}

/// Everything that is shown, at one moment.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) clusters: Vec<Cluster>,
    pub(super) findings: Vec<Finding>,
    pub(super) services: Vec<ServiceSummary>,
    pub(super) more_services: bool,
    pub(super) top: Option<Top>,
    /// The Service that is wanted, or why it cannot be shown.
    pub(super) service: Option<Result<Service, String>>,
}

/// What is known of one Service.
#[derive(Debug)]
pub(super) struct Service {
    /// Of all endpoints.
    pub(super) whole: Explanation,
    /// Of one address, if one was asked for; or why it cannot be explained.
    pub(super) one: Option<Result<Explanation, String>>,
    pub(super) changes: Vec<RecentChange>,
}

// === impl Wanted ===

impl Wanted {
    /// Reads a query, such as `authority=web.shop&ip=10.0.0.1`. What is not known is passed over.
    pub(super) fn parse(query: &str) -> Self {
        let mut wanted = Self::default();
        if query.len() > QUERY_MAX {
            return wanted;
        }
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8_lossy();
            let value = value.trim().to_owned();
            match name {
                "authority" => wanted.authority = value,
                "zone" => wanted.zone = value,
                "ip" => wanted.ip = value,
                _ => {}
            }
        }
        wanted
    }
}

// === impl Look ===

impl Look {
    /// Looks. Whatever cannot be had is left out.
    pub(super) async fn take(
        api: &impl Introspection,
        settings: &Settings,
        wanted: &Wanted,
    ) -> Self {
        let clusters = api
            .list_clusters(Request::new(ListClustersRequest {}))
            .await;
        let findings = api
            .list_findings(Request::new(ListFindingsRequest {}))
            .await;
        let services = ListServicesRequest {
            limit: SERVICES_MAX,
            ..ListServicesRequest::default()
        };
        let services = api.list_services(Request::new(services)).await;
        let services = services
            .map(tonic::Response::into_inner)
            .unwrap_or_default();
        let views = ListViewsRequest { limit: VIEWS_MAX };
        let views = api.list_views(Request::new(views)).await;
        let service = if wanted.authority.is_empty() {
            None
        } else {
            Some(Service::take(api, settings, wanted).await)
        };
        let clusters = clusters.map(|response| response.into_inner().clusters);
        let findings = findings.map(|response| response.into_inner().findings);
        Self {
            clusters: clusters.into_iter().flatten().map(Cluster::from).collect(),
            findings: findings.into_iter().flatten().map(Finding::from).collect(),
            services: services.services,
            more_services: services.more,
            top: views.ok().map(|views| views.into_inner().into()),
            service,
        }
    }

    /// Since the last change was published.
    pub(super) fn since_change(&self) -> Option<Duration> {
        let age = self.top.as_ref()?.publish_age_seconds?;
        Some(Duration::from_secs(age))
    }
}

// === impl Service ===

impl Service {
    async fn take(
        api: &impl Introspection,
        settings: &Settings,
        wanted: &Wanted,
    ) -> Result<Self, String> {
        let authority = complete_authority(&wanted.authority, &settings.cluster_domain)?;
        let zone = Some(wanted.zone.clone()).filter(|zone| !zone.is_empty());
        let words = |status: Status| status.message().to_owned();
        let explain = async |ip: String| {
            let request = ExplainRequest {
                authority: authority.clone(),
                zone: zone.clone(),
                ip,
                ..ExplainRequest::default()
            };
            let explanation = api.explain(Request::new(request)).await.map_err(words)?;
            Ok::<_, String>(Explanation::from(explanation.into_inner()))
        };
        let whole = explain(String::new()).await?;
        let one = match wanted.ip.as_str() {
            "" => None,
            ip => Some(explain(ip.to_owned()).await),
        };
        let request = ListChangesRequest {
            authority: authority.clone(),
            zone: zone.clone(),
            ..ListChangesRequest::default()
        };
        let changes = api
            .list_changes(Request::new(request))
            .await
            .map_err(words)?;
        let changes = changes.into_inner().changes.into_iter();
        Ok(Self {
            whole,
            one,
            changes: changes.map(RecentChange::from).collect(),
        })
    }
}
