//! A client that sends whatever it is told to, and shows what comes back frame by frame.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::Code;

use crate::support::DEADLINE;

/// The method that all questions go to, unless they say otherwise.
pub(crate) const GET: &str = "/io.linkerd.proxy.destination.Destination/Get";

/// The other method.
pub(crate) const GET_PROFILE: &str = "/io.linkerd.proxy.destination.Destination/GetProfile";

/// One HTTP/2 connection.
pub(crate) struct Raw {
    requests: SendRequest<Bytes>,
    // Drives the connection, and ends it with this value.
    _driver: JoinSet<()>,
}

/// How a server says no.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Whether the status came in the one and only HEADERS frame.
    pub(crate) trailers_only: bool,
}

/// What came back.
#[derive(Debug)]
pub(crate) enum Answer {
    Refused(Refusal),
    /// The first bytes of a stream that has begun.
    Began(Bytes),
}

// === impl Raw ===

impl Raw {
    pub(crate) async fn connect(server: SocketAddr) -> Result<Self> {
        // Answers may cross with questions that are taken back, thousands of times; this client does not mind.
        let mut settings = Builder::new();
        settings.max_local_error_reset_streams(None);
        Self::connect_with(server, &settings).await
    }

    /// A connection with settings of the client's own.
    pub(crate) async fn connect_with(server: SocketAddr, settings: &Builder) -> Result<Self> {
        let socket = TcpStream::connect(server).await?;
        let (requests, connection) = settings.handshake(socket).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // How it ends shows in the requests.
            connection.await.ok();
        });
        Ok(Self {
            requests,
            _driver: driver,
        })
    }

    /// Sends a body to a path, in one request that is complete.
    pub(crate) async fn ask(&self, path: &str, body: Vec<u8>) -> Result<Answer> {
        tokio::time::timeout(DEADLINE, self.exchange(path, body))
            .await
            .context("no answer")?
    }

    /// Sends a body to a path, and takes the question back without waiting for an answer.
    pub(crate) async fn ask_and_leave(&self, path: &str, body: Vec<u8>) -> Result<()> {
        let mut requests = self.requests.clone().ready().await?;
        let (_response, mut sending) = requests.send_request(request(path)?, false)?;
        sending.send_data(body.into(), true)?;
        sending.send_reset(Reason::CANCEL);
        Ok(())
    }

    /// Sends a body to a path, and leaves the answer to it unread: whoever has it is subscribed.
    pub(crate) async fn subscribe(&self, path: &str, body: Vec<u8>) -> Result<RecvStream> {
        let response = tokio::time::timeout(DEADLINE, self.send(path, body));
        let (head, body) = response.await.context("no answer")??.into_parts();
        ensure!(!head.headers.contains_key("grpc-status"), "{head:?}");
        Ok(body)
    }

    /// Sends the first part of a body to a path, keeps the rest open, and reads nothing of the answer.
    pub(crate) async fn begin(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(RecvStream, SendStream<Bytes>)> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut sending) = requests.send_request(request(path)?, false)?;
        sending.send_data(body.into(), false)?;
        let response = tokio::time::timeout(DEADLINE, response).await??;
        Ok((response.into_body(), sending))
    }

    async fn send(&self, path: &str, body: Vec<u8>) -> Result<Response<RecvStream>> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut sending) = requests.send_request(request(path)?, false)?;
        // A server may refuse before it has read everything.
        sending.send_data(body.into(), true).ok();
        let response = response.await?;
        ensure!(response.status() == 200, "HTTP {}", response.status());
        Ok(response)
    }

    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<Answer> {
        let (head, mut body) = self.send(path, body).await?.into_parts();
        if head.headers.contains_key("grpc-status") {
            let trailers_only = body.is_end_stream();
            return refusal(&head.headers, trailers_only).map(Answer::Refused);
        }
        read_beginning(&mut body).await
    }
}

fn request(path: &str) -> Result<Request<()>> {
    Ok(Request::post(format!("http://tributary{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?)
}

async fn read_beginning(body: &mut RecvStream) -> Result<Answer> {
    if let Some(bytes) = body.data().await {
        return Ok(Answer::Began(bytes?));
    }
    let trailers = body.trailers().await?.context("an answer without status")?;
    refusal(&trailers, false).map(Answer::Refused)
}

fn refusal(headers: &HeaderMap, trailers_only: bool) -> Result<Refusal> {
    let text = |name| headers.get(name).map(|value| value.to_str()).transpose();
    let code = text("grpc-status")?.context("no grpc-status")?;
    let code: i32 = code.parse()?;
    ensure!((1..=16).contains(&code), "grpc-status {code}");
    Ok(Refusal {
        code: code.into(),
        message: text("grpc-message")?.unwrap_or_default().to_owned(),
        trailers_only,
    })
}

/// A gRPC frame that says what it is.
pub(crate) fn frame(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    let mut frame = vec![flag];
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    frame
}

/// A well-formed question.
pub(crate) fn question(path: &str, token: &str) -> Vec<u8> {
    use prost::Message as _;
    let message = linkerd2_proxy_api::destination::GetDestination {
        scheme: String::new(),
        path: path.to_owned(),
        context_token: token.to_owned(),
    }
    .encode_to_vec();
    frame(
        0,
        u32::try_from(message.len()).expect("it is short"),
        &message,
    )
}
