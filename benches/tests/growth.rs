//! Keys that come and go leave nothing behind, in any operator that forgets by time.
//!
//! Each key has three events, 10 ms apart, and never comes again; one begins every millisecond. So some
//! hundreds of keys are there at any time, however many have been. Memory is what a counting allocator
//! has handed out and not got back, looked at when the engine is at rest: after each of twenty rounds.
//!
//! Left out is what keeps keys for ever by design: `apply_stateful`, `reduce` and `state_transition`,
//! `runs_of`, `pairwise`, `increase`, the edges and `distinct_until_changed` where they have no
//! `expire_after`, a `process` that does not clear, `as_of` and `lookup` without an age, count windows
//! that are partly filled and windows between events that nothing closes.

use std::alloc::System;
use std::time::{Duration, Instant};

use mizzle::aggregate::{count, sum};
use mizzle::time::{ManualClock, SignedDuration, Timestamp};
use mizzle::{
    BoxedStream, Engine, EngineError, ProcessCx, ProcessOp, PushHandle, Query, QueryHandle,
    Trigger, Windows,
};
use mizzle_benches::counting::{Counting, bytes_of};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const ROUNDS: u64 = 20;
/// How many keys come at once, and how many events wait: what is held meanwhile is kept small, and with
/// that the room that is kept for the next time.
const CHUNK: usize = 100;
const GUARD: Duration = Duration::from_secs(600);

/// An event of a key, its first (0) to its last (2).
#[derive(Clone, Copy, Debug)]
struct Visit {
    key: u64,
    number: u64,
}

impl Visit {
    fn time(&self) -> Timestamp {
        Timestamp::from_millis((self.key + 10 * self.number) as i64)
    }
}

