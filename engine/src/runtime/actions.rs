//! What queries have done outside, on one thread of the engine.
//!
//! Each operator with actions has a *lane*: what waits there, in order, and at most so much. The thread takes
//! the lanes that have something in turn, some actions of each. It starts with the first lane. A query is over
//! when its actions are: its last chain waits for them as for anything outside, so that its worker runs other
//! chains meanwhile.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::event::Event;
use crate::operator::{Consumer, Cx, Failure, Flow, OpId, panic_message};
use crate::situation::Act;
use crate::state::{StateError, Visit};
use crate::sync::{Condvar, Mutex, thread, wait_while};
use crate::time::Timestamp;

use super::assemble::Assembler;
use super::channel::{WhenFull, accept};
use super::pool::{Pool, TaskRef};
use super::port::Room;
use super::query::QueryCore;

/// How many actions of a lane run before the next lane is looked at.
const TURN: usize = 64;

/// The lanes that have something to do, and the thread that does it.
#[derive(Default)]
pub(super) struct Actions {
    ready: Mutex<Ready>,
    changed: Condvar,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Ready {
    lanes: VecDeque<Arc<dyn Lane>>,
    stopped: bool,
}

/// Where actions of one operator wait.
trait Lane: Send + Sync {
    /// Runs some of them. Whether there are more.
    fn run(&self) -> bool;
}

impl Actions {
    /// Starts the thread, unless it runs.
    fn start(self: &Arc<Self>, name: &str) -> std::io::Result<()> {
        let mut running = self.thread.lock();
        if running.is_none() {
            let this = self.clone();
            let builder = thread::Builder::new().name(format!("{name}-actions"));
            *running = Some(builder.spawn(move || this.work())?);
        }
        Ok(())
    }

    fn work(&self) {
        let mut ready = self.ready.lock();
        while !ready.stopped {
            let Some(lane) = ready.lanes.pop_front() else {
                self.changed.wait(&mut ready);
                continue;
            };
            drop(ready);
            let has_more = lane.run();
            ready = self.ready.lock();
            if has_more {
                ready.lanes.push_back(lane);
            }
        }
    }

    fn look_at(&self, lane: Arc<dyn Lane>) {
        self.ready.lock().lanes.push_back(lane);
        self.changed.notify_one();
    }

    /// Ends the thread, after the action it is running.
    pub(super) fn stop(&self) {
        self.ready.lock().stopped = true;
        self.changed.notify_one();
        let running = self.thread.lock().take();
        if let Some(running) = running
            && running.thread().id() != thread::current().id()
        {
            // Actions that panic are caught: it cannot have panicked but by a bug that has been told.
            let _ = running.join();
        }
        // They refer to this.
        let left = std::mem::take(&mut self.ready.lock().lanes);
        drop(left);
    }
}

struct LaneOf<E> {
    op: OpId,
    query: Weak<QueryCore>,
    home: Arc<Actions>,
    capacity: usize,
    when_full: WhenFull,
    waiting: Mutex<Waiting<E>>,
    done: Condvar,
}

struct Waiting<E> {
    acts: VecDeque<Event<Act<E>>>,
    /// Chains that wait for room.
    tasks: Vec<TaskRef>,
    /// Whether the thread has it, or is about to.
    is_ready: bool,
    running: bool,
    /// Nothing more is to be done.
    closed: bool,
    taken: u64,
}

impl<E: Send + 'static> LaneOf<E> {
    /// Waits until nothing waits or runs; if it is `closed`, until nothing runs.
    fn finish(&self) {
        let is_over =
            |waiting: &Waiting<E>| !waiting.running && (waiting.acts.is_empty() || waiting.closed);
        Pool::block(|limit: Option<Duration>| {
            wait_while(&self.done, &mut self.waiting.lock(), limit, |waiting| !is_over(waiting))
        });
    }

    /// Takes the next action. Whoever waited for the room is woken.
    fn next(&self) -> Option<(Event<Act<E>>, u64)> {
        let mut waiting = self.waiting.lock();
        waiting.running = false;
        let next = if waiting.closed { None } else { waiting.acts.pop_front() };
        let Some(next) = next else {
            waiting.is_ready = false;
            drop(waiting);
            self.done.notify_all();
            return None;
        };
        waiting.running = true;
        waiting.taken += 1;
        let taken = waiting.taken;
        let tasks = if waiting.acts.len() < self.capacity {
            std::mem::take(&mut waiting.tasks)
        } else {
            Vec::new()
        };
        drop(waiting);
        tasks.into_iter().for_each(|task| task.wake());
        Some((next, taken))
    }

