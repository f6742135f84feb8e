//! The product without sockets and clocks: changes go in, gRPC comes out.

use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::HOME;
use crate::frontends::destination::{Destination, Metrics, Settings, Translation};
use crate::index::{Change, SelectPolicy};
use crate::publish::{Catalog, IndexMetrics, Indexer, StatusBoard};
use crate::readiness::Readiness;

/// Domain that the names of Services end in.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

/// Everything between what sources say and what clients are sent, with nothing that runs by itself: a change has arrived at
/// every stream when [`InProcess::say`] returns.
#[derive(Debug)]
pub struct InProcess {
    indexer: Indexer,
    catalog: Catalog,
    destination: Destination,
}

// === impl InProcess ===

impl InProcess {
    /// A process that knows nothing yet. A stream waits for what has not been read for as long as `startup_grace`.
    pub fn new(policy: SelectPolicy, translation: Translation, startup_grace: Duration) -> Self {
        let (indexer, catalog) = Indexer::new(
            HOME.into(),
            policy,
            StatusBoard::default(),
            Readiness::default(),
            IndexMetrics::register(&mut Registry::default()),
        );
        let settings = Settings {
            cluster_domain: CLUSTER_DOMAIN.to_owned(),
            startup_grace,
            streams_max: usize::MAX,
            drain: Duration::ZERO,
            translation,
        };
        let destination = Destination::new(
            catalog.clone(),
            settings,
            Metrics::default(),
            CancellationToken::new(),
        );
        Self {
            indexer,
            catalog,
            destination,
        }
    }

    /// Takes in changes as one batch.
    pub fn say(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.indexer.say(changes);
    }

    /// What readers read.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The destination API, as a service of HTTP requests.
    pub fn destination(&self) -> Destination {
        self.destination.clone()
    }
}
