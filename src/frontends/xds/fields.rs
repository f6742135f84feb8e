//! Fields of messages that are put together by hand, since what they hold is encoded already.

use bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// Bytes that a field of this length takes, with what comes before it.
pub(super) fn field_len(tag: u32, len: usize) -> usize {
    key_len(tag) + encoded_len_varint(len as u64) + len
}

/// Begins a field of this length; what it holds comes next.
pub(super) fn begin(tag: u32, len: usize, buffer: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, buffer);
    encode_varint(len as u64, buffer);
}

/// A whole field.
pub(super) fn put(tag: u32, bytes: &[u8], buffer: &mut impl BufMut) {
    begin(tag, bytes.len(), buffer);
    buffer.put_slice(bytes);
}
