//! Sources that queries share. The protocol stands in the runtime's README.md.

mod assemble;
mod derived;
mod due;
mod keyed;
mod lagging;
mod log;
mod publish;

pub use derived::{Declared, Derived, Found, Lease};
pub use keyed::{KeyIndex, KeySubscription};
pub use log::{Log, SharedStats};

pub(super) use due::Cell;
pub(super) use keyed::Seat;
pub(super) use log::{Cursor, Logged};
pub(super) use publish::Publish;

use std::sync::{Arc, Weak};

use crate::operator::{Failure, OpId};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::pool::{Task, TaskRef};
use super::query::{QueryCore, QueryId};

/// What becomes of a subscriber that is so many events behind its shared source as the source allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lag {
    /// Its query fails, and says why. Nothing is lost unnoticed, and nobody else is disturbed.
    #[default]
    Fail,
    /// It skips the oldest events. They are counted as lost.
    Drop,
    /// The source waits for it, and so do all other subscribers: for a source with one subscriber.
    Wait,
}

/// How a query subscribes.
#[derive(Clone, Default)]
pub struct Terms {
    /// What becomes of it at the lag limit.
    pub lag: Lag,
    /// What keeps the source running, if that is derived.
    pub lease: Option<Arc<Lease>>,
}

/// A subscriber of a shared source, as the source sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriberStats {
    /// The query that subscribes.
    pub query: QueryId,
    /// Its name.
    pub name: String,
    /// Whether it gets the events of one key only.
    pub on_key: bool,
    /// What becomes of it at the lag limit.
    pub policy: Lag,
    /// Events it has taken.
    pub seen: u64,
    /// Events it has lost by lagging behind.
    pub lost: u64,
    /// Events it has yet to take.
    pub lag: usize,
    /// What its chain is at: idle, queued, running, waiting for room, done.
    pub state: &'static str,
}

/// Who subscribes.
pub(super) struct Reader {
    query: Weak<QueryCore>,
    /// The operator that stands for the subscription.
    head: OpId,
    policy: Lag,
    task: OnceLock<Weak<dyn Task>>,
    /// By how many times the source's limit it may be behind, if that waits for it: once, but in a circle of
    /// waits.
    limits: AtomicUsize,
    /// Keeps what it reads running, if that is derived.
    _lease: Option<Arc<Lease>>,
}

impl Reader {
    fn new(query: Weak<QueryCore>, head: OpId, policy: Lag, lease: Option<Arc<Lease>>) -> Self {
        let (task, limits) = (OnceLock::new(), AtomicUsize::new(1));
        Self { query, head, policy, task, limits, _lease: lease }
    }

    /// The chain that takes the events, once there is one.
    fn task(&self) -> Option<TaskRef> {
        self.task.get().and_then(Weak::upgrade)
    }

    /// As `task`, to be kept.
    pub(super) fn weak_task(&self) -> Weak<dyn Task> {
        self.task.get().cloned().expect("a chain that runs has been attached")
    }

    /// Whether the source waits for it.
    pub(super) fn waits(&self) -> bool {
        self.policy == Lag::Wait
    }

    /// Whether the source, whose limit is `limit`, waits for it when it is `behind` so many events.
    fn is_waited_for(&self, behind: usize, limit: usize) -> bool {
        // Relaxed: raised by the source's chain, which asks.
        self.waits() && behind >= limit.saturating_mul(self.limits.load(Ordering::Relaxed))
    }

    fn attach(&self, task: Weak<dyn Task>) {
        let attached = self.task.set(task);
        assert!(attached.is_ok(), "a subscription is read by one chain");
    }

    /// Ends its query.
    fn fail(&self, seen: u64, message: String) {
        if let Some(query) = self.query.upgrade() {
            let operator = Some(self.head);
            let failure = Failure { operator, time: None, event: None, message };
            query.fail(failure, self.head, seen);
        }
    }

    /// At the limit of `source` when more came.
    fn overrun(&self, source: &str, limit: usize, seen: u64) {
        let Some(query) = self.query.upgrade() else { return };
        let message = format!(
            "query {:?} ({}) is {limit} events behind the shared source {source:?}, which is its lag \
             limit",
            query.name, query.id
        );
        drop(query);
        self.fail(seen, message);
    }

    /// What is known of it, beside its place.
    fn stats(&self, on_key: bool) -> Option<SubscriberStats> {
        let query = self.query.upgrade()?;
        Some(SubscriberStats {
            query: query.id,
            name: query.name.to_string(),
            on_key,
            policy: self.policy,
            seen: 0,
            lost: 0,
            lag: 0,
            state: self.task().map_or("new", |task| task.token().name()),
        })
    }
}
