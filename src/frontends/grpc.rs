//! gRPC around the messages of a stream: how what is asked is read, and how what is said is framed.

use std::marker::PhantomData;
use std::pin::pin;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::TryStreamExt;
use prost::Message;
use tonic::body::Body;
use tonic::codec::{DecodeBuf, Decoder, Streaming};
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

/// Bytes before each message: a flag and the length.
pub(super) const PREFIX_LEN: usize = 5;

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

#[derive(Clone, Copy, Debug)]
struct Questions<M>(PhantomData<fn() -> M>);

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
