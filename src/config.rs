//! Flags and environment → validated settings.
//!
//! `main` calls [`read`], everything else is given values of real types. This is the only reader of the environment, and
//! whatever is wrong with a flag is found here and told in one line.

mod args;
mod authority;
mod duration;
mod http2;
mod listen;
mod notice;
mod query;
mod reference;
mod slices;
mod usage;
mod writer;
mod xds;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};

pub use args::{LogFormat, LogLevel, OutputFormat};
pub use listen::ListenAddr;
pub use notice::Notice;
pub use query::{
    CheckQuery, ClustersQuery, DiffQuery, EndpointsQuery, ExplainQuery, ProfileQuery, TopQuery,
    Watch,
};
pub use slices::{WriterConfig, WriterMode};
pub use usage::UsageError;
pub use writer::{Cleanup, Confirmation, WriterPlan};
pub use xds::{XdsConfig, XdsTls};

use crate::model::{ClusterName, EndpointKind, Namespace, PortSet, Text};
use crate::proto::destination::Http2ClientParams;
use args::{ChoiceOnly, Cli, DemoArgs, HomeArgs, QuietLogArgs, ServeArgs, Subcommand};
use usage::Origins;

/// Domain of cluster-internal names, and trust domain, where none is configured.
const DEFAULT_DOMAIN: &str = "cluster.local";
/// How long a proxy waits for the first message of a stream.
const PROXY_FIRST_MESSAGE: Duration = Duration::from_secs(3);

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// Serve a cluster.
    Serve(Box<Config>),
    /// Serve the embedded demonstration.
    Demo(DemoConfig),
    /// Show the endpoints of a Service, asking a running server.
    Endpoints(Box<EndpointsQuery>),
    /// Show why the answer for a Service is what it is, asking a running server.
    Explain(Box<ExplainQuery>),
    /// Show the clusters that a running server reads.
    Clusters(Box<ClustersQuery>),
    /// Show what is wrong with the clusters and links of a running server.
    Check(Box<CheckQuery>),
    /// Compare what two running servers tell clients.
    Diff(Box<DiffQuery>),
    /// Show what streams of a running server are told.
    Top(Box<TopQuery>),
    /// Show the profile of an authority, asking a running server.
    Profile(Box<ProfileQuery>),
    /// Show what the EndpointSlice writer would do.
    WriterPlan(Box<WriterPlan>),
    /// Delete every EndpointSlice of the writer.
    WriterCleanup(Box<Cleanup>),
    /// Print a shell's completion script.
    Completions(clap_complete::Shell),
}

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Stop {
    /// The user asked for this text, such as the help.
    Answer(String),
    /// The command line is wrong.
    Usage(UsageError),
}

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where proxies are answered; `None` turns the listener off.
    pub addr: Option<ListenAddr>,
    /// Where health and metrics are served; `None` turns the listener off.
    pub metrics_addr: Option<ListenAddr>,
    /// Whether and how clients of xDS are answered.
    pub xds: XdsConfig,
    /// What this replica calls itself: the name of its Pod, as Kubernetes puts it into `HOSTNAME`.
    pub replica_name: String,
    /// Where facts come from.
    pub source: Source,
    /// What the home cluster is called.
    pub cluster_name: ClusterName,
    /// Namespace of the control plane, and of the Secrets that link clusters.
    pub controller_namespace: Namespace,
    /// Domain of the home cluster's DNS names; never empty.
    pub cluster_domain: Text,
    /// Trust domain of the home cluster's identities; never empty.
    pub identity_trust_domain: Text,
    /// Ports that are opaque where no annotation says otherwise.
    pub default_opaque_ports: PortSet,
    /// Whether meshed HTTP/1 may be carried over HTTP/2.
    pub enable_h2_upgrade: bool,
    /// What the endpoints of Services are read from, in every cluster.
    pub endpoint_kind: EndpointKind,
    /// Whether workloads are served by their IPv6 address if they have one; never with Endpoints objects.
    pub enable_ipv6: bool,
    /// How proxies reach meshed workloads.
    pub outbound_transport_mode: TransportMode,
    /// Whether endpoints in the client's zone get more weight.
    pub ext_endpoint_zone_weights: bool,
    /// HTTP/2 settings for connections to meshed workloads; `None` sends none.
    pub meshed_http2_client_params: Option<Http2ClientParams>,
    /// How long a first answer waits for linked clusters that are not synced; below the 3 s that proxies wait.
    pub startup_grace: Duration,
    /// How long a linked cluster may be out of contact before its endpoints are withheld; `None` means for ever.
    pub remote_staleness_ttl: Option<Duration>,
    /// Streams that may be open at once; never zero.
    pub max_streams: usize,
    /// Over how long open streams are ended at shutdown.
    pub drain_timeout: Duration,
    /// How long a client may leave what it is sent unread before its stream is cut; the longest there is means for ever.
    pub stream_stall_timeout: Duration,
    /// The shortest time between two states of anything that clients are told.
    pub publish_interval: Duration,
    /// Whether and how EndpointSlices are written.
    pub writer: WriterConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// What was odd about the flags, to be logged once logging works.
    pub notices: Vec<Notice>,
}

