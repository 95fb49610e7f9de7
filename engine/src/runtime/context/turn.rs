//! What a handler can do.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Timestamp;

use super::super::pool::Pool;
use super::super::port::Refusal;
use super::handle::{ContextBuilder, ContextHandle};
use super::inbox::Letter;
use super::target::{Ended, Parcel, ParcelTo, Target, sealed};
use super::task::Context;

/// Something on a context's stack.
pub(super) enum Entry<E> {
    /// An event that was routed, so deep.
    Routed(u32, E),
    /// An event was handled at that depth, and is done when this comes up.
    Done(u32, Letter<E>),
}

/// Names a timer of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    due: Duration,
    number: u64,
}

/// The events of timers, by when they are due and in the order in which they were set.
pub(super) struct Timers<E> {
    pending: BTreeMap<TimerId, E>,
}

impl<E> Default for Timers<E> {
    fn default() -> Self {
        Self { pending: BTreeMap::new() }
    }
}

impl<E> Timers<E> {
    fn set(&mut self, id: TimerId, event: E) {
        self.pending.insert(id, event);
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.pending.first_key_value().map(|(id, _)| id.due)
    }

    pub(super) fn pop_due(&mut self, now: Duration) -> Option<E> {
        let first = self.pending.first_entry().filter(|first| first.key().due <= now)?;
        Some(first.remove())
    }
}

/// What could not be sent yet, in order. Most contexts never have any.
pub(super) type Outbox = Option<Box<VecDeque<Box<dyn Parcel>>>>;

/// What a handler has of its context while it handles an event.
pub struct ContextCx<'a, E> {
    pub(super) context: &'a Arc<Context<E>>,
    pub(super) stack: &'a mut Vec<Entry<E>>,
    pub(super) outbox: &'a mut Outbox,
    pub(super) timers: &'a mut Option<Box<Timers<E>>>,
    pub(super) run: &'a mut Run,
    /// How deep what is routed now is.
    pub(super) depth: u32,
}

/// What is known of a run of a context.
#[derive(Default)]
pub(super) struct Run {
    /// The handler at work.
    pub at: Option<&'static Location<'static>>,
    /// It has said that its context is to end.
    pub wants_end: bool,
    pub end: Option<End>,
    pub counts: Counted,
}

/// Why a context cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has routed too deep.
    TooDeep,
    /// For this reason.
    Failed(&'static str),
}

/// What a run adds to its context's counters.
#[derive(Default)]
pub(super) struct Counted {
    pub handled: u64,
    pub input: u64,
    pub routed: u64,
    pub enqueued: u64,
    pub sent: u64,
}

impl<E> ContextCx<'_, E> {
    /// A handler that stands at `location` is about to run.
    #[inline]
    pub(super) fn at(&mut self, location: &'static Location<'static>) {
        self.run.at = Some(location);
    }
}

impl<E: Send + Sync + 'static> ContextCx<'_, E> {
    /// Puts `event` at the front of this context's input queue, behind what was routed before while the
    /// present event is handled. It is never refused.
    ///
    /// Routed deeper than the context's `max_depth`, it ends the context with an error.
    #[inline]
    pub fn route(&mut self, event: E) {
        if self.depth > self.context.max_depth() {
            self.run.end = Some(End::TooDeep);
            return;
        }
        self.run.counts.routed += 1;
        self.stack.push(Entry::Routed(self.depth, event));
    }

    /// Puts `event` at the end of the special queue, from which every public context that handles such events
    /// gets it, this one included if it is public.
    pub fn enqueue(&mut self, event: E) {
        self.run.counts.enqueued += 1;
        let special = self.context.realm().special();
        let sent = self.send(special, Arc::new(event));
        debug_assert!(sent.is_ok(), "the special queue does not end");
    }

    /// Puts `event` at the end of the input queue of `target`: a context, or the input of a query. Where there
    /// is no room it waits in this context's outbox, with all that is sent after it; the context's next event
    /// is handled when they have gone.
    ///
    /// Who had nothing to do begins when the event at hand has been handled, or this handler waits for
    /// something of its engine. One that waits for anything else keeps them waiting.
    ///
    /// # Errors
    /// [`Ended`] with the event, if the target has ended or takes no more. A target that ends while the event
    /// waits is counted as [`undelivered`](super::ContextStats::undelivered).
    #[inline]
    pub fn enqueue_to<T, X>(&mut self, target: &X, event: T) -> Result<(), Ended<T>>
    where
        T: Send + 'static,
        X: Target<T>,
    {
        self.send(target, event)?;
        self.run.counts.sent += 1;
        Ok(())
    }

    fn send<T, X>(&mut self, target: &X, event: T) -> Result<(), Ended<T>>
    where
        T: Send + 'static,
        X: sealed::Target<T>,
    {
        let packed = target.pack(event);
        let packed = match self.outbox {
            Some(_) => packed,
            None => match target.offer(packed) {
                Ok(task) => {
                    task.into_iter().for_each(Pool::hold_back);
                    return Ok(());
                }
                Err((Refusal::Closed, packed)) => return Err(Ended(X::unpack(packed))),
                Err((Refusal::Full, packed)) => packed,
            },
        };
        let parcel = Box::new(ParcelTo::new(target.kept(), packed));
        self.outbox.get_or_insert_default().push_back(parcel);
        Ok(())
    }

    /// Puts `event` at the end of this context's input queue after `time`, by the engine's clock; it is never
    /// refused. What is still to come when the context ends is dropped.
    pub fn after(&mut self, time: Duration, event: E) -> TimerId {
        let due = self.context.engine().monotonic().saturating_add(time);
        // The engine's: a context that has no timer left forgets how many it had.
        let id = TimerId { due, number: self.context.engine().fresh_id() };
        self.timers.get_or_insert_default().set(id, event);
        id
    }

    /// Takes a timer back. Its event, unless it has come.
    pub fn cancel(&mut self, timer: TimerId) -> Option<E> {
        self.timers.as_mut()?.pending.remove(&timer)
    }

    /// A context that is about to be started on the same engine. It is private unless that is said otherwise.
    pub fn context(&self, name: &str) -> ContextBuilder<'_> {
        ContextBuilder::new(self.context.engine(), name)
    }

    /// The time of day, by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.context.engine().settings().clock.now()
    }

    /// This context.
    pub fn this(&self) -> ContextHandle<E> {
        ContextHandle(self.context.clone())
    }

    /// Ends this context when the present event's handlers have run, and what they have sent has gone. What it
    /// has routed and what waits is dropped, and counted.
    pub fn end(&mut self) {
        self.run.wants_end = true;
    }
}
