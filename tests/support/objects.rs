//! Objects in and out of a cluster, of any kind.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::wait_for;

/// Objects with this label survive [`Cluster::reset`].
pub const KEPT_LABEL: &str = "bed.tributary.test/kept";

/// Long enough for a terminating Pod to be terminating for the rest of any test.
const GRACE_PERIOD_SECONDS: u32 = 3600;

/// What [`Cluster::reset`] removes; kinds that a cluster does not know are passed over.
const RESET_KINDS: [&str; 13] = [
    "Deployment",
    "ReplicaSet",
    "Job",
    "Service",
    "EndpointSlice",
    "Endpoints",
    "Pod",
    "Secret",
    "ServiceProfile",
    "Server",
    "ExternalWorkload",
    "Link",
    "Node",
];

/// What a cluster has told about kinds, and the namespaces that are there.
#[derive(Default)]
pub struct Resources {
    by_kind: Mutex<HashMap<GroupVersionKind, Kind>>,
    namespaces: Mutex<HashSet<String>>,
}

/// How objects of one kind are addressed.
#[derive(Clone)]
struct Kind {
    resource: ApiResource,
    namespaced: bool,
    has_status: bool,
}

// === impl Kind ===

impl Kind {
    fn api(&self, client: Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client, namespace, &self.resource)
        } else {
            Api::all_with(client, &self.resource)
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// A namespace has been deleted: the next object in it makes it anew.
    pub fn forget_namespace(&self, name: &str) {
        self.resources().namespaces.lock().remove(name);
    }

    /// Creates or replaces every object of a YAML text with any number of documents, in their order.
    ///
    /// A missing Namespace is made. Status is stored through the status subresource. A Pod with a `deletionTimestamp` is
    /// created and then deleted with a long grace period, so that it is terminating. What cannot be changed in place
    /// is deleted and made anew.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        for object in parse(yaml)? {
            let name = describe(&object);
            self.apply_object(object)
                .await
                .with_context(|| format!("applying {name} to {}", self.name()))?;
        }
        Ok(())
    }

    /// Deletes every object that a YAML text names, the last one first. Pods go at once.
    pub async fn delete(&self, yaml: &str) -> Result<()> {
        for object in parse(yaml)?.into_iter().rev() {
            let kind = self.kind(&kind_of(&object)?).await?;
            let name = object
                .metadata
                .name
                .clone()
                .context("an object without a name")?;
            let api = kind.api(self.client(), &namespace_of(&object));
            delete_now(&api, &name)
                .await
                .with_context(|| format!("deleting {}", describe(&object)))?;
        }
        Ok(())
    }

    /// Deletes one object by its kind and name. A Pod goes at once.
    pub async fn delete_object(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        delete_now(&self.api(kind, namespace).await?, name)
            .await
            .with_context(|| format!("deleting {kind} {namespace}/{name} of {}", self.name()))
    }

    /// Begins to delete a Pod, and leaves it terminating.
    pub async fn terminate_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let parameters = DeleteParams::default().grace_period(GRACE_PERIOD_SECONDS);
        self.api("Pod", namespace)
            .await?
            .delete(name, &parameters)
            .await?;
        Ok(())
    }

    /// Merges a JSON patch into an object.
    pub async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: Value) -> Result<()> {
        self.api(kind, namespace)
            .await?
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("patching {kind} {namespace}/{name} of {}", self.name()))?;
        Ok(())
    }

    /// Merges a JSON patch into an object's status.
    pub async fn patch_status(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        status: Value,
    ) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind, namespace)
            .await?
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("patching the status of {kind} {namespace}/{name}"))?;
        Ok(())
    }

    /// The objects of one kind in one namespace.
    pub async fn api(&self, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let kind = self.kind(&known_kind(kind)?).await?;
        Ok(kind.api(self.client(), namespace))
    }

    /// Makes a namespace if it is not there.
    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        if self.resources().namespaces.lock().contains(name) {
            return Ok(());
        }
        let namespace = parse(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"
        ))?
        .remove(0);
        let api = self.api("Namespace", "").await?;
        match api.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            other => {
                other.with_context(|| format!("making namespace {name}"))?;
            }
        }
        self.resources().namespaces.lock().insert(name.to_owned());
        Ok(())
    }

    /// Empties the cluster of everything a test puts there. Namespaces, accounts and rights stay.
    pub async fn reset(&self) -> Result<()> {
        futures::future::try_join_all(RESET_KINDS.map(|kind| self.reset_kind(kind)))
            .await
            .with_context(|| format!("resetting {}", self.name()))?;
        Ok(())
    }

    async fn reset_kind(&self, kind: &str) -> Result<()> {
        // Only Linkerd's kinds can be missing.
        let Ok(kind) = self.kind(&known_kind(kind)?).await else {
            return Ok(());
        };
        let selected = ListParams::default().labels(&format!("!{KEPT_LABEL}"));
        let delete = now();
        let all = Api::<DynamicObject>::all_with(self.client(), &kind.resource);
        let found = all.list_metadata(&selected).await?;
        let own_service =
            |namespace: &str, name: &str| (namespace, name) == ("default", "kubernetes");
        let namespaces: BTreeSet<_> = found
            .items
            .iter()
            .map(|object| {
                let name = object.metadata.name.clone().unwrap_or_default();
                (object.metadata.namespace.clone().unwrap_or_default(), name)
            })
            .filter(|(namespace, name)| !own_service(namespace, name))
            .collect();
        let mut emptied = BTreeSet::new();
        for (namespace, name) in &namespaces {
            let api = kind.api(self.client(), namespace);
            if namespace == "default" {
                delete_now(&api, name).await?;
            } else if emptied.insert(namespace) {
                api.delete_collection(&delete, &selected).await?;
            }
        }
        Ok(())
    }

    async fn apply_object(&self, mut object: DynamicObject) -> Result<()> {
        let kind = self.kind(&kind_of(&object)?).await?;
        let name = object.metadata.name.clone().context("it has no name")?;
        let namespace = namespace_of(&object);
        if kind.namespaced {
            self.ensure_namespace(&namespace).await?;
            object.metadata.namespace = Some(namespace.clone());
        }
        let terminating = object.metadata.deletion_timestamp.take().is_some();
        object.metadata.deletion_grace_period_seconds = None;
        object.metadata.resource_version = None;
        object.metadata.uid = None;
        let status = if kind.has_status {
            object
                .data
                .as_object_mut()
                .and_then(|data| data.remove("status"))
        } else {
            None
        };

        let api = kind.api(self.client(), &namespace);
        let mut stored = create_or_replace(&api, &name, object).await?;
        if let Some(status) = status {
            stored.data["status"] = status;
            api.replace_status(&name, &PostParams::default(), &stored)
                .await
                .context("storing its status")?;
        }
        if terminating {
            let parameters = DeleteParams::default().grace_period(GRACE_PERIOD_SECONDS);
            api.delete(&name, &parameters).await?;
        }
        if kind.resource.kind == "CustomResourceDefinition" {
            wait_for(&format!("{name} to be served"), || established(&api, &name)).await?;
        }
        Ok(())
    }

    /// What the cluster says about a kind; asked once.
    async fn kind(&self, wanted: &GroupVersionKind) -> Result<Kind> {
        if let Some(kind) = self.resources().by_kind.lock().get(wanted) {
            return Ok(kind.clone());
        }
        let (resource, capabilities) = pinned_kind(&self.client(), wanted)
            .await
            .with_context(|| format!("{} does not know {wanted:?}", self.name()))?;
        let kind = Kind {
            namespaced: capabilities.scope == Scope::Namespaced,
            has_status: capabilities
                .subresources
                .iter()
                .any(|(subresource, _)| subresource.plural == "status"),
            resource,
        };
        self.resources()
            .by_kind
            .lock()
            .insert(wanted.clone(), kind.clone());
        Ok(kind)
    }
}

