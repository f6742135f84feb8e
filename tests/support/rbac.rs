//! Accounts with exactly the rights that a real installation gives.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};

use super::cluster::Cluster;
use super::kubeconfig::{Access, Credentials};
use super::objects::KEPT_LABEL;

/// Where Linkerd's multicluster extension lives in a target cluster.
pub const MULTICLUSTER_NAMESPACE: &str = "linkerd-multicluster";

/// The control plane's namespace, in which linked clusters' Secrets are.
pub const CONTROL_PLANE_NAMESPACE: &str = "linkerd";

/// The account that Linkerd's chart makes for readers in other clusters.
pub const REMOTE_ACCOUNT: &str = "linkerd-service-mirror-remote-access-default";

/// The account of the service itself in its own cluster.
pub const HOME_ACCOUNT: &str = "tributary";

/// The account of Linkerd's destination controller.
pub const CONTROLLER_ACCOUNT: &str = "linkerd-destination";

/// A user with the remote rights and a client certificate instead of a token.
pub const REMOTE_USER: &str = "tributary-remote";

/// A token lives as long as this object: deleting it revokes the token.
const TOKEN_ANCHOR: &str = "remote-access-token";

/// Whether the remote account may read Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodRight {
    /// As Linkerd's chart has it.
    Given,
    /// As a cautious operator might have it.
    Withheld,
}

// === impl Cluster ===

impl Cluster {
    /// Makes the account for readers in other clusters and returns a token for it.
    ///
    /// The rights are those that Linkerd's chart gives, and nothing more. Every call returns a new token; those of before
    /// stay valid until [`Cluster::revoke_tokens`].
    pub async fn remote_token(&self) -> Result<String> {
        self.grant_remote_rights(PodRight::Given).await?;
        self.apply(&format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: {TOKEN_ANCHOR}, namespace: {MULTICLUSTER_NAMESPACE}, \
             labels: {{{KEPT_LABEL}: 'true'}}}}}}"
        ))
        .await?;
        let anchor = self
            .api("Secret", MULTICLUSTER_NAMESPACE)
            .await?
            .get(TOKEN_ANCHOR)
            .await?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(TOKEN_ANCHOR.to_owned()),
            uid: anchor.metadata.uid,
        };
        self.token(MULTICLUSTER_NAMESPACE, REMOTE_ACCOUNT, Some(bound))
            .await
    }

    /// Makes every token of [`Cluster::remote_token`] invalid.
    ///
    /// An API server remembers for some seconds that a token was good, and never ends a watch because of its token: what
    /// is to notice has to connect again, see [`super::fault_proxy::FaultProxy::cut`].
    pub async fn revoke_tokens(&self) -> Result<()> {
        self.delete_object("Secret", MULTICLUSTER_NAMESPACE, TOKEN_ANCHOR)
            .await
    }

    /// Takes the right to read Pods from the remote account. Watches that are open go on.
    pub async fn withdraw_pod_right(&self) -> Result<()> {
        self.grant_remote_rights(PodRight::Withheld).await
    }

    /// Undoes [`Cluster::withdraw_pod_right`].
    pub async fn give_pod_right(&self) -> Result<()> {
        self.grant_remote_rights(PodRight::Given).await
    }

    /// A client certificate for a user with the remote rights.
    pub async fn remote_certificate(&self) -> Result<Credentials> {
        self.grant_remote_rights(PodRight::Given).await?;
        let identity = self.pki().client_identity(REMOTE_USER)?;
        Ok(Credentials::Certificate(identity))
    }

    /// Makes the account of the service itself, as our chart does, and returns its access to this cluster.
    pub async fn home_access(&self) -> Result<Access> {
        self.apply(HOME_RIGHTS).await?;
        self.apply(ENDPOINTS_RIGHTS).await?;
        let token = self
            .token(CONTROL_PLANE_NAMESPACE, HOME_ACCOUNT, None)
            .await?;
        Ok(self.access(Credentials::Token(token)))
    }

    /// Makes the account of Linkerd's destination controller, with the rights that matter here, and returns its access.
    pub async fn controller_access(&self) -> Result<Access> {
        self.apply(CONTROLLER_RIGHTS).await?;
        let token = self
            .token(CONTROL_PLANE_NAMESPACE, CONTROLLER_ACCOUNT, None)
            .await?;
        Ok(self.access(Credentials::Token(token)))
    }

    /// The access of an account that is there already.
    pub async fn account_access(&self, namespace: &str, account: &str) -> Result<Access> {
        let token = self.token(namespace, account, None).await?;
        Ok(self.access(Credentials::Token(token)))
    }

    /// Gives the account of [`Cluster::remote_token`] what the service needs at home, so that a token for home can be revoked.
    pub async fn grant_remote_account_the_home_rights(&self) -> Result<()> {
        let subject =
            |name: &str, namespace: &str| format!("    name: {name}\n    namespace: {namespace}\n");
        let to_home_account = subject(HOME_ACCOUNT, CONTROL_PLANE_NAMESPACE);
        let to_remote_account = subject(REMOTE_ACCOUNT, MULTICLUSTER_NAMESPACE);
        self.apply(&HOME_RIGHTS.replace(&to_home_account, &to_remote_account))
            .await
    }

    async fn grant_remote_rights(&self, pods: PodRight) -> Result<()> {
        let core = match pods {
            PodRight::Given => "pods, endpoints, services",
            PodRight::Withheld => "endpoints, services",
        };
        self.apply(&REMOTE_RIGHTS.replace("CORE_RESOURCES", core))
            .await
    }

    async fn token(
        &self,
        namespace: &str,
        account: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                bound_object_ref,
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let status = answer.status.context("a token request without an answer")?;
        Ok(status.token)
    }
}

