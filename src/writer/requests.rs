//! Requests to the home cluster's API server, and what its refusals mean.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource as _;
use kube::api::{DeleteParams, ListParams, ObjectList, Patch, PatchParams, Preconditions};
use kube::client::Body;
use kube::core::{Request, Status};
use serde::de::DeserializeOwned;

use super::copy::{Copy, Existing};
use super::encode::{MANAGED_BY, decode, encode};
use crate::model::{OUR_MANAGED_BY, SliceName, Text, Uid};

/// Under which name the API server notes which fields are ours. Must never change.
pub const FIELD_MANAGER: &str = "tributary-endpointslice-writer";

/// How long an API server may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of an answer; a slice is far below.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Characters of a refusal that are repeated to people.
const MESSAGE_MAX: usize = 400;
/// Copies asked for at once.
const PAGE: u32 = 200;

/// A way to the home cluster's API server.
pub trait Access: Send + Sync + fmt::Debug {
    /// A client, or why there is none.
    fn client(&self) -> BoxFuture<'_, Result<kube::Client, String>>;
    /// The credentials were refused: reads them again before the next request.
    fn refresh(&self);
}

/// What can be asked of the API server.
#[derive(Clone, Debug)]
pub struct Requests {
    access: Arc<dyn Access>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Refusal {
    /// What sort of refusal it is.
    pub reason: Reason,
    /// What the server said, shortened.
    pub message: String,
    /// Places of the endpoints that it is about, where it names some.
    pub endpoints: Vec<usize>,
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The object is not what it was: decide anew.
    Outdated,
    /// A stranger's object has the name.
    NameTaken,
    /// The namespace is going or gone.
    NamespaceGone,
    /// The namespace may not have more objects.
    QuotaExceeded,
    /// Somebody's policy is against it, or the object is not valid: the same will not be taken next time.
    Rejected,
    /// We are not allowed to.
    Forbidden,
    /// Too much is asked: again after this time.
    Throttled(Duration),
    /// The object is not there.
    Absent,
    /// The server is away or broken: later.
    Unavailable,
}

/// Whether a request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is.
    Real,
    /// It is only checked.
    DryRun,
}

// === impl Reason ===

impl Reason {
    /// In one word; for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Outdated => "outdated",
            Self::NameTaken => "name_taken",
            Self::NamespaceGone => "namespace_gone",
            Self::QuotaExceeded => "quota",
            Self::Rejected => "rejected",
            Self::Forbidden => "forbidden",
            Self::Throttled(_) => "throttled",
            Self::Absent => "absent",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outdated => "it has changed in the meantime",
            Self::NameTaken => "its name is taken by somebody else's object",
            Self::NamespaceGone => "the namespace is going or gone",
            Self::QuotaExceeded => "the namespace may not have more objects",
            Self::Rejected => "the API server does not take it",
            Self::Forbidden => "not allowed",
            Self::Throttled(_) => "too many requests",
            Self::Absent => "it is not there",
            Self::Unavailable => "the API server does not answer",
        })
    }
}

// === impl Requests ===

impl Requests {
    /// Requests by way of `access`.
    pub fn new(access: Arc<dyn Access>) -> Self {
        Self { access }
    }

    /// A client for watches; they are told of refused credentials by [`Self::refresh`].
    pub async fn client(&self) -> Result<kube::Client, Refusal> {
        let client = self.access.client().await;
        client.map_err(|message| Refusal {
            reason: Reason::Unavailable,
            message,
            endpoints: Vec::new(),
        })
    }

    /// Credentials are read again before the next request.
    pub fn refresh(&self) {
        self.access.refresh();
    }

    /// Makes a copy what it is to be: unforced, so that a stranger's object of its name stays as it is, unless `over` says which
    /// object of ours is there.
    ///
    /// Returns what is there then.
    pub async fn apply(
        &self,
        copy: &Copy,
        over: Option<&Uid>,
        effect: Effect,
    ) -> Result<Option<Existing>, Refusal> {
        let mut params = PatchParams::apply(FIELD_MANAGER);
        params.force = over.is_some();
        params.dry_run = effect == Effect::DryRun;
        let body = Patch::Apply(encode(copy, over));
        let request = path(&copy.name).patch(&copy.name.name, &params, &body);
        let slice: EndpointSlice = self.send(request).await?;
        Ok(decode(&slice))
    }

    /// Deletes a copy if it is still the one that was decided upon.
    pub async fn delete(
        &self,
        name: &SliceName,
        uid: &Uid,
        resource_version: &Text,
    ) -> Result<(), Refusal> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: Some(resource_version.to_string()),
            }),
            ..DeleteParams::default()
        };
        let request = path(name).delete(&name.name, &params);
        match self.send::<serde_json::Value>(request).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.reason == Reason::Absent => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Every slice that has our label, as the server knows them now.
    pub async fn list(&self) -> Result<Vec<Existing>, Refusal> {
        let everywhere = Request::new(EndpointSlice::url_path(&(), None));
        let mut params = ListParams::default()
            .labels(&managed_by(OUR_MANAGED_BY))
            .limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page: ObjectList<EndpointSlice> = self.send(everywhere.list(&params)).await?;
            found.extend(page.items.iter().filter_map(decode));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Sends a request and reads what comes back.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Refusal> {
        let unavailable = |message: String| Refusal {
            reason: Reason::Unavailable,
            message: shortened(&message),
            endpoints: Vec::new(),
        };
        let request = request.map_err(|error| unavailable(error.to_string()))?;
        let client = self.client().await?;
        let exchange = async {
            let response = client.send(request.map(Body::from)).await;
            let response = response.map_err(|error| unavailable(error.to_string()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| unavailable(error.to_string()))?;
            Ok((head, body.to_bytes()))
        };
        let (head, body) = match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(answer) => answer?,
            Err(_) => return Err(unavailable(format!("no answer within {REQUEST_TIMEOUT:?}"))),
        };
        if head.status == StatusCode::UNAUTHORIZED {
            self.refresh();
        }
        if head.status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| unavailable(error.to_string()));
        }
        let retry_after = head.headers.get(http::header::RETRY_AFTER);
        let retry_after = retry_after
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        Err(refusal(head.status, retry_after, &body))
    }
}

