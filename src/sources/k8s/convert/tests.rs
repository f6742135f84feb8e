mod endpoints;
mod linkerd;
mod pod;

use std::fmt::Write as _;

use super::super::objects;
use super::*;
use crate::model::{Backing, PodFacts, PodPhase, SliceFacts};

/// Fragments of YAML in, a line about the outcome out: `name: facts ! warning classes`.
fn check(kind: Kind, yaml: &str, expected: &str) {
    let value: serde_json::Value = serde_saphyr::from_str(yaml).expect("YAML");
    let got = match decode(kind, value).expect("decodes") {
        None => "nameless".to_owned(),
        Some(converted) => {
            let mut text = match &converted.object {
                None => "takes no part".to_owned(),
                Some(object) => {
                    assert_eq!(object.name(), converted.name, "{yaml}");
                    describe(object)
                }
            };
            for warning in &converted.warnings {
                write!(text, " !{}", warning.class()).expect("text");
            }
            text
        }
    };
    assert_eq!(got, expected, "{yaml}");
}

fn describe(object: &Object) -> String {
    match object {
        Object::Service(name, facts) => format!("{name} {}", service(facts)),
        Object::Slice(name, facts) => format!("{name} {}", slice(facts)),
        Object::Endpoints(name, subsets) => {
            let subsets = subsets.iter().map(|facts| format!(" [{}]", slice(facts)));
            format!("{name}{}", subsets.collect::<String>())
        }
        Object::Pod(name, facts) => format!("{name} {}", pod(facts)),
        Object::Node(name, facts) => match &facts.zone {
            Some(zone) => format!("{name} zone {zone}"),
            None => name.to_string(),
        },
        Object::Owner(name, owner) => match owner {
            Some(owner) => format!(
                "{}/{} of {} {}",
                name.namespace, name.name, owner.kind, owner.name
            ),
            None => format!("{}/{} of nobody", name.namespace, name.name),
        },
        Object::ExternalWorkload(name, facts) => format!("{name} {}", linkerd::external(facts)),
        Object::Server(name, facts) => format!("{name} {}", linkerd::server(facts)),
        Object::Profile(name, facts) => format!("{name} {}", profile::tests::describe(facts)),
    }
}

fn service(facts: &ServiceFacts) -> String {
    let ports: Vec<_> = facts
        .ports
        .iter()
        .map(|port| format!("{}={}", port.name, port.port))
        .collect();
    let mut text = ports.join(",");
    if facts.external_name {
        text.push_str(" external");
    }
    if facts.internal_traffic_policy == TrafficPolicy::Local {
        text.push_str(" local-only");
    }
    if !facts.cluster_ips.is_empty() {
        write!(text, " at {:?}", facts.cluster_ips).expect("text");
    }
    if let Some(ports) = &facts.opaque_ports {
        write!(text, " opaque {ports:?}").expect("text");
    }
    match &facts.membership {
        Membership::Local => {}
        Membership::Remote(remote) => {
            write!(text, " remote {:?}@{:?}", remote.service, remote.cluster).expect("text");
        }
        Membership::Federated(federation) => {
            write!(
                text,
                " federated {:?} {:?}",
                federation.local, federation.remote
            )
            .expect("text");
        }
    }
    text
}

fn slice(facts: &SliceFacts) -> String {
    let mut text = format!("of {}", facts.service.name);
    for port in &facts.ports {
        let number = port.port.map_or("?".to_owned(), |port| port.to_string());
        write!(text, " {}={number}", port.name).expect("text");
    }
    for endpoint in &facts.endpoints {
        write!(text, " | {}", endpoint.address).expect("text");
        match &endpoint.backing {
            Backing::Address => {}
            Backing::Pod(pod) => write!(text, " pod {pod}").expect("text"),
            Backing::ExternalWorkload(name) => write!(text, " workload {name}").expect("text"),
        }
        let conditions = &endpoint.conditions;
        for (holds, word) in [
            (conditions.ready, "ready"),
            (conditions.serving && !conditions.ready, "serving"),
            (conditions.terminating, "terminating"),
        ] {
            if holds {
                write!(text, " {word}").expect("text");
            }
        }
        if let Some(zone) = &endpoint.zone {
            write!(text, " zone {zone}").expect("text");
        }
        if let Some(node) = &endpoint.node {
            write!(text, " node {node}").expect("text");
        }
        if let Some(hostname) = &endpoint.hostname {
            write!(text, " host {hostname}").expect("text");
        }
        if let Some(hints) = &endpoint.zone_hints {
            write!(text, " hints {hints:?}").expect("text");
        }
    }
    if let Some(mirror) = &facts.mirror {
        write!(
            text,
            " mirror {:?} {:?} {:?}",
            mirror.cluster, mirror.remote_service, mirror.gateway_identity
        )
        .expect("text");
    }
    text
}

