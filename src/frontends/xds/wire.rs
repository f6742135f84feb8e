//! Responses as bytes: what is particular to a stream is encoded for it, resources are put in as they are.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::resource::{Kind, Resource};
use super::session::{Response, Variant};
use crate::proto::xds::core::ControlPlane;
use crate::proto::xds::discovery::{
    DeltaDiscoveryResponse, DiscoveryResponse, ResourceError, ResourceName,
};
use crate::proto::xds::rpc;

/// `Any`: the URL of its type.
const ANY_TYPE_URL: u32 = 1;
/// `Any`: the message.
const ANY_VALUE: u32 = 2;
/// `DiscoveryResponse` and `DeltaDiscoveryResponse`: the resources.
const RESOURCES: u32 = 2;
/// `Resource`: its version.
const RESOURCE_VERSION: u32 = 1;
/// `Resource`: the `Any`.
const RESOURCE_BODY: u32 = 2;
/// `Resource`: its name.
const RESOURCE_NAME: u32 = 3;

/// `NOT_FOUND`, as a status in a response has it.
const NOT_FOUND: i32 = 5;

/// The message that tells a client of a response.
pub(super) fn encode(variant: Variant, response: &Response, identifier: &str) -> Bytes {
    let head = head(variant, response, identifier);
    let resources: usize = response
        .resources
        .iter()
        .map(|(name, resource)| {
            field_len(RESOURCES, resource_len(variant, response, name, resource))
        })
        .sum();
    let mut buffer = BytesMut::with_capacity(head.len() + resources);
    buffer.put_slice(&head);
    for (name, resource) in &response.resources {
        let len = resource_len(variant, response, name, resource);
        begin(RESOURCES, len, &mut buffer);
        if variant == Variant::Delta {
            put(
                RESOURCE_VERSION,
                resource.version.to_string().as_bytes(),
                &mut buffer,
            );
            begin(RESOURCE_BODY, any_len(response.kind, resource), &mut buffer);
            put_any(response.kind, resource, &mut buffer);
            put(RESOURCE_NAME, name.as_bytes(), &mut buffer);
        } else {
            put_any(response.kind, resource, &mut buffer);
        }
    }
    buffer.freeze()
}

/// A delta response that names of a kind that we do not know are not there.
pub(super) fn unknown_kind(type_url: &str, names: Vec<String>, identifier: &str) -> Bytes {
    let message = DeltaDiscoveryResponse {
        type_url: type_url.to_owned(),
        removed_resources: names,
        nonce: "unknown".to_owned(),
        control_plane: Some(control_plane(identifier)),
        ..Default::default()
    };
    message.encode_to_vec().into()
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

fn resource_len(variant: Variant, response: &Response, name: &str, resource: &Resource) -> usize {
    let any = any_len(response.kind, resource);
    match variant {
        Variant::StateOfTheWorld => any,
        Variant::Delta => {
            field_len(RESOURCE_VERSION, resource.version.to_string().len())
                + field_len(RESOURCE_BODY, any)
                + field_len(RESOURCE_NAME, name.len())
        }
    }
}

fn any_len(kind: Kind, resource: &Resource) -> usize {
    field_len(ANY_TYPE_URL, kind.type_url().len()) + field_len(ANY_VALUE, resource.body.len())
}

fn put_any(kind: Kind, resource: &Resource, buffer: &mut BytesMut) {
    put(ANY_TYPE_URL, kind.type_url().as_bytes(), buffer);
    put(ANY_VALUE, &resource.body, buffer);
}

fn field_len(tag: u32, len: usize) -> usize {
    key_len(tag) + encoded_len_varint(len as u64) + len
}

fn begin(tag: u32, len: usize, buffer: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, buffer);
    encode_varint(len as u64, buffer);
}

fn put(tag: u32, bytes: &[u8], buffer: &mut BytesMut) {
    begin(tag, bytes.len(), buffer);
    buffer.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frontends::xds::resource::Version;

    fn response() -> Response {
        let resource = |text: &str| {
            Arc::new(Resource {
                version: Version(7),
                body: Bytes::copy_from_slice(text.as_bytes()),
            })
        };
        Response::sample(
            Kind::Assignment,
            vec![("a".into(), resource("one")), ("b".into(), resource(""))],
        )
    }

    #[test]
    fn a_library_reads_the_same() {
        let bytes = encode(Variant::StateOfTheWorld, &response(), "replica");
        let message = DiscoveryResponse::decode(bytes).unwrap();
        assert_eq!(message.type_url, Kind::Assignment.type_url());
        assert_eq!(message.control_plane.unwrap().identifier, "replica");
        let read: Vec<_> = message
            .resources
            .iter()
            .map(|any| (any.type_url.as_str(), any.value.as_slice()))
            .collect();
        let url = Kind::Assignment.type_url();
        assert_eq!(read, [(url, b"one".as_slice()), (url, b"".as_slice())]);

        let bytes = encode(Variant::Delta, &response(), "replica");
        let message = DeltaDiscoveryResponse::decode(bytes).unwrap();
        let read: Vec<_> = message
            .resources
            .iter()
            .map(|resource| {
                let any = resource.resource.as_ref().unwrap();
                (
                    resource.name.as_str(),
                    resource.version.as_str(),
                    any.value.as_slice(),
                )
            })
            .collect();
        let version = "0000000000000007";
        assert_eq!(
            read,
            [
                ("a", version, b"one".as_slice()),
                ("b", version, b"".as_slice())
            ]
        );
    }
}
