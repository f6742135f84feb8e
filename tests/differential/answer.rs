//! What a client has been told, without regard to how: neither order nor number of messages is in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tonic::Code;

pub(crate) type Labels = BTreeMap<String, String>;

/// Every endpoint that a client knows.
pub(crate) type Endpoints = BTreeMap<SocketAddr, Told>;

/// Where a request stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// There are no response headers yet.
    Waiting,
    Refused(Code),
    Endpoints(Endpoints),
    Profile(Box<Profile>),
    /// The stream is over, with OK.
    Ended,
}

/// What is said of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) weight: u32,
    pub(crate) labels: Labels,
    /// `dns:` or `uri:`, and the name.
    pub(crate) identity: Option<String>,
    pub(crate) server_name: Option<String>,
    /// Whether there is a hint; `h2`, `opaque`, or an empty text if it names no protocol.
    pub(crate) hint: Option<&'static str>,
    pub(crate) inbound_port: Option<u32>,
    /// Whether HTTP/2 settings go with it.
    pub http2: bool,
    pub(crate) authority: Option<String>,
}

/// A profile; the empty one is that of a port which nobody defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) opaque: bool,
    /// Namespace, name and port of the Service.
    pub(crate) service: Option<(String, String, u32)>,
    /// Namespace and name of the ServiceProfile.
    pub(crate) from: Option<(String, String)>,
    /// Ratio, least number each second, and how long they count, if that is said.
    pub(crate) budget: Option<(String, u32, Option<String>)>,
    pub(crate) routes: Vec<String>,
    /// Authority and weight.
    pub(crate) overrides: Vec<(String, u32)>,
    pub(crate) endpoint: Option<(SocketAddr, Told)>,
}

/// A length of time as text, for comparison.
pub(crate) fn length(seconds: i64, nanos: i64) -> String {
    format!("{} ns", seconds * 1_000_000_000 + nanos)
}