fn pod(facts: &PodFacts) -> String {
    let mut text = format!("{:?} sa {}", facts.ips, facts.template.service_account);
    match facts.phase {
        PodPhase::Starting => {}
        PodPhase::Running => text.push_str(" running"),
        PodPhase::Finished => text.push_str(" finished"),
    }
    if facts.terminating {
        text.push_str(" terminating");
    }
    if facts.host_network {
        text.push_str(" host-network");
    }
    if let Some(host) = &facts.on_host {
        write!(text, " on {:?} {:?}", host.ips, host.ports).expect("text");
    }
    for (word, value) in [
        ("node", facts.node.as_ref().map(ToString::to_string)),
        (
            "cp",
            facts
                .template
                .control_plane_namespace
                .as_ref()
                .map(ToString::to_string),
        ),
        (
            "hash",
            facts
                .template
                .template_hash
                .as_ref()
                .map(ToString::to_string),
        ),
        (
            "owner",
            facts
                .template
                .owner
                .as_ref()
                .map(|owner| format!("{}/{}", owner.kind, owner.name)),
        ),
        (
            "opaque",
            facts
                .template
                .opaque_ports
                .as_ref()
                .map(|ports| format!("{ports:?}")),
        ),
        (
            "inbound",
            facts.template.proxy.inbound.map(|port| port.to_string()),
        ),
        (
            "admin",
            facts.template.proxy.admin.map(|port| port.to_string()),
        ),
        (
            "control",
            facts.template.proxy.control.map(|port| port.to_string()),
        ),
    ] {
        if let Some(value) = value {
            write!(text, " {word} {value}").expect("text");
        }
    }
    if !facts.template.skip_inbound_ports.is_empty() {
        write!(text, " skip {:?}", facts.template.skip_inbound_ports).expect("text");
    }
    text
}

/// A slice `shop/s` of Service `web` with these endpoints.
fn check_endpoints(endpoints: &str, expected: &str) {
    let yaml = format!(
        "{{metadata: {{name: s, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}, \
         addressType: IPv4, ports: [{{name: http, port: 80}}], endpoints: {endpoints}}}"
    );
    check(
        Kind::EndpointSlice,
        &yaml,
        &format!("shop/s of web http=80{expected}"),
    );
}

#[test]
fn a_slice_belongs_to_the_service_of_its_label_else_of_its_owner() {
    let slice = |metadata: &str| {
        format!("{{metadata: {{name: s, namespace: shop, {metadata}}}, addressType: IPv4}}")
    };
    let label = "labels: {kubernetes.io/service-name: web}";
    let owner = "ownerReferences: [{kind: Deployment, name: x}, {kind: Service, name: ''}, {kind: Service, name: own}]";
    check(Kind::EndpointSlice, &slice(label), "shop/s of web");
    check(Kind::EndpointSlice, &slice(owner), "shop/s of own");
    check(
        Kind::EndpointSlice,
        &slice(&format!("{label}, {owner}")),
        "shop/s of web",
    );
    check(
        Kind::EndpointSlice,
        &slice(&format!(
            "labels: {{kubernetes.io/service-name: ''}}, {owner}"
        )),
        "shop/s of own",
    );
    check(
        Kind::EndpointSlice,
        &slice("labels: {kubernetes.io/service-name: ''}"),
        "takes no part",
    );
    check(
        Kind::EndpointSlice,
        &slice("ownerReferences: [{kind: Endpoints, name: web}]"),
        "takes no part",
    );
    check(
        Kind::EndpointSlice,
        "{metadata: {namespace: shop}}",
        "nameless",
    );
}

#[test]
fn slices_of_host_names_list_nothing_and_our_own_take_no_part() {
    check(
        Kind::EndpointSlice,
        "{metadata: {name: s, labels: {kubernetes.io/service-name: web}}, addressType: FQDN, endpoints: [{addresses: [a.example]}]}",
        "/s of web",
    );
    check(
        Kind::EndpointSlice,
        "{metadata: {name: s, labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: endpointslice-writer.tributary.dev}}}",
        "takes no part",
    );
}

#[test]
fn ports_without_a_number_are_kept_as_such() {
    check(
        Kind::EndpointSlice,
        "{metadata: {name: s, namespace: ns, labels: {kubernetes.io/service-name: web}}, \
         ports: [{name: a}, {name: b, port: null}, {port: 80}, {name: c, port: 65536}, {port: 0}], endpoints: null}",
        "ns/s of web a=? b=? =80 c=? =? !port !port",
    );
}

