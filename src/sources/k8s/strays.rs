//! Secrets that name a cluster as a link does, and are not of a link's type.
//!
//! They link nothing; this says so in the log, since whoever made one waits for a cluster that never comes. Nothing else
//! depends on it, so a failure is passed over: the watch of the links themselves reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tracing::{debug, warn};

use super::connect::Access;
use super::convert::quote;
use super::links::{CLUSTER_NAME_LABEL, OTHER_TYPE_SELECTOR, SECRET_TYPE};
use super::objects::Secret;
use super::watch::{Event, Resource, Watch};
use crate::publish::{IndexStopped, StatusBoard};

/// Names of the Secrets that were complained of, as far as they are still there.
#[derive(Debug, Default)]
struct Strays {
    named: BTreeSet<String>,
    /// What the list that is under way has had so far.
    listed: BTreeSet<String>,
}

/// Watches such Secrets, for ever.
pub(super) async fn watch_strays(
    access: Arc<Access>,
    namespace: String,
    board: StatusBoard,
) -> Result<(), IndexStopped> {
    let resource = Resource::secrets(&namespace, OTHER_TYPE_SELECTOR, Some(CLUSTER_NAME_LABEL));
    let mut watch = Watch::<Secret>::new(access, resource, Arc::new(AtomicBool::new(true)));
    let mut strays = Strays::default();
    let mut reasons = BTreeMap::new();
    loop {
        match watch.next().await {
            Ok(event) => {
                let news = strays.on_event(event);
                let is_there = |name: &String| strays.is_there(name);
                reasons.retain(|name, _| is_there(name));
                if let Some(secret) = news {
                    let name = format!("{}/{}", secret.metadata.namespace, secret.metadata.name);
                    let reason = format!(
                        "its type is {:?}, not {SECRET_TYPE:?}; a type cannot be changed: delete it and make it anew",
                        quote(&secret.type_)
                    );
                    warn!(secret = %name, %reason, "Secret links no cluster");
                    reasons.insert(name, reason);
                }
                board.survey(|survey| survey.stray_secrets.clone_from(&reasons));
            }
            Err(failure) => debug!(reason = %failure.reason, "watch of stray Secrets failed"),
        }
    }
}

// === impl Strays ===

impl Strays {
    /// Whether a Secret, `namespace/name`, is known to be there.
    fn is_there(&self, secret: &str) -> bool {
        let name = secret.rsplit('/').next().unwrap_or_default();
        self.named.contains(name)
    }

    /// The Secret that an event shows, if it was not complained of yet.
    fn on_event(&mut self, event: Event<Secret>) -> Option<Secret> {
        let secret = match event {
            Event::ListStarted => {
                self.listed.clear();
                return None;
            }
            Event::ListEnded => {
                self.named = std::mem::take(&mut self.listed);
                return None;
            }
            Event::Deleted(secret) => {
                self.listed.remove(&secret.metadata.name);
                self.named.remove(&secret.metadata.name);
                return None;
            }
            Event::Alive | Event::Undecodable(_) => return None,
            Event::Listed(secret) => {
                self.listed.insert(secret.metadata.name.clone());
                secret
            }
            Event::Applied(secret) => secret,
        };
        let is_news = self.named.insert(secret.metadata.name.clone());
        is_news.then_some(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> Secret {
        let mut secret = Secret::default();
        secret.metadata.name = name.to_owned();
        secret
    }

    #[test]
    fn each_secret_is_named_once_while_it_is_there() {
        let mut strays = Strays::default();
        let mut named = Vec::new();
        for event in [
            Event::ListStarted,
            Event::Listed(secret("a")),
            Event::Listed(secret("b")),
            Event::ListEnded,
            Event::Applied(secret("a")),
            // A list that no longer has it.
            Event::ListStarted,
            Event::Listed(secret("b")),
            Event::ListEnded,
            Event::Applied(secret("a")),
            Event::Deleted(secret("b")),
            Event::Applied(secret("b")),
        ] {
            named.extend(strays.on_event(event).map(|secret| secret.metadata.name));
        }
        assert_eq!(named, ["a", "b", "a", "b"]);
    }
}
