//! The conversation with a server.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::fold::Folded;
use crate::cli::server::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, AskError, connect, refused};
use crate::config::EndpointsQuery;
use crate::proto::destination::destination_client::DestinationClient;
use crate::proto::destination::{GetDestination, Update};
use crate::proto::tributary_v1::introspection_client::IntrospectionClient;
use crate::proto::tributary_v1::{EndpointsSnapshot, WatchEndpointsRequest};
use crate::report::endpoints::Report;

/// How long to listen to a server whose first answer comes in pieces, or not at all if it is empty.
const FOLD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a pause says that no more pieces come.
const FOLD_PAUSE: Duration = Duration::from_millis(500);

/// A stream of answers, each replacing the one before.
pub(super) struct Answers {
    server: String,
    stream: Stream,
}

enum Stream {
    Introspection(Box<Streaming<EndpointsSnapshot>>),
    Destination(Box<Get>),
}

/// Linkerd's `Get`, opened lately or not yet: a server with nothing to say need not even open it.
struct Get {
    channel: Channel,
    query: EndpointsQuery,
    updates: Option<Streaming<Update>>,
    folded: Folded,
    settled: bool,
}

/// What Linkerd's API of a server tells clients.
pub(super) async fn served(query: &EndpointsQuery) -> Result<Report, AskError> {
    let mut get = Get {
        channel: connect(&query.server).await?,
        query: query.clone(),
        updates: None,
        folded: Folded::default(),
        settled: false,
    };
    let server = &query.server;
    let answered = timeout(ANSWER_TIMEOUT, get.settle()).await;
    let ended = || refused(server, Status::unavailable("the server ended the stream"));
    match answered {
        Ok(Ok(report)) => report.ok_or_else(ended),
        Ok(Err(status)) => Err(refused(server, status)),
        Err(_) => Err(AskError::Silent {
            server: server.clone(),
        }),
    }
}

// === impl Answers ===

impl Answers {
    /// Connects to a server and asks.
    pub(super) async fn open(query: &EndpointsQuery) -> Result<Self, AskError> {
        let server = query.server.clone();
        let channel = connect(&server).await?;
        let request = WatchEndpointsRequest {
            authority: query.authority.clone(),
            context_token: query.context_token.clone(),
            zone: query.zone.clone(),
        };
        let mut client =
            IntrospectionClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let answered = timeout(ANSWER_TIMEOUT, client.watch_endpoints(request)).await;
        let stream = match answered {
            Ok(Ok(response)) => Stream::Introspection(Box::new(response.into_inner())),
            Ok(Err(status)) if status.code() == Code::Unimplemented => {
                Stream::Destination(Box::new(Get {
                    channel,
                    query: query.clone(),
                    updates: None,
                    folded: Folded::default(),
                    settled: false,
                }))
            }
            Ok(Err(status)) => return Err(refused(&server, status)),
            Err(_) => return Err(AskError::Silent { server }),
        };
        Ok(Self { server, stream })
    }

    /// Whether the server has only Linkerd's API.
    pub(super) fn is_folded(&self) -> bool {
        matches!(self.stream, Stream::Destination(_))
    }

    /// The first answer; `None` if the server ends the stream without one.
    pub(super) async fn first(&mut self) -> Result<Option<Report>, AskError> {
        let server = self.server.clone();
        timeout(ANSWER_TIMEOUT, self.next())
            .await
            .unwrap_or(Err(AskError::Silent { server }))
    }

    /// The next answer, whenever it comes; `None` once the server has ended the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Report>, AskError> {
        let next = match &mut self.stream {
            Stream::Introspection(stream) => {
                let message = stream.message().await;
                message.map(|snapshot| snapshot.map(Report::from))
            }
            Stream::Destination(get) if get.settled => get.step().await,
            Stream::Destination(get) => get.settle().await,
        };
        next.map_err(|status| refused(&self.server, status))
    }
}

// === impl Get ===

impl Get {
    /// Takes in messages until a pause, or for as long as a whole answer may take.
    async fn settle(&mut self) -> Result<Option<Report>, Status> {
        self.settled = true;
        let deadline = Instant::now() + FOLD_TIMEOUT;
        let mut until = deadline;
        loop {
            match timeout_at(until, self.step()).await {
                Ok(Ok(Some(_))) => until = deadline.min(Instant::now() + FOLD_PAUSE),
                Ok(ended) => return ended,
                Err(_) => return Ok(Some(self.folded.report(&self.query.authority))),
            }
        }
    }

    /// Takes in one message. May be dropped at any time without losing one.
    async fn step(&mut self) -> Result<Option<Report>, Status> {
        let updates = match &mut self.updates {
            Some(updates) => updates,
            opened => {
                let request = GetDestination {
                    scheme: String::new(),
                    path: self.query.authority.clone(),
                    context_token: self.query.context_token.clone(),
                };
                let mut client = DestinationClient::new(self.channel.clone())
                    .max_decoding_message_size(ANSWER_BYTES_MAX);
                opened.insert(client.get(request).await?.into_inner())
            }
        };
        let Some(update) = updates.message().await? else {
            return Ok(None);
        };
        self.folded.apply(update);
        Ok(Some(self.folded.report(&self.query.authority)))
    }
}
