//! What is wrong, or may become so.

use serde::Serialize;

use super::clusters::seconds;
use crate::proto::tributary_v1 as proto;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which check it comes from.
    pub check: String,
    /// What it is about.
    pub subject: String,
    /// What was found.
    pub what: String,
    /// For how long it has been so.
    pub since_seconds: Option<u64>,
    /// What follows from it; empty if all is well.
    pub meaning: String,
    /// What to do; empty if all is well.
    pub action: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// All is well.
    Ok,
    /// Worth knowing.
    Note,
    /// Something does not work as it could. Also what is newer than this program.
    Warning,
    /// Something does not work.
    Error,
}

// === impl Finding ===

impl From<proto::Finding> for Finding {
    fn from(finding: proto::Finding) -> Self {
        Self {
            severity: match finding.severity() {
                proto::Severity::Ok => Severity::Ok,
                proto::Severity::Note => Severity::Note,
                proto::Severity::Unspecified | proto::Severity::Warning => Severity::Warning,
                proto::Severity::Error => Severity::Error,
            },
            check: finding.check,
            subject: finding.subject,
            what: finding.what,
            since_seconds: finding.since.and_then(seconds),
            meaning: finding.meaning,
            action: finding.action,
        }
    }
}

// === impl Severity ===

impl Severity {
    /// The severity in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
