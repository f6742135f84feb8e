//! Folders of manifests, and what the product makes of their changes.

use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::services::{Backend, authority, service, slice, workload};
use crate::support::subscription::Message;
use crate::support::{run, runtime, wait_for};

#[test]
fn a_broken_file_keeps_what_it_said_and_is_named_with_the_place() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.wait_for_exactly(&WEB).await;
        let mark = stream.mark();

        let first_line = "apiVersion: v1\nkind: Service\n";
        let broken = format!("{first_line}metadata:\n  name: [web\nspec: {{}}\n");
        manifests.write("home/web.yaml", &broken)?;
        let line = tributary.log_line("manifest file cannot be used").await?;
        assert!(line.contains("web.yaml"), "{line}");
        assert!(line.contains("line 4, column 9"), "{line}");

        // Other files are followed meanwhile.
        manifests.write("home/idle.yaml", &service("shop", "other"))?;
        wait_for("a Service of another file", || async {
            let other = tributary.get(&authority("shop", "other"));
            other.begun().await;
            other.outcome().is_none().then_some(())
        })
        .await?;
        assert!(
            stream.messages_since(mark).is_empty(),
            "{}",
            stream.report()
        );

        let repaired = workload("shop", "web", &[Backend::ready("web-2", "10.1.0.3")]);
        manifests.write("home/web.yaml", &repaired)?;
        stream.wait_for_exactly(&["10.1.0.3:8080"]).await;
        Ok(())
    });
}

#[test]
fn a_bad_address_costs_only_itself() {
    run(async {
        let manifests = Manifests::new()?;
        let backends = [Backend::ready("web-0", "10.1.0.1")];
        let good = slice("shop", "web", &backends);
        let mut text = workload("shop", "web", &backends);
        text += &good.replace("web-s1", "web-s2").replace(
            "endpoints:\n",
            "endpoints:\n- {addresses: [not-an-address]}\n- {addresses: [10.1.0.300]}\n- {addresses: ['']}\n- {addresses: []}\n\
             - {addresses: [10.1.0.2]}\n- {addresses: ['fd00::zz']}\n",
        );
        manifests.write("home/web.yaml", &text)?;
        let tributary = manifests.serve().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.wait_for_exactly(&WEB).await;
        tributary.log_line("part of a manifest left out").await?;
        Ok(())
    });
}

#[test]
fn a_megabyte_of_annotations_and_long_names_are_nothing_special() {
    run(async {
        let manifests = Manifests::new()?;
        let name = "w".repeat(63);
        let padding = format!("padding: '{}'", "x".repeat(1_000_000));
        let backends = [Backend::ready("web-0", "10.1.0.1")];
        let text = workload(&"n".repeat(63), &name, &backends)
            .replace(
                "metadata: {",
                &format!("metadata: {{annotations: {{{padding}}}, "),
            )
            .replace(
                "metadata:\n",
                &format!("metadata:\n  annotations: {{{padding}}}\n"),
            );
        assert!(
            text.len() > 3_000_000,
            "on the Service, the Pod and the slice"
        );
        manifests.write("home/long.yaml", &text)?;
        let tributary = manifests.serve().await?;
        let stream = tributary.get(&authority(&"n".repeat(63), &name));
        let state = stream.wait_for_exactly(&["10.1.0.1:8080"]).await;
        assert_eq!(state.at("10.1.0.1:8080").label("service"), Some(&*name));
        Ok(())
    });
}

#[test]
fn every_stream_begins_with_an_answer_however_things_move() {
    run(async {
        let (manifests, tributary) = shop().await?;
        let watching = tributary.get(&authority("shop", "web"));
        watching.wait_for_exactly(&WEB).await;
        let connection = tributary.connect_lazy();
        let mut streams = Vec::new();
        for round in 1..=20_u8 {
            let ip = format!("10.1.1.{round}");
            let backends = [
                Backend::ready("web-0", "10.1.0.1"),
                Backend::ready("web-1", &ip),
            ];
            // Every other time there is nothing at all.
            let backends = if round % 2 == 0 { &backends[..] } else { &[] };
            manifests.write("home/web.yaml", &workload("shop", "web", backends))?;
            for _ in 0..5 {
                streams.push(tributary.get_on(connection.clone(), &authority("shop", "web"), ""));
            }
        }
        for stream in &streams {
            stream
                .wait_for_exactly(&["10.1.0.1:8080", "10.1.1.20:8080"])
                .await;
            let messages = stream.messages();
            assert!(!matches!(messages[0], Message::Remove(_)), "{messages:?}");
        }
        Ok(())
    });
}

/// A value where something else was due.
fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("web")),
        Just(json!("shop")),
        Just(json!("10.1.0.1")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            hash_map(odd_key(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Names that objects of the watched kinds have, and others.
fn odd_key() -> impl Strategy<Value = String> {
    let known = [
        "name",
        "namespace",
        "labels",
        "annotations",
        "ports",
        "port",
        "endpoints",
        "addresses",
        "targetRef",
        "conditions",
        "hints",
        "podIPs",
        "containers",
        "env",
        "items",
        "multicluster.linkerd.io/remote-discovery",
        "kubernetes.io/service-name",
    ];
    prop_oneof![4 => select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,8}"]
}

/// An object of a watched kind, in which anything may be anything.
fn odd_object() -> impl Strategy<Value = Value> {
    let kind = select(vec![
        ("v1", "Service"),
        ("v1", "Pod"),
        ("v1", "Node"),
        ("v1", "Secret"),
        ("v1", "List"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("apps/v1", "ReplicaSet"),
    ]);
    let parts = btree_map(
        select(vec![
            "metadata",
            "spec",
            "status",
            "data",
            "endpoints",
            "ports",
            "items",
            "type",
        ]),
        odd_value(),
        0..6,
    );
    (kind, parts).prop_map(|((version, kind), parts)| {
        let mut object = json!({"apiVersion": version, "kind": kind});
        for (name, value) in parts {
            object[name] = value;
        }
        object
    })
}

#[test]
fn odd_objects_hurt_nobody() {
    let start = async {
        let (manifests, tributary) = shop().await?;
        let stream = tributary.get(&authority("shop", "web"));
        Ok::<_, anyhow::Error>((manifests, tributary, stream))
    };
    let (manifests, tributary, stream) = runtime().block_on(start).unwrap();
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    let rounds = std::cell::Cell::new(0_u32);
    let outcome = TestRunner::new(config).run(&vec(odd_object(), 60), |objects| {
        rounds.set(rounds.get() + 1);
        let marker = format!("marker-{}", rounds.get());
        let round = async {
            for (index, object) in objects.iter().enumerate() {
                // In a cluster of their own, where an object cannot replace one that is waited for.
                let cluster = ["odd", "home"][usize::from(index % 2 == 0)];
                let file = format!("{cluster}/odd-{index}.json");
                if object["metadata"]["name"] != "web" {
                    manifests.write(&file, &object.to_string())?;
                }
            }
            manifests.write("home/marker.yaml", &service("shop", &marker))?;
            wait_for("the round to be read", || async {
                let stream = tributary.get(&authority("shop", &marker));
                stream.begun().await;
                stream.outcome().is_none().then_some(())
            })
            .await?;
            tributary.ensure_running()
        };
        let round = runtime().block_on(round);
        round.map_err(|error| TestCaseError::fail(format!("{error:?}")))
    });
    if let Err(failed) = outcome {
        panic!("{failed}");
    }
    run(async {
        stream.wait_for_exactly(&WEB).await;
        Ok(())
    });
}
