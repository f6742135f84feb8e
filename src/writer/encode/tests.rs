use serde_json::{Value, json};

use super::*;
use crate::model::NodeName;

fn copy() -> Copy {
    let endpoint = |address: &str, ready: bool| CopyEndpoint {
        address: address.parse().unwrap(),
        conditions: Conditions {
            ready,
            serving: true,
            terminating: !ready,
        },
        hostname: Some("web-0".into()),
        node: Some(NodeName::from("n0")),
        zone: Some("za".into()),
        hints: vec!["za".into()],
        target: Some(Target {
            kind: TargetKind::Pod,
            namespace: "shop".into(),
            name: "web-0".into(),
            uid: "pod-0".into(),
        }),
    };
    Copy {
        name: SliceName::new("shop", "web-east-east-abc"),
        content: Content {
            service: ServiceName::new("shop", "web-east"),
            origin: Origin::Cluster {
                name: "east".into(),
                audience: Audience::Gateways,
            },
            is_headless: false,
            family: AddressFamily::V4,
            ports: vec![CopyPort {
                name: "".into(),
                transport: Transport::Tcp,
                port: 8080,
                app_protocol: Some("http".into()),
            }],
            endpoints: vec![endpoint("10.9.0.1", true), endpoint("10.9.0.2", false)],
        },
        owner: "uid-1".into(),
        source: Provenance {
            slice: "shop/web-x".into(),
            uid: "slice-1".into(),
            generation: 7,
            cluster_uid: "cluster-1".into(),
        },
    }
}

/// The copy as an API server gives it back, with changes.
fn stored(change: impl FnOnce(&mut Value)) -> Existing {
    let mut object = serde_json::to_value(encode(&copy(), None)).unwrap();
    object["metadata"]["uid"] = json!("copy-1");
    object["metadata"]["resourceVersion"] = json!("12");
    change(&mut object);
    decode(&serde_json::from_value(object).unwrap()).unwrap()
}

#[test]
fn what_is_written_reads_back_as_the_same() {
    let existing = stored(|_| {});
    assert_eq!(existing.content.as_ref(), Some(&copy().content));
    assert_eq!(existing.source, copy().source);
    assert_eq!(existing.service, copy().content.service);
    assert_eq!(existing.addresses, 2);
    assert!(existing.says(&copy()));
}

#[test]
fn what_the_server_defaults_and_what_strangers_add_changes_nothing() {
    for change in [
        (|object: &mut Value| object["ports"][0]["protocol"] = json!("TCP")) as fn(&mut Value),
        |object| object["ports"][0]["name"] = Value::Null,
        |object| object["metadata"]["labels"]["somebody.example/else"] = json!("x"),
        |object| object["metadata"]["annotations"]["tributary.dev/source-generation"] = json!("8"),
        |object| object["endpoints"].as_array_mut().unwrap().reverse(),
        |object| {
            let stranger =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"});
            object["metadata"]["ownerReferences"]
                .as_array_mut()
                .unwrap()
                .push(stranger);
        },
    ] {
        assert!(stored(change).says(&copy()));
    }
}

#[test]
fn null_is_empty() {
    let mut empty = copy();
    empty.content.endpoints.clear();
    empty.content.ports.clear();
    let existing = stored(|object| {
        object["endpoints"] = Value::Null;
        object["ports"] = Value::Null;
    });
    assert!(existing.says(&empty));
}

#[test]
fn every_edit_of_a_stranger_is_seen() {
    for change in [
        (|object: &mut Value| object["endpoints"][0]["addresses"][0] = json!("10.6.6.6"))
            as fn(&mut Value),
        |object| object["endpoints"][0]["addresses"] = json!(["10.9.0.1", "10.6.6.6"]),
        |object| object["endpoints"][0]["conditions"] = json!({}),
        |object| object["endpoints"][0]["conditions"]["ready"] = Value::Null,
        |object| object["endpoints"][0]["hints"] = json!({}),
        |object| object["endpoints"][0]["hints"]["forNodes"] = json!([{"name": "n0"}]),
        |object| object["endpoints"][0]["zone"] = json!(""),
        |object| object["endpoints"][0]["targetRef"] = json!({}),
        |object| object["endpoints"][0]["targetRef"]["uid"] = json!("x"),
        |object| object["endpoints"][0]["targetRef"]["apiVersion"] = json!("v1"),
        |object| object["ports"][0]["port"] = json!(70_000),
        |object| object["ports"][0]["port"] = Value::Null,
        |object| object["metadata"]["labels"]["kubernetes.io/service-name"] = json!("other"),
        |object| object["metadata"]["labels"]["service.kubernetes.io/headless"] = json!(""),
        |object| {
            let labels = object["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove("service.kubernetes.io/service-proxy-name");
        },
        |object| {
            object["metadata"]["labels"]["service.kubernetes.io/service-proxy-name"] = json!("x");
        },
        |object| object["metadata"]["ownerReferences"] = Value::Null,
        |object| object["metadata"]["ownerReferences"][0]["uid"] = json!("uid-2"),
        |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
    ] {
        let existing = stored(change);
        assert!(!existing.says(&copy()), "{existing:?}");
    }
}

#[test]
fn a_relabelled_copy_still_belongs_to_its_owner() {
    let existing = stored(|object| {
        object["metadata"]["labels"]["kubernetes.io/service-name"] = json!("other");
    });
    assert_eq!(existing.service, copy().content.service);
}

/// A slice of ExternalWorkloads, with a label of its Service.
fn of_workloads() -> Copy {
    let mut copy = copy();
    let labels = [("team".into(), "shop".into())].into_iter().collect();
    copy.content.origin = Origin::Workloads { labels };
    copy.source = Provenance::default();
    copy
}

#[test]
fn slices_of_workloads_bear_the_labels_and_the_owner_that_linkerd_gives_them() {
    let object = serde_json::to_value(encode(&of_workloads(), None)).unwrap();
    let metadata = &object["metadata"];
    let labels = json!({
        "team": "shop",
        "kubernetes.io/service-name": "web-east",
        "endpointslice.kubernetes.io/managed-by": "linkerd-external-workloads-controller",
    });
    assert_eq!(metadata["labels"], labels);
    assert_eq!(metadata["ownerReferences"][0]["controller"], json!(true));
    assert_eq!(metadata["annotations"], Value::Null);
}

#[test]
fn labels_that_others_have_set_on_slices_of_workloads_count_until_we_have_written_them() {
    let stored = |managers: Value| {
        let mut object = serde_json::to_value(encode(&of_workloads(), None)).unwrap();
        object["metadata"]["labels"]["left"] = json!("over");
        object["metadata"]["managedFields"] = managers;
        decode(&serde_json::from_value(object).unwrap()).unwrap()
    };
    let theirs = json!({"manager": "controller", "operation": "Update", "fieldsV1": {
        "f:metadata": {"f:labels": {"f:left": {}, "f:team": {}}}}});
    assert!(!stored(json!([theirs])).says(&of_workloads()));
    let ours = |label: &str| {
        json!({"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {
            "f:metadata": {"f:labels": {label: {}}}}})
    };
    assert!(stored(json!([theirs, ours("f:team")])).says(&of_workloads()));
    assert!(!stored(json!([theirs, ours("f:other")])).says(&of_workloads()));
}
