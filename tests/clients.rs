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

use std::net::SocketAddr;

use serde_json::Value;
use tonic::Code;

use crate::python::{Answer, Heard, Python};
use crate::support::manifests::{WEB, shop};
use crate::support::run;
use crate::support::services::{Backend, authority, workload};
use crate::support::subscription::Outcome;
use crate::support::tributary::Tributary;

/// What is said of an address.
fn content<'a>(heard: &'a Heard, address: &str) -> Option<&'a Value> {
    let address: SocketAddr = address.parse().ok()?;
    match &heard.answer {
        Answer::Addresses(addresses) => addresses.get(&address),
        _ => None,
    }
}

fn has_exactly(heard: &Heard, addresses: &[&str]) -> bool {
    match &heard.answer {
        Answer::Addresses(all) => {
            all.len() == addresses.len()
                && addresses
                    .iter()
                    .all(|address| content(heard, address).is_some())
        }
        _ => false,
    }
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn endpoints_are_folded_as_they_change() {
    run(async {
        let (manifests, server) = shop().await?;
        let python = Python::start()?;
        let stream = python.open(server.address(), "Get", &authority("shop", "web"), "");
        let both = stream
            .wait_for("both Pods", |heard| has_exactly(heard, &WEB))
            .await;
        let first = content(&both, WEB[0]).expect("it is one of them");
        assert_eq!(first["labels"]["service"], "web", "a label of the set");
        assert_eq!(first["labels"]["pod"], "web-0", "a label of the address");
        assert_eq!(
            first["tls_identity"]["dns_like_identity"]["name"],
            "web.shop.serviceaccount.identity.linkerd.cluster.local"
        );
        for pods in [&[Backend::ready("web-1", "10.1.0.2")][..], &[]] {
            manifests.write("home/web.yaml", &workload("shop", "web", pods))?;
            let left = &WEB[2 - pods.len()..];
            stream
                .wait_for("what is left", |heard| has_exactly(heard, left))
                .await;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn profiles_are_understood() {
    run(async {
        let (_manifests, server) = shop().await?;
        let python = Python::start()?;
        let profile = async |authority: &str| {
            let stream = python.open(server.address(), "GetProfile", authority, "");
            let heard = stream
                .wait_for("a profile", |heard| heard.answer != Answer::Silence)
                .await;
            match heard.answer {
                Answer::Profile(profile) => profile,
                other => panic!("{other:?}"),
            }
        };
        let of_service = profile(&authority("shop", "web")).await;
        let name = &of_service["fully_qualified_name"];
        assert_eq!(name, "web.shop.svc.cluster.local");
        let of_pod = profile(WEB[0]).await;
        assert_eq!(of_pod["endpoint"]["addr"], WEB[0]);
        assert_eq!(of_pod["endpoint"]["metric_labels"]["pod"], "web-0");
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn refusals_have_their_code_and_their_reason() {
    run(async {
        let (_manifests, server) = shop().await?;
        let python = Python::start()?;
        for (method, authority, code) in [
            ("Get", authority("shop", "nobody"), Code::NotFound),
            ("GetProfile", authority("shop", "nobody"), Code::NotFound),
            ("Get", "10.1.0.1:80".to_owned(), Code::InvalidArgument),
            ("GetProfile", "web".to_owned(), Code::InvalidArgument),
        ] {
            let stream = python.open(server.address(), method, &authority, "");
            let heard = stream
                .wait_for("the end", |heard| heard.outcome.is_some())
                .await;
            match heard.outcome {
                Some(Outcome::Failed(told, reason)) if told == code => {
                    assert!(!reason.is_empty(), "{method} {authority}");
                }
                other => panic!("{method} {authority}: {other:?}"),
            }
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio: scripts/test clients"]
fn a_stream_that_ends_says_so() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let server =
            Tributary::serve_manifests(manifests.path(), &["--drain-timeout", "0"]).await?;
        let python = Python::start()?;
        let stream = python.open(server.address(), "Get", &authority("shop", "web"), "");
        stream
            .wait_for("both Pods", |heard| has_exactly(heard, &WEB))
            .await;
        server.ask_to_end()?;
        let heard = stream
            .wait_for("the end", |heard| heard.outcome.is_some())
            .await;
        assert_eq!(heard.outcome, Some(Outcome::Ended));
        assert!(has_exactly(&heard, &WEB), "{heard:?}");
        Ok(())
    });
}