#[test]
fn conditions_have_the_defaults_of_the_api() {
    check_endpoints("[{addresses: [10.0.0.1]}]", " | 10.0.0.1 ready");
    check_endpoints(
        "[{addresses: [10.0.0.1], conditions: {}}]",
        " | 10.0.0.1 ready",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], conditions: {ready: false}}]",
        " | 10.0.0.1",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}]",
        " | 10.0.0.1 serving terminating",
    );
}

#[test]
fn an_endpoint_with_a_target_has_its_first_address_only() {
    check_endpoints(
        "[{addresses: [10.0.0.1, 10.0.0.2]}]",
        " | 10.0.0.1 ready | 10.0.0.2 ready",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1, 10.0.0.2], targetRef: {kind: Pod, namespace: other, name: p}}]",
        " | 10.0.0.1 pod other/p ready",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: {kind: ExternalWorkload, name: vm}}]",
        " | 10.0.0.1 workload vm ready",
    );
}

#[test]
fn an_endpoint_with_an_unusable_target_is_left_out() {
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: {kind: Pod, name: p}}]",
        " !target_name",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: {kind: Pod, namespace: ns}}]",
        " !target_name",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: {kind: Node, name: node-1}}]",
        " !target_kind",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: {kind: pod, namespace: ns, name: p}}]",
        " !target_kind",
    );
    check_endpoints("[{addresses: [10.0.0.1], targetRef: {}}]", " !target_kind");
    check_endpoints(
        "[{addresses: [10.0.0.1], targetRef: null}]",
        " | 10.0.0.1 ready",
    );
}

#[test]
fn a_bad_address_costs_only_itself() {
    check_endpoints(
        "[{addresses: [010.0.0.1, 10.0.0.2, '']}, {addresses: []}, {addresses: ['fe80::1%eth0', '::ffff:1.2.3.4']}]",
        " | 10.0.0.2 ready | fe80::1 ready | ::ffff:1.2.3.4 ready !address !address !no_address",
    );
}

#[test]
fn an_endpoint_keeps_where_it_is_and_for_whom() {
    check_endpoints(
        "[{addresses: [10.0.0.1], zone: a, nodeName: n1, hostname: web-0, hints: {forZones: [{name: a}, {name: b}], forNodes: [{name: n1}]}}]",
        " | 10.0.0.1 ready zone a node n1 host web-0 hints [\"a\", \"b\"]",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], zone: '', nodeName: '', hostname: '', hints: {forZones: []}}]",
        // An empty zone is what the slice says; the other empty texts say nothing.
        " | 10.0.0.1 ready zone ",
    );
    check_endpoints(
        "[{addresses: [10.0.0.1], hints: {forZones: [{name: ''}]}}]",
        " | 10.0.0.1 ready",
    );
}

#[test]
fn gateway_mirrors_are_known_by_any_of_their_marks() {
    let slice = |label: &str, annotations: &str| {
        format!(
            "{{metadata: {{name: s, namespace: ns, labels: {{kubernetes.io/service-name: web, {label}}}, annotations: {{{annotations}}}}}}}"
        )
    };
    check(
        Kind::EndpointSlice,
        &slice(
            "mirror.linkerd.io/cluster-name: west",
            "mirror.linkerd.io/remote-svc-fq-name: web.ns.svc.west, mirror.linkerd.io/remote-gateway-identity: gw.id, other: x",
        ),
        "ns/s of web mirror Some(\"west\") Some(\"web.ns.svc.west\") Some(\"gw.id\")",
    );
    check(
        Kind::EndpointSlice,
        &slice("", "mirror.linkerd.io/remote-svc-fq-name: ''"),
        "ns/s of web mirror None Some(\"\") None",
    );
    check(
        Kind::EndpointSlice,
        &slice("", "mirror.linkerd.io/remote-gateway-identity: ''"),
        "ns/s of web",
    );
}