/// Settings of the demonstration.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// Where proxies are answered; `None` turns the listener off.
    pub addr: Option<ListenAddr>,
    /// Where health and metrics are served; `None` turns the listener off.
    pub metrics_addr: Option<ListenAddr>,
    /// Where clients of xDS are answered; `None` turns the listener off.
    pub xds_addr: Option<ListenAddr>,
    /// What is logged, and how.
    pub log: LogConfig,
}

/// Where facts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The API server of the home cluster, and those of the clusters linked to it.
    Kubernetes {
        /// How to reach the home cluster; `None` finds out from where the process runs.
        kubeconfig: Option<PathBuf>,
    },
    /// A folder with one sub-folder of YAML per cluster.
    Manifests(PathBuf),
}

/// How proxies reach meshed workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportMode {
    /// At the workload's own port.
    Transparent,
    /// At the proxy's inbound port, behind a transport header.
    TransportHeader,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// What is important enough.
    pub level: LogLevel,
    /// What lines look like.
    pub format: LogFormat,
}

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Only text.
    Plain,
    /// Terminal escape sequences.
    Ansi,
}

/// Reads a command line and the environment.
pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Command, Stop> {
    let args: Vec<OsString> = args.into_iter().collect();
    let refused = |error| usage::stop(&error, &args);
    let matches = command().try_get_matches_from(&args).map_err(refused)?;
    let cli = Cli::from_arg_matches(&matches).map_err(refused)?;
    let of = matches.subcommand().map_or(&matches, |(_, of)| of);
    let origins = Origins(of.subcommand().map_or(of, |(_, of)| of));
    match cli.command {
        Subcommand::Destination { args } => destination(&args),
        Subcommand::Serve(serve) => Config::new(*serve, origins)
            .map(|config| Command::Serve(Box::new(config)))
            .map_err(Stop::Usage),
        Subcommand::Demo(demo) => Ok(Command::Demo(DemoConfig::new(&demo))),
        Subcommand::Endpoints(endpoints) => EndpointsQuery::new(endpoints)
            .map(|query| Command::Endpoints(Box::new(query)))
            .map_err(Stop::Usage),
        Subcommand::Explain(explain) => ExplainQuery::new(explain)
            .map(|query| Command::Explain(Box::new(query)))
            .map_err(Stop::Usage),
        Subcommand::Clusters(clusters) => {
            Ok(Command::Clusters(Box::new(ClustersQuery::new(clusters))))
        }
        Subcommand::Check(check) => Ok(Command::Check(Box::new(CheckQuery::new(check)))),
        Subcommand::Diff(diff) => DiffQuery::new(diff)
            .map(|query| Command::Diff(Box::new(query)))
            .map_err(Stop::Usage),
        Subcommand::Top(top) => Ok(Command::Top(Box::new(TopQuery::new(top)))),
        Subcommand::Profile(profile) => ProfileQuery::new(profile)
            .map(|query| Command::Profile(Box::new(query)))
            .map_err(Stop::Usage),
        Subcommand::Writer { command } => writer::command(command, origins).map_err(Stop::Usage),
        Subcommand::Completions { shell } => Ok(Command::Completions(shell)),
    }
}

/// What Kubernetes calls the Pod that this runs in.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the reader of the environment"
)]
fn replica_name() -> String {
    std::env::var_os("HOSTNAME")
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "tributary".to_owned())
}

/// Reads the arguments of Linkerd's destination controller.
fn destination(args: &[String]) -> Result<Command, Stop> {
    if reference::asks_for_version(args) {
        return read(["tributary", "--version"].map(OsString::from));
    }
    if reference::asks_for_help(args) {
        return Err(Stop::Answer(reference::help()));
    }
    let (serve, notices) = reference::serve_args(args).map_err(Stop::Usage)?;
    let args = ["tributary", "serve"].map(OsString::from);
    let args = args
        .into_iter()
        .chain(serve.into_iter().map(OsString::from));
    match read(args)? {
        Command::Serve(mut config) => {
            config.notices.extend(notices);
            // That controller does so wherever it reads EndpointSlices.
            let reads_slices = config.endpoint_kind == EndpointKind::EndpointSlice;
            config.writer.external_workloads.get_or_insert(reads_slices);
            Ok(Command::Serve(config))
        }
        other => Ok(other),
    }
}

