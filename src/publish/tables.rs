//! What readers look up by name, and how they learn that it changed.
//!
//! A table has an entry for everything there is; a topic exists only while somebody follows it. The writer sets the entry
//! first and tells of it then, a reader follows first and looks then: so nobody misses a change.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use tokio::time::Instant;

use super::news::{Follower, News};
use crate::index::{Address, Chunk};
use crate::model::{NodeName, ProfileFacts, ProfileName, ServiceName, Zone};

/// Never take back the room of fewer topics than this.
const ROOM_MIN: usize = 64;

/// Everything that is looked up by name, but for Services.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Who has an address.
    pub(super) addresses: Table<IpAddr, Address>,
    /// ServiceProfiles of the home cluster.
    pub(super) profiles: Table<ProfileName, ProfileFacts>,
    /// Zones of the Nodes of the home cluster.
    pub(super) zones: Table<NodeName, Zone>,
    /// Slices with hostnames, by the Service they name. Nobody is told of changes.
    pub(super) instances: Table<ServiceName, [Arc<Chunk>]>,
    pub(super) topics: Topics,
}

/// Values by name. Readers and the writer lock it for one map operation.
#[derive(Debug)]
pub(super) struct Table<K, V: ?Sized>(RwLock<HashMap<K, Arc<V>>>);

/// Something that may be followed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// What a Service says of itself, apart from its endpoints.
    Service(ServiceName),
    /// Who has an address.
    Address(IpAddr),
    /// What a ServiceProfile says.
    Profile(ProfileName),
    /// The zone of a Node.
    Node(NodeName),
}

/// The sorts of topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Service,
    Address,
    Profile,
    Node,
}

/// The topics that somebody follows.
#[derive(Debug, Default)]
pub(super) struct Topics(Mutex<Following>);

#[derive(Debug, Default)]
struct Following {
    by_topic: HashMap<Topic, Arc<News>>,
    /// Readers of the topics of each sort.
    readers: [usize; 4],
}

// === impl Table ===

impl<K: Clone + Eq + Hash, V: ?Sized> Table<K, V> {
    pub(super) fn get(&self, name: &K) -> Option<Arc<V>> {
        self.0.read().get(name).cloned()
    }

    /// Every entry that is wanted, in no particular order. The writer waits meanwhile.
    pub(super) fn find(&self, wanted: impl Fn(&V) -> bool) -> Vec<(K, Arc<V>)> {
        let entries = self.0.read();
        let found = entries.iter().filter(|(_, value)| wanted(value));
        found
            .map(|(name, value)| (name.clone(), Arc::clone(value)))
            .collect()
    }

    pub(super) fn set(&self, name: &K, value: Option<Arc<V>>) {
        match value {
            Some(value) => {
                self.0.write().insert(name.clone(), value);
            }
            None if self.0.read().contains_key(name) => {
                self.0.write().remove(name);
            }
            None => {}
        }
    }
}

impl<K, V: ?Sized> Default for Table<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

// === impl Topic ===

impl Topic {
    fn sort(&self) -> Sort {
        match self {
            Self::Service(_) => Sort::Service,
            Self::Address(_) => Sort::Address,
            Self::Profile(_) => Sort::Profile,
            Self::Node(_) => Sort::Node,
        }
    }
}

// === impl Topics ===

impl Topics {
    /// Every call has to be matched by one of [`Self::leave`], after the follower is gone.
    pub(super) fn follow(&self, topic: &Topic) -> Follower {
        let mut following = self.0.lock();
        following.readers[topic.sort() as usize] += 1;
        let topics = &mut following.by_topic;
        match topics.get(topic) {
            Some(news) => news.follow(),
            None => topics.entry(topic.clone()).or_default().follow(),
        }
    }

    /// A reader has let go of a topic: drops it unless somebody else follows it.
    pub(super) fn leave(&self, topic: &Topic) {
        let mut following = self.0.lock();
        following.readers[topic.sort() as usize] -= 1;
        let topics = &mut following.by_topic;
        if topics.get(topic).is_some_and(|news| news.followers() == 0) {
            topics.remove(topic);
        }
        let (len, room) = (topics.len(), topics.capacity());
        if room > ROOM_MIN && room / 4 > len {
            topics.shrink_to(2 * len);
        }
    }

    /// Wakes whoever follows one of these, which were learnt then.
    pub(super) fn tell(&self, news: &[Topic], since: Instant) {
        if news.is_empty() {
            return;
        }
        let topics = &self.0.lock().by_topic;
        for followed in news.iter().filter_map(|topic| topics.get(topic)) {
            followed.tell(since);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().by_topic.len()
    }

    /// Number of readers of all topics of a sort.
    pub(super) fn reader_count(&self, sort: Sort) -> usize {
        self.0.lock().readers[sort as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_crowd_of_followers_leaves_no_room_behind() {
        let topics = Topics::default();
        let topic = |number: u32| Topic::Address(Ipv4Addr::from_bits(number).into());
        let crowd: Vec<_> = (0..10_000)
            .map(|number| topics.follow(&topic(number)))
            .collect();
        assert_eq!(topics.len(), crowd.len());
        drop(crowd);
        (0..10_000).for_each(|number| topics.leave(&topic(number)));
        assert_eq!(topics.len(), 0);
        assert!(topics.0.lock().by_topic.capacity() <= 2 * ROOM_MIN);
    }
}
