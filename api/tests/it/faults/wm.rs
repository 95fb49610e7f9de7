//! Watermarks.

use std::sync::mpsc;

use mizzle::aggregate::{count, sum};
use mizzle::time::{ManualClock, Timestamp, Watermarks};
use mizzle::{ChainReport, Engine, Query, QueryHandle, Status, Windows, source};

use super::{
    Counted, at, completed, counted, counted_in, engine, eventually, ms, source_stats, total,
    windows,
};

/// The chain that the union named "union" feeds.
fn union_of(query: &QueryHandle) -> ChainReport {
    let is_union = |chain: &ChainReport| chain.operators.iter().any(|name| name == "union");
    query.chains().into_iter().find(is_union).expect("the query has a union")
}

#[test]
fn wm_01_finished_input_counts_as_infinity() {
    for (workers, in_order) in [(1, false), (1, true), (4, false), (4, true)] {
        let engine = engine(workers);
        let query = Query::new("union");
        let (a, left) = query.push_source("a", |&time: &i64| at(time));
        let (b, right) = query.push_source("b", |&time: &i64| at(time));
        let out = left
            .union(right)
            .window(Windows::tumbling(ms(10)))
            .aggregate(count())
            .in_order_if(in_order)
            .collect();
        let query = engine.submit(query).unwrap();
        b.push(2).unwrap();
        drop(b);
        [1, 5, 12].into_iter().for_each(|time| a.push(time).unwrap());
        eventually("the first window", || !out.is_empty());
        assert_eq!(windows(&out), [(0, 10, 3)]);
        assert_eq!(query.status(), Status::Running);
        drop(a);
        completed(&query);
        assert_eq!(windows(&out), [(0, 10, 3), (10, 20, 1)]);
    }
}

/// Counts over the union of a busy source and one that stays open and silent.
fn beside_a_silent_input(idle: bool, spoke: bool) {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("union");
    let (a, left) = query.push_source("a", |&time: &i64| at(time));
    let (b, right) = query.push_source("b", |&time: &i64| at(time));
    let watermarks = || match idle {
        true => Watermarks::ascending().idle_after(ms(100)),
        false => Watermarks::ascending(),
    };
    let out = left
        .watermarks(watermarks())
        .union(right.watermarks(watermarks()))
        .window(Windows::tumbling(ms(10)))
        .aggregate(count())
        .collect();
    let query = engine.submit(query).unwrap();
    if spoke {
        b.push(0).unwrap();
    }
    [1, 3, 11].into_iter().for_each(|time| a.push(time).unwrap());
    let first = 2 + u64::from(spoke);
    for time in 12..20 {
        clock.advance(ms(20));
        a.push(time).unwrap();
    }
    if idle {
        eventually("the first window", || {
            // An event that was taken only now has made its source busy till now.
            clock.advance(ms(20));
            !out.is_empty()
        });
        assert_eq!(windows(&out), [(0, 10, first)]);
    } else {
        eventually("all events", || union_of(&query).stats.events_in == 9 + first);
        eventually("a report", || union_of(&query).held_by.is_some());
        let union = union_of(&query);
        assert_eq!(union.held_by.as_deref(), Some("b"));
        assert_eq!(union.stats.watermark, if spoke { at(0) } else { Timestamp::MIN });
        assert!(out.is_empty());
        drop(b);
        eventually("the first window", || !out.is_empty());
    }
    query.drain();
    completed(&query);
    assert_eq!(windows(&out), [(0, 10, first), (10, 20, 9)]);
    assert_eq!(total(&query, |stats| stats.late), 0);
}

#[test]
fn wm_02_silent_input_holds_back_until_it_is_idle_and_is_named() {
    beside_a_silent_input(true, true);
    beside_a_silent_input(false, true);
}

#[test]
fn wm_03_idle_clock_starts_with_the_query() {
    beside_a_silent_input(true, false);
    beside_a_silent_input(false, false);
}

#[test]
fn wm_05_all_idle_is_the_maximum_in_any_order() {
    for quiet in [[50, 100], [100, 50]] {
        let clock = ManualClock::default();
        let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
        let query = Query::new("union");
        let (one, left) = query.push_source("one", |&time: &i64| at(time));
        let (two, right) = query.push_source("two", |&time: &i64| at(time));
        let both = left.idle_after(ms(quiet[0])).union(right.idle_after(ms(quiet[1])));
        both.for_each(|_| ());
        let query = engine.submit(query).unwrap();
        one.push(5).unwrap();
        two.push(4).unwrap();
        eventually("both", || union_of(&query).stats.watermark == at(4));
        // Where the first to go idle is the slower input, the watermark is 5 from here on.
        clock.advance(ms(60));
        clock.advance(ms(60));
        eventually("the maximum", || union_of(&query).stats.watermark == at(5));
        eventually("all idle", || union_of(&query).held_by.is_none());
        assert_eq!(union_of(&query).stats.watermark, at(5));
    }
}

