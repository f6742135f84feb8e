//! What a gRPC request is answered with, from the front-end that makes it to the listener that sends it.
//!
//! Generated code copies each message into a buffer of the stream, which it keeps for as long as the stream lives, as large as
//! the largest message. Where many streams are told the same, a front-end answers with the shared bytes themselves.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::{Body as _, Frame};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The body of an answer.
pub enum Answer {
    /// What generated code has made.
    Generated(Body),
    /// Messages as they are, and a status when there are no more.
    Shared(Shared),
}

/// The messages of one stream, each in one piece or in several. Its status is OK unless the last item is another.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, Status>> + Send>>;

/// A message of a stream, or a part of one.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its bytes, with the prefix that gRPC puts before each message.
    pub bytes: Bytes,
    /// When what it tells of was learnt; `None` if it tells what has been known.
    pub since: Option<Instant>,
}

/// See [`Answer::Shared`].
pub struct Shared {
    pieces: Pieces,
    over: bool,
}

/// A part of an answer.
#[derive(Debug)]
pub struct Part {
    /// What is to be sent.
    pub frame: Frame<Bytes>,
    /// As of a [`Piece`].
    pub since: Option<Instant>,
}

// === impl Answer ===

impl Answer {
    /// An answer that goes well so far: these messages, and then a status.
    pub fn of(pieces: Pieces) -> http::Response<Self> {
        let answer = Self::Shared(Shared {
            pieces,
            over: false,
        });
        let mut response = http::Response::new(answer);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, CONTENT_TYPE);
        response
    }

    /// The next part; nothing after the last one.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, Status>>> {
        match self {
            Self::Generated(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                let part = |frame| Part { frame, since: None };
                Poll::Ready(frame.map(|frame| frame.map(part)))
            }
            Self::Shared(shared) => shared.poll_part(context),
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let part = self.get_mut().poll_part(context);
        part.map(|part| part.map(|part| part.map(|part| part.frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Generated(body) => body.is_end_stream(),
            Self::Shared(shared) => shared.over,
        }
    }
}

impl From<Body> for Answer {
    fn from(body: Body) -> Self {
        Self::Generated(body)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generated(_) => "Generated",
            Self::Shared(_) => "Shared",
        })
    }
}

// === impl Piece ===

impl Piece {
    /// A piece that is no news.
    pub fn known(bytes: Bytes) -> Self {
        Self { bytes, since: None }
    }
}

// === impl Shared ===

impl Shared {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let trailers = match ready!(self.pieces.as_mut().poll_next(context)) {
            Some(Ok(Piece { bytes, since })) => {
                let frame = Frame::data(bytes);
                return Poll::Ready(Some(Ok(Part { frame, since })));
            }
            Some(Err(status)) => trailers(&status),
            None => Ok(HeaderMap::from_iter([(STATUS, OK)])),
        };
        self.over = true;
        Poll::Ready(Some(trailers.map(|trailers| Part {
            frame: Frame::trailers(trailers),
            since: None,
        })))
    }
}

fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}
