//! Workers, run queues, stealing and sleeping. The protocol stands in README.md.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Injector, Mutex, Steal, Stealer, Worker, thread};

use super::context::Node;
use super::sleep::Sleepers;
use super::token::{Queue, Token};

/// A chain as the pool sees it.
pub trait Task: Send + Sync + 'static {
    /// Who may run it.
    fn token(&self) -> &Token;

    /// The workers it runs on.
    fn pool(&self) -> &Arc<Pool>;

    /// Runs it for a while. The caller has moved the token to *running*; this leaves it.
    fn run(self: Arc<Self>);

    /// The query that it is of, among those that wait, if it is a chain.
    fn query(&self) -> Option<Node> {
        None
    }
}

/// A shared task.
pub type TaskRef = Arc<dyn Task>;

impl dyn Task {
    /// There is input, handed on by a chain whose own code has returned: it may run next on this
    /// worker.
    pub fn notify_next(self: Arc<Self>) {
        if self.token().notify() == Queue::Now {
            Pool::queue(self);
        }
    }

    /// There is input. Any worker must be able to take it: a user's function that has pushed may go
    /// on for long.
    pub fn notify(self: Arc<Self>) {
        if self.token().notify() == Queue::Now {
            Pool::offer(self);
        }
    }

    /// There is room, or the query is over. Whoever has made room goes on with what it took.
    pub fn wake(self: Arc<Self>) {
        if self.token().wake() == Queue::Now {
            Pool::offer(self);
        }
    }
}

/// Picks between two looks at the injector before anything else.
const INJECTOR_EVERY: u32 = 61;
/// How long a worker that waits in a user's function sleeps between two looks at the run queues.
const BLOCKED_LOOK: Duration = Duration::from_micros(200);
/// How often in a row the *next* slot is used before the run queue gets its turn.
const NEXT_IN_A_ROW: u32 = 16;

