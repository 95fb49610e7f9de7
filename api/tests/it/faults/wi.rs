//! Windows.

use std::time::Duration;

use mizzle::aggregate::{count, sum};
use mizzle::time::{ManualClock, Timestamp, WatermarkGenerator, Watermarks};
use mizzle::{BuildError, Engine, Query, WhenFull, Windows, source};

use super::{at, completed, counted, engine, eventually, ms, source_stats, total, windows};

/// What a count over `shape` gives for events in order.
fn count_of(times: &[i64], shape: Windows) -> Vec<(i64, i64, u64)> {
    let flags = [false, true].map(|flag| counted(times, &Watermarks::ascending(), shape, flag));
    let [unflagged, flagged] = flags;
    assert_eq!(unflagged, flagged);
    assert_eq!(flagged.late, 0);
    flagged.windows
}

#[test]
fn wi_01_every_event_is_in_one_tumbling_window() {
    let expected = [(0, 10, 2), (10, 20, 2), (20, 30, 1)];
    assert_eq!(count_of(&[0, 9, 10, 19, 20], Windows::tumbling(ms(10))), expected);
}

#[test]
fn wi_03_full_hopping_windows_do_not_alternate() {
    let times: Vec<i64> = (1..=30).collect();
    let counts: Vec<_> = count_of(&times, Windows::hopping(ms(5), ms(1)));
    let expected: Vec<_> = (2..=35i64)
        .map(|end| (end - 5, end, (end - 1).min(5).min(35 - end + 1).min(5) as u64))
        .filter(|&(.., count)| count > 0)
        .collect();
    assert_eq!(counts, expected);
}

#[test]
fn wi_04_times_before_zero() {
    let slack = Watermarks::bounded(ms(100));
    for in_order in [false, true] {
        let plain = counted(&[-1, -10, -11, 0], &slack, Windows::tumbling(ms(10)), in_order);
        assert_eq!(plain.windows, [(-20, -10, 1), (-10, 0, 2), (0, 10, 1)]);
        let shape = Windows::tumbling(ms(10)).offset(ms(5));
        let offset = counted(&[-1, -6, -5], &slack, shape, in_order);
        assert_eq!(offset.windows, [(-15, -5, 1), (-5, 5, 2)]);
    }
}

#[test]
fn wi_06_windows_may_start_before_zero() {
    let shape = Windows::hopping(ms(10), ms(5));
    assert_eq!(count_of(&[3, 5], shape), [(-5, 5, 1), (0, 10, 2), (5, 15, 1)]);
}

#[test]
fn wi_08_hop_need_not_divide_the_size() {
    let shape = Windows::hopping(ms(10), ms(3));
    assert_eq!(count_of(&[11], shape), [(3, 13, 1), (6, 16, 1), (9, 19, 1)]);
}

#[test]
fn wi_10_partly_late_event_leaves_no_residue() {
    // Unflagged it counts where it still can; in an ordered chain it is only counted as late.
    for (in_order, open, unused) in [(false, 101, 0), (true, 1, 1)] {
        let engine = Engine::builder().workers(2).batch(1).build().unwrap();
        let query = Query::new("partly late");
        let events = [(3, 1), (10, 1), (8, 100), (20, 1)];
        let out = query
            .source("events", source::from_iter(events, |&(time, _)| at(time)))
            .window(Windows::hopping(ms(10), ms(5)))
            .aggregate(sum(|&(_, value): &(i64, i64)| value))
            .in_order_if(in_order)
            .collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        let expected =
            [(-5, 5, 1), (0, 10, 1), (5, 15, open), (10, 20, 1), (15, 25, 1), (20, 30, 1)];
        assert_eq!(windows(&out), expected);
        assert_eq!(total(&query, |stats| stats.late_unused), unused);
    }
}

#[test]
fn wi_16_last_window_comes_with_the_end_only() {
    let engine = engine(2);
    let query = Query::new("quiet");
    let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
    let out = stream.window(Windows::tumbling(ms(5))).aggregate(count()).collect();
    let query = engine.submit(query).unwrap();
    [1, 2, 3].into_iter().for_each(|time| handle.push(time).unwrap());
    eventually("all events", || source_stats(&query, "times").events_in == 3);
    assert!(out.is_empty());
    drop(handle);
    completed(&query);
    assert_eq!(windows(&out), [(0, 5, 3)]);
}

#[test]
fn wi_19_bounds_are_event_time() {
    let expected = [(1_000_000, 1_000_010, 1), (1_000_010, 1_000_020, 1)];
    assert_eq!(count_of(&[1_000_003, 1_000_012], Windows::tumbling(ms(10))), expected);
}

