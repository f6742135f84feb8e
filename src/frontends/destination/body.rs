//! gRPC around the messages of a stream: how a question is read, and an answer whose bytes are shared.
//!
//! Generated code would copy each message into a buffer of the stream, which it keeps for as long as the stream lives, as
//! large as the largest message. Here a message that a thousand streams send is there once.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures::{Stream, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::Frame;
use prost::Message;
use tonic::body::Body;
use tonic::codec::{DecodeBuf, Decoder, Streaming};
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

use crate::proto::destination::GetDestination;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const ENCODING: &str = "grpc-encoding";
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// Reads the one message of a request.
pub(super) async fn question(
    request: http::Request<Body>,
) -> Result<Request<GetDestination>, Status> {
    let (parts, body) = request.into_parts();
    if let Some(encoding) = parts.headers.get(ENCODING)
        && encoding != "identity"
    {
        let mut status = Status::unimplemented("compressed requests are not supported");
        status
            .metadata_mut()
            .insert(ACCEPT_ENCODING, MetadataValue::from_static("identity"));
        return Err(status);
    }
    let mut messages = pin!(Streaming::new_request(Questions, body, None, None));
    let message = messages
        .try_next()
        .await?
        .ok_or_else(|| Status::invalid_argument("there is no message in the request"))?;
    messages.trailers().await?;
    let mut request = Request::new(message);
    // Who asks.
    *request.extensions_mut() = parts.extensions;
    Ok(request)
}

/// An answer that goes well: these messages, framed, and then status OK.
pub(super) fn answer(
    messages: impl Stream<Item = Bytes> + Send + Unpin + 'static,
) -> http::Response<Body> {
    let body = Messages {
        messages,
        over: false,
    };
    let mut response = http::Response::new(Body::new(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// Messages as they are, and status OK when there are no more.
struct Messages<S> {
    messages: S,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Questions;

// === impl Messages ===

impl<S: Stream<Item = Bytes> + Unpin> http_body::Body for Messages<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        let message = ready!(Pin::new(&mut this.messages).poll_next(context));
        let frame = message.map_or_else(
            || {
                this.over = true;
                Frame::trailers(HeaderMap::from_iter([(STATUS, OK)]))
            },
            Frame::data,
        );
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

// === impl Questions ===

impl Decoder for Questions {
    type Item = GetDestination;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<GetDestination>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        GetDestination::decode(bytes)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("malformed request: {error}")))
    }
}
