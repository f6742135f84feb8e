//! What commands ask of a running server.

use std::time::Duration;

use super::args::{
    CheckArgs, ClustersArgs, DiffArgs, EndpointsArgs, ExplainArgs, OutputFormat, ProfileArgs,
    TopArgs, ViewpointArgs,
};
use super::{DEFAULT_DOMAIN, UsageError, authority};

/// A view that is drawn more often than this cannot be read.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(200);

/// What `tributary endpoints` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Whose endpoints, as a proxy would ask.
    pub authority: String,
    /// Where to look from: the token a proxy would send.
    pub context_token: String,
    /// Look from this zone; empty means no known zone.
    pub zone: Option<String>,
    /// Whether to stay and show changes.
    pub watch: Watch,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary explain` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Whose answer, as a proxy would ask.
    pub authority: String,
    /// Only this IP address, with or without a port.
    pub ip: Option<String>,
    /// Where to look from: the token a proxy would send.
    pub context_token: String,
    /// Look from this zone; empty means no known zone.
    pub zone: Option<String>,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary clusters` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClustersQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Whether to stay and show changes.
    pub watch: Watch,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary check` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Whether what is fine has a line each.
    pub verbose: bool,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary diff` is to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffQuery {
    /// The servers, as `HOST:PORT`.
    pub servers: [String; 2],
    /// Whose answers, as a proxy would ask.
    pub authority: String,
    /// Where to look from: the token a proxy would send.
    pub context_token: String,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary top` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Views to show at most.
    pub limit: u32,
    /// Between two looks.
    pub interval: Duration,
    /// Whether to look only once, even on a terminal.
    pub once: bool,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// What `tributary profile` is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileQuery {
    /// The server, as `HOST:PORT`.
    pub server: String,
    /// Whose profile, as a proxy would ask.
    pub authority: String,
    /// Who asks: the token a proxy would send.
    pub context_token: String,
    /// Whether to stay and show changes.
    pub watch: Watch,
    /// What the answer looks like.
    pub output: OutputFormat,
}

/// How long to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// At one answer.
    Once,
    /// Until stopped, at every change.
    Changes,
}

// === impl EndpointsQuery ===

impl EndpointsQuery {
    pub(super) fn new(args: EndpointsArgs) -> Result<Self, UsageError> {
        let authority = authority::complete(
            &args.authority,
            args.client.name.namespace.as_deref(),
            domain_or_default(&args.client.name.cluster_domain),
        )
        .map_err(|reason| UsageError::flag("AUTHORITY", reason))?;
        let (context_token, zone) = args.viewpoint.token_and_zone();
        Ok(Self {
            server: args.client.server.addr.0,
            authority,
            context_token,
            zone,
            watch: Watch::of(args.client.watch),
            output: args.client.server.output,
        })
    }
}

// === impl ExplainQuery ===

impl ExplainQuery {
    pub(super) fn new(args: ExplainArgs) -> Result<Self, UsageError> {
        let authority = authority::complete(
            &args.authority,
            args.name.namespace.as_deref(),
            domain_or_default(&args.name.cluster_domain),
        )
        .map_err(|reason| UsageError::flag("AUTHORITY", reason))?;
        let (context_token, zone) = args.viewpoint.token_and_zone();
        Ok(Self {
            server: args.server.addr.0,
            authority,
            ip: args.ip,
            context_token,
            zone,
            output: args.server.output,
        })
    }
}

// === impl ClustersQuery ===

impl ClustersQuery {
    pub(super) fn new(args: ClustersArgs) -> Self {
        Self {
            server: args.server.addr.0,
            watch: Watch::of(args.watch),
            output: args.server.output,
        }
    }
}

// === impl CheckQuery ===

impl CheckQuery {
    pub(super) fn new(args: CheckArgs) -> Self {
        Self {
            server: args.server.addr.0,
            verbose: args.verbose,
            output: args.server.output,
        }
    }
}

// === impl DiffQuery ===

impl DiffQuery {
    pub(super) fn new(args: DiffArgs) -> Result<Self, UsageError> {
        let authority = authority::complete(
            &args.authority,
            args.name.namespace.as_deref(),
            domain_or_default(&args.name.cluster_domain),
        )
        .map_err(|reason| UsageError::flag("AUTHORITY", reason))?;
        let context_token = match (args.node, args.context_token) {
            (Some(node), _) => serde_json::json!({ "nodeName": node }).to_string(),
            (None, token) => token.unwrap_or_default(),
        };
        Ok(Self {
            servers: [args.one.0, args.two.0],
            authority,
            context_token,
            output: args.output,
        })
    }
}

// === impl TopQuery ===

impl TopQuery {
    pub(super) fn new(args: TopArgs) -> Self {
        Self {
            server: args.server.addr.0,
            limit: args.limit,
            interval: args.interval.max(SHORTEST_INTERVAL),
            once: args.once,
            output: args.server.output,
        }
    }
}

// === impl ProfileQuery ===

impl ProfileQuery {
    pub(super) fn new(args: ProfileArgs) -> Result<Self, UsageError> {
        let authority = match authority::address(&args.authority) {
            Some(address) => address.to_string(),
            None => authority::complete(
                &args.authority,
                args.client.name.namespace.as_deref(),
                domain_or_default(&args.client.name.cluster_domain),
            )
            .map_err(|reason| UsageError::flag("AUTHORITY", reason))?,
        };
        Ok(Self {
            server: args.client.server.addr.0,
            authority,
            context_token: args.context_token.unwrap_or_default(),
            watch: Watch::of(args.client.watch),
            output: args.client.server.output,
        })
    }
}

// === impl Watch ===

impl Watch {
    fn of(flag: bool) -> Self {
        if flag { Self::Changes } else { Self::Once }
    }
}

fn domain_or_default(domain: &str) -> &str {
    match domain.trim_matches('.') {
        "" => DEFAULT_DOMAIN,
        domain => domain,
    }
}

// === impl ViewpointArgs ===

impl ViewpointArgs {
    /// The context token of a proxy there, and the zone that overrides what follows from it.
    fn token_and_zone(self) -> (String, Option<String>) {
        let token = match (self.node, self.context_token) {
            (Some(node), _) => serde_json::json!({ "nodeName": node }).to_string(),
            (None, Some(token)) => token,
            (None, None) => String::new(),
        };
        (token, self.zone)
    }
}
