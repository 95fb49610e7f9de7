//! The one door to concurrency.
//!
//! No other module names std's atomics, locks, threads or parking (`Arc` excepted), nor crossbeam or
//! parking_lot. Under `cfg(loom)` the same names are loom's, so that the hand-offs of
//! [`runtime`](crate::runtime) can be model-checked as they stand. loom cannot see into
//! crossbeam-deque: there a mutex around a `VecDeque` of the same shape takes its place, as it does
//! under `cfg(mizzle_tsan)`, because ThreadSanitizer does not see into it either.

pub use std::thread::available_parallelism;
use std::time::{Duration, Instant};

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The end of a wait with a time limit.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// `timeout` from now.
    pub fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        // A limit beyond what the clock can say, as `Duration::MAX`: a century is as good as never.
        Self(now.checked_add(timeout).unwrap_or_else(|| now + CENTURY))
    }

    /// How long until then; zero if it is past.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Waits while `holds` does of what is locked, at most `limit` if there is one. `true`: it holds no more.
pub fn wait_while<T>(
    changed: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    limit: Option<Duration>,
    mut holds: impl FnMut(&mut T) -> bool,
) -> bool {
    let deadline = limit.map(Deadline::after);
    while holds(guard) {
        match deadline.map(Deadline::left) {
            None => changed.wait(guard),
            Some(left) if left.is_zero() => return false,
            Some(left) => drop(changed.wait_for(guard, left)),
        }
    }
    true
}

#[cfg(not(loom))]
mod real {
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::OnceLock;
    pub use std::thread;

    /// std's atomics.
    pub mod atomic {
        pub use std::sync::atomic::{
            AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        };
    }
}

#[cfg(loom)]
mod real {
    use std::time::{Duration, Instant};

    pub use loom::thread;
    pub use std::sync::OnceLock;

    /// loom's atomics.
    pub mod atomic {
        pub use loom::sync::atomic::{
            AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        };
    }

    /// loom's mutex in parking_lot's shape.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    /// The guard of [`Mutex`]. Empty only while [`Condvar::wait`] has taken it apart.
    pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> std::ops::Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("a guard in use is whole")
        }
    }

    impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a guard in use is whole")
        }
    }

    impl<T> Mutex<T> {
        /// A mutex around `value`.
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        /// Waits for the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("a model does not poison its locks")))
        }

        /// Takes the lock if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    /// loom's condition variable in parking_lot's shape.
    #[derive(Debug, Default)]
    pub struct Condvar(loom::sync::Condvar);

    /// How a wait with a limit ended.
    pub struct InTime;

    impl InTime {
        /// Whether the limit was reached: never.
        pub fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        /// A condition variable nobody waits on.
        pub fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        /// Lets go of the lock, waits for a notification, and locks again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let taken = guard.0.take().expect("a guard in use is whole");
            guard.0 = Some(self.0.wait(taken).expect("a model does not poison its locks"));
        }

        /// As `wait`: in a model time stands still.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> InTime {
            self.wait(guard);
            InTime
        }

        /// As `wait`: in a model time stands still.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> InTime {
            self.wait(guard);
            InTime
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(not(any(loom, mizzle_tsan)))]
mod deque {
    pub use crossbeam_deque::{Injector, Steal, Stealer, Worker};
}

#[cfg(any(loom, mizzle_tsan))]
mod deque {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use super::Mutex;

    /// What an attempt to steal brought.
    #[derive(Debug)]
    pub enum Steal<T> {
        /// Nothing was there.
        Empty,
        /// This was.
        Success(T),
        /// Somebody else was at it: try again.
        Retry,
    }

    type Shared<T> = Arc<Mutex<VecDeque<T>>>;

    fn pop<T>(queue: &Shared<T>) -> Option<T> {
        queue.lock().pop_front()
    }

    fn steal<T>(queue: &Shared<T>) -> Steal<T> {
        pop(queue).map_or(Steal::Empty, Steal::Success)
    }

    /// The owner's end of a queue, first in first out.
    #[derive(Debug)]
    pub struct Worker<T>(Shared<T>);

    impl<T> Worker<T> {
        /// An empty queue.
        pub fn new_fifo() -> Self {
            Self(Arc::new(Mutex::new(VecDeque::new())))
        }

        /// A thief's end of it.
        pub fn stealer(&self) -> Stealer<T> {
            Stealer(self.0.clone())
        }

        /// Adds at the back.
        pub fn push(&self, task: T) {
            self.0.lock().push_back(task);
        }

        /// Takes from the front.
        pub fn pop(&self) -> Option<T> {
            pop(&self.0)
        }

        /// Whether it is empty.
        pub fn is_empty(&self) -> bool {
            self.0.lock().is_empty()
        }
    }

    /// A thief's end of a queue.
    #[derive(Debug)]
    pub struct Stealer<T>(Shared<T>);

    impl<T> Stealer<T> {
        /// Takes from the front.
        pub fn steal(&self) -> Steal<T> {
            steal(&self.0)
        }

        /// Whether it is empty.
        pub fn is_empty(&self) -> bool {
            self.0.lock().is_empty()
        }
    }

    /// A queue that any thread may push to.
    #[derive(Debug)]
    pub struct Injector<T>(Shared<T>);

    impl<T> Injector<T> {
        /// An empty queue.
        pub fn new() -> Self {
            Self(Arc::new(Mutex::new(VecDeque::new())))
        }

        /// Adds at the back.
        pub fn push(&self, task: T) {
            self.0.lock().push_back(task);
        }

        /// Takes from the front.
        pub fn steal(&self) -> Steal<T> {
            steal(&self.0)
        }

        /// Whether it is empty.
        pub fn is_empty(&self) -> bool {
            self.0.lock().is_empty()
        }
    }
}

pub use deque::{Injector, Steal, Stealer, Worker};
pub use real::*;
