//! Protocols served. Each folder translates the same views into one protocol; none imports another.

pub mod destination;
pub mod introspection;