/// What Linkerd's chart makes in a target cluster.
const REMOTE_RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: linkerd-service-mirror-remote-access-default, namespace: linkerd-multicluster}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: linkerd-service-mirror-remote-access-default}
rules:
- {apiGroups: [''], resources: [CORE_RESOURCES], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [apps], resources: [replicasets], verbs: [get, list, watch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch]}
- {apiGroups: [policy.linkerd.io], resources: [servers], verbs: [get, list, watch]}
- {apiGroups: [''], resources: [configmaps], resourceNames: [linkerd-config], verbs: [get]}
- {apiGroups: [''], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: linkerd-service-mirror-remote-access-default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: linkerd-service-mirror-remote-access-default}
subjects:
- {kind: ServiceAccount, name: linkerd-service-mirror-remote-access-default, namespace: linkerd-multicluster}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: tributary-remote}
";

/// What the service needs in its own cluster, as an operator applies it.
const HOME_RIGHTS: &str = include_str!("../../deploy/rbac-read.yaml");

/// What our chart grants in place of EndpointSlices where Endpoints objects are read; beside them here, where tests read either.
const ENDPOINTS_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tributary-endpoints}
rules:
- {apiGroups: [''], resources: [endpoints], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tributary-endpoints}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tributary-endpoints}
subjects: [{kind: ServiceAccount, name: tributary, namespace: linkerd}]
";

/// What Linkerd's chart lets its destination controller read, and what it may write besides.
const CONTROLLER_RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: linkerd-destination, namespace: linkerd}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: linkerd-linkerd-destination}
rules:
- {apiGroups: [''], resources: [pods, endpoints, services, nodes], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [apps], resources: [replicasets], verbs: [get, list, watch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch]}
- {apiGroups: [linkerd.io], resources: [serviceprofiles], verbs: [get, list, watch]}
- {apiGroups: [policy.linkerd.io], resources: [servers], verbs: [get, list, watch]}
- {apiGroups: [workload.linkerd.io], resources: [externalworkloads], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: linkerd-linkerd-destination}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: linkerd-linkerd-destination}
subjects: [{kind: ServiceAccount, name: linkerd-destination, namespace: linkerd}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: linkerd-destination, namespace: linkerd}
rules:
- {apiGroups: [''], resources: [secrets], verbs: [get, list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: linkerd-destination, namespace: linkerd}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: linkerd-destination}
subjects: [{kind: ServiceAccount, name: linkerd-destination, namespace: linkerd}]
";
