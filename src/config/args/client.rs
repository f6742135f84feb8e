//! Arguments of the commands that ask a running server. Their comments are the help texts.

use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;

use super::OutputFormat;
use crate::config::duration::parse_duration;

#[derive(Args, Debug)]
pub(in crate::config) struct EndpointsArgs {
    /// Whose endpoints: web.shop, web.shop:8080, svc/web with -n, or the full name; the port is 80 if none is given
    pub(in crate::config) authority: String,

    #[command(flatten)]
    pub(in crate::config) client: ClientArgs,

    #[command(flatten)]
    pub(in crate::config) viewpoint: ViewpointArgs,
}

#[derive(Args, Debug)]
pub(in crate::config) struct ExplainArgs {
    /// Whose answer: web.shop, web.shop:8080, svc/web with -n, or the full name; the port is 80 if none is given
    pub(in crate::config) authority: String,

    /// Explain only this IP address, such as 10.42.0.7 or 10.42.0.7:8080
    #[arg(long, value_name = "IP", env = "TRIBUTARY_IP", value_parser = parse_ip)]
    pub(in crate::config) ip: Option<String>,

    #[command(flatten)]
    pub(in crate::config) server: ServerArgs,

    #[command(flatten)]
    pub(in crate::config) name: NameArgs,

    #[command(flatten)]
    pub(in crate::config) viewpoint: ViewpointArgs,
}

#[derive(Args, Debug)]
pub(in crate::config) struct ClustersArgs {
    #[command(flatten)]
    pub(in crate::config) server: ServerArgs,

    /// Stay, and print what changes
    #[arg(short, long, env = "TRIBUTARY_WATCH", value_parser = BoolishValueParser::new())]
    pub(in crate::config) watch: bool,
}

#[derive(Args, Debug)]
pub(in crate::config) struct CheckArgs {
    #[command(flatten)]
    pub(in crate::config) server: ServerArgs,

    /// Show what is fine, too
    #[arg(short, long, env = "TRIBUTARY_VERBOSE", value_parser = BoolishValueParser::new())]
    pub(in crate::config) verbose: bool,
}

#[derive(Args, Debug)]
pub(in crate::config) struct DiffArgs {
    /// One server, such as 127.0.0.1:8086 or :8086
    #[arg(value_name = "A", value_parser = parse_server)]
    pub(in crate::config) one: Server,

    /// The other one
    #[arg(value_name = "B", value_parser = parse_server)]
    pub(in crate::config) two: Server,

    /// Whose answers: web.shop, web.shop:8080, svc/web with -n, or the full name; the port is 80 if none is given
    pub(in crate::config) authority: String,

    #[command(flatten)]
    pub(in crate::config) name: NameArgs,

    /// Look from this Node of the home cluster
    #[arg(
        long,
        value_name = "NODE",
        env = "TRIBUTARY_NODE",
        help_heading = "Point of view",
        conflicts_with = "context_token"
    )]
    pub(in crate::config) node: Option<String>,

    /// Look from where a proxy with this token is, such as {"ns":"shop","nodeName":"node-1"}
    #[arg(long, value_name = "TOKEN", env = "TRIBUTARY_CONTEXT_TOKEN", help_heading = "Point of view", value_parser = parse_token)]
    pub(in crate::config) context_token: Option<String>,

    /// What the answer looks like; wide shortens nothing
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "TRIBUTARY_OUTPUT",
        default_value = "table",
        value_enum
    )]
    pub(in crate::config) output: OutputFormat,
}

#[derive(Args, Debug)]
pub(in crate::config) struct TopArgs {
    #[command(flatten)]
    pub(in crate::config) server: ServerArgs,

    /// Views to show at most
    #[arg(
        long,
        value_name = "NUMBER",
        env = "TRIBUTARY_LIMIT",
        default_value = "20"
    )]
    pub(in crate::config) limit: u32,

    /// Between two looks
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_INTERVAL", default_value = "2s", value_parser = parse_duration)]
    pub(in crate::config) interval: Duration,

    /// Look only once, even on a terminal
    #[arg(long, env = "TRIBUTARY_ONCE", value_parser = BoolishValueParser::new())]
    pub(in crate::config) once: bool,
}

