//! Sources that queries share: subscribers, keys, lag, ends.

mod ends;
mod keys;
mod lag;
mod many;
mod steps;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mizzle::{Engine, Query, QueryHandle, SharedSource, Status, source};

use crate::faults::{GUARD, at, eventually};

fn engine(workers: usize, batch: usize) -> Engine {
    Engine::builder().workers(workers).batch(batch).build().unwrap()
}

/// The numbers below `end`, one each millisecond.
fn numbers(engine: &Engine, end: i64) -> SharedSource<i64> {
    engine.shared_source("numbers", source::from_iter(0..end, |&n| at(n))).open().unwrap()
}

fn over(query: &QueryHandle) -> Status {
    let status = query.wait_timeout(GUARD);
    assert!(status.is_over(), "hangs: {:#?}\n{}", query.chains(), query.plan().explain());
    status
}

fn completed(query: &QueryHandle) {
    assert_eq!(over(query), Status::Completed);
}

/// What a query sees, as it comes.
type Seen = Arc<Mutex<Vec<i64>>>;

/// A query that notes down what it sees of `source`.
fn noting(engine: &Engine, source: &SharedSource<i64>) -> (QueryHandle, Seen) {
    let (query, seen) = (Query::new("noting"), Seen::default());
    let notes = seen.clone();
    query.subscribe(source).for_each(move |event| notes.lock().unwrap().push(event.value));
    (engine.submit(query).unwrap(), seen)
}

/// Something that a user's function waits at until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn pass(&self) {
        eventually("an open gate", || self.0.load(Ordering::Acquire));
    }

    fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}
