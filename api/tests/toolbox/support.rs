//! What the tests here have in common, with those of other programs and among themselves.

use mizzle::Engine;
use mizzle::time::ManualClock;

pub use crate::common::{GUARD, at, completed, engine, eventually, ms, total};

/// An engine by a clock that the test moves.
pub fn engine_by(clock: &ManualClock, workers: usize) -> Engine {
    Engine::builder().workers(workers).clock(clock.clone()).build().unwrap()
}

pub fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}
