//! Encoded profiles, made once and shared by every stream that is told the same.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::Subject;
use crate::frontends::destination::translate::{Translation, frame};
use crate::model::{ProfileName, Text};

/// Never look for unused profiles in a table smaller than this.
const PROFILES_BEFORE_SWEEP: usize = 64;

/// A profile as it is sent, and what it is about.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) subject: Subject,
    pub(super) frame: Bytes,
}

/// The profiles that streams hold now. It is locked for map operations only.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<Key, Weak<Told>>,
    sweep_at: usize,
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
        });
        self.0.lock().insert(key, &told);
        told
    }

    fn known(&self, key: &Key) -> Option<Arc<Told>> {
        self.0.lock().by_key.get(key)?.upgrade()
    }
}

// === impl Table ===

impl Table {
    fn insert(&mut self, key: Key, told: &Arc<Told>) {
        if self.by_key.len() >= self.sweep_at.max(PROFILES_BEFORE_SWEEP) {
            self.by_key.retain(|_, told| told.strong_count() > 0);
            self.sweep_at = self.by_key.len() * 2;
        }
        self.by_key.insert(key, Arc::downgrade(told));
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
