//! Who sleeps, who is looking for work, and how one wakes the other. The argument stands in README.md.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering, fence};

use super::parker::Parker;

/// The sleepers and searchers among a pool's workers.
pub(super) struct Sleepers {
    parkers: Vec<Parker>,
    asleep: Mutex<Vec<usize>>,
    asleep_count: AtomicUsize,
    searching: AtomicUsize,
}

impl Sleepers {
    /// For `workers` workers, all awake and none searching.
    pub(super) fn new(workers: usize) -> Self {
        Self {
            parkers: (0..workers).map(|_| Parker::default()).collect(),
            asleep: Mutex::new(Vec::with_capacity(workers)),
            asleep_count: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
        }
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.parkers.len()
    }

    /// Something was queued: wakes a worker unless one is searching already.
    pub(super) fn wake_one(&self) {
        // Pairs with the fence in `sleep`: either this sees the sleeper or the searcher that will
        // look again, or the sleeper's second look sees what was queued.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders them.
        if self.searching.load(Ordering::Relaxed) > 0
            || self.asleep_count.load(Ordering::Relaxed) == 0
        {
            return;
        }
        let woken = self.asleep.lock().pop();
        if let Some(index) = woken {
            self.asleep_count.fetch_sub(1, Ordering::Relaxed);
            // The woken worker searches; counted here so that it is not overlooked meanwhile.
            self.searching.fetch_add(1, Ordering::Relaxed);
            self.parkers[index].unpark();
        }
    }

    /// A worker that was searching has found work. The last one wakes the next: there may be more.
    pub(super) fn found(&self) {
        if self.searching.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.wake_one();
        }
    }

    /// Worker `index` found nothing: sleeps until it is woken, unless `is_wanted` after all. It is
    /// searching when this returns.
    pub(super) fn sleep(&self, index: usize, was_searching: bool, is_wanted: impl Fn() -> bool) {
        {
            let mut asleep = self.asleep.lock();
            asleep.push(index);
            self.asleep_count.fetch_add(1, Ordering::Relaxed);
        }
        if was_searching {
            self.searching.fetch_sub(1, Ordering::Relaxed);
        }
        // Pairs with the fence in `wake_one`.
        fence(Ordering::SeqCst);
        if is_wanted() {
            let mut asleep = self.asleep.lock();
            if let Some(position) = asleep.iter().position(|&sleeper| sleeper == index) {
                asleep.swap_remove(position);
                self.asleep_count.fetch_sub(1, Ordering::Relaxed);
                self.searching.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // Somebody woke this worker meanwhile: the wake-up is on its way and must be taken.
        }
        self.parkers[index].park();
    }

    /// Wakes every worker, to see that the pool ends.
    pub(super) fn wake_all(&self) {
        self.parkers.iter().for_each(Parker::unpark);
    }
}
