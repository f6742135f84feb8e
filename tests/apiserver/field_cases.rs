//! What operators of endpoint discovery have reported from the field, as tests against real API servers.
//!
//! Each test is named by the number its case has in `docs/field-cases.md`, which says what is shown where.

#[path = "field_cases/clusters.rs"]
mod clusters;
#[path = "field_cases/endpoints.rs"]
mod endpoints;
#[path = "field_cases/growth.rs"]
mod growth;
#[path = "field_cases/locality.rs"]
mod locality;
#[path = "field_cases/odd.rs"]
mod odd;
#[path = "field_cases/policies.rs"]
mod policies;
#[path = "field_cases/ports.rs"]
mod ports;
#[path = "field_cases/profiles.rs"]
mod profiles;
#[path = "field_cases/scene.rs"]
mod scene;
#[path = "field_cases/slices.rs"]
mod slices;
#[path = "field_cases/start.rs"]
mod start;
#[path = "field_cases/streams.rs"]
mod streams;
