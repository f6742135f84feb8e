//! Answers of `tributary.v1` as people and programs are shown them, by the command line and by the status page.
//!
//! The serialized forms are interfaces: names stay, fields are only added, and every field is always there. Absent values
//! are `null`.

pub mod clusters;
pub mod endpoints;
pub mod explanation;
pub mod findings;
pub mod history;
pub mod text;
pub mod views;
