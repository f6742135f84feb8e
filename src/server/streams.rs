//! The streams of one connection, run by the task of the connection.
//!
//! A task per stream would be woken, queued and run by itself, and the connection after each of them; here all streams
//! that are ready run first, then the connection once. Who is ready stands in a list of our own: sets of futures that
//! give way after a few wake-ups would do so all the time, since each message that is sent wakes the connection.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use super::departures::Departures;

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How streams come into being: the executor of the protocol. Clones belong to the same connection.
#[derive(Clone, Default)]
pub(super) struct Births {
    born: Arc<Mutex<Born>>,
    departures: Arc<Departures>,
}

#[derive(Default)]
struct Born {
    /// Of the request that was begun last, whose stream has not come yet.
    handed: Option<Arc<Handed>>,
    streams: Vec<(StreamFuture, Option<Arc<Handed>>)>,
}

/// What the body of an answer has handed over to the protocol.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Pieces that were handed over.
    count: AtomicU64,
    /// Whether the protocol has come back for more.
    asked: AtomicBool,
    /// Of the connection.
    departures: Arc<Departures>,
}

/// The streams that are under way.
pub(super) struct Streams {
    births: Births,
    slots: Vec<Slot>,
    free: Vec<usize>,
    alarms: Arc<Alarms>,
    /// Whom this turn wakes, kept for its room.
    turn: VecDeque<usize>,
    /// Streams whose client has to make room, in the order in which they began to wait.
    waiting: VecDeque<Waiting>,
    waits: u64,
}

struct Slot {
    stream: Option<StreamFuture>,
    handed: Option<Arc<Handed>>,
    waits: Option<Waits>,
    alarm: Arc<Alarm>,
    /// Of `alarm`.
    waker: Waker,
}

/// A stream whose client has to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waits {
    /// How much had been handed over when that was seen.
    handed: u64,
    /// No two waits of a connection have the same.
    number: u64,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    slot: usize,
    waits: Waits,
}

/// Who has been woken.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    woken: Mutex<VecDeque<usize>>,
    connection_woken: AtomicBool,
    task: AtomicWaker,
}

/// Wakes one stream.
#[derive(Debug)]
struct Alarm {
    slot: usize,
    woken: AtomicBool,
    alarms: Arc<Alarms>,
}

/// Wakes the connection itself.
#[derive(Debug)]
struct ConnectionAlarm(Arc<Alarms>);

// === impl Births ===

impl Births {
    /// To be called for each request, before its stream begins.
    pub(super) fn announce(&self) -> Arc<Handed> {
        let handed = Arc::new(Handed {
            departures: Arc::clone(&self.departures),
            ..Handed::default()
        });
        self.born.lock().handed = Some(Arc::clone(&handed));
        handed
    }
}

impl<F> hyper::rt::Executor<F> for Births
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut born = self.born.lock();
        let handed = born.handed.take();
        born.streams.push((Box::pin(unconstrained(stream)), handed));
    }
}

// === impl Handed ===

impl Handed {
    /// The protocol asks for the next piece.
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// It was given one.
    pub(super) fn give(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
    }

    /// There was room for the last one, which tells of something that was learnt then.
    pub(super) fn leaves(&self, since: Instant) {
        self.departures.add(since);
    }

    /// How many pieces were handed over, if the protocol has not come back since: the client has no room for the last.
    fn unasked(&self) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        (count > 0 && !self.asked.load(Ordering::Relaxed)).then_some(count)
    }
}

// === impl Streams ===

impl Streams {
    /// No streams yet; those to come are begun by `births`.
    pub(super) fn new(births: Births) -> Self {
        Self {
            births,
            slots: Vec::new(),
            free: Vec::new(),
            alarms: Arc::default(),
            turn: VecDeque::new(),
            waiting: VecDeque::new(),
            waits: 0,
        }
    }

    /// Who is to be told when something happens.
    pub(super) fn alarms(&self) -> &Arc<Alarms> {
        &self.alarms
    }

    /// What the streams have said of late.
    pub(super) fn departures(&self) -> &Departures {
        &self.births.departures
    }

    /// Runs streams that are ready, up to `max` of them.
    pub(super) fn run_ready(&mut self, max: usize) {
        self.take_born();
        let mut turn = std::mem::take(&mut self.turn);
        self.alarms.take(&mut turn, max);
        for slot in turn.drain(..) {
            self.run(slot);
        }
        self.turn = turn;
        self.turn.shrink_to(max);
    }

