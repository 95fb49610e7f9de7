//! The one place that waits for processing time: idle time-outs, periodic watermarks, quiet sources, and
//! operators that go by the clock.
//!
//! A chain arms at most a few entries and re-arms lazily: an entry that fires too early costs one
//! look at the chain, which then arms the next. So an event never touches a timer.

use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::sync::{Condvar, Mutex, thread};
use crate::time::Clock;

use super::pool::Task;

/// How often a clock that somebody else moves is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// So many entries are not worth a look at whether their chains are gone.
const FEW: usize = 256;

struct Entry {
    due: Duration,
    task: Weak<dyn Task>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Order {
        self.due.cmp(&other.due)
    }
}

#[derive(Default)]
struct Pending {
    entries: BinaryHeap<Reverse<Entry>>,
    /// With how many entries those of chains that are gone are looked for.
    sweep_at: usize,
    stopped: bool,
}

/// Timers of all chains of an engine, with the thread that waits for them.
pub struct Timers {
    clock: Arc<dyn Clock>,
    pending: Mutex<Pending>,
    changed: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Timers {
    /// Starts the thread.
    pub fn start(name: &str, clock: Arc<dyn Clock>) -> std::io::Result<Arc<Self>> {
        let timers = Arc::new(Self {
            clock,
            pending: Mutex::new(Pending::default()),
            changed: Condvar::new(),
            thread: Mutex::new(None),
        });
        let shared = timers.clone();
        let spawned =
            thread::Builder::new().name(format!("{name}-timers")).spawn(move || shared.wait())?;
        *timers.thread.lock() = Some(spawned);
        Ok(timers)
    }

    /// Has `task` looked at when the monotonic clock shows `due`.
    pub fn arm(&self, due: Duration, task: Weak<dyn Task>) {
        let mut pending = self.pending.lock();
        let earliest = pending.entries.peek().is_none_or(|Reverse(first)| due < first.due);
        pending.entries.push(Reverse(Entry { due, task }));
        if pending.entries.len() > pending.sweep_at {
            // A chain may be over long before its entry is due, which would hold its memory till then.
            pending.entries.retain(|Reverse(entry)| entry.task.strong_count() > 0);
            pending.entries.shrink_to(FEW);
            pending.sweep_at = FEW.max(2 * pending.entries.len());
        }
        drop(pending);
        if earliest {
            self.changed.notify_one();
        }
    }

    fn wait(&self) {
        let mut pending = self.pending.lock();
        while !pending.stopped {
            let Some(Reverse(first)) = pending.entries.peek() else {
                self.changed.wait(&mut pending);
                continue;
            };
            let left = first.due.saturating_sub(self.clock.monotonic());
            if !left.is_zero() {
                let left = if self.clock.is_manual() { LOOK_EVERY } else { left };
                self.changed.wait_for(&mut pending, left);
                continue;
            }
            let task = pending.entries.pop().and_then(|Reverse(due)| due.task.upgrade());
            drop(pending);
            if let Some(task) = task {
                task.notify();
            }
            pending = self.pending.lock();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.pending.lock().stopped = true;
        self.changed.notify_one();
        let spawned = self.thread.lock().take();
        if let Some(spawned) = spawned
            && spawned.thread().id() != thread::current().id()
        {
            // The thread runs no user code: it cannot have panicked but by a bug that has been told.
            let _ = spawned.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::pool::Pool;
    use super::super::token::Token;
    use super::*;
    use crate::time::ManualClock;

    struct Chain;

    impl Task for Chain {
        fn token(&self) -> &Token {
            unreachable!("no timer is due")
        }

        fn pool(&self) -> &Arc<Pool> {
            unreachable!("no timer is due")
        }

        fn run(self: Arc<Self>) {}
    }

    #[test]
    fn entries_of_chains_that_are_gone_are_swept_long_before_they_are_due() {
        let timers = Timers::start("test", Arc::new(ManualClock::default())).unwrap();
        let due = Duration::from_secs(3_600);
        let kept: Arc<dyn Task> = Arc::new(Chain);
        let gone = (0..20 * FEW).map(|_| {
            let gone: Arc<dyn Task> = Arc::new(Chain);
            timers.arm(due, Arc::downgrade(&gone));
            Arc::downgrade(&gone)
        });
        let gone: Vec<_> = gone.collect();
        assert!(gone.iter().all(|chain| chain.strong_count() == 0));
        (0..2 * FEW).for_each(|_| timers.arm(due, Arc::downgrade(&kept)));
        let entries = timers.pending.lock().entries.len();
        assert!((2 * FEW..=4 * FEW + 1).contains(&entries), "{entries}");
        timers.stop();
    }
}
