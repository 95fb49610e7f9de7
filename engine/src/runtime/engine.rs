//! An engine: workers, timers and the queries they run.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use hdrhistogram::Histogram;

use crate::plan::{Plan, Spec};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Deadline, Mutex};
use crate::time::{Clock, SystemClock, Timestamp};

use super::actions::Actions;
use super::assemble::Assembler;
use super::chain::BATCH;
use super::context::{ContextBuilder, Contexts, Realms};
use super::outcome::Status;
use super::plans::Plans;
use super::pool::{Pool, Task, worker_index};
use super::port::DEFAULT_CAPACITY;
use super::query::{ChainReport, Control, QueryCore, QueryId};
use super::shared::Log;
use super::timers::Timers;

/// Why an engine could not be started or a query not be submitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting makes no sense.
    #[error("{setting} must be at least {least}, not {given}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// The smallest value that makes sense.
        least: usize,
        /// What it was set to.
        given: usize,
    },
    /// The machine gave no thread.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Settings of an engine.
#[derive(Clone)]
pub struct Settings {
    /// Worker threads.
    pub workers: usize,
    /// Events per batch, at most.
    pub batch: usize,
    /// The number of events in an inbox from which on it is full.
    pub inbox_capacity: usize,
    /// Events that a reorder stage or a union may hold before its query fails.
    pub hold_cap: usize,
    /// The engine's threads are named after it.
    pub name: String,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: crate::sync::available_parallelism().map_or(1, usize::from),
            batch: BATCH,
            inbox_capacity: DEFAULT_CAPACITY,
            hold_cap: 64 * 1024 * 1024,
            name: "mizzle".to_owned(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

/// What an engine shares with its chains.
pub struct Shared {
    settings: Settings,
    pool: Arc<Pool>,
    timers: Arc<Timers>,
    actions: Arc<Actions>,
    queries: DashMap<QueryId, Arc<QueryCore>>,
    plans: Plans,
    next_id: AtomicU64,
    realms: Realms,
    /// One per worker, so that no two share a line.
    accounts: Vec<Account>,
}

/// What a worker has done.
#[repr(align(128))]
struct Account {
    /// Latencies at sinks.
    latencies: Mutex<Histogram<u64>>,
    /// Events that it has taken from sources and inboxes.
    taken: AtomicU64,
}

impl Default for Account {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
        let latencies = Mutex::new(histogram.expect("bounds are valid"));
        Self { latencies, taken: AtomicU64::new(0) }
    }
}

impl Shared {
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.settings.workers
    }

    /// An id that neither a query nor a context has.
    pub(super) fn fresh_id(&self) -> u64 {
        // Relaxed: ids only have to differ.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The contexts, by type of event.
    pub(super) fn realms(&self) -> &Realms {
        &self.realms
    }

    pub(super) fn actions(&self) -> &Arc<Actions> {
        &self.actions
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The query `id` is over.
    pub(super) fn forget(&self, id: QueryId) {
        self.queries.remove(&id);
    }

    pub(super) fn arm(&self, due: Duration, task: std::sync::Weak<dyn Task>) {
        self.timers.arm(due, task);
    }

    pub(super) fn monotonic(&self) -> Duration {
        self.settings.clock.monotonic()
    }

    /// What the monotonic clock shows when the time of day is `time`, unless that is set anew meanwhile.
    pub(super) fn monotonic_at(&self, time: Timestamp) -> Duration {
        let now = self.settings.clock.now();
        self.monotonic().saturating_add(time.max(now).since(now))
    }

    pub(super) fn now_nanos(&self) -> u64 {
        self.monotonic().as_nanos() as u64 + 1
    }

    fn account(&self) -> &Account {
        &self.accounts[worker_index(&self.pool).unwrap_or(0)]
    }

    pub(super) fn record_latency(&self, nanos: u64, events: u64) {
        self.account().latencies.lock().saturating_record_n(nanos, events);
    }

    /// The worker at hand has taken `events`.
    pub(super) fn record_taken(&self, events: u64) {
        // Relaxed: a sum of its own, to which one worker adds.
        self.account().taken.fetch_add(events, Ordering::Relaxed);
    }
}

/// Hosts queries on a fixed number of workers.
///
/// Dropping it cancels every query, ends every context, and waits for the workers.
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// A setting below its least value, or a thread that cannot be started.
    pub fn start(settings: Settings) -> Result<Self, EngineError> {
        let checks = [
            ("workers", settings.workers),
            ("batch", settings.batch),
            ("inbox_capacity", settings.inbox_capacity),
            ("hold_cap", settings.hold_cap),
        ];
        for (setting, given) in checks {
            if given == 0 {
                return Err(EngineError::Setting { setting, least: 1, given });
            }
        }
        Self::start_checked(settings)
    }

    /// An engine on which nothing runs by itself.
    pub(super) fn without_workers(settings: Settings) -> Result<Self, EngineError> {
        Self::start_checked(Settings { workers: 0, ..settings })
    }

    fn start_checked(settings: Settings) -> Result<Self, EngineError> {
        let pool = Pool::start(&settings.name, settings.workers)?;
        let timers = match Timers::start(&settings.name, settings.clock.clone()) {
            Ok(timers) => timers,
            Err(error) => {
                pool.stop();
                return Err(error.into());
            }
        };
        let accounts = (0..settings.workers.max(1)).map(|_| Account::default()).collect();
        tracing::debug!(workers = settings.workers, "engine started");
        Ok(Self {
            shared: Arc::new(Shared {
                settings,
                pool,
                timers,
                queries: DashMap::new(),
                plans: Plans::default(),
                next_id: AtomicU64::new(1),
                actions: Arc::default(),
                realms: Realms::default(),
                accounts,
            }),
        })
    }

    /// A context that is about to be started.
    pub fn context(&self, name: &str) -> ContextBuilder<'_> {
        ContextBuilder::new(&self.shared, name)
    }

