//! Flags of the EndpointSlice writer.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use ipnet::IpNet;

use super::duration::parse_duration;
use super::usage::{Origins, UsageError};
use crate::model::copying::{
    Audience, Hints, HomeMembers, Hostnames, NodeNames, OnStale, Pace, Select, Settings, Zones,
};
use crate::model::{ClusterName, Condition, Namespace, Requirement, Selector, Text, Zone};

/// What the writer is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriterMode {
    /// Nothing: what is there stays.
    #[default]
    Off,
    /// Keep EndpointSlices.
    On,
    /// Say what would be written.
    DryRun,
    /// Remove every EndpointSlice that it ever wrote.
    Remove,
}

/// Settings of the EndpointSlice writer.
#[derive(Clone, Debug)]
pub struct WriterConfig {
    /// What it is to do about mirrors and federated Services.
    pub mode: WriterMode,
    /// Whether it writes slices of ExternalWorkloads; `None` where nothing is said.
    pub external_workloads: Option<bool>,
    /// Whether it only says what it would do.
    pub is_dry_run: bool,
    /// What the slices look like and which Services get any.
    pub settings: Settings,
    /// How fast they follow.
    pub pace: Pace,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "EndpointSlices for gateways")]
pub(super) struct WriterArgs {
    /// Write EndpointSlices for mirrors and federated Services: off, on, or remove
    ///
    /// For gateways and load balancers that read EndpointSlices. Needs the rights of deploy/rbac-write.yaml. off leaves alone
    /// what is there; remove deletes every one that was ever written.
    #[arg(long, value_name = "MODE", env = "TRIBUTARY_ENDPOINT_SLICES", default_value = "off", value_parser = parse_mode)]
    endpoint_slices: WriterMode,

    /// Short for --endpoint-slices=on
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENABLE_ENDPOINTSLICE_SYNC", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    enable_endpointslice_sync: bool,

    /// Only log what would be written
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENDPOINT_SLICES_DRY_RUN", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    endpoint_slices_dry_run: bool,

    /// Write EndpointSlices for Services that select ExternalWorkloads, in the place of Linkerd's destination controller
    ///
    /// Only one of the two does at a time: both want the same Lease. Needs the rights of deploy/rbac-write.yaml. On by default
    /// in tributary destination, which takes that controller's place.
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_EXTERNAL_WORKLOAD_SLICES", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    external_workload_slices: Option<bool>,

    #[command(flatten)]
    choice: ChoiceArgs,
}

/// What is written, without whether it is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "EndpointSlices for gateways")]
#[expect(
    clippy::struct_field_names,
    reason = "clap makes the flags' names of them"
)]
pub(super) struct ChoiceArgs {
    /// Which Services: all but those annotated tributary.dev/endpoint-slices: disabled, or annotated (enabled) ones only
    #[arg(long, value_name = "WHICH", env = "TRIBUTARY_ENDPOINT_SLICES_SELECT", default_value = "all", value_parser = parse_word::<Select>)]
    endpoint_slices_select: Select,

    /// Namespaces to write in, separated by commas; all, if empty
    #[arg(long, value_name = "LIST", env = "TRIBUTARY_ENDPOINT_SLICES_NAMESPACES", default_value = "", hide_default_value = true, value_parser = parse_namespaces)]
    endpoint_slices_namespaces: Namespaces,

    /// Labels that a Service must have, such as team=shop,tier!=test
    #[arg(long, value_name = "SELECTOR", env = "TRIBUTARY_ENDPOINT_SLICES_SERVICE_SELECTOR", default_value = "", hide_default_value = true, value_parser = parse_selector)]
    endpoint_slices_service_selector: Selector,

    /// Who sees them: gateways, or everyone
    ///
    /// With everyone, kube-proxy uses them too: unmeshed clients of the Service's cluster IP then reach Pods of other clusters, in
    /// plain text. The annotation tributary.dev/endpoint-slices-audience of a Service goes first.
    #[arg(long, value_name = "WHO", env = "TRIBUTARY_ENDPOINT_SLICES_AUDIENCE", default_value = "gateways", value_parser = parse_word::<Audience>)]
    endpoint_slices_audience: Audience,

