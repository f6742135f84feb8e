//! Encoded profiles, made once and shared by every stream that is told the same.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::Subject;
use crate::frontends::destination::translate::Translation;
use crate::frontends::grpc::frame;
use crate::model::{ProfileName, Text};

/// Never take back the room of a table for fewer profiles than this.
const ROOM_MIN: usize = 64;

/// A profile as it is sent, and what it is about. The table forgets it with the last stream that holds it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) subject: Subject,
    pub(super) frame: Bytes,
    key: Key,
    table: Arc<Mutex<Table>>,
}

/// The profiles that streams hold now. It is locked for map operations only.
#[derive(Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<Key, Weak<Told>>,
}

/// What tells most subjects apart. Of those that it does not, the latest is shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Nothing,
    Service(Text, u16, Option<ProfileName>),
    Address(SocketAddr),
}

// === impl Shared ===

impl Shared {
    /// The profile of a subject; the very same as that of others, if they hold it still.
    pub(super) fn tell(&self, subject: Subject, translation: &Translation) -> Arc<Told> {
        let key = Key::of(&subject);
        if let Some(told) = self.known(&key)
            && told.subject == subject
        {
            return told;
        }
        let told = Arc::new(Told {
            frame: frame(&translation.profile(&subject)),
            subject,
            key: key.clone(),
            table: Arc::clone(&self.0),
        });
        self.0.lock().by_key.insert(key, Arc::downgrade(&told));
        told
    }

    fn known(&self, key: &Key) -> Option<Arc<Told>> {
        self.0.lock().by_key.get(key)?.upgrade()
    }
}

// === impl Table ===

impl Table {
    /// Forgets who is called so, unless it is another by now that somebody holds.
    fn forget(&mut self, key: &Key) {
        let unused = |told: &Weak<Told>| told.strong_count() == 0;
        if self.by_key.get(key).is_some_and(unused) {
            self.by_key.remove(key);
        }
        let (len, room) = (self.by_key.len(), self.by_key.capacity());
        if room > ROOM_MIN && room / 4 > len {
            self.by_key.shrink_to(2 * len);
        }
    }
}

// === impl Told ===

impl Drop for Told {
    fn drop(&mut self) {
        self.table.lock().forget(&self.key);
    }
}

// === impl Key ===

impl Key {
    fn of(subject: &Subject) -> Self {
        match subject {
            Subject::UndefinedPort => Self::Nothing,
            Subject::Service {
                fqn, port, profile, ..
            } => Self::Service(
                fqn.clone(),
                *port,
                profile.as_ref().map(|(name, _)| name.clone()),
            ),
            Subject::Endpoint { socket, .. } => Self::Address(*socket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::MeshPolicy;

    fn translation() -> Translation {
        Translation {
            mesh: MeshPolicy::default(),
            zone_weights: false,
            http2: None,
        }
    }

    fn address(number: u16) -> Subject {
        Subject::Endpoint {
            socket: SocketAddr::from(([10, 0, 0, 1], number)),
            tenant: None,
        }
    }

    fn len(shared: &Shared) -> usize {
        shared.0.lock().by_key.len()
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let (shared, translation) = (Shared::default(), translation());
        let one = shared.tell(address(1), &translation);
        let again = shared.tell(address(1), &translation);
        assert!(Arc::ptr_eq(&one, &again));
        let two = shared.tell(address(2), &translation);
        assert_eq!(len(&shared), 2);
        drop(one);
        assert_eq!(len(&shared), 2, "somebody holds it still");
        drop(again);
        assert_eq!(len(&shared), 1);
        drop(two);
        assert_eq!(len(&shared), 0);
    }

    #[test]
    fn the_end_of_what_was_said_before_does_not_end_what_is_said_now() {
        let (shared, translation) = (Shared::default(), translation());
        let subject = |opaque| Subject::Service {
            service: crate::model::ServiceName::new("shop", "web"),
            fqn: "web".into(),
            port: 80,
            opaque,
            profile: None,
        };
        let before = shared.tell(subject(false), &translation);
        let now = shared.tell(subject(true), &translation);
        drop(before);
        assert!(Arc::ptr_eq(&now, &shared.tell(subject(true), &translation)));
        drop(now);
        assert_eq!(len(&shared), 0);
    }

    #[test]
    fn a_crowd_leaves_no_room_behind() {
        let (shared, translation) = (Shared::default(), translation());
        let crowd: Vec<_> = (0..10_000)
            .map(|number| shared.tell(address(number), &translation))
            .collect();
        assert_eq!(len(&shared), crowd.len());
        drop(crowd);
        assert!(shared.0.lock().by_key.capacity() <= 2 * ROOM_MIN);
    }
}
