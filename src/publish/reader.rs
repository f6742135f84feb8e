//! Readers that follow whatever they look at: one by one, and nothing else.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::catalog::Catalog;
use super::news::Follower;
use super::tables::Topic;
use crate::index::{Address, ClientLocality};
use crate::model::{NodeName, ProfileFacts, ProfileName, ServiceFacts, ServiceName};

/// Looks things up, and knows when one of those that it looked at last has changed.
#[derive(Debug)]
pub struct Reader {
    catalog: Catalog,
    followed: Vec<Followed>,
}

/// One look at the catalog. Everything that is asked of it is followed until the next look.
#[derive(Debug)]
pub struct Look<'a>(&'a mut Reader);

/// Where a client is: the Node is what it says, and the zone of that is followed.
#[derive(Debug)]
pub struct Place {
    locality: ClientLocality,
    node: Option<Followed>,
}

#[derive(Debug)]
struct Followed {
    topic: Topic,
    /// Always there, but for the end of `drop`.
    news: Option<Follower>,
    /// Whether the present look has asked for it.
    asked: bool,
    catalog: Catalog,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            followed: Vec::new(),
        }
    }

    /// Looks things up. What was looked at before and is not now, is not followed any more.
    pub fn look<T>(&mut self, look: impl FnOnce(&mut Look<'_>) -> T) -> T {
        for followed in &mut self.followed {
            followed.asked = false;
        }
        let seen = look(&mut Look(self));
        self.followed.retain(|followed| followed.asked);
        seen
    }

    /// Waits until something that the last look saw may have changed.
    pub async fn changed(&mut self) {
        std::future::poll_fn(|context| self.poll_changed(context)).await;
    }

    /// Ready when something that the last look saw may have changed since this was ready last; says when that was learnt.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let mut changed = Poll::Pending;
        // All of them, so that whichever comes next wakes.
        for followed in &mut self.followed {
            if let Poll::Ready(since) = followed.poll_news(context) {
                changed = Poll::Ready(since);
            }
        }
        changed
    }
}

// === impl Look ===

impl Look<'_> {
    /// What a Service of the home cluster says, if it is there.
    pub fn service(&mut self, name: &ServiceName) -> Option<Arc<ServiceFacts>> {
        self.follow(Topic::Service(name.clone()));
        self.0.catalog.service(name)
    }

    /// Who has an address; nobody is the answer for one that nobody has.
    pub fn address(&mut self, ip: IpAddr) -> Arc<Address> {
        self.follow(Topic::Address(ip));
        self.0.catalog.address(ip)
    }

    /// What a ServiceProfile says, if it is there.
    pub fn profile(&mut self, name: &ProfileName) -> Option<Arc<ProfileFacts>> {
        self.follow(Topic::Profile(name.clone()));
        self.0.catalog.shared().tables.profiles.get(name)
    }

    fn follow(&mut self, topic: Topic) {
        let Reader { catalog, followed } = &mut *self.0;
        match followed.iter_mut().find(|known| known.topic == topic) {
            Some(known) => {
                known.asked = true;
                if let Some(news) = &mut known.news {
                    news.catch_up();
                }
            }
            None => followed.push(Followed::new(catalog, topic)),
        }
    }
}

// === impl Place ===

impl Place {
    pub(super) fn new(catalog: &Catalog, node: Option<NodeName>) -> Self {
        // Followed first and looked at then.
        let followed = node
            .as_ref()
            .map(|node| Followed::new(catalog, Topic::Node(node.clone())));
        let zone = node.as_ref().and_then(|node| catalog.zone_of(node));
        Self {
            locality: ClientLocality { node, zone },
            node: followed,
        }
    }

    /// Where the client is now, as far as [`Self::poll_moved`] has noticed.
    pub fn locality(&self) -> &ClientLocality {
        &self.locality
    }

    /// Ready when the zone has become another since this was ready last.
    pub fn poll_moved(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(followed) = &mut self.node else {
            return Poll::Pending;
        };
        while followed.poll_news(context).is_ready() {
            let node = self.locality.node.as_ref();
            let zone = node.and_then(|node| followed.catalog.zone_of(node));
            if zone != self.locality.zone {
                self.locality.zone = zone;
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

// === impl Followed ===

impl Followed {
    fn new(catalog: &Catalog, topic: Topic) -> Self {
        Self {
            news: Some(catalog.shared().tables.topics.follow(&topic)),
            topic,
            asked: true,
            catalog: catalog.clone(),
        }
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        self.news
            .as_mut()
            .map_or(Poll::Pending, |news| news.poll_news(context))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.news = None;
        self.catalog.shared().tables.topics.leave(&self.topic);
    }
}
