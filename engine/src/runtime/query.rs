//! What the chains of one query have in common: how it is meant to end, how it ended, and its names.

use std::panic::Location;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::operator::{Failure, Flow, OpId};
use crate::plan::{Plan, Site};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::{Clock, Timestamp};

use super::chain::Chain;
use super::context::Node;
use super::engine::Shared;
use super::outcome::{End, Outcome, Status, Wish};
use super::pool::{Task, TaskRef};
use super::stats::ChainStats;

/// Names a query within its engine. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

impl std::fmt::Display for QueryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "q{}", self.0)
    }
}

/// Why a query could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "operator {operator:?} ({location}){}{}: {message}",
    .time.map(|time| format!(" at event time {time}")).unwrap_or_default(),
    .event.as_ref().map(|event| format!(", event {event}")).unwrap_or_default()
)]
#[non_exhaustive]
pub struct QueryFailure {
    /// The operator's name, or [`DROPPING`](Self::DROPPING).
    pub operator: String,
    /// The user's source line on which the operator was made, or what its partitioned query starts
    /// with.
    pub location: String,
    /// The event time it was working at, where there was one.
    pub time: Option<Timestamp>,
    /// The event it was working at, in words, behind `debug_events`.
    pub event: Option<String>,
    /// How many events its chain had taken before the batch it failed in.
    pub position: u64,
    /// What happened.
    pub message: String,
}

impl QueryFailure {
    /// Stands for the operator where none was at work: an event or a state was being dropped.
    pub const DROPPING: &str = "dropping an event";

    /// The failure of something that has no events' times, at a source line.
    pub(super) fn at(operator: String, location: String, position: u64, message: String) -> Self {
        Self { operator, location, time: None, event: None, position, message }
    }
}

/// How a query is meant to end, seen by its chains at every batch.
pub struct Control {
    wish: Wish,
    clock: Arc<dyn Clock>,
}

impl Control {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { wish: Wish::default(), clock }
    }

    /// How sources are to end, if they are to.
    pub fn ending(&self) -> Option<Flow> {
        self.wish.get().map(|end| if end == End::Drained { Flow::Ended } else { Flow::Halted })
    }

    /// Whether everything is to be abandoned.
    pub fn cancelled(&self) -> bool {
        self.wish.is(End::Cancelled)
    }

    /// The engine's clock in nanoseconds; never 0.
    pub fn now_nanos(&self) -> u64 {
        self.clock.monotonic().as_nanos() as u64 + 1
    }
}

/// Where a chain's events wait.
pub(super) trait Inflow: Send + Sync {
    /// How many there are.
    fn depth(&self) -> usize;

    /// The query is over, or is about to be: what it holds of other queries is given up. More than once
    /// is no harm.
    fn leave(&self) {}
}

/// The shared part of a query.
pub struct QueryCore {
    pub(super) id: QueryId,
    pub(super) name: Box<str>,
    pub(super) plan: Arc<Plan>,
    pub(super) control: Control,
    chains: Mutex<Chains>,
    remaining: AtomicUsize,
    outcome: Outcome,
    /// Where it is listed.
    engine: Weak<Shared>,
}

enum Chains {
    Live(Vec<Arc<Chain>>),
    /// What was counted, once the query is over and its chains are gone.
    Last(Vec<ChainReport>),
}

/// One chain in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChainReport {
    /// Which piece of the plan it runs.
    pub piece: usize,
    /// As which of the piece's shards.
    pub shard: u16,
    /// The names of its operators, source first.
    pub operators: Vec<String>,
    /// The state of its token: idle, queued, running, waiting for room, done.
    pub state: &'static str,
    /// Its counters.
    pub stats: ChainStats,
    /// The input that holds its watermark back, by name, where there are several.
    pub held_by: Option<String>,
}

impl QueryCore {
    /// What it is among those that wait.
    pub(super) fn node(&self) -> Option<Node> {
        self.engine.upgrade().map(|engine| Node::new(&engine, self.id.0))
    }

