//! What the test programs of this package have in common.

use std::time::{Duration, Instant};

use mizzle::time::Timestamp;
use mizzle::{ChainStats, Engine, QueryHandle, Status};

/// How long something may take that takes no time: only a guard against hanging.
pub const GUARD: Duration = Duration::from_secs(60);

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn engine(workers: usize) -> Engine {
    Engine::builder().workers(workers).build().unwrap()
}

/// Waits until `reached` holds.
pub fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < GUARD, "never came: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until the query is over and checks that it has completed.
pub fn completed(query: &QueryHandle) {
    let status = query.wait_timeout(GUARD);
    assert_eq!(status, Status::Completed, "{}\n{:#?}", query.plan().explain(), query.chains());
}

/// How many random programs are tried: so many, or with `MIZZLE_LONG` as many as it says; if that is 1, or no number,
/// `long`.
pub fn cases(short: u32, long: u32) -> u32 {
    match std::env::var("MIZZLE_LONG").ok().map(|cases| cases.parse().unwrap_or(1)) {
        None => short,
        Some(1) => long,
        Some(cases) => cases,
    }
}

/// What every chain of a query has counted, summed up by `count`.
pub fn total(query: &QueryHandle, count: impl Fn(&ChainStats) -> u64) -> u64 {
    query.chains().iter().map(|chain| count(&chain.stats)).sum()
}
