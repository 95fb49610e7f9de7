//! A context's input queue, with its exact bound.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::super::parker::Parker;
use super::super::pool::TaskRef;
use super::super::port::Refusal;
use super::waits::Node;

/// An event on its way: a context's own, or one that several are to see.
pub(super) enum Letter<E> {
    Own(E),
    Shared(Arc<E>),
    /// Of a timer: takes no room.
    Timed(E),
}

impl<E> Deref for Letter<E> {
    type Target = E;

    #[inline]
    fn deref(&self) -> &E {
        match self {
            Letter::Own(event) | Letter::Timed(event) => event,
            Letter::Shared(event) => event,
        }
    }
}

/// Who waits for room.
pub(super) enum Waiter {
    /// A context with a full outbox, or the mover; and what it is among the waits.
    Task(TaskRef, Node),
    /// A sender outside the engine.
    Thread(Arc<Parker>),
    /// Events of a stream.
    Feed(Arc<dyn Refill>),
}

/// Something that puts in what has waited, now that there is room.
pub(super) trait Refill: Send + Sync {
    fn refill(self: Arc<Self>);
}

/// See the module's README, "The bound".
pub(super) struct Inbox<E> {
    queue: Mutex<Queue<E>>,
    /// Events that have come and are not yet begun, and [`AWAITED`]. Raised under the lock, lowered without
    /// it.
    depth: AtomicUsize,
    capacity: AtomicUsize,
}

/// Somebody waits for room.
const AWAITED: usize = 1 << (usize::BITS - 1);

struct Queue<E> {
    events: VecDeque<Letter<E>>,
    waiters: Vec<Waiter>,
    /// The mover of the special queue, if that waits.
    mover: Option<Waiter>,
    /// How many feeds have been told that there is room, and are about to put events in.
    refilling: usize,
    /// Only what has waited is let in.
    sealed: bool,
    /// Nothing more is let in.
    closed: bool,
}

/// More waiters than this are woken only when half of the inbox is free: most would find it full again.
const MANY: usize = 64;

impl<E> Inbox<E> {
    pub(super) fn new(capacity: usize) -> Self {
        let queue = Queue {
            events: VecDeque::new(),
            waiters: Vec::new(),
            mover: None,
            refilling: 0,
            sealed: false,
            closed: false,
        };
        Self {
            queue: Mutex::new(queue),
            depth: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
        }
    }

    /// Puts an event at the end, if there is room. `true`: the context is to be notified.
    pub(super) fn put(&self, letter: Letter<E>) -> Result<bool, (Refusal, Letter<E>)> {
        self.put_if(|queue| !queue.sealed && !queue.closed, letter)
    }

    /// As `put`, for an event that was here before the inbox was sealed.
    pub(super) fn put_waiting(&self, letter: Letter<E>) -> Result<bool, (Refusal, Letter<E>)> {
        self.put_if(|queue| !queue.closed, letter)
    }

    #[inline]
    fn put_if(
        &self,
        is_let_in: impl FnOnce(&Queue<E>) -> bool,
        letter: Letter<E>,
    ) -> Result<bool, (Refusal, Letter<E>)> {
        let mut queue = self.queue.lock();
        if !is_let_in(&queue) {
            return Err((Refusal::Closed, letter));
        }
        if self.is_full() {
            return Err((Refusal::Full, letter));
        }
        Ok(self.append(&mut queue, letter))
    }

    /// Puts an event at the end, even if there is no room. `None`: no more is let in.
    pub(super) fn put_anyway(&self, letter: Letter<E>) -> Option<bool> {
        let mut queue = self.queue.lock();
        (!queue.closed).then(|| self.append(&mut queue, letter))
    }

    fn append(&self, queue: &mut Queue<E>, letter: Letter<E>) -> bool {
        let was_empty = queue.events.is_empty();
        let takes_room = !matches!(letter, Letter::Timed(_));
        queue.events.push_back(letter);
        // Relaxed: the events are ordered by the lock.
        self.depth.fetch_add(usize::from(takes_room), Ordering::Relaxed);
        was_empty
    }

    /// Takes all there is, in exchange for the room of those that were taken last. Where there is nothing, that
    /// room is given back: who has many contexts has most of them idle.
    pub(super) fn take(&self, taken: &mut VecDeque<Letter<E>>) {
        let mut queue = self.queue.lock();
        let spare = if queue.events.is_empty() {
            Some(std::mem::take(&mut queue.events))
        } else {
            std::mem::swap(&mut queue.events, taken);
            None
        };
        drop(queue);
        if spare.is_some() {
            *taken = VecDeque::new();
        }
    }

