//! Link Secrets → which clusters are linked. Pure.

use std::collections::BTreeMap;

use crate::model::{ClusterName, Text};
use crate::sources::k8s::objects::Secret;

/// Type of the Secrets that link clusters.
const LINK_TYPE: &str = "mirror.linkerd.io/remote-kubeconfig";

/// A Secret that means to link a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkSecret {
    namespace: String,
    created: String,
    name: String,
    cluster: String,
    trust_domain: Option<String>,
    cluster_domain: Option<String>,
}

/// What a set of Secrets says about links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Whether any Secret means to link a cluster.
    pub(crate) any: bool,
    /// The linked clusters, with the suffix of the identities of their Pods.
    pub(crate) trust_domains: BTreeMap<ClusterName, Text>,
    /// What is wrong with some of the Secrets, in words.
    pub(crate) problems: Vec<String>,
}

// === impl LinkSecret ===

impl LinkSecret {
    /// The Secret, if its type and label say that it links a cluster.
    pub(crate) fn of(secret: Secret) -> Option<Self> {
        let metadata = secret.metadata;
        if secret.type_ != LINK_TYPE {
            return None;
        }
        Some(Self {
            cluster: metadata.labels.cluster_name?,
            namespace: metadata.namespace,
            created: metadata.creation_timestamp,
            name: metadata.name,
            trust_domain: metadata.annotations.trust_domain,
            cluster_domain: metadata.annotations.cluster_domain,
        })
    }

    /// Whether both are the same object.
    pub(crate) fn same_object(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }
}

// === impl Links ===

impl Links {
    /// Reads the Secrets of the control plane's namespace. Of several for one cluster the oldest counts, then the first
    /// by name.
    pub(crate) fn of(
        secrets: Vec<&LinkSecret>,
        control_plane_namespace: &str,
        home: &ClusterName,
    ) -> Self {
        let mut secrets = secrets;
        secrets.sort_by_key(|secret| (&secret.created, &secret.name));
        let mut links = Self::default();
        for secret in secrets {
            if secret.namespace != control_plane_namespace {
                continue;
            }
            links.any = true;
            let LinkSecret {
                namespace,
                name,
                cluster,
                ..
            } = secret;
            let named = ClusterName::from(cluster.as_str());
            let problem = match &secret.trust_domain {
                _ if cluster.is_empty() => {
                    "its label multicluster.linkerd.io/cluster-name is empty"
                }
                _ if named == *home => "it links the home cluster to itself",
                _ if links.trust_domains.contains_key(&named) => {
                    "an older Secret links the cluster already"
                }
                None => "annotation multicluster.linkerd.io/trust-domain is missing",
                Some(_) if secret.cluster_domain.is_none() => {
                    "annotation multicluster.linkerd.io/cluster-domain is missing"
                }
                Some(trust_domain) => {
                    links
                        .trust_domains
                        .insert(named, trust_domain.as_str().into());
                    continue;
                }
            };
            links
                .problems
                .push(format!("Secret {namespace}/{name}: {problem}"));
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets as flow mappings in, one line out: links, then problems.
    fn check(secrets: &[&str], expected: &str) {
        let secrets: Vec<_> = secrets
            .iter()
            .filter_map(|yaml| LinkSecret::of(serde_saphyr::from_str(yaml).expect("a Secret")))
            .collect();
        let links = Links::of(secrets.iter().collect(), "linkerd", &"home".into());
        let mut parts: Vec<_> = links
            .trust_domains
            .iter()
            .map(|(cluster, trust_domain)| format!("{cluster}={trust_domain}"))
            .collect();
        parts.extend(links.problems);
        if !links.any {
            parts.push("none".to_owned());
        }
        assert_eq!(parts.join("; "), expected);
    }

    fn secret(name: &str, cluster: &str, annotations: &str) -> String {
        format!(
            "{{type: mirror.linkerd.io/remote-kubeconfig, metadata: {{name: {name}, namespace: linkerd, \
             labels: {{multicluster.linkerd.io/cluster-name: '{cluster}'}}, annotations: {{{annotations}}}}}}}"
        )
    }

    const TRUST: &str =
        "multicluster.linkerd.io/trust-domain: t, multicluster.linkerd.io/cluster-domain: ''";

    #[test]
    fn type_label_and_namespace_decide() {
        check(&[], "none");
        check(
            &["{type: Opaque, metadata: {name: a, namespace: linkerd}}"],
            "none",
        );
        check(
            &[
                "{type: mirror.linkerd.io/remote-kubeconfig, metadata: {name: a, namespace: linkerd}}",
            ],
            "none",
        );
        check(
            &[&secret("a", "west", TRUST).replace("namespace: linkerd", "namespace: other")],
            "none",
        );
        check(&[&secret("a", "west", TRUST)], "west=t");
    }

    #[test]
    fn what_does_not_link_says_why() {
        check(
            &[&secret(
                "a",
                "west",
                "multicluster.linkerd.io/cluster-domain: ''",
            )],
            "Secret linkerd/a: annotation multicluster.linkerd.io/trust-domain is missing",
        );
        check(
            &[&secret(
                "a",
                "west",
                "multicluster.linkerd.io/trust-domain: ''",
            )],
            "Secret linkerd/a: annotation multicluster.linkerd.io/cluster-domain is missing",
        );
        check(
            &[&secret("a", "home", TRUST), &secret("b", "", TRUST)],
            "Secret linkerd/a: it links the home cluster to itself; \
             Secret linkerd/b: its label multicluster.linkerd.io/cluster-name is empty",
        );
        check(
            &[
                &secret("b", "west", TRUST),
                &secret("a", "west", &TRUST.replace(": t", ": first")),
            ],
            "west=first; Secret linkerd/b: an older Secret links the cluster already",
        );
    }
}
