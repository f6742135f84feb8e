//! Responses as bytes: what is particular to a stream is encoded for it, resources are put in as they are.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use super::resource::Variant;
use super::session::Response;
use crate::frontends::grpc::{PREFIX_LEN, frame, put_prefix};
use crate::proto::xds::core::ControlPlane;
use crate::proto::xds::discovery::{
    DeltaDiscoveryResponse, DiscoveryResponse, ResourceError, ResourceName,
};
use crate::proto::xds::rpc;

/// Resources of this size and more are shared between streams; a copy of what is smaller costs less than a frame of its own.
const SHARED_MIN: usize = 4 * 1024;

/// `NOT_FOUND`, as a status in a response has it.
const NOT_FOUND: i32 = 5;

/// The message that tells a client of a response, framed, in pieces.
pub(super) fn pieces(variant: Variant, response: &Response, identifier: &str) -> Vec<Bytes> {
    let head = head(variant, response, identifier);
    let mut len = head.len();
    let mut own = PREFIX_LEN + len;
    let resources = response.resources.iter();
    let fields: Vec<_> = resources
        .map(|(_, resource)| resource.field(variant))
        .collect();
    for field in &fields {
        len += field.len();
        if field.len() < SHARED_MIN {
            own += field.len();
        }
    }
    let mut buffer = BytesMut::with_capacity(own);
    put_prefix(len, &mut buffer);
    buffer.put_slice(&head);
    let mut pieces = Vec::new();
    for field in fields {
        if field.len() < SHARED_MIN {
            buffer.put_slice(&field);
        } else {
            if !buffer.is_empty() {
                pieces.push(buffer.split().freeze());
            }
            pieces.push(field);
        }
    }
    if !buffer.is_empty() {
        pieces.push(buffer.freeze());
    }
    pieces
}

/// A delta response, framed, that names of a kind that we do not know are not there.
pub(super) fn unknown_kind(type_url: &str, names: Vec<String>, identifier: &str) -> Bytes {
    let message = DeltaDiscoveryResponse {
        type_url: type_url.to_owned(),
        removed_resources: names,
        nonce: "unknown".to_owned(),
        control_plane: Some(control_plane(identifier)),
        ..Default::default()
    };
    frame(&message)
}

/// Everything but the resources.
fn head(variant: Variant, response: &Response, identifier: &str) -> Vec<u8> {
    let type_url = response.kind.type_url().to_owned();
    let nonce = response.nonce.to_string();
    let control_plane = Some(control_plane(identifier));
    // Clients are told of endpoints that nobody has by an empty set of them.
    let resource_errors = response.absent.iter().map(|name| ResourceError {
        resource_name: Some(ResourceName {
            name: name.to_string(),
            ..Default::default()
        }),
        error_detail: Some(rpc::Status {
            code: NOT_FOUND,
            message: format!("{name}: no such Service is known"),
            ..Default::default()
        }),
    });
    let resource_errors = resource_errors.collect();
    match variant {
        Variant::StateOfTheWorld => DiscoveryResponse {
            version_info: response.version.to_string(),
            type_url,
            nonce,
            control_plane,
            resource_errors,
            ..Default::default()
        }
        .encode_to_vec(),
        Variant::Delta => DeltaDiscoveryResponse {
            system_version_info: response.version.to_string(),
            type_url,
            nonce,
            control_plane,
            removed_resources: response.removed.iter().map(ToString::to_string).collect(),
            resource_errors,
            ..Default::default()
        }
        .encode_to_vec(),
    }
}

fn control_plane(identifier: &str) -> ControlPlane {
    ControlPlane {
        identifier: identifier.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frontends::xds::resource::{Kind, Resource, Version};

    const URL: &str = Kind::Assignment.type_url();

    fn response(messages: &[(&str, &[u8])]) -> Response {
        let resources = messages.iter().map(|&(name, message)| {
            let resource = Resource::new(Kind::Assignment, name, Version(7), message);
            (Arc::from(name), Arc::new(resource))
        });
        Response::sample(Kind::Assignment, resources.collect())
    }

    /// The message in some pieces.
    fn joined(pieces: &[Bytes]) -> Vec<u8> {
        let bytes = pieces.concat();
        let (prefix, message) = bytes.split_at(PREFIX_LEN);
        assert_eq!(prefix[0], 0, "not compressed");
        let len = u32::from_be_bytes(prefix[1..].try_into().unwrap());
        assert_eq!(len as usize, message.len());
        message.to_vec()
    }

    #[test]
    fn a_library_reads_the_same() {
        let large = vec![1; SHARED_MIN];
        let messages = [("a", &b"one"[..]), ("b", &large), ("c", &large), ("d", b"")];
        let pieces = pieces(Variant::StateOfTheWorld, &response(&messages), "replica");
        let message = DiscoveryResponse::decode(&*joined(&pieces)).unwrap();
        assert_eq!(message.type_url, URL);
        assert_eq!(message.control_plane.unwrap().identifier, "replica");
        let read: Vec<_> = message
            .resources
            .iter()
            .map(|any| (any.type_url.as_str(), any.value.as_slice()))
            .collect();
        assert_eq!(read, messages.map(|(_, message)| (URL, message)));

        let pieces = super::pieces(Variant::Delta, &response(&messages), "replica");
        let message = DeltaDiscoveryResponse::decode(&*joined(&pieces)).unwrap();
        let read: Vec<_> = message
            .resources
            .iter()
            .map(|resource| {
                assert_eq!(resource.version, "0000000000000007");
                let any = resource.resource.as_ref().unwrap();
                assert_eq!(any.type_url, URL);
                (resource.name.as_str(), any.value.as_slice())
            })
            .collect();
        assert_eq!(read, messages);
    }

    #[test]
    fn what_is_large_is_not_copied() {
        let large = vec![1; SHARED_MIN];
        let response = response(&[("a", b"one"), ("b", &large), ("c", b"two")]);
        for variant in [Variant::StateOfTheWorld, Variant::Delta] {
            let pieces = pieces(variant, &response, "replica");
            let field = response.resources[1].1.field(variant);
            assert_eq!(pieces.len(), 3);
            assert_eq!(pieces[1].as_ptr(), field.as_ptr());
        }
    }
}