#[test]
fn wm_05_input_that_ends_does_not_make_an_idle_one_late() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("union");
    let (quiet, left) = query.push_source("quiet", |&time: &i64| at(time));
    let (brief, right) = query.push_source("brief", |&time: &i64| at(time));
    let out = left
        .idle_after(ms(50))
        .union(right)
        .window(Windows::tumbling(ms(10)))
        .aggregate(count())
        .collect();
    let query = engine.submit(query).unwrap();
    brief.push(25).unwrap();
    eventually("the event", || union_of(&query).stats.events_in == 1);
    clock.advance(ms(100));
    eventually("idleness", || union_of(&query).stats.watermark == at(25));
    drop(brief);
    eventually("its end", || union_of(&query).held_by.is_none());
    assert_eq!(union_of(&query).stats.watermark, at(25));
    quiet.push(30).unwrap();
    drop(quiet);
    completed(&query);
    assert_eq!(windows(&out), [(20, 30, 1), (30, 40, 1)]);
    assert_eq!(total(&query, |stats| stats.late), 0);
}

#[test]
fn wm_06_idle_source_still_ends() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("idle");
    let (times, stream) = query.push_source("times", |&time: &i64| at(time));
    let out =
        stream.idle_after(ms(50)).window(Windows::tumbling(ms(10))).aggregate(count()).collect();
    let query = engine.submit(query).unwrap();
    [1, 2, 3].into_iter().for_each(|time| times.push(time).unwrap());
    eventually("all events", || total(&query, |stats| stats.events_in) >= 3);
    clock.advance(ms(200));
    drop(times);
    completed(&query);
    assert_eq!(windows(&out), [(0, 10, 3)]);
}

#[test]
fn wm_07_events_in_flight_keep_a_source_from_closing_windows() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(4).clock(clock.clone()).build().unwrap();
    let query = Query::new("slow");
    let (slow, left) = query.push_source("slow", |&time: &i64| at(time));
    let (fast, right) = query.push_source("fast", |&time: &i64| at(time));
    let (entered, has_entered) = mpsc::sync_channel(8);
    let (open, gate) = mpsc::sync_channel::<()>(8);
    let gate = std::sync::Mutex::new(gate);
    let out = left
        .idle_after(ms(100))
        .map(move |time| {
            entered.send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            time
        })
        .union(right.map(|time| time))
        .window(Windows::tumbling(ms(10)))
        .aggregate(count())
        .collect();
    let query = engine.submit(query).unwrap();
    slow.push(5).unwrap();
    has_entered.recv().unwrap();
    // The source is quiet and drained for long, while its event is still on its way.
    fast.push(25).unwrap();
    clock.advance(ms(1_000));
    eventually("the event of the other source", || union_of(&query).stats.events_in == 1);
    for time in 26..30 {
        fast.push(time).unwrap();
        clock.advance(ms(1_000));
        eventually("its events", || union_of(&query).stats.events_in == time as u64 - 24);
    }
    assert!(out.is_empty(), "a window was closed over an event in flight");
    open.send(()).unwrap();
    eventually("the first window", || !out.is_empty());
    open.send(()).unwrap();
    slow.push(30).unwrap();
    query.drain();
    completed(&query);
    assert_eq!(windows(&out), [(0, 10, 1), (20, 30, 5), (30, 40, 1)]);
    assert_eq!(total(&query, |stats| stats.late), 0);
}

#[test]
fn wm_08_only_the_newest_watermark_is_kept() {
    super::alone("faults::wm::wm_08_only_the_newest_watermark_is_kept", || {
        let engine = engine(2);
        let query = Query::new("union");
        let (a, left) = query.push_source("a", |&time: &i64| at(time));
        let (b, right) = query.push_source("b", |&time: &i64| at(time));
        left.union(right).reduce(|a, b| a + b).in_order().for_each(|_| ());
        let query = engine.submit(query).unwrap();
        b.push(0).unwrap();
        let advances = super::budget(300_000, 5_000_000) as i64;
        (0..10_000).for_each(|time| a.advance(at(time)));
        let before = super::resident();
        (10_000..advances).for_each(|time| a.advance(at(time)));
        let after = super::resident();
        if let (Some(before), Some(after)) = (before, after) {
            let grown = after.saturating_sub(before);
            assert!(grown < 8 << 20, "{advances} watermarks left {grown} bytes behind");
        }
        eventually("the stall", || union_of(&query).stats.watermark == at(0));
        query.drain();
        completed(&query);
    });
}

