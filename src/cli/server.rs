//! Reaching a server, and what is said when that fails.

use std::error::Error as _;
use std::io::{self, Write};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::Verdict;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for a first answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an idle connection is tested by the kernel. Pings of HTTP/2 would be more than some servers put up with.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Largest answer that is accepted: a Service of some 100,000 endpoints.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Pause before the first attempt to get a lost server back; doubles up to [`RETRY_MAX`].
pub(super) const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// There is no connection.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server.
        server: String,
        /// What the network says.
        #[source]
        source: tonic::transport::Error,
    },
    /// The server connects but says nothing.
    #[error("{server} accepted the question but did not answer within {}s", ANSWER_TIMEOUT.as_secs())]
    Silent {
        /// The server.
        server: String,
    },
    /// The server says no.
    #[error("{server} refused")]
    Refused {
        /// The server.
        server: String,
        /// Why.
        status: Box<Status>,
    },
}

/// Connects to a server.
pub(super) async fn connect(server: &str) -> Result<Channel, AskError> {
    let failed = |source| AskError::Connect {
        server: server.to_owned(),
        source,
    };
    Endpoint::from_shared(format!("http://{server}"))
        .map_err(failed)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .connect()
        .await
        .map_err(failed)
}

/// Whether asking again cannot help.
pub(super) fn is_final(error: &AskError) -> bool {
    matches!(error, AskError::Refused { status, .. } if status.code() == Code::InvalidArgument)
}

/// Says on `err` what is wrong and what can be done about it.
pub(super) fn failed(
    error: &AskError,
    authority: &str,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    writeln!(
        err,
        "tributary: {}; {}",
        what(error, authority),
        remedy(error)
    )?;
    Ok(match error {
        AskError::Connect { .. } | AskError::Silent { .. } => Verdict::CouldNotAsk,
        AskError::Refused { status, .. } => match status.code() {
            Code::NotFound | Code::FailedPrecondition => Verdict::Findings,
            Code::InvalidArgument => Verdict::Usage,
            _ => Verdict::CouldNotAsk,
        },
    })
}

/// What is wrong, in one line.
pub(super) fn what(error: &AskError, authority: &str) -> String {
    match error {
        AskError::Connect { .. } => format!("{error}: {}", error.root()),
        AskError::Silent { .. } => error.to_string(),
        AskError::Refused { server, status } => {
            if let Some(cause) = broken(status) {
                return format!("{server} does not speak gRPC, or broke off: {cause}");
            }
            let said = one_line(status.message());
            match status.code() {
                Code::NotFound => format!("{server} knows nothing of {authority}: {said}"),
                Code::FailedPrecondition => format!("{authority} cannot be resolved: {said}"),
                Code::InvalidArgument => format!("{server} refuses the name {authority}: {said}"),
                Code::Unavailable => format!("{server} cannot answer now: {said}"),
                Code::ResourceExhausted => format!("{server} is full: {said}"),
                code => format!("{server} failed ({code:?}): {said}"),
            }
        }
    }
}

/// What can be done about it.
fn remedy(error: &AskError) -> &'static str {
    match error {
        AskError::Connect { .. } => {
            "is it running there? Name another with --addr, or forward its port: \
             kubectl -n linkerd port-forward deploy/tributary 8086"
        }
        AskError::Silent { .. } => "its /ready page says what it waits for",
        AskError::Refused { status, .. } if broken(status).is_some() => {
            "is that its gRPC port? Name another with --addr; /ready and /metrics are on a port of their own"
        }
        AskError::Refused { status, .. } => match status.code() {
            Code::NotFound => "`kubectl get services -A` lists the Services there are",
            Code::FailedPrecondition => "mend the labels of the Service",
            Code::InvalidArgument => "if your cluster has another domain, add --cluster-domain",
            Code::Unavailable => "its /ready page says what it waits for",
            Code::ResourceExhausted => "raise --max-streams there, or try again later",
            _ => "its log says more",
        },
    }
}

/// What is wrong with the connection, if that and not the server is where the status comes from.
fn broken(status: &Status) -> Option<String> {
    let is_vague = matches!(status.code(), Code::Unknown | Code::Internal);
    status.source().filter(|_| is_vague).map(root)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === impl AskError ===

impl AskError {
    /// The last of the causes: what the network said, without the layers above it.
    pub(super) fn root(&self) -> String {
        self.source().map(root).unwrap_or_default()
    }
}

fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

pub(super) fn refused(server: &str, status: Status) -> AskError {
    AskError::Refused {
        server: server.to_owned(),
        status: Box::new(status),
    }
}
