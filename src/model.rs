//! Values: the names and facts that everything else speaks in.
//!
//! Nothing here does I/O, knows a clock or names a wire type. A *fact* is what one Kubernetes object says, trimmed
//! to the fields discovery uses; sources make facts, the [index](crate::index) joins them.

pub mod copying;

mod addresses;
mod authority;
mod cluster;
mod endpoint;
mod external;
mod labels;
mod locality;
mod ports;
mod profile;
mod server;
mod service;
mod text;
mod uid;
mod workload;

pub use addresses::Addresses;
pub use authority::{Authority, AuthorityError, Host};
pub use cluster::{ClusterFacts, ClusterName, ClusterRole, EndpointKind, SessionId};
pub use endpoint::{
    AddressFamily, Backing, Conditions, Endpoint, MirrorFacts, OUR_MANAGED_BY, SliceFacts,
    SliceName, SliceOrigin, SlicePort,
};
pub use external::{ExternalWorkload, ExternalWorkloadFacts, ExternalWorkloadName};
pub use labels::{Condition, Labels, Requirement, Selector};
pub use locality::{NodeFacts, NodeName, Zone};
pub use ports::{PortRange, PortSet};
pub use profile::{
    HttpMethod, Override, ProfileFacts, ProfileName, RequestMatch, ResponseClass, ResponseMatch,
    RetryBudget, Route, SignedDuration, StatusRange,
};
pub use server::{NamedPort, ServerFacts, ServerName, ServerPort, Traits};
pub use service::{
    CLUSTER_SERVICE, Federation, IpFamilies, Membership, Namespace, RemoteService, ServiceDetails,
    ServiceFacts, ServiceKey, ServiceName, ServicePort, TrafficPolicy, Transport,
};
pub use text::Text;
pub use uid::Uid;
pub use workload::{
    HostPorts, Owner, OwnerKind, OwnerName, PodFacts, PodName, PodPhase, PodTemplate, ProxyPorts,
    Workload,
};
