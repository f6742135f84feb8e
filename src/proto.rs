//! The messages, clients and servers of our gRPC interfaces, generated from `proto/`.
//!
//! Front-ends, the server and the command line use it. It is the only file that names proto packages, and holds nothing
//! written by hand but their places in the module tree: conversions belong to whoever converts. Maps are ordered, so equal
//! messages encode to equal bytes.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unreachable_pub,
    reason = "generated code"
)]

/// Linkerd's destination API: the types, `destination_server` and `destination_client`.
pub mod destination {
    tonic::include_proto!("io.linkerd.proxy.destination");
}

/// Addresses in Linkerd's APIs.
pub mod net {
    tonic::include_proto!("io.linkerd.proxy.net");
}

/// References to objects in Linkerd's APIs.
pub mod meta {
    tonic::include_proto!("io.linkerd.proxy.meta");
}

/// Pieces of HTTP messages in Linkerd's APIs.
pub mod http_types {
    tonic::include_proto!("io.linkerd.proxy.http_types");
}

/// Our own API: the types, `introspection_server` and `introspection_client`.
pub mod tributary_v1 {
    tonic::include_proto!("tributary.v1");
}

/// An encoded `google.protobuf.FileDescriptorSet` of every package above and what they import, comments included. Made
/// for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The messages and servers of xDS v3, from a crate that has them all.
pub mod xds {
    pub use envoy_types::pb::envoy::config::cluster::v3 as cluster;
    pub use envoy_types::pb::envoy::config::core::v3 as core;
    pub use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
    pub use envoy_types::pb::envoy::config::listener::v3 as listener;
    pub use envoy_types::pb::envoy::config::route::v3 as route;
    pub use envoy_types::pb::envoy::extensions::filters::http::router::v3 as router;
    pub use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as http_connection_manager;
    pub use envoy_types::pb::envoy::service::discovery::v3 as discovery;
    pub use envoy_types::pb::envoy::service::endpoint::v3 as endpoint_discovery;
    pub use envoy_types::pb::google::protobuf;
    pub use envoy_types::pb::google::rpc;
}
