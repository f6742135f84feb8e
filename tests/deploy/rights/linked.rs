//! Each right in a linked cluster, taken away.

use super::Grant;
use super::world::{Addresses, DEPLOYMENT, Facts, IDENTITY, OPAQUE, fill, until_series};
use crate::support::bed::Bed;
use crate::support::link::{Link, unlink};
use crate::support::run;
use crate::support::services::{authority, flat_mirror};
use crate::support::tributary::Tributary;
use crate::tools::read;

const NAMESPACE: &str = "rights-linked";
const NORTH: Addresses = Addresses("10.70.80");

const RESOURCES: [(&str, Option<&[&str]>); 6] = [
    ("nothing", Some(&[])),
    ("services", None),
    ("endpointslices", None),
    ("pods", Some(&[IDENTITY, DEPLOYMENT, OPAQUE])),
    ("replicasets", Some(&[DEPLOYMENT])),
    ("servers", Some(&[OPAQUE])),
];

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn without_a_right_in_a_linked_cluster_what_it_is_for_is_lost_and_nothing_else() {
    run(async {
        let bed = Bed::shared().await?;
        fill(&bed.north, NAMESPACE, NORTH).await?;
        let manifest = read("deploy/rbac-linked.yaml")?;
        let mut granted = Grant::of(&[&manifest], "linkerd-multicluster", "x")?.resources();
        granted.insert("nothing".to_owned());
        let tested = RESOURCES
            .iter()
            .map(|(resource, _)| (*resource).to_owned())
            .collect();
        assert_eq!(granted, tested, "each resource has a row");

        // One cluster, linked once for each row, with an account of its own.
        let cluster = |resource: &str| format!("no-{resource}");
        for (resource, _) in RESOURCES {
            let name = cluster(resource);
            let grant =
                Grant::of(&[&manifest], "linkerd-multicluster", &name)?.without(resource, None);
            let access = grant.apply(&bed.north).await?;
            let link = Link {
                secret: format!("cluster-credentials-{name}"),
                cluster: name.clone(),
                trust_domain: "cluster.local".to_owned(),
                cluster_domain: "cluster.local".to_owned(),
                access,
            };
            link.store(&bed.home).await?;
            for service in ["web", "db"] {
                bed.home
                    .apply(&flat_mirror(NAMESPACE, service, &name))
                    .await?;
            }
        }
        let tributary = Tributary::start(&bed.home, &[]).await?;
        for (resource, lost) in RESOURCES {
            let name = cluster(resource);
            let synced = format!("tributary_cluster_synced{{cluster=\"{name}\"}}");
            let Some(lost) = lost else {
                let forbidden = format!(
                    "tributary_source_failures_total{{cluster=\"{name}\",reason=\"forbidden\",resource=\"{resource}\"}}"
                );
                until_series(&tributary, &forbidden, |count| count >= 3.0).await?;
                until_series(&tributary, &synced, |value| value.total_cmp(&0.0).is_eq()).await?;
                continue;
            };
            until_series(&tributary, &synced, |value| value > 0.0).await?;
            let endpoint = async |service: &str, last: u8| {
                let stream = tributary.get(&authority(NAMESPACE, &format!("{service}-{name}")));
                let address = NORTH.socket(last).to_string();
                let state = stream.wait_for_exactly(&[&address]).await;
                state.at(&address).clone()
            };
            let (web, db) = (endpoint("web", 1).await, endpoint("db", 3).await);
            let mut facts = Facts::new();
            facts.extend(web.identity().is_some().then_some(IDENTITY));
            facts.extend((web.label("deployment") == Some("web")).then_some(DEPLOYMENT));
            facts.extend((db.protocol() == Some("opaque")).then_some(OPAQUE));
            let all = [IDENTITY, DEPLOYMENT, OPAQUE];
            let expected: Facts = all
                .into_iter()
                .filter(|fact| !lost.contains(fact))
                .collect();
            assert_eq!(facts, expected, "{name}");
        }
        for (resource, _) in RESOURCES {
            unlink(&bed.home, &cluster(resource)).await?;
        }
        Ok(())
    });
}
