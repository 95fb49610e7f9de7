//! A sink that another thread receives from.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use crate::operator::{Consumer, Cx, Flow};
use crate::state::{StateError, Visit};
use crate::sync::{Condvar, Deadline, Mutex, wait_while};
use crate::time::Timestamp;

use super::pool::{Pool, TaskRef};
use super::port::Room;

/// What a query does when a channel that it sends to is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits: its sources stand still until somebody receives.
    #[default]
    Wait,
    /// The event that finds no room is dropped and counted.
    DropNewest,
    /// The event that waits longest is dropped and counted.
    DropOldest,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    arrived: Condvar,
    capacity: usize,
    when_full: WhenFull,
}

struct Queue<T> {
    events: VecDeque<Event<T>>,
    waiters: Vec<TaskRef>,
    ended: bool,
    receivers_gone: bool,
}

/// The query's end of a channel.
pub struct Sender<T>(Arc<Shared<T>>);

/// Receives what a query sends. Dropping it lets the query run on.
pub struct Receiver<T>(Arc<Shared<T>>);

/// No event came in time.
struct Nothing;

/// A channel for about `capacity` events.
pub fn channel<T: Send + 'static>(
    capacity: usize,
    when_full: WhenFull,
) -> (Sender<T>, Receiver<T>) {
    let queue =
        Queue { events: VecDeque::new(), waiters: Vec::new(), ended: false, receivers_gone: false };
    let shared =
        Arc::new(Shared { queue: Mutex::new(queue), arrived: Condvar::new(), capacity, when_full });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Nothing more is sent.
    pub(super) fn end(&self) {
        self.0.end();
    }
}

impl<T: Send + 'static> Sender<T> {
    /// What the sending chain waits for.
    pub fn room(&self) -> Arc<dyn Room> {
        self.0.clone()
    }

    /// Sends one event, if there is room for it.
    pub(super) fn offer(&self, event: Event<T>) -> Offered {
        let mut queue = self.0.queue.lock();
        if queue.receivers_gone {
            return Offered::NobodyThere;
        }
        if queue.events.len() >= self.0.capacity {
            return Offered::NoRoom;
        }
        queue.events.push_back(event);
        drop(queue);
        self.0.arrived.notify_all();
        Offered::Taken
    }
}

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    Taken,
    NoRoom,
    NobodyThere,
}

impl<T> Drop for Sender<T> {
    /// The query is over, or it was never submitted and is gone.
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T: Send + 'static> Room for Shared<T> {
    fn has_room(&self) -> bool {
        let queue = self.queue.lock();
        self.when_full != WhenFull::Wait
            || queue.receivers_gone
            || queue.events.len() < self.capacity
    }

    fn wait(&self, task: &TaskRef) -> bool {
        let mut queue = self.queue.lock();
        if queue.receivers_gone || queue.events.len() < self.capacity {
            return false;
        }
        if !queue.waiters.iter().any(|waiter| Arc::ptr_eq(waiter, task)) {
            queue.waiters.push(task.clone());
        }
        true
    }
}

impl<T> Shared<T> {
    /// Takes one event out. Whoever waited for the room is woken once the lock is let go.
    fn take(&self, queue: &mut Queue<T>) -> Option<(Event<T>, Vec<TaskRef>)> {
        let event = queue.events.pop_front()?;
        let woken = if queue.events.len() < self.capacity {
            std::mem::take(&mut queue.waiters)
        } else {
            Vec::new()
        };
        Some((event, woken))
    }

    fn end(&self) {
        self.queue.lock().ended = true;
        self.arrived.notify_all();
    }
}

impl<T> Receiver<T> {
    /// Waits for the next event. `None`: the query is over and everything has been received. On a
    /// worker of an engine that engine's other chains are run meanwhile.
    pub fn recv(&self) -> Option<Event<T>> {
        self.receive(None)
    }

