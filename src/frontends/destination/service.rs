//! The destination API as a gRPC service.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Status};
use tracing::{debug, warn};

use super::client::{Client, shortened};
use super::dispatch::Refusal;
use super::metrics::{MethodMetrics, Metrics};
use super::profile::{self, Asked, NoProfile, Profiles};
use super::stream::{self, NotOpened};
use super::token::{ContextToken, TokenFlaw};
use super::translate::Translation;
use crate::answer::{Answer, Pieces};
use crate::frontends::ending::Ending;
use crate::frontends::grpc::question;
use crate::model::{Authority, Host, Namespace, NodeName};
use crate::proto::destination::GetDestination;
use crate::publish::{Catalog, SaidOnce};

/// Longest authority and token that are looked at.
const TEXT_LEN_MAX: usize = 4096;

/// What a context token looks like.
const TOKEN: &str = r#"{"ns":"NAMESPACE","nodeName":"NODE","pod":"POD"}"#;

/// Different warnings about clients that are logged; more are only counted.
const WARNINGS_MAX: usize = 200;

/// Settings of the destination API.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Domain that Service names end in.
    pub cluster_domain: String,
    /// How long a new stream waits for clusters that have not been read yet.
    pub startup_grace: Duration,
    /// Streams that may be open at once.
    pub streams_max: usize,
    /// Over how long open streams are ended at shutdown.
    pub drain: Duration,
    /// What is said of an endpoint.
    pub translation: Translation,
}

/// Serves `Get` and `GetProfile`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Destination(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    catalog: Catalog,
    settings: Settings,
    translation: Arc<Translation>,
    profiles: Profiles,
    metrics: Metrics,
    said: Mutex<SaidOnce>,
    shutdown: CancellationToken,
}

// === impl Destination ===

