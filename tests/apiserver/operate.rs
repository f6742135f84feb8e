//! What people are told who run it: explanations, clusters, findings, history.

#[path = "operate/check.rs"]
mod check;
#[path = "operate/explain.rs"]
mod explain;
#[path = "operate/freshness.rs"]
mod freshness;
