//! Secrets.

use std::fmt;

use serde::Deserialize;

use super::{Metadata, or_default};

/// `Secret` of the core group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// Its type.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// Its contents.
    #[serde(deserialize_with = "or_default")]
    pub data: SecretData,
}

/// `data` of a Secret; never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretData {
    /// A kubeconfig, in base64.
    pub kubeconfig: Option<String>,
}

// === impl SecretData ===

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretData(..)")
    }
}
