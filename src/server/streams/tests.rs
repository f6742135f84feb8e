use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use hyper::rt::Executor as _;

use super::*;

/// A stream that shows how often it ran, and ends when told to.
#[derive(Clone, Default)]
struct Probe(Arc<ProbeState>);

#[derive(Default)]
struct ProbeState {
    runs: AtomicUsize,
    over: AtomicBool,
    /// Wakes itself this often while it runs.
    restless: AtomicUsize,
    waker: Mutex<Option<Waker>>,
    drops: AtomicUsize,
}

struct Running(Probe);

impl Probe {
    fn start(&self, births: &Births) {
        births.execute(Running(self.clone()));
    }

    fn wake(&self) {
        self.0.waker.lock().as_ref().unwrap().wake_by_ref();
    }

    fn runs(&self) -> usize {
        self.0.runs.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> bool {
        self.0.drops.load(Ordering::Relaxed) == 1
    }
}

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = &self.0.0;
        state.runs.fetch_add(1, Ordering::Relaxed);
        *state.waker.lock() = Some(context.waker().clone());
        if state.restless.load(Ordering::Relaxed) > 0 {
            state.restless.fetch_sub(1, Ordering::Relaxed);
            context.waker().wake_by_ref();
        }
        if state.over.load(Ordering::Relaxed) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn streams() -> (Births, Streams) {
    let births = Births::default();
    (births.clone(), Streams::new(births))
}

fn sleeps(streams: &Streams) -> bool {
    streams.task_sleeps(Waker::noop())
}

#[test]
fn a_stream_runs_when_it_begins_and_when_it_is_woken() {
    let (births, mut streams) = streams();
    let probes: [Probe; 3] = Default::default();
    assert!(sleeps(&streams));
    for probe in &probes {
        probe.start(&births);
    }
    assert!(!sleeps(&streams));
    streams.run_ready(100);
    assert_eq!(probes.each_ref().map(Probe::runs), [1, 1, 1]);
    streams.run_ready(100);
    assert!(sleeps(&streams));
    probes[1].wake();
    probes[1].wake();
    assert!(!sleeps(&streams));
    streams.run_ready(100);
    assert_eq!(probes.each_ref().map(Probe::runs), [1, 2, 1]);
}

#[test]
fn a_turn_has_an_end() {
    let (births, mut streams) = streams();
    let probes: [Probe; 5] = Default::default();
    for probe in &probes {
        probe.start(&births);
    }
    // Wakes itself for ever, and the others still have their turns.
    probes[0].0.restless.store(usize::MAX, Ordering::Relaxed);
    streams.run_ready(2);
    assert_eq!(probes.each_ref().map(Probe::runs), [1, 1, 0, 0, 0]);
    streams.run_ready(2);
    streams.run_ready(2);
    assert_eq!(probes.each_ref().map(Probe::runs), [2, 1, 1, 1, 1]);
    assert!(!sleeps(&streams));
}

#[test]
fn who_is_over_is_let_go_of_and_leaves_room() {
    let (births, mut streams) = streams();
    let first = Probe::default();
    first.start(&births);
    streams.run_ready(1);
    first.0.over.store(true, Ordering::Relaxed);
    first.wake();
    streams.run_ready(1);
    assert!(first.dropped());
    let second = Probe::default();
    second.start(&births);
    streams.run_ready(1);
    assert_eq!((second.runs(), streams.slots.len()), (1, 1));
    // A late alarm for the first is nothing but a turn too many for the second.
    first.wake();
    streams.run_ready(1);
    assert_eq!((first.runs(), second.runs()), (2, 2));
}

#[test]
fn alarms_wake_the_task_only_while_it_sleeps() {
    struct Task(AtomicUsize);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (births, mut streams) = streams();
    let probe = Probe::default();
    probe.start(&births);
    streams.run_ready(1);
    let task = Arc::new(Task(AtomicUsize::new(0)));
    let woken = || task.0.load(Ordering::Relaxed);
    assert!(streams.task_sleeps(&Waker::from(Arc::clone(&task))));
    probe.wake();
    assert_eq!(woken(), 1);
    streams.alarms().task_runs();
    streams.run_ready(1);
    probe.wake();
    streams.alarms().connection_waker().wake();
    assert_eq!(woken(), 1);
    assert!(streams.alarms().take_connection() && !streams.alarms().take_connection());
}

#[test]
fn who_makes_no_room_is_cut_and_nobody_else() {
    let (births, mut streams) = streams();
    let (stuck, slow, idle) = (Probe::default(), Probe::default(), Probe::default());
    let [stuck_handed, slow_handed, idle_handed] = [&stuck, &slow, &idle].map(|probe| {
        let handed = births.announce();
        probe.start(&births);
        handed
    });
    streams.run_ready(100);
    assert_eq!(streams.waiting_since(), None);
    // All are given something; the one that is idle then asks for more.
    for (probe, handed) in [
        (&stuck, &stuck_handed),
        (&slow, &slow_handed),
        (&idle, &idle_handed),
    ] {
        handed.give();
        probe.wake();
    }
    idle_handed.ask();
    streams.run_ready(100);
    let both = streams.waiting_since().unwrap();
    let later = later_than(Instant::now());

    // Room for one piece, and the next one waits.
    slow_handed.ask();
    slow_handed.give();
    slow.wake();
    streams.run_ready(100);
    assert_eq!(streams.waiting_since(), Some(both));
    assert_eq!(streams.cut_waiting(later), 1);
    assert!(stuck.dropped() && !slow.dropped() && !idle.dropped());
    assert!(streams.waiting_since().unwrap() > later);

    slow_handed.ask();
    slow.wake();
    streams.run_ready(100);
    assert_eq!(streams.waiting_since(), None);
    assert_eq!(streams.cut_waiting(later_than(Instant::now())), 0);
}

#[test]
fn the_wait_of_one_stream_is_not_that_of_the_next_in_its_place() {
    let (births, mut streams) = streams();
    let mut start = || {
        let probe = Probe::default();
        let handed = births.announce();
        probe.start(&births);
        handed.give();
        streams.run_ready(1);
        let later = later_than(Instant::now());
        (probe, later)
    };
    let (first, later) = start();
    first.0.over.store(true, Ordering::Relaxed);
    first.wake();
    // Takes the place of the first in the same turn, and has been given as much.
    let (second, _) = start();
    let (third, _) = start();
    assert!(first.dropped());
    assert_eq!(streams.slots.len(), 2);
    assert_eq!(streams.cut_waiting(later), 0);
    assert!(!second.dropped() && !third.dropped());
}

fn later_than(now: Instant) -> Instant {
    loop {
        let later = Instant::now();
        if later > now {
            return later;
        }
    }
}

#[test]
fn waits_that_are_over_do_not_pile_up() {
    let (births, mut streams) = streams();
    let stuck = Probe::default();
    let stuck_handed = births.announce();
    stuck.start(&births);
    stuck_handed.give();
    streams.run_ready(10);
    let busy = Probe::default();
    let handed = births.announce();
    busy.start(&births);
    streams.run_ready(10);
    for _ in 0..1000 {
        handed.give();
        busy.wake();
        streams.run_ready(10);
        handed.ask();
        busy.wake();
        streams.run_ready(10);
    }
    assert!(streams.waiting.len() <= 5, "{}", streams.waiting.len());
}
