//! A context from outside: how it is started, sent to, asked and ended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Deadline;

use super::super::engine::Shared;
use super::super::outcome::Status;
use super::super::pool::Pool;
use super::super::port::Refusal;
use super::super::push::PushError;
use super::handlers::{Handlers, Own};
use super::inbox::Letter;
use super::realm::Realm;
use super::task::Context;

/// Names a context within its engine. Never used twice, by a query neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(super) u64);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// How deep events may be routed, unless a context was told otherwise.
const MAX_DEPTH: u32 = 10_000;

/// On what terms a context runs.
pub(super) struct Terms {
    name: Box<str>,
    pub public: bool,
    pub max_depth: u32,
}

impl Terms {
    /// Its name; without one, its id.
    pub(super) fn name(&self, id: ContextId) -> String {
        if self.name.is_empty() { id.to_string() } else { self.name.to_string() }
    }
}

/// A context that is about to be started.
#[must_use = "call `start`"]
pub struct ContextBuilder<'a> {
    engine: &'a Arc<Shared>,
    terms: Terms,
    capacity: usize,
}

impl<'a> ContextBuilder<'a> {
    pub(in super::super) fn new(engine: &'a Arc<Shared>, name: &str) -> Self {
        let capacity = engine.settings().inbox_capacity;
        let terms = Terms { name: name.into(), public: false, max_depth: MAX_DEPTH };
        Self { engine, terms, capacity }
    }

    /// Makes it a public one: it receives what is published and what is enqueued.
    pub fn public(mut self) -> Self {
        self.terms.public = true;
        self
    }

    /// How many events its input queue holds, at least 1; by default as many as the engine's inboxes. Routed
    /// events and those of its timers do not count.
    pub fn capacity(mut self, events: usize) -> Self {
        self.capacity = events.max(1);
        self
    }

    /// How deep events may be routed: one that arrives is at depth 0, what it routes at 1. By default 10,000.
    pub fn max_depth(mut self, depth: u32) -> Self {
        self.terms.max_depth = depth.min(u32::MAX - 2);
        self
    }

    /// Starts it. It runs until it ends, is told to, or its engine is dropped; a private one also until nobody
    /// has a handle of it any more, it has handled what waits, and it has no timer.
    pub fn start<E, S>(self, handlers: impl Into<Arc<Handlers<E, S>>>, state: S) -> ContextHandle<E>
    where
        E: Send + Sync + 'static,
        S: Send + 'static,
    {
        let life = Box::new(Own::new(handlers.into(), state));
        ContextHandle(Realm::of(self.engine).start(self.terms, self.capacity, life))
    }
}

/// A context that was started. Clones are handles of the same context.
pub struct ContextHandle<E>(pub(super) Arc<Context<E>>);

impl<E> Clone for ContextHandle<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Send + Sync + 'static> fmt::Debug for ContextHandle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextHandle({} {:?})", self.id(), self.name())
    }
}

/// What a context has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextStats {
    /// Events taken from its input queue.
    pub input: u64,
    /// Events that it has routed.
    pub routed: u64,
    /// Events that it has put into the special queue.
    pub enqueued: u64,
    /// Events that it has sent to a context or a query by name.
    pub sent: u64,
    /// Events that it has sent or enqueued and that waited for room in vain: their target ended, or it did.
    pub undelivered: u64,
    /// Events that were in it when it ended: routed ones, those that waited, those of timers, and those of
    /// streams that waited for room.
    pub dropped: u64,
    /// Events that wait in its input queue.
    pub depth: usize,
    /// How many may.
    pub capacity: usize,
    /// Idle, queued, running, waiting for room, done.
    pub state: &'static str,
}

impl<E: Send + Sync + 'static> ContextHandle<E> {
    /// Its id, unique within its engine.
    pub fn id(&self) -> ContextId {
        self.0.id
    }

    /// The name it was given; without one, its id.
    pub fn name(&self) -> String {
        self.0.terms().name(self.id())
    }

    /// Whether it receives what is published and enqueued.
    pub fn is_public(&self) -> bool {
        self.0.terms().public
    }

    /// Puts an event at the end of its input queue; waits while that is full. Handlers use
    /// [`enqueue_to`](super::ContextCx::enqueue_to) instead, which never waits.
    ///
    /// # Errors
    /// [`PushError::Closed`] if it has ended or been told to.
    pub fn send(&self, event: E) -> Result<(), PushError<E>> {
        self.0.send(Letter::Own(event)).map_err(|letter| match letter {
            Letter::Own(event) => PushError::Closed(event),
            _ => unreachable!("it was put in as its own"),
        })
    }

    /// Puts an event at the end of its input queue if there is room for it now.
    ///
    /// # Errors
    /// [`PushError::Full`] if there is not, [`PushError::Closed`] if it has ended or been told to.
    pub fn try_send(&self, event: E) -> Result<(), PushError<E>> {
        match self.0.offer(event) {
            Ok(task) => {
                task.into_iter().for_each(|task| task.notify());
                Ok(())
            }
            Err((Refusal::Full, event)) => Err(PushError::Full(event)),
            Err((Refusal::Closed, event)) => Err(PushError::Closed(event)),
        }
    }

    /// Lets nothing more in, not even what is in the special queue. It ends when it has handled what waits, also what
    /// streams that end in it had no room for. Timers that are still to come are dropped then. Returns at once.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Ends it after the event at hand; what waits is dropped. Returns at once.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Where it stands, and how it ended.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Waits until it is over and says how it ended. On a worker of an engine that engine's other work is
    /// done meanwhile. A handler that waits for its own context waits for ever.
    pub fn wait(&self) -> Status {
        Pool::block(|timeout| self.0.wait(timeout));
        self.status()
    }

    /// As `wait`, but gives up after `timeout` and says where it stands.
    pub fn wait_timeout(&self, timeout: Duration) -> Status {
        let deadline = Deadline::after(timeout);
        Pool::block(|slice| {
            let left = deadline.left();
            self.0.wait(Some(slice.unwrap_or(left).min(left))) || left.is_zero()
        });
        self.status()
    }

    /// What it has counted.
    pub fn stats(&self) -> ContextStats {
        self.0.stats()
    }
}