#[test]
fn wm_10_watermarks_saturate() {
    let micros = Timestamp::from_micros;
    let (old, newest) = (-9_000_000_000_000_000_000, i64::MAX);
    for (times, unused) in [([1_000, old, newest], 1), ([old, 1_000, newest], 0)] {
        let engine = engine(2);
        let query = Query::new("extremes");
        let (handle, stream) = query.push_source("times", move |&time: &i64| micros(time));
        let out = stream
            .watermarks(Watermarks::bounded(ms(60)))
            .window(Windows::tumbling(std::time::Duration::from_micros(10)))
            .aggregate(count())
            .in_order()
            .collect();
        let query = engine.submit(query).unwrap();
        assert_eq!(source_stats(&query, "times").watermark, Timestamp::MIN);
        times.into_iter().for_each(|time| handle.push(time).unwrap());
        drop(handle);
        completed(&query);
        let mut seen: Vec<_> =
            out.values().iter().map(|window| (window.start, window.end, window.value)).collect();
        seen.sort();
        let mut expected = vec![
            (micros(1_000), micros(1_010), 1),
            (micros(newest - newest % 10), Timestamp::MAX, 1),
        ];
        if unused == 0 {
            expected.insert(0, (micros(old), micros(old + 10), 1));
        }
        assert_eq!(seen, expected);
        assert_eq!(total(&query, |stats| stats.late_unused), unused);
    }
}

#[test]
fn wm_11_equal_is_on_time_and_earlier_is_late() {
    let (times, slack) = ([1_000, 1_000, 999, 2_000], Watermarks::ascending());
    let shape = Windows::tumbling(ms(1_000));
    let windows = vec![(1_000, 2_000, 2), (2_000, 3_000, 1)];
    let got = counted(&times, &slack, shape, true);
    assert_eq!(got, Counted { windows: windows.clone(), late: 1, unused: 1 });
    // Unflagged, a late event counts in a window that is still open. When its window is closed
    // depends on how the batches are cut; that it is late does not.
    let cut = counted_in(&times, &slack, shape, false, 1, 1);
    assert_eq!(cut, Counted { windows, late: 1, unused: 1 });
    let whole = counted_in(&times, &slack, shape, false, 1, 4);
    let windows = vec![(0, 1_000, 1), (1_000, 2_000, 2), (2_000, 3_000, 1)];
    assert_eq!(whole, Counted { windows, late: 1, unused: 0 });
}

#[test]
fn wm_12_small_steps_back_are_nothing() {
    for in_order in [false, true] {
        let slack = Watermarks::bounded(ms(5));
        let times = [100, 99, 101, 100, 102, 250];
        let got = counted(&times, &slack, Windows::tumbling(ms(100)), in_order);
        let windows = vec![(0, 100, 1), (100, 200, 4), (200, 300, 1)];
        assert_eq!(got, Counted { windows, late: 0, unused: 0 });
    }
}

#[test]
fn wm_14_no_watermark_overtakes_the_results_before_it() {
    for (workers, in_order) in [(1, false), (1, true), (4, false), (4, true)] {
        let engine = engine(workers);
        let query = Query::new("cascade");
        let numbers = 0..20_000i64;
        let out = query
            .source("numbers", source::from_iter(numbers, |&n| at(n ^ 7)))
            .watermarks(Watermarks::bounded(ms(8)))
            .key_by(|n| n % 5)
            .window(Windows::hopping(ms(20), ms(10)))
            .aggregate(count())
            .in_order_if(in_order)
            .window(Windows::tumbling(ms(10)))
            .aggregate(sum(|window: &mizzle::Windowed<i64, u64>| window.value))
            .in_order_if(in_order)
            .collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        let sums: u64 = out.values().iter().map(|window| window.value).sum();
        assert_eq!(sums, 40_000);
        assert_eq!(total(&query, |stats| stats.late), 0);
        assert_eq!(out.len(), 2_001);
    }
}
