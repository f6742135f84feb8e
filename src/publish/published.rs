//! Views and their encodings, made once and shared by every stream that needs them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::index::{Delta, SelectPolicy, ServiceSnapshot, View, ViewKey, diff, select};

/// Encoded differences that a view keeps, by the view they start from; streams further behind than this share less.
const MEMO_MAX: usize = 8;

/// Encoded messages, in the order they have to be sent; shared by every stream that sends them.
pub type Frames = Arc<[Bytes]>;

/// One state of one view. Streams remember the last one that they sent, by pointer.
#[derive(Debug)]
pub struct ViewVersion {
    view: View,
    number: u64,
    encoded: Mutex<Vec<(u64, Frames)>>,
}

/// The views of one Service that are in use, by what they depend on.
#[derive(Debug, Default)]
pub(super) struct ViewTable {
    views: Mutex<HashMap<ViewKey, Slot>>,
}

#[derive(Debug)]
struct Slot {
    revision: u64,
    version: Arc<ViewVersion>,
}

/// Numbers every version of every view, so that one can be named without being kept.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

// === impl ViewVersion ===

impl ViewVersion {
    fn new(view: View) -> Self {
        Self {
            view,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            encoded: Mutex::new(Vec::new()),
        }
    }

    /// The endpoints.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The messages that bring a client from `sent` to this view; from nothing, if it was sent nothing yet.
    ///
    /// Encoded by `encode` at the first call for each `sent`, and shared from then on; every caller has to pass the same
    /// encoder. Empty if both say the same.
    pub fn frames_since(
        &self,
        sent: Option<&Self>,
        encode: impl FnOnce(&Delta, &View, Option<&View>) -> Vec<Bytes>,
    ) -> Frames {
        let from = sent.map_or(0, |sent| sent.number);
        let mut encoded = self.encoded.lock();
        if let Some((_, frames)) = encoded.iter().find(|(start, _)| *start == from) {
            return Arc::clone(frames);
        }
        let before = sent.map(|sent| &sent.view);
        let delta = diff(before, &self.view);
        let frames: Frames = encode(&delta, &self.view, before).into();
        if encoded.len() == MEMO_MAX {
            encoded.remove(0);
        }
        encoded.push((from, Arc::clone(&frames)));
        frames
    }
}

// === impl ViewTable ===

impl ViewTable {
    /// The view of a snapshot for a key; the very same as before if a client would be told the same.
    pub(super) fn view(
        &self,
        revision: u64,
        snapshot: &ServiceSnapshot,
        key: &ViewKey,
        policy: &SelectPolicy,
        news: impl FnOnce(&View, Option<&View>),
    ) -> Arc<ViewVersion> {
        let mut views = self.views.lock();
        if let Some(slot) = views.get_mut(key) {
            if slot.revision >= revision {
                return Arc::clone(&slot.version);
            }
            let view = select(snapshot, key, policy);
            slot.revision = revision;
            let before = slot.version.view();
            let unchanged = diff(Some(before), &view).is_empty()
                && before.complete == view.complete
                && before.exists == view.exists;
            if !unchanged {
                news(&view, Some(before));
                slot.version = Arc::new(ViewVersion::new(view));
            }
            return Arc::clone(&slot.version);
        }
        let view = select(snapshot, key, policy);
        news(&view, None);
        let version = Arc::new(ViewVersion::new(view));
        let slot = Slot {
            revision,
            version: Arc::clone(&version),
        };
        views.insert(key.clone(), slot);
        version
    }

    /// Forgets views that no stream holds.
    pub(super) fn sweep(&self) {
        self.views
            .lock()
            .retain(|_, slot| Arc::strong_count(&slot.version) > 1);
    }

    /// Number of views in use.
    pub(super) fn len(&self) -> usize {
        self.views.lock().len()
    }
}
