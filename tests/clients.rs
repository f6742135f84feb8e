//! A client of another make, in Python on grpcio: run by `scripts/test clients`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

// Cargo takes files in `tests/` for tests of their own; these are parts of this one.
#[path = "clients/python.rs"]
mod python;

use serde_json::{Value, json};

use crate::python::Python;
use crate::support::manifests::shop;
use crate::support::run;
use crate::support::services::{Backend, authority, workload};

/// The addresses of an answer that has any.
fn addresses(answer: &Value) -> Vec<&str> {
    let map = answer["addresses"].as_object();
    map.map(|map| map.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn endpoints_are_folded_and_followed() {
    run(async {
        let (manifests, server) = shop().await?;
        let python = Python::start()?;
        let stream = python.open(server.address(), "Get", &authority("shop", "web"), "")?;
        let both = stream
            .wait_for("both Pods", |answer| addresses(answer).len() == 2)
            .await?;
        assert_eq!(addresses(&both), ["10.1.0.1:8080", "10.1.0.2:8080"]);
        let first = &both["addresses"]["10.1.0.1:8080"];
        assert_eq!(first["labels"]["service"], "web", "a label of the set");
        assert_eq!(first["labels"]["pod"], "web-0", "a label of the address");
        assert_eq!(
            first["tls_identity"]["dns_like_identity"]["name"],
            "web.shop.serviceaccount.identity.linkerd.cluster.local"
        );

        let one = workload("shop", "web", &[Backend::ready("web-1", "10.1.0.2")]);
        manifests.write("home/web.yaml", &one)?;
        stream
            .wait_for("the second Pod alone", |answer| {
                addresses(answer) == ["10.1.0.2:8080"]
            })
            .await?;
        manifests.write("home/web.yaml", &workload("shop", "web", &[]))?;
        let empty = json!({"addresses": {}, "no_endpoints": {"exists": true}});
        stream
            .wait_for("no endpoints", |answer| *answer == empty)
            .await?;
        python.ensure_no_breach()
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn profiles_are_understood() {
    run(async {
        let (_manifests, server) = shop().await?;
        let python = Python::start()?;
        let stream = python.open(
            server.address(),
            "GetProfile",
            &authority("shop", "web"),
            "",
        )?;
        let profile = stream
            .wait_for("a profile", |answer| !answer["profile"].is_null())
            .await?;
        let name = &profile["profile"]["fully_qualified_name"];
        assert_eq!(name, "web.shop.svc.cluster.local");

        let pod = python.open(server.address(), "GetProfile", "10.1.0.1:8080", "")?;
        let profile = pod
            .wait_for("a profile", |answer| !answer["profile"].is_null())
            .await?;
        let endpoint = &profile["profile"]["endpoint"];
        assert_eq!(endpoint["addr"], "10.1.0.1:8080");
        assert_eq!(endpoint["metric_labels"]["pod"], "web-0");
        python.ensure_no_breach()
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn a_name_is_asked_for_again_until_somebody_has_it() {
    run(async {
        let (manifests, server) = shop().await?;
        let python = Python::start()?;
        let error = |code: &str| json!({"error": {"code": code}});
        let late = python.open(server.address(), "Get", &authority("shop", "late"), "")?;
        let never = python.open(server.address(), "Get", "10.1.0.1:x", "")?;
        late.wait_for("a refusal", |answer| *answer == error("NOT_FOUND"))
            .await?;
        never
            .wait_for("a refusal", |answer| *answer == error("INVALID_ARGUMENT"))
            .await?;
        let backends = [Backend::ready("late-0", "10.1.0.7")];
        manifests.write("home/late.yaml", &workload("shop", "late", &backends))?;
        late.wait_for("its Pod", |answer| addresses(answer) == ["10.1.0.7:8080"])
            .await?;
        python.ensure_no_breach()
    });
}
