//! Protocols served. Each folder translates the same views into one protocol; none imports another.

pub mod destination;
mod ending;
pub mod introspection;
pub mod xds;