#[test]
fn services_say_where_their_endpoints_are() {
    let service = |metadata: &str| {
        format!(
            "{{metadata: {{name: web, namespace: shop, {metadata}}}, spec: {{ports: [{{name: http, port: 80, targetPort: 8080}}, {{port: 443}}]}}}}"
        )
    };
    check(Kind::Service, &service(""), "shop/web http=80,=443");
    let label = "labels: {multicluster.linkerd.io/remote-discovery: west, multicluster.linkerd.io/remote-service: target}";
    check(
        Kind::Service,
        &service(label),
        "shop/web http=80,=443 remote Some(\"target\")@\"west\"",
    );
    check(
        Kind::Service,
        &service("labels: {multicluster.linkerd.io/remote-discovery: ''}"),
        "shop/web http=80,=443 remote None@\"\"",
    );
    check(
        Kind::Service,
        &service(&format!(
            "{label}, annotations: {{multicluster.linkerd.io/remote-discovery: ''}}"
        )),
        "shop/web http=80,=443 federated None []",
    );
    check(
        Kind::Service,
        &service(
            "annotations: {multicluster.linkerd.io/local-discovery: web, multicluster.linkerd.io/remote-discovery: 'web@west,bad'}",
        ),
        "shop/web http=80,=443 federated Some(\"web\") [(\"west\", \"web\")] !member",
    );
}

#[test]
fn services_keep_type_and_traffic_policy() {
    check(
        Kind::Service,
        "{metadata: {name: web, namespace: shop}, spec: {type: ExternalName, internalTrafficPolicy: Local, ports: null}}",
        "shop/web  external local-only",
    );
    check(
        Kind::Service,
        "{metadata: {name: web}, spec: {ports: [{name: x}, {port: 70000}]}}",
        "/web  !port",
    );
}

#[test]
fn services_have_addresses_unless_they_are_headless() {
    for (spec, expected) in [
        ("clusterIP: 10.0.0.1", " at [10.0.0.1]"),
        (
            "clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1']",
            " at [10.0.0.1, fd00::1]",
        ),
        ("clusterIP: None, clusterIPs: [None]", ""),
        ("clusterIP: '', clusterIPs: null", ""),
        ("clusterIP: x", " !address"),
    ] {
        let yaml = format!("{{metadata: {{name: web, namespace: shop}}, spec: {{{spec}}}}}");
        check(Kind::Service, &yaml, &format!("shop/web {expected}"));
    }
}

#[test]
fn opaque_ports_of_services_may_be_named() {
    check(
        Kind::Service,
        "{metadata: {name: web, annotations: {config.linkerd.io/opaque-ports: 'db,90-91,nope'}}, spec: {ports: [{name: db, port: 3306, targetPort: 1}]}}",
        "/web db=3306 opaque [(90, 91), (3306, 3306)] !port_item",
    );
    check(
        Kind::Service,
        "{metadata: {name: web, annotations: {config.linkerd.io/opaque-ports: ''}}}",
        "/web  opaque []",
    );
}

#[test]
fn nodes_have_a_zone_and_owners_one_owner() {
    check(
        Kind::Node,
        "{metadata: {name: node-1, labels: {topology.kubernetes.io/zone: a}}}",
        "node-1 zone a",
    );
    check(
        Kind::Node,
        "{metadata: {name: node-1, labels: {topology.kubernetes.io/zone: ''}}}",
        "node-1",
    );
    check(
        Kind::ReplicaSet,
        "{metadata: {name: r, namespace: shop, ownerReferences: [{kind: Deployment, name: web}]}}",
        "shop/r of Deployment web",
    );
    check(
        Kind::Job,
        "{metadata: {name: j, namespace: shop, ownerReferences: null}}",
        "shop/j of nobody",
    );
}

#[test]
fn unknown_fields_and_nulls_cost_nothing() {
    for kind in [
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Pod,
        Kind::Node,
        Kind::ReplicaSet,
        Kind::Job,
        Kind::ExternalWorkload,
        Kind::Server,
        Kind::ServiceProfile,
    ] {
        let nulls = "{kind: X, apiVersion: v9, metadata: {name: null, namespace: null, labels: null, annotations: null, \
                     resourceVersion: null, creationTimestamp: null, ownerReferences: null, managedFields: [{a: 1}]}, \
                     spec: null, status: null, ports: null, endpoints: null, addressType: null}";
        check(kind, nulls, "nameless");
    }
}

#[test]
fn warnings_quote_only_the_beginning() {
    let long = "é".repeat(100);
    assert_eq!(quote(&long).len(), 80);
    assert_eq!(quote("x"), "x");
}

#[test]
fn environments_and_secrets_are_not_printed() {
    let pod: objects::Pod = serde_saphyr::from_str(
        "{metadata: {name: p}, spec: {containers: [{name: c, env: [{name: PASSWORD, value: hunter2}]}]}}",
    )
    .expect("YAML");
    assert!(!format!("{pod:?}").contains("hunter2"));
    let secret: objects::Secret =
        serde_saphyr::from_str("{metadata: {name: s}, data: {kubeconfig: aHVudGVyMg==}}")
            .expect("YAML");
    assert!(!format!("{secret:?}").contains("aHVudGVyMg"));
}
