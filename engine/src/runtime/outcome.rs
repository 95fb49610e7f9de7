//! How something that runs is meant to end, and how it ended.

use std::time::Duration;

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Condvar, Mutex, wait_while};

use super::query::QueryFailure;

/// Where a query, or a context, stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It takes events.
    Running,
    /// It has been told to end, a query by its sources; what was let in is being processed.
    Draining,
    /// It is told to stop: what was taken is processed, nothing fires.
    Stopping,
    /// It is told to abandon everything.
    Cancelling,
    /// All there was has been processed; everything open has fired.
    Completed,
    /// It was stopped.
    Stopped,
    /// It was cancelled.
    Cancelled,
    /// It could not go on.
    Failed(QueryFailure),
}

impl Status {
    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self, Status::Completed | Status::Stopped | Status::Cancelled | Status::Failed(_))
    }
}

/// How it is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum End {
    Drained = 1,
    Stopped,
    Cancelled,
}

/// How it is meant to end.
#[derive(Default)]
pub(super) struct Wish(AtomicU8);

impl Wish {
    /// Wishes only grow: what was told to stop cannot be drained any more.
    fn raise(&self, end: End) {
        // Release: pairs with the acquire below; who sees the wish sees what led to it.
        self.0.fetch_max(end as u8, Ordering::AcqRel);
    }

    #[inline]
    pub fn get(&self) -> Option<End> {
        const ENDS: [Option<End>; 4] =
            [None, Some(End::Drained), Some(End::Stopped), Some(End::Cancelled)];
        ENDS[usize::from(self.0.load(Ordering::Acquire))]
    }

    #[inline]
    pub fn is(&self, end: End) -> bool {
        self.0.load(Ordering::Acquire) == end as u8
    }
}

/// How it ended, and who waits for that.
#[derive(Default)]
pub(super) struct Outcome {
    ended: Mutex<Ended>,
    over: Condvar,
}

#[derive(Default)]
struct Ended {
    // Boxed: few fail, and there may be a great many that do not.
    failure: Option<Box<QueryFailure>>,
    over: bool,
}

impl Outcome {
    /// Raises `wish`, unless it is over: how it ended is not changed afterwards. Whether it was raised.
    pub fn wish(&self, wish: &Wish, end: End) -> bool {
        let ended = self.ended.lock();
        if !ended.over {
            wish.raise(end);
        }
        !ended.over
    }

    /// Why it could not go on, if so.
    pub fn failure(&self) -> Option<QueryFailure> {
        self.ended.lock().failure.as_deref().cloned()
    }

    /// It cannot go on. The first failure counts.
    pub fn fail(&self, failure: QueryFailure) {
        self.ended.lock().failure.get_or_insert(Box::new(failure));
    }

    /// It is over. Those who wait are told by [`tell`](Self::tell).
    pub fn finish(&self) {
        self.ended.lock().over = true;
    }

    /// Tells those who wait.
    pub fn tell(&self) {
        self.over.notify_all();
    }

    /// Where it stands, being meant to end as `wish` says.
    pub fn status(&self, wish: &Wish) -> Status {
        let ended = self.ended.lock();
        match (ended.over, &ended.failure, wish.get()) {
            (true, Some(failure), _) => Status::Failed((**failure).clone()),
            (true, None, Some(End::Cancelled)) => Status::Cancelled,
            (true, None, Some(End::Stopped)) => Status::Stopped,
            (true, None, _) => Status::Completed,
            (false, _, Some(End::Cancelled)) => Status::Cancelling,
            (false, _, Some(End::Stopped)) => Status::Stopping,
            (false, _, Some(End::Drained)) => Status::Draining,
            (false, _, None) => Status::Running,
        }
    }

    /// Waits until it is over, at most `limit` if there is one. `true`: it is.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        wait_while(&self.over, &mut self.ended.lock(), limit, |ended| !ended.over)
    }
}
