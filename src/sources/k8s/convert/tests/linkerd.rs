//! Linkerd's own kinds, and what its Servers look at.

use std::fmt::Write as _;

use super::check;
use crate::index::Kind;
use crate::model::{ExternalWorkloadFacts, Selector, ServerFacts, ServerPort, Traits};
use crate::sources::k8s::objects;

pub(super) fn external(facts: &ExternalWorkloadFacts) -> String {
    let mut text = format!(
        "{:?} {:?} {:?}",
        facts.ips, facts.identity, facts.server_name
    );
    if let Some(port) = facts.inbound_port {
        write!(text, " inbound {port}").expect("text");
    }
    if let Some(ports) = &facts.opaque_ports {
        write!(text, " opaque {ports:?}").expect("text");
    }
    if let Some(owner) = &facts.owner {
        write!(text, " owner {}/{}", owner.kind, owner.name).expect("text");
    }
    write!(text, " {}", traits(&facts.traits)).expect("text");
    text
}

fn traits(traits: &Traits) -> String {
    let labels = traits.labels.iter();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let ports = traits.ports.iter();
    let ports = ports.map(|port| format!("{}:{}", port.name, port.port));
    labels.chain(ports).collect::<Vec<_>>().join(",")
}

pub(super) fn server(facts: &ServerFacts) -> String {
    let selector = |selector: &Option<Selector>| match selector {
        Some(selector) => format!("{selector:?}"),
        None => "-".to_owned(),
    };
    let port = match &facts.port {
        ServerPort::Number(number) => number.to_string(),
        ServerPort::Name(name) => format!("{name:?}"),
    };
    format!(
        "{port} pods {} external {}",
        selector(&facts.pods),
        selector(&facts.external_workloads)
    )
}

#[test]
fn pods_keep_labels_and_named_ports_for_servers() {
    let pod: objects::Pod = serde_saphyr::from_str(
        "{metadata: {name: p, labels: {tier: gold, app: web, empty: null}}, spec: {\
         initContainers: [{name: i, ports: [{name: init, containerPort: 1}]}], \
         containers: [{name: c, ports: [{name: web, containerPort: 8080, hostPort: 9080}, {containerPort: 9}, \
         {name: bad, containerPort: 70000}, {name: '', containerPort: 7}]}, \
         {name: d, ports: [{name: web, containerPort: 8080}]}]}}",
    )
    .expect("YAML");
    let facts = super::super::pod::facts(&pod, &mut Vec::new());
    assert_eq!(
        traits(&facts.traits),
        "app=web,empty=,tier=gold,init:1,web:8080,web:9080"
    );
}

#[test]
fn external_workloads_say_who_and_where_they_are() {
    let workload = |metadata: &str, spec: &str| {
        format!("{{metadata: {{name: vm, namespace: shop, {metadata}}}, spec: {{{spec}}}}}")
    };
    check(
        Kind::ExternalWorkload,
        &workload(
            "labels: {app: vm}, ownerReferences: [{kind: Group, name: vms}], \
             annotations: {config.linkerd.io/opaque-ports: 'db,80-90,nope'}",
            "meshTLS: {identity: 'spiffe://root/vm', serverName: vm.example}, \
             workloadIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}, {ip: x}], \
             ports: [{name: db, port: 3306, protocol: TCP}, {name: linkerd-proxy, port: 5143}, {port: 9}, {name: z, port: 0}]",
        ),
        "shop/vm [10.0.0.1, fd00::1] Some(\"spiffe://root/vm\") Some(\"vm.example\") inbound 5143 \
         opaque [(80, 90), (3306, 3306)] owner Group/vms app=vm,db:3306,linkerd-proxy:5143 !address !port !port_item",
    );
    check(
        Kind::ExternalWorkload,
        &workload("", "meshTLS: {identity: ''}"),
        "shop/vm [] None None ",
    );
}

/// A Server `shop/s` of this spec.
fn check_server(spec: &str, expected: &str) {
    let yaml = format!("{{metadata: {{name: s, namespace: shop}}, spec: {{{spec}}}}}");
    check(Kind::Server, &yaml, expected);
}

#[test]
fn only_opaque_servers_take_part() {
    check_server(
        "podSelector: {}, port: 8080, proxyProtocol: opaque",
        "shop/s 8080 pods Selector([]) external -",
    );
    check_server(
        "externalWorkloadSelector: {matchLabels: {app: vm}}, port: http, proxyProtocol: opaque",
        "shop/s \"http\" pods - external Selector([Requirement { key: \"app\", condition: In([\"vm\"]) }])",
    );
    check_server(
        "podSelector: {matchExpressions: [{key: a, operator: NotIn, values: [x]}, {key: b, operator: Exists}, \
         {key: c, operator: DoesNotExist, values: []}]}, port: '8080', proxyProtocol: opaque",
        "shop/s \"8080\" pods Selector([Requirement { key: \"a\", condition: NotIn([\"x\"]) }, \
         Requirement { key: \"b\", condition: Exists }, Requirement { key: \"c\", condition: DoesNotExist }]) external -",
    );
    for spec in [
        "",
        "podSelector: {}, port: 80",
        "podSelector: {}, port: 80, proxyProtocol: HTTP/2",
        "podSelector: {}, port: 80, proxyProtocol: Opaque",
        "port: 80, proxyProtocol: opaque",
        "podSelector: {}, proxyProtocol: opaque",
        "podSelector: {}, port: '', proxyProtocol: opaque",
    ] {
        check_server(spec, "takes no part");
    }
    check_server(
        "podSelector: {}, port: 0, proxyProtocol: opaque",
        "takes no part !port",
    );
}

#[test]
fn a_selector_that_is_invalid_selects_nothing() {
    for selector in [
        "matchExpressions: [{key: app, operator: In, values: []}]",
        "matchExpressions: [{key: app, operator: Exists, values: [x]}]",
        "matchExpressions: [{key: app, operator: Equals, values: [x]}]",
        "matchExpressions: [{key: '', operator: Exists}]",
        "matchLabels: {'a b': c}",
        "matchLabels: {a: 'b c'}",
    ] {
        check_server(
            &format!("podSelector: {{{selector}}}, port: 80, proxyProtocol: opaque"),
            "takes no part !selector",
        );
    }
    check_server(
        "podSelector: {matchExpressions: [{operator: In}]}, externalWorkloadSelector: {}, port: 80, proxyProtocol: opaque",
        "shop/s 80 pods - external Selector([]) !selector",
    );
}
