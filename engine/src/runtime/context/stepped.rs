//! Contexts without workers, one step at a time.

use std::sync::Arc;

use crate::sync::Mutex;

use super::super::engine::{Engine, EngineError, Settings};
use super::super::pool::{Task, TaskRef};
use super::handle::{ContextBuilder, ContextHandle};
use super::realm::Contexts;

/// An engine whose contexts run only when they are told to, for tests that go through one order of steps
/// after the other. Nothing runs by itself, the mover of the special queue neither; so what waits
/// ([`ContextHandle::send`] to a full context, [`ContextHandle::wait`]) waits for ever here: use
/// [`try_send`](ContextHandle::try_send) and [`status`](ContextHandle::status).
pub struct Stepped {
    engine: Engine,
    /// Out of the run queue, in order.
    queued: Mutex<Vec<TaskRef>>,
}

impl Stepped {
    /// An engine that goes by `settings`, but for the workers.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn new(settings: Settings) -> Result<Self, EngineError> {
        let engine = Engine::without_workers(settings)?;
        Ok(Self { engine, queued: Mutex::default() })
    }

    /// A context that is about to be started.
    pub fn context(&self, name: &str) -> ContextBuilder<'_> {
        self.engine.context(name)
    }

    /// What the contexts that handle events of type `E` have in common.
    pub fn contexts<E: Send + Sync + 'static>(&self) -> Contexts<E> {
        self.engine.contexts()
    }

    /// Has `context` handle up to `events` events, fewer if it has no more or must wait. How many it
    /// handled.
    pub fn step<E: Send + Sync + 'static>(
        &self,
        context: &ContextHandle<E>,
        events: usize,
    ) -> usize {
        let mut handled = 0;
        while handled < events
            && context.0.token().is_queued()
            && self.take(&(context.0.clone() as TaskRef))
        {
            handled += context.0.step((events - handled) as u64) as usize;
        }
        handled
    }

    /// Has `context` handle all it has and all that it routes meanwhile, unless it must wait. How many events
    /// it handled.
    pub fn run<E: Send + Sync + 'static>(&self, context: &ContextHandle<E>) -> usize {
        self.step(context, usize::MAX)
    }

    /// Has the mover take what is in the special queue of events of type `E` to the contexts that have room.
    /// `false`: it had nothing to do.
    pub fn move_enqueued<E: Send + Sync + 'static>(&self) -> bool {
        let contexts = self.contexts::<E>();
        let mover = contexts.mover();
        let mut moved = false;
        while mover.token().is_queued() && self.take(&(mover.clone() as TaskRef)) {
            mover.clone().run();
            moved = true;
        }
        moved
    }

    /// Takes `task` off the run queue, and moves its token to *running*.
    fn take(&self, task: &TaskRef) -> bool {
        let mut queued = self.queued.lock();
        queued.extend(std::iter::from_fn(|| self.engine.pool().take_offered()));
        let place = queued.iter().position(|known| Arc::ptr_eq(known, task));
        place.map(|place| queued.remove(place)).is_some_and(|task| task.token().begin())
    }

    /// Runs whatever there is, until there is nothing.
    fn run_out(&self) {
        let next = || self.queued.lock().pop().or_else(|| self.engine.pool().take_offered());
        while let Some(task) = next() {
            if task.token().begin() {
                task.run();
            }
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        self.engine.cancel_contexts();
        self.run_out();
    }
}
