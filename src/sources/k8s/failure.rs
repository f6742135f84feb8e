//! Why a request to an API server failed, in words for whoever is woken by it.

use std::error::Error;
use std::io;

use super::wire::ApiStatus;

/// Characters kept of what an API server says.
const MESSAGE_MAX: usize = 300;

/// A request or a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// What sort of failure it is.
    pub(super) class: FailureClass,
    /// One line for an operator; has no credentials in it.
    pub(super) reason: String,
}

/// Failures that are treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FailureClass {
    /// No answer, or a connection that broke.
    Unreachable,
    /// The server's certificate cannot be trusted.
    Untrusted,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404: the kind does not exist there.
    Absent,
    /// The version to go on from is not known there (any more): everything has to be listed again.
    Expired,
    /// The server does not know what it is asked for, such as a streamed list.
    Unsupported,
    /// 429 or 5xx.
    Overloaded,
    /// An answer that is not of the Kubernetes API.
    Garbled,
    /// The configuration cannot be used at all.
    Unusable,
}

// === impl Failure ===

impl Failure {
    pub(super) fn new(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            class,
            reason: reason.into(),
        }
    }

    /// Nothing came in for too long.
    pub(super) fn silent() -> Self {
        Self::new(
            FailureClass::Unreachable,
            "timed out: it gives no sign of life",
        )
    }

    /// The answer is not of the Kubernetes API; what it was is not repeated.
    pub(super) fn garbled(error: &serde_json::Error) -> Self {
        Self::new(
            FailureClass::Garbled,
            format!(
                "the answer is not of the Kubernetes API ({:?} at line {} column {})",
                error.classify(),
                error.line(),
                error.column()
            ),
        )
    }

    /// The server answered with an error.
    pub(super) fn answered(status: &ApiStatus) -> Self {
        let message: String = status.message.chars().take(MESSAGE_MAX).collect();
        let message = message.lines().next().unwrap_or_default();
        let code = status.code;
        // A server that was restored from a backup, or lags, does not know versions that we have seen.
        let too_new = message.contains("Too large resource version");
        // Credentials that are empty for a moment, such as a token file that is being written.
        let anonymous = message.contains("system:anonymous");
        let (class, reason) = match code {
            401 => (
                FailureClass::Unauthorized,
                format!("the API server rejected our credentials ({code}): {message}"),
            ),
            403 if anonymous => (
                FailureClass::Unauthorized,
                format!("the API server was sent no credentials ({code})"),
            ),
            403 => (
                FailureClass::Forbidden,
                format!("forbidden ({code}): {message}"),
            ),
            404 => (
                FailureClass::Absent,
                format!("not found ({code}): {message}"),
            ),
            410 => (
                FailureClass::Expired,
                format!("version too old ({code}): {message}"),
            ),
            _ if too_new => (
                FailureClass::Expired,
                format!("version unknown ({code}): {message}"),
            ),
            400 | 405 | 406 | 415 | 422 | 501 => (
                FailureClass::Unsupported,
                format!("the API server refused the request ({code}): {message}"),
            ),
            429 | 500.. => (
                FailureClass::Overloaded,
                format!("the API server answers {code}: {message}"),
            ),
            _ => (
                FailureClass::Garbled,
                format!("the API server answers {code}: {message}"),
            ),
        };
        Self { class, reason }
    }

    /// No answer came; the cause is looked for along the chain of errors.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        let mut last = error;
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Self::of_tls(error);
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                if let Some(failure) = Self::of_io(error) {
                    return failure;
                }
                // An error in an I/O error's clothes is not its source, but what it wraps.
                if let Some(inner) = error.get_ref() {
                    return Self::of(inner);
                }
            }
            last = error;
            cause = error.source();
        }
        let message: String = last.to_string().chars().take(MESSAGE_MAX).collect();
        let class = if last.is::<kube::client::AuthError>() {
            FailureClass::Unusable
        } else {
            FailureClass::Unreachable
        };
        Self::new(class, message)
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        let reason = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused",
            io::ErrorKind::TimedOut => "timed out while connecting",
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => "connection reset",
            io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => "connection closed",
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to it",
            _ => return None,
        };
        Some(Self::new(FailureClass::Unreachable, reason))
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(why) => Self::new(
                FailureClass::Untrusted,
                format!("certificate not trusted: {why}"),
            ),
            rustls::Error::AlertReceived(alert) => Self::new(
                FailureClass::Untrusted,
                format!("the TLS handshake was refused by it: {alert:?}"),
            ),
            other => Self::new(FailureClass::Untrusted, format!("no TLS with it: {other}")),
        }
    }
}

// === impl FailureClass ===

impl FailureClass {
    /// Whether no answer came at all.
    pub(super) fn is_silence(self) -> bool {
        matches!(self, Self::Unreachable | Self::Untrusted | Self::Unusable)
    }

    /// In one word; for metrics.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Untrusted => "untrusted",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::Unsupported => "unsupported",
            Self::Overloaded => "overloaded",
            Self::Garbled => "garbled",
            Self::Unusable => "unusable",
        }
    }

    /// Every class.
    pub(super) const ALL: [Self; 10] = [
        Self::Unreachable,
        Self::Untrusted,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Absent,
        Self::Expired,
        Self::Unsupported,
        Self::Overloaded,
        Self::Garbled,
        Self::Unusable,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, message: &str, class: FailureClass) {
        let status = ApiStatus {
            code,
            message: message.to_owned(),
        };
        assert_eq!(Failure::answered(&status).class, class, "{code} {message}");
    }

    #[test]
    fn answers_are_told_apart() {
        check(401, "Unauthorized", FailureClass::Unauthorized);
        check(403, "pods is forbidden", FailureClass::Forbidden);
        check(
            403,
            "pods is forbidden: User \"system:anonymous\" cannot list",
            FailureClass::Unauthorized,
        );
        check(
            404,
            "the server could not find the requested resource",
            FailureClass::Absent,
        );
        check(
            410,
            "too old resource version: 1 (2)",
            FailureClass::Expired,
        );
        check(
            504,
            "Timeout: Too large resource version: 9, current: 1",
            FailureClass::Expired,
        );
        check(504, "Timeout", FailureClass::Overloaded);
        check(
            422,
            "sendInitialEvents is forbidden",
            FailureClass::Unsupported,
        );
        check(503, "apiserver is shutting down", FailureClass::Overloaded);
        check(302, "", FailureClass::Garbled);
    }

    #[test]
    fn causes_are_found_inside_other_errors() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let wrapped = io::Error::other(io::Error::other(refused));
        assert_eq!(Failure::of(&wrapped).reason, "connection refused");
        let unknown = io::Error::other(rustls::Error::InvalidCertificate(
            rustls::CertificateError::UnknownIssuer,
        ));
        assert_eq!(Failure::of(&unknown).class, FailureClass::Untrusted);
        let other = io::Error::other("failed to lookup address information");
        assert_eq!(
            Failure::of(&other).reason,
            "failed to lookup address information"
        );
    }

    #[test]
    fn reasons_are_one_short_line() {
        let status = ApiStatus {
            code: 403,
            message: format!("{}\nmore", "x".repeat(1000)),
        };
        let reason = Failure::answered(&status).reason;
        assert!(reason.len() < 400 && !reason.contains('\n'));
    }
}
