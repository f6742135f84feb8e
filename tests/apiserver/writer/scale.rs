//! What many endpoints and many changes cost.

use std::fmt::Write as _;

use anyhow::Result;
use tokio::time::Instant;

use super::{applies, copies, turn, writer};
use crate::support::services::{flat_mirror, service};
use crate::support::{note, run, wait_for};

/// A slice of `web` with a hundred endpoints; `generation` gives each fifth endpoint of that number another address.
fn hundred(namespace: &str, service: &str, number: usize, generation: usize) -> String {
    let mut text = format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {service}-{number}
  namespace: {namespace}
  labels: {{kubernetes.io/service-name: {service}, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}
addressType: IPv4
ports: [{{name: http, port: 8080, protocol: TCP}}]
endpoints:
"
    );
    for place in 0..100 {
        let restarts = (generation + 19 - place % 20) / 20;
        writeln!(
            text,
            "- {{addresses: [172.{}.{}.{}], zone: za, conditions: {{ready: true, serving: true, terminating: false}}}}",
            16 + number / 10,
            20 * (number % 10) + restarts,
            place + 1
        )
        .expect("a String takes any text");
    }
    text
}

async fn written(home: &crate::support::cluster::Cluster, namespace: &str) -> Result<Vec<String>> {
    let copies = copies(home, namespace).await?;
    let endpoints = copies.values().flat_map(|copy| &copy.endpoints);
    let mut addresses: Vec<_> = endpoints
        .flat_map(|endpoint| endpoint.addresses.clone())
        .collect();
    addresses.sort();
    Ok(addresses)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_rolling_restart_of_a_thousand_costs_at_most_a_write_per_changed_slice() {
    run(async {
        let turn = turn().await?;
        let bed = turn.bed;
        let namespace = "writer-thousand";
        bed.east.apply(&service(namespace, "web")).await?;
        for number in 0..10 {
            bed.east
                .apply(&hundred(namespace, "web", number, 0))
                .await?;
        }
        bed.home
            .apply(&flat_mirror(namespace, "web", "east"))
            .await?;
        let tributary = writer(&bed.home, namespace, &[]).await?;
        wait_for("a thousand endpoints", || async {
            (written(&bed.home, namespace).await.ok()?.len() == 1000).then_some(())
        })
        .await?;
        let asked = applies(&bed.home).await?;
        let began = Instant::now();
        let rounds = 20;
        for round in 1..=rounds {
            for number in 0..10 {
                bed.east
                    .apply(&hundred(namespace, "web", number, round))
                    .await?;
            }
        }
        wait_for("every endpoint to have another address", || async {
            let addresses = written(&bed.home, namespace).await.ok()?;
            let third = |address: &String| address.split('.').nth(2)?.parse::<usize>().ok();
            let all_new = addresses
                .iter()
                .all(|address| third(address).is_some_and(|part| part % 20 == 1));
            (all_new && addresses.len() == 1000).then_some(())
        })
        .await?;
        let (writes, changes) = (applies(&bed.home).await? - asked, 10.0 * 20.0);
        let seconds = began.elapsed().as_secs_f64();
        note(&format!(
            "rolling restart of 1000 endpoints: {changes} source writes, {writes} copy writes in {seconds:.1} s"
        ));
        assert!(writes <= changes, "{writes} writes for {changes} changes");
        tributary.terminate().await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn ten_thousand_endpoints_are_one_request_per_slice() {
    run(async {
        let turn = turn().await?;
        let bed = turn.bed;
        let namespace = "writer-ten-thousand";
        for number in 0..100 {
            let name = format!("web{number:03}");
            bed.east.apply(&service(namespace, &name)).await?;
            bed.east
                .apply(&hundred(namespace, &name, number, 0))
                .await?;
            bed.home
                .apply(&flat_mirror(namespace, &name, "east"))
                .await?;
        }
        let asked = applies(&bed.home).await?;
        let began = Instant::now();
        let tributary = writer(&bed.home, namespace, &[]).await?;
        wait_for("ten thousand endpoints", || async {
            (copies(&bed.home, namespace).await.ok()?.len() == 100).then_some(())
        })
        .await?;
        let seconds = began.elapsed().as_secs_f64();
        let writes = applies(&bed.home).await? - asked;
        note(&format!(
            "first sync of 10000 endpoints: {writes} writes, {seconds:.1} s from the start of the process, {} KiB resident",
            tributary.resident_kib()?
        ));
        assert_eq!(written(&bed.home, namespace).await?.len(), 10_000);
        assert!((writes - 100.0).abs() < 0.5, "{writes} writes");
        tributary.terminate().await?;
        Ok(())
    });
}
