//! Who is at the other end of a stream, as far as answers depend on it.

use std::collections::BTreeSet;
use std::fmt;

use super::resource_name::Preference;
use crate::model::{ClusterName, Namespace, NodeName};
use crate::proto::xds::core::Node;
use crate::proto::xds::protobuf::value;

/// The key of `node.metadata` that names the client's Kubernetes cluster.
const CLUSTER_ID: &str = "CLUSTER_ID";
/// The key that names the Kubernetes Node it runs on.
const NODE_NAME: &str = "NODE_NAME";
/// The key that says which clusters' endpoints come first: `none` or `local`.
const PREFER: &str = "TRIBUTARY_PREFER";
/// The key that says what becomes of endpoints that terminate: `omit` or `drain`.
const TERMINATING: &str = "TRIBUTARY_TERMINATING";

/// The key that says which namespaces' Services a wildcard stands for: names, or `*`.
const LIST: &str = "TRIBUTARY_LIST";

/// Longest piece of a client's name that is kept.
const NAME_LEN_MAX: usize = 200;

/// A client. Nothing in it is authenticated: it says so itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Client {
    /// What it calls itself; empty if it does not.
    pub(super) id: String,
    /// What it is made of, such as `envoy`.
    pub(super) agent: String,
    /// How its answers look.
    pub(super) style: Style,
    /// What it means by asking for every cluster.
    pub(super) wildcard: Wildcard,
}

/// What a wildcard for clusters stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Wildcard {
    /// Nothing: most gateways ask without wanting thousands of clusters.
    #[default]
    Nothing,
    /// Every Service.
    Everything,
    /// The Services of some namespaces.
    Namespaces(BTreeSet<Namespace>),
}

/// Everything about a client that answers depend on. Clients with equal styles share every resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Style {
    pub(super) detail: Detail,
    pub(super) preference: Preference,
    pub(super) terminating: Terminating,
    /// The cluster it is in, if it says.
    pub(super) cluster: Option<ClusterName>,
    /// The Node it runs on, if it says.
    pub(super) node: Option<NodeName>,
}

/// How much is said of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Detail {
    /// With identity and metadata, for Envoy.
    #[default]
    Rich,
    /// Address and health only, for clients that make nothing of the rest.
    Lean,
}

/// What becomes of endpoints that terminate and still answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Terminating {
    /// They are left out.
    #[default]
    Omit,
    /// They are listed as draining; if there are no others, clients of gRPC may use them.
    Drain,
}

// === impl Client ===

impl Client {
    /// Reads what a client says of itself, all of which it may leave out.
    pub(super) fn new(node: Option<&Node>) -> Self {
        let Some(node) = node else {
            return Self::default();
        };
        let text = |key: &str| {
            let value = node.metadata.as_ref()?.fields.get(key)?;
            match &value.kind {
                Some(value::Kind::StringValue(text)) if !text.is_empty() => Some(text.as_str()),
                _ => None,
            }
        };
        Self {
            id: shortened(&node.id),
            agent: shortened(&node.user_agent_name),
            style: Style {
                detail: if node.user_agent_name.starts_with("gRPC ") {
                    Detail::Lean
                } else {
                    Detail::Rich
                },
                preference: match text(PREFER) {
                    Some("local") => Preference::Local,
                    _ => Preference::None,
                },
                terminating: match text(TERMINATING) {
                    Some("drain") => Terminating::Drain,
                    _ => Terminating::Omit,
                },
                cluster: text(CLUSTER_ID).map(ClusterName::from),
                node: text(NODE_NAME).map(NodeName::from),
            },
            wildcard: Wildcard::parse(text(LIST).unwrap_or_default()),
        }
    }
}

// === impl Wildcard ===

impl Wildcard {
    /// Reads `*`, or names with commas between them.
    fn parse(text: &str) -> Self {
        let names = || {
            text.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
        };
        if names().any(|name| name == "*") {
            Self::Everything
        } else if names().next().is_none() {
            Self::Nothing
        } else {
            Self::Namespaces(names().map(Namespace::from).collect())
        }
    }

    /// Whether the Services of a namespace belong to it.
    pub(super) fn covers(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Namespaces(names) => names.contains(namespace),
        }
    }
}

/// What it is called in logs: `gateway-1 (envoy)`.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.id.is_empty() {
            "anonymous"
        } else {
            &self.id
        })?;
        if self.agent.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.agent)
    }
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(NAME_LEN_MAX);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::xds::protobuf::{Struct, Value};

    fn node(agent: &str, metadata: &[(&str, &str)]) -> Node {
        let fields = metadata.iter().map(|(key, text)| {
            let kind = Some(value::Kind::StringValue((*text).to_owned()));
            ((*key).to_owned(), Value { kind })
        });
        Node {
            id: "gw-1".to_owned(),
            user_agent_name: agent.to_owned(),
            metadata: Some(Struct {
                fields: fields.collect(),
            }),
            ..Node::default()
        }
    }

    #[test]
    fn a_client_may_say_nothing() {
        assert_eq!(Client::new(None).to_string(), "anonymous");
        assert_eq!(Client::new(Some(&Node::default())).to_string(), "anonymous");
        assert_eq!(Client::new(None).style, Style::default());
    }

    #[test]
    fn grpc_is_told_less() {
        let envoy = Client::new(Some(&node("envoy", &[])));
        assert_eq!(envoy.style.detail, Detail::Rich);
        assert_eq!(envoy.to_string(), "gw-1 (envoy)");
        for agent in ["gRPC C-core linux Python", "gRPC Rust tonic-xds"] {
            let grpc = Client::new(Some(&node(agent, &[])));
            assert_eq!(grpc.style.detail, Detail::Lean, "{agent}");
        }
    }

    #[test]
    fn metadata_chooses_the_style() {
        let metadata = [
            ("CLUSTER_ID", "west"),
            ("NODE_NAME", "n1"),
            ("TRIBUTARY_PREFER", "local"),
            ("TRIBUTARY_TERMINATING", "drain"),
        ];
        let style = Client::new(Some(&node("envoy", &metadata))).style;
        let expected = Style {
            detail: Detail::Rich,
            preference: Preference::Local,
            terminating: Terminating::Drain,
            cluster: Some(ClusterName::from("west")),
            node: Some(NodeName::from("n1")),
        };
        assert_eq!(style, expected);
        let odd = node("envoy", &[("TRIBUTARY_PREFER", "?"), ("CLUSTER_ID", "")]);
        assert_eq!(Client::new(Some(&odd)).style, Style::default());
    }

    #[test]
    fn a_wildcard_stands_for_what_the_client_says() {
        let covers = |text, namespace: &str| {
            let client = Client::new(Some(&node("envoy", &[("TRIBUTARY_LIST", text)])));
            client.wildcard.covers(&namespace.into())
        };
        assert!(!covers("", "shop"));
        assert!(!covers(" , ", ""));
        assert!(covers("*", "shop"));
        assert!(covers("bank, shop", "shop"));
        assert!(!covers("bank, shop", "sho"));
    }
}
