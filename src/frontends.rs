//! Protocols served. Each folder translates the same views into one protocol; none imports another.

pub mod destination;
mod ending;
mod grpc;
pub mod introspection;
pub mod xds;