/// M workers and their run queues.
pub struct Pool {
    injector: Injector<TaskRef>,
    stealers: Vec<Stealer<TaskRef>>,
    sleepers: Sleepers,
    shutdown: AtomicBool,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// What the current thread is, if it is a worker.
struct Local {
    pool: Arc<Pool>,
    index: usize,
    queue: Worker<TaskRef>,
    next: Option<TaskRef>,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    /// Those who have been given input by code that goes on for a while.
    static HELD_BACK: RefCell<Vec<TaskRef>> = const { RefCell::new(Vec::new()) };
}

impl Pool {
    /// Starts `workers` threads named after `name`.
    pub fn start(name: &str, workers: usize) -> std::io::Result<Arc<Self>> {
        let queues: Vec<_> = (0..workers).map(|_| Worker::new_fifo()).collect();
        let pool = Arc::new(Self {
            injector: Injector::new(),
            stealers: queues.iter().map(Worker::stealer).collect(),
            sleepers: Sleepers::new(workers),
            shutdown: AtomicBool::new(false),
            threads: Mutex::new(Vec::with_capacity(workers)),
        });
        for (index, queue) in queues.into_iter().enumerate() {
            let shared = pool.clone();
            let spawned = thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || shared.work(index, queue));
            match spawned {
                Ok(thread) => pool.threads.lock().push(thread),
                Err(error) => {
                    pool.stop();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.sleepers.workers()
    }

    /// Puts a queued task where a worker will find it: the *next* slot of this worker if it is
    /// free, else this worker's run queue, else the injector.
    fn queue(task: TaskRef) {
        let rest = with_local(task.pool(), |local| {
            if local.next.is_none() {
                local.next = Some(task.clone());
                true
            } else {
                false
            }
        });
        if rest != Some(true) {
            Self::offer(task);
        }
    }

    /// Puts a queued task where any worker can take it.
    pub(super) fn offer(task: TaskRef) {
        let pool = task.pool().clone();
        let pushed = with_local(&pool, |local| local.queue.push(task.clone()));
        if pushed.is_none() {
            pool.injector.push(task);
        }
        pool.sleepers.wake_one();
    }

    /// `task` is to be notified when this thread's code has returned, or waits.
    pub(super) fn hold_back(task: TaskRef) {
        HELD_BACK.with_borrow_mut(|held| held.push(task));
    }

    /// Notifies those who were held back. If this worker has nothing else to do they may run `next` on it.
    #[inline]
    pub(super) fn tell(next: bool) {
        HELD_BACK.with_borrow_mut(|held| {
            for task in held.drain(..) {
                if next { task.notify_next() } else { task.notify() }
            }
        });
    }

    fn work(self: Arc<Self>, index: usize, queue: Worker<TaskRef>) {
        LOCAL.with_borrow_mut(|local| {
            *local = Some(Local { pool: self.clone(), index, queue, next: None });
        });
        let mut picks = Picks::default();
        let mut searching = false;
        while !self.is_shut_down() {
            if let Some(task) = self.pick(index, &mut picks) {
                if std::mem::take(&mut searching) {
                    self.sleepers.found();
                }
                if task.token().begin() {
                    task.run();
                }
            } else {
                let is_wanted = || self.has_queued() || self.is_shut_down();
                self.sleepers.sleep(index, std::mem::take(&mut searching), is_wanted);
                // Whoever wakes a worker counts it as searching.
                searching = true;
            }
        }
        // Tasks left in queues refer to this pool through their chains: let go of them.
        let left = LOCAL.with_borrow_mut(Option::take);
        drop(left);
    }

    fn pick(&self, index: usize, picks: &mut Picks) -> Option<TaskRef> {
        picks.total = picks.total.wrapping_add(1);
        if picks.total.is_multiple_of(INJECTOR_EVERY)
            && let Some(task) = steal(|| self.injector.steal())
        {
            self.give_next_away();
            return Some(task);
        }
        let (next, queued) = LOCAL.with_borrow_mut(|local| {
            let local = local.as_mut().expect("a worker has its local queue");
            if picks.next_in_a_row < NEXT_IN_A_ROW
                && let Some(task) = local.next.take()
            {
                return (Some(task), None);
            }
            let queued = local.queue.pop();
            let next = if queued.is_none() { local.next.take() } else { None };
            (next, queued)
        });
        if let Some(task) = next {
            picks.next_in_a_row += 1;
            return Some(task);
        }
        picks.next_in_a_row = 0;
        if queued.is_some() {
            self.give_next_away();
        }
        queued.or_else(|| steal(|| self.injector.steal())).or_else(|| {
            let others = (1..self.stealers.len()).map(|i| (index + i) % self.stealers.len());
            others.into_iter().find_map(|other| steal(|| self.stealers[other].steal()))
        })
    }

    /// Puts what is in this worker's *next* slot where it can be stolen: something else is run first,
    /// which may go on for long.
    fn give_next_away(&self) {
        if let Some(task) = LOCAL.with_borrow_mut(|local| local.as_mut()?.next.take()) {
            Self::offer(task);
        }
    }

    /// What was offered and not taken, for those who have no workers.
    pub(super) fn take_offered(&self) -> Option<TaskRef> {
        steal(|| self.injector.steal())
    }

    fn has_queued(&self) -> bool {
        !self.injector.is_empty() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn is_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::Acquire)
    }

    /// Waits for something outside: `wait` gets a time limit, or none, and says whether it came. On a
    /// worker, of whichever pool, that pool's other chains are run meanwhile: so a user's function
    /// which waits for its own engine cannot stop it, nor can two engines that wait for each other.
    pub(super) fn block(mut wait: impl FnMut(Option<Duration>) -> bool) {
        // What is waited for may come of them.
        Self::tell(false);
        let here = LOCAL
            .with_borrow(|local| local.as_ref().map(|local| (local.pool.clone(), local.index)));
        let Some((pool, index)) = here else {
            while !wait(None) {}
            return;
        };
        let mut picks = Picks::default();
        while !wait(Some(Duration::ZERO)) {
            match pool.pick(index, &mut picks) {
                Some(task) if task.token().begin() => task.run(),
                Some(_) => {}
                None => {
                    if wait(Some(BLOCKED_LOOK)) {
                        break;
                    }
                }
            }
        }
        pool.give_next_away();
    }

    /// Ends the workers, each after the task it is running, and waits for them. Called on a worker
    /// it does not wait for that one.
    pub fn stop(&self) {
        // SeqCst through the fence: a worker on its way to sleep sees the flag or is unparked.
        self.shutdown.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.sleepers.wake_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        let this = thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
            // A worker panics only on a broken invariant, which its own message has told.
            let _ = thread.join();
        }
        while steal(|| self.injector.steal()).is_some() {}
    }
}

#[derive(Default)]
struct Picks {
    total: u32,
    next_in_a_row: u32,
}

fn steal<T>(mut from: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match from() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

/// Runs `f` on this thread's worker, if it is one of `pool`'s.
fn with_local<R>(pool: &Arc<Pool>, f: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.with_borrow_mut(|local| {
        local.as_mut().filter(|local| Arc::ptr_eq(&local.pool, pool)).map(f)
    })
}

/// The index of the worker that the current thread is, if it is one of `pool`'s.
pub(super) fn worker_index(pool: &Arc<Pool>) -> Option<usize> {
    with_local(pool, |local| local.index)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Deadline;

    struct Job {
        token: Token,
        pool: Arc<Pool>,
        work: Box<dyn Fn() + Send + Sync>,
    }

    impl Task for Job {
        fn token(&self) -> &Token {
            &self.token
        }

        fn pool(&self) -> &Arc<Pool> {
            &self.pool
        }

        fn run(self: Arc<Self>) {
            (self.work)();
            assert_eq!(self.token.release(false), Queue::No);
        }
    }

    fn job(pool: &Arc<Pool>, work: impl Fn() + Send + Sync + 'static) -> TaskRef {
        Arc::new(Job { token: Token::default(), pool: pool.clone(), work: Box::new(work) })
    }

    #[derive(Clone, Default)]
    struct Flag(Arc<AtomicBool>);

    impl Flag {
        fn set(&self) {
            self.0.store(true, Ordering::Release);
        }

        fn is_set(&self) -> bool {
            self.0.load(Ordering::Acquire)
        }

        /// Holds the thread up as a user's function may, without running anything else.
        fn await_set(&self) -> bool {
            let guard = Deadline::after(Duration::from_secs(20));
            while !self.is_set() && !guard.left().is_zero() {
                thread::yield_now();
            }
            self.is_set()
        }
    }

    #[test]
    fn what_is_offered_wakes_a_worker() {
        let pool = Pool::start("test", 1).unwrap();
        for _ in 0..200 {
            let ran = Flag::default();
            let runs = ran.clone();
            job(&pool, move || runs.set()).notify();
            assert!(ran.await_set());
        }
        pool.stop();
    }

    /// Two workers, one of which is held up until the flag is set: what is queued meanwhile runs on
    /// the other.
    fn one_free_of_two() -> (Arc<Pool>, Flag) {
        let pool = Pool::start("test", 2).unwrap();
        let (held, let_go) = (Flag::default(), Flag::default());
        let (started, end) = (held.clone(), let_go.clone());
        job(&pool, move || {
            started.set();
            end.await_set();
        })
        .notify();
        assert!(held.await_set());
        (pool, let_go)
    }

    #[test]
    fn what_was_to_run_next_can_be_stolen_from_one_that_goes_on_after_a_wait() {
        let (pool, let_go) = one_free_of_two();
        let (ran, ready, stolen) = (Flag::default(), Flag::default(), Flag::default());
        let next = {
            let ran = ran.clone();
            job(&pool, move || ran.set())
        };
        let feeds = {
            let ready = ready.clone();
            job(&pool, move || {
                next.clone().notify_next();
                ready.set();
            })
        };
        let seen = stolen.clone();
        job(&pool, move || {
            feeds.clone().notify();
            Pool::block(|_| ready.is_set());
            let_go.set();
            if ran.await_set() {
                seen.set();
            }
        })
        .notify();
        assert!(stolen.await_set());
        pool.stop();
    }

    #[test]
    fn what_was_to_run_next_can_be_stolen_while_the_run_queue_has_its_turn() {
        let (pool, let_go) = one_free_of_two();
        let (ran, stolen) = (Flag::default(), Flag::default());
        let mut next = {
            let ran = ran.clone();
            job(&pool, move || ran.set())
        };
        for _ in 0..NEXT_IN_A_ROW {
            next = job(&pool, move || next.clone().notify_next());
        }
        let seen = stolen.clone();
        let queued = job(&pool, move || {
            let_go.set();
            if ran.await_set() {
                seen.set();
            }
        });
        job(&pool, move || {
            queued.clone().notify();
            next.clone().notify_next();
        })
        .notify();
        assert!(stolen.await_set());
        pool.stop();
    }
}
