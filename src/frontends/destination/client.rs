//! Who a stream is for, as messages of the log name it.

use std::fmt::Write as _;
use std::net::SocketAddr;

use tokio::time::Instant;

use super::token::ContextToken;

/// Longest text of a client that is repeated to anybody; names in Kubernetes are shorter.
pub(super) const QUOTE_LEN_MAX: usize = 300;

/// A client, what it asked for and since when. Nothing of it is trusted: texts are cut, and messages have to quote them.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Namespace and name of its Pod, as its token says, and where it connects from.
    pub(super) name: Box<str>,
    /// What it asked for.
    pub(super) authority: Box<str>,
    since: Instant,
}

// === impl Client ===

impl Client {
    /// The client that sends this token from `peer` and asks for `authority` now.
    pub(super) fn new(token: &ContextToken, peer: Option<SocketAddr>, authority: &str) -> Self {
        let part = |part: Option<&str>| shortened(part.unwrap_or("-"));
        let namespace = part(token.namespace.as_deref());
        let mut name = format!("{namespace}/{}", part(token.pod.as_deref()));
        if let Some(peer) = peer {
            // A String takes any text.
            write!(name, " at {peer}").ok();
        }
        Self {
            name: name.into(),
            authority: shortened(authority).into(),
            since: Instant::now(),
        }
    }

    /// Time since it asked.
    pub(super) fn age_seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }
}

/// The beginning of a text, with a mark if it had more.
pub(super) fn shortened(text: &str) -> String {
    if text.len() <= QUOTE_LEN_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(QUOTE_LEN_MAX);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_named_by_its_pod_and_address() {
        let (token, _) = ContextToken::parse(r#"{"ns":"shop","pod":"web-0"}"#);
        let peer = Some(SocketAddr::from(([10, 0, 0, 7], 4000)));
        let client = Client::new(&token, peer, "api.shop.svc.cluster.local:80");
        assert_eq!(&*client.name, "shop/web-0 at 10.0.0.7:4000");
        assert_eq!(&*client.authority, "api.shop.svc.cluster.local:80");

        let nameless = Client::new(&ContextToken::default(), None, "");
        assert_eq!(&*nameless.name, "-/-");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("web"), "web");
        let cut = shortened(&"é".repeat(QUOTE_LEN_MAX));
        assert_eq!(cut, format!("{}…", "é".repeat(QUOTE_LEN_MAX / 2)));
    }
}
