//! A shared source's promise, and which subscribers to single keys it concerns.

use std::cmp::{Ordering as Order, Reverse};
use std::collections::BinaryHeap;
use std::sync::Weak;

use crate::operator::Flow;
use crate::runtime::intake::Progress;
use crate::runtime::pool::{Task, TaskRef};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use crate::time::{Timestamp, is_due};

/// So many timers are not worth a look at whether their chains are gone.
const FEW: usize = 64;

/// A timer of a chain.
struct Timer {
    due: Timestamp,
    task: Weak<dyn Task>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Order {
        self.due.cmp(&other.due)
    }
}

#[derive(Default)]
struct Waiting {
    timers: BinaryHeap<Reverse<Timer>>,
    /// With how many timers those of chains that are gone are looked for.
    sweep_at: usize,
    /// Chains that every promise wakes.
    every: Vec<Weak<dyn Task>>,
}

/// The newest promise, for all who subscribe to a key.
pub(crate) struct Cell {
    watermark: AtomicI64,
    flow: AtomicU8,
    waiting: Mutex<Waiting>,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            watermark: AtomicI64::new(Timestamp::MIN.as_micros()),
            flow: AtomicU8::new(Flow::Active as u8),
            waiting: Mutex::default(),
        }
    }
}

impl Cell {
    /// The newest promise. What is found in a feed after this was read includes every event before it.
    pub(crate) fn read(&self) -> Progress {
        // Acquire: pairs with the releases in `write`. The flow first: who sees the end sees the
        // last watermark.
        let flow = match self.flow.load(Ordering::Acquire) {
            flow if flow == Flow::Active as u8 => Flow::Active,
            flow if flow == Flow::Idle as u8 => Flow::Idle,
            flow if flow == Flow::Ended as u8 => Flow::Ended,
            _ => Flow::Halted,
        };
        Progress { watermark: self.watermark(), flow }
    }

    pub(super) fn watermark(&self) -> Timestamp {
        Timestamp::from_micros(self.watermark.load(Ordering::Acquire))
    }

    /// Makes a promise; adds to `woken` whom it concerns. Called by the publisher only.
    pub(super) fn write(&self, promise: Progress, woken: &mut Vec<TaskRef>) {
        if promise == self.read() {
            return;
        }
        self.watermark.store(promise.watermark.as_micros(), Ordering::Release);
        self.flow.store(promise.flow as u8, Ordering::Release);
        let mut waiting = self.waiting.lock();
        while let Some(Reverse(first)) = waiting.timers.peek()
            && is_due(first.due, promise.watermark)
        {
            woken.extend(waiting.timers.pop().and_then(|Reverse(timer)| timer.task.upgrade()));
        }
        waiting.every.retain(|task| match task.upgrade() {
            Some(task) => {
                woken.push(task);
                true
            }
            None => false,
        });
    }

    /// Has `task` woken when the watermark reaches `due`. `true`: it has already.
    pub(crate) fn arm(&self, due: Timestamp, task: Weak<dyn Task>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.timers.push(Reverse(Timer { due, task }));
        if waiting.timers.len() > waiting.sweep_at {
            // A chain may be over long before its timer is due, which would hold its memory till then.
            waiting.timers.retain(|Reverse(timer)| timer.task.strong_count() > 0);
            waiting.sweep_at = FEW.max(2 * waiting.timers.len());
            let keep = waiting.sweep_at;
            waiting.timers.shrink_to(keep);
        }
        drop(waiting);
        is_due(due, self.watermark())
    }

    /// Has `task` woken by every promise.
    pub(super) fn follow(&self, task: Weak<dyn Task>) {
        let mut waiting = self.waiting.lock();
        if waiting.every.len() == waiting.every.capacity() {
            waiting.every.retain(|task| task.strong_count() > 0);
        }
        waiting.every.push(task);
    }
}
