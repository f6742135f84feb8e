//! Which Services there are, for clients whose wildcard stands for some of them. Made only while there are such clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::client::Wildcard;
use crate::model::Namespace;
use crate::publish::Catalog;

/// Services come in crowds: who follows them is told this much later, once.
const QUIET: Duration = Duration::from_millis(100);

/// The names of Services. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    names: watch::Sender<Option<Arc<Names>>>,
    followed: Notify,
}

/// The name of each port of each Service of the home cluster, in order, by namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names(BTreeMap<Namespace, Vec<Arc<str>>>);

/// One stream's hold on the names.
#[derive(Debug)]
pub(super) struct Following(watch::Receiver<Option<Arc<Names>>>);

// === impl Listing ===

impl Listing {
    /// Follows the names.
    pub(super) fn follow(&self) -> Following {
        let following = self.0.names.subscribe();
        self.0.followed.notify_one();
        Following(following)
    }

    /// Keeps the names in step with a catalog, for ever.
    pub(super) async fn run(self, catalog: Catalog, domain: &str) {
        let mut services = catalog.watch_services();
        loop {
            if self.0.names.receiver_count() == 0 {
                self.0.names.send_replace(None);
            } else {
                catalog.home_synced().await;
                services.mark_unchanged();
                let names = Names::of(&catalog, domain);
                self.0.names.send_if_modified(|known| {
                    let news = known.as_deref() != Some(&names);
                    if news {
                        *known = Some(Arc::new(names));
                    }
                    news
                });
            }
            tokio::select! {
                () = self.0.followed.notified() => {}
                changed = services.changed() => match changed {
                    Ok(()) => tokio::time::sleep(QUIET).await,
                    // Nothing will be published any more.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }
}

// === impl Names ===

impl Names {
    fn of(catalog: &Catalog, domain: &str) -> Self {
        let mut names: BTreeMap<Namespace, Vec<Arc<str>>> = BTreeMap::new();
        for (service, facts) in catalog.service_facts() {
            if facts.external_name {
                continue;
            }
            let of_namespace = names.entry(service.namespace.clone()).or_default();
            for port in &facts.ports {
                let name = format!(
                    "{}.{}.svc.{domain}:{}",
                    service.name, service.namespace, port.port
                );
                of_namespace.push(name.into());
            }
        }
        for names in names.values_mut() {
            names.sort_unstable();
            names.dedup();
        }
        Self(names)
    }
}

// === impl Following ===

impl Following {
    /// What a wildcard stands for now; `None` if that is not known yet.
    pub(super) fn names(&mut self, wildcard: &Wildcard) -> Option<Vec<Arc<str>>> {
        let names = self.0.borrow_and_update().clone()?;
        let covered = names
            .0
            .iter()
            .filter(|(namespace, _)| wildcard.covers(namespace));
        Some(
            covered
                .flat_map(|(_, names)| names.iter().cloned())
                .collect(),
        )
    }

    /// Waits until it may stand for something else.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
