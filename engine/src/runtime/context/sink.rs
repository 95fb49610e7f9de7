//! The end of a stream in a context.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::Event;
use crate::operator::{Consumer, Cx, contained};
use crate::state::{StateError, Visit};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Timestamp;

use super::super::pool::TaskRef;
use super::super::port::{Refusal, Room};
use super::handle::ContextHandle;
use super::inbox::{Letter, Refill, Waiter};
use super::task::Context;
use super::waits::{Door, Node, Waits};

/// Events of a stream that a context has no room for yet. They go in as it makes room, also when the query is
/// over; until then the query waits.
pub struct Feed<E> {
    context: Arc<Context<E>>,
    waiting: Mutex<Waiting<E>>,
    /// Events that came when the context took no more.
    lost: AtomicU64,
}

struct Waiting<E> {
    events: VecDeque<E>,
    /// The chains that wait for the events to go in.
    tasks: Vec<TaskRef>,
    /// Whose waits these are, and how many have been noted down.
    noted: Option<(Node, usize)>,
}

impl<E: Send + Sync + 'static> Feed<E> {
    /// The feed of a stream into `context`.
    pub fn new(context: &ContextHandle<E>) -> Arc<Self> {
        let waiting = Waiting { events: VecDeque::new(), tasks: Vec::new(), noted: None };
        Arc::new(Self {
            context: context.0.clone(),
            waiting: Mutex::new(waiting),
            lost: AtomicU64::new(0),
        })
    }

    fn door(&self) -> Arc<dyn Door> {
        self.context.clone()
    }

    /// What was said of waits is not so any more.
    fn waits_no_more(&self, waiting: &mut Waiting<E>) {
        if let Some((node, times)) = waiting.noted.take() {
            (0..times).for_each(|_| Waits::get().leave_one(node, self.context.node()));
        }
    }

    fn put(self: &Arc<Self>, event: E) {
        let mut waiting = self.waiting.lock();
        if self.context.inbox().is_sealed() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.events.push_back(event);
        if waiting.events.len() == 1 {
            self.put_in(&mut waiting);
        }
    }

    /// Puts in what has room, and sees to it that the rest is put in when there is some.
    fn put_in(self: &Arc<Self>, waiting: &mut Waiting<E>) {
        while let Some(event) = waiting.events.pop_front() {
            match self.context.inbox().put_waiting(Letter::Own(event)) {
                Ok(true) => (self.context.clone() as TaskRef).notify(),
                Ok(false) => {}
                Err((Refusal::Closed, letter)) => {
                    let lost = (letter, std::mem::take(&mut waiting.events));
                    self.context.dropped(1 + lost.1.len() as u64);
                    // They are the user's, and dropping them may panic.
                    if let Some(message) = contained(|| drop(lost)) {
                        tracing::warn!(
                            "panicked when an event for a context was dropped: {message}"
                        );
                    }
                }
                Err((Refusal::Full, letter)) => {
                    let Letter::Own(event) = letter else { unreachable!("it came as its own") };
                    waiting.events.push_front(event);
                    if self.context.inbox().wait(Waiter::Feed(self.clone())) {
                        return;
                    }
                }
            }
        }
    }
}

impl<E: Send + Sync + 'static> Refill for Feed<E> {
    fn refill(self: Arc<Self>) {
        let mut waiting = self.waiting.lock();
        self.put_in(&mut waiting);
        if waiting.events.is_empty() {
            self.waits_no_more(&mut waiting);
            let tasks = std::mem::take(&mut waiting.tasks);
            drop(waiting);
            tasks.into_iter().for_each(|task| task.wake());
        }
    }
}

impl<E: Send + Sync + 'static> Room for Feed<E> {
    fn has_room(&self) -> bool {
        self.waiting.lock().events.is_empty()
    }

    fn wait(&self, task: &TaskRef) -> bool {
        let node = task.query();
        if let Some(node) = node {
            // Each time that it closes a circle the context's inbox grows, and who grows it puts events in.
            while !Waits::get().enter(node, &self.door()) {
                if self.has_room() {
                    return false;
                }
            }
        }
        let mut waiting = self.waiting.lock();
        if let Some(node) = node {
            let (_, times) = waiting.noted.get_or_insert((node, 0));
            *times += 1;
        }
        if waiting.events.is_empty() {
            self.waits_no_more(&mut waiting);
            return false;
        }
        if !waiting.tasks.iter().any(|known| Arc::ptr_eq(known, task)) {
            waiting.tasks.push(task.clone());
        }
        true
    }
}

impl<E> Drop for Feed<E> {
    fn drop(&mut self) {
        // A query that is over waits no more, for anybody.
        if let Some((node, _)) = self.waiting.lock().noted.take() {
            Waits::get().leave(node);
        }
    }
}

/// The terminal consumer that sends to a context.
pub struct ContextOp<E>(Arc<Feed<E>>);

impl<E> ContextOp<E> {
    /// Sends into `feed`.
    pub fn new(feed: Arc<Feed<E>>) -> Self {
        Self(feed)
    }
}

impl<E: Send + Sync + 'static> Consumer<E> for ContextOp<E> {
    type State = ();

    fn state(&self) {}

    #[inline]
    fn event(&self, (): &mut (), cx: &mut Cx, event: Event<E>) {
        cx.counters.out += 1;
        self.0.put(event.value);
    }

    fn watermark(&self, (): &mut (), _: &mut Cx, _: Timestamp) {}

    fn end(&self, (): &mut (), cx: &mut Cx) {
        self.flush(&mut (), cx);
    }

    fn flush(&self, (): &mut (), cx: &mut Cx) {
        let lost = self.0.lost.swap(0, Ordering::Relaxed);
        cx.counters.out -= lost.min(cx.counters.out);
        cx.counters.dropped += lost;
    }

    fn next_timer(&self, (): &()) -> Option<Timestamp> {
        None
    }

    fn visit(&self, (): &mut (), _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}
