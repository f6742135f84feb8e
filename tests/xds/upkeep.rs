//! What gateways notice of restarts, of what changes meanwhile, and of very many changes: nothing but what is true.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::backends::{Backends, Meshed};
use crate::envoy::{Envoy, VARIANTS};
use crate::grpc::{Grpc, LANGUAGES};
use crate::support::peers::free_port;
use crate::support::pki::Pki;
use crate::support::{run, scratch_folder, wait_for};
use crate::world::{ClientTls, Member, World, name};

const ONE: &str = "127.0.4.1";
const TWO: &str = "127.0.4.2";
const THREE: &str = "127.0.4.3";

/// How often endpoints change, and how many times.
const CHANGE_EVERY: Duration = Duration::from_millis(10);
const CHANGES: usize = 500;

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn no_request_fails_while_the_index_is_restarted_or_killed() {
    run(async {
        for variant in VARIANTS {
            let backends = Backends::start(&[ONE, TWO]).await?;
            let mut world = World::start(backends.port).await?;
            world.put("web", &[Member::ready(ONE), Member::ready(TWO)])?;
            let clusters = [("web", name("web"))];
            let envoy = Envoy::start(world.xds(), variant, &clusters, "").await?;
            envoy.until_hosts("web", &[ONE, TWO]).await?;
            let connected = "control_plane.connected_state";
            let requests = envoy
                .request_during(async {
                    for kill in [false, true] {
                        if kill {
                            world.kill();
                        } else {
                            world.stop().await?;
                        }
                        envoy.until_stat(connected, 0).await?;
                        world.start_again().await?;
                        envoy.until_stat(connected, 1).await?;
                    }
                    // It follows again.
                    world.put("web", &[Member::ready(ONE)])?;
                    envoy.until_hosts("web", &[ONE]).await
                })
                .await?;
            assert!(requests > 0);
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn clusters_of_a_wildcard_come_warm_up_and_go_also_while_the_index_is_away() {
    run(async {
        for variant in VARIANTS {
            let backends = Backends::start(&[ONE, TWO]).await?;
            let mut world = World::start(backends.port).await?;
            world.put("web", &[Member::ready(ONE), Member::ready(TWO)])?;
            // One cluster of the bootstrap has the same endpoints as one of those that are listed.
            let clusters = [("web", name("web"))];
            let list = "TRIBUTARY_LIST: shop";
            let envoy = Envoy::start(world.xds(), variant, &clusters, list).await?;
            let (web, api, old) = (name("web"), name("api"), name("old"));
            envoy.until_hosts("web", &[ONE, TWO]).await?;
            envoy.until_hosts(&web, &[ONE, TWO]).await?;

            world.put("api", &[Member::ready(ONE)])?;
            world.put("old", &[Member::ready(ONE)])?;
            envoy.until_hosts(&api, &[ONE]).await?;
            envoy.until_hosts(&old, &[ONE]).await?;
            // Two of the bootstrap, and three of the list.
            envoy
                .until_stat("cluster_manager.active_clusters", 5)
                .await?;
            envoy
                .until_stat("cluster_manager.warming_clusters", 0)
                .await?;

            world.stop().await?;
            envoy.until_stat("control_plane.connected_state", 0).await?;
            world.delete("old")?;
            world.put("new", &[Member::ready(TWO)])?;
            world.put("api", &[Member::ready(TWO)])?;
            world.start_again().await?;
            envoy.until_hosts(&name("new"), &[TWO]).await?;
            envoy.until_hosts(&api, &[TWO]).await?;
            envoy.until_hosts(&old, &[]).await?;
            envoy.until_hosts(&web, &[ONE, TWO]).await?;
            envoy
                .until_stat("cluster_manager.active_clusters", 5)
                .await?;
            envoy
                .until_stat("cluster_manager.warming_clusters", 0)
                .await?;
            for cluster in [
                "web",
                "web.shop.svc.cluster.local_80",
                "new.shop.svc.cluster.local_80",
            ] {
                let late = format!("cluster.{cluster}.init_fetch_timeout");
                assert_eq!(envoy.stat(&late).await?, 0, "{variant}: {late}");
            }
            assert_eq!(envoy.stat("cluster_manager.cds.update_rejected").await?, 0);
        }
        Ok(())
    });
}

/// Changes the endpoints of `web` again and again: every subset of some addresses in turn, the empty one too; at the end, the
/// first and the last.
async fn change_often(world: &World, addresses: [&str; 3]) -> Result<()> {
    let mut pace = tokio::time::interval(CHANGE_EVERY);
    for round in 1..=CHANGES {
        pace.tick().await;
        let members = addresses.iter().enumerate();
        let members = members.filter(|(n, _)| round & (1 << n) != 0);
        let members: Vec<_> = members.map(|(_, address)| Member::ready(address)).collect();
        world.put("web", &members)?;
    }
    let [first, _, last] = addresses;
    world.put("web", &[Member::ready(first), Member::ready(last)])
}

async fn ensure_nothing_was_refused(world: &World) -> Result<()> {
    let metrics = world.tributary().metrics().await?;
    assert!(!metrics.contains("verdict=\"refused\""), "{metrics}");
    Ok(())
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn very_many_changes_end_in_what_is_true_for_gateways() {
    run(async {
        let addresses = [ONE, TWO, THREE];
        let backends = Backends::start(&addresses).await?;
        let world = World::start(backends.port).await?;
        world.put("web", &[Member::ready(ONE)])?;
        let clusters = [("web", name("web"))];
        let mut envoys = Vec::new();
        for variant in VARIANTS {
            envoys.push(Envoy::start(world.xds(), variant, &clusters, "").await?);
        }
        change_often(&world, addresses).await?;
        for envoy in &envoys {
            envoy.until_hosts("web", &[ONE, THREE]).await?;
            assert_eq!(envoy.stat("cluster.web.update_rejected").await?, 0);
            assert_eq!(envoy.answerers(10).await?.len(), 2);
        }
        ensure_nothing_was_refused(&world).await
    });
}

#[test]
#[ignore = "needs grpcio and grpc-js: scripts/test xds"]
fn very_many_changes_end_in_what_is_true_for_grpc() {
    run(async {
        for language in LANGUAGES {
            let addresses = [ONE, TWO, THREE];
            let port = free_port()?;
            let world = World::start(port).await?;
            world.put("web", &[Member::ready(ONE)])?;
            let mut grpc = Grpc::start(language, world.xds(), port, &addresses, &json!({}))?;
            assert_eq!(grpc.call(&name("web"), 1)?.failed, [""; 0]);
            change_often(&world, addresses).await?;
            let grpc = parking_lot::Mutex::new(grpc);
            wait_for("both to answer and no one else", || async {
                let calls = grpc.lock().call(&name("web"), 30).ok()?;
                let names: Vec<_> = calls.answered.keys().map(String::as_str).collect();
                (calls.failed.is_empty() && names == [ONE, THREE]).then_some(())
            })
            .await?;
            ensure_nothing_was_refused(&world).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn meshed_endpoints_are_spoken_to_by_mtls_under_the_identity_of_each() {
    run(async {
        let folder = scratch_folder("mesh")?;
        let mesh = Pki::create(folder.path())?;
        let own = mesh.client_identity("gateway")?;
        let (certificate, key) = (folder.path().join("gw.crt"), folder.path().join("gw.key"));
        std::fs::write(&certificate, own.certificate_pem)?;
        std::fs::write(&key, own.key_pem)?;
        let gateway = ClientTls {
            ca: mesh.ca_file.clone(),
            identity: Some((certificate, key)),
        };
        let identity =
            |account: &str| format!("{account}.shop.serviceaccount.identity.linkerd.cluster.local");
        let backends = Backends::start_some_meshed(vec![
            (ONE, Some(Meshed::new(&identity("web"), &mesh)?)),
            (TWO, Some(Meshed::new(&identity("other"), &mesh)?)),
            (THREE, None),
        ])
        .await?;
        let world = World::start(backends.port).await?;
        let members = [
            Member::meshed(ONE, "web"),
            Member::meshed(TWO, "other"),
            Member::ready(THREE),
        ];
        world.put("web", &members)?;
        for variant in VARIANTS {
            let clusters = [("web", name("web"))];
            let envoy =
                Envoy::start_in_mesh(world.xds(), variant, &clusters, "", Some(&gateway)).await?;
            envoy.until_hosts("web", &[ONE, TWO, THREE]).await?;
            assert_eq!(envoy.answerers(30).await?.len(), 3, "{variant}");
            // An endpoint that is somebody else is not spoken to.
            world.put("web", &[Member::meshed(ONE, "nobody")])?;
            envoy.until_hosts("web", &[ONE]).await?;
            wait_for("requests to be refused", || async {
                (envoy.request().await.ok()?.0 == 503).then_some(())
            })
            .await?;
            world.put("web", &members)?;
        }
        Ok(())
    });
}