    /// From now on, alarms wake the task; false if something is ready already.
    pub(super) fn task_sleeps(&self, task: &Waker) -> bool {
        // Streams begin while the task runs, and only then.
        self.births.born.lock().streams.is_empty() && self.alarms.task_sleeps(task)
    }

    /// Since when the stream that has waited longest for its client to make room has waited.
    pub(super) fn waiting_since(&mut self) -> Option<Instant> {
        while let Some(waiting) = self.waiting.front() {
            if self.slots[waiting.slot].waits == Some(waiting.waits) {
                return Some(waiting.since);
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Ends the streams whose clients have made no room since `start`; returns how many. Their clients get a reset.
    pub(super) fn cut_waiting(&mut self, start: Instant) -> u64 {
        let mut count = 0;
        while self.waiting_since().is_some_and(|since| since <= start) {
            if let Some(waiting) = self.waiting.pop_front() {
                self.remove(waiting.slot);
                count += 1;
            }
        }
        count
    }

    fn take_born(&mut self) {
        loop {
            let born = std::mem::take(&mut self.births.born.lock().streams);
            if born.is_empty() {
                return;
            }
            for (stream, handed) in born {
                let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
                self.slots[slot].stream = Some(stream);
                self.slots[slot].handed = handed;
                self.slots[slot].waker.wake_by_ref();
            }
        }
    }

    fn add_slot(&mut self) -> usize {
        let slot = self.slots.len();
        let alarm = Arc::new(Alarm {
            slot,
            woken: AtomicBool::new(false),
            alarms: Arc::clone(&self.alarms),
        });
        self.slots.push(Slot {
            stream: None,
            handed: None,
            waits: None,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        });
        slot
    }

    fn run(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        // Before it runs: who wakes it while it does wants it to run again.
        slot.alarm.woken.store(false, Ordering::Release);
        let Some(stream) = &mut slot.stream else {
            return;
        };
        let mut context = Context::from_waker(&slot.waker);
        if stream.as_mut().poll(&mut context).is_ready() {
            self.remove(number);
            return;
        }
        let unasked = slot.handed.as_ref().and_then(|handed| handed.unasked());
        if slot.waits.map(|waits| waits.handed) == unasked {
            return;
        }
        slot.waits = unasked.map(|handed| Waits {
            handed,
            number: self.waits,
        });
        if let Some(waits) = slot.waits {
            self.waits += 1;
            self.waiting.push_back(Waiting {
                since: Instant::now(),
                slot: number,
                waits,
            });
            self.forget_past_waits();
        }
    }

    /// Keeps streams that wait now and then from filling the list.
    fn forget_past_waits(&mut self) {
        if self.waiting.len() > 2 * self.slots.len() {
            let slots = &self.slots;
            self.waiting
                .retain(|waiting| slots[waiting.slot].waits == Some(waiting.waits));
        }
    }

    fn remove(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.stream = None;
        slot.handed = None;
        slot.waits = None;
        self.free.push(number);
    }
}

// === impl Alarms ===

impl Alarms {
    /// A waker of the connection itself.
    pub(super) fn connection_waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(ConnectionAlarm(Arc::clone(self))))
    }

    /// Whether the connection itself was woken since this was asked last.
    pub(super) fn take_connection(&self) -> bool {
        self.connection_woken.swap(false, Ordering::AcqRel)
    }

    /// From now on, alarms only add to the list: the task looks at it anyway.
    pub(super) fn task_runs(&self) {
        self.task.take();
    }

    fn task_sleeps(&self, task: &Waker) -> bool {
        self.task.register(task);
        !self.connection_woken.load(Ordering::Acquire) && self.woken.lock().is_empty()
    }

    fn take(&self, turn: &mut VecDeque<usize>, max: usize) {
        let mut woken = self.woken.lock();
        if woken.len() <= max {
            std::mem::swap(&mut *woken, turn);
        } else {
            turn.extend(woken.drain(..max));
        }
    }
}

// === impl Alarm ===

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_first = {
            let mut woken = self.alarms.woken.lock();
            woken.push_back(self.slot);
            woken.len() == 1
        };
        // Whoever was first has woken the task, and it does not sleep while anybody stands in the list.
        if is_first {
            self.alarms.task.wake();
        }
    }
}

// === impl ConnectionAlarm ===

impl Wake for ConnectionAlarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.0.connection_woken.swap(true, Ordering::AcqRel) {
            self.0.task.wake();
        }
    }
}

#[cfg(test)]
mod tests;