    /// An event that was taken is begun: there is room for another. Whether somebody waits for it.
    #[inline]
    pub(super) fn begun(&self) -> bool {
        // AcqRel: pairs with `wait`.
        self.depth.fetch_sub(1, Ordering::AcqRel) & AWAITED != 0
    }

    /// Those who are to be woken, now that there is room.
    #[cold]
    pub(super) fn woken(&self) -> Vec<Waiter> {
        let mut queue = self.queue.lock();
        if queue.waiters.len() > MANY && self.depth() > self.capacity() / 2 {
            return queue.mover.take().into_iter().collect();
        }
        self.all_waiters(&mut queue)
    }

    fn all_waiters(&self, queue: &mut Queue<E>) -> Vec<Waiter> {
        self.depth.fetch_and(!AWAITED, Ordering::AcqRel);
        let mut waiters = std::mem::take(&mut queue.waiters);
        queue.refilling += waiters.iter().filter(|it| matches!(it, Waiter::Feed(_))).count();
        waiters.extend(queue.mover.take());
        waiters
    }

    /// A feed has put in what there was room for. Whether that was what the end has waited for.
    pub(super) fn refilled(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.refilling -= 1;
        queue.sealed && queue.refilling == 0
    }

    /// Whether nothing is there, and nothing that has waited comes any more.
    pub(super) fn is_settled(&self) -> bool {
        let queue = self.queue.lock();
        let feeds = queue.waiters.iter().any(|waiter| matches!(waiter, Waiter::Feed(_)));
        queue.events.is_empty() && queue.refilling == 0 && !feeds
    }

    /// Registers `waiter` to be woken when there is room or no hope of it. `false`: that is so now.
    pub(super) fn wait(&self, waiter: Waiter) -> bool {
        self.wait_as(|queue| queue.waiters.push(waiter))
    }

    /// As `wait`, for the mover, who waits once however often it says so.
    pub(super) fn mover_waits(&self, mover: &TaskRef, node: Node) -> bool {
        self.wait_as(|queue| queue.mover = Some(Waiter::Task(mover.clone(), node)))
    }

    fn wait_as(&self, register: impl FnOnce(&mut Queue<E>)) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        // The flag and the look in one: who makes room afterwards finds the flag. A flag that is left though
        // nobody waits costs a look.
        let depth = self.depth.fetch_or(AWAITED, Ordering::AcqRel) & !AWAITED;
        if depth < self.capacity() {
            return false;
        }
        register(&mut queue);
        true
    }

    /// Doubles the bound. What it is now, and those who are to be woken.
    pub(super) fn grow(&self) -> (usize, Vec<Waiter>) {
        let mut queue = self.queue.lock();
        let capacity = self.capacity().saturating_mul(2);
        self.capacity.store(capacity, Ordering::Relaxed);
        (capacity, self.all_waiters(&mut queue))
    }

    /// Lets nothing new in; what is there stays. Those who are to be woken.
    pub(super) fn seal(&self) -> Vec<Waiter> {
        let mut queue = self.queue.lock();
        queue.sealed = true;
        self.all_waiters(&mut queue)
    }

    /// Lets nothing more in, and gives back what is there, with those who are to be woken.
    pub(super) fn close(&self) -> (VecDeque<Letter<E>>, Vec<Waiter>) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let events = std::mem::take(&mut queue.events);
        self.depth.fetch_and(AWAITED, Ordering::AcqRel);
        (events, self.all_waiters(&mut queue))
    }

    pub(super) fn is_sealed(&self) -> bool {
        let queue = self.queue.lock();
        queue.sealed || queue.closed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    pub(super) fn is_full(&self) -> bool {
        self.depth() >= self.capacity()
    }

    pub(super) fn depth(&self) -> usize {
        self.depth.load(Ordering::Acquire) & !AWAITED
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Somebody waits for room while an event is begun.
    #[test]
    fn loom_room_in_a_contexts_inbox_is_not_missed() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::new(1));
            assert!(matches!(inbox.put(Letter::Own(1)), Ok(true)));
            inbox.take(&mut VecDeque::new());
            let parker = Arc::new(Parker::default());
            let (there, woken) = (inbox.clone(), parker.clone());
            let begins = loom::thread::spawn(move || {
                if there.begun() {
                    for waiter in there.woken() {
                        let Waiter::Thread(parker) = waiter else { unreachable!("a thread waits") };
                        parker.unpark();
                    }
                }
            });
            if inbox.wait(Waiter::Thread(woken)) {
                parker.park();
            }
            begins.join().unwrap();
            assert!(!inbox.is_full());
        });
    }
}
