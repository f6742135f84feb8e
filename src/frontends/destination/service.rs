//! The destination API as a gRPC service.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use futures::{Stream, StreamExt};
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, ServerStreamingService};
use tonic::{Request, Response, Status};
use tracing::{debug, warn};

use super::client::{Client, shortened};
use super::dispatch::Refusal;
use super::metrics::Metrics;
use super::stream::{self, Ending, NotOpened};
use super::token::{ContextToken, TokenError};
use super::translate::{PREFIX_LEN, Translation};
use crate::model::{Authority, Host, NodeName};
use crate::proto::destination::GetDestination;
use crate::publish::Catalog;

/// Longest authority and token that are looked at.
const TEXT_LEN_MAX: usize = 4096;

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

/// Serves `Get`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Destination(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    catalog: Catalog,
    settings: Settings,
    translation: Arc<Translation>,
    metrics: Metrics,
    shutdown: CancellationToken,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

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
        Self(Arc::new(Inner {
            catalog,
            settings,
            translation,
            metrics,
            shutdown,
        }))
    }

    async fn get(&self, request: Request<GetDestination>) -> Result<Response<Frames>, Status> {
        let peer = request.remote_addr();
        let get = request.into_inner();
        let token = read_token(&get.context_token);
        let client = Client::new(&token.0, peer, &get.path);
        let result = self.open(&get, token, client.clone()).await;
        let code = result
            .as_ref()
            .map_or_else(Status::code, |_| tonic::Code::Ok);
        self.0.metrics.answered(code);
        if let Err(status) = &result {
            debug!(
                client = &*client.name,
                authority = &*client.authority,
                age_seconds = client.age_seconds(),
                ?code,
                reason = status.message(),
                "get refused"
            );
        }
        result.map(Response::new)
    }

    async fn open(
        &self,
        get: &GetDestination,
        (token, bad_token): (ContextToken, Option<TokenError>),
        client: Client,
    ) -> Result<Frames, Status> {
        let Inner {
            catalog,
            settings,
            translation,
            metrics,
            shutdown,
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
        let request = self.parse(get, &token)?;
        if let Some(error) = bad_token {
            metrics.bad_token();
            warn!(
                client = &*client.name,
                authority = &*client.authority,
                %error,
                "context token ignored"
            );
        }
        let opened = stream::open(request, catalog, settings.startup_grace, shutdown)
            .await
            .map_err(|error| status(&error))?;
        debug!(
            client = &*client.name,
            authority = &*client.authority,
            age_seconds = client.age_seconds(),
            "stream begins"
        );
        let ending = Ending::new(shutdown.clone(), settings.drain);
        let frames = opened.run(Arc::clone(translation), ending, metrics.open(client));
        Ok(Box::pin(frames.map(Ok)))
    }

    fn parse(&self, get: &GetDestination, token: &ContextToken) -> Result<stream::Request, Status> {
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
        let Host::Service { service, instance } = authority.host else {
            return Err(invalid(&"IP addresses cannot be looked up by Get"));
        };
        Ok(stream::Request {
            service,
            instance,
            port: authority.port,
            node: token
                .node
                .as_deref()
                .filter(|node| !node.is_empty())
                .map(NodeName::from),
        })
    }
}

/// What a token says; one that is too long says nothing.
fn read_token(text: &str) -> (ContextToken, Option<TokenError>) {
    if text.len() > TEXT_LEN_MAX {
        return (ContextToken::default(), Some(TokenError));
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
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Get(self.clone());
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/io.linkerd.proxy.destination.Destination/Get" => {
                    tonic::server::Grpc::new(GetCodec)
                        .server_streaming(method, request)
                        .await
                }
                _ => Status::unimplemented("this server answers Get only").into_http(),
            })
        })
    }
}

#[derive(Debug)]
struct Get(Destination);

impl ServerStreamingService<GetDestination> for Get {
    type Response = Bytes;
    type ResponseStream = Frames;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Frames>, Status>> + Send>>;

    fn call(&mut self, request: Request<GetDestination>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move { service.get(request).await })
    }
}

/// Requests are decoded; responses are already encoded, and shared by many streams.
#[derive(Clone, Copy, Debug, Default)]
struct GetCodec;

impl Codec for GetCodec {
    type Encode = Bytes;
    type Decode = GetDestination;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for GetCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, frame: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // tonic writes the prefix itself.
        buffer.put(frame.slice(PREFIX_LEN..));
        Ok(())
    }
}

impl Decoder for GetCodec {
    type Item = GetDestination;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<GetDestination>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        GetDestination::decode(bytes)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("malformed request: {error}")))
    }
}
