//! Resources as they are sent: encoded once, versioned by what they say, shared by every stream.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3Default;

/// A kind of resource, in the order in which one stream is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// `Cluster`: that there is something to balance over.
    Cluster,
    /// `ClusterLoadAssignment`: the endpoints.
    Assignment,
    /// `Listener`: where a gRPC client begins.
    Listener,
    /// `RouteConfiguration`.
    Route,
}

/// What a resource says, in a number: equal for equal content, on every replica and after every restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Version(pub(super) u64);

/// One state of one resource.
#[derive(Debug)]
pub(super) struct Resource {
    /// What it says.
    pub(super) version: Version,
    /// The encoded message.
    pub(super) body: Bytes,
}

/// Makes the version of something from its parts, in an order that is always the same.
#[derive(Default)]
pub(super) struct Fingerprint(Xxh3Default);

/// What can be said of a name now.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// Nothing yet: something that could contribute has not been read.
    NotYet,
    /// It is not there.
    Absent,
    /// It is there.
    Present(Arc<Resource>, Completeness),
}

/// Whether anything is missing from a resource that nobody can know of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    /// Nothing is.
    Complete,
    /// Something may be, and it has been waited for: good enough for a client that has nothing.
    Partial,
    /// Something may be, and it has not been waited for long enough.
    TooEarly,
}

// === impl Kind ===

impl Kind {
    /// Every kind, in order.
    pub(super) const ALL: [Self; 4] =
        [Self::Cluster, Self::Assignment, Self::Listener, Self::Route];

    /// The URL that names the kind in requests and responses.
    pub(super) const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Assignment => {
                "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
            }
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The kind that a URL names.
    pub(super) fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// Whether a response of the state-of-the-world variant has to hold every resource: what it lacks is deleted.
    pub(super) const fn is_whole(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

// === impl Version ===

impl Version {
    /// Reads what [`fmt::Display`] writes; `None` if the text is not of ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        (text.len() == 16)
            .then(|| u64::from_str_radix(text, 16).ok())
            .flatten()
            .map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Adds a text; its end counts, so that parts cannot run into each other.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
        self
    }

    /// Adds a number.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// The version of everything that was added.
    pub(super) fn version(&self) -> Version {
        Version(self.0.digest())
    }
}
