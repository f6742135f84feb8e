//! Who waits for news, and how they are woken: all at once, and each only once.
//!
//! What the news is, stands elsewhere. The writer stores it first and tells then; a reader follows first and looks then. So
//! nobody misses any, and nobody is told twice of what it has seen already.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Something that may change, and those who follow it.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<Seats>);

#[derive(Debug, Default)]
struct Seats {
    /// How often there was news.
    version: u64,
    /// When the latest was learnt.
    since: Option<Instant>,
    /// One for each follower; taken by whoever waits.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// Seats that have been taken since the last news, and perhaps left again.
    waiting: Vec<usize>,
}

/// One who follows.
#[derive(Debug)]
pub(super) struct Follower {
    news: Arc<News>,
    seat: usize,
    seen: u64,
}

// === impl News ===

impl News {
    /// Wakes all who wait for news, which was learnt then.
    pub(super) fn tell(&self, since: Instant) {
        let woken: Vec<Waker> = {
            let mut seats = self.0.lock();
            seats.version += 1;
            seats.since = Some(since);
            let Seats {
                wakers, waiting, ..
            } = &mut *seats;
            let woken = waiting.drain(..).filter_map(|seat| wakers[seat].take());
            woken.collect()
        };
        // They look at once, and find the lock free.
        woken.into_iter().for_each(Waker::wake);
    }

    /// Number of those who follow.
    pub(super) fn followers(&self) -> usize {
        self.0.lock().taken()
    }

    /// Follows what happens from now on.
    pub(super) fn follow(self: &Arc<Self>) -> Follower {
        let mut seats = self.0.lock();
        let seat = seats.free.pop().unwrap_or_else(|| {
            seats.wakers.push(None);
            seats.wakers.len() - 1
        });
        Follower {
            news: Arc::clone(self),
            seat,
            seen: seats.version,
        }
    }
}

// === impl Seats ===

impl Seats {
    /// Number of those who follow.
    fn taken(&self) -> usize {
        self.wakers.len() - self.free.len()
    }
}

// === impl Follower ===

impl Follower {
    /// Looks now: what there was until now is no news any more.
    pub(super) fn catch_up(&mut self) {
        self.seen = self.news.0.lock().version;
    }

    /// Ready if there was news since this was ready last; says when it was learnt.
    pub(super) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let mut seats = self.news.0.lock();
        if seats.version != self.seen
            && let Some(since) = seats.since
        {
            self.seen = seats.version;
            return Poll::Ready(since);
        }
        if let Some(waker) = &mut seats.wakers[self.seat] {
            waker.clone_from(context.waker());
        } else {
            seats.wakers[self.seat] = Some(context.waker().clone());
            seats.waiting.push(self.seat);
        }
        Poll::Pending
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut seats = self.news.0.lock();
        seats.wakers[self.seat] = None;
        seats.free.push(self.seat);
        if seats.taken() == 0 {
            // Nobody follows: nothing has to be remembered but the version.
            seats.wakers = Vec::new();
            seats.free = Vec::new();
            seats.waiting = Vec::new();
        } else if seats.waiting.len() > 2 * seats.wakers.len() {
            let Seats {
                wakers, waiting, ..
            } = &mut *seats;
            waiting.sort_unstable();
            waiting.dedup();
            waiting.retain(|seat| wakers[*seat].is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn polls(follower: &mut Follower, bell: &Arc<Bell>) -> bool {
        let waker = Waker::from(Arc::clone(bell));
        let news = follower.poll_news(&mut Context::from_waker(&waker));
        news.is_ready()
    }

    fn rings(bell: &Bell) -> usize {
        bell.0.load(Ordering::Relaxed)
    }

    #[test]
    fn news_wakes_who_waits_once() {
        let news = Arc::<News>::default();
        let bells = [(); 3].map(|()| Arc::<Bell>::default());
        let mut followers = [(); 3].map(|()| news.follow());
        for (follower, bell) in followers.iter_mut().zip(&bells) {
            assert!(!polls(follower, bell) && !polls(follower, bell));
        }
        news.tell(Instant::now());
        news.tell(Instant::now());
        assert_eq!(bells.each_ref().map(|bell| rings(bell)), [1, 1, 1]);
        let [first, ..] = &mut followers;
        assert!(polls(first, &bells[0]) && !polls(first, &bells[0]));
    }

    #[test]
    fn news_between_two_looks_is_not_missed_and_old_news_is_none() {
        let news = Arc::<News>::default();
        news.tell(Instant::now());
        let (mut follower, bell) = (news.follow(), Arc::default());
        assert!(!polls(&mut follower, &bell));
        news.tell(Instant::now());
        assert!(polls(&mut follower, &bell));
        news.tell(Instant::now());
        assert!(polls(&mut follower, &bell));
        assert!(!polls(&mut follower, &bell));
    }

    #[test]
    fn the_last_waker_counts() {
        let news = Arc::<News>::default();
        let (mut follower, before, after) = (news.follow(), Arc::default(), Arc::default());
        assert!(!polls(&mut follower, &before) && !polls(&mut follower, &after));
        news.tell(Instant::now());
        assert_eq!((rings(&before), rings(&after)), (0, 1));
    }

    #[test]
    fn who_leaves_is_not_woken_and_leaves_nothing_behind() {
        let news = Arc::<News>::default();
        let (stays, leaves) = (Arc::<Bell>::default(), Arc::<Bell>::default());
        let mut follower = news.follow();
        assert!(!polls(&mut follower, &stays));
        for _ in 0..1000 {
            assert!(!polls(&mut news.follow(), &leaves));
        }
        let seats = news.0.lock();
        assert!(seats.wakers.len() <= 2 && seats.waiting.len() <= 5);
        drop(seats);
        assert_eq!(Arc::strong_count(&leaves), 1);
        news.tell(Instant::now());
        assert_eq!((rings(&stays), rings(&leaves)), (1, 0));
        // The seat of one who left is another's, who is woken for its own sake.
        let mut next = news.follow();
        assert!(!polls(&mut next, &leaves));
        news.tell(Instant::now());
        assert_eq!(rings(&leaves), 1);
        drop((follower, next));
        let seats = news.0.lock();
        assert!(seats.wakers.is_empty() && seats.waiting.is_empty() && seats.free.is_empty());
    }

    #[test]
    fn nobody_misses_news_of_another_thread() {
        const ROUNDS: usize = 20_000;
        let (news, told) = (Arc::<News>::default(), Arc::<AtomicUsize>::default());
        let follower = news.follow();
        let reader = std::thread::spawn({
            let told = Arc::clone(&told);
            move || {
                let mut follower = follower;
                futures::executor::block_on(async {
                    while told.load(Ordering::Acquire) < ROUNDS {
                        std::future::poll_fn(|context| follower.poll_news(context)).await;
                    }
                });
            }
        });
        for _ in 0..ROUNDS {
            told.fetch_add(1, Ordering::Release);
            news.tell(Instant::now());
        }
        reader.join().unwrap();
    }
}
