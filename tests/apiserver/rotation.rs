//! Credentials that change, each time by an edit of the Secret in place, while streams are open.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::cluster::Cluster;
use crate::support::connect_proxy::ConnectProxy;
use crate::support::kubeconfig::Credentials;
use crate::support::link::{Link, unlink};
use crate::support::pki::SERVER_NAMES;
use crate::support::services::{Backend, authority, workload};
use crate::support::tributary::Tributary;
use crate::support::{note, run, wait_for};
use crate::victim::{COMES, GOES, HOME, HOME_COMES, STAYS, Victim, log_line_with};

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_16_credentials_rotate_without_anyone_noticing() {
    run(async {
        let victim = Victim::start("rotating").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        let mark = streams.federated.mark();

        let mut link = victim.link.clone();
        link.access.credentials = victim.cluster.remote_certificate().await?;
        link.store(victim.home).await?;
        let token = Link::to(&victim.cluster, victim.name).await?;
        assert!(matches!(token.access.credentials, Credentials::Token(_)));
        token.store(victim.home).await?;
        // What the README tells operators to look for.
        let used = ["new credentials of cluster in use", "cluster=rotating"];
        log_line_with(&tributary, &used).await?;
        let connected = "tributary_cluster_connected{cluster=\"rotating\"} 1";
        wait_for("the metric that tells of the connection", || async {
            let metrics = tributary.metrics().await.ok()?;
            metrics.contains(connected).then_some(())
        })
        .await?;
        let told = tributary.logs_containing("cluster connected cluster=rotating");
        assert!(told.len() > 1, "{told:?}");
        assert!(
            streams.federated.messages_since(mark).is_empty(),
            "nothing is different: {}",
            streams.federated.report()
        );
        // The old way is of no use any more.
        victim.network.refuse().await;
        victim.network.cut();
        let changed = Instant::now();
        victim.change().await?;
        streams.heal("credentials replaced twice", changed).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_sec_06_a_revoked_token_is_replaced_and_concerns_no_other_cluster() {
    run(async {
        let victim = Victim::start("revoked").await?;
        let other = Victim::shared("bystander").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;
        let others = other.streams(&tributary).await;

        victim.cluster.revoke_tokens().await?;
        // A restart forgets at once that the token was good.
        victim.cluster.restart_apiserver().await?;
        log_line_with(&tributary, &["cluster rejected", "cluster=revoked", "401"]).await?;
        victim.change().await?;
        let changed = Instant::now();
        other.change().await?;
        others
            .heal("another cluster's token revoked", changed)
            .await;
        streams
            .federated
            .wait_for_exactly(&[HOME, STAYS, GOES])
            .await;

        let token = Link::to(&victim.cluster, victim.name).await?;
        let healed = Instant::now();
        token.store(victim.home).await?;
        streams.heal("token revoked and replaced", healed).await;
        victim.leave().await?;
        other.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn another_authority_is_followed_by_the_secret() {
    run(async {
        let victim = Victim::start("renewing").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.cluster.renew_certificates().await?;
        let untrusted = [
            "cluster unreachable",
            "cluster=renewing",
            "certificate not trusted",
        ];
        log_line_with(&tributary, &untrusted).await?;
        victim.change().await?;
        let link = Link::to(&victim.cluster, victim.name).await?;
        let healed = Instant::now();
        link.store(victim.home).await?;
        streams.heal("certificate authority replaced", healed).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn an_api_server_that_moves_is_followed_by_its_secret() {
    run(async {
        let victim = Victim::start("moving").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        victim.cluster.move_apiserver().await?;
        victim.change().await?;
        let link = Link::to(&victim.cluster, victim.name).await?;
        let healed = Instant::now();
        link.store(victim.home).await?;
        streams.heal("API server moved", healed).await;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_broken_secret_changes_nothing_until_it_is_corrected() {
    run(async {
        let victim = Victim::shared("mistaken").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        let broken = victim.link.with_kubeconfig("{clusters: []}");
        victim.home.apply(&broken.to_string()).await?;
        let told = [
            "cluster rejected",
            "cluster=mistaken",
            "no current-context",
            "linkerd/cluster-credentials-mistaken",
        ];
        log_line_with(&tributary, &told).await?;
        // The session of before goes on.
        let changed = Instant::now();
        victim.change().await?;
        streams
            .heal("Secret broken, session going on", changed)
            .await;

        // Credentials that nobody knows are tried, and the old ones stay in use.
        let mut wrong = victim.link.clone();
        wrong.access.credentials = Credentials::Token("nobody".to_owned());
        wrong.store(victim.home).await?;
        log_line_with(&tributary, &["cluster rejected", "cluster=mistaken", "401"]).await?;
        victim.network.cut();
        victim.change_home().await?;
        let all = [HOME, HOME_COMES, STAYS, COMES];
        streams.federated.wait_for_exactly(&all).await;

        let connected = tributary.logs_containing("cluster=mistaken").len();
        let mut right = victim.link.clone();
        right.access.credentials = victim.cluster.remote_certificate().await?;
        let corrected = Instant::now();
        right.store(victim.home).await?;
        wait_for("the corrected Secret to be in use", || async {
            tributary.logs_containing("cluster=mistaken")[connected..]
                .iter()
                .any(|line| line.contains("new credentials of cluster in use"))
                .then_some(())
        })
        .await?;
        note(&format!(
            "Secret corrected: in use after {:.1} s (due: 5 s)",
            corrected.elapsed().as_secs_f64()
        ));
        streams.assert_kept();
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn every_way_to_reach_a_cluster_works() {
    run(async {
        let victim = Victim::shared_unlinked("variously").await?;
        let open = ConnectProxy::start(None).await?;
        let guarded = ConnectProxy::start(Some("Basic dXNlcjpwYSRz")).await?;
        let certificate = victim.cluster.remote_certificate().await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let stream = victim.subscribe(&tributary);
        stream.wait_for_exactly(&[HOME]).await;

        for way in 0..4 {
            let mut link = victim.link.clone();
            link.access.credentials = certificate.clone();
            match way {
                0 => {}
                // The certificate has this name, and the URL another.
                1 => link.access.tls_server_name = Some(SERVER_NAMES[2].to_owned()),
                2 => link.access.proxy_url = Some(format!("http://{}", open.address())),
                _ => {
                    link.access.proxy_url =
                        Some(format!("http://user:pa%24s@{}", guarded.address()));
                }
            }
            link.store(victim.home).await?;
            stream.wait_for_exactly(&[HOME, STAYS, GOES]).await;
            unlink(victim.home, victim.name).await?;
            stream.wait_for_exactly(&[HOME]).await;
        }
        assert!(open.tunnels() > 0, "nothing went through the proxy");
        assert!(guarded.tunnels() > 0, "nothing went through the other one");

        // Were the name not compared, the second way would prove nothing.
        let mut misnamed = victim.link.clone();
        misnamed.access.tls_server_name = Some("elsewhere.bed.test".to_owned());
        misnamed.store(victim.home).await?;
        let told = [
            "cluster unreachable",
            "cluster=variously",
            "certificate not trusted",
        ];
        log_line_with(&tributary, &told).await?;
        victim.leave().await
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn fc_rel_27_a_token_file_of_the_home_cluster_is_read_again() {
    run(async {
        let home = Cluster::start("refreshing").await?;
        home.define_linkerd_kinds().await?;
        let web = [Backend::ready("web-0", "10.50.6.1")];
        home.apply(&workload("shop", "web", &web)).await?;
        // The account of readers may read all that matters here; its tokens can be revoked.
        let token = home.write_file("token", &home.remote_token().await?)?;
        home.grant_remote_account_the_home_rights().await?;
        let access = home.access(Credentials::TokenFile(token.display().to_string()));
        let kubeconfig = home.write_file("token-file.kubeconfig", &access.to_yaml())?;
        let tributary = Tributary::launch(&kubeconfig, &[])?;
        tributary.until_ready().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.wait_for_exactly(&["10.50.6.1:8080"]).await;
        let mark = stream.mark();

        home.revoke_tokens().await?;
        home.restart_apiserver().await?;
        log_line_with(&tributary, &["cluster rejected", "401"]).await?;
        let more = [web[0], Backend::ready("web-1", "10.50.6.2")];
        home.apply(&workload("shop", "web", &more)).await?;
        home.write_file("token", &home.remote_token().await?)?;
        let healed = Instant::now();
        stream
            .wait_within(Duration::from_secs(20), "the new Pod", |state| {
                state.is_exactly(&["10.50.6.1:8080", "10.50.6.2:8080"])
            })
            .await;
        stream.assert_kept_since(mark, &["10.50.6.1:8080"]);
        note(&format!(
            "home token file replaced: healed after {:.1} s (due: 5 s)",
            healed.elapsed().as_secs_f64()
        ));
        Ok(())
    });
}
