//! The rights that the charts grant: all of them are needed, and there are no others.

#[path = "rights/degradation.rs"]
mod degradation;
#[path = "rights/linked.rs"]
mod linked;
#[path = "rights/reviewed.rs"]
mod reviewed;
#[path = "rights/world.rs"]
mod world;
#[path = "rights/writing.rs"]
mod writing;

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::support::cluster::Cluster;
use crate::support::kubeconfig::Access;
use crate::support::objects::parse;
pub(crate) use world::until_series;

/// Objects that grant rights to one account, to be changed before they are applied.
pub(crate) struct Grant {
    objects: Vec<DynamicObject>,
    namespace: String,
    account: String,
}

/// One right: group, resource, names (all, if there are none) and verb.
pub(crate) type Right = (String, String, Vec<String>, String);

// === impl Grant ===

impl Grant {
    /// The objects of manifests that have something to do with rights, for an account of another name, so that several are side
    /// by side.
    pub(crate) fn of(manifests: &[&str], namespace: &str, account: &str) -> Result<Self> {
        let mut objects = Vec::new();
        for manifest in manifests {
            for mut object in parse(manifest)? {
                let kind = kind(&object).to_owned();
                let name = object.metadata.name.as_mut().context("a name")?;
                match kind.as_str() {
                    "ServiceAccount" => account.clone_into(name),
                    "ClusterRole" | "Role" => *name = format!("{account}-{name}"),
                    "ClusterRoleBinding" | "RoleBinding" => {
                        *name = format!("{account}-{name}");
                        let role = object.data["roleRef"]["name"].as_str().context("a role")?;
                        object.data["roleRef"]["name"] = json!(format!("{account}-{role}"));
                        object.data["subjects"][0]["name"] = json!(account);
                    }
                    _ => continue,
                }
                objects.push(object);
            }
        }
        Ok(Self {
            objects,
            namespace: namespace.to_owned(),
            account: account.to_owned(),
        })
    }

    /// Every resource that a rule names.
    pub(crate) fn resources(&self) -> BTreeSet<String> {
        let rules = self.objects.iter().flat_map(rules);
        rules.flat_map(|rule| strings(&rule["resources"])).collect()
    }

    /// Every right, of all roles together.
    pub(crate) fn rights(&self) -> BTreeSet<Right> {
        self.objects
            .iter()
            .flat_map(rules)
            .flat_map(|rule| expand(&rule))
            .collect()
    }

    /// Takes a resource out of every rule, or only some of its verbs.
    pub(crate) fn without(mut self, resource: &str, verbs: Option<&[&str]>) -> Self {
        for object in &mut self.objects {
            let Some(rules) = object.data["rules"].as_array_mut() else {
                continue;
            };
            for rule in &mut *rules {
                if !strings(&rule["resources"]).contains(&resource.to_owned()) {
                    continue;
                }
                match verbs {
                    None => drop_from(&mut rule["resources"], &[resource]),
                    Some(verbs) => drop_from(&mut rule["verbs"], verbs),
                }
            }
            let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
            rules.retain(|rule| !is_empty(&rule["resources"]) && !is_empty(&rule["verbs"]));
        }
        self
    }

    /// Grants them in a cluster, and returns the account's access.
    pub(crate) async fn apply(&self, cluster: &Cluster) -> Result<Access> {
        for object in &self.objects {
            cluster.apply(&serde_json::to_string(object)?).await?;
        }
        cluster.account_access(&self.namespace, &self.account).await
    }
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

fn rules(object: &DynamicObject) -> Vec<Value> {
    object.data["rules"].as_array().cloned().unwrap_or_default()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn drop_from(list: &mut Value, words: &[&str]) {
    if let Some(list) = list.as_array_mut() {
        list.retain(|word| !word.as_str().is_some_and(|word| words.contains(&word)));
    }
}

/// The rights of one rule.
pub(crate) fn expand(rule: &Value) -> Vec<Right> {
    let mut rights = Vec::new();
    let names = strings(&rule["resourceNames"]);
    for group in strings(&rule["apiGroups"]) {
        for resource in strings(&rule["resources"]) {
            for verb in strings(&rule["verbs"]) {
                rights.push((group.clone(), resource.clone(), names.clone(), verb));
            }
        }
    }
    rights
}