impl Destination {
    /// A service that answers from a catalog; when `shutdown` is cancelled its streams end.
    pub fn new(
        catalog: Catalog,
        settings: Settings,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Self {
        let translation = Arc::new(settings.translation.clone());
        let profiles = Profiles::new(
            catalog.clone(),
            Arc::clone(&translation),
            &settings.cluster_domain,
        );
        Self(Arc::new(Inner {
            catalog,
            settings,
            translation,
            profiles,
            metrics,
            said: Mutex::new(SaidOnce::up_to(WARNINGS_MAX)),
            shutdown,
        }))
    }

    async fn open_stream(
        &self,
        method: Method,
        request: Request<GetDestination>,
    ) -> Result<Pieces, Status> {
        let peer = request.remote_addr();
        let get = request.into_inner();
        let token = read_token(&get.context_token);
        let client = Client::new(&token.0, peer, &get.path);
        let result = self.open(method, &get, token, client.clone()).await;
        let code = result
            .as_ref()
            .map_or_else(Status::code, |_| tonic::Code::Ok);
        self.metrics(method).answered(code);
        match &result {
            Ok(_) => debug!(
                ?method,
                client = &*client.name,
                authority = &*client.authority,
                age_seconds = client.age_seconds(),
                "stream begins"
            ),
            Err(status) => debug!(
                ?method,
                client = &*client.name,
                authority = &*client.authority,
                age_seconds = client.age_seconds(),
                ?code,
                reason = status.message(),
                "request refused"
            ),
        }
        result
    }

    /// Opens a stream, if there may be one more and what is asked for can be answered.
    async fn open(
        &self,
        method: Method,
        get: &GetDestination,
        (token, flaw): (ContextToken, Option<TokenFlaw>),
        client: Client,
    ) -> Result<Pieces, Status> {
        let Inner {
            settings,
            metrics,
            shutdown,
            ..
        } = &*self.0;
        if shutdown.is_cancelled() {
            return Err(Status::unavailable("shutting down"));
        }
        let streams_max = settings.streams_max;
        if usize::try_from(metrics.open_count()).is_ok_and(|open| open >= streams_max) {
            return Err(Status::resource_exhausted(format!(
                "{streams_max} streams are open, which is the limit"
            )));
        }
        let authority = self.parse(method, get)?;
        if let Some(flaw) = flaw {
            metrics.token(flaw);
            self.complain(flaw, &token, &client);
        }
        match method {
            Method::Get => self.get(authority, token, client).await,
            Method::GetProfile => {
                let fqn = host_of(&get.path);
                self.get_profile(authority, fqn, token, client).await
            }
        }
    }

    /// Logs what is wrong with a client's token: as a warning once for each Pod, not once for each of its streams.
    fn complain(&self, flaw: TokenFlaw, token: &ContextToken, client: &Client) {
        let news = (flaw, &token.namespace, &token.pod);
        let is_news = self.0.said.lock().is_news(&news);
        let (name, authority) = (&*client.name, &*client.authority);
        match (flaw, is_news) {
            (TokenFlaw::Unreadable, true) => {
                warn!(
                    client = name,
                    authority,
                    expected = TOKEN,
                    "context token ignored"
                );
            }
            (TokenFlaw::Unreadable, false) => {
                debug!(
                    client = name,
                    authority,
                    expected = TOKEN,
                    "context token ignored"
                );
            }
            (TokenFlaw::Legacy, true) => {
                warn!(
                    client = name,
                    authority,
                    expected = TOKEN,
                    "legacy context token"
                );
            }
            (TokenFlaw::Legacy, false) => {
                debug!(
                    client = name,
                    authority,
                    expected = TOKEN,
                    "legacy context token"
                );
            }
        }
    }

    async fn get(
        &self,
        authority: Authority,
        token: ContextToken,
        client: Client,
    ) -> Result<Pieces, Status> {
        let inner = &*self.0;
        let Host::Service { service, instance } = authority.host else {
            return Err(Status::internal("parsed what cannot be looked up"));
        };
        let node = token.node.filter(|node| !node.is_empty());
        let request = stream::Request {
            service,
            instance,
            port: authority.port,
            node: node.map(NodeName::from),
        };
        if let Some(node) = &request.node
            && inner.catalog.zone_of(node).is_none()
        {
            debug!(
                client = &*client.name,
                authority = &*client.authority,
                node = shortened(node.as_str()),
                "zone of the client's node is not known"
            );
        }
        let grace = inner.settings.startup_grace;
        let opened = stream::open(request, &inner.catalog, grace, &inner.shutdown)
            .await
            .map_err(|error| status(&error))?;
        let translation = Arc::clone(&inner.translation);
        let open_stream = inner.metrics.get.open(client);
        let messages = opened.run(translation, self.ending(), open_stream);
        Ok(Box::pin(messages.map(Ok)))
    }

    async fn get_profile(
        &self,
        authority: Authority,
        fqn: &str,
        token: ContextToken,
        client: Client,
    ) -> Result<Pieces, Status> {
        let inner = &*self.0;
        let asked = match authority.host {
            Host::Ip(ip) => Asked::Address(ip),
            Host::Service {
                service,
                instance: Some(instance),
            } => Asked::Instance(service, instance),
            Host::Service {
                service,
                instance: None,
            } => Asked::Service(service, fqn.into()),
        };
        let namespace = token.namespace.filter(|namespace| !namespace.is_empty());
        let request = profile::Request {
            asked,
            port: authority.port,
            namespace: namespace.map(Namespace::from),
        };
        let opened = inner
            .profiles
            .open(request, inner.settings.startup_grace, &inner.shutdown)
            .await
            .map_err(|error| profile_status(&error))?;
        let open_stream = inner.metrics.get_profile.open(client);
        let messages = opened.run(self.ending(), open_stream);
        Ok(Box::pin(messages.map(Ok)))
    }

    fn parse(&self, method: Method, get: &GetDestination) -> Result<Authority, Status> {
        if get.path.len() > TEXT_LEN_MAX {
            return Err(Status::invalid_argument(format!(
                "invalid authority: longer than {TEXT_LEN_MAX} bytes"
            )));
        }
        let invalid = |reason: &dyn std::fmt::Display| {
            let path = shortened(&get.path);
            Status::invalid_argument(format!("invalid authority {path:?}: {reason}"))
        };
        let authority = Authority::parse(&get.path, &self.0.settings.cluster_domain)
            .map_err(|error| invalid(&error))?;
        match (method, &authority.host) {
            (Method::Get, Host::Ip(_)) => Err(invalid(&"IP addresses cannot be looked up by Get")),
            _ => Ok(authority),
        }
    }

    fn ending(&self) -> Ending {
        Ending::new(self.0.shutdown.clone(), self.0.settings.drain)
    }

    fn metrics(&self, method: Method) -> &MethodMetrics {
        match method {
            Method::Get => &self.0.metrics.get,
            Method::GetProfile => &self.0.metrics.get_profile,
        }
    }
}

/// The host of an authority that has been parsed, as it is written, without port and brackets.
fn host_of(path: &str) -> &str {
    let host = path.rsplit_once(':').map_or(path, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn profile_status(error: &NoProfile) -> Status {
    match error {
        NoProfile::NotOpened(error) => status(error),
        NoProfile::NoSuchInstance(..) | NoProfile::InstanceUnknown(..) => {
            Status::not_found(error.to_string())
        }
        NoProfile::Conflict(..) => Status::failed_precondition(error.to_string()),
    }
}

/// What a token says; one that is too long says nothing.
fn read_token(text: &str) -> (ContextToken, Option<TokenFlaw>) {
    if text.len() > TEXT_LEN_MAX {
        return (ContextToken::default(), Some(TokenFlaw::Unreadable));
    }
    ContextToken::parse(text)
}

fn status(error: &NotOpened) -> Status {
    // Names in it are the client's own words, and all of it goes into a header.
    let message = shortened(&error.to_string());
    match error {
        NotOpened::Refused(Refusal::ExternalName(_)) => Status::invalid_argument(message),
        NotOpened::Refused(Refusal::ServiceNotFound(_) | Refusal::NotLinked { .. }) => {
            Status::not_found(message)
        }
        NotOpened::Refused(Refusal::RemoteServiceMissing { .. }) => {
            Status::failed_precondition(message)
        }
        NotOpened::HomeNotSynced | NotOpened::NothingKnown(..) | NotOpened::ShuttingDown => {
            Status::unavailable(message)
        }
    }
}

impl NamedService for Destination {
    const NAME: &'static str = "io.linkerd.proxy.destination.Destination";
}

impl tower::Service<http::Request<Body>> for Destination {
    type Response = http::Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = match request.uri().path() {
            "/io.linkerd.proxy.destination.Destination/Get" => Some(Method::Get),
            "/io.linkerd.proxy.destination.Destination/GetProfile" => Some(Method::GetProfile),
            _ => None,
        };
        let service = self.clone();
        Box::pin(async move {
            let Some(method) = method else {
                let status = Status::unimplemented("there is no such method");
                return Ok(status.into_http().map(Answer::Generated));
            };
            let opened = match question(request).await {
                Ok(question) => service.open_stream(method, question).await,
                Err(status) => Err(status),
            };
            Ok(match opened {
                Ok(messages) => Answer::of(messages),
                Err(status) => status.into_http().map(Answer::Generated),
            })
        })
    }
}

/// A method of the destination API.
#[derive(Clone, Copy, Debug)]
enum Method {
    Get,
    GetProfile,
}
