//! Endpoints objects in place of EndpointSlices, in the home cluster and in linked ones.

use std::net::SocketAddr;

use crate::support::bed::Bed;
use crate::support::run;
use crate::support::services::{
    Backend, Condition, Local, authority, endpoints, federated, pod, workload,
};
use crate::support::subscription::Message;
use crate::support::tributary::Tributary;

const ARGUMENTS: [&str; 2] = ["--enable-endpoint-slices=false", "--enable-ipv6=false"];

/// Two Pods behind Service `web`; its slice lists another one.
fn web(namespace: &str, backends: &[Backend<'_>]) -> String {
    let sliced = [Backend::ready("sliced", "10.50.70.99")];
    let pods: String = backends
        .iter()
        .map(|backend| pod(namespace, "web", backend.pod, backend.ip))
        .collect();
    workload(namespace, "web", &sliced) + &pods + &endpoints(namespace, "web", backends)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn every_change_of_an_endpoints_object_is_one_minimal_update() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "endpoints-life";
        let [one, two] = [
            Backend::ready("web-0", "10.50.70.1"),
            Backend::ready("web-1", "10.50.70.2"),
        ];
        bed.home.apply(&web(namespace, &[one, two])).await?;
        let tributary = Tributary::start(&bed.home, &ARGUMENTS).await?;
        let stream = tributary.get(&authority(namespace, "web"));
        let both = ["10.50.70.1:8080", "10.50.70.2:8080"];
        let state = stream.wait_for_exactly(&both).await;
        stream.assert_one_message();
        let identity = format!("web.{namespace}.serviceaccount.identity.linkerd.cluster.local");
        assert_eq!(state.at(both[0]).identity(), Some(identity.as_str()));
        let instance = tributary.get(&format!("web-1.{}", authority(namespace, "web")));
        instance.wait_for_exactly(&both[1..]).await;

        let address: SocketAddr = both[1].parse()?;
        let mark = stream.mark();
        let unready = endpoints(namespace, "web", &[one, two.condition(Condition::Unready)]);
        bed.home.apply(&unready).await?;
        stream.wait_for_exactly(&both[..1]).await;
        assert_eq!(
            stream.messages_since(mark),
            [Message::Remove(vec![address])]
        );
        instance.wait_for_exactly(&[]).await;

        let mark = stream.mark();
        let ready = endpoints(namespace, "web", &[one, two]);
        bed.home.apply(&ready).await?;
        stream.wait_for_exactly(&both).await;
        assert_eq!(stream.messages_since(mark), [Message::Add(vec![address])]);
        instance.wait_for_exactly(&both[1..]).await;

        let mark = stream.mark();
        bed.home
            .delete_object("Endpoints", namespace, "web")
            .await?;
        stream.wait_for_exactly(&[]).await;
        assert_eq!(stream.messages_since(mark), [Message::NoEndpoints]);
        instance.wait_for_exactly(&[]).await;

        let mark = stream.mark();
        bed.home.apply(&ready).await?;
        stream.wait_for_exactly(&both).await;
        assert_eq!(stream.messages_since(mark).len(), 1);
        instance.wait_for_exactly(&both[1..]).await;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn linked_clusters_are_read_from_their_endpoints_objects() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "endpoints-linked";
        let home = Backend::ready("web-0", "10.50.71.1");
        let [one, two] = [
            Backend::ready("web-0", "10.60.71.1"),
            Backend::ready("web-1", "10.60.71.2"),
        ];
        bed.home.apply(&web(namespace, &[home])).await?;
        bed.east.apply(&web(namespace, &[one, two])).await?;
        bed.home
            .apply(&federated(namespace, "web", Local::Member, &["east"]))
            .await?;
        let tributary = Tributary::start(&bed.home, &ARGUMENTS).await?;
        let stream = tributary.get(&authority(namespace, "web-federated"));
        let everywhere = ["10.50.71.1:8080", "10.60.71.1:8080", "10.60.71.2:8080"];
        let state = stream.wait_for_exactly(&everywhere).await;
        assert_eq!(
            state.at(everywhere[1]).label("target_cluster"),
            Some("east")
        );

        let unready = [one.condition(Condition::Unready), two];
        bed.east
            .apply(&endpoints(namespace, "web", &unready))
            .await?;
        stream
            .wait_for_exactly(&[everywhere[0], everywhere[2]])
            .await;
        bed.east
            .delete_object("Endpoints", namespace, "web")
            .await?;
        stream.wait_for_exactly(&everywhere[..1]).await;
        bed.east
            .apply(&endpoints(namespace, "web", &[one, two]))
            .await?;
        stream.wait_for_exactly(&everywhere).await;
        Ok(())
    });
}