    /// Hostnames of endpoints: auto, keep, drop, or suffix (HOSTNAME-CLUSTER)
    ///
    /// auto keeps them, but for endpoints of linked clusters while Linkerd's own destination controller runs here: that ends
    /// when it is asked for the profile of an instance that has a hostname and no Pod here.
    #[arg(long, value_name = "POLICY", env = "TRIBUTARY_ENDPOINT_SLICES_HOSTNAMES", default_value = "auto", value_parser = parse_word::<Hostnames>)]
    endpoint_slices_hostnames: Hostnames,

    /// Zone hints: off, copy, zone, or local-first
    ///
    /// Only ever for all ready endpoints of a Service, since readers ignore hints otherwise. copy: those of the source. zone: the
    /// endpoint's own zone. local-first: endpoints of linked clusters are for where no endpoint of this one is ready.
    #[arg(long, value_name = "POLICY", env = "TRIBUTARY_ENDPOINT_SLICES_HINTS", default_value = "off", value_parser = parse_word::<Hints>)]
    endpoint_slices_hints: Hints,

    /// Node names of linked clusters: drop or keep
    ///
    /// Kept, a node of the same name here counts as the endpoint's.
    #[arg(long, value_name = "POLICY", env = "TRIBUTARY_ENDPOINT_SLICES_NODE_NAMES", default_value = "drop", value_parser = parse_word::<NodeNames>)]
    endpoint_slices_node_names: NodeNames,

    /// Write this cluster's endpoints of federated Services too
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENDPOINT_SLICES_INCLUDE_HOME", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    endpoint_slices_include_home: bool,

    /// Zones: keep, prefix (CLUSTER.ZONE), cluster, or drop; one for all, or CLUSTER=POLICY, separated by commas
    ///
    /// keep is right where clusters share one account or one plan of names. Single zones are renamed by CLUSTER/ZONE=NAME.
    #[arg(long, value_name = "LIST", env = "TRIBUTARY_ENDPOINT_SLICES_ZONES", default_value = "keep", value_parser = parse_zones)]
    endpoint_slices_zones: ZoneRules,

    /// Addresses that endpoints of a linked cluster may have: CLUSTER=CIDR, separated by commas; may repeat a cluster
    #[arg(long, value_name = "LIST", env = "TRIBUTARY_ENDPOINT_SLICES_POD_CIDRS", default_value = "", hide_default_value = true, value_parser = parse_pod_ranges)]
    endpoint_slices_pod_cidrs: PodRanges,

    /// Addresses of this cluster's Pods, Nodes and Services, which no linked cluster's endpoint may have: CIDRs
    #[arg(long, value_name = "LIST", env = "TRIBUTARY_ENDPOINT_SLICES_HOME_CIDRS", default_value = "", hide_default_value = true, value_parser = parse_ranges)]
    endpoint_slices_home_cidrs: Ranges,

    /// Endpoints of one linked cluster that are written at most
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_ENDPOINT_SLICES_MAX_ENDPOINTS", default_value = "20000", value_parser = parse_positive)]
    endpoint_slices_max_endpoints: u32,

    /// What becomes of a cluster's slices after --endpoint-slices-act-after out of contact: keep, not-ready, or remove
    #[arg(long, value_name = "POLICY", env = "TRIBUTARY_ENDPOINT_SLICES_ON_STALE", default_value = "keep", value_parser = parse_word::<OnStale>)]
    endpoint_slices_on_stale: OnStale,

    /// Without a sign of life for so long, a cluster counts as out of contact
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_ENDPOINT_SLICES_STALE_AFTER", default_value = "5m", value_parser = parse_duration)]
    endpoint_slices_stale_after: Duration,

    /// How long after that --endpoint-slices-on-stale is followed; 0 for never
    ///
    /// One cluster a minute at most, never so that a Service has no ready endpoint left, and never while no linked cluster is in
    /// contact.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_ENDPOINT_SLICES_ACT_AFTER", default_value = "0", value_parser = parse_duration)]
    endpoint_slices_act_after: Duration,

