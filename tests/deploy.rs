//! Charts, manifests, rights, alerts, the dashboard, the image, and the commands of `docs/install.md`. What needs helm, kubectl,
//! promtool, hadolint or API servers is run by `scripts/test deploy`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/chart.rs"]
mod chart;
#[path = "deploy/dashboard.rs"]
mod dashboard;
#[path = "deploy/image.rs"]
mod image;
#[path = "deploy/in_place.rs"]
mod in_place;
#[path = "deploy/install.rs"]
mod install;
#[path = "deploy/manifests.rs"]
mod manifests;
#[path = "deploy/provoked.rs"]
mod provoked;
#[path = "deploy/rights.rs"]
mod rights;
#[path = "deploy/tools.rs"]
mod tools;
