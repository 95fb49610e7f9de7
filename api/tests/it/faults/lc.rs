//! The life cycle of queries.

use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::time::Timestamp;
use mizzle::{Engine, ProcessCx, ProcessOp, Query, Status, Windows, source};

use super::{GUARD, alone, at, budget, completed, engine, eventually, ms};

/// Adds a query with a keyed window, an ordered union and a sink, feeds it, and removes it.
fn cycle(engine: &Engine, number: i64) {
    let query = Query::new(format!("query {number}"));
    let (handle, stream) = query.push_source("n", |&n: &i64| at(n));
    let (odd, even) = stream.split(|n| n % 2 == 1);
    let out = odd
        .union(even)
        .key_by(|n| n % 3)
        .window(Windows::tumbling(ms(5)))
        .aggregate(count())
        .in_order_if(number % 2 == 0)
        .collect();
    let query = engine.submit(query).unwrap();
    (0..10).for_each(|n| handle.push(n).unwrap());
    match number % 3 {
        0 => query.drain(),
        1 => query.stop(),
        _ => query.cancel(),
    }
    let status = query.wait_timeout(GUARD);
    assert!(status.is_over(), "{status:?}");
    if status == Status::Completed {
        assert_eq!(out.values().iter().map(|window| window.value).sum::<u64>(), 10);
    }
}

/// Runs `cycles` cycles after as many again in vain, and checks what is left of them.
fn leaves_nothing_behind(engine: &Engine, cycles: usize, mut cycle: impl FnMut(i64)) {
    (0..cycles as i64 / 4).for_each(&mut cycle);
    let (memory, handles) = (super::resident(), super::handles());
    (0..cycles as i64).for_each(&mut cycle);
    assert!(engine.queries().is_empty());
    assert_eq!(super::handles(), handles);
    if let (Some(before), Some(after)) = (memory, super::resident()) {
        let grown = after.saturating_sub(before);
        assert!(grown < 3 << 20, "{cycles} cycles left {grown} bytes behind");
    }
}

#[test]
fn lc_01_adding_and_removing_leaves_no_memory_behind() {
    alone("faults::lc::lc_01_adding_and_removing_leaves_no_memory_behind", || {
        let engine = engine(2);
        leaves_nothing_behind(&engine, budget(4_000, 20_000), |number| cycle(&engine, number));
    });
}

#[test]
fn lc_01_submits_and_cancels_leave_no_memory_behind() {
    alone("faults::lc::lc_01_submits_and_cancels_leave_no_memory_behind", || {
        let engine = engine(2);
        leaves_nothing_behind(&engine, budget(20_000, 100_000), |_| {
            let query = Query::new("short-lived");
            let numbers = source::from_iter(0.., |&n: &i64| at(n));
            query.source("n", numbers).map(|n| n).reduce(|a, _| a).in_order().for_each(|_| ());
            let query = engine.submit(query).unwrap();
            query.cancel();
            assert_eq!(query.wait_timeout(GUARD), Status::Cancelled);
        });
    });
}

/// Counts events and collects the running count.
fn running_count(engine: &Engine, name: &str, events: i64) -> Vec<i64> {
    let query = Query::new(name);
    let out = query
        .source("n", source::from_iter(0..events, |&n| at(n)))
        .apply_stateful(0i64, |seen, _| {
            *seen += 1;
            *seen
        })
        .named(name)
        .collect();
    completed(&engine.submit(query).unwrap());
    out.values()
}

#[test]
fn lc_02_query_of_an_old_name_starts_afresh() {
    let engine = engine(2);
    assert_eq!(running_count(&engine, "q", 5), [1, 2, 3, 4, 5]);
    assert_eq!(running_count(&engine, "q", 1), [1]);
}

/// Alerts when something has been on for 60 seconds.
struct OnTooLong;

impl ProcessOp<(), (i64, bool)> for OnTooLong {
    type State = ();
    type Out = i64;
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, (), i64, ()>, (): &mut (), (_, on): (i64, bool)) {
        let due = cx.time() + Duration::from_secs(60);
        if on {
            cx.set_timer(due);
        } else {
            cx.clear();
        }
    }

    fn timer(&self, cx: &mut ProcessCx<'_, (), i64, ()>, (): &mut (), _: Timestamp) {
        cx.emit(cx.time().as_millis());
    }
}

#[test]
fn lc_05_timers_survive_changes_of_other_queries() {
    let engine = engine(2);
    let query = Query::new("alert");
    let (handle, stream) = query.push_source("switch", |&(time, _): &(i64, bool)| at(time));
    let (alerts, side) = stream.key_by(|_| ()).process(OnTooLong);
    let out = alerts.collect();
    drop(side);
    let alert = engine.submit(query).unwrap();
    handle.push((0, true)).unwrap();
    handle.advance(at(30_000));
    (0..10).for_each(|number| cycle(&engine, number));
    assert!(out.is_empty());
    handle.advance(at(60_000));
    eventually("the alert", || !out.is_empty());
    drop(handle);
    completed(&alert);
    assert_eq!(out.values(), [60_000]);
}

#[test]
fn lc_06_any_name_will_do() {
    let engine = engine(2);
    let long = "x".repeat(300);
    for name in ["0000007", "a b", "x';drop--", "\u{89c4}\u{5219}", "../x", "", &long] {
        assert_eq!(running_count(&engine, name, 3), [1, 2, 3], "{name:?}");
    }
}
