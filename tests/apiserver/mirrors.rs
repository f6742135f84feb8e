//! Mirrors of single Services of other clusters: flat ones, whose Pods are reached directly, and those behind a gateway.

use crate::support::bed::Bed;
use crate::support::run;
use crate::support::services::{Backend, authority, flat_mirror, gateway_mirror, workload};
use crate::support::tributary::Tributary;

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_flat_mirror_leads_to_the_pods_of_its_cluster() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "mirror-flat";
        let east = [Backend::ready("web-0", "10.60.3.1")];
        let home = [Backend::ready("web-0", "10.50.3.1")];
        bed.east.apply(&workload(namespace, "web", &east)).await?;
        // The home cluster's Service of the same name has nothing to do with it.
        bed.home.apply(&workload(namespace, "web", &home)).await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;

        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-east"));
        let state = stream.wait_for_exactly(&["10.60.3.1:8080"]).await;
        let endpoint = state.at("10.60.3.1:8080");
        let identity = "web.mirror-flat.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(endpoint.identity(), Some(identity));
        assert_eq!(endpoint.label("service"), Some("web"));
        assert_eq!(endpoint.label("target_cluster"), Some("east"));
        assert_eq!(endpoint.authority_override(), None);

        let more = [east[0], Backend::ready("web-1", "10.60.3.2")];
        bed.east.apply(&workload(namespace, "web", &more)).await?;
        stream
            .wait_for_exactly(&["10.60.3.1:8080", "10.60.3.2:8080"])
            .await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_gateway_mirror_leads_to_the_gateway() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "mirror-gateway";
        let identity =
            "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local";
        let mirror = gateway_mirror(namespace, "web", "east", "10.60.0.9", identity);
        bed.home.apply(&mirror).await?;

        let tributary = Tributary::start(&bed.home, &[]).await?;
        let stream = tributary.get(&authority(namespace, "web-east"));
        let state = stream.wait_for_exactly(&["10.60.0.9:4143"]).await;
        let endpoint = state.at("10.60.0.9:4143");
        assert_eq!(endpoint.identity(), Some(identity));
        assert_eq!(endpoint.server_name(), None);
        assert_eq!(
            endpoint.authority_override(),
            Some("web.mirror-gateway.svc.cluster.local:80")
        );
        assert_eq!(endpoint.protocol(), Some("h2"));
        assert_eq!(endpoint.label("target_cluster"), Some("east"));
        assert_eq!(endpoint.label("target_service"), Some("web"));
        Ok(())
    });
}
