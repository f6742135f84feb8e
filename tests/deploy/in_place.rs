//! The patch that puts Tributary into the place of Linkerd's destination controller.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::bed::Bed;
use crate::support::objects::parse;
use crate::support::peers::Peer;
use crate::support::{run, scratch_folder};
use crate::tools::{read, root, succeed};

/// What Linkerd's chart makes, as far as the patch could touch it.
pub(crate) const STOCK: &str = include_str!("stock-destination.yaml");

const IMAGE: &str = concat!("tributary:", env!("CARGO_PKG_VERSION"));

/// What is to become of the stock Deployment's template: one image is another, and there is one annotation more.
pub(crate) fn expected() -> Result<Value> {
    let stock = parse(STOCK)?.into_iter().next().context("a Deployment")?;
    let mut template = serde_json::to_value(stock)?["spec"]["template"].take();
    let containers = template["spec"]["containers"]
        .as_array_mut()
        .context("containers")?;
    let destination = containers
        .iter_mut()
        .find(|container| container["name"] == "destination");
    destination.context("the container destination")?["image"] = json!(IMAGE);
    template["metadata"]["annotations"]["tributary.dev/destination"] = json!("in-place");
    Ok(template)
}

/// Everything of `expected` is in `actual`, and lists are as long; API servers add defaults.
fn assert_within(expected: &Value, actual: &Value, path: &str) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                let actual = actual.get(key).unwrap_or(&Value::Null);
                assert_within(value, actual, &format!("{path}/{key}"));
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            assert_eq!(expected.len(), actual.len(), "{path}");
            for (number, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                assert_within(expected, actual, &format!("{path}/{number}"));
            }
        }
        _ => assert_eq!(expected, actual, "{path}"),
    }
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test deploy"]
fn the_patch_changes_one_image_and_nothing_else() {
    run(async {
        let home = &Bed::shared().await?.home;
        home.apply(STOCK).await?;
        let kubeconfig = home.kubeconfig()?.display().to_string();
        let patch = [
            "patch",
            "deployment/linkerd-destination",
            "--patch-file",
            "deploy/in-place/patch.yaml",
        ];
        let mut arguments = vec!["--kubeconfig", &kubeconfig, "-n", "linkerd"];
        arguments.extend(patch);
        succeed(Peer::Kubectl, &arguments)?;
        let deployments = home.api("Deployment", "linkerd").await?;
        let patched = deployments.get("linkerd-destination").await?;
        let template = &patched.data["spec"]["template"];
        assert_within(&expected()?, template, "");
        let annotations = template["metadata"]["annotations"]
            .as_object()
            .context("annotations")?;
        let stock = parse(STOCK)?;
        let before = stock[0].data["spec"]["template"]["metadata"]["annotations"].as_object();
        assert_eq!(
            annotations.len(),
            before.map_or(0, serde_json::Map::len) + 1
        );
        home.delete_object("Deployment", "linkerd", "linkerd-destination")
            .await
    });
}

#[test]
#[ignore = "needs kubectl: scripts/test deploy"]
fn kustomize_makes_the_same_of_linkerds_manifests() {
    run(async {
        let folder = scratch_folder("kustomize")?;
        for file in ["kustomization.yaml", "image.yaml"] {
            std::fs::write(
                folder.path().join(file),
                read(&format!("deploy/in-place/{file}"))?,
            )?;
        }
        std::fs::write(folder.path().join("linkerd.yaml"), STOCK)?;
        let rendered = succeed(
            Peer::Kubectl,
            &["kustomize", &folder.path().display().to_string()],
        )?;
        let rendered = parse(&rendered)?;
        let [deployment] = &rendered[..] else {
            panic!("one object, not {}", rendered.len());
        };
        assert_eq!(deployment.data["spec"]["template"], expected()?);
        assert!(!root().join("deploy/in-place/linkerd.yaml").exists());
        Ok(())
    });
}
