//! The status page: what it says without a script, what it sends to one, and what it makes of requests nobody would make.

use anyhow::{Context, Result};
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::services::{Backend, Condition, Local, federated, workload};
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, http, run, runtime};

/// A home cluster and a linked one, with a federated Service over both of which one endpoint is not ready.
async fn two_clusters() -> Result<(Manifests, Tributary)> {
    let manifests = Manifests::new()?;
    let here = [Backend::ready("web-0", "10.1.0.1")];
    let text = workload("shop", "web", &here) + &federated("shop", "web", Local::Member, &["west"]);
    manifests.write("home/web.yaml", &text)?;
    let there = [
        Backend::ready("web-0", "10.2.0.1"),
        Backend::ready("web-1", "10.2.0.2").condition(Condition::Unready),
    ];
    manifests.write("west/web.yaml", &workload("shop", "web", &there))?;
    let tributary = manifests.serve().await?;
    let stream = tributary.get("web-federated.shop.svc.cluster.local:80");
    stream
        .wait_for_exactly(&["10.1.0.1:8080", "10.2.0.1:8080"])
        .await;
    Ok((manifests, tributary))
}

#[test]
fn the_page_says_everything_without_a_script() {
    run(async {
        let (_manifests, tributary) = two_clusters().await?;
        let whole = http::get(tributary.admin(), "/").await?;
        assert_eq!(whole.status, 200);
        assert!(
            whole
                .body
                .contains("The linked cluster is in sync; 3 endpoints"),
            "{}",
            whole.body
        );
        assert!(whole.body.contains("web-federated.shop"), "{}", whole.body);

        let service = http::get(
            tributary.admin(),
            "/?authority=web-federated.shop&ip=10.2.0.2",
        )
        .await?;
        for expected in [
            "The answer has 2 of 3 endpoints.",
            "10.2.0.2 is NOT in the answer.",
            "Pod web-1, left out: not ready",
            "What to do: ",
            "kubectl -n shop describe pod web-1",
        ] {
            assert!(
                service.body.contains(expected),
                "{expected}: {}",
                service.body
            );
        }
        let missing = http::get(tributary.admin(), "/?authority=nothing.shop").await?;
        assert_eq!(missing.status, 200);
        assert!(
            missing.body.contains("service shop/nothing not found"),
            "{}",
            missing.body
        );
        // Nothing comes from anywhere else, and nothing that others wrote is markup.
        let hostile =
            http::get(tributary.admin(), "/?authority=%3Cimg%20src=x%3E&ip=%22%3E").await?;
        for page in [&whole.body, &service.body, &hostile.body] {
            assert!(
                !page.contains("<img") && !page.contains("src=\"http"),
                "{page}"
            );
            assert!(!page.contains("href=\"http"), "{page}");
        }
        Ok(())
    });
}

#[test]
fn parts_that_change_are_sent_to_whoever_watches() {
    run(async {
        let (manifests, tributary) = two_clusters().await?;
        let mut stream = TcpStream::connect(tributary.admin()).await?;
        let request =
            "GET /page/events?authority=web-federated.shop HTTP/1.1\r\nhost: admin\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut seen = String::new();
        let mut until = async |text: &str| {
            let reading = async {
                let mut buffer = vec![0; 65_536];
                while !seen.contains(text) {
                    let read = stream.read(&mut buffer).await?;
                    anyhow::ensure!(read > 0, "the stream ended: {seen}");
                    seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
                }
                seen.clear();
                Ok(())
            };
            let patience = tokio::time::timeout(DEADLINE, reading).await;
            patience.with_context(|| format!("waiting for {text}"))?
        };
        until("content-type: text/event-stream").await?;
        let all = [
            Backend::ready("web-0", "10.2.0.1"),
            Backend::ready("web-1", "10.2.0.2"),
        ];
        manifests.write("west/web.yaml", &workload("shop", "web", &all))?;
        until("The answer has all 3 endpoints.").await?;
        // It ends when the process does, and does not hold it up.
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
fn whatever_is_asked_of_the_admin_listener_gets_a_clear_answer() {
    let (_manifests, tributary) = runtime().block_on(shop()).unwrap();
    let methods = select(vec![
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW",
    ]);
    let paths = prop_oneof![
        select(vec![
            "/",
            "/page/events/",
            "/page",
            "/metrics/",
            "/live",
            "/ready",
            "//",
            "/..",
            "*"
        ])
        .prop_map(str::to_owned),
        "/[a-z/%.]{0,40}",
        "/\\?(authority|ip|zone)=[ -~&&[^ #]]{0,60}",
    ];
    let case = (methods, paths, any::<Vec<u8>>());
    let config = Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&case, |(method, path, body)| {
        let asked = async {
            let mut stream = TcpStream::connect(tributary.admin()).await?;
            let length = body.len();
            let head = format!("{method} {path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            // The server may have answered and closed before it has read a body that it does not want.
            stream.write_all(&body).await.ok();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok();
            let text = String::from_utf8_lossy(&answer).into_owned();
            let status = text.split(' ').nth(1).map(str::to_owned);
            anyhow::Ok((status.unwrap_or_default(), text))
        };
        let (status, text) = runtime().block_on(asked).unwrap();
        let allowed: &[&str] = if matches!(method, "GET" | "HEAD") {
            &["200", "400", "404"]
        } else {
            &["400", "405"]
        };
        if allowed.contains(&status.as_str()) {
            Ok(())
        } else {
            Err(TestCaseError::fail(format!("{method} {path}: {text}")))
        }
    });
    if let Err(failed) = outcome {
        panic!("{failed}\n{}", tributary.log_tail(20));
    }
    run(async {
        tributary.ensure_running()?;
        let stream = tributary.get("web.shop.svc.cluster.local:80");
        stream.wait_for_exactly(&WEB).await;
        Ok(())
    });
}