    /// What the contexts that handle events of type `E` have in common.
    pub fn contexts<E: Send + Sync + 'static>(&self) -> Contexts<E> {
        Contexts::of(&self.shared)
    }

    /// Tells all contexts to end.
    pub(super) fn cancel_contexts(&self) {
        self.shared.realms.cancel();
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.shared.pool
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// Plans `spec`, has `assemble` build its chains, and runs them.
    pub fn submit(
        &self,
        name: String,
        spec: Spec,
        assemble: impl FnOnce(&mut Assembler),
    ) -> QueryHandle {
        let plan = self.shared.plans.plan(spec, self.workers());
        let control = Control::new(self.shared.settings.clock.clone());
        let id = QueryId(self.shared.fresh_id());
        let core = QueryCore::new(id, name, plan, control, Arc::downgrade(&self.shared));
        let mut assembler = Assembler::new(self.shared.clone(), core.clone());
        assemble(&mut assembler);
        let chains = assembler.finish();
        self.shared.queries.insert(id, core.clone());
        tracing::debug!(query = %id, name = &*core.name, chains = chains.len(), "query submitted");
        core.start(chains);
        QueryHandle { core }
    }

    /// Whether `log`'s source runs here.
    pub fn owns<T: Send + Sync + 'static>(&self, log: &Log<T>) -> bool {
        log.is_of(&self.shared)
    }

    /// The queries that are not over, in the order in which they were submitted.
    pub fn queries(&self) -> Vec<QueryHandle> {
        let mut queries: Vec<_> =
            self.shared.queries.iter().map(|entry| entry.value().clone()).collect();
        queries.sort_by_key(|core| core.id);
        queries.into_iter().map(|core| QueryHandle { core }).collect()
    }

    /// The query `id`, unless it is over.
    pub fn query(&self, id: QueryId) -> Option<QueryHandle> {
        let core = self.shared.queries.get(&id)?.value().clone();
        Some(QueryHandle { core })
    }

    /// How many events each worker has taken from sources and inboxes since the engine started. An event
    /// that goes from chain to chain is taken in each.
    pub fn events_per_worker(&self) -> Vec<u64> {
        let taken = |account: &Account| account.taken.load(Ordering::Relaxed);
        self.shared.accounts.iter().map(taken).collect()
    }

    /// Latencies from sources to sinks since the engine started, in nanoseconds, of all workers.
    pub fn latencies(&self) -> Histogram<u64> {
        let mut all = self.shared.accounts[0].latencies.lock().clone();
        for worker in &self.shared.accounts[1..] {
            all += &*worker.latencies.lock();
        }
        all
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let queries = self.queries();
        queries.iter().for_each(QueryHandle::cancel);
        // Both, before anybody is awaited: they may wait for each other.
        self.shared.realms.cancel();
        for query in &queries {
            query.wait();
        }
        self.shared.realms.close();
        self.shared.actions.stop();
        self.shared.timers.stop();
        self.shared.pool.stop();
        tracing::debug!("engine stopped");
    }
}

/// A submitted query. Dropping it leaves the query running.
#[derive(Clone)]
pub struct QueryHandle {
    pub(super) core: Arc<QueryCore>,
}

impl QueryHandle {
    /// Its id, unique within its engine.
    pub fn id(&self) -> QueryId {
        self.core.id
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// How it was planned.
    pub fn plan(&self) -> &Plan {
        &self.core.plan
    }

    /// Ends its sources. What they have given is processed, everything open fires, sinks are
    /// closed. Returns at once; `wait` for the end.
    pub fn drain(&self) {
        self.core.drain();
    }

    /// Ends its sources. What they have given is processed; nothing open fires. Returns at once.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Abandons everything. Returns at once; after a `wait` none of its code runs any more.
    pub fn cancel(&self) {
        self.core.cancel();
    }

    /// Waits until it is over and says how it ended. On a worker of an engine that engine's other
    /// chains are run meanwhile.
    pub fn wait(&self) -> Status {
        Pool::block(|timeout| self.core.wait(timeout));
        self.core.status()
    }

    /// As `wait`, but gives up after `timeout` and says where the query stands.
    pub fn wait_timeout(&self, timeout: Duration) -> Status {
        let deadline = Deadline::after(timeout);
        Pool::block(|slice| {
            let left = deadline.left();
            self.core.wait(Some(slice.unwrap_or(left).min(left))) || left.is_zero()
        });
        self.core.status()
    }

    /// What each of its chains has counted.
    pub fn chains(&self) -> Vec<ChainReport> {
        self.core.chain_reports()
    }
}
