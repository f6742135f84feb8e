//! That a replay notices what it is there to notice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::time::Instant;

use crate::folders::Folders;
use crate::replay::answer::{Actual, Content, Expected};
use crate::replay::asker::{Asker, Stream, TypedClient};
use crate::replay::case::{Case, Expectation, Method, Request, Step};
use crate::replay::stage::{Pace, Stage, replay};
use crate::support::run;
use crate::support::subscription::Outcome;
use crate::support::tributary::Tributary;

/// Folders, for cases that are meant to fail: waiting for long would tell nothing more.
struct Impatient(Folders);

/// A client that hears nothing.
struct Deaf;

struct DeafStream(Instant);

// === impl Impatient ===

impl Stage for Impatient {
    const PACE: Pace = Pace {
        patience: Duration::from_secs(2),
        ..Folders::PACE
    };

    async fn clear(&mut self) -> Result<()> {
        self.0.clear().await
    }

    async fn serve(&mut self, arguments: &[&str]) -> Result<Tributary> {
        self.0.serve(arguments).await
    }

    async fn apply(&mut self, cluster: &str, yaml: &str) -> Result<()> {
        self.0.apply(cluster, yaml).await
    }

    async fn delete(
        &mut self,
        cluster: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        self.0.delete(cluster, kind, namespace, name).await
    }

    async fn heard(&mut self, tributary: &Tributary) -> Result<()> {
        self.0.heard(tributary).await
    }
}

// === impl Deaf ===

impl Asker for Deaf {
    fn name(&self) -> &'static str {
        "the deaf client"
    }

    fn ask(&self, _: &Tributary, _: &Request) -> Box<dyn Stream> {
        Box::new(DeafStream(Instant::now()))
    }
}

impl Stream for DeafStream {
    fn said(&self) -> Actual {
        Actual::Silence
    }

    fn outcome(&self) -> Option<Outcome> {
        None
    }

    fn quiet_since(&self) -> Instant {
        self.0
    }

    fn violations(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A case with one request, which is answered with `10.50.1.1:8080`.
fn case(expected: &str, ended: bool) -> Case {
    let request = Request {
        method: Method::Get,
        authority: "web.shop.svc.cluster.local:80".to_owned(),
        token: String::new(),
    };
    let unspecified = Content::Some(json!({}));
    let address = expected.parse().expect("an address");
    let expectation = Expectation {
        answer: Expected::Addresses(BTreeMap::from([(address, unspecified)])),
        ended: Some(ended),
    };
    let step = Step {
        delete: Vec::new(),
        apply: vec!["west.yaml".to_owned()],
        reopen: Vec::new(),
        expected: BTreeMap::from([("web".to_owned(), expectation)]),
    };
    Case {
        name: "notices".to_owned(),
        requests: BTreeMap::from([("web".to_owned(), request)]),
        steps: vec![step],
        arguments: Vec::new(),
        starts_late: false,
        on_api_servers: false,
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/paths"),
    }
}

/// What a replay complains of; nothing if all is well.
async fn complaint(case: &Case, askers: &[Arc<dyn Asker>]) -> Result<String> {
    let mut stage = Impatient(Folders::new()?);
    let outcome = replay(&mut stage, askers, case).await;
    Ok(outcome
        .err()
        .map_or_else(String::new, |error| error.to_string()))
}

#[test]
fn differences_are_noticed() {
    run(async {
        let one: [Arc<dyn Asker>; 1] = [Arc::new(TypedClient)];
        let alike: [Arc<dyn Asker>; 2] = [Arc::new(TypedClient), Arc::new(TypedClient)];
        let deaf: [Arc<dyn Asker>; 2] = [Arc::new(TypedClient), Arc::new(Deaf)];
        let right = case("10.50.1.1:8080", false);
        let elsewhere = case("10.50.1.9:8080", false);
        let over = case("10.50.1.1:8080", true);
        let (fine, address, end, client) = tokio::try_join!(
            complaint(&right, &alike),
            complaint(&elsewhere, &one),
            complaint(&over, &one),
            complaint(&right, &deaf),
        )?;
        assert_eq!(fine, "");
        for (complaint, expected) in [
            (
                address,
                "missing 10.50.1.9:8080\n    unexpected 10.50.1.1:8080",
            ),
            (end, "no stream has ended, and one should"),
            (client, "the deaf client has nothing"),
        ] {
            assert!(complaint.contains(expected), "{complaint}");
        }
        Ok(())
    });
}
