//! The charts, by helm itself and by API servers.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::support::bed::Bed;
use crate::support::cluster::Cluster;
use crate::support::objects::parse;
use crate::support::peers::Peer;
use crate::support::tributary::Tributary;
use crate::support::{http, run, wait_for};
use crate::tools::{CHART, LINKED_CHART, fail, file_with, output, read, succeed, template};

/// Kinds of the Prometheus Operator, with a schema of what we set.
pub(crate) const MONITOR_KINDS: &str = include_str!("monitor-crds.yaml");

/// Values in words, each a way in which somebody installs it.
const INSTALLATIONS: [(&str, &str, &[&str]); 11] = [
    ("as it is", CHART, &[]),
    (
        "everything",
        CHART,
        &[
            "--set=xds.enabled=true,endpointSlices.write=enabled,autoscaling.enabled=true,networkPolicy.enabled=true",
            "--set=monitoring.monitor=pod,monitoring.alerts=true,monitoring.dashboard.enabled=true",
            "--set-json=networkPolicy.clients=[{\"namespaceSelector\":{}}]",
            "--set-json=networkPolicy.scrapers=[{\"podSelector\":{\"matchLabels\":{\"app\":\"prometheus\"}}}]",
            "--set-json=networkPolicy.egress=[{\"ports\":[{\"port\":443},{\"port\":6443}]}]",
            "--set-json=env=[{\"name\":\"TRIBUTARY_DRAIN_TIMEOUT\",\"value\":\"5s\"}]",
            "--set-json=extraArgs=[\"--max-streams=1000\"]",
            "--set-json=tolerations=[{\"operator\":\"Exists\"}]",
            "--set-json=imagePullSecrets=[{\"name\":\"registry\"}]",
            "--set=priorityClassName=system-cluster-critical,podAnnotations.a=b,podLabels.c=d,serviceAccount.annotations.e=f",
        ],
    ),
    (
        "a ServiceMonitor",
        CHART,
        &["--set=monitoring.monitor=service,monitoring.labels.release=prometheus"],
    ),
    (
        "Endpoints objects",
        CHART,
        &["--set=enableEndpointSlices=false"],
    ),
    (
        "a control plane elsewhere",
        CHART,
        &[
            "--set=controllerNamespace=mesh,clusterDomain=corp.example,identityTrustDomain=root.example",
        ],
    ),
    (
        "the least rights",
        CHART,
        &[
            "--set=rbac.pods=false,rbac.nodes=false,rbac.owners=false,rbac.externalWorkloads=false,rbac.servers=false,rbac.serviceProfiles=false,rbac.linkObjects=false,rbac.links=false",
        ],
    ),
    (
        "the controller's arguments, a digest",
        CHART,
        &[
            "--set-json=args=[\"destination\",\"-addr=:8086\",\"-enable-ipv6=false\"]",
            "--set=image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ],
    ),
    (
        "in the controller's place",
        CHART,
        &[
            "--set=mode=in-place,endpointSlices.write=enabled,monitoring.monitor=pod,monitoring.alerts=true",
        ],
    ),
    (
        "slices of ExternalWorkloads",
        CHART,
        &["--set=endpointSlices.externalWorkloads=true,monitoring.alerts=true"],
    ),
    (
        "removal of slices",
        CHART,
        &["--set=endpointSlices.write=remove"],
    ),
    (
        "a linked cluster",
        LINKED_CHART,
        &["--set=token.create=true"],
    ),
];

#[test]
#[ignore = "needs helm: scripts/test deploy"]
fn charts_are_clean() {
    run(async {
        for (installation, chart, values) in INSTALLATIONS {
            let mut arguments = vec!["lint", "--strict", chart];
            arguments.extend(values);
            succeed(Peer::Helm, &arguments).context(installation)?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs helm: scripts/test deploy"]
fn wrong_values_are_refused_by_name() {
    run(async {
        for (values, named) in [
            ("--set=mode=instead", "/mode"),
            ("--set=replicas=-1", "/replicas"),
            ("--set=replicas=two", "/replicas"),
            ("--set=image.tagg=1", "/image"),
            ("--set=image.digest=sha256:12", "/image/digest"),
            ("--set=endpointSlices.write=on", "/endpointSlices/write"),
            (
                "--set=enableEndpointSlices=false,enableIPv6=true",
                "/enableIPv6",
            ),
            (
                "--set=enableEndpointSlices=false,endpointSlices.write=enabled",
                "/endpointSlices/write",
            ),
            ("--set-string=enableIPv6=false", "/enableIPv6"),
            ("--set=defaultOpaquePorts=smtp", "/defaultOpaquePorts"),
            (
                "--set=outboundTransportMode=tunnel",
                "/outboundTransportMode",
            ),
            ("--set=controllerNamespace=", "/controllerNamespace"),
            ("--set=clusterName=West_1", "/clusterName"),
            ("--set-json=extraArgs=[\"max-streams=1\"]", "/extraArgs/0"),
            (
                "--set=terminationGracePeriodSeconds=5",
                "/terminationGracePeriodSeconds",
            ),
            ("--set=monitoring.interval=often", "/monitoring/interval"),
            (
                "--set=mode=in-place,monitoring.monitor=service",
                "/monitoring/monitor",
            ),
            ("--set=rbac.secrets=true", "/rbac"),
            ("--set=xds=true", "/xds"),
            ("--set=surplus=1", "surplus"),
        ] {
            let said = fail(Peer::Helm, &["template", "tributary", CHART, values])?;
            assert!(
                said.contains("don't meet the specifications of the schema"),
                "{values}: {said}"
            );
            assert!(said.contains(named), "{values}: {said}");
        }
        let said = fail(
            Peer::Helm,
            &["template", "x", LINKED_CHART, "--set=extras.nodes=true"],
        )?;
        assert!(said.contains("/extras"), "{said}");
        Ok(())
    });
}

#[test]
#[ignore = "needs helm and kube-apiserver: scripts/test deploy"]
fn notes_say_what_to_do_next() {
    run(async {
        // Even where nothing is to be kept, helm asks an API server what it is.
        let kubeconfig = Bed::shared().await?.home.kubeconfig()?;
        let kubeconfig = kubeconfig.display().to_string();
        let notes = |chart: &str, values: &str| {
            let arguments = [
                "--kubeconfig",
                &kubeconfig,
                "install",
                "tributary",
                chart,
                "--dry-run=client",
                "--namespace=linkerd",
                values,
            ];
            let said = succeed(Peer::Helm, &arguments)?;
            let (_, notes) = said.split_once("NOTES:\n").context("no notes")?;
            Ok::<_, anyhow::Error>(notes.to_owned())
        };
        for (values, said) in [
            (
                "--set=mode=beside",
                "kubectl -n linkerd rollout status deployment/tributary\n",
            ),
            (
                "--set=mode=in-place",
                "patch deployment/linkerd-destination --patch-file deploy/in-place/patch.yaml\n",
            ),
            (
                "--set=xds.enabled=true",
                "tributary.linkerd.svc.cluster.local:18000",
            ),
            (
                "--set=endpointSlices.write=enabled",
                "tributary writer plan",
            ),
            (
                "--set=endpointSlices.write=remove",
                "prints nothing when it is done",
            ),
            ("--set=networkPolicy.enabled=true", "nobody can ask it"),
        ] {
            let notes = notes(CHART, values)?;
            assert!(notes.contains(said), "{values}: {notes}");
            assert!(notes.contains("docs/troubleshoot.md"), "{values}: {notes}");
        }
        let linked = notes(LINKED_CHART, "--set=token.create=false")?;
        assert!(linked.contains("create token tributary-remote"), "{linked}");
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn an_api_server_takes_every_object() {
    run(async {
        let home = &Bed::shared().await?.home;
        home.apply(MONITOR_KINDS).await?;
        for namespace in ["linkerd", "mesh"] {
            home.ensure_namespace(namespace).await?;
        }
        let mut texts = Vec::new();
        for (installation, chart, values) in INSTALLATIONS {
            let text = template(chart, "linkerd", values).context(installation)?;
            texts.push((installation.to_owned(), text));
        }
        for file in crate::tools::files("deploy", ".yaml")? {
            let text = std::fs::read_to_string(&file)?;
            let text = text.replace("namespace: linkerd-multicluster", "namespace: linkerd");
            texts.push((file.display().to_string(), text));
        }
        for (what, text) in texts {
            let count = parse(&text)?.len();
            assert!(count > 0, "{what} is empty");
            let said = dry_run(home, &text).with_context(|| what.clone())?;
            assert_eq!(said.lines().count(), count, "{what}: {said}");
        }

        // A field that no API server knows is noticed.
        let wrong = "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: x, namespace: linkerd}\nspec: {prot: x}\n";
        let refused = dry_run(home, wrong).expect_err("there is no such field");
        assert!(refused.to_string().contains("spec.prot"), "{refused:#}");
        Ok(())
    });
}

/// What kubectl says of a text that an API server is asked to check in every detail, and not to keep.
fn dry_run(cluster: &Cluster, text: &str) -> Result<String> {
    let (_folder, file) = file_with("objects.yaml", text)?;
    let kubeconfig = cluster.kubeconfig()?;
    let (kubeconfig, file) = (kubeconfig.display().to_string(), file.display().to_string());
    let arguments = [
        "--kubeconfig",
        &kubeconfig,
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        &file,
    ];
    let output = output(Peer::Kubectl, &arguments, None)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{complaint}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The Pod that a Deployment makes.
fn pod_of(deployment: &Value, namespace: &str) -> Result<Pod> {
    let template = &deployment["spec"]["template"];
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "one", "namespace": namespace, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }))?)
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn its_pod_keeps_to_the_restricted_standard() {
    run(async {
        let home = &Bed::shared().await?.home;
        let namespace = "restricted";
        home.apply(
            "{apiVersion: v1, kind: Namespace, metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}}",
        )
        .await?;
        let text = template(CHART, namespace, &["--set=xds.enabled=true"])?;
        let deployment = parse(&text)?
            .into_iter()
            .find(|object| {
                object
                    .types
                    .as_ref()
                    .is_some_and(|types| types.kind == "Deployment")
            })
            .context("a Deployment")?;
        let deployment = serde_json::to_value(deployment)?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true);

        let pods: Api<Pod> = Api::namespaced(home.client(), namespace);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        pods.create(&dry, &pod_of(&deployment, namespace)?).await?;
        for (field, part) in [
            ("/securityContext", "runAsNonRoot"),
            ("/securityContext", "seccompProfile"),
            ("/containers/0/securityContext", "capabilities"),
            ("/containers/0/securityContext", "allowPrivilegeEscalation"),
        ] {
            let mut laxer = deployment.clone();
            let spec = &mut laxer["spec"]["template"]["spec"];
            let context = spec.pointer_mut(field).and_then(Value::as_object_mut);
            context
                .context("a security context")?
                .remove(part)
                .context(part)?;
            let refused = pods.create(&dry, &pod_of(&laxer, namespace)?).await;
            let refused = refused.expect_err("the standard asks for it").to_string();
            assert!(
                refused.contains("violates PodSecurity"),
                "{part}: {refused}"
            );
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn helm_installs_upgrades_and_leaves_nothing() {
    run(async {
        let home = &Bed::shared().await?.home;
        home.ensure_namespace("helm").await?;
        let kubeconfig = home.kubeconfig()?.display().to_string();
        let helm = |arguments: &[&str]| {
            let mut all = vec!["--kubeconfig", &kubeconfig, "--namespace", "helm"];
            all.extend(arguments);
            succeed(Peer::Helm, &all)
        };
        let namespace = "--set=controllerNamespace=helm";
        let writes = "--set=endpointSlices.write=enabled";
        helm(&["install", "one", CHART, namespace])?;
        let may = async |verb: &str| -> Result<String> {
            let account = "--as=system:serviceaccount:helm:one";
            let arguments = [
                "--kubeconfig",
                &kubeconfig,
                "auth",
                "can-i",
                verb,
                "endpointslices",
                account,
                "-A",
            ];
            let output = output(Peer::Kubectl, &arguments, None)?;
            Ok(String::from_utf8(output.stdout)?.trim().to_owned())
        };
        let becomes = async |verb: &'static str, answer: &'static str| {
            wait_for(&format!("{verb} to be answered {answer}"), || async {
                (may(verb).await.ok()? == answer).then_some(())
            })
            .await
        };
        becomes("watch", "yes").await?;
        becomes("create", "no").await?;
        helm(&["upgrade", "one", CHART, namespace, writes])?;
        becomes("create", "yes").await?;
        helm(&["rollback", "one", "1"])?;
        becomes("create", "no").await?;
        helm(&["uninstall", "one"])?;
        becomes("watch", "no").await?;
        let kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,validatingadmissionpolicies,validatingadmissionpolicybindings";
        let selector = "--selector=app.kubernetes.io/instance=one";
        let left = succeed(
            Peer::Kubectl,
            &[
                "--kubeconfig",
                &kubeconfig,
                "get",
                kinds,
                "-A",
                selector,
                "-o",
                "name",
            ],
        )?;
        assert_eq!(left, "");
        Ok(())
    });
}

#[test]
fn charts_have_the_version_of_the_binary() {
    run(async {
        for chart in [CHART, LINKED_CHART] {
            let text = read(&format!("{chart}/Chart.yaml"))?;
            let line = concat!("\nappVersion: ", env!("CARGO_PKG_VERSION"), "\n");
            assert!(text.contains(line), "{chart}");
        }
        for file in ["patch.yaml", "image.yaml"] {
            let text = read(&format!("deploy/in-place/{file}"))?;
            let image = concat!("image: tributary:", env!("CARGO_PKG_VERSION"), "\n");
            assert!(text.contains(image), "{file}");
        }
        Ok(())
    });
}

#[test]
fn every_value_is_explained() {
    run(async {
        let schema: Value = serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))?)?;
        let values: Value = serde_saphyr::from_str(&read(&format!("{CHART}/values.yaml"))?)?;
        let mut missing = Vec::new();
        compare(&schema, &values, "", &mut missing);
        assert!(
            missing.is_empty(),
            "in only one of schema and values: {missing:#?}"
        );
        Ok(())
    });
}

/// Adds the paths that only one of a schema and its values has.
fn compare(schema: &Value, values: &Value, path: &str, missing: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let values = values.as_object().cloned().unwrap_or_default();
    for (name, property) in properties {
        let path = format!("{path}/{name}");
        match values.get(name) {
            Some(value) => compare(property, value, &path, missing),
            // Helm hands every chart of a tree the same one.
            None if path == "/global" => {}
            None => missing.push(path),
        }
    }
    let unknown = values.keys().filter(|name| !properties.contains_key(*name));
    missing.extend(unknown.map(|name| format!("{path}/{name}")));
}

#[test]
#[ignore = "needs helm: scripts/test deploy"]
fn the_binary_takes_the_arguments_of_every_installation() {
    run(async {
        // A home cluster that is not there does not keep it from starting.
        let nowhere = "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], \
                       clusters: [{name: x, cluster: {server: 'https://127.0.0.1:9'}}], users: [{name: x, user: {token: x}}]}";
        let (_folder, kubeconfig) = file_with("kubeconfig", nowhere)?;
        let mut started = 0;
        for (installation, chart, values) in INSTALLATIONS {
            let text = template(chart, "linkerd", values)?;
            for object in parse(&text)? {
                let Some(arguments) =
                    object.data["spec"]["template"]["spec"]["containers"][0]["args"].as_array()
                else {
                    continue;
                };
                let arguments: Vec<_> = arguments
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|argument| argument.replace("=:18000", "=127.0.0.1:0"))
                    .collect();
                let mut words = arguments.iter().map(String::as_str);
                let command = words.next().context("a command")?;
                let words: Vec<_> = words.collect();
                let tributary = Tributary::launch_as(command, &kubeconfig, &words)?;
                wait_for(installation, || async {
                    if let Err(ended) = tributary.ensure_running() {
                        return Some(Err(ended));
                    }
                    let answer = http::get(tributary.admin(), "/live").await.ok()?;
                    (answer.status == 200).then_some(Ok(()))
                })
                .await??;
                started += 1;
            }
        }
        assert_eq!(
            started,
            INSTALLATIONS.len() - 2,
            "all but in-place and linked"
        );
        Ok(())
    });
}