    pub(super) fn new(
        id: QueryId,
        name: String,
        plan: Arc<Plan>,
        control: Control,
        engine: Weak<Shared>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            name: name.into_boxed_str(),
            plan,
            control,
            chains: Mutex::new(Chains::Live(Vec::new())),
            remaining: AtomicUsize::new(0),
            outcome: Outcome::default(),
            engine,
        })
    }

    /// Says that so many chains are about to be made. From then on they may be run, and may even be
    /// over before the last one is made: `start` counts as one more until it has returned.
    pub(super) fn expect(&self, chains: usize) {
        self.remaining.store(chains + 1, Ordering::Release);
    }

    /// Takes the query's chains and sets them off.
    pub(super) fn start(&self, chains: Vec<Arc<Chain>>) {
        *self.chains.lock() = Chains::Live(chains);
        self.live().into_iter().for_each(|chain| (chain as TaskRef).notify());
        self.chain_over();
    }

    fn live(&self) -> Vec<Arc<Chain>> {
        match &*self.chains.lock() {
            Chains::Live(chains) => chains.clone(),
            Chains::Last(_) => Vec::new(),
        }
    }

    fn wake_all(&self) {
        self.live().into_iter().for_each(|chain| (chain as TaskRef).wake());
    }

    pub(super) fn drain(&self) {
        self.wish(End::Drained);
        self.wake_all();
    }

    pub(super) fn stop(&self) {
        self.wish(End::Stopped);
        self.wake_all();
    }

    fn wish(&self, end: End) {
        self.outcome.wish(&self.control.wish, end);
    }

    pub(super) fn cancel(&self) {
        self.wish(End::Cancelled);
        self.live().iter().for_each(|chain| chain.leave());
        self.wake_all();
    }

    /// Why it could not go on, if so.
    pub(super) fn failure(&self) -> Option<QueryFailure> {
        self.outcome.failure()
    }

    /// Ends the query because of `failure` of a chain that starts with `head` and had taken `position`
    /// events. The first failure counts.
    pub(super) fn fail(&self, failure: Failure, head: OpId, position: u64) {
        let failure = QueryFailure::new(&self.plan, failure, head, position);
        tracing::warn!(query = %self.id, name = &*self.name, %failure, "query failed");
        self.outcome.fail(failure);
        self.cancel();
    }

    /// One chain is over; the last one ends the query.
    pub(super) fn chain_over(&self) {
        // AcqRel: what each chain did is seen by the one that ends the query.
        if self.remaining.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let report = self.chain_reports();
        let chains = std::mem::replace(&mut *self.chains.lock(), Chains::Last(report));
        drop(chains);
        self.outcome.finish();
        tracing::debug!(query = %self.id, name = &*self.name, status = ?self.status(), "query over");
        if let Some(engine) = self.engine.upgrade() {
            engine.forget(self.id);
        }
        self.outcome.tell();
    }

    pub(super) fn status(&self) -> Status {
        self.outcome.status(&self.control.wish)
    }

    /// Waits until it is over, at most `timeout` if there is one. `true`: it is.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> bool {
        self.outcome.wait(timeout)
    }

    pub(super) fn chain_reports(&self) -> Vec<ChainReport> {
        let chains = match &*self.chains.lock() {
            Chains::Live(chains) => chains.clone(),
            Chains::Last(reports) => return reports.clone(),
        };
        let mut reports: Vec<_> = chains
            .iter()
            .map(|chain| {
                let (stats, (piece, shard)) = (chain.stats(), chain.place());
                ChainReport {
                    piece,
                    shard,
                    operators: self.plan.operator_names(piece),
                    state: chain.token().name(),
                    held_by: stats.holding.map(|input| self.plan.input_name(piece, input)),
                    stats,
                }
            })
            .collect();
        // As in the plan: sources first.
        reports.sort_by_key(|report| (report.piece, report.shard));
        reports
    }
}

impl QueryFailure {
    /// `failure` of one of `plan`'s operators, or of something that stands behind `head`, as users are
    /// told of it.
    pub(super) fn new(plan: &Plan, failure: Failure, head: OpId, position: u64) -> Self {
        let site = plan.site(failure.operator.unwrap_or(head));
        let dropping = || Self::DROPPING.to_owned();
        Self {
            operator: failure.operator.map_or_else(dropping, |_| site.name.clone()),
            location: site.place(),
            time: failure.time,
            event: failure.event,
            position,
            message: failure.message,
        }
    }
}

impl Site {
    fn place(&self) -> String {
        let location: &Location<'_> = self.location;
        format!("{}:{}:{}", location.file(), location.line(), location.column())
    }
}