    /// How long the slices of a cluster stay that is not linked any more
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_ENDPOINT_SLICES_UNLINK_GRACE", default_value = "60s", value_parser = parse_duration)]
    endpoint_slices_unlink_grace: Duration,

    /// Writes per second, in the long run
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_ENDPOINT_SLICES_WRITE_QPS", default_value = "20", value_parser = parse_positive)]
    endpoint_slices_write_qps: u32,

    /// Writes at once after a pause
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_ENDPOINT_SLICES_WRITE_BURST", default_value = "50", value_parser = parse_positive)]
    endpoint_slices_write_burst: u32,

    /// Services that are worked on at the same time
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_ENDPOINT_SLICES_WORKERS", default_value = "5", value_parser = parse_positive)]
    endpoint_slices_workers: u32,

    /// How long an additional endpoint waits for others to be written with it; losses do not wait
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_ENDPOINT_SLICES_BATCH", default_value = "500ms", value_parser = parse_duration)]
    endpoint_slices_batch: Duration,
}

// clap gives `Vec` a meaning of its own; these wrap lists that are one value.

#[derive(Clone, Debug)]
struct Namespaces(Vec<Namespace>);

#[derive(Clone, Debug)]
struct Ranges(Vec<IpNet>);

#[derive(Clone, Debug)]
struct PodRanges(BTreeMap<ClusterName, Vec<IpNet>>);

#[derive(Clone, Debug, Default)]
struct ZoneRules {
    default: Zones,
    by_cluster: BTreeMap<ClusterName, Zones>,
}

// === impl WriterConfig ===

impl WriterConfig {
    /// A writer that is off.
    pub fn off(home: ClusterName) -> Self {
        Self {
            mode: WriterMode::Off,
            external_workloads: None,
            is_dry_run: false,
            settings: Settings::new(home),
            pace: Pace::default(),
        }
    }

    /// Whether it writes slices of ExternalWorkloads.
    pub fn writes_external_workloads(&self) -> bool {
        self.external_workloads.unwrap_or(false)
    }

    pub(super) fn new(
        args: WriterArgs,
        home: &ClusterName,
        origins: Origins<'_>,
    ) -> Result<Self, UsageError> {
        let on = if args.enable_endpointslice_sync {
            WriterMode::On
        } else {
            WriterMode::Off
        };
        let mode = match args.endpoint_slices {
            WriterMode::Off => on,
            mode => mode,
        };
        let mode = match mode {
            WriterMode::On if args.endpoint_slices_dry_run => WriterMode::DryRun,
            mode => mode,
        };
        if mode != WriterMode::Off {
            check_name(home, origins)?;
        }
        Ok(Self {
            external_workloads: args.external_workload_slices,
            is_dry_run: args.endpoint_slices_dry_run,
            ..args.choice.config(mode, home.clone())
        })
    }
}

// === impl WriterConfig, what goes with it ===

impl WriterConfig {
    /// Whether there is anything to write to, and to make it of.
    pub(super) fn check(
        &self,
        reads_files: bool,
        reads_slices: bool,
        origins: Origins<'_>,
    ) -> Result<(), UsageError> {
        let asked = [
            (
                "--endpoint-slices",
                self.mode != WriterMode::Off,
                "EndpointSlices are copied from EndpointSlices, which --enable-endpoint-slices=false does not read; leave one of them out",
            ),
            (
                "--external-workload-slices",
                self.writes_external_workloads(),
                "ExternalWorkloads are in EndpointSlices, which --enable-endpoint-slices=false does not read; leave one of them out",
            ),
        ];
        for (flag, is_asked, without_slices) in asked {
            if is_asked && reads_files {
                let complaint =
                    "there is nothing to write to with --manifests; leave one of them out";
                return Err(origins.refuse(flag, complaint));
            }
            if is_asked && !reads_slices {
                return Err(origins.refuse(flag, without_slices));
            }
        }
        Ok(())
    }
}

