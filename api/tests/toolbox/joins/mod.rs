//! Joins and control streams.

mod data;
mod faults;
mod guide;
mod property;

use std::time::Duration;

use mizzle::time::Timestamp;
use mizzle::{QueryHandle, Status};

/// How long something may take that takes no time: only a guard against hanging.
pub const GUARD: Duration = Duration::from_secs(120);

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until the query is over and checks that it has completed.
pub fn completed(query: &QueryHandle) {
    let status = query.wait_timeout(GUARD);
    assert_eq!(status, Status::Completed, "{}\n{:#?}", query.plan().explain(), query.chains());
}

/// Rows that came to a join late and were joined with nothing, in all chains together.
pub fn late_unused(query: &QueryHandle) -> u64 {
    query.chains().iter().map(|chain| chain.stats.late_unused).sum()
}
