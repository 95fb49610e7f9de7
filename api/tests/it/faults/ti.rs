//! Time stamps and timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::time::{ManualClock, Timestamp, WatermarkGenerator, Watermarks};
use mizzle::{Engine, ProcessCx, ProcessOp, Query, Windows, source};

use super::{at, budget, completed, engine, eventually, ms};

#[test]
fn ti_02_unit_of_a_time_stamp_is_explicit() {
    let engine = engine(1);
    let starts = |times: Vec<Timestamp>| {
        let query = Query::new("units");
        let out = query
            .source("times", source::from_iter(times, |&time| time))
            .window(Windows::tumbling(Duration::from_secs(60)))
            .aggregate(count())
            .collect();
        completed(&engine.submit(query).unwrap());
        out.values().iter().map(|window| window.start.to_string()).collect::<Vec<_>>()
    };
    let nanos = 1_636_000_000_000_000_000i64;
    let times = vec![
        Timestamp::from_secs(1_636_000_000),
        Timestamp::from_micros(nanos / 1_000),
        Timestamp::from_millis(1_636_000_061_500),
    ];
    assert_eq!(starts(times), ["2021-11-04T04:26:00Z", "2021-11-04T04:27:00Z"]);
}

#[test]
fn ti_03_days_are_24_hours_with_an_offset() {
    let engine = engine(1);
    let query = Query::new("days");
    // Midnight in Los Angeles, outside daylight saving time, is 8 o'clock in UTC.
    let times = [1_615_708_799, 1_615_708_800, 1_615_791_599];
    let out = query
        .source("times", source::from_iter(times, |&time| Timestamp::from_secs(time)))
        .window(Windows::tumbling(Duration::from_secs(86_400)).offset(Duration::from_secs(28_800)))
        .aggregate(count())
        .collect();
    completed(&engine.submit(query).unwrap());
    let days: Vec<_> = out.values().iter().map(|w| (w.start.to_string(), w.value)).collect();
    let expected = [("2021-03-13T08:00:00Z", 1), ("2021-03-14T08:00:00Z", 2)];
    assert_eq!(days, expected.map(|(day, count)| (day.to_owned(), count)));
}

/// Counts how often it was told the time.
#[derive(Clone)]
struct Ticks(Arc<AtomicUsize>);

impl WatermarkGenerator<i64> for Ticks {
    fn observe(&mut self, _: Timestamp, _: &i64) {}

    fn watermark(&self) -> Timestamp {
        Timestamp::MIN
    }

    fn tick(&mut self, _: Timestamp) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn interval(&self) -> Option<Duration> {
        Some(ms(100))
    }
}

#[test]
fn ti_05_one_tick_makes_up_for_a_pause() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("ticks");
    let ticks = Arc::new(AtomicUsize::new(0));
    let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
    let out = stream.watermarks(Watermarks::custom(Ticks(ticks.clone()))).collect();
    let query = engine.submit(query).unwrap();
    for (pause, expected) in [(10_000, 1), (100, 2), (60_000, 3)] {
        clock.advance(ms(pause));
        eventually("the tick", || ticks.load(Ordering::Relaxed) >= expected);
        // Further ticks would have come before the chain took these.
        for _ in 0..20 {
            let before = out.len();
            handle.push(1).unwrap();
            eventually("the event", || out.len() > before);
        }
        assert_eq!(ticks.load(Ordering::Relaxed), expected);
    }
    drop(handle);
    completed(&query);
}

/// Sets a timer per key, and says when it fired.
struct Remind;

impl ProcessOp<i64, i64> for Remind {
    type State = ();
    type Out = (i64, Timestamp);
    type Side = ();

    fn event(&self, cx: &mut ProcessCx<'_, i64, Self::Out, ()>, (): &mut (), key: i64) {
        cx.set_timer(at(100 + key % 7));
    }

    fn timer(&self, cx: &mut ProcessCx<'_, i64, Self::Out, ()>, (): &mut (), due: Timestamp) {
        let key = *cx.key();
        cx.emit((key, due));
    }
}

#[test]
fn ti_07_a_jump_fires_every_timer_once_in_order_of_time() {
    let keys = budget(20_000, 1_000_000) as i64;
    for (workers, in_order) in [(1, true), (2, false)] {
        let engine = engine(workers);
        let query = Query::new("timers");
        let (handle, stream) = query.push_source("keys", |_: &i64| at(0));
        let (fired, side) = stream.key_by(|&key| key).process(Remind);
        let out = fired.in_order_if(in_order).collect();
        drop(side);
        let timers = engine.submit(query).unwrap();
        let query = Query::new("other");
        let (other, stream) = query.push_source("other", |&time: &i64| at(time));
        let passed = stream.map(|n| n).collect();
        let beside = engine.submit(query).unwrap();
        handle.push_all((0..keys).collect()).unwrap();
        handle.advance(at(1_000));
        for number in 1..=50 {
            other.push(number).unwrap();
            eventually("the other query's event", || passed.len() == number as usize);
        }
        drop((handle, other));
        completed(&timers);
        completed(&beside);
        let mut all = out.values();
        if in_order {
            // In order of time, those of one time in order of arrival of their keys.
            assert!(all.is_sorted_by_key(|&(key, due)| (due, key)));
        }
        all.sort();
        assert!(all.iter().map(|fired| fired.0).eq(0..keys));
    }
}
