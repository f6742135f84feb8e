//! `tributary.v1`: what operators ask; see `proto/tributary/v1`.
//!
//! Every figure comes from the same catalog that answers proxies.

mod advice;
mod explain;
mod findings;
mod history;
mod overview;
mod report;
mod words;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use self::explain::{Question, Wanted};
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

/// How often somebody who follows the clusters is told what has changed.
const CLUSTERS_INTERVAL: Duration = Duration::from_secs(1);

type Clusters = Pin<Box<dyn Stream<Item = Result<pb::ListClustersResponse, Status>> + Send>>;
type Snapshots = Pin<Box<dyn Stream<Item = Result<pb::EndpointsSnapshot, Status>> + Send>>;

/// One `WatchEndpoints` stream.
struct Watch {
    catalog: Catalog,
    asked: Asked,
    client: Client,
    sent: Option<pb::EndpointsSnapshot>,
    shutdown: CancellationToken,
}

/// What an authority means.
struct Asked {
    /// The authority in full.
    authority: String,
    port: u16,
    instance: Option<Text>,
    subscription: Subscription,
}

/// One `WatchClusters` stream.
struct WatchClusters {
    catalog: Catalog,
    sent: Option<Vec<pb::Cluster>>,
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

    /// Follows the Service that an authority names.
    fn look_up(&self, authority: &str) -> Result<Asked, Status> {
        let authority = Authority::parse(authority, &self.cluster_domain)
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
        let port = authority.port;
        let domain = &self.cluster_domain;
        Ok(Asked {
            authority: report::canonical(&service, instance.as_ref(), port, domain),
            port,
            instance,
            subscription,
        })
    }
}

#[tonic::async_trait]
impl Api for Introspection {
    async fn list_clusters(
        &self,
        _: Request<pb::ListClustersRequest>,
    ) -> Result<Response<pb::ListClustersResponse>, Status> {
        let clusters = overview::clusters(&self.catalog);
        Ok(Response::new(pb::ListClustersResponse { clusters }))
    }

    type WatchClustersStream = Clusters;

    async fn watch_clusters(
        &self,
        _: Request<pb::ListClustersRequest>,
    ) -> Result<Response<Clusters>, Status> {
        let watch = WatchClusters {
            catalog: self.catalog.clone(),
            sent: None,
            shutdown: self.shutdown.clone(),
        };
        let clusters = futures::stream::unfold(watch, |mut watch| async move {
            let clusters = watch.next().await?;
            Some((Ok(pb::ListClustersResponse { clusters }), watch))
        });
        Ok(Response::new(Box::pin(clusters)))
    }

    async fn list_services(
        &self,
        request: Request<pb::ListServicesRequest>,
    ) -> Result<Response<pb::ListServicesResponse>, Status> {
        let services = overview::services(&self.catalog, request.get_ref());
        Ok(Response::new(services))
    }

    async fn list_views(
        &self,
        request: Request<pb::ListViewsRequest>,
    ) -> Result<Response<pb::ListViewsResponse>, Status> {
        let views = overview::views(&self.catalog, request.into_inner());
        Ok(Response::new(views))
    }

    async fn list_changes(
        &self,
        request: Request<pb::ListChangesRequest>,
    ) -> Result<Response<pb::ListChangesResponse>, Status> {
        let request = request.into_inner();
        let asked = self.look_up(&request.authority)?;
        let client = Client {
            node: report::node_of_token(&request.context_token),
            zone: request.zone,
        };
        let service = asked
            .subscription
            .with_snapshot(|snapshot| snapshot.service.clone());
        let changes = history::changes(
            &self.catalog.history(&service),
            asked.port,
            asked.instance.as_ref(),
            &client.locality(&self.catalog),
            self.catalog.policy(),
            None,
        );
        let authority = asked.authority;
        Ok(Response::new(pb::ListChangesResponse {
            authority,
            changes,
        }))
    }

    async fn list_findings(
        &self,
        _: Request<pb::ListFindingsRequest>,
    ) -> Result<Response<pb::ListFindingsResponse>, Status> {
        let findings = findings::Facts::of(&self.catalog).findings();
        Ok(Response::new(pb::ListFindingsResponse { findings }))
    }

    async fn explain(
        &self,
        request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::Explanation>, Status> {
        let request = request.into_inner();
        let only = Wanted::parse(&request.ip).map_err(Status::invalid_argument)?;
        let asked = self.look_up(&request.authority)?;
        let client = Client {
            node: report::node_of_token(&request.context_token),
            zone: request.zone,
        };
        let question = Question {
            authority: asked.authority,
            port: asked.port,
            instance: asked.instance.as_ref(),
            client: &client.locality(&self.catalog),
            only,
        };
        let snapshot = asked.subscription.snapshot();
        let explanation = explain::explanation(&snapshot, question, &self.catalog);
        Ok(Response::new(explanation))
    }

    type WatchEndpointsStream = Snapshots;

    async fn watch_endpoints(
        &self,
        request: Request<pb::WatchEndpointsRequest>,
    ) -> Result<Response<Snapshots>, Status> {
        let request = request.into_inner();
        let asked = self.look_up(&request.authority)?;
        let watch = Watch {
            catalog: self.catalog.clone(),
            asked,
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
                () = self.asked.subscription.changed() => {}
            }
        }
    }

    fn snapshot(&self) -> pb::EndpointsSnapshot {
        let client = self.client.locality(&self.catalog);
        let Asked {
            authority,
            port,
            instance,
            subscription,
        } = &self.asked;
        subscription.with_snapshot(|snapshot| pb::EndpointsSnapshot {
            authority: authority.clone(),
            resolution: report::resolution(snapshot).into(),
            members: report::members(snapshot, self.catalog.board()),
            endpoints: report::endpoints(
                snapshot,
                *port,
                instance.as_ref(),
                &client,
                self.catalog.policy(),
            ),
        })
    }
}

// === impl WatchClusters ===

impl WatchClusters {
    /// The clusters, once they are not what was sent last but for ages and counts.
    async fn next(&mut self) -> Option<Vec<pb::Cluster>> {
        loop {
            let clusters = overview::clusters(&self.catalog);
            let now = overview::without_ages(&clusters);
            if self.sent.as_ref() != Some(&now) {
                self.sent = Some(now);
                return Some(clusters);
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                () = tokio::time::sleep(CLUSTERS_INTERVAL) => {}
            }
        }
    }
}

// === impl Client ===

impl Client {
    /// Where the client is, as far as it is known.
    fn locality(&self, catalog: &Catalog) -> ClientLocality {
        let of_node = || catalog.zone_of(self.node.as_ref()?);
        ClientLocality {
            zone: match &self.zone {
                Some(zone) if zone.is_empty() => None,
                Some(zone) => Some(Zone::from(zone.as_str())),
                None => of_node(),
            },
            node: self.node.clone(),
        }
    }
}
