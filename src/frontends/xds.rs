//! xDS v3, for Envoy-style gateways and proxyless gRPC: the same endpoints that Linkerd's proxies get.
//!
//! The name of a Service is the authority of Linkerd's `Get`. One task follows every name that some stream wants and works out
//! what it says, once for all streams that are told the same; a stream is woken when one of its names says something else,
//! and its `session` decides what to send. Source: the xDS protocol as documented by Envoy, and what Envoy and gRPC do.

mod client;
mod entries;
mod fields;
mod introspection;
mod listing;
mod metrics;
mod peers;
mod resource;
mod resource_name;
mod roster;
mod service;
mod session;
mod stream;
mod translate;
mod wire;

pub use introspection::XdsIntrospection;
pub use metrics::Metrics;
pub use service::{Aggregated, Endpoints, Settings, Task, Xds};