/// Where to look from.
#[derive(Args, Debug)]
pub(in crate::config) struct ViewpointArgs {
    /// Look from this zone; empty: from no known zone
    #[arg(
        long,
        value_name = "ZONE",
        env = "TRIBUTARY_ZONE",
        help_heading = "Point of view",
        group = "viewpoint"
    )]
    pub(in crate::config) zone: Option<String>,

    /// Look from this Node of the home cluster
    #[arg(
        long,
        value_name = "NODE",
        env = "TRIBUTARY_NODE",
        help_heading = "Point of view",
        group = "viewpoint"
    )]
    pub(in crate::config) node: Option<String>,

    /// Look from where a proxy with this token is, such as {"ns":"shop","nodeName":"node-1"}
    #[arg(long, value_name = "TOKEN", env = "TRIBUTARY_CONTEXT_TOKEN", help_heading = "Point of view", group = "viewpoint", value_parser = parse_token)]
    pub(in crate::config) context_token: Option<String>,
}

#[derive(Args, Debug)]
pub(in crate::config) struct ProfileArgs {
    /// Whose profile: a Service as in `endpoints`, web-0.web.shop for one instance, or an address such as 10.42.0.7:8080
    pub(in crate::config) authority: String,

    #[command(flatten)]
    pub(in crate::config) client: ClientArgs,

    /// Ask as a proxy with this token, such as {"ns":"bank"}: ServiceProfiles in that namespace go first
    #[arg(long, value_name = "TOKEN", env = "TRIBUTARY_CONTEXT_TOKEN", help_heading = "Point of view", value_parser = parse_token)]
    pub(in crate::config) context_token: Option<String>,
}

/// What every command has that asks a running server about a name, and may go on asking.
#[derive(Args, Debug)]
pub(in crate::config) struct ClientArgs {
    #[command(flatten)]
    pub(in crate::config) server: ServerArgs,

    /// Stay, and print what changes
    #[arg(short, long, env = "TRIBUTARY_WATCH", value_parser = BoolishValueParser::new())]
    pub(in crate::config) watch: bool,

    #[command(flatten)]
    pub(in crate::config) name: NameArgs,
}

/// What every command has that asks a running server.
#[derive(Args, Debug)]
pub(in crate::config) struct ServerArgs {
    /// The server to ask
    #[arg(long, value_name = "HOST:PORT", env = "TRIBUTARY_ADDR", default_value = "127.0.0.1:8086", value_parser = parse_server)]
    pub(in crate::config) addr: Server,

    /// What the answer looks like; wide shortens nothing
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        env = "TRIBUTARY_OUTPUT",
        default_value = "table",
        value_enum
    )]
    pub(in crate::config) output: OutputFormat,
}

/// How short names are completed.
#[derive(Args, Debug)]
pub(in crate::config) struct NameArgs {
    /// Namespace of the Service, if the name does not say
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        env = "TRIBUTARY_NAMESPACE",
        help_heading = "Names"
    )]
    pub(in crate::config) namespace: Option<String>,

    /// DNS domain that short names are completed with
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "TRIBUTARY_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        help_heading = "Names"
    )]
    pub(in crate::config) cluster_domain: String,
}

/// `HOST:PORT` of a server.
#[derive(Clone, Debug)]
pub(in crate::config) struct Server(pub(in crate::config) String);

/// An IP address, perhaps with a port.
fn parse_ip(text: &str) -> Result<String, String> {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    let is_socket = text.parse::<std::net::SocketAddr>().is_ok();
    (is_address || is_socket)
        .then(|| text.to_owned())
        .ok_or_else(|| "expected an IP address, such as 10.42.0.7 or 10.42.0.7:8080".to_owned())
}

/// A JSON object, or the old form `ns:NAMESPACE`.
fn parse_token(text: &str) -> Result<String, String> {
    let legacy = text
        .strip_prefix("ns:")
        .is_some_and(|namespace| !namespace.is_empty() && !namespace.contains(':'));
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(_)) => Ok(text.to_owned()),
        Err(_) if legacy => Ok(text.to_owned()),
        _ => Err(
            "expected a JSON object such as {\"nodeName\":\"node-1\"}, or ns:NAMESPACE".to_owned(),
        ),
    }
}

/// Reads `HOST:PORT`, with or without `http://`; `:PORT` is on this machine.
fn parse_server(text: &str) -> Result<Server, String> {
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let server = match rest.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => rest.to_owned(),
    };
    server
        .parse::<http::uri::Authority>()
        .ok()
        .filter(|authority| authority.port_u16().is_some_and(|port| port > 0))
        .map(|_| Server(server))
        .ok_or_else(|| "expected HOST:PORT, such as 127.0.0.1:8086".to_owned())
}
