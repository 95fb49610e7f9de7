//! The engine and its scheduler: one query beside another.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use mizzle::aggregate::{count, mean};
use mizzle::time::Watermarks;
use mizzle::{Engine, ProcessCx, ProcessOp, Query, QueryHandle, Status, WhenFull, Windows, source};

use super::{GUARD, at, budget, completed, engine, eventually, ms, total};

/// Something that a user's function waits at until it is opened.
#[derive(Clone)]
struct Gate(Arc<(Mutex<bool>, std::sync::Condvar)>);

impl Gate {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), std::sync::Condvar::new())))
    }

    fn pass(&self) {
        let (open, opened) = &*self.0;
        let guard = opened.wait_timeout_while(open.lock().unwrap(), GUARD, |open| !*open);
        assert!(!guard.unwrap().1.timed_out(), "the gate was never opened");
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A query that counts `events` events, with how many came out.
fn counting(engine: &Engine, events: usize) -> (QueryHandle, Arc<AtomicUsize>) {
    let query = Query::new("counting");
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    query.source("n", source::from_iter(0..events as i64, |&n| at(n))).map(|n| n + 1).for_each(
        move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        },
    );
    (engine.submit(query).unwrap(), seen)
}

#[test]
fn en_02_stuck_sink_stops_its_own_query_only() {
    let events = budget(20_000, 100_000);
    for when_full in [WhenFull::Wait, WhenFull::DropNewest, WhenFull::DropOldest] {
        let engine = Engine::builder().workers(2).inbox_capacity(256).build().unwrap();
        let query = Query::new("stuck");
        let stuck = query
            .source("n", source::from_iter(0..events as i64, |&n| at(n)))
            .map(|n| n)
            .channel(16, when_full);
        let query = engine.submit(query).unwrap();
        let (other, seen) = counting(&engine, events);
        completed(&other);
        assert_eq!(seen.load(Ordering::Relaxed), events);
        if when_full == WhenFull::Wait {
            let waiting = || query.chains().iter().any(|chain| chain.state == "waiting for room");
            eventually("the stall to show", waiting);
            assert_eq!(query.status(), Status::Running);
            let taken = query.chains().iter().map(|chain| chain.stats.events_in).max();
            assert!(taken.unwrap() < events as u64, "what waits is not bounded");
            assert_eq!(stuck.iter().count(), events);
            completed(&query);
        } else {
            completed(&query);
            let kept: Vec<_> = stuck.iter().map(|event| event.value).collect();
            assert_eq!(kept.len() as u64 + total(&query, |stats| stats.dropped), events as u64);
            assert_eq!(kept.contains(&0), when_full == WhenFull::DropNewest);
        }
    }
}

#[test]
fn en_03_query_behind_a_stuck_sink_can_be_removed() {
    let engine = engine(2);
    let query = Query::new("full channel");
    let full =
        query.source("n", source::from_iter(0.., |&n: &i64| at(n))).channel(4, WhenFull::Wait);
    let waits = engine.submit(query).unwrap();
    let gate = Gate::new();
    let query = Query::new("blocking function");
    let (entered, has_entered) = mpsc::channel();
    let held = gate.clone();
    query.source("n", source::from_iter(0.., |&n: &i64| at(n))).for_each(move |_| {
        let _ = entered.send(());
        held.pass();
    });
    let blocks = engine.submit(query).unwrap();
    has_entered.recv_timeout(GUARD).unwrap();
    waits.cancel();
    assert_eq!(waits.wait_timeout(GUARD), Status::Cancelled);
    blocks.cancel();
    assert_eq!(blocks.status(), Status::Cancelling);
    let (added, seen) = counting(&engine, 1_000);
    completed(&added);
    assert_eq!(seen.load(Ordering::Relaxed), 1_000);
    gate.open();
    assert_eq!(blocks.wait_timeout(GUARD), Status::Cancelled);
    drop(full);
}

#[test]
fn en_04_split_and_merge_with_tiny_inboxes_ends() {
    let events = budget(20_000, 1_000_000) as i64;
    for (workers, capacity) in [(1, 1), (1, 2), (2, 1), (8, 1), (8, 2)] {
        for in_order in [false, true] {
            let engine =
                Engine::builder().workers(workers).inbox_capacity(capacity).build().unwrap();
            let query = Query::new("diamond");
            let numbers = query.source("n", source::from_iter(1..=events, |&n| at(n))).share();
            let odd = numbers.clone().filter(|n| n % 2 == 1).map(|n| n);
            let nothing = numbers.clone().filter(|_| false);
            let halves = odd
                .union(nothing)
                .apply_stateful((), |(), n| n)
                .in_order_if(in_order)
                .map(|_| ())
                .collect();
            let twice = numbers
                .clone()
                .union_all([numbers])
                .apply_stateful(0, |seen, _| {
                    *seen += 1;
                    *seen
                })
                .in_order_if(in_order)
                .collect();
            completed(&engine.submit(query).unwrap());
            assert_eq!(halves.len() as i64, events / 2);
            assert!(twice.values().into_iter().eq(1..=2 * events));
        }
    }
}

