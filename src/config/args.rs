//! The command line as clap reads it. Its comments are the help texts.

#![expect(
    clippy::doc_markdown,
    reason = "code marks would show in the help texts"
)]

mod client;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand as ClapSubcommand, ValueEnum};

use super::duration::parse_duration;
pub(super) use super::slices::ChoiceArgs as ChoiceOnly;
use super::slices::WriterArgs;
use super::xds::XdsArgs;
use super::{ListenAddr, LogConfig, http2};
use crate::proto::destination::Http2ClientParams;
pub(super) use client::{
    CheckArgs, ClustersArgs, DiffArgs, EndpointsArgs, ExplainArgs, ProfileArgs, TopArgs,
    ViewpointArgs,
};
pub(super) use writer::WriterCommand;

/// Most streams that can be asked for.
const STREAMS_MAX: u32 = 10_000_000;
/// Longest [`ServeArgs::publish_interval`]: what is told later than this is told too late.
const PUBLISH_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// Endpoint discovery for multi-cluster Kubernetes.
///
/// Answers Linkerd proxies (the destination API) from one index over the home cluster and every cluster linked to it.
/// New here? `tributary demo` needs no cluster.
#[derive(Debug, Parser)]
#[command(
    name = "tributary",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Subcommand,
}

#[derive(Debug, ClapSubcommand)]
pub(super) enum Subcommand {
    /// Serve a cluster and the clusters linked to it
    ///
    /// Reads Services, EndpointSlices, Pods and Nodes of the home cluster, and those of every cluster whose credentials
    /// lie in the control-plane namespace. It only reads, unless --endpoint-slices is on. Every flag can also be set in the environment, under
    /// the name shown with it; a flag wins.
    #[command(after_help = "\
Examples:
  tributary serve                                  inside the home cluster
  tributary serve --kubeconfig ~/.kube/config      from a workstation
  tributary serve --manifests ./clusters           no cluster: ./clusters/home/*.yaml, ./clusters/west/*.yaml, …")]
    Serve(Box<ServeArgs>),

    /// Serve, given the arguments of Linkerd's destination controller
    ///
    /// What `serve` does, in the controller's own syntax: `-addr=:8086 -enable-ipv6=false`. For swapping the image of a
    /// control plane and little else. Flags that mean nothing here are accepted and logged. Flags that only Tributary
    /// has come from the environment; see `tributary serve --help`.
    #[command(disable_help_flag = true)]
    Destination {
        /// Arguments of the controller
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGUMENTS"
        )]
        args: Vec<String>,
    },

    /// Serve three made-up clusters whose Pods come and go; needs nothing
    ///
    /// Everything is inside the binary. Prints what happens, and what to try against it. Stop it with Ctrl-C.
    Demo(DemoArgs),

    /// Show which endpoints the mesh is told about for a Service, asking a running server
    ///
    /// Works against Tributary, and with less detail against any server of Linkerd's destination API.
    ///
    /// Exit codes: 0 all is well; 1 nobody is served, there is no such Service, or a member cluster is stale or not
    /// synced; 2 the server could not be asked; 64 the command line is wrong.
    #[command(after_help = "\
Examples:
  tributary endpoints web.shop                     port 80 of Service web in namespace shop
  tributary endpoints svc/web -n shop --watch      and what changes
  tributary endpoints web.shop:8080 --zone eu-1a   as a proxy in that zone would see it
  tributary endpoints web.shop -o json | jq '.endpoints[] | select(.served | not)'

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Endpoints(EndpointsArgs),

    /// Explain why each endpoint of a Service is, or is not, what the mesh is told about, asking a running server
    ///
    /// A tree: the Service, the Services of each cluster that contribute, their EndpointSlices, and every endpoint with what
    /// became of it; then what it means and what to do. Computed by the code that answers proxies.
    ///
    /// Exit codes: 0 the address is in the answer, or all is well; 1 it is not, or something is to be looked into; 2 the
    /// server could not be asked; 64 the command line is wrong.
    #[command(after_help = "\
Examples:
  tributary explain web.shop                       every endpoint of port 80
  tributary explain web.shop --ip 10.60.0.6        one address: each rule it passed or broke
  tributary explain svc/web -n shop --node node-1  as a proxy on that Node would be answered
  tributary explain web.shop -o json | jq '.advice[].action'

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Explain(ExplainArgs),

    /// Show the clusters that a running server reads, and how fresh each is
    ///
    /// Exit codes: 0 all are in sync; 1 some are not; 2 the server could not be asked; 64 the command line is wrong.
    #[command(after_help = "\
Examples:
  tributary clusters                               a line for each cluster
  tributary clusters --watch                       and what changes
  tributary clusters -o json | jq -r '.[] | select(.state != \"synced\") | .name'

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Clusters(ClustersArgs),

    /// Look for what is wrong with how clusters are linked, read and trusted, asking a running server
    ///
    /// Rights, Links against Secrets, credentials that end, one cluster linked twice, Pods of two clusters with one address,
    /// clocks, kinds that are not read, and more. Each finding says what, since when, what it means and what to do.
    ///
    /// Exit codes: 0 nothing, or only notes; 1 warnings or errors; 2 the server could not be asked; 64 the command line is
    /// wrong.
    #[command(after_help = "\
Examples:
  tributary check                                  what is wrong, and what to do
  tributary check --verbose                        and what was looked at and is fine
  tributary check -o json | jq -r '.[] | select(.severity == \"error\") | .what'

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Check(CheckArgs),

    /// Compare what two servers of Linkerd's destination API tell clients about a Service
    ///
    /// For trying Tributary beside Linkerd's controller: `-` is only in the answer of A, `+` only in that of B, `~` is in both and
    /// not the same. Clusters of endpoints are not compared, since Linkerd's controller does not tell them.
    ///
    /// Exit codes: 0 no difference; 1 differences; 2 a server could not be asked; 64 the command line is wrong.
    #[command(after_help = "\
Examples:
  kubectl -n linkerd port-forward deploy/linkerd-destination 8087:8086 &
  kubectl -n linkerd port-forward deploy/tributary 8086 &
  tributary diff :8087 :8086 web.shop
  tributary diff :8087 :8086 web.shop --node node-1")]
    Diff(DiffArgs),

    /// Show what open streams are told, those told to the most first, asking a running server
    ///
    /// One row for all clients that are told the same. On a terminal again and again until Ctrl-C, elsewhere once.
    #[command(after_help = "\
Examples:
  tributary top                                    until Ctrl-C
  tributary top --limit 5 --interval 10s
  tributary top -o json | jq '.views[0]'

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Top(TopArgs),

    /// Show the profile that the mesh is given for a Service or an address, asking a running server
    ///
    /// Works against any server of Linkerd's destination API.
    ///
    /// Exit codes: 0 there is one; 1 there is no such Service, or several claim the address; 2 the server could not be
    /// asked; 64 the command line is wrong.
    #[command(after_help = "\
Examples:
  tributary profile web.shop                       port 80 of Service web in namespace shop
  tributary profile 10.42.0.7:8080 --watch         a Pod's address, and what changes
  tributary profile web.shop --context-token '{\"ns\":\"bank\"}'   as a client in namespace bank is told

Inside a cluster, first: kubectl -n linkerd port-forward deploy/tributary 8086")]
    Profile(ProfileArgs),

    /// Look at what the EndpointSlice writer would do, or undo all it did
    Writer {
        #[command(subcommand)]
        command: WriterCommand,
    },

    /// Print the completion script of a shell
    #[command(after_help = "\
Example, for the running bash:
  source <(tributary completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Which the home cluster is.
#[derive(Args, Debug)]
pub(super) struct HomeArgs {
    /// Kubeconfig of the home cluster
    ///
    /// Without it: the service account of the Pod that Tributary runs in.
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_KUBECONFIG", default_value = "", hide_default_value = true, value_parser = parse_path, help_heading = "Clusters")]
    pub(super) kubeconfig: PathBuf,

    /// What to call the home cluster
    #[arg(
        long,
        value_name = "NAME",
        env = "TRIBUTARY_CLUSTER_NAME",
        default_value = "home",
        help_heading = "Clusters"
    )]
    pub(super) cluster_name: String,

    /// Namespace of the Linkerd control plane; Secrets that link clusters are read there
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "TRIBUTARY_CONTROLLER_NAMESPACE",
        default_value = "linkerd",
        help_heading = "Clusters"
    )]
    pub(super) controller_namespace: String,
}

/// What commands that look at a cluster once log: their answer is on the same terminal.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct QuietLogArgs {
    /// Least important messages to log
    #[arg(
        long = "log-level",
        value_name = "LEVEL",
        default_value = "error",
        value_enum,
        help_heading = "Logging"
    )]
    pub(super) level: LogLevel,
}

#[derive(Args, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, with the name that Linkerd's controller gives it"
)]
pub(super) struct ServeArgs {
    /// Where proxies are answered; empty turns it off
    ///
    /// `:8086` means every interface, by IPv6 and IPv4.
    #[arg(long, value_name = "[IP]:PORT", env = "TRIBUTARY_ADDR", default_value = ":8086", value_parser = parse_listen, help_heading = "Listeners")]
    pub(super) addr: MaybeListen,

    /// Where /live, /ready and /metrics are served; empty turns it off
    #[arg(long, value_name = "[IP]:PORT", env = "TRIBUTARY_METRICS_ADDR", default_value = ":9996", value_parser = parse_listen, help_heading = "Listeners")]
    pub(super) metrics_addr: MaybeListen,

    #[command(flatten)]
    pub(super) home: HomeArgs,

    /// Read YAML files instead of a Kubernetes API: one sub-folder per cluster
    ///
    /// The sub-folder with the name of the home cluster is the home cluster. Files are read again when they change.
    #[arg(long, value_name = "DIR", env = "TRIBUTARY_MANIFESTS", default_value = "", hide_default_value = true, value_parser = parse_path, help_heading = "Clusters")]
    pub(super) manifests: PathBuf,

    /// Read the endpoints of Services from EndpointSlices; if false, from Endpoints objects
    ///
    /// In every cluster. Endpoints objects are deprecated: they have no zones, no hints and at most 1000 addresses. They
    /// need --enable-ipv6=false.
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENABLE_ENDPOINT_SLICES", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new(), help_heading = "Clusters")]
    pub(super) enable_endpoint_slices: bool,

    /// DNS domain of the home cluster
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "TRIBUTARY_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        help_heading = "Clusters"
    )]
    pub(super) cluster_domain: String,

    /// Trust domain of the home cluster's identities; empty means cluster.local
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "TRIBUTARY_IDENTITY_TRUST_DOMAIN",
        default_value = "",
        hide_default_value = true,
        help_heading = "Clusters"
    )]
    pub(super) identity_trust_domain: String,

    /// Ports that proxies must not interpret where no annotation says otherwise, such as 25,3306,9000-9010
    #[arg(
        long,
        value_name = "LIST",
        env = "TRIBUTARY_DEFAULT_OPAQUE_PORTS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Answers"
    )]
    pub(super) default_opaque_ports: String,

    /// Let proxies carry HTTP/1 between meshed workloads over HTTP/2
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENABLE_H2_UPGRADE", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new(), help_heading = "Answers")]
    pub(super) enable_h2_upgrade: bool,

    /// Serve a workload by its IPv6 address if it has one; if false, by IPv4 only
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_ENABLE_IPV6", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new(), help_heading = "Answers")]
    pub(super) enable_ipv6: bool,

    /// How proxies reach meshed workloads: transparent or transport-header
    ///
    /// transparent: at the workload's port. transport-header: at the proxy's inbound port, behind a header. Take what the
    /// mesh is installed with.
    #[arg(
        long,
        value_name = "MODE",
        env = "TRIBUTARY_OUTBOUND_TRANSPORT_MODE",
        default_value = "transparent",
        help_heading = "Answers"
    )]
    pub(super) outbound_transport_mode: String,

    /// Give endpoints in the client's own zone ten times the weight of others
    #[arg(long, value_name = "BOOL", env = "TRIBUTARY_EXT_ENDPOINT_ZONE_WEIGHTS", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new(), help_heading = "Answers")]
    pub(super) ext_endpoint_zone_weights: bool,

    /// HTTP/2 settings for connections to meshed workloads, as JSON
    ///
    /// For example {"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}. Other parts:
    /// flow_control, internals; names as in destination.proto.
    #[arg(long, value_name = "JSON", env = "TRIBUTARY_MESHED_HTTP2_CLIENT_PARAMS", default_value = "", hide_default_value = true, value_parser = parse_http2, help_heading = "Answers")]
    pub(super) meshed_http2_client_params: MaybeHttp2,

    /// How long a first answer waits for linked clusters that have not been read yet; below 3s
    ///
    /// What they have joins later on the same stream. Proxies give up on a first answer after 3s.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_STARTUP_GRACE", default_value = "2s", value_parser = parse_duration, help_heading = "Limits")]
    pub(super) startup_grace: Duration,

    /// How long a linked cluster may be out of contact before its endpoints are withheld; 0 means for ever
    ///
    /// They are withheld only from clients that have others left: never down to nothing. They come back with the first sign
    /// of life. Without it, what a cluster said last is served for as long as it is linked.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_REMOTE_STALENESS_TTL", default_value = "0s", value_parser = parse_duration, help_heading = "Answers")]
    pub(super) remote_staleness_ttl: Duration,

    /// Streams that may be open at once; more are refused with RESOURCE_EXHAUSTED
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_MAX_STREAMS", default_value = "200000", value_parser = parse_streams, help_heading = "Limits")]
    pub(super) max_streams: u32,

    /// Over how long open streams are ended at shutdown, spread so that clients do not all come back at once
    ///
    /// The process ends 1s after the last stream, and at most 5s after this time: clients that do not read are not waited for
    /// longer. Keep the sum below the Pod's terminationGracePeriodSeconds. A second SIGTERM or SIGINT ends the process at once.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_DRAIN_TIMEOUT", default_value = "10s", value_parser = parse_duration, help_heading = "Limits")]
    pub(super) drain_timeout: Duration,

    /// How long a client may leave what it is sent unread before its stream is cut; 0 means for ever
    ///
    /// Nothing is queued for such a client and nobody else is held up by it, but it may be lost without knowing. It asks again
    /// when it is cut.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_STREAM_STALL_TIMEOUT", default_value = "5m", value_parser = parse_duration, help_heading = "Limits")]
    pub(super) stream_stall_timeout: Duration,

    /// Tell clients of changes at most once in this time, up to 100ms; those that come in between are told as one
    ///
    /// The first change after a quiet time is told at once. Worth it where endpoints come and go all the time and processor
    /// time is short: clients that fall behind are told the latest state at once anyway.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_PUBLISH_INTERVAL", default_value = "0", value_parser = parse_publish_interval, help_heading = "Limits")]
    pub(super) publish_interval: Duration,

    #[command(flatten)]
    pub(super) xds: XdsArgs,

    #[command(flatten)]
    pub(super) writer: WriterArgs,

    #[command(flatten)]
    pub(super) log: LogArgs,
}

#[derive(Args, Debug)]
pub(super) struct DemoArgs {
    /// Where proxies are answered; empty turns it off
    #[arg(long, value_name = "[IP]:PORT", default_value = "127.0.0.1:8086", value_parser = parse_listen, help_heading = "Listeners")]
    pub(super) addr: MaybeListen,

    /// Where /live, /ready and /metrics are served; empty turns it off
    #[arg(long, value_name = "[IP]:PORT", default_value = "127.0.0.1:9996", value_parser = parse_listen, help_heading = "Listeners")]
    pub(super) metrics_addr: MaybeListen,

    /// Where clients of xDS are answered; empty turns it off
    #[arg(long, value_name = "[IP]:PORT", default_value = "127.0.0.1:18000", value_parser = parse_listen, help_heading = "Listeners")]
    pub(super) xds_addr: MaybeListen,

    /// Least important messages to log
    #[arg(
        long = "log-level",
        value_name = "LEVEL",
        default_value = "warn",
        value_enum,
        help_heading = "Logging"
    )]
    pub(super) level: LogLevel,
}

#[derive(Args, Clone, Copy, Debug)]
pub(super) struct LogArgs {
    /// Least important messages to log
    #[arg(
        long = "log-level",
        value_name = "LEVEL",
        env = "TRIBUTARY_LOG_LEVEL",
        default_value = "info",
        value_enum,
        ignore_case = true,
        help_heading = "Logging"
    )]
    pub(super) level: LogLevel,

    /// What log lines look like
    #[arg(
        long = "log-format",
        value_name = "FORMAT",
        env = "TRIBUTARY_LOG_FORMAT",
        default_value = "plain",
        value_enum,
        help_heading = "Logging"
    )]
    pub(super) format: LogFormat,
}

/// How important a message must be to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// As `error`: a panic is always reported.
    Panic,
    /// As `error`.
    Fatal,
    /// Someone must act.
    Error,
    /// Something is degraded and heals by itself.
    #[value(alias = "warning")]
    Warn,
    /// Starts, stops and changes of state.
    Info,
    /// Every update.
    Debug,
    /// What is in every update.
    Trace,
}

/// What log lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object a line.
    Json,
}

/// What answers look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// At most 120 columns.
    Table,
    /// Everything, however wide.
    Wide,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
}

// clap gives `Option` a meaning of its own; these wrap the values that may be turned off by an empty text.

/// A listener, or none.
#[derive(Clone, Debug)]
pub(super) struct MaybeListen(pub(super) Option<ListenAddr>);

/// HTTP/2 settings, or none.
#[derive(Clone, Debug)]
pub(super) struct MaybeHttp2(pub(super) Option<Http2ClientParams>);

// === impl MaybeListen ===

impl MaybeListen {
    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

// === impl LogConfig ===

impl From<LogArgs> for LogConfig {
    fn from(args: LogArgs) -> Self {
        Self {
            level: args.level,
            format: args.format,
        }
    }
}

pub(super) fn parse_listen(text: &str) -> Result<MaybeListen, String> {
    ListenAddr::parse(text).map(MaybeListen)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the signature is clap's; its own parser refuses an empty path"
)]
pub(super) fn parse_path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

fn parse_streams(text: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (1..=STREAMS_MAX).contains(number))
        .ok_or_else(|| format!("expected a whole number from 1 to {STREAMS_MAX}"))
}

fn parse_publish_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval > PUBLISH_INTERVAL_MAX {
        return Err("must be at most 100ms".to_owned());
    }
    Ok(interval)
}

fn parse_http2(text: &str) -> Result<MaybeHttp2, String> {
    http2::parse(text).map(MaybeHttp2)
}
