use super::*;

/// The `subsets` of an Endpoints object in, a line about what became of it out.
fn check_subsets(subsets: &str, expected: &str) {
    check(
        Kind::Endpoints,
        &format!("{{metadata: {{name: web, namespace: shop}}, subsets: {subsets}}}"),
        &format!("shop/web{expected}"),
    );
}

#[test]
fn each_subset_is_a_slice_of_the_service_of_the_same_name() {
    check_subsets(
        "[{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{name: http, port: 8080}, {name: admin, port: 9990}]}, \
         {addresses: [{ip: 10.0.0.1}], ports: [{port: 1}]}]",
        " [of web http=8080 admin=9990 | 10.0.0.1 ready | 10.0.0.2 ready] [of web =1 | 10.0.0.1 ready]",
    );
    check_subsets("[]", "");
    check_subsets("null", "");
    check_subsets(
        "[{}, {addresses: null, notReadyAddresses: null}]",
        " [of web =?] [of web =?]",
    );
}

#[test]
fn an_address_has_a_pod_a_node_and_a_hostname_but_no_zone() {
    check_subsets(
        "[{ports: [{name: http, port: 80}], addresses: [{ip: 10.0.0.1, hostname: web-0, nodeName: n1, zone: z, \
         targetRef: {kind: Pod, namespace: shop, name: web-0}}, {ip: 'fd00::1', hostname: '', nodeName: ''}]}]",
        " [of web http=80 | 10.0.0.1 pod shop/web-0 ready node n1 host web-0 | fd00::1 ready]",
    );
}

#[test]
fn an_address_that_is_not_ready_is_no_instance() {
    check_subsets(
        "[{ports: [{name: http, port: 80}], notReadyAddresses: [{ip: 10.0.0.1, hostname: web-0, nodeName: n1, \
         targetRef: {kind: Pod, namespace: shop, name: web-0}}]}]",
        " [of web http=80 | 10.0.0.1 pod shop/web-0 node n1]",
    );
}

#[test]
fn a_subset_without_ports_has_them_by_number_only() {
    check_subsets(
        "[{addresses: [{ip: 10.0.0.1}]}]",
        " [of web =? | 10.0.0.1 ready]",
    );
}

#[test]
fn a_bad_address_or_port_costs_itself() {
    check_subsets(
        "[{ports: [{name: a, port: 0}, {name: b, port: 80}], addresses: [{ip: nonsense}, {}, {ip: 10.0.0.3}, \
         {ip: 10.0.0.4, targetRef: {kind: Pod, name: web-4}}, {ip: 10.0.0.5, targetRef: {kind: Pod, namespace: shop}}, \
         {ip: 10.0.0.6, targetRef: {kind: ExternalWorkload, namespace: shop, name: vm}}, {ip: 10.0.0.7, targetRef: {}}]}]",
        " [of web a=? b=80 | 10.0.0.3 ready] !address !address !target_name !target_name !target_kind !target_kind !port",
    );
}

#[test]
fn what_the_service_mirror_wrote_holds_for_every_subset() {
    check(
        Kind::Endpoints,
        "{metadata: {name: web-east, namespace: shop, labels: {mirror.linkerd.io/cluster-name: east}, annotations: \
         {mirror.linkerd.io/remote-svc-fq-name: web.shop.svc.east.example, mirror.linkerd.io/remote-gateway-identity: gw}}, \
         subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 1}]}, {addresses: [{ip: 10.0.0.2}], ports: [{port: 2}]}]}",
        "shop/web-east \
         [of web-east =1 | 10.0.0.1 ready mirror Some(\"east\") Some(\"web.shop.svc.east.example\") Some(\"gw\")] \
         [of web-east =2 | 10.0.0.2 ready mirror Some(\"east\") Some(\"web.shop.svc.east.example\") Some(\"gw\")]",
    );
}

#[test]
fn one_that_kubernetes_has_cut_short_is_warned_about() {
    let annotated = |value: &str| {
        format!(
            "{{metadata: {{name: web, annotations: {{endpoints.kubernetes.io/over-capacity: {value}}}}}}}"
        )
    };
    check(Kind::Endpoints, &annotated("truncated"), "/web !truncated");
    check(Kind::Endpoints, &annotated("warning"), "/web");
}

#[test]
fn one_without_a_name_is_nobodys() {
    check(Kind::Endpoints, "{metadata: {namespace: shop}}", "nameless");
}
