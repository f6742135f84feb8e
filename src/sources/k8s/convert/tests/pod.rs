use super::*;

fn check_pod(fields: &str, expected: &str) {
    let yaml = format!("{{metadata: {{name: p, namespace: shop}}, {fields}}}");
    check(Kind::Pod, &yaml, &format!("shop/p {expected}"));
}

#[test]
fn pods_say_who_they_are() {
    check_pod("", "[] sa default");
    check_pod(
        "spec: {nodeName: n1, serviceAccountName: web}, status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}",
        "[10.0.0.1, fd00::1] sa web running node n1",
    );
    check_pod(
        "status: {phase: Failed, podIP: 10.0.0.1}",
        "[10.0.0.1] sa default finished",
    );
    check_pod(
        "status: {phase: Succeeded, podIPs: [{ip: x}, {}]}",
        "[] sa default finished !address !address",
    );
    check(
        Kind::Pod,
        "{metadata: {name: p, namespace: shop, labels: {linkerd.io/control-plane-ns: linkerd, pod-template-hash: h1}, ownerReferences: [{kind: ReplicaSet, name: r}]}}",
        "shop/p [] sa default cp linkerd hash h1 owner ReplicaSet/r !proxy",
    );
    check(
        Kind::Pod,
        "{metadata: {name: p, namespace: shop, labels: {linkerd.io/control-plane-ns: ''}, ownerReferences: [{kind: A, name: r}, {kind: B, name: r}]}}",
        "shop/p [] sa default",
    );
}

#[test]
fn the_proxy_is_the_first_container_of_its_name_init_containers_first() {
    let env = |port: u16| {
        format!(
            "{{name: linkerd-proxy, env: [{{name: LINKERD2_PROXY_INBOUND_LISTEN_ADDR, value: '0.0.0.0:{port}'}}]}}"
        )
    };
    check_pod(
        &format!(
            "spec: {{containers: [{{name: web}}, {}], initContainers: [{}]}}",
            env(1),
            env(2)
        ),
        "[] sa default inbound 2",
    );
    check_pod(
        &format!("spec: {{containers: [{}, {}]}}", env(1), env(2)),
        "[] sa default inbound 1",
    );
    check_pod(
        "spec: {containers: [{name: linkerd-proxy, env: [{name: LINKERD2_PROXY_ADMIN_LISTEN_ADDR, value: '[::]:4191'}, \
         {name: LINKERD2_PROXY_CONTROL_LISTEN_ADDR, valueFrom: {fieldRef: {fieldPath: x}}}]}]}",
        "[] sa default admin 4191",
    );
}

#[test]
fn port_lists_may_name_container_ports_where_opaque_only() {
    let pod = |annotations: &str| {
        format!(
            "{{metadata: {{name: p, namespace: shop, annotations: {{{annotations}}}}}, \
             spec: {{initContainers: [{{name: i, ports: [{{name: init, containerPort: 1}}]}}], \
             containers: [{{name: c, ports: [{{name: db, containerPort: 3306}}, {{containerPort: 9}}]}}]}}}}"
        )
    };
    check(
        Kind::Pod,
        &pod("config.linkerd.io/opaque-ports: 'db, init,80-90,nope'"),
        "shop/p [] sa default opaque [(1, 1), (80, 90), (3306, 3306)] !port_item",
    );
    check(
        Kind::Pod,
        &pod("config.linkerd.io/opaque-ports: ''"),
        "shop/p [] sa default opaque []",
    );
    check(
        Kind::Pod,
        &pod("config.linkerd.io/skip-inbound-ports: 'db,25'"),
        "shop/p [] sa default skip [(25, 25)] !port_item",
    );
}

#[test]
fn pods_say_where_their_nodes_lead_to_them() {
    let spec = "containers: [{name: c, ports: [{containerPort: 80, hostPort: 9000}, {containerPort: 81}, {containerPort: 82, hostPort: 0}]}]";
    check_pod(
        &format!("spec: {{{spec}}}, status: {{hostIP: 10.1.0.1}}"),
        "[] sa default on [10.1.0.1] [9000]",
    );
    check_pod(
        &format!(
            "spec: {{hostNetwork: true, {spec}}}, status: {{hostIP: 10.1.0.1, hostIPs: [{{ip: 10.1.0.1}}, {{ip: 'fd00::1'}}]}}"
        ),
        "[] sa default host-network on [10.1.0.1, fd00::1] [81, 82, 9000]",
    );
    check(
        Kind::Pod,
        "{metadata: {name: p, namespace: shop, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {hostNetwork: true}}",
        "shop/p [] sa default terminating host-network",
    );
}