fn key(visit: &Visit) -> u64 {
    visit.key
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts visits until none has come for a while.
struct Until;

impl ProcessOp<u64, Visit> for Until {
    type State = u64;
    type Out = u64;
    type Side = u64;

    fn event(&self, cx: &mut ProcessCx<'_, u64, u64, u64>, visits: &mut u64, _: Visit) {
        *visits += 1;
        cx.set_timer(cx.time() + ms(20));
        cx.set_processing_timer(Timestamp::MAX);
    }

    fn timer(&self, cx: &mut ProcessCx<'_, u64, u64, u64>, visits: &mut u64, _: Timestamp) {
        if *visits == 3 {
            cx.emit(*visits);
            cx.clear();
        }
    }
}

/// Puts an operator behind a stream, in order or not.
type Operator = fn(BoxedStream<Visit>, bool);

/// A kind of windows per key.
macro_rules! windows {
    ($windows:expr $(, $method:ident($argument:expr))*) => {
        |visits, flag| {
            let windows = visits.key_by(key).window($windows)$(.$method($argument))*;
            let sums = windows.aggregate((count(), sum(|visit: &Visit| visit.number)));
            sums.in_order_if(flag).for_each(|_| ());
        }
    };
}

/// A rule per key.
macro_rules! rule {
    ($($call:tt)*) => {
        |visits, flag| visits.key_by(key).$($call)*.in_order_if(flag).for_each(|_| ())
    };
}

/// Each visit and a later one of its key.
fn twice(visits: BoxedStream<Visit>) -> [BoxedStream<Visit>; 2] {
    let shared = visits.share();
    [shared.clone().boxed(), shared.boxed()]
}

const WINDOWS: &[(&str, Operator)] = &[
    ("tumbling", windows!(Windows::tumbling(ms(10)))),
    ("hopping", windows!(Windows::hopping(ms(20), ms(10)))),
    (
        "early and corrected",
        windows!(
            Windows::tumbling(ms(10)),
            allowed_lateness(ms(20)),
            early(Trigger::interval(ms(3)))
        ),
    ),
    ("cumulative", windows!(Windows::cumulative(ms(40), ms(10)))),
    ("session", windows!(Windows::session(ms(20)), allowed_lateness(ms(20)))),
    ("count", windows!(Windows::count(3))),
    (
        "between",
        windows!(Windows::between(|it: &Visit| it.number == 0, |it: &Visit| it.number == 2)),
    ),
    ("by the clock", |visits, flag| {
        let windows = visits.key_by(key).processing_window(Windows::tumbling(ms(10)));
        windows.aggregate(count()).in_order_if(flag).for_each(|_| ());
    }),
];

const RULES: &[(&str, Operator)] = &[
    ("distinct_for", rule!(distinct_for(ms(30)))),
    ("throttle_latest", rule!(throttle_latest(ms(15)))),
    ("sample", rule!(sample(ms(15)))),
    ("debounce", rule!(debounce(ms(15)))),
    ("count_within", rule!(count_within(ms(30)))),
    ("aggregate_within", rule!(aggregate_within(ms(30), count()))),
    ("count_reaches", rule!(count_reaches(2, ms(30)))),
    ("count_edges", rule!(count_edges(2, ms(30)))),
    (
        "expiring state",
        rule!(
            apply_stateful(0, |visits, _| {
                *visits += 1;
                *visits
            })
            .expire_after(ms(30))
        ),
    ),
    ("expiring pairs", rule!(pairwise().expire_after(ms(30)))),
];

const OTHERS: &[(&str, Operator)] = &[
    ("process", |visits, flag| {
        let (main, side) = visits.key_by(key).process(Until);
        main.in_order_if(flag).for_each(|_| ());
        side.for_each(|_| ());
    }),
    ("interval join", |visits, flag| {
        let [left, right] = twice(visits).map(|it| it.key_by(key));
        let within = SignedDuration::from_millis(5)..=SignedDuration::from_millis(15);
        left.join(right).within(within).full().in_order_if(flag).for_each(|_| ());
    }),
    ("window join", |visits, flag| {
        let [left, right] = twice(visits).map(|it| it.key_by(key));
        left.join(right)
            .window(Windows::tumbling(ms(20)))
            .full()
            .in_order_if(flag)
            .for_each(|_| ());
    }),
    ("as_of", |visits, flag| {
        let [left, right] = twice(visits).map(|it| it.key_by(key));
        left.as_of(right).no_older_than(ms(20)).left().in_order_if(flag).for_each(|_| ());
    }),
];

/// Operators at work, each in a query of its own.
struct Running {
    clock: ManualClock,
    pushes: Vec<PushHandle<Visit>>,
    queries: Vec<QueryHandle>,
    _engine: Engine,
}

impl Running {
    fn start(operators: &[(&str, Operator)]) -> Result<Self, EngineError> {
        let clock = ManualClock::default();
        let engine =
            Engine::builder().workers(2).inbox_capacity(CHUNK).clock(clock.clone()).build()?;
        let (mut pushes, mut queries) = (Vec::new(), Vec::new());
        for (name, operator) in operators {
            for in_order in [false, true] {
                let query = Query::new(*name);
                let (push, visits) = query.push_source("visits", Visit::time);
                operator(visits.boxed(), in_order);
                pushes.push(push);
                queries.push(engine.submit(query).expect("a query that can run"));
            }
        }
        Ok(Self { clock, pushes, queries, _engine: engine })
    }

    /// Keys in `first..first + keys` come, and all but the last few go.
    fn round(&self, first: u64, keys: u64) {
        for now in (first..first + keys).step_by(CHUNK) {
            self.clock.advance(ms(CHUNK as u64));
            let visits = (now..(now + CHUNK as u64).min(first + keys)).flat_map(|now| {
                let number = |number| Some(Visit { key: now.checked_sub(10 * number)?, number });
                (0..3).filter_map(number).collect::<Vec<_>>()
            });
            let visits: Vec<_> = visits.collect();
            self.pushes.iter().for_each(|push| push.push_all(visits.clone()).unwrap());
        }
        let begun = Instant::now();
        let rests = |query: &QueryHandle| query.chains().iter().all(|it| it.state == "idle");
        while !self.queries.iter().all(rests) {
            assert!(begun.elapsed() < GUARD, "the queries never come to rest");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How many bytes `operators` hold after each round, of as many keys as make `keys` together.
fn held(operators: &[(&str, Operator)], keys: u64) -> Vec<i64> {
    let running = Running::start(operators).unwrap();
    let (mut held, each) = (0, keys / ROUNDS);
    let after = |round| {
        held += bytes_of(|| running.round(round * each, each)).1;
        held
    };
    (0..ROUNDS).map(after).collect()
}

/// By how much the least that was held in the second half is more than that in the first, after the
/// rounds in which room is made that is kept for the next time.
fn growth(held: &[i64]) -> i64 {
    let steady = &held[held.len() / 5..];
    let (first, second) = steady.split_at(steady.len() / 2);
    second.iter().min().unwrap() - first.iter().min().unwrap()
}

#[test]
fn keys_that_come_and_go_leave_nothing() {
    let keys = if std::env::var_os("MIZZLE_LONG").is_some() { 1_000_000 } else { 20_000 };
    let operators = [WINDOWS, RULES, OTHERS].concat();
    // The key alone, left in one operator, would be eight bytes for each of two keys in five.
    let most = 2 * keys as i64;
    let begun = Instant::now();
    let held = self::held(&operators, keys);
    println!("{keys} keys in {:?}, bytes held after each round: {held:?}", begun.elapsed());
    println!("grown by {} bytes", growth(&held));
    if growth(&held) > most {
        let grows = |it: &&(&str, Operator)| growth(&self::held(&[**it], keys)) > most;
        let guilty: Vec<_> = operators.iter().filter(grows).map(|it| it.0).collect();
        panic!("memory grows by {} bytes, by itself in {guilty:?}", growth(&held));
    }
}
