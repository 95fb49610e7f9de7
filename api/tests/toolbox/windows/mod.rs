//! Windows and aggregates.

mod behind;
mod data;
mod faults;
mod naive;
mod questions;

use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{Engine, Query, QueryHandle, Status};

/// How long something may take that takes no time: only a guard against hanging.
const GUARD: Duration = Duration::from_secs(120);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs what `describe` describes to its end; what it returned, with the query.
fn run<R>(workers: usize, batch: usize, describe: impl FnOnce(&Query) -> R) -> (R, QueryHandle) {
    let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
    let query = Query::new("windows");
    let out = describe(&query);
    let handle = engine.submit(query).unwrap();
    assert_eq!(handle.wait_timeout(GUARD), Status::Completed, "{}", handle.plan().explain());
    (out, handle)
}

/// How many late events counted nowhere.
fn late_unused(query: &QueryHandle) -> u64 {
    query.chains().iter().map(|chain| chain.stats.late_unused).sum()
}
