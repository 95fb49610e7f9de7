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

/// How many events the first operator behind the source of `query` is done with. The source may have taken
/// more.
pub fn processed(query: &mizzle::QueryHandle) -> u64 {
    let chains = query.chains();
    let piece = usize::from(chains.iter().any(|chain| chain.piece == 1));
    let own = chains.iter().filter(|chain| chain.piece == piece);
    own.map(|chain| chain.stats.events_in).sum()
}
