//! Clusters that have not been read, or not for a while: what may be said of them, and of the others.

use serde_json::{Value, json};
use tonic::Code;

use super::scene::{Entry, quiet_cluster, slice_of};
use crate::support::fault_proxy::FaultProxy;
use crate::support::services::{Backend, authority, pod, workload};
use crate::support::subscription::{Endpoint, Folded, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};
use crate::victim::{GOES, HOME, HOME_COMES, STAYS, Victim, log_line_with};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_29_a_cluster_that_was_never_read_is_not_empty() {
    run(async {
        let victim = Victim::shared("unread").await?;
        let knows = Tributary::start(victim.home, &[]).await?;
        let open = victim.flat_when_known(&knows).await?;
        open.wait_for_exactly(&[STAYS, GOES]).await;

        victim.network.refuse().await;
        victim.network.cut();
        log_line_with(&knows, &["cluster unreachable", "cluster=unread"]).await?;
        let knows_nothing = Tributary::start(victim.home, &[]).await?;
        // The one that has read it goes on with what it knows, for old and new clients.
        let again = victim.subscribe_flat(&knows);
        again.wait_for_exactly(&[STAYS, GOES]).await;
        assert!(open.now().is_exactly(&[STAYS, GOES]));
        // The other one does not say that nobody is there, but sends its clients to ask again, or elsewhere.
        let refused = victim.subscribe_flat(&knows_nothing);
        let Outcome::Failed(code, why) = refused.wait_for_end().await else {
            panic!("an answer without knowing: {}", refused.report());
        };
        assert_eq!(code, Code::Unavailable, "{why}");
        assert!(refused.messages().is_empty(), "{}", refused.report());

        victim.network.heal().await;
        let healed = victim.flat_when_known(&knows_nothing).await?;
        healed.wait_for_exactly(&[STAYS, GOES]).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_19_no_cluster_waits_for_another() {
    run(async {
        let victim = Victim::shared("absent").await?;
        let before = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&before);
        stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
        before.terminate().await?;

        // While nothing runs, the linked cluster goes away, and home changes.
        victim.network.silence();
        victim.network.cut();
        victim.change_home().await?;
        let after = Tributary::start(victim.home, &[]).await?;
        let own = after.get(&authority(victim.name, "web"));
        own.wait_for_exactly(&[HOME, HOME_COMES]).await;
        let federated = victim.subscribe(&after);
        federated.wait_for_exactly(&[HOME, HOME_COMES]).await;
        federated.assert_one_message();

        // What leaves at home leaves at once, too.
        let alone = [Backend::ready("web-0", "10.50.4.1")];
        let workload = workload(victim.name, "web", &alone);
        victim.home.apply(&workload).await?;
        own.wait_for_exactly(&[HOME]).await;
        federated.wait_for_exactly(&[HOME]).await;
        victim.leave().await
    });
}

/// A cluster's kinds in one namespace: two Services, and everything that says something of `web`.
fn world(namespace: &str) -> String {
    let ports = json!([{"name": "http", "port": 8080}]);
    let target = json!({"kind": "ExternalWorkload", "name": "vm-0", "namespace": namespace});
    let vm = Entry::at("10.52.34.2").with("targetRef", target);
    let document = |object: Value| format!("{object}\n---\n");
    let raw = document(json!({
        "apiVersion": "policy.linkerd.io/v1beta3",
        "kind": "Server",
        "metadata": {"name": "raw", "namespace": namespace},
        "spec": {"podSelector": {}, "port": 8080, "proxyProtocol": "opaque"},
    }));
    let external_workload = document(json!({
        "apiVersion": "workload.linkerd.io/v1beta1",
        "kind": "ExternalWorkload",
        "metadata": {"name": "vm-0", "namespace": namespace},
        "spec": {
            "meshTLS": {"identity": "spiffe://root/vm-0", "serverName": "vm-0"},
            "ports": [{"name": "http", "port": 8080}],
            "workloadIPs": [{"ip": "10.52.34.2"}],
        },
    }));
    let profile = document(json!({
        "apiVersion": "linkerd.io/v1alpha2",
        "kind": "ServiceProfile",
        "metadata": {"name": format!("web.{namespace}.svc.cluster.local"), "namespace": namespace},
        "spec": {"routes": [{"name": "get", "condition": {"method": "GET"}}]},
    }));
    let web = [Backend::ready("web-0", "10.52.34.1")];
    [
        workload(namespace, "web", &web),
        slice_of(namespace, "web", "vms", &ports, &[vm]),
        workload(namespace, "api", &[Backend::ready("api-0", "10.52.34.3")]),
        pod(namespace, "job", "job-0", "10.52.34.4"),
        raw,
        external_workload,
        profile,
    ]
    .concat()
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_mis_34_every_list_is_the_whole_truth() {
    run(async {
        let home = quiet_cluster().await?;
        let namespace = "fc-mis-34";
        home.apply(&world(namespace)).await?;
        let network = FaultProxy::start(home.address()).await?;
        let mut access = home.home_access().await?;
        access.server = format!("https://{}", network.address());
        let kubeconfig = home.write_file("fc-mis-34.kubeconfig", &access.to_yaml())?;
        let tributary = Tributary::launch(&kubeconfig, &[])?;
        tributary.until_ready().await?;

        let web = tributary.get_from_node(&authority(namespace, "web"), "n0");
        let [pod, vm] = ["10.52.34.1:8080", "10.52.34.2:8080"];
        let state = web.wait_for_exactly(&[pod, vm]).await;
        assert_eq!(state.at(pod).protocol(), Some("opaque"), "by the Server");
        assert_eq!(state.at(pod).label("zone_locality"), Some("local"));
        let api = tributary.get(&authority(namespace, "api"));
        api.wait_for_exactly(&["10.52.34.3:8080"]).await;
        let profile = tributary.get_profile(&authority(namespace, "web"), "");
        profile
            .wait_for("a route", |profile| profile.routes.len() == 1)
            .await;
        let job = tributary.get_profile("10.52.34.4:8080", "");
        job.wait_for("the Pod of an address", |profile| {
            Endpoint::of_profile(profile).is_some_and(|(_, at)| at.identity().is_some())
        })
        .await;

        // One object of every kind goes while nobody is listening, and no history tells of it.
        network.refuse().await;
        network.cut();
        for (kind, name) in [
            ("Server", "raw"),
            ("ExternalWorkload", "vm-0"),
            (
                "ServiceProfile",
                &format!("web.{namespace}.svc.cluster.local"),
            ),
            ("Service", "api"),
            ("EndpointSlice", "api-s1"),
            ("Pod", "job-0"),
        ] {
            home.delete_object(kind, namespace, name).await?;
        }
        home.delete_object("Node", "", "n0").await?;
        home.compact_etcd().await?;
        network.heal().await;

        web.wait_for("the Pod alone, no longer opaque", |state| {
            state.is_exactly(&[pod]) && state.at(pod).protocol() == Some("h2")
        })
        .await;
        api.wait_for("no endpoints", Folded::is_empty).await;
        profile
            .wait_for("no route", |profile| profile.routes.is_empty())
            .await;
        job.wait_for("an address without a Pod", |profile| {
            Endpoint::of_profile(profile).is_some_and(|(_, at)| at.labels.is_empty())
        })
        .await;
        wait_for("a client whose Node is not known", || async {
            let stream = tributary.get_from_node(&authority(namespace, "web"), "n0");
            let state = stream.wait_for_exactly(&[pod]).await;
            (state.at(pod).label("zone_locality") == Some("unknown")).then_some(())
        })
        .await?;
        wait_for("a Service that is not found", || async {
            let stream = tributary.get(&authority(namespace, "api"));
            stream.begun().await;
            matches!(stream.outcome(), Some(Outcome::Failed(Code::NotFound, _))).then_some(())
        })
        .await?;
        for stream in [&web, &api] {
            assert_eq!(stream.outcome(), None, "{}", stream.report());
        }
        Ok(())
    });
}