/// Selects slices by who manages them.
pub(super) fn managed_by(manager: &str) -> String {
    format!("{MANAGED_BY}={manager}")
}

fn path(name: &SliceName) -> Request {
    Request::new(EndpointSlice::url_path(&(), Some(name.namespace.as_str())))
}

/// What an answer that is no success means. Source: tried on a kube-apiserver 1.36.
fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Refusal {
    let told: Option<Status> = serde_json::from_slice(body).ok();
    let message = match &told {
        Some(told) => told.message.clone(),
        None => String::from_utf8_lossy(&body[..body.len().min(MESSAGE_MAX)]).into_owned(),
    };
    let details = told.as_ref().and_then(|told| told.details.as_ref());
    let names = |cause: &str| {
        details.is_some_and(|details| details.causes.iter().any(|known| known.reason == cause))
    };
    let is_policy =
        message.contains("admission webhook") || message.contains("ValidatingAdmissionPolicy");
    let reason = match status.as_u16() {
        403 if names("NamespaceTerminating") => Reason::NamespaceGone,
        403 if message.contains("exceeded quota") => Reason::QuotaExceeded,
        403 if is_policy => Reason::Rejected,
        403 => Reason::Forbidden,
        404 if details.is_some_and(|details| details.kind == "namespaces") => Reason::NamespaceGone,
        404 => Reason::Absent,
        409 if names("FieldManagerConflict") => Reason::NameTaken,
        409 => Reason::Outdated,
        // Another object has the name by now.
        422 if details.is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.field == "metadata.uid")
        }) =>
        {
            Reason::Outdated
        }
        400 | 413 | 422 => Reason::Rejected,
        429 => Reason::Throttled(retry_after.unwrap_or(Duration::from_secs(1))),
        500 if message.contains("too large") || message.contains("not declared in schema") => {
            Reason::Rejected
        }
        _ => Reason::Unavailable,
    };
    let causes = details.iter().flat_map(|details| &details.causes);
    Refusal {
        reason,
        message: format!("{status}: {}", shortened(&message)),
        endpoints: causes
            .filter_map(|cause| endpoint_of(&cause.field))
            .collect(),
    }
}

/// The place in a field such as `endpoints[3].hostname`.
fn endpoint_of(field: &str) -> Option<usize> {
    let (place, _) = field.strip_prefix("endpoints[")?.split_once(']')?;
    place.parse().ok()
}

fn shortened(message: &str) -> String {
    message.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, expected: Reason) {
        let status = StatusCode::from_u16(status).unwrap();
        let refusal = refusal(status, Some(Duration::from_secs(7)), body.as_bytes());
        assert_eq!(refusal.reason, expected, "{body}");
    }

    #[test]
    fn refusals_are_told_apart() {
        let terminating = r#"{"message":"unable to create new content in namespace a because it is being terminated","details":{"causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace"}]}}"#;
        check(403, terminating, Reason::NamespaceGone);
        check(
            404,
            r#"{"message":"namespaces \"a\" not found","details":{"kind":"namespaces"}}"#,
            Reason::NamespaceGone,
        );
        check(
            404,
            r#"{"message":"endpointslices \"a\" not found","details":{"kind":"endpointslices"}}"#,
            Reason::Absent,
        );
        check(
            403,
            r#"{"message":"endpointslices \"a\" is forbidden: exceeded quota: q"}"#,
            Reason::QuotaExceeded,
        );
        check(
            403,
            r#"{"message":"admission webhook \"x\" denied the request"}"#,
            Reason::Rejected,
        );
        check(
            403,
            r#"{"message":"endpointslices \"a\" is forbidden: User \"u\" cannot patch"}"#,
            Reason::Forbidden,
        );
        let conflict =
            r#"{"message":"x","details":{"causes":[{"reason":"FieldManagerConflict"}]}}"#;
        check(409, conflict, Reason::NameTaken);
        check(409, r#"{"message":"uid mismatch"}"#, Reason::Outdated);
        let other = r#"{"message":"invalid","details":{"causes":[{"field":"metadata.uid"}]}}"#;
        check(422, other, Reason::Outdated);
        let invalid =
            r#"{"message":"invalid","details":{"causes":[{"field":"endpoints[3].hostname"}]}}"#;
        check(422, invalid, Reason::Rejected);
        let invalid = super::refusal(StatusCode::UNPROCESSABLE_ENTITY, None, invalid.as_bytes());
        assert_eq!(invalid.endpoints, [3]);
        check(
            429,
            "Too many requests, please try again later.",
            Reason::Throttled(Duration::from_secs(7)),
        );
        check(
            500,
            r#"{"message":"etcdserver: request is too large"}"#,
            Reason::Rejected,
        );
        check(500, r#"{"message":"boom"}"#, Reason::Unavailable);
        check(503, "\u{fffd}", Reason::Unavailable);
    }
}
