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

/// Never look for unused views in a table smaller than this.
const VIEWS_BEFORE_SWEEP: usize = 16;

/// The views of one Service that are in use, by what they depend on.
///
/// The table is locked for map operations only; a view is made under the lock of its own slot, so that streams with other
/// keys, and the writer, do not wait for it.
#[derive(Debug, Default)]
pub(super) struct ViewTable(Mutex<Views>);

#[derive(Debug, Default)]
struct Views {
    by_key: HashMap<ViewKey, Arc<Mutex<Slot>>>,
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Slot {
    revision: u64,
    version: Option<Arc<ViewVersion>>,
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

    fn says_same(&self, view: &View) -> bool {
        let before = &self.view;
        diff(Some(before), view).is_empty()
            && before.complete == view.complete
            && before.exists == view.exists
            && before.multicluster == view.multicluster
            && before.collisions == view.collisions
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
    ///
    /// `news` is told of each new version and of the one before it.
    pub(super) fn view(
        &self,
        revision: u64,
        snapshot: &ServiceSnapshot,
        key: &ViewKey,
        policy: &SelectPolicy,
        news: impl FnOnce(&View, Option<&View>),
    ) -> Arc<ViewVersion> {
        let slot = self.slot(key);
        let mut slot = slot.lock();
        if let Some(version) = &slot.version
            && slot.revision >= revision
        {
            return Arc::clone(version);
        }
        let view = select(snapshot, key, policy);
        slot.revision = revision;
        let before = slot.version.as_ref();
        if let Some(before) = before
            && before.says_same(&view)
        {
            return Arc::clone(before);
        }
        news(&view, before.map(|before| before.view()));
        let version = Arc::new(ViewVersion::new(view));
        slot.version = Some(Arc::clone(&version));
        version
    }

    fn slot(&self, key: &ViewKey) -> Arc<Mutex<Slot>> {
        let mut views = self.0.lock();
        if let Some(slot) = views.by_key.get(key) {
            return Arc::clone(slot);
        }
        if views.by_key.len() >= views.sweep_at.max(VIEWS_BEFORE_SWEEP) {
            views.sweep();
            views.sweep_at = views.by_key.len() * 2;
        }
        Arc::clone(views.by_key.entry(key.clone()).or_default())
    }

    /// Forgets views that no stream holds.
    pub(super) fn sweep(&self) {
        self.0.lock().sweep();
    }

    /// Every view that somebody uses: its key, its endpoints, and how many hold its latest state.
    pub(super) fn overview(&self) -> Vec<(ViewKey, usize, usize)> {
        let slots: Vec<_> = {
            let views = self.0.lock();
            let slots = views.by_key.iter();
            slots
                .map(|(key, slot)| (key.clone(), Arc::clone(slot)))
                .collect()
        };
        let used = slots.into_iter().filter_map(|(key, slot)| {
            let slot = slot.lock();
            let version = slot.version.as_ref()?;
            // The slot holds it too.
            let streams = Arc::strong_count(version) - 1;
            (streams > 0).then(|| (key, version.view.endpoints.len(), streams))
        });
        used.collect()
    }

    /// Number of views that are kept.
    pub(super) fn len(&self) -> usize {
        self.0.lock().by_key.len()
    }
}

// === impl Views ===

impl Views {
    fn sweep(&mut self) {
        // Slots are handed out under the lock of the table: one that nobody else holds now cannot be in use.
        self.by_key.retain(|_, slot| {
            Arc::strong_count(slot) > 1
                || slot
                    .lock()
                    .version
                    .as_ref()
                    .is_some_and(|version| Arc::strong_count(version) > 1)
        });
    }
}