/// The objects of a YAML text; empty documents count for nothing.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|document| Ok(serde_json::from_value(document)?))
        .collect()
}

async fn create_or_replace(
    api: &Api<DynamicObject>,
    name: &str,
    mut object: DynamicObject,
) -> Result<DynamicObject> {
    // Looking first, since creating a Service that exists does not say that it exists but that its address is taken.
    let Some(existing) = api.get_opt(name).await? else {
        return Ok(api.create(&PostParams::default(), &object).await?);
    };
    if existing.metadata.deletion_timestamp.is_none() {
        object.metadata.resource_version = existing.metadata.resource_version;
        match api.replace(name, &PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 422 => {}
            other => return Ok(other?),
        }
        object.metadata.resource_version = None;
    }
    delete_now(api, name).await?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Deletes an object without grace. One that is not there is as good as deleted.
async fn delete_now(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    match api.delete(name, &now()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => {
            other?;
            Ok(())
        }
    }
}

/// Without grace, and without waiting for owned objects: where no controllers run, nothing would ever finish the other policies.
fn now() -> DeleteParams {
    DeleteParams::background().grace_period(0)
}

async fn established(api: &Api<DynamicObject>, name: &str) -> Option<()> {
    let definition = api.get(name).await.ok()?;
    let conditions = definition.data["status"]["conditions"].as_array()?;
    let is_true =
        |condition: &&Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.iter().find(is_true).map(|_| ())
}

fn kind_of(object: &DynamicObject) -> Result<GroupVersionKind> {
    let types = object.types.as_ref().context("an object without a kind")?;
    Ok(GroupVersionKind::try_from(types)?)
}

fn namespace_of(object: &DynamicObject) -> String {
    let namespace = object.metadata.namespace.clone();
    namespace.unwrap_or_else(|| "default".to_owned())
}

fn describe(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("?", |types| &types.kind);
    let name = object.metadata.name.as_deref().unwrap_or("?");
    format!("{kind} {}/{name}", namespace_of(object))
}

/// The group and version of a kind that tests name in short.
fn known_kind(kind: &str) -> Result<GroupVersionKind> {
    let (group, version) = match kind {
        "Namespace" | "Node" | "Service" | "Pod" | "Endpoints" | "Secret" | "ServiceAccount"
        | "ConfigMap" => ("", "v1"),
        "EndpointSlice" => ("discovery.k8s.io", "v1"),
        "Lease" => ("coordination.k8s.io", "v1"),
        "Deployment" | "ReplicaSet" => ("apps", "v1"),
        "Job" => ("batch", "v1"),
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {
            ("rbac.authorization.k8s.io", "v1")
        }
        "ServiceProfile" => ("linkerd.io", "v1alpha2"),
        "Server" => ("policy.linkerd.io", "v1beta3"),
        "ExternalWorkload" => ("workload.linkerd.io", "v1beta1"),
        "Link" => ("multicluster.linkerd.io", "v1alpha3"),
        _ => bail!("the test bed knows no kind {kind}"),
    };
    Ok(GroupVersionKind::gvk(group, version, kind))
}
