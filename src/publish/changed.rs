//! Which multi-cluster Services have changed: for a reader of all of them.
//!
//! Not a queue: however often a Service changes before the reader looks, it is named once.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::ServiceName;

/// Services that have changed since they were last taken. Those that are there at the beginning count as changed.
#[derive(Debug)]
pub struct ChangedServices(Arc<Feed>);

/// Where the news of one reader are gathered.
#[derive(Debug, Default)]
pub(super) struct Feed {
    changed: Mutex<BTreeSet<ServiceName>>,
    wake: Notify,
}

/// The feeds of all readers.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<Vec<Weak<Feed>>>);

// === impl ChangedServices ===

impl ChangedServices {
    /// Waits until there are some.
    pub async fn wait(&self) {
        loop {
            let woken = self.0.wake.notified();
            if !self.0.changed.lock().is_empty() {
                return;
            }
            woken.await;
        }
    }

    /// Takes them, in order.
    pub fn take(&self) -> BTreeSet<ServiceName> {
        std::mem::take(&mut self.0.changed.lock())
    }
}

// === impl Feeds ===

impl Feeds {
    /// Opens a feed. Whoever does so looks at what is there afterwards, and so misses nothing.
    pub(super) fn open(&self) -> (ChangedServices, Arc<Feed>) {
        let feed = Arc::new(Feed::default());
        let mut feeds = self.0.lock();
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.push(Arc::downgrade(&feed));
        (ChangedServices(Arc::clone(&feed)), feed)
    }

    /// Tells every reader of a Service.
    pub(super) fn tell(&self, service: &ServiceName) {
        for feed in self.0.lock().iter().filter_map(Weak::upgrade) {
            feed.tell([service.clone()]);
        }
    }
}

// === impl Feed ===

impl Feed {
    pub(super) fn tell(&self, services: impl IntoIterator<Item = ServiceName>) {
        self.changed.lock().extend(services);
        // One permit is kept if nobody waits at the moment.
        self.wake.notify_one();
    }
}
