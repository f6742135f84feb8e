//! What a client of gRPC does with what it is told.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;

use crate::grpc::{Calls, Grpc, LANGUAGES, Language};
use crate::support::peers::free_port;
use crate::support::{run, wait_for};
use crate::world::{Member, World, name};

const ONE: &str = "127.0.2.1";
const TWO: &str = "127.0.2.2";
const THREE: &str = "127.0.2.3";

/// A Service of `web` at home and in cluster `east`.
const FEDERATED: &str = "apiVersion: v1
kind: Service
metadata:
  name: all
  namespace: shop
  annotations:
    multicluster.linkerd.io/local-discovery: web
    multicluster.linkerd.io/remote-discovery: web@east
spec:
  ports: [{name: http, port: 80}]
";

/// A client of `web`, which has the given endpoints of three that there are.
async fn scene(language: Language, members: &[Member<'_>]) -> Result<(World, Grpc)> {
    let port = free_port()?;
    let world = World::start(port).await?;
    world.put("web", members)?;
    let grpc = Grpc::start(language, world.xds(), port, &[ONE, TWO, THREE], &json!({}))?;
    Ok((world, grpc))
}

/// The target of the federated Service with a parameter. Node wants a target that can be a part of a URL.
fn all_with(language: Language, parameter: &str) -> String {
    match language {
        Language::Python => format!("{}|{parameter}", name("all")),
        Language::Node => format!("xds://index.example/shop/all/80?{parameter}"),
    }
}

/// Calls until exactly these answer, and nothing fails.
async fn until_answered_by(grpc: &mut Grpc, name: &str, wanted: &[&str]) -> Result<Calls> {
    let grpc = parking_lot::Mutex::new(grpc);
    wait_for(&format!("{wanted:?} to answer"), || async {
        let calls = grpc.lock().call(name, 30).ok()?;
        let names: Vec<_> = calls.answered.keys().map(String::as_str).collect();
        (calls.failed.is_empty() && names == wanted).then_some(calls)
    })
    .await
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn every_endpoint_is_called_and_changes_are_followed() {
    run(async {
        for language in LANGUAGES {
            let (world, mut grpc) =
                scene(language, &[Member::ready(ONE), Member::ready(TWO)]).await?;
            let web = name("web");
            let calls = grpc.call(&web, 1)?;
            assert_eq!(calls.failed, [""; 0], "the first call waits for an answer");
            let calls = until_answered_by(&mut grpc, &web, &[ONE, TWO]).await?;
            assert!(
                calls.answered.values().all(|&count| count >= 10),
                "{calls:?}"
            );

            world.put("web", &[Member::ready(THREE)])?;
            until_answered_by(&mut grpc, &web, &[THREE]).await?;

            world.put("web", &[])?;
            wait_for("calls to fail", || {
                let calls = grpc.call(&web, 1);
                async { (calls.ok()?.answered.is_empty()).then_some(()) }
            })
            .await?;
            let calls = grpc.call(&web, 1)?;
            assert!(calls.failed[0].starts_with("UNAVAILABLE"), "{calls:?}");
            if language == Language::Python {
                assert!(calls.failed[0].contains("web.shop"), "{calls:?}");
            }
            world.put("web", &[Member::ready(ONE)])?;
            until_answered_by(&mut grpc, &web, &[ONE]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn a_name_that_nobody_has_may_come_and_until_then_the_core_says_why() {
    run(async {
        for language in LANGUAGES {
            let (world, mut grpc) = scene(language, &[Member::ready(ONE)]).await?;
            if language == Language::Python {
                let calls = grpc.call(&name("nobody"), 1)?;
                let expected = "no such Service is known";
                assert!(calls.failed[0].contains(expected), "{calls:?}");
            }
            world.put("nobody", &[Member::ready(TWO)])?;
            until_answered_by(&mut grpc, &name("nobody"), &[TWO]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn short_names_and_parameters_resolve() {
    run(async {
        for language in LANGUAGES {
            let (world, mut grpc) = scene(language, &[Member::ready(ONE)]).await?;
            until_answered_by(&mut grpc, "web.shop:80", &[ONE]).await?;
            until_answered_by(&mut grpc, "web.shop.svc:80", &[ONE]).await?;
            let of_an_authority = "xds://index.example/web.shop.svc.cluster.local:80";
            until_answered_by(&mut grpc, of_an_authority, &[ONE]).await?;
            let streams = match language {
                // One for each channel.
                Language::Python => 3,
                // One for the process.
                Language::Node => 1,
            };
            let streams = format!("tributary_xds_streams_open{{variant=\"sotw\"}} {streams}");
            let metrics = world.tributary().metrics().await?;
            assert!(metrics.contains(&streams), "{metrics}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn a_federated_service_is_one_name_and_the_own_cluster_may_come_first() {
    run(async {
        for language in LANGUAGES {
            let (world, mut grpc) = scene(language, &[Member::ready(ONE)]).await?;
            world.put_in("east", "web", &[Member::ready(TWO), Member::ready(THREE)])?;
            world.write("home/all.yaml", FEDERATED)?;
            let all = name("all");
            let calls = until_answered_by(&mut grpc, &all, &[ONE, TWO, THREE]).await?;
            let total: usize = calls.answered.values().sum();
            assert_eq!(total, 30);
            let shares: BTreeMap<_, _> = grpc.call(&all, 300)?.answered;
            assert!(
                shares.values().all(|&count| (70..=130).contains(&count)),
                "each endpoint has an equal share, whatever its cluster: {shares:?}"
            );
            until_answered_by(&mut grpc, &all_with(language, "prefer=local"), &[ONE]).await?;
            until_answered_by(
                &mut grpc,
                &all_with(language, "cluster=east"),
                &[TWO, THREE],
            )
            .await?;
            world.put("web", &[])?;
            until_answered_by(
                &mut grpc,
                &all_with(language, "prefer=local"),
                &[TWO, THREE],
            )
            .await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn a_restart_fails_no_call() {
    run(async {
        for language in LANGUAGES {
            let (mut world, mut grpc) =
                scene(language, &[Member::ready(ONE), Member::ready(TWO)]).await?;
            let web = name("web");
            until_answered_by(&mut grpc, &web, &[ONE, TWO]).await?;
            world.stop().await?;
            assert_eq!(grpc.call(&web, 50)?.failed, [""; 0]);
            world.start_again().await?;
            assert_eq!(grpc.call(&web, 50)?.failed, [""; 0]);
            world.put("web", &[Member::ready(THREE)])?;
            until_answered_by(&mut grpc, &web, &[THREE]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn calls_go_elsewhere_while_the_own_cluster_does_not_answer() {
    run(async {
        for language in LANGUAGES {
            let (world, mut grpc) = scene(language, &[Member::ready(ONE)]).await?;
            world.put_in("east", "web", &[Member::ready(TWO)])?;
            world.write("home/all.yaml", FEDERATED)?;
            let all = all_with(language, "prefer=local");
            until_answered_by(&mut grpc, &all, &[ONE]).await?;
            // Still listed, and nobody is there.
            grpc.stop(ONE)?;
            until_answered_by(&mut grpc, &all, &[TWO]).await?;
            grpc.restart(ONE)?;
            until_answered_by(&mut grpc, &all, &[ONE]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn calls_of_many_seconds_never_notice_a_restart() {
    run(async {
        for language in LANGUAGES {
            let (mut world, mut grpc) =
                scene(language, &[Member::ready(ONE), Member::ready(TWO)]).await?;
            let web = name("web");
            until_answered_by(&mut grpc, &web, &[ONE, TWO]).await?;
            let (over, mut restarted) = tokio::sync::oneshot::channel();
            let calling = tokio::task::spawn_blocking(move || {
                let mut calls = 0;
                while restarted.try_recv().is_err() {
                    let failed = grpc.call(&web, 50)?.failed;
                    anyhow::ensure!(failed.is_empty(), "after {calls} calls: {failed:?}");
                    calls += 50;
                }
                Ok(grpc)
            });
            world.stop().await?;
            world.start_again().await?;
            let streams = "tributary_xds_streams_open{variant=\"sotw\"} 1";
            wait_for("the client to be back", || async {
                let metrics = world.tributary().metrics().await.ok()?;
                metrics.contains(streams).then_some(())
            })
            .await?;
            // Fails only if the calls have.
            over.send(()).ok();
            let mut grpc = calling.await??;
            world.put("web", &[Member::ready(THREE)])?;
            until_answered_by(&mut grpc, &name("web"), &[THREE]).await?;
        }
        Ok(())
    });
}
