//! Readers that follow whatever they look at: one by one, and nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use super::catalog::Catalog;
use super::tables::Topic;
use crate::index::Address;
use crate::model::{ProfileFacts, ProfileName, ServiceFacts, ServiceName};

/// Looks things up, and knows when one of those that it looked at last has changed.
#[derive(Debug)]
pub struct Reader {
    catalog: Catalog,
    followed: Vec<Followed>,
}

/// One look at the catalog. Everything that is asked of it is followed until the next look.
#[derive(Debug)]
pub struct Look<'a>(&'a mut Reader);

#[derive(Debug)]
struct Followed {
    topic: Topic,
    /// Always there, but for the end of `drop`.
    news: Option<watch::Receiver<()>>,
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
        let changes = self
            .followed
            .iter_mut()
            .filter_map(|followed| followed.news.as_mut())
            .map(|news| Box::pin(news.changed()));
        let changes: Vec<_> = changes.collect();
        if changes.is_empty() {
            std::future::pending::<()>().await;
        }
        // A topic lives for as long as it is followed, so waiting cannot fail.
        futures::future::select_all(changes).await.0.ok();
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
                    news.mark_unchanged();
                }
            }
            None => followed.push(Followed {
                news: Some(catalog.shared().tables.topics.follow(&topic)),
                topic,
                asked: true,
                catalog: catalog.clone(),
            }),
        }
    }
}

// === impl Followed ===

impl Drop for Followed {
    fn drop(&mut self) {
        self.news = None;
        self.catalog.shared().tables.topics.leave(&self.topic);
    }
}