/// The home cluster's name becomes a label of slices, by which others tell clusters apart.
pub(super) fn check_name(home: &ClusterName, origins: Origins<'_>) -> Result<(), UsageError> {
    if origins.is_default("cluster_name") {
        return Err(origins.refuse(
            "--cluster-name",
            "has to be given where EndpointSlices are written: they say from which cluster they come",
        ));
    }
    let name = home.as_str();
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let edges = [name.chars().next(), name.chars().next_back()];
    let is_label = name.len() <= 63
        && name.chars().all(inner)
        && edges
            .iter()
            .all(|edge| edge.is_some_and(|c| c.is_ascii_alphanumeric()));
    if is_label {
        return Ok(());
    }
    Err(origins.refuse(
        "--cluster-name",
        "has to be a label value where EndpointSlices are written: at most 63 of a-z, 0-9, - and ., with a letter or digit at both ends",
    ))
}

// === impl ChoiceArgs ===

impl ChoiceArgs {
    pub(super) fn config(self, mode: WriterMode, home: ClusterName) -> WriterConfig {
        let act_after = self.endpoint_slices_act_after;
        WriterConfig {
            mode,
            external_workloads: None,
            is_dry_run: mode == WriterMode::DryRun,
            settings: Settings {
                home,
                select: self.endpoint_slices_select,
                namespaces: self.endpoint_slices_namespaces.0.into(),
                services: self.endpoint_slices_service_selector,
                audience: self.endpoint_slices_audience,
                hostnames: self.endpoint_slices_hostnames,
                hints: self.endpoint_slices_hints,
                node_names: self.endpoint_slices_node_names,
                home_members: if self.endpoint_slices_include_home {
                    HomeMembers::Written
                } else {
                    HomeMembers::LeftOut
                },
                home_ranges: self.endpoint_slices_home_cidrs.0.into(),
                default_zones: self.endpoint_slices_zones.default,
                zones: self.endpoint_slices_zones.by_cluster,
                pod_ranges: self.endpoint_slices_pod_cidrs.0,
                endpoints_max: self.endpoint_slices_max_endpoints as usize,
                on_stale: self.endpoint_slices_on_stale,
            },
            pace: Pace {
                batch: self.endpoint_slices_batch,
                requests_per_second: self.endpoint_slices_write_qps,
                burst: self.endpoint_slices_write_burst,
                workers: self.endpoint_slices_workers as usize,
                unlink_grace: self.endpoint_slices_unlink_grace,
                stale_after: self.endpoint_slices_stale_after,
                act_after: (!act_after.is_zero()).then_some(act_after),
            },
        }
    }
}

fn parse_mode(text: &str) -> Result<WriterMode, String> {
    match text {
        "off" => Ok(WriterMode::Off),
        "on" => Ok(WriterMode::On),
        "remove" => Ok(WriterMode::Remove),
        _ => Err("expected off, on or remove".to_owned()),
    }
}

fn parse_word<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn parse_positive(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number above zero".to_owned())
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

#[expect(clippy::unnecessary_wraps, reason = "the signature is clap's")]
fn parse_namespaces(text: &str) -> Result<Namespaces, String> {
    Ok(Namespaces(items(text).map(Namespace::from).collect()))
}

fn range(text: &str) -> Result<IpNet, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a range of addresses such as 10.9.0.0/16"))
}

fn parse_ranges(text: &str) -> Result<Ranges, String> {
    items(text).map(range).collect::<Result<_, _>>().map(Ranges)
}

fn parse_pod_ranges(text: &str) -> Result<PodRanges, String> {
    let mut ranges: BTreeMap<ClusterName, Vec<IpNet>> = BTreeMap::new();
    for item in items(text) {
        let (cluster, text) = item
            .split_once('=')
            .ok_or_else(|| format!("{item:?} is not CLUSTER=CIDR, such as west=10.9.0.0/16"))?;
        ranges.entry(cluster.into()).or_default().push(range(text)?);
    }
    Ok(PodRanges(ranges))
}

