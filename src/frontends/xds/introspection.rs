//! The clients of xDS, told to people; see `proto/tributary/v1/xds.proto`.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::resource::{Kind, Variant};
use super::roster::{Roster, Standing, Subscription};
use super::stream::Scope;
use crate::proto::tributary_v1 as pb;
use crate::proto::tributary_v1::xds_introspection_server::XdsIntrospection as Api;

/// Streams in one answer if nothing is said.
const PAGE: usize = 100;
/// Streams in one answer at most.
const PAGE_MAX: usize = 1000;

/// Answers people. Cheap to clone.
#[derive(Clone, Debug)]
pub struct XdsIntrospection {
    roster: Roster,
}

// === impl XdsIntrospection ===

impl XdsIntrospection {
    pub(super) fn new(roster: Roster) -> Self {
        Self { roster }
    }

    fn list(&self, asked: &pb::ListXdsClientsRequest) -> pb::ListXdsClientsResponse {
        let page = match usize::try_from(asked.page_size) {
            Ok(0) => PAGE,
            Ok(size) => size.min(PAGE_MAX),
            Err(_) => PAGE_MAX,
        };
        let now = Instant::now();
        let mut clients = Vec::new();
        let mut last = 0;
        let mut next_page_token = 0;
        for (number, standing) in self.roster.after(asked.page_token) {
            let standing: &Mutex<Standing> = &standing;
            let standing = standing.lock();
            if !is_asked_for(&standing, asked, now) {
                continue;
            }
            if clients.len() == page {
                next_page_token = last;
                break;
            }
            clients.push(client(&standing, now));
            last = number;
        }
        pb::ListXdsClientsResponse {
            clients,
            streams_open: count(self.roster.len()),
            next_page_token,
        }
    }
}

#[tonic::async_trait]
impl Api for XdsIntrospection {
    async fn list_xds_clients(
        &self,
        request: Request<pb::ListXdsClientsRequest>,
    ) -> Result<Response<pb::ListXdsClientsResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref())))
    }
}

fn is_asked_for(standing: &Standing, asked: &pb::ListXdsClientsRequest, now: Instant) -> bool {
    let text = asked.text.as_str();
    let has_text = || {
        let address = standing.address.map(|address| address.to_string());
        let says = standing.client.as_ref();
        address.is_some_and(|address| address.contains(text))
            || says.is_some_and(|client| client.id.contains(text) || client.agent.contains(text))
    };
    (text.is_empty() || has_text()) && (!asked.troubled || standing.is_troubled(now))
}

fn client(standing: &Standing, now: Instant) -> pb::XdsClient {
    let says = standing.client.as_ref();
    let cluster = says.and_then(|client| client.style.cluster.as_ref());
    pb::XdsClient {
        address: standing
            .address
            .map_or_else(String::new, |address| address.to_string()),
        node_id: says.map_or_else(String::new, |client| client.id.clone()),
        user_agent: says.map_or_else(String::new, |client| client.agent.clone()),
        cluster: cluster.map_or_else(String::new, ToString::to_string),
        variant: match standing.variant {
            Variant::StateOfTheWorld => pb::XdsVariant::Sotw.into(),
            Variant::Delta => pb::XdsVariant::Delta.into(),
        },
        aggregated: standing.scope == Scope::Aggregated,
        age: ago(standing.since, now),
        subscriptions: Kind::ALL
            .into_iter()
            .zip(&standing.kinds)
            .filter_map(|(kind, subscription)| Some(told(kind, subscription.as_ref()?, now)))
            .collect(),
    }
}

fn told(kind: Kind, subscription: &Subscription, now: Instant) -> pb::XdsSubscription {
    let sent = subscription.sent;
    let accepted = subscription.accepted;
    let refused = subscription.refused.as_ref();
    let verdict = if sent.is_none() {
        pb::XdsVerdict::Unspecified
    } else if subscription.waiting {
        pb::XdsVerdict::Waiting
    } else if subscription.is_refused() {
        pb::XdsVerdict::Refused
    } else {
        pb::XdsVerdict::Accepted
    };
    pb::XdsSubscription {
        type_url: kind.type_url().to_owned(),
        names: subscription.names.iter().map(ToString::to_string).collect(),
        names_total: count(subscription.names_total),
        wildcard: subscription.wildcard,
        version: sent.map_or_else(String::new, |(version, _)| version.to_string()),
        sent_ago: sent.and_then(|(_, at)| ago(at, now)),
        verdict: verdict.into(),
        accepted_version: accepted.map_or_else(String::new, |(version, _)| version.to_string()),
        accepted_ago: accepted.and_then(|(_, at)| ago(at, now)),
        refusal: refused.map_or_else(String::new, |(_, _, reason)| reason.clone()),
        refused_version: refused.map_or_else(String::new, |(version, ..)| version.to_string()),
        refused_ago: refused.and_then(|(_, at, _)| ago(*at, now)),
    }
}

fn ago(at: Instant, now: Instant) -> Option<prost_types::Duration> {
    let since: Duration = now.saturating_duration_since(at);
    prost_types::Duration::try_from(since).ok()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(clients: &[pb::XdsClient]) -> Vec<bool> {
        clients.iter().map(|client| client.aggregated).collect()
    }

    #[test]
    fn answers_are_bounded_and_go_on_where_they_ended() {
        let roster = Roster::default();
        let scopes = [Scope::Aggregated, Scope::Endpoints, Scope::Endpoints];
        let _places = scopes.map(|scope| roster.enter(None, Variant::Delta, scope));
        let service = XdsIntrospection::new(roster);
        let mut asked = pb::ListXdsClientsRequest {
            page_size: 2,
            ..Default::default()
        };
        let first = service.list(&asked);
        assert_eq!(streams(&first.clients), [true, false]);
        assert_eq!((first.streams_open, first.next_page_token), (3, 2));
        asked.page_token = first.next_page_token;
        let second = service.list(&asked);
        assert_eq!(streams(&second.clients), [false]);
        assert_eq!(second.next_page_token, 0);
        let troubled = pb::ListXdsClientsRequest {
            troubled: true,
            ..Default::default()
        };
        assert_eq!(service.list(&troubled).clients, []);
    }
}