/// How often the engine's threads have gone to sleep of their own will, where the system tells it.
fn switches() -> Option<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        if status.starts_with("Name:\tmizzle") {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            sum += line.split_whitespace().last()?.parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

#[test]
fn en_07_idle_engine_sleeps() {
    super::alone("faults::en::en_07_idle_engine_sleeps", || {
        let engine = engine(8);
        let mut pushes = Vec::new();
        for queries in [0, 1_000] {
            for number in 0..queries {
                let query = Query::new("idle");
                let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
                // One has a timer that is far away.
                let watermarks = match number {
                    0 => Watermarks::ascending().idle_after(ms(3_600_000)),
                    _ => Watermarks::ascending(),
                };
                stream.watermarks(watermarks).map(|n| n).for_each(|_| ());
                engine.submit(query).unwrap();
                pushes.push(handle);
            }
            // Until everybody sleeps, and then for a while: no thread may wake.
            let mut before = switches();
            eventually("rest", || {
                std::thread::sleep(ms(50));
                let now = switches();
                std::mem::replace(&mut before, now) == now
            });
            std::thread::sleep(ms(500));
            assert_eq!(switches(), before, "somebody woke up although nothing happened");
        }
    });
}

#[test]
fn en_12_work_handed_over_is_not_stuck_behind_a_long_call() {
    for round in 0..20 {
        let engine = engine(4);
        let (output, has_output) = mpsc::channel();
        let query = Query::new("woken");
        let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
        stream.map(|n| n + 1).for_each(move |event| output.send(event.value).unwrap());
        let woken = engine.submit(query).unwrap();
        let has_output = Mutex::new(has_output);
        let query = Query::new("long call");
        let out = query
            .source("n", source::from_iter([round], |&n| at(n)))
            .map(move |n| {
                handle.push(n).unwrap();
                // The call goes on until another worker has done what it handed over.
                has_output.lock().unwrap().recv_timeout(ms(10_000)).ok()
            })
            .collect();
        let long = engine.submit(query).unwrap();
        completed(&long);
        assert_eq!(out.values(), [Some(round + 1)], "stuck behind the call that handed it over");
        woken.cancel();
    }
}

#[test]
fn en_14_function_may_wait_for_its_own_engine() {
    for workers in [1, 4] {
        let engine = Arc::new(engine(workers));
        let query = Query::new("outer");
        let inner = Arc::downgrade(&engine);
        let out = query
            .source("n", source::from_iter(0..8, |&n: &i64| at(n)))
            .map(move |n| {
                let engine = inner.upgrade().expect("the engine runs this");
                let query = Query::new("inner");
                let out = query
                    .source("m", source::from_iter(0..100, |&m: &i64| at(m)))
                    .apply_stateful(0, move |sum, m| {
                        *sum += m * n;
                        *sum
                    })
                    .collect();
                engine.submit(query).unwrap().wait();
                out.values().last().copied()
            })
            .collect();
        let outer = engine.submit(query).unwrap();
        completed(&outer);
        let mut sums = out.values();
        sums.sort();
        assert!(sums.into_iter().eq((0..8).map(|n| Some(4_950 * n))));
    }
}

#[test]
fn en_14_blocked_workers_delay_others_only_as_long_as_they_block() {
    let engine = engine(4);
    let gate = Gate::new();
    let (entered, has_entered) = mpsc::channel();
    let blocked: Vec<_> = (0..4)
        .map(|_| {
            let query = Query::new("blocks");
            let (held, entered) = (gate.clone(), entered.clone());
            query
                .source("n", source::from_iter(0..3, |&n: &i64| at(n)))
                .map(move |n| {
                    entered.send(()).unwrap();
                    held.pass();
                    n
                })
                .for_each(|_| ());
            engine.submit(query).unwrap()
        })
        .collect();
    (0..4).for_each(|_| has_entered.recv_timeout(GUARD).unwrap());
    let (other, seen) = counting(&engine, 10);
    assert_eq!(other.status(), Status::Running);
    gate.open();
    completed(&other);
    assert_eq!(seen.load(Ordering::Relaxed), 10);
    blocked.iter().for_each(completed);
}

/// Does nothing with its events.
struct Silent;

impl ProcessOp<i64, i64> for Silent {
    type State = ();
    type Out = i64;
    type Side = i64;

    fn event(&self, _: &mut ProcessCx<'_, i64, i64, i64>, (): &mut (), _: i64) {}
}

#[test]
fn en_19_empty_streams_end() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = Query::new("empty");
        let closed = Arc::new(AtomicBool::new(false));
        let flag = closed.clone();
        let nothing = query.source("n", source::from_iter(0..0, |&n: &i64| at(n))).share();
        let reduced = nothing.clone().key_by(|&n| n).reduce(|a, b| a + b).collect();
        let mean = nothing
            .clone()
            .window(Windows::tumbling(ms(1)))
            .aggregate((count(), mean(|&n: &i64| n)))
            .in_order()
            .collect();
        let (out, side) = nothing.clone().key_by(|&n| n).process(Silent);
        let (out, side) = (out.collect(), side.collect());
        let machine =
            nothing.clone().state_transition(0, |_, &n| Some(n), |_| true).in_order().collect();
        let (hits, rest) = nothing.clone().split(|&n| n > 0);
        let union = hits.union_all([rest]).collect();
        let alone = nothing.clone().union_all([]).collect();
        nothing.sink(Closes(flag));
        let query = engine.submit(query).unwrap();
        completed(&query);
        let rows = reduced.len() + mean.len() + out.len() + side.len() + machine.len();
        assert_eq!(rows + union.len() + alone.len(), 0);
        assert!(closed.load(Ordering::Relaxed), "the sink was not closed");
        assert_eq!(total(&query, |stats| stats.events_in), 0);
    }
}

/// A sink that says that it was closed, and may be only once.
struct Closes(Arc<AtomicBool>);

impl mizzle::sink::Sink<i64> for Closes {
    fn event(&mut self, _: mizzle::Event<i64>) {}

    fn flush(&mut self) -> Result<(), mizzle::sink::SinkError> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), mizzle::sink::SinkError> {
        assert!(!self.0.swap(true, Ordering::Relaxed), "closed twice");
        Ok(())
    }
}