/// The definition of the command line, for generators.
pub fn command() -> clap::Command {
    // Help is about what may be set; what is set may be nobody else's business.
    fn hidden(command: clap::Command) -> clap::Command {
        let command = command.mut_args(|arg| arg.hide_env_values(true));
        command.mut_subcommands(hidden)
    }
    hidden(Cli::command())
}

/// How output to this stream may be coloured: by nothing unless it is a terminal, and not where `NO_COLOR` asks for it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the reader of the environment"
)]
pub fn colour(stream: &impl IsTerminal) -> Colour {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if stream.is_terminal() && !unwanted {
        Colour::Ansi
    } else {
        Colour::Plain
    }
}

// === impl Config ===

impl Config {
    fn new(args: ServeArgs, origins: Origins<'_>) -> Result<Self, UsageError> {
        let mut notices = Vec::new();
        let (cluster_domain, identity_trust_domain) = domains(
            domain("--cluster-domain", &args.cluster_domain, origins)?,
            domain(
                "--identity-trust-domain",
                &args.identity_trust_domain,
                origins,
            )?,
            &mut notices,
        );
        let (default_opaque_ports, bad) = PortSet::parse(&args.default_opaque_ports, |_| None);
        notices.extend(bad.into_iter().map(Notice::OpaquePort));
        let outbound_transport_mode = match args.outbound_transport_mode.as_str() {
            "transparent" => TransportMode::Transparent,
            "transport-header" => TransportMode::TransportHeader,
            unknown => {
                notices.push(Notice::TransportMode(unknown.to_owned()));
                TransportMode::Transparent
            }
        };
        if args.startup_grace >= PROXY_FIRST_MESSAGE {
            return Err(origins.refuse(
                "--startup-grace",
                "must be below 3s, after which proxies give up waiting for a first answer; try 2s",
            ));
        }
        let xds = XdsConfig::new(args.xds, origins)?;
        if args.addr.is_none() && args.metrics_addr.is_none() && xds.addr.is_none() {
            return Err(origins.refuse(
                "--addr",
                "every listener is turned off; give --addr, --xds-addr or --metrics-addr an address",
            ));
        }
        if args.enable_ipv6 && !args.enable_endpoint_slices {
            return Err(origins.refuse(
                "--enable-endpoint-slices",
                "is off, and IPv6 is on, which needs EndpointSlices; turn them on, or IPv6 off with --enable-ipv6=false",
            ));
        }
        let cluster_name = required("--cluster-name", &args.home.cluster_name, origins)?;
        let writer = WriterConfig::new(args.writer, &cluster_name.into(), origins)?;
        writer.check(
            !args.manifests.as_os_str().is_empty(),
            args.enable_endpoint_slices,
            origins,
        )?;
        Ok(Self {
            addr: args.addr.0,
            metrics_addr: args.metrics_addr.0,
            xds,
            replica_name: replica_name(),
            source: Source::new(args.home.kubeconfig, args.manifests, cluster_name, origins)?,
            cluster_name: cluster_name.into(),
            controller_namespace: required(
                "--controller-namespace",
                &args.home.controller_namespace,
                origins,
            )?
            .into(),
            cluster_domain,
            identity_trust_domain,
            default_opaque_ports,
            enable_h2_upgrade: args.enable_h2_upgrade,
            endpoint_kind: if args.enable_endpoint_slices {
                EndpointKind::EndpointSlice
            } else {
                EndpointKind::Endpoints
            },
            enable_ipv6: args.enable_ipv6,
            outbound_transport_mode,
            ext_endpoint_zone_weights: args.ext_endpoint_zone_weights,
            meshed_http2_client_params: args.meshed_http2_client_params.0,
            startup_grace: args.startup_grace,
            remote_staleness_ttl: Some(args.remote_staleness_ttl).filter(|ttl| !ttl.is_zero()),
            max_streams: args.max_streams as usize,
            drain_timeout: args.drain_timeout,
            stream_stall_timeout: if args.stream_stall_timeout.is_zero() {
                Duration::MAX
            } else {
                args.stream_stall_timeout
            },
            publish_interval: args.publish_interval,
            writer,
            log: args.log.into(),
            notices,
        })
    }
}