    /// Drops what waits, and takes no more.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let acts = std::mem::take(&mut waiting.acts);
        let tasks = std::mem::take(&mut waiting.tasks);
        drop(waiting);
        drop(acts);
        tasks.into_iter().for_each(|task| task.wake());
        self.done.notify_all();
    }
}

impl<E: Send + 'static> Lane for LaneOf<E> {
    fn run(&self) -> bool {
        for _ in 0..TURN {
            let Some((Event { time, value: Act { action, event } }, taken)) = self.next() else {
                return false;
            };
            let run = AssertUnwindSafe(|| {
                (action.call)(&event);
                drop(event);
            });
            let Err(payload) = catch_unwind(run) else { continue };
            let message = format!("action {:?} panicked: {}", action.name, panic_message(payload));
            let query = self.query.upgrade();
            if let Some(query) = &query {
                let failure =
                    Failure { operator: Some(self.op), time: Some(time), event: None, message };
                query.fail(failure, self.op, taken);
            }
            // Only now: the query is over when its actions are, and none of its code runs after that.
            self.waiting.lock().running = false;
            self.close();
            // And this may be the last that refers to it.
            drop(query);
        }
        true
    }
}

impl<E: Send + 'static> Room for LaneOf<E> {
    fn has_room(&self) -> bool {
        let waiting = self.waiting.lock();
        self.when_full != WhenFull::Wait || waiting.closed || waiting.acts.len() < self.capacity
    }

    fn wait(&self, task: &TaskRef) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.acts.len() < self.capacity {
            return false;
        }
        if !waiting.tasks.iter().any(|other| Arc::ptr_eq(other, task)) {
            waiting.tasks.push(task.clone());
        }
        true
    }
}

/// Hands actions to the engine's action thread.
pub struct ActionsOp<E>(Arc<LaneOf<E>>);

impl Assembler {
    /// The end of a chain that hands actions, of which at most `capacity` wait, to the action thread.
    pub fn actions<E: Send + 'static>(
        &mut self,
        op: OpId,
        capacity: usize,
        when_full: WhenFull,
    ) -> ActionsOp<E> {
        let home = self.engine.actions().clone();
        let waiting = Waiting {
            acts: VecDeque::new(),
            tasks: Vec::new(),
            is_ready: false,
            running: false,
            closed: false,
            taken: 0,
        };
        let lane = Arc::new(LaneOf {
            op,
            query: Arc::downgrade(&self.query),
            home,
            capacity: capacity.max(1),
            when_full,
            waiting: Mutex::new(waiting),
            done: Condvar::new(),
        });
        if let Err(error) = lane.home.start(&self.engine.settings().name) {
            let message = format!("the action thread could not be started: {error}");
            let failure = Failure { operator: Some(op), time: None, event: None, message };
            self.query.fail(failure, op, 0);
        }
        self.room(lane.clone());
        ActionsOp(lane)
    }
}

/// What waits for the end of the batch.
pub struct Handing<E: Send + 'static> {
    batch: Vec<Event<Act<E>>>,
    lane: Arc<LaneOf<E>>,
}

impl<E: Send + 'static> Drop for Handing<E> {
    fn drop(&mut self) {
        self.lane.close();
        self.lane.finish();
    }
}

impl<E: Send + 'static> Consumer<Act<E>> for ActionsOp<E> {
    type State = Handing<E>;

    fn state(&self) -> Handing<E> {
        Handing { batch: Vec::new(), lane: self.0.clone() }
    }

    fn event(&self, state: &mut Handing<E>, _: &mut Cx, event: Event<Act<E>>) {
        state.batch.push(event);
    }

    fn watermark(&self, _: &mut Handing<E>, _: &mut Cx, _: Timestamp) {}

    fn end(&self, state: &mut Handing<E>, cx: &mut Cx) {
        self.flush(state, cx);
        state.lane.finish();
    }

    fn flush(&self, state: &mut Handing<E>, cx: &mut Cx) {
        let Handing { batch, lane } = state;
        if !batch.is_empty() {
            cx.counters.out += batch.len() as u64;
            let mut waiting = lane.waiting.lock();
            let dropped = if waiting.closed {
                batch.drain(..).len()
            } else {
                accept(&mut waiting.acts, batch, lane.capacity, lane.when_full)
            };
            let is_new = !waiting.is_ready && !waiting.acts.is_empty();
            waiting.is_ready |= is_new;
            drop(waiting);
            cx.counters.dropped += dropped as u64;
            if is_new {
                lane.home.look_at(lane.clone());
            }
        }
        if cx.flow == Flow::Halted {
            lane.finish();
        }
    }

    fn next_timer(&self, _: &Handing<E>) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut Handing<E>, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}
