//! What the API server takes, and what it says when it does not.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use tributary::index::Change;
use tributary::model::copying::{Hints, Hostnames, Settings, Zones};
use tributary::testing::{World, cluster, home, service, slice};
use tributary::writer::plan::{Action, HomeAddresses, Inputs, Moment, plan};
use tributary::writer::{Access, Copy, Effect, Reason, Requests};

use crate::support::bed::Bed;
use crate::support::services::{
    Backend, flat_mirror, service as service_yaml, slice as slice_yaml, workload,
};
use crate::support::{run, wait_for};

/// An administrator's way in.
struct Admin(Client);

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl Access for Admin {
    fn client(&self) -> BoxFuture<'_, Result<Client, String>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn refresh(&self) {}
}

#[derive(Debug)]
struct NoAddresses;

impl HomeAddresses for NoAddresses {
    fn contains(&self, _: std::net::IpAddr) -> bool {
        false
    }
}

/// The copies that are made of sources that say everything a source can say, and of some that should not.
fn generated(namespace: &str, owner: &str, settings: &Settings) -> Vec<Copy> {
    let odd_zones = ["za", "", "odd zone", "a/b", "-", "z.a_b"];
    let odd_hosts = ["web-0", "Web", "web.0", "", "-x"];
    let odd_protocols = ["http", "kubernetes.io/h2c", "bad protocol", "/", "a/b/c"];
    let web = format!("{namespace}/web");
    let mut mirror = service(&format!("{namespace}/web-east"))
        .mirrors("web@east")
        .mirror(owner, |details| {
            details.families.v6 = true;
        });
    let mut member = service(&web);
    for (number, protocol) in (0_u16..).zip(odd_protocols) {
        mirror = mirror.port(80 + number, &format!("p{number}"));
        member = member
            .port(80 + number, &format!("there-{number}"))
            .speaking(protocol);
    }
    let mut objects = vec![member.object()];
    for family in ["10.9.0.", "fd00::"] {
        for (number, zone) in odd_zones.iter().enumerate() {
            let mut built = slice(&format!(
                "web-{}-{number}",
                if family == "fd00::" { 6 } else { 4 }
            ))
            .of(&web);
            for port in 0..5 {
                built = built.port(8000 + port, &format!("there-{port}"));
            }
            if family == "fd00::" {
                built = built.ipv6();
            }
            for (host_number, host) in odd_hosts.iter().enumerate() {
                built = built
                    .endpoint(&format!("{family}{}", number * 10 + host_number + 1))
                    .zone(zone)
                    .hostname(host)
                    .node("n0")
                    .for_zones(&[zone])
                    .conditions(host_number % 2 == 0, host_number % 3 == 0, number % 2 == 0);
            }
            for odd in [
                "224.1.1.1",
                "255.255.255.255",
                "127.0.0.1",
                "::1",
                "ff02::1",
                "169.254.0.1",
            ] {
                if odd.contains(':') == (family == "fd00::") {
                    built = built.endpoint(odd);
                }
            }
            objects.push(built.object());
        }
    }
    let mut world = World::default();
    world.say(home().begins_with([mirror.object()]));
    world.say([Change::LinksKnown, cluster("east").linked()]);
    world.say(cluster("east").begins_with(objects));
    let plan = plan(&Inputs {
        snapshot: &world.snapshot(&format!("{namespace}/web-east")),
        existing: &std::collections::BTreeMap::new(),
        settings,
        clusters: &std::collections::BTreeMap::new(),
        moment: &Moment::default(),
        is_home: &NoAddresses,
    });
    let actions = plan.units.into_values().flatten();
    actions
        .filter_map(|action| match action {
            Action::Apply { copy, .. } => Some(*copy),
            Action::Delete { .. } => None,
        })
        .collect()
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn whatever_is_made_is_taken_and_reads_back_as_it_was_made() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "writer-acceptance";
        bed.home.apply(&service_yaml(namespace, "owner")).await?;
        let requests = Requests::new(Arc::new(Admin(bed.home.client())));
        let mut checked = 0;
        for hints in [Hints::Off, Hints::Copy, Hints::Zone, Hints::LocalFirst] {
            for hostnames in [Hostnames::Keep, Hostnames::Suffix, Hostnames::Drop] {
                for zones in [Zones::Keep, Zones::Prefix, Zones::Cluster] {
                    let mut settings = Settings::new("hub".into());
                    settings.hints = hints;
                    settings.hostnames = hostnames;
                    settings.default_zones = zones;
                    for copy in
                        generated(namespace, "00000000-0000-0000-0000-000000000001", &settings)
                    {
                        let there = requests.apply(&copy, None, Effect::DryRun).await;
                        let there = there
                            .with_context(|| format!("{copy:?}"))?
                            .context("no slice")?;
                        assert_eq!(there.content.as_ref(), Some(&copy.content));
                        assert_eq!(there.source, copy.source);
                        checked += 1;
                    }
                }
            }
        }
        assert_eq!(checked, 12 * 36);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn preconditions_hold() {
    run(async {
        let turn = super::turn().await?;
        let bed = turn.bed;
        let namespace = "writer-preconditions";
        bed.home.apply(&service_yaml(namespace, "owner")).await?;
        let requests = Requests::new(Arc::new(Admin(bed.home.client())));
        let settings = Settings::new("hub".into());
        let mut copies = generated(namespace, "00000000-0000-0000-0000-000000000001", &settings);
        let copy = copies.pop().context("a copy")?;
        let there = requests
            .apply(&copy, None, Effect::Real)
            .await?
            .context("a slice")?;
        let refused = |answer: Result<(), tributary::writer::Refusal>| {
            answer.err().map(|refusal| refusal.reason)
        };
        let wrong_uid = requests
            .delete(&copy.name, &"other".into(), &there.resource_version)
            .await;
        assert_eq!(refused(wrong_uid), Some(Reason::Outdated));
        let wrong_version = requests.delete(&copy.name, &there.uid, &"1".into()).await;
        assert_eq!(refused(wrong_version), Some(Reason::Outdated));
        requests
            .delete(&copy.name, &there.uid, &there.resource_version)
            .await?;
        // Gone is gone: deleting it again is no failure, and applying over it makes no new one.
        requests
            .delete(&copy.name, &there.uid, &there.resource_version)
            .await?;
        let over = requests.apply(&copy, Some(&there.uid), Effect::Real).await;
        assert_eq!(
            over.err().map(|refusal| refusal.reason),
            Some(Reason::Outdated)
        );
        assert!(super::copies(&bed.home, namespace).await?.is_empty());
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn the_admission_policy_lets_the_writer_write_and_nothing_else() {
    run(async {
        let turn = super::turn().await?;
        let bed = turn.bed;
        let namespace = "writer-policy";
        let policy = include_str!("../../../deploy/admission-policy.yaml");
        bed.home.apply(super::WRITE_RIGHTS).await?;
        bed.home.apply(policy).await?;
        let stranger = slice_yaml(namespace, "plain", &[Backend::ready("x", "10.50.64.1")]);
        bed.home.apply(&stranger).await?;
        let account = bed.home.home_access().await?.client().await?;
        let theirs: Api<EndpointSlice> = Api::namespaced(account, namespace);
        let take_over = serde_json::json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "plain-s1",
                "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-writer.tributary.dev"},
            },
            "addressType": "IPv4",
            "endpoints": [],
            "ports": [],
        });
        // A policy holds a moment after it is made.
        wait_for("the policy to hold", || async {
            let mut params = PatchParams::apply("somebody").force();
            params.dry_run = true;
            match theirs
                .patch("plain-s1", &params, &Patch::Apply(&take_over))
                .await
            {
                Err(kube::Error::Api(status)) => (status.code == 422).then_some(()),
                _ => None,
            }
        })
        .await?;
        let deleted = theirs.delete("plain-s1", &DeleteParams::default()).await;
        assert!(
            matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 422),
            "{deleted:?}"
        );

        let web = [Backend::ready("web-0", "10.60.64.1")];
        bed.east.apply(&workload(namespace, "web", &web)).await?;
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let tributary = super::writer(&bed.home, namespace, &[]).await?;
        let line = "web-east from east: http=8080 | 10.60.64.1 ready serving zone:za";
        super::wait_for_copies(&tributary, &bed.home, namespace, line).await?;
        bed.east.apply(&slice_yaml(namespace, "web", &[])).await?;
        let line = "web-east from east: http=8080 |";
        super::wait_for_copies(&tributary, &bed.home, namespace, line).await?;
        bed.home
            .delete(&flat_mirror(namespace, "web", "east"))
            .await?;
        super::wait_for_copies(&tributary, &bed.home, namespace, "").await?;
        tributary.terminate().await?;
        bed.home.delete(policy).await?;
        Ok(())
    });
}
