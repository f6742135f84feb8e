//! How one Service reaches its readers: always the latest state, and the views they share.

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::RwLock;
use tokio::time::Instant;
use tracing::warn;

use super::catalog::Catalog;
use super::news::{Follower, News};
use super::published::{Slot, ViewTable, ViewVersion};
use super::reader::Place;
use crate::index::{ClientLocality, ServiceSnapshot, ViewKey};
use crate::model::Text;

/// One published state of a Service.
#[derive(Debug)]
pub(super) struct Published {
    /// No two states of anything have the same; later ones have a higher one.
    pub(super) revision: u64,
    /// How many states of this Service were published before.
    pub(super) sequence: u64,
    /// When the oldest change that made it what it is was received.
    pub(super) since: Instant,
    pub(super) snapshot: ServiceSnapshot,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Channel {
    latest: RwLock<Arc<Published>>,
    /// Of `latest`; told of after it is replaced.
    news: Arc<News>,
    pub(super) views: ViewTable,
}

/// One reader's hold on a Service. The last one to let go of one that is gone takes everything along.
#[derive(Debug)]
pub struct Subscription {
    channel: Arc<Channel>,
    /// Always there, but for the end of `drop`.
    news: Option<Follower>,
    catalog: Catalog,
}

/// One client's hold on what it is told of a Service.
#[derive(Debug)]
pub struct ViewSubscription {
    subscription: Subscription,
    place: Place,
    port: u16,
    instance: Option<Text>,
    /// Where its view was found last.
    found: Option<(ViewKey, Arc<Slot>)>,
    /// Which state of the Service was looked at last.
    seen: Option<u64>,
}

// === impl Channel ===

impl Channel {
    pub(super) fn new(published: Arc<Published>, views: ViewTable) -> Self {
        Self {
            latest: RwLock::new(published),
            news: Arc::default(),
            views,
        }
    }

    pub(super) fn latest(&self) -> Arc<Published> {
        Arc::clone(&self.latest.read())
    }

    /// Replaces the state, and wakes everybody who follows it.
    pub(super) fn publish(&self, published: Arc<Published>) {
        let since = published.since;
        *self.latest.write() = published;
        self.news.tell(since);
    }

    /// Number of readers.
    pub(super) fn followers(&self) -> usize {
        self.news.followers()
    }
}

// === impl Subscription ===

impl Subscription {
    pub(super) fn new(channel: &Arc<Channel>, catalog: &Catalog) -> Self {
        Self {
            channel: Arc::clone(channel),
            news: Some(channel.news.follow()),
            catalog: catalog.clone(),
        }
    }

    /// What is known of the Service now.
    pub fn snapshot(&self) -> ServiceSnapshot {
        self.channel.latest().snapshot.clone()
    }

    /// Looks at what is known of the Service now, without copying it.
    pub fn with_snapshot<T>(&self, look: impl FnOnce(&ServiceSnapshot) -> T) -> T {
        look(&self.channel.latest().snapshot)
    }

    /// What a client is to be told now. Clients that are told the same share one version.
    pub fn view(
        &self,
        port: u16,
        instance: Option<&Text>,
        client: &ClientLocality,
    ) -> Arc<ViewVersion> {
        let published = self.channel.latest();
        let key = ViewKey::new(&published.snapshot, port, instance.cloned(), client);
        self.version(&self.channel.views.slot(&key), &key, &published)
    }

    /// Follows what one client is told from now on.
    pub fn for_client(self, port: u16, instance: Option<Text>, place: Place) -> ViewSubscription {
        ViewSubscription {
            subscription: self,
            place,
            port,
            instance,
            found: None,
            seen: None,
        }
    }

    /// Waits until the Service may have changed.
    pub async fn changed(&mut self) {
        std::future::poll_fn(|context| self.poll_changed(context)).await;
    }

    /// Ready when the Service may have changed since this was ready last.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.news
            .as_mut()
            .map_or(Poll::Pending, |news| news.poll_news(context).map(drop))
    }

    fn version(&self, slot: &Slot, key: &ViewKey, published: &Published) -> Arc<ViewVersion> {
        let snapshot = &published.snapshot;
        slot.version(published, key, self.catalog.policy(), |view, before| {
            self.catalog.note_undefined_port(snapshot, key.port, before);
            for collision in &view.collisions {
                if before.is_none_or(|before| !before.collisions.contains(collision)) {
                    warn!(
                        service = %snapshot.service,
                        address = %collision.socket,
                        serving = %collision.winner,
                        ignoring = %collision.loser,
                        "two clusters claim one address"
                    );
                }
            }
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Let go first, look then: the writer publishes first and counts the readers then, so one of the two notices.
        self.news = None;
        if self.channel.followers() > 0 {
            return;
        }
        let published = self.channel.latest();
        if published.snapshot.facts.is_none() {
            self.catalog.shared().forget(&published.snapshot.service);
        }
    }
}

// === impl ViewSubscription ===

impl ViewSubscription {
    /// What is known of the Service now, without copying it.
    pub fn with_snapshot<T>(&self, look: impl FnOnce(&ServiceSnapshot) -> T) -> T {
        self.subscription.with_snapshot(look)
    }

    /// What the client is to be told now. Clients that are told the same share one version.
    pub fn view(&mut self) -> Arc<ViewVersion> {
        let subscription = &self.subscription;
        let published = subscription.channel.latest();
        let delivery = subscription.catalog.delivery();
        if let Some(seen) = self.seen.replace(published.sequence) {
            let passed_over = (published.sequence - seen).saturating_sub(1);
            if passed_over > 0 {
                delivery.coalesced.inc_by(passed_over);
            }
        }
        let client = self.place.locality();
        let (key, slot) = match &mut self.found {
            Some(found) if found.0.is_of(&published.snapshot, client) => found,
            found => {
                let instance = self.instance.clone();
                let key = ViewKey::new(&published.snapshot, self.port, instance, client);
                let slot = subscription.channel.views.slot(&key);
                found.insert((key, slot))
            }
        };
        subscription.version(slot, key, &published)
    }

    /// Waits until the Service, or where the client is, may have changed.
    pub async fn changed(&mut self) {
        std::future::poll_fn(|context| self.poll_changed(context)).await;
    }

    /// Ready when the Service, or where the client is, may have changed since this was ready last.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Both, whatever the first says: of a client that moved while its Service changed, no view is made where it has been.
        let changed = self.subscription.poll_changed(context).is_ready();
        let moved = self.place.poll_moved(context).is_ready();
        if changed || moved {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
