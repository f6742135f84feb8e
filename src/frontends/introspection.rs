//! `tributary.v1`: what operators ask; see `proto/tributary/v1`.
//!
//! Every figure comes from the same catalog that answers proxies.

mod report;

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::index::ClientLocality;
use crate::model::{Authority, Host, NodeName, Text, Zone};
use crate::proto::tributary_v1 as pb;
use crate::proto::tributary_v1::introspection_server::Introspection as Api;
use crate::publish::{Catalog, Subscription};

/// Answers operators. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Introspection {
    catalog: Catalog,
    cluster_domain: Arc<str>,
    shutdown: CancellationToken,
}

type Snapshots = Pin<Box<dyn Stream<Item = Result<pb::EndpointsSnapshot, Status>> + Send>>;

/// One `WatchEndpoints` stream.
struct Watch {
    catalog: Catalog,
    subscription: Subscription,
    authority: String,
    port: u16,
    instance: Option<Text>,
    client: Client,
    sent: Option<pb::EndpointsSnapshot>,
    shutdown: CancellationToken,
}

/// Whose answer is wanted.
struct Client {
    node: Option<NodeName>,
    /// Overrides the zone of the node; an empty one is no zone.
    zone: Option<String>,
}

// === impl Introspection ===

impl Introspection {
    /// A service that answers from a catalog; when `shutdown` is cancelled its streams end.
    pub fn new(catalog: Catalog, cluster_domain: &str, shutdown: CancellationToken) -> Self {
        Self {
            catalog,
            cluster_domain: cluster_domain.into(),
            shutdown,
        }
    }
}

#[tonic::async_trait]
impl Api for Introspection {
    async fn list_clusters(
        &self,
        _: Request<pb::ListClustersRequest>,
    ) -> Result<Response<pb::ListClustersResponse>, Status> {
        let clusters = report::clusters(&self.catalog);
        Ok(Response::new(pb::ListClustersResponse { clusters }))
    }

    type WatchEndpointsStream = Snapshots;

    async fn watch_endpoints(
        &self,
        request: Request<pb::WatchEndpointsRequest>,
    ) -> Result<Response<Snapshots>, Status> {
        let request = request.into_inner();
        let authority = Authority::parse(&request.authority, &self.cluster_domain)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let Host::Service { service, instance } = authority.host else {
            return Err(Status::invalid_argument(
                "IP addresses cannot be looked up; name a Service",
            ));
        };
        let Some(subscription) = self.catalog.subscribe(&service) else {
            return Err(if self.catalog.is_home_synced() {
                Status::not_found(format!("service {service} not found"))
            } else {
                Status::unavailable("the home cluster has not been read yet")
            });
        };
        let watch = Watch {
            catalog: self.catalog.clone(),
            subscription,
            authority: report::canonical(
                &service,
                instance.as_ref(),
                authority.port,
                &self.cluster_domain,
            ),
            port: authority.port,
            instance,
            client: Client {
                node: report::node_of_token(&request.context_token),
                zone: request.zone,
            },
            sent: None,
            shutdown: self.shutdown.clone(),
        };
        let snapshots = futures::stream::unfold(watch, |mut watch| async move {
            let snapshot = watch.next().await?;
            Some((Ok(snapshot), watch))
        });
        Ok(Response::new(Box::pin(snapshots)))
    }
}

// === impl Watch ===

impl Watch {
    /// The next snapshot that says something else than the one before, but for ages.
    async fn next(&mut self) -> Option<pb::EndpointsSnapshot> {
        loop {
            let now = self.snapshot();
            let news = self
                .sent
                .as_ref()
                .is_none_or(|sent| report::without_ages(sent) != report::without_ages(&now));
            if news {
                self.sent = Some(now.clone());
                return Some(now);
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                () = self.subscription.changed() => {}
            }
        }
    }

    fn snapshot(&self) -> pb::EndpointsSnapshot {
        let client = ClientLocality {
            zone: match &self.client.zone {
                Some(zone) if zone.is_empty() => None,
                Some(zone) => Some(Zone::from(zone.as_str())),
                None => self
                    .client
                    .node
                    .as_ref()
                    .and_then(|node| self.catalog.zone_of(node)),
            },
            node: self.client.node.clone(),
        };
        self.subscription
            .with_snapshot(|snapshot| pb::EndpointsSnapshot {
                authority: self.authority.clone(),
                resolution: report::resolution(snapshot).into(),
                members: report::members(snapshot, self.catalog.board()),
                endpoints: report::endpoints(
                    snapshot,
                    self.port,
                    self.instance.as_ref(),
                    &client,
                    self.catalog.policy(),
                ),
            })
    }
}
