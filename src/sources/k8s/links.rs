//! Which clusters are linked, and by which Secret.
//!
//! Pure. Links are kept by Secret: where several Secrets name one cluster, the oldest counts, and the others stand by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::credentials::Credentials;
use super::drain;
use super::expiry;
use super::objects::{HasMetadata as _, Secret};
use crate::model::{ClusterName, Text};
use crate::publish::LinkInfo;

/// Type of a Secret that links a cluster.
pub(super) const SECRET_TYPE: &str = "mirror.linkerd.io/remote-kubeconfig";

/// Label that names the cluster.
pub(super) const CLUSTER_NAME_LABEL: &str = "multicluster.linkerd.io/cluster-name";

/// Selects Secrets of that type.
pub(super) const SECRET_TYPE_SELECTOR: &str = "type=mirror.linkerd.io/remote-kubeconfig";

/// Selects Secrets of any other type.
pub(super) const OTHER_TYPE_SELECTOR: &str = "type!=mirror.linkerd.io/remote-kubeconfig";

/// Every Secret that is meant to link a cluster.
#[derive(Debug, Default)]
pub(super) struct Links {
    known: Known,
    /// The list that is under way, if one is.
    staged: Option<Known>,
}

/// Secrets of the type that links clusters, by name.
#[derive(Debug, Default)]
struct Known {
    claims_by_secret: BTreeMap<Text, Claim>,
    /// Those that do not say which cluster.
    nameless: BTreeSet<Text>,
}

/// A Secret that names a cluster.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// The cluster.
    pub(super) cluster: ClusterName,
    /// How to reach it, or why the Secret does not say so.
    pub(super) definition: Result<Arc<Definition>, String>,
    /// Over how long its endpoints are to be taken away; `None` if they are to stay.
    pub(super) drain: Option<Duration>,
    created: String,
}

/// A link as its Secret defines it.
pub(super) struct Definition {
    /// The Secret, as `namespace/name`.
    pub(super) secret: String,
    /// Suffix of the identities of the cluster's Pods.
    pub(super) trust_domain: Text,
    /// How to reach the API server.
    pub(super) credentials: Credentials,
    kubeconfig: String,
}

// === impl Links ===

impl Links {
    /// A list of everything begins, perhaps once more.
    pub(super) fn list_started(&mut self) {
        self.staged = Some(Known::default());
    }

    /// The list has this Secret.
    pub(super) fn listed(&mut self, secret: &Secret) {
        self.staged.get_or_insert_default().insert(secret);
    }

    /// The list is complete. Returns the clusters whose link may have changed, in name order.
    pub(super) fn list_ended(&mut self) -> BTreeSet<ClusterName> {
        let Some(staged) = self.staged.take() else {
            return BTreeSet::new();
        };
        let before = std::mem::replace(&mut self.known, staged).claims_by_secret;
        let after = self.known.claims_by_secret.values().cloned();
        let claims = before.into_values().chain(after);
        claims.map(|claim| claim.cluster).collect()
    }

    /// A Secret was made or changed. Returns the clusters whose link may have changed, in name order.
    pub(super) fn applied(&mut self, secret: &Secret) -> BTreeSet<ClusterName> {
        if let Some(staged) = &mut self.staged {
            staged.insert(secret);
            return BTreeSet::new();
        }
        let before = self.known.insert(secret);
        let after = self
            .known
            .claims_by_secret
            .get(secret.metadata.name.as_str())
            .cloned();
        let claims = before.into_iter().chain(after);
        claims.map(|claim| claim.cluster).collect()
    }

    /// A Secret is gone. Returns the clusters whose link may have changed.
    pub(super) fn deleted(&mut self, secret: &Secret) -> BTreeSet<ClusterName> {
        let name = secret.metadata().name.as_str();
        if let Some(staged) = &mut self.staged {
            staged.remove(name);
            return BTreeSet::new();
        }
        let before = self.known.remove(name);
        before.map(|claim| claim.cluster).into_iter().collect()
    }

    /// The Secret that links a cluster: the oldest, and of those the first by name.
    pub(super) fn winner(&self, cluster: &ClusterName) -> Option<&Claim> {
        self.winning_secret(cluster).map(|(_, claim)| claim)
    }

    /// Secrets that link nothing as they stand, and why, by name.
    ///
    /// What is wrong inside a Secret that counts is not among them: it is told of the cluster that it names.
    pub(super) fn complaints(&self, home: &ClusterName) -> BTreeMap<Text, String> {
        let nameless = self.known.nameless.iter().map(|name| {
            let why = format!("label {CLUSTER_NAME_LABEL} is missing or empty");
            (name.clone(), why)
        });
        let outdone = self
            .known
            .claims_by_secret
            .iter()
            .filter_map(|(name, claim)| {
                let cluster = &claim.cluster;
                if cluster == home {
                    let why =
                        format!("it links cluster {cluster}, which is the home cluster itself");
                    return Some((name.clone(), why));
                }
                let (winner, _) = self.winning_secret(cluster)?;
                (winner != name).then(|| {
                    let why =
                        format!("cluster {cluster} is linked by Secret {winner}, which is older");
                    (name.clone(), why)
                })
            });
        nameless.chain(outdone).collect()
    }

