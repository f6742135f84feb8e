//! What a gateway does with what it is told, in both variants of the protocol.

use anyhow::Result;

use crate::backends::Backends;
use crate::envoy::{ALONE, Envoy, VARIANTS};
use crate::support::run;
use crate::world::{Member, World, name};

const ONE: &str = "127.0.1.1";
const TWO: &str = "127.0.1.2";
const THREE: &str = "127.0.1.3";

/// An Envoy in front of `web`, which has two endpoints.
async fn scene(variant: &str) -> Result<(Backends, World, Envoy)> {
    let backends = Backends::start(&[ONE, TWO, THREE]).await?;
    let world = World::start(backends.port).await?;
    world.put("web", &[Member::ready(ONE), Member::ready(TWO)])?;
    let envoy = Envoy::start(world.xds(), variant, &[("web", name("web"))], "").await?;
    Ok((backends, world, envoy))
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn every_endpoint_is_reached_and_changes_are_followed() {
    run(async {
        for variant in VARIANTS {
            let (_backends, world, envoy) = scene(variant).await?;
            envoy.until_hosts("web", &[ONE, TWO]).await?;
            assert_eq!(envoy.answerers(20).await?.len(), 2, "{variant}");
            assert_eq!(envoy.stat("cluster.web.init_fetch_timeout").await?, 0);

            world.put("web", &[Member::ready(TWO), Member::ready(THREE)])?;
            envoy.until_hosts("web", &[TWO, THREE]).await?;
            assert_eq!(envoy.answerers(20).await?.len(), 2, "{variant}");

            world.put("web", &[])?;
            envoy.until_hosts("web", &[]).await?;
            assert_eq!(envoy.request().await?.0, 503);
            world.put("web", &[Member::ready(ONE)])?;
            envoy.until_hosts("web", &[ONE]).await?;
            assert_eq!(envoy.answerers(3).await?.len(), 1);

            world.delete("web")?;
            envoy.until_hosts("web", &[]).await?;
            world.put("web", &[Member::ready(THREE)])?;
            envoy.until_hosts("web", &[THREE]).await?;
            assert_eq!(envoy.stat("cluster.web.update_rejected").await?, 0);
            assert!(
                !envoy.log().contains("[warning][config]"),
                "{}",
                envoy.log()
            );
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn a_service_that_is_not_there_keeps_no_gateway_from_starting_and_may_come() {
    run(async {
        for variant in VARIANTS {
            let backends = Backends::start(&[ONE]).await?;
            let world = World::start(backends.port).await?;
            let clusters = [("web", name("web")), ("odd", "no:such|name".to_owned())];
            let envoy = Envoy::start(world.xds(), variant, &clusters, "").await?;
            assert_eq!(envoy.stat("cluster.web.init_fetch_timeout").await?, 0);
            assert_eq!(envoy.stat("cluster.odd.init_fetch_timeout").await?, 0);
            assert_eq!(envoy.request().await?.0, 503);
            world.put("web", &[Member::ready(ONE)])?;
            envoy.until_hosts("web", &[ONE]).await?;
            assert_eq!(envoy.answerers(2).await?.len(), 1, "{variant}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn a_cluster_may_have_a_stream_of_its_own() {
    run(async {
        for variant in VARIANTS {
            let backends = Backends::start(&[ONE, TWO]).await?;
            let world = World::start(backends.port).await?;
            world.put("web", &[Member::ready(ONE)])?;
            let alone = format!("web{ALONE}");
            let clusters = [("web", name("web")), (alone.as_str(), name("web"))];
            let envoy = Envoy::start(world.xds(), variant, &clusters, "").await?;
            envoy.until_hosts(&alone, &[ONE]).await?;
            world.put("web", &[Member::ready(TWO)])?;
            envoy.until_hosts(&alone, &[TWO]).await?;
            envoy.until_hosts("web", &[TWO]).await?;
            let metrics = world.tributary().metrics().await?;
            let both = if variant == "GRPC" { "sotw" } else { "delta" };
            let both = format!("tributary_xds_streams_open{{variant=\"{both}\"}} 2");
            assert!(metrics.contains(&both), "{metrics}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn a_restart_loses_no_host_and_no_request() {
    run(async {
        for variant in VARIANTS {
            let (_backends, mut world, envoy) = scene(variant).await?;
            envoy.until_hosts("web", &[ONE, TWO]).await?;
            world.stop().await?;
            envoy.until_stat("control_plane.connected_state", 0).await?;
            assert_eq!(envoy.answerers(10).await?.len(), 2);
            // What changes meanwhile is noticed afterwards.
            world.put("web", &[Member::ready(TWO), Member::ready(THREE)])?;
            assert_eq!(envoy.answerers(10).await?.len(), 2);
            world.start_again().await?;
            envoy.until_hosts("web", &[TWO, THREE]).await?;
            assert_eq!(envoy.answerers(10).await?.len(), 2);
            world.stop().await?;
            world.delete("web")?;
            world.start_again().await?;
            envoy.until_hosts("web", &[]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs Envoy: scripts/test xds"]
fn endpoints_that_terminate_are_drained_on_request() {
    run(async {
        for variant in VARIANTS {
            let backends = Backends::start(&[ONE, TWO]).await?;
            let world = World::start(backends.port).await?;
            world.put("web", &[Member::ready(ONE), Member::terminating(TWO)])?;
            let clusters = [("web", name("web"))];
            let drains = "TRIBUTARY_TERMINATING: drain";
            let envoy = Envoy::start(world.xds(), variant, &clusters, drains).await?;
            assert_eq!(
                envoy.hosts("web").await?.into_iter().collect::<Vec<_>>(),
                [(ONE.to_owned(), true), (TWO.to_owned(), false)]
            );
            assert_eq!(envoy.answerers(10).await?, [ONE.to_owned()].into());
            // With nothing else left, what terminates is better than nothing.
            world.put("web", &[Member::terminating(TWO)])?;
            crate::support::wait_for("the terminating endpoint to be used", || async {
                let (status, name) = envoy.request().await.ok()?;
                (status == 200 && name == TWO).then_some(())
            })
            .await?;
            let without = Envoy::start(world.xds(), variant, &clusters, "").await?;
            assert!(
                without.hosts("web").await?.is_empty(),
                "left out by default"
            );
        }
        Ok(())
    });
}
