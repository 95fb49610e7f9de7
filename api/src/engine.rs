//! An engine as users meet it.

use std::sync::Arc;

use hdrhistogram::Histogram;
use mizzle_engine::runtime::{
    self, ContextBuilder, Contexts, EngineError, QueryHandle, QueryId, Settings,
};
use mizzle_engine::time::Clock;

use crate::query::{BuildError, Query};

/// Hosts queries on a fixed number of worker threads.
///
/// Dropping it cancels every query, ends every context and waits for the workers; a user's function that never returns
/// makes that wait for ever.
pub struct Engine {
    inner: runtime::Engine,
}

impl Engine {
    /// An engine with a worker per core.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new() -> Result<Self, EngineError> {
        Self::builder().build()
    }

    /// An engine with settings of one's own.
    pub fn builder() -> EngineBuilder {
        EngineBuilder { settings: Settings::default() }
    }

    /// Checks `query`, plans it for this engine's workers and runs it, beside those that run. It runs
    /// until it is over or this engine is dropped, whatever becomes of the handle; so keep the engine
    /// in a variable (`Engine::new()?.submit(query)?` drops it at once).
    ///
    /// # Errors
    /// The first mistake in its description, with the operator's name and the source line.
    pub fn submit(&self, query: Query) -> Result<QueryHandle, BuildError> {
        let (name, spec, assemble) = query.finish(self)?;
        Ok(self.inner.submit(name, spec, assemble))
    }

    /// A context that is about to be started. It is private unless that is said otherwise. See
    /// [`context`](crate::context).
    pub fn context(&self, name: &str) -> ContextBuilder<'_> {
        self.inner.context(name)
    }

    /// What the contexts that handle events of type `E` have in common.
    pub fn contexts<E: Send + Sync + 'static>(&self) -> Contexts<E> {
        self.inner.contexts()
    }

    pub(crate) fn runtime(&self) -> &runtime::Engine {
        &self.inner
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.inner.workers()
    }

    /// The queries that are not over, in the order in which they were submitted.
    pub fn queries(&self) -> Vec<QueryHandle> {
        self.inner.queries()
    }

    /// The query `id`, unless it is over.
    pub fn query(&self, id: QueryId) -> Option<QueryHandle> {
        self.inner.query(id)
    }

    /// How many events each worker has taken from sources and inboxes since the engine started. An event
    /// that goes from one partitioned query to another is taken in both.
    pub fn events_per_worker(&self) -> Vec<u64> {
        self.inner.events_per_worker()
    }

    /// How long events took from their source to a sink, in nanoseconds, since the engine started.
    pub fn latencies(&self) -> Histogram<u64> {
        self.inner.latencies()
    }
}

/// Settings of an engine that is about to start.
#[must_use = "call `build`"]
pub struct EngineBuilder {
    settings: Settings,
}

impl EngineBuilder {
    /// How many worker threads; by default one per core.
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// How many events are taken together, at most; by default 1,024.
    pub fn batch(mut self, events: usize) -> Self {
        self.settings.batch = events;
        self
    }

    /// From how many events on an inbox is full; by default 16,384. Then those that feed it wait.
    pub fn inbox_capacity(mut self, events: usize) -> Self {
        self.settings.inbox_capacity = events;
        self
    }

    /// How many events a reorder stage or a union may hold while it waits for a watermark, before
    /// its query fails; by default 67,108,864.
    pub fn hold_cap(mut self, events: usize) -> Self {
        self.settings.hold_cap = events;
        self
    }

    /// What its threads are named after; by default "mizzle".
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.settings.name);
        self
    }

    /// What tells the time: for tests, a [`ManualClock`](crate::time::ManualClock).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Starts the engine.
    ///
    /// # Errors
    /// A setting that makes no sense, or a thread that cannot be started.
    pub fn build(self) -> Result<Engine, EngineError> {
        Ok(Engine { inner: runtime::Engine::start(self.settings)? })
    }
}