fn parse_zones(text: &str) -> Result<ZoneRules, String> {
    let mut rules = ZoneRules::default();
    let mut renamed: BTreeMap<ClusterName, BTreeMap<Zone, Zone>> = BTreeMap::new();
    for item in items(text) {
        match item.split_once('=') {
            None => rules.default = parse_word(item)?,
            Some((place, policy)) => match place.split_once('/') {
                None => {
                    rules.by_cluster.insert(place.into(), parse_word(policy)?);
                }
                Some((cluster, zone)) => {
                    renamed
                        .entry(cluster.into())
                        .or_default()
                        .insert(zone.into(), policy.into());
                }
            },
        }
    }
    for (cluster, table) in renamed {
        if rules
            .by_cluster
            .insert(cluster.clone(), Zones::Map(table))
            .is_some()
        {
            return Err(format!(
                "cluster {cluster} has both a policy and single names; give it one of them"
            ));
        }
    }
    Ok(rules)
}

/// Reads a label selector as `kubectl -l` does.
fn parse_selector(text: &str) -> Result<Selector, String> {
    let mut requirements = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut depth = 0_u32;
        let end = rest
            .find(|c| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                c == ',' && depth == 0
            })
            .unwrap_or(rest.len());
        requirements.push(requirement(rest[..end].trim())?);
        rest = rest[end..].trim_start_matches(',').trim();
    }
    Ok(requirements.into_iter().collect())
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let values = |text: &str| -> Option<Box<[Text]>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(
            inner
                .split(',')
                .map(|value| Text::from(value.trim()))
                .collect(),
        )
    };
    let one = |value: &str| -> Box<[Text]> { [Text::from(value.trim())].into() };
    let bad =
        || format!("{text:?} is not a requirement such as team=shop, tier!=test or zone in (a,b)");
    let (key, condition) = if let Some((key, list)) = text.split_once(" notin ") {
        (key, Condition::NotIn(values(list).ok_or_else(bad)?))
    } else if let Some((key, list)) = text.split_once(" in ") {
        (key, Condition::In(values(list).ok_or_else(bad)?))
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Condition::NotIn(one(value)))
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Condition::In(one(value.trim_start_matches('='))))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Condition::DoesNotExist)
    } else {
        (text, Condition::Exists)
    };
    let key = key.trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok(Requirement {
        key: key.into(),
        condition,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        for (text, expected) in [
            ("", Some(0)),
            ("team=shop", Some(1)),
            ("team==shop,tier!=test", Some(2)),
            ("zone in (a, b),!old,kept", Some(3)),
            ("zone notin (a)", Some(1)),
            ("zone in a", None),
            ("=x", None),
            ("two words", None),
        ] {
            let selector = parse_selector(text);
            assert_eq!(
                selector.ok().map(|selector| selector.requirements().len()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn zones_are_for_all_for_one_cluster_or_one_by_one() {
        let rules = parse_zones("prefix, west=drop, north/a=eu-1a,north/b=eu-1b").unwrap();
        assert_eq!(rules.default, Zones::Prefix);
        assert_eq!(rules.by_cluster[&ClusterName::from("west")], Zones::Drop);
        let Zones::Map(table) = &rules.by_cluster[&ClusterName::from("north")] else {
            panic!("{rules:?}");
        };
        assert_eq!(table.len(), 2);
        assert!(parse_zones("west=drop,west/a=b").is_err());
        assert!(parse_zones("sideways").is_err());
    }

    #[test]
    fn ranges_belong_to_clusters() {
        let ranges = parse_pod_ranges("west=10.9.0.0/16,west=fd00::/48,east=10.8.0.0/16").unwrap();
        assert_eq!(ranges.0[&ClusterName::from("west")].len(), 2);
        assert!(parse_pod_ranges("10.9.0.0/16").is_err());
        assert!(parse_pod_ranges("west=10.9.0.0").is_err());
        assert!(parse_ranges("10.1.0.0/16,fd00::/48").is_ok());
    }
}