    fn winning_secret(&self, cluster: &ClusterName) -> Option<(&Text, &Claim)> {
        self.known
            .claims_by_secret
            .iter()
            .filter(|(_, claim)| claim.cluster == *cluster)
            .min_by_key(|(name, claim)| (&claim.created, *name))
    }
}

// === impl Known ===

impl Known {
    /// Takes in a Secret as it is now; returns what it claimed before.
    fn insert(&mut self, secret: &Secret) -> Option<Claim> {
        let name = Text::from(secret.metadata.name.as_str());
        let before = self.remove(&name);
        match Claim::of(secret) {
            Some(claim) => {
                self.claims_by_secret.insert(name, claim);
            }
            None if secret.type_ == SECRET_TYPE => {
                self.nameless.insert(name);
            }
            None => {}
        }
        before
    }

    fn remove(&mut self, name: &str) -> Option<Claim> {
        self.nameless.remove(name);
        self.claims_by_secret.remove(name)
    }
}

// === impl Claim ===

impl Claim {
    /// What a Secret says; `None` if it is not meant to link a cluster.
    ///
    /// Source: rules of Linkerd's destination controller for adopting a Secret: type, label, two annotations, one key.
    fn of(secret: &Secret) -> Option<Self> {
        let metadata = &secret.metadata;
        let cluster = metadata.labels.cluster_name.as_deref()?;
        if secret.type_ != SECRET_TYPE || cluster.is_empty() {
            return None;
        }
        let name = format!("{}/{}", metadata.namespace, metadata.name);
        let definition =
            Definition::of(secret, &name).map_err(|why| format!("Secret {name}: {why}"));
        Some(Self {
            cluster: cluster.into(),
            definition: definition.map(Arc::new),
            drain: metadata.annotations.drain.as_deref().and_then(drain::over),
            created: metadata.creation_timestamp.clone(),
        })
    }
}

// === impl Definition ===

impl Definition {
    fn of(secret: &Secret, name: &str) -> Result<Self, String> {
        let annotations = &secret.metadata.annotations;
        let Some(trust_domain) = &annotations.trust_domain else {
            return Err("annotation multicluster.linkerd.io/trust-domain is missing".to_owned());
        };
        if annotations.cluster_domain.is_none() {
            return Err("annotation multicluster.linkerd.io/cluster-domain is missing".to_owned());
        }
        let Some(kubeconfig) = &secret.data.kubeconfig else {
            return Err("key kubeconfig is missing".to_owned());
        };
        Ok(Self {
            secret: name.to_owned(),
            trust_domain: trust_domain.as_str().into(),
            credentials: Credentials::from_base64(kubeconfig)
                .map_err(|error| format!("kubeconfig: {error}"))?,
            kubeconfig: kubeconfig.clone(),
        })
    }

    /// What may be told of it.
    pub(super) fn describe(&self) -> LinkInfo {
        expiry::describe(&self.secret, self.credentials.config(), &self.kubeconfig)
    }

