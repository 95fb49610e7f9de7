//! Random DAGs against a naive evaluation of the sorted input.
//!
//! A program is described as data (`program`), built as a query (`build`) and worked out from sorted
//! lists (`naive`). Whatever the batch size, the room in inboxes and the number of workers, what is
//! behind an operator in order must be the same element by element, and what does not depend on order
//! the same as a multiset.

mod build;
mod calendar;
mod joins;
mod naive;
mod pace;
mod program;
mod rules;
mod strategies;
mod windows;

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use mizzle::time::ManualClock;
use mizzle::{Engine, Event, QueryHandle, Status};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::common::cases;
use build::Out;
use naive::{Naive, Trust};
use program::{Program, Value};

/// What an engine is made like.
#[derive(Clone, Copy, Debug)]
struct Setting {
    workers: usize,
    batch: usize,
    capacity: usize,
}

/// Far longer than any of these queries takes: only a hang comes here.
const GUARD: Duration = Duration::from_secs(60);

/// Gives what came to a sink, once the query is over.
type Sink = Box<dyn FnOnce() -> Vec<Event<Value>>>;

/// Receives from `sink`, if it is a channel, while the query runs.
fn looked_at(sink: Out) -> Sink {
    match sink {
        Out::Collected(collected) => Box::new(move || collected.events()),
        Out::Received(receiver) => {
            let receiving = thread::spawn(move || receiver.iter().collect());
            Box::new(move || receiving.join().expect("receiving does not panic"))
        }
    }
}

/// Runs `program` with one setting and compares.
fn check(program: &Program, expected: &[Naive], setting: Setting) -> Result<(), TestCaseError> {
    let Setting { workers, batch, capacity } = setting;
    let engine = Engine::builder().workers(workers).batch(batch).inbox_capacity(capacity);
    let engine = engine.clock(ManualClock::default()).build().unwrap();
    let (query, sinks, feeds) = build::build(program);
    let handle = engine.submit(query).unwrap();
    feeds.into_iter().for_each(|feed| drop(thread::spawn(feed)));
    let sinks: Vec<Sink> = sinks.into_iter().map(looked_at).collect();
    let status = handle.wait_timeout(GUARD);
    let plan = handle.plan().explain();
    if !status.is_over() {
        let chains = handle.chains();
        // Its workers may be stuck: dropping the engine would wait for them.
        std::mem::forget(engine);
        return Err(TestCaseError::fail(format!("hangs: {chains:#?}\n{plan}")));
    }
    prop_assert_eq!(status, Status::Completed, "{}", plan);
    prop_assert_eq!(sinks.len(), expected.len());
    for (index, (sink, expected)) in sinks.into_iter().zip(expected).enumerate() {
        let mut seen = build::seen(sink());
        let mut wanted = expected.on_time.clone();
        wanted.extend(&expected.late);
        match expected.trust {
            Trust::Nothing => continue,
            Trust::Bag => {
                seen.sort();
                wanted.sort();
            }
            Trust::Exact => {}
        }
        let trust = expected.trust;
        prop_assert_eq!(seen, wanted, "sink {} ({:?}) with {:?}\n{}", index, trust, setting, plan);
    }
    conserved(&handle)
}

/// What a partitioned query takes in is what left those that feed it, where these feed no other.
fn conserved(handle: &QueryHandle) -> Result<(), TestCaseError> {
    let pieces = handle.plan().pieces();
    let (mut taken, mut left): (HashMap<usize, u64>, HashMap<usize, u64>) = Default::default();
    for chain in handle.chains() {
        *taken.entry(chain.piece).or_default() += chain.stats.events_in;
        *left.entry(chain.piece).or_default() += chain.stats.events_out;
    }
    let readers = |from| pieces.iter().flat_map(|p| &p.inputs).filter(move |&&p| p == from).count();
    for (index, piece) in pieces.iter().enumerate() {
        if !piece.inputs.is_empty() && piece.inputs.iter().all(|&from| readers(from) == 1) {
            let from: u64 = piece.inputs.iter().map(|from| left[from]).sum();
            prop_assert_eq!(taken[&index], from, "piece {}\n{}", index, handle.plan().explain());
        }
    }
    Ok(())
}

fn setting() -> impl Strategy<Value = Setting> {
    let batch = prop_oneof![Just(1usize), 2usize..9, Just(1024)];
    let capacity = prop_oneof![Just(1usize), 2usize..9, Just(16 * 1024)];
    (1usize..=8, batch, capacity).prop_map(|(workers, batch, capacity)| Setting {
        workers,
        batch,
        capacity,
    })
}

#[test]
fn any_program_gives_what_the_naive_evaluation_gives() {
    let settings = prop::collection::vec(setting(), 1..4);
    let config = ProptestConfig {
        // A few seconds' worth, or an hour's.
        cases: cases(300, 100_000),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    };
    let checked =
        TestRunner::new(config).run(&(strategies::program(), settings), |(program, settings)| {
            let Some(expected) = naive::evaluate(&program) else {
                return Err(TestCaseError::reject("it has too many results"));
            };
            settings.into_iter().try_for_each(|setting| check(&program, &expected, setting))
        });
    if let Err(error) = checked {
        panic!("{error}");
    }
}
