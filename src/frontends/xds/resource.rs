//! Resources as they are sent: encoded once, versioned by what they say, shared by every stream.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use xxhash_rust::xxh3::Xxh3Default;

use super::fields::{begin, field_len, put};

/// `DiscoveryResponse` and `DeltaDiscoveryResponse`: the resources.
const RESOURCES: u32 = 2;
/// `Resource`: its version.
const RESOURCE_VERSION: u32 = 1;
/// `Resource`: the `Any`. The same number as that of [`RESOURCES`], which is what lets both variants share bytes.
const RESOURCE_BODY: u32 = 2;
/// `Resource`: its name.
const RESOURCE_NAME: u32 = 3;
/// `Any`: the URL of its type.
const ANY_TYPE_URL: u32 = 1;
/// `Any`: the message.
const ANY_VALUE: u32 = 2;

const _: () = assert!(RESOURCES == RESOURCE_BODY);

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

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Requests name all that is wanted.
    StateOfTheWorld,
    /// Requests name what is wanted besides, or no longer.
    Delta,
}

/// What a resource says, in a number: equal for equal content, on every replica and after every restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Version(pub(super) u64);

/// One state of one resource, encoded once for every stream that is told of it.
///
/// In the delta variant a response has a field with version, name and `Any` of each resource; in the other one it has just
/// the `Any`, under the same number. So the second is the last part of the first, if the `Any` comes last.
#[derive(Debug)]
pub(super) struct Resource {
    /// What it says.
    pub(super) version: Version,
    /// The field of a delta response.
    field: Bytes,
    /// Where the field of the other variant begins in it.
    any_from: usize,
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

// === impl Resource ===

impl Resource {
    /// A resource of a kind, with its message encoded.
    pub(super) fn new(kind: Kind, name: &str, version: Version, message: &[u8]) -> Self {
        let version_text = version.to_string();
        let url = kind.type_url();
        let any = field_len(ANY_TYPE_URL, url.len()) + field_len(ANY_VALUE, message.len());
        let about =
            field_len(RESOURCE_VERSION, version_text.len()) + field_len(RESOURCE_NAME, name.len());
        let resource = about + field_len(RESOURCE_BODY, any);
        let mut field = BytesMut::with_capacity(field_len(RESOURCES, resource));
        begin(RESOURCES, resource, &mut field);
        put(RESOURCE_VERSION, version_text.as_bytes(), &mut field);
        put(RESOURCE_NAME, name.as_bytes(), &mut field);
        let any_from = field.len();
        begin(RESOURCE_BODY, any, &mut field);
        put(ANY_TYPE_URL, url.as_bytes(), &mut field);
        put(ANY_VALUE, message, &mut field);
        Self {
            version,
            field: field.freeze(),
            any_from,
        }
    }

    /// The field of a response that holds it.
    pub(super) fn field(&self, variant: Variant) -> Bytes {
        match variant {
            Variant::StateOfTheWorld => self.field.slice(self.any_from..),
            Variant::Delta => self.field.clone(),
        }
    }

    /// Bytes it takes in a response of either variant, at most.
    pub(super) fn len(&self) -> usize {
        self.field.len()
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

#[cfg(test)]
impl Resource {
    /// The message.
    pub(super) fn message<M: prost::Message + Default>(&self) -> M {
        use crate::proto::xds::discovery::DiscoveryResponse;
        use prost::Message as _;
        let response = DiscoveryResponse::decode(self.field(Variant::StateOfTheWorld)).unwrap();
        M::decode(&*response.resources[0].value).unwrap()
    }
}
