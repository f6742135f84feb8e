//! Views and their encodings, made once and shared by every stream that needs them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::channel::Published;
use crate::index::{Delta, SelectPolicy, View, ViewKey, diff, select};

/// Encoded differences that a view keeps, by the view they start from; streams further behind than this share less.
const MEMO_MAX: usize = 8;

/// Encoded messages, in the order they have to be sent; shared by every stream that sends them.
pub type Frames = Arc<[Bytes]>;

/// One state of one view. Streams remember the last one that they sent, by pointer.
#[derive(Debug)]
pub struct ViewVersion {
    view: View,
    number: u64,
    since: Instant,
    encoded: Mutex<Vec<Encoded>>,
    /// There once it is not the latest any more.
    pinned: OnceLock<Pinned>,
}

/// The way from one version to another, in bytes.
#[derive(Debug)]
struct Encoded {
    /// Number of the version that it starts from; nought if from nothing.
    from: u64,
    frames: Frames,
    /// Whether somebody has asked for it since [`ViewTable::let_go`].
    used: bool,
}

/// What is counted of telling streams. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    /// States that streams were not told by themselves, since a newer one was there when they were ready.
    pub(super) coalesced: Counter,
    /// Bytes of views that only streams hold which have not been told the latest.
    pub(super) pinned_bytes: Gauge,
}

/// Bytes that are counted as pinned for as long as this is there.
#[derive(Debug)]
struct Pinned {
    bytes: i64,
    count: Gauge,
}

/// Never look for unused views in a table smaller than this.
const VIEWS_BEFORE_SWEEP: usize = 16;

/// The views of one Service, by what they depend on.
///
/// The table is locked for map operations only; a view is made under the lock of its own slot, so that streams with other
/// keys, and the writer, do not wait for it. A view that nobody uses is kept for a while: clients that were cut off come back.
#[derive(Debug)]
pub(super) struct ViewTable {
    views: Mutex<Views>,
    delivery: Delivery,
}

#[derive(Debug, Default)]
struct Views {
    by_key: HashMap<ViewKey, Arc<Slot>>,
    sweep_at: usize,
}

/// Where the latest version of one view is.
#[derive(Debug)]
pub(super) struct Slot {
    latest: Mutex<Latest>,
    delivery: Delivery,
}

#[derive(Debug, Default)]
struct Latest {
    revision: u64,
    version: Option<Arc<ViewVersion>>,
    /// Whether somebody has looked since [`ViewTable::let_go`].
    used: bool,
}

/// Numbers every version of every view, so that one can be named without being kept.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

// === impl ViewVersion ===

impl ViewVersion {
    fn new(view: View, since: Instant) -> Self {
        Self {
            view,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            since,
            encoded: Mutex::new(Vec::new()),
            pinned: OnceLock::new(),
        }
    }

    /// When what made it what it is was learnt.
    pub fn since(&self) -> Instant {
        self.since
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
        if let Some(known) = encoded.iter_mut().find(|known| known.from == from) {
            known.used = true;
            return Arc::clone(&known.frames);
        }
        let before = sent.map(|sent| &sent.view);
        let delta = diff(before, &self.view);
        let frames: Frames = encode(&delta, &self.view, before).into();
        if encoded.len() == MEMO_MAX {
            encoded.remove(0);
        }
        encoded.push(Encoded {
            from,
            frames: Arc::clone(&frames),
            used: true,
        });
        frames
    }

    /// It is not the latest any more: whoever holds it is behind, and nobody will ask for the way to it.
    fn pass(&self, delivery: &Delivery) {
        *self.encoded.lock() = Vec::new();
        let bytes = size_of_val(&*self.view.endpoints) + size_of::<Self>();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        delivery.pinned_bytes.inc_by(bytes);
        let count = delivery.pinned_bytes.clone();
        // Dropped, and so taken off again, if it has passed before.
        drop(self.pinned.set(Pinned { bytes, count }));
    }

    /// Lets go of bytes that nobody has asked for since this was called last.
    fn let_go(&self) {
        let mut encoded = self.encoded.lock();
        encoded.retain_mut(|known| std::mem::take(&mut known.used));
        encoded.shrink_to_fit();
    }
}

