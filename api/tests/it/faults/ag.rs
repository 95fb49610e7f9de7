//! Aggregates and keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mizzle::aggregate::{count, max, mean, min, sum};
use mizzle::rule::Counter;
use mizzle::state::FloatKey;
use mizzle::time::Watermarks;
use mizzle::{Query, Windows, sink, source};

use super::{at, budget, completed, engine, ms};

#[test]
fn ag_04_mean_keeps_its_digits_on_large_offsets() {
    let engine = engine(2);
    let query = Query::new("mean");
    let values = [4.0, 7.0, 13.0, 16.0].map(|value| 1e9 + value);
    let out = query
        .source("values", source::from_iter(values, |_| at(1)))
        .window(Windows::tumbling(ms(10)))
        .aggregate(mean(|&value: &f64| value))
        .collect();
    completed(&engine.submit(query).unwrap());
    assert_eq!(out.values()[0].value, 1_000_000_010.0);
}

#[test]
fn ag_05_float_keys_are_canonical() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = Query::new("floats");
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let values = [0.0, -0.0, f64::NAN, other_nan, 1.0];
        let out = query
            .source("values", source::from_iter(values, |_| at(1)))
            .key_by(|&value| FloatKey::from(value))
            .window(Windows::tumbling(ms(10)))
            .aggregate(count())
            .collect();
        completed(&engine.submit(query).unwrap());
        let mut counts: Vec<_> = out.values().iter().map(|window| window.value).collect();
        counts.sort();
        assert_eq!(counts, [1, 2, 2]);
    }
}

#[test]
fn ag_06_window_without_events_gives_no_row() {
    let engine = engine(2);
    let query = Query::new("empty");
    let events = [(3, 1.0), (12, 4.0)];
    let out = query
        .source("events", source::from_iter(events, |&(time, _)| at(time)))
        .filter(|&(_, value)| value > 2.0)
        .window(Windows::tumbling(ms(10)))
        .aggregate((
            mean(|e: &(i64, f64)| e.1),
            min(|e: &(i64, f64)| e.1),
            max(|e: &(i64, f64)| e.1),
        ))
        .collect();
    completed(&engine.submit(query).unwrap());
    let rows: Vec<_> = out.values().iter().map(|w| (w.start, w.value)).collect();
    assert_eq!(rows, [(at(10), (4.0, Some(4.0), Some(4.0)))]);
}

#[test]
fn ag_07_nan_leaves_a_hopping_window_with_its_event() {
    for (bad, in_order) in [f64::NAN, f64::INFINITY].into_iter().zip([false, true]) {
        let engine = engine(2);
        let query = Query::new("poison");
        let events = [(1, bad), (6, 1.0), (11, 2.0), (16, 3.0)];
        let out = query
            .source("events", source::from_iter(events, |&(time, _)| at(time)))
            .window(Windows::hopping(ms(10), ms(5)))
            .aggregate(sum(|&(_, value): &(i64, f64)| value))
            .in_order_if(in_order)
            .collect();
        completed(&engine.submit(query).unwrap());
        let mut sums: Vec<_> =
            out.values().iter().map(|w| (w.start.as_millis(), w.value)).collect();
        sums.sort_by_key(|sum| sum.0);
        let (spoilt, clean) = sums.split_at(2);
        assert!(spoilt.iter().all(|(_, sum)| !sum.is_finite()));
        assert_eq!(clean, [(5, 3.0), (10, 5.0), (15, 3.0)]);
    }
}

#[test]
fn ag_09_large_integers_keep_their_digits() {
    let engine = engine(1);
    let query = Query::new("integers");
    let values = [8_070_450_532_247_928_833, 9_007_199_254_740_993, i64::MIN + 1, i64::MAX];
    let numbers = query.source("numbers", source::from_iter(values, |_| at(1))).share();
    let passed = numbers.clone().map(|n| n).collect();
    let sums = numbers.window(Windows::tumbling(ms(10))).aggregate(sum(|&n: &i64| n)).collect();
    completed(&engine.submit(query).unwrap());
    assert_eq!(passed.values(), values);
    // The two extremes cancel in 128 bits, before the sum has to fit.
    assert_eq!(sums.values()[0].value, 8_079_457_731_502_669_826);
    let query = Query::new("text");
    let text = SharedText::default();
    query
        .source("numbers", source::from_iter([u64::MAX, 9_007_199_254_740_993], |_| at(1)))
        .sink(sink::csv(text.clone()));
    completed(&engine.submit(query).unwrap());
    let written = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    assert_eq!(written, "18446744073709551615\n9007199254740993\n");
}

#[derive(Clone, Default)]
struct SharedText(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for SharedText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn ag_12_a_counter_that_is_reset_or_wraps_never_decreases() {
    let increases = |kind: Counter, shown: &[u64]| {
        let shown: Vec<_> = (0..).zip(shown.to_vec()).collect();
        let query = Query::new("counter");
        let out = query
            .source("shown", source::from_iter(shown, |&(second, _)| at(1_000 * second)))
            .increase(kind, |&(_, shown)| shown)
            .in_order()
            .collect();
        completed(&engine(2).submit(query).unwrap());
        let out = out.values();
        // One a second: the rate is the increase.
        assert!(out.iter().all(|increase| increase.per_second() == Some(increase.by as f64)));
        out.into_iter().map(|increase| increase.by).collect::<Vec<_>>()
    };
    assert_eq!(increases(Counter::Resets, &[100, 110, 120, 5, 15]), [10, 10, 5, 10]);
    assert_eq!(increases(Counter::Wraps(32), &[4_294_967_290, 4_294_967_295, 4]), [5, 5]);
    let (high, low) = (u64::MAX - 1, 3);
    assert_eq!(increases(Counter::Wraps(64), &[high, low]), [5]);
    assert_eq!(increases(Counter::Resets, &[high, low]), [3]);
}

#[test]
fn ag_13_order_per_key_holds_where_it_is_asked_for() {
    let (keys, most) = (100, budget(1_000, 100_000) as u64);
    for in_order in [false, true] {
        let engine = engine(8);
        let query = Query::new("sequences");
        let events = (1..=most).flat_map(move |number| (0..keys).map(move |key| (key, number)));
        let events = events.map(|(key, number)| (key, number, number as i64 + key % 3));
        let out = query
            .source("events", source::from_iter(events, |&(.., time)| at(time)))
            .watermarks(Watermarks::bounded(ms(3)))
            .map(|(key, number, _)| (key, number))
            .filter(|&(_, number)| number > 0)
            .key_by(|&(key, _)| key)
            .apply_stateful(0u64, |seen, (key, number)| {
                *seen += 1;
                (key, number, *seen)
            })
            .in_order_if(in_order)
            .collect();
        completed(&engine.submit(query).unwrap());
        let mut of_key: HashMap<i64, Vec<(u64, u64)>> = HashMap::new();
        for (key, number, seen) in out.values() {
            of_key.entry(key).or_default().push((number, seen));
        }
        assert_eq!(of_key.len(), keys as usize);
        for numbers in of_key.values_mut() {
            // The state of a key saw its events one after the other, flagged or not.
            assert!(numbers.iter().map(|pair| pair.1).eq(1..=most));
            if !in_order {
                numbers.sort();
            }
            assert!(numbers.iter().map(|pair| pair.0).eq(1..=most));
        }
    }
}