impl Config {
    /// The configuration of a command that looks at a cluster once and serves nobody.
    fn looking(
        home: HomeArgs,
        choice: ChoiceOnly,
        log: QuietLogArgs,
        origins: Origins<'_>,
    ) -> Result<Self, UsageError> {
        let cluster_name =
            ClusterName::from(required("--cluster-name", &home.cluster_name, origins)?);
        let source = Source::new(home.kubeconfig, PathBuf::new(), &home.cluster_name, origins)?;
        Ok(Self {
            addr: None,
            xds: XdsConfig::off(),
            metrics_addr: None,
            replica_name: replica_name(),
            source,
            endpoint_kind: EndpointKind::EndpointSlice,
            writer: choice.config(WriterMode::Off, cluster_name.clone()),
            cluster_name,
            controller_namespace: required(
                "--controller-namespace",
                &home.controller_namespace,
                origins,
            )?
            .into(),
            cluster_domain: DEFAULT_DOMAIN.into(),
            identity_trust_domain: DEFAULT_DOMAIN.into(),
            default_opaque_ports: PortSet::default(),
            enable_h2_upgrade: true,
            enable_ipv6: true,
            outbound_transport_mode: TransportMode::Transparent,
            ext_endpoint_zone_weights: false,
            meshed_http2_client_params: None,
            startup_grace: Duration::ZERO,
            remote_staleness_ttl: None,
            max_streams: 1,
            drain_timeout: Duration::ZERO,
            stream_stall_timeout: Duration::MAX,
            publish_interval: Duration::ZERO,
            log: LogConfig {
                level: log.level,
                format: LogFormat::Plain,
            },
            notices: Vec::new(),
        })
    }
}

fn domains(cluster: &str, trust: &str, notices: &mut Vec<Notice>) -> (Text, Text) {
    let cluster = Text::from(cluster);
    let cluster = if cluster.is_empty() {
        notices.push(Notice::ClusterDomainEmpty);
        Text::from(DEFAULT_DOMAIN)
    } else {
        cluster
    };
    let trust = match trust {
        "" => {
            if cluster.as_str() != DEFAULT_DOMAIN {
                notices.push(Notice::TrustDomainUnset {
                    cluster_domain: cluster.clone(),
                });
            }
            DEFAULT_DOMAIN
        }
        trust => trust,
    };
    (cluster, Text::from(trust))
}

/// A domain without dots around it; may be empty.
fn domain<'a>(flag: &str, value: &'a str, origins: Origins<'_>) -> Result<&'a str, UsageError> {
    let domain = value.trim_matches('.');
    let belongs = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if domain.chars().all(belongs) && !domain.contains("..") {
        Ok(domain)
    } else {
        let reason = format!("{value:?} is not a domain; write it as {DEFAULT_DOMAIN} is written");
        Err(origins.refuse(flag, reason))
    }
}

fn required<'a>(
    flag: &'static str,
    value: &'a str,
    origins: Origins<'_>,
) -> Result<&'a str, UsageError> {
    match value.trim() {
        "" => Err(origins.refuse(flag, "must not be empty")),
        value => Ok(value),
    }
}

// === impl DemoConfig ===

impl DemoConfig {
    fn new(args: &DemoArgs) -> Self {
        Self {
            addr: args.addr.0,
            metrics_addr: args.metrics_addr.0,
            xds_addr: args.xds_addr.0,
            log: LogConfig {
                level: args.level,
                format: LogFormat::Plain,
            },
        }
    }
}

// === impl Source ===

impl Source {
    fn new(
        kubeconfig: PathBuf,
        manifests: PathBuf,
        home: &str,
        origins: Origins<'_>,
    ) -> Result<Self, UsageError> {
        let given = |path: &PathBuf| !path.as_os_str().is_empty();
        match (given(&kubeconfig), given(&manifests)) {
            (true, true) => Err(origins.refuse(
                "--manifests",
                format!(
                    "cannot be used together with {}; leave one of them out",
                    origins.name("--kubeconfig")
                ),
            )),
            (_, true) if !manifests.is_dir() => Err(origins.refuse(
                "--manifests",
                format!(
                    "{} is not a folder; name one that has a sub-folder of YAML files per cluster",
                    manifests.display()
                ),
            )),
            (_, true) if !manifests.join(home).is_dir() => Err(origins.refuse(
                "--manifests",
                format!(
                    "there is no folder {}, which would be the home cluster's; make it, or give --cluster-name the name of its folder",
                    manifests.join(home).display()
                ),
            )),
            (_, true) => Ok(Self::Manifests(manifests)),
            (true, _) if !kubeconfig.is_file() => Err(origins.refuse(
                "--kubeconfig",
                format!(
                    "{} is not a file; name the kubeconfig of the home cluster, or leave the flag out inside a cluster",
                    kubeconfig.display()
                ),
            )),
            (kubeconfig_given, _) => Ok(Self::Kubernetes {
                kubeconfig: kubeconfig_given.then_some(kubeconfig),
            }),
        }
    }
}

/// Completes a Service's name as people have it at hand to what a proxy would ask for; fails with what to write.
pub fn complete_authority(text: &str, cluster_domain: &str) -> Result<String, String> {
    authority::complete(text, None, cluster_domain)
}

/// Reads a text as the value of each flag that has a grammar of its own.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn read_values(text: &str) {
    drop(http2::parse(text));
    drop(duration::parse_duration(text));
    drop(ListenAddr::parse(text));
}

#[cfg(test)]
mod tests;
