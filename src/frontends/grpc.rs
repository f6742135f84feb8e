//! gRPC around the messages of a stream: how what is asked is read, and an answer whose bytes are shared.
//!
//! Generated code would copy each message into a buffer of the stream, which it keeps for as long as the stream lives, as
//! large as the largest message. Here a message that a thousand streams send is there once.

use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{Stream, TryStreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::Frame;
use prost::Message;
use tonic::body::Body;
use tonic::codec::{DecodeBuf, Decoder, Streaming};
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

/// Bytes before each message: a flag and the length.
pub(super) const PREFIX_LEN: usize = 5;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const ENCODING: &str = "grpc-encoding";
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// Reads the one message of a request.
pub(super) async fn question<M: Message + Default + 'static>(
    request: http::Request<Body>,
) -> Result<Request<M>, Status> {
    let (metadata, extensions, messages) = questions(request, None)?.into_parts();
    let mut messages = pin!(messages);
    let message = messages
        .try_next()
        .await?
        .ok_or_else(|| Status::invalid_argument("there is no message in the request"))?;
    messages.trailers().await?;
    Ok(Request::from_parts(metadata, extensions, message))
}

/// Reads the messages of a request, each of them no larger than `bytes_max`, or than is usual.
pub(super) fn questions<M: Message + Default + 'static>(
    request: http::Request<Body>,
    bytes_max: Option<usize>,
) -> Result<Request<Streaming<M>>, Status> {
    if let Some(encoding) = request.headers().get(ENCODING)
        && encoding != "identity"
    {
        let mut status = Status::unimplemented("compressed requests are not supported");
        status
            .metadata_mut()
            .insert(ACCEPT_ENCODING, MetadataValue::from_static("identity"));
        return Err(status);
    }
    let request = request.map(|body| {
        let questions = Questions(PhantomData);
        Streaming::new_request(questions, body, None, bytes_max)
    });
    // What says who asks comes along.
    Ok(Request::from_http(request))
}

/// An answer that goes well so far: messages, framed, each in one piece or in several, and then a status. It is OK unless the
/// last item is another.
pub(super) fn answer(
    pieces: impl Stream<Item = Result<Bytes, Status>> + Send + Unpin + 'static,
) -> http::Response<Body> {
    let body = Pieces {
        pieces,
        over: false,
    };
    let mut response = http::Response::new(Body::new(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

/// A message as it goes over the wire: flag, length, bytes.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut bytes = BytesMut::with_capacity(PREFIX_LEN + message.len());
    put_prefix(message.len(), &mut bytes);
    bytes.put_slice(&message);
    bytes.freeze()
}

/// What goes before a message of this length, which is not compressed.
pub(super) fn put_prefix(len: usize, buffer: &mut impl BufMut) {
    buffer.put_u8(0);
    buffer.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
}

/// Pieces of messages as they are, and a status when there are no more.
struct Pieces<S> {
    pieces: S,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Questions<M>(PhantomData<fn() -> M>);

// === impl Pieces ===

impl<S: Stream<Item = Result<Bytes, Status>> + Unpin> http_body::Body for Pieces<S> {
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
        let status = match ready!(Pin::new(&mut this.pieces).poll_next(context)) {
            Some(Ok(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
            Some(Err(status)) => trailers(&status),
            None => Ok(HeaderMap::from_iter([(STATUS, OK)])),
        };
        this.over = true;
        Poll::Ready(Some(status.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

// === impl Questions ===

impl<M: Message + Default> Decoder for Questions<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        M::decode(bytes)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("malformed request: {error}")))
    }
}