#[test]
fn wi_22_slow_consumer_of_results_loses_nothing() {
    let engine = Engine::builder().workers(2).inbox_capacity(8).build().unwrap();
    let query = Query::new("slow sink");
    let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
    let results =
        stream.window(Windows::tumbling(ms(1))).aggregate(count()).channel(1, WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    let producer = std::thread::spawn(move || {
        (0..1_000).for_each(|n| handle.push(n / 3).unwrap());
    });
    let mut counts = 0;
    while let Some(window) = results.recv_timeout(super::GUARD) {
        std::thread::sleep(Duration::from_micros(500));
        counts += window.value.value;
    }
    producer.join().unwrap();
    completed(&query);
    assert_eq!(counts, 1_000);
}

/// Promises that nothing comes that is older than the clock.
#[derive(Clone)]
struct Wall(Timestamp);

impl WatermarkGenerator<i64> for Wall {
    fn observe(&mut self, _: Timestamp, _: &i64) {}

    fn watermark(&self) -> Timestamp {
        self.0
    }

    fn tick(&mut self, now: Timestamp) {
        self.0 = now;
    }

    fn interval(&self) -> Option<Duration> {
        Some(ms(1))
    }
}

#[test]
fn wi_23_window_by_the_clock_is_not_closed_a_tick_early() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("wall clock");
    let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
    let out = stream
        .watermarks(Watermarks::custom(Wall(Timestamp::MIN)))
        .window(Windows::tumbling(ms(1_000)))
        .aggregate(count())
        .collect();
    let query = engine.submit(query).unwrap();
    let source = || source_stats(&query, "times");
    clock.advance(ms(999));
    eventually("the tick of 999", || source().watermark == at(999));
    for taken in 1..=2 {
        handle.push(999).unwrap();
        eventually("the event", || source().events_in == taken);
    }
    assert!(out.is_empty());
    clock.advance(ms(1));
    eventually("the window", || !out.is_empty());
    handle.push(1_000).unwrap();
    drop(handle);
    completed(&query);
    assert_eq!(windows(&out), [(0, 1_000, 2), (1_000, 2_000, 1)]);
}

#[test]
fn wi_26_jump_over_decades_visits_no_empty_window() {
    let shape = Windows::hopping(ms(10_000), ms(1_000));
    let far = 1_585_200_000_000;
    let starts = (-9..=0).map(|hop| hop * 1_000);
    let expected: Vec<_> = starts
        .clone()
        .chain(starts.map(|start| far + start))
        .map(|start| (start, start + 10_000, 1))
        .collect();
    assert_eq!(count_of(&[1, far], shape), expected);
}

/// What `submit` says about a description that makes no sense, and that the engine goes on.
fn refused(describe: impl FnOnce(&Query)) -> String {
    let engine = engine(1);
    let query = Query::new("invalid");
    describe(&query);
    let error = match engine.submit(query) {
        Err(error) => error,
        Ok(_) => panic!("a description that makes no sense was accepted"),
    };
    assert!(matches!(&error, BuildError::Operator { location, .. } if location.contains("wi.rs")));
    assert!(engine.queries().is_empty());
    let query = Query::new("valid");
    let out = query.source("n", source::from_iter([1], |&n| at(n))).collect();
    completed(&engine.submit(query).unwrap());
    assert_eq!(out.values(), [1]);
    error.to_string()
}

#[test]
fn wi_27_invalid_parameters_are_refused_by_name() {
    let window = |shape: Windows| {
        refused(move |query| {
            let times = query.source("times", source::from_iter([1i64], |&time| at(time)));
            times.window(shape).aggregate(count()).for_each(|_| ());
        })
    };
    assert!(window(Windows::tumbling(ms(0))).contains("window size is zero"));
    assert!(window(Windows::hopping(ms(0), ms(1))).contains("window size is zero"));
    assert!(window(Windows::hopping(ms(1), ms(0))).contains("window hop is zero"));
    assert!(window(Windows::tumbling(Duration::MAX)).contains("window size"));
    let watermarks = |watermarks: Watermarks<i64>| {
        refused(move |query| {
            let times = query.source("times", source::from_iter([1i64], |&time| at(time)));
            times.watermarks(watermarks).for_each(|_| ());
        })
    };
    assert!(watermarks(Watermarks::periodic(ms(1), ms(0))).contains("`interval`"));
    assert!(watermarks(Watermarks::ascending().idle_after(ms(0))).contains("`idle_after`"));
}
