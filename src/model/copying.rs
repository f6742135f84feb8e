//! What operators may choose about the EndpointSlices that we write: copies of the slices of linked clusters.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use super::{ClusterName, Namespace, Selector, Zone};

/// Everything that decides what copies look like and which Services get any.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the home cluster, for the label that says where a copy comes from.
    pub home: ClusterName,
    /// Which mirrors and federated Services get copies where their annotation says nothing.
    pub select: Select,
    /// Namespaces to write in; empty for all.
    pub namespaces: Box<[Namespace]>,
    /// Labels that a Service has to have.
    pub services: Selector,
    /// Who sees the copies, where a Service's annotation says nothing.
    pub audience: Audience,
    /// What becomes of hostnames.
    pub hostnames: Hostnames,
    /// Which zones copies ask to be used from.
    pub hints: Hints,
    /// What becomes of the node names of linked clusters.
    pub node_names: NodeNames,
    /// Whether endpoints of the home cluster that belong to a federated Service are written too.
    pub home_members: HomeMembers,
    /// Addresses of the home cluster: its Pods, Nodes and Services. No copy of a linked cluster's slice names one.
    pub home_ranges: Box<[IpNet]>,
    /// What becomes of zones, where [`Settings::zones`] says nothing of the cluster.
    pub default_zones: Zones,
    /// What becomes of zones, by cluster.
    pub zones: BTreeMap<ClusterName, Zones>,
    /// Addresses that a linked cluster's endpoints may have; any, where nothing is said of it.
    pub pod_ranges: BTreeMap<ClusterName, Vec<IpNet>>,
    /// Endpoints that may be written of any one cluster, over all Services.
    pub endpoints_max: usize,
    /// What becomes of the copies of a cluster that has been out of contact for too long.
    pub on_stale: OnStale,
}

/// Which mirrors and federated Services get copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// Every one, unless it is annotated `disabled`.
    #[default]
    All,
    /// Those annotated `enabled`.
    Annotated,
}

/// Who sees copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Readers of EndpointSlices such as gateways, but neither kube-proxy nor Cilium.
    #[default]
    Gateways,
    /// These as well: whoever connects to the Service's cluster IP then reaches Pods of other clusters.
    Everyone,
}

/// What becomes of hostnames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hostnames {
    /// Kept; but not without a Pod of the home cluster behind them while Linkerd's own destination controller runs there,
    /// which ends when somebody asks for the profile of such an instance.
    #[default]
    Auto,
    /// Kept.
    Keep,
    /// Left out.
    Drop,
    /// `HOSTNAME-CLUSTER`; left out if that is longer than a DNS label.
    Suffix,
}

/// Which zones copies ask to be used from. Consumers follow hints only if every ready endpoint of the Service has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// None.
    #[default]
    Off,
    /// Those of the source.
    Copy,
    /// The endpoint's own.
    Zone,
    /// For endpoints of the home cluster their own; for others one that no node is in, so that they are used where the home
    /// cluster has nobody ready in the zone.
    LocalFirst,
}

/// What becomes of the node names of linked clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeNames {
    /// Left out: a node of the same name at home would count as the endpoint's.
    #[default]
    Drop,
    /// Kept.
    Keep,
}

/// Whether endpoints of the home cluster are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeMembers {
    /// They are.
    #[default]
    Written,
    /// They are not: something else does it.
    LeftOut,
}

/// What becomes of the zones of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Zones {
    /// Kept: clusters share one naming plan.
    #[default]
    Keep,
    /// `CLUSTER.ZONE`.
    Prefix,
    /// The cluster's name.
    Cluster,
    /// Left out.
    Drop,
    /// Looked up; what is not in the table is kept.
    Map(BTreeMap<Zone, Zone>),
}

/// What becomes of the copies of a cluster that has been out of contact for too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStale {
    /// They stay as they are: usually the way to the API server is broken, not the Pods.
    #[default]
    Keep,
    /// Their endpoints are written as neither ready nor serving.
    NotReady,
    /// They are removed.
    Remove,
}

/// How fast copies follow, and how long what is missing is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long an addition waits for others to come with it. Losses do not wait.
    pub batch: Duration,
    /// Requests per second, in the long run.
    pub requests_per_second: u32,
    /// Requests that may be made at once after a pause.
    pub burst: u32,
    /// Services that are worked on at the same time.
    pub workers: usize,
    /// How long the copies of a cluster stay that is not linked any more.
    pub unlink_grace: Duration,
    /// Without a sign of life for so long, a cluster counts as out of contact.
    pub stale_after: Duration,
    /// How long after that [`Settings::on_stale`] is followed; `None` for never.
    pub act_after: Option<Duration>,
}

/// A word that is none of those that were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct UnknownWord(&'static str);

macro_rules! words {
    ($($name:ident: $expected:literal { $($word:literal => $value:ident),+ $(,)? })+) => {$(
        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($word => Ok(Self::$value),)+
                    _ => Err(UnknownWord($expected)),
                }
            }
        }
    )+};
}

words! {
    Select: "all or annotated" { "all" => All, "annotated" => Annotated }
    Audience: "gateways or everyone" { "gateways" => Gateways, "everyone" => Everyone }
    Hostnames: "auto, keep, drop or suffix" {
        "auto" => Auto, "keep" => Keep, "drop" => Drop, "suffix" => Suffix,
    }
    Hints: "off, copy, zone or local-first" {
        "off" => Off, "copy" => Copy, "zone" => Zone, "local-first" => LocalFirst,
    }
    NodeNames: "drop or keep" { "drop" => Drop, "keep" => Keep }
    Zones: "keep, prefix, cluster or drop" {
        "keep" => Keep, "prefix" => Prefix, "cluster" => Cluster, "drop" => Drop,
    }
    OnStale: "keep, not-ready or remove" {
        "keep" => Keep, "not-ready" => NotReady, "remove" => Remove,
    }
}

// === impl Pace ===

impl Default for Pace {
    fn default() -> Self {
        Self {
            batch: Duration::from_millis(500),
            requests_per_second: 20,
            burst: 50,
            workers: 5,
            unlink_grace: Duration::from_mins(1),
            stale_after: Duration::from_mins(5),
            act_after: None,
        }
    }
}

// === impl Settings ===

impl Settings {
    /// The settings of somebody who only says what the home cluster is called.
    pub fn new(home: ClusterName) -> Self {
        Self {
            home,
            select: Select::default(),
            namespaces: Box::default(),
            services: Selector::default(),
            audience: Audience::default(),
            hostnames: Hostnames::default(),
            hints: Hints::default(),
            node_names: NodeNames::default(),
            home_members: HomeMembers::default(),
            home_ranges: Box::default(),
            default_zones: Zones::default(),
            zones: BTreeMap::new(),
            pod_ranges: BTreeMap::new(),
            endpoints_max: 20_000,
            on_stale: OnStale::default(),
        }
    }

    /// What becomes of a cluster's zones.
    pub fn zones_of(&self, cluster: &ClusterName) -> &Zones {
        self.zones.get(cluster).unwrap_or(&self.default_zones)
    }

    /// Whether a linked cluster's endpoint may have this address, as far as its own ranges are concerned.
    pub fn allows(&self, cluster: &ClusterName, ip: IpAddr) -> bool {
        match self.pod_ranges.get(cluster) {
            Some(ranges) => ranges.iter().any(|range| range.contains(&ip)),
            None => true,
        }
    }

    /// Whether an address is in a range of the home cluster.
    pub fn is_in_home_range(&self, ip: IpAddr) -> bool {
        self.home_ranges.iter().any(|range| range.contains(&ip))
    }
}