    /// Whether a session for one is as good for the other.
    pub(super) fn same_link(&self, other: &Self) -> bool {
        self.trust_domain == other.trust_domain && self.kubeconfig == other.kubeconfig
    }
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition")
            .field("secret", &self.secret)
            .field("trust_domain", &self.trust_domain)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A Secret that links `cluster`, made on that day of May, with a token.
    fn secret(name: &str, cluster: &str, day: u8, token: &str) -> Secret {
        let kubeconfig = format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'https://a'}}}}], users: [{{name: u, user: {{token: {token}}}}}]}}"
        );
        let yaml = format!(
            "{{type: {SECRET_TYPE}, metadata: {{name: {name}, namespace: linkerd, creationTimestamp: '2026-05-{day:02}T00:00:00Z', \
             labels: {{multicluster.linkerd.io/cluster-name: {cluster}}}, \
             annotations: {{multicluster.linkerd.io/trust-domain: {cluster}.id, multicluster.linkerd.io/cluster-domain: ''}}}}, \
             data: {{kubeconfig: {}}}}}",
            STANDARD.encode(kubeconfig)
        );
        serde_saphyr::from_str(&yaml).expect("YAML")
    }

    fn names(clusters: &BTreeSet<ClusterName>) -> String {
        let names: Vec<_> = clusters.iter().map(ClusterName::as_str).collect();
        names.join(" ")
    }

    fn winner(links: &Links, cluster: &str) -> String {
        match links.winner(&ClusterName::from(cluster)) {
            None => "none".to_owned(),
            Some(claim) => match &claim.definition {
                Ok(definition) => definition.secret.clone(),
                Err(reason) => reason.clone(),
            },
        }
    }

    fn complaints(links: &Links) -> String {
        let all = links.complaints(&"home".into()).into_iter();
        let named: Vec<_> = all.map(|(name, why)| format!("{name}: {why}")).collect();
        named.join("; ")
    }

    #[test]
    fn the_oldest_secret_wins_and_hands_over_when_it_goes() {
        let mut links = Links::default();
        assert_eq!(names(&links.applied(&secret("b", "west", 2, "t"))), "west");
        links.applied(&secret("a", "west", 3, "t"));
        assert_eq!(winner(&links, "west"), "linkerd/b");
        assert_eq!(
            complaints(&links),
            "a: cluster west is linked by Secret b, which is older"
        );
        links.applied(&secret("c", "west", 2, "t"));
        assert_eq!(winner(&links, "west"), "linkerd/b");
        links.deleted(&secret("c", "west", 2, "t"));
        assert_eq!(winner(&links, "west"), "linkerd/b");
        assert_eq!(names(&links.deleted(&secret("b", "west", 2, "t"))), "west");
        assert_eq!(winner(&links, "west"), "linkerd/a");
        links.deleted(&secret("a", "west", 3, "t"));
        assert_eq!(winner(&links, "west"), "none");
    }

    #[test]
    fn a_changed_label_renames() {
        let mut links = Links::default();
        links.applied(&secret("a", "west", 1, "t"));
        assert_eq!(
            names(&links.applied(&secret("a", "east", 1, "t"))),
            "east west"
        );
        assert_eq!(
            (winner(&links, "west"), winner(&links, "east")),
            ("none".into(), "linkerd/a".into())
        );
    }

    #[test]
    fn a_list_replaces_everything_at_its_end() {
        let mut links = Links::default();
        links.applied(&secret("a", "west", 1, "t"));
        links.applied(&secret("b", "east", 1, "t"));
        links.list_started();
        links.listed(&secret("c", "gone", 1, "t"));
        links.list_started();
        links.listed(&secret("b", "east", 1, "t"));
        assert_eq!(winner(&links, "west"), "linkerd/a");
        links.applied(&secret("d", "north", 1, "t"));
        links.listed(&secret("e", "south", 1, "t"));
        links.deleted(&secret("e", "south", 1, "t"));
        assert_eq!(names(&links.list_ended()), "east north west");
        assert_eq!(
            (winner(&links, "west"), winner(&links, "east")),
            ("none".into(), "linkerd/b".into())
        );
    }

    #[test]
    fn what_is_not_meant_to_link_is_ignored() {
        let mut links = Links::default();
        let mut other = secret("a", "west", 1, "t");
        other.type_ = "Opaque".to_owned();
        assert_eq!(names(&links.applied(&other)), "");
        for label in [None, Some(String::new())] {
            let mut unnamed = secret("a", "west", 1, "t");
            unnamed.metadata.labels.cluster_name = label;
            assert_eq!(names(&links.applied(&unnamed)), "");
            assert_eq!(
                complaints(&links),
                "a: label multicluster.linkerd.io/cluster-name is missing or empty"
            );
        }
        assert_eq!(names(&links.applied(&secret("a", "west", 1, "t"))), "west");
        assert_eq!(complaints(&links), "");
    }

    #[test]
    fn a_link_to_home_itself_is_complained_of() {
        let mut links = Links::default();
        links.list_started();
        links.listed(&secret("a", "home", 1, "t"));
        links.list_ended();
        assert_eq!(
            complaints(&links),
            "a: it links cluster home, which is the home cluster itself"
        );
        links.deleted(&secret("a", "home", 1, "t"));
        assert_eq!(complaints(&links), "");
    }

    #[test]
    fn a_malformed_secret_says_what_is_wrong_with_it() {
        let check = |damage: fn(&mut Secret), expected: &str| {
            let mut links = Links::default();
            let mut damaged = secret("a", "west", 1, "t");
            damage(&mut damaged);
            links.applied(&damaged);
            let reason = winner(&links, "west");
            assert!(
                reason.starts_with("Secret linkerd/a: ") && reason.contains(expected),
                "{reason}"
            );
        };
        check(
            |secret| secret.metadata.annotations.trust_domain = None,
            "trust-domain is missing",
        );
        check(
            |secret| secret.metadata.annotations.cluster_domain = None,
            "cluster-domain is missing",
        );
        check(
            |secret| secret.data.kubeconfig = None,
            "key kubeconfig is missing",
        );
        check(
            |secret| secret.data.kubeconfig = Some("%".to_owned()),
            "kubeconfig: it is not base64",
        );
    }

    #[test]
    fn only_credentials_and_trust_domain_make_another_link() {
        let definition = |secret: &Secret| Definition::of(secret, "s").expect("well-formed");
        let one = definition(&secret("a", "west", 1, "t"));
        assert!(one.same_link(&definition(&secret("b", "west", 2, "t"))));
        assert!(!one.same_link(&definition(&secret("a", "west", 1, "other"))));
        let mut moved = secret("a", "west", 1, "t");
        moved.metadata.annotations.cluster_domain = Some("elsewhere".to_owned());
        assert!(one.same_link(&definition(&moved)));
        moved.metadata.annotations.trust_domain = Some("elsewhere".to_owned());
        assert!(!one.same_link(&definition(&moved)));
    }
}