// === impl Pinned ===

impl Drop for Pinned {
    fn drop(&mut self) {
        self.count.dec_by(self.bytes);
    }
}

// === impl ViewTable ===

impl ViewTable {
    pub(super) fn new(delivery: &Delivery) -> Self {
        Self {
            views: Mutex::default(),
            delivery: delivery.clone(),
        }
    }

    /// Where the view for a key is.
    pub(super) fn slot(&self, key: &ViewKey) -> Arc<Slot> {
        let mut views = self.views.lock();
        if let Some(slot) = views.by_key.get(key) {
            return Arc::clone(slot);
        }
        if views.by_key.len() >= views.sweep_at.max(VIEWS_BEFORE_SWEEP) {
            views.by_key.retain(|_, slot| slot.is_held());
            views.sweep_at = views.by_key.len() * 2;
        }
        let slot = Arc::new(Slot {
            latest: Mutex::default(),
            delivery: self.delivery.clone(),
        });
        views.by_key.insert(key.clone(), Arc::clone(&slot));
        slot
    }

    /// Forgets views, and bytes of views, that nobody holds and nobody has asked for since this was called last.
    pub(super) fn let_go(&self) {
        let by_key = &mut self.views.lock().by_key;
        by_key.retain(|_, slot| slot.let_go() || slot.is_held());
        if by_key.is_empty() {
            *by_key = HashMap::new();
        }
    }

    /// Every view that somebody uses: its key, its endpoints, and how many hold its latest state.
    pub(super) fn overview(&self) -> Vec<(ViewKey, usize, usize)> {
        let slots: Vec<_> = {
            let views = self.views.lock();
            let slots = views.by_key.iter();
            slots
                .map(|(key, slot)| (key.clone(), Arc::clone(slot)))
                .collect()
        };
        let used = slots.into_iter().filter_map(|(key, slot)| {
            let latest = slot.latest.lock();
            let version = latest.version.as_ref()?;
            // The slot holds it too.
            let streams = Arc::strong_count(version) - 1;
            (streams > 0).then(|| (key, version.view().endpoints.len(), streams))
        });
        used.collect()
    }

    /// Number of views that are kept.
    pub(super) fn len(&self) -> usize {
        self.views.lock().by_key.len()
    }
}

// === impl Slot ===

impl Slot {
    /// The view of a published state for the key of this slot; the very same version as before if a client would be told
    /// the same.
    ///
    /// `news` is told of each new version and of the one before it.
    pub(super) fn version(
        &self,
        published: &Published,
        key: &ViewKey,
        policy: &SelectPolicy,
        news: impl FnOnce(&View, Option<&View>),
    ) -> Arc<ViewVersion> {
        let mut latest = self.latest.lock();
        latest.used = true;
        if let Some(version) = &latest.version
            && latest.revision >= published.revision
        {
            return Arc::clone(version);
        }
        let view = select(&published.snapshot, key, policy);
        latest.revision = published.revision;
        let before = latest.version.as_ref();
        if let Some(before) = before
            && before.says_same(&view)
        {
            return Arc::clone(before);
        }
        news(&view, before.map(|before| before.view()));
        if let Some(before) = before {
            before.pass(&self.delivery);
        }
        let version = Arc::new(ViewVersion::new(view, published.since));
        latest.version = Some(Arc::clone(&version));
        version
    }

    /// Whether anybody but the table holds it or its latest version. To be asked under the lock of the table, where slots
    /// are handed out.
    fn is_held(self: &Arc<Self>) -> bool {
        let is_shared = |version: &Arc<ViewVersion>| Arc::strong_count(version) > 1;
        Arc::strong_count(self) > 1 || self.latest.lock().version.as_ref().is_some_and(is_shared)
    }

    /// Lets go of bytes that nobody has asked for since this was called last; whether somebody has looked since.
    fn let_go(&self) -> bool {
        let mut latest = self.latest.lock();
        if let Some(version) = &latest.version {
            version.let_go();
        }
        std::mem::take(&mut latest.used)
    }
}