    /// Waits for the next event, at most `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event<T>> {
        self.receive(Some(Deadline::after(timeout)))
    }

    /// The next event, if it is there.
    pub fn try_recv(&self) -> Option<Event<T>> {
        self.recv_timeout(Duration::ZERO)
    }

    fn receive(&self, deadline: Option<Deadline>) -> Option<Event<T>> {
        let mut received = None;
        Pool::block(|slice| {
            let left = deadline.map(|deadline| deadline.left());
            let limit = slice.into_iter().chain(left).min();
            match self.receive_within(limit) {
                Ok(event) => received = event,
                Err(Nothing) => return left.is_some_and(|left| left.is_zero()),
            }
            true
        });
        received
    }

    /// The next event, or `None` after the last one, if either comes within `limit`.
    fn receive_within(&self, limit: Option<Duration>) -> Result<Option<Event<T>>, Nothing> {
        let mut queue = self.0.queue.lock();
        let mut taken = None;
        let in_time = wait_while(&self.0.arrived, &mut queue, limit, |queue| {
            taken = self.0.take(queue);
            taken.is_none() && !queue.ended
        });
        drop(queue);
        let Some((event, woken)) = taken else { return in_time.then_some(None).ok_or(Nothing) };
        woken.into_iter().for_each(|task| task.wake());
        Ok(Some(event))
    }

    /// The events to come, until the query is over.
    pub fn iter(&self) -> impl Iterator<Item = Event<T>> + '_ {
        std::iter::from_fn(|| self.recv())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.receivers_gone = true;
        let (events, woken) =
            (std::mem::take(&mut queue.events), std::mem::take(&mut queue.waiters));
        drop(queue);
        drop(events);
        woken.into_iter().for_each(|task| task.wake());
    }
}

/// The terminal consumer that sends to a channel.
pub struct ChannelOp<T>(Sender<T>);

impl<T> ChannelOp<T> {
    /// Sends to `sender`'s channel.
    pub fn new(sender: Sender<T>) -> Self {
        Self(sender)
    }
}

/// What waits for the end of the batch. Whatever way its chain ends, the receiver is told.
pub struct Sending<T> {
    batch: Vec<Event<T>>,
    shared: Arc<Shared<T>>,
}

impl<T> Drop for Sending<T> {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl<T: Send + 'static> Consumer<T> for ChannelOp<T> {
    type State = Sending<T>;

    fn state(&self) -> Sending<T> {
        Sending { batch: Vec::new(), shared: self.0.0.clone() }
    }

    #[inline]
    fn event(&self, state: &mut Sending<T>, _: &mut Cx, event: Event<T>) {
        state.batch.push(event);
    }

    fn watermark(&self, _: &mut Sending<T>, _: &mut Cx, _: Timestamp) {}

    fn end(&self, state: &mut Sending<T>, cx: &mut Cx) {
        self.flush(state, cx);
        state.shared.end();
    }

    fn flush(&self, state: &mut Sending<T>, cx: &mut Cx) {
        let Sending { batch, shared } = state;
        if !batch.is_empty() {
            cx.counters.out += batch.len() as u64;
            let mut queue = shared.queue.lock();
            let dropped = if queue.receivers_gone {
                let all = batch.len();
                batch.clear();
                all
            } else {
                accept(&mut queue.events, batch, shared.capacity, shared.when_full)
            };
            drop(queue);
            shared.arrived.notify_all();
            cx.counters.dropped += dropped as u64;
        }
        if cx.flow == Flow::Halted {
            shared.end();
        }
    }

    fn next_timer(&self, _: &Sending<T>) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut Sending<T>, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

/// Takes a batch in as `when_full` says; how many events were dropped for it.
pub(super) fn accept<T>(
    events: &mut VecDeque<T>,
    batch: &mut Vec<T>,
    capacity: usize,
    when_full: WhenFull,
) -> usize {
    let over = (events.len() + batch.len()).saturating_sub(capacity);
    match when_full {
        // A batch that was begun is accepted; the next one waits.
        WhenFull::Wait => {
            events.extend(batch.drain(..));
            0
        }
        WhenFull::DropNewest => {
            let kept = batch.len().saturating_sub(over);
            events.extend(batch.drain(..kept));
            let dropped = batch.len();
            batch.clear();
            dropped
        }
        WhenFull::DropOldest => {
            events.extend(batch.drain(..));
            events.drain(..over);
            over
        }
    }
}
