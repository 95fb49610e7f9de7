//! Disorder and unions.

use mizzle::Windows;
use mizzle::time::Watermarks;
use mizzle::{Engine, Query, source};

use super::{Counted, at, completed, counted, engine, eventually, ms, source_stats, windows};

#[test]
fn un_02_disorder_within_the_slack_is_mended() {
    for (workers, batch) in [(1, 1), (1, 1_024), (4, 1)] {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let query = Query::new("reorder");
        let out = query
            .source("times", source::from_iter([20, 15, 22, 14, 40], |&time| at(time)))
            .watermarks(Watermarks::bounded(ms(10)))
            .apply_stateful((), |(), time| time)
            .in_order()
            .collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        assert_eq!(out.values(), [14, 15, 20, 22, 40]);
        assert_eq!(source_stats(&query, "times").late, 0);
    }
}

/// 500 events of one minute and one of the next.
fn two_minutes() -> Vec<i64> {
    (0..500).map(|n| n * 120).chain([60_000]).collect()
}

#[test]
fn un_03_neither_speed_nor_arrival_order_changes_the_answer() {
    let expected = vec![(0, 60_000, 500), (60_000, 120_000, 1)];
    let shape = Windows::tumbling(ms(60_000));
    let slack = Watermarks::bounded(ms(2_000));
    let shuffled: Vec<i64> = two_minutes()
        .chunks(16)
        .flat_map(|part| part.iter().rev().copied().collect::<Vec<_>>())
        .collect();
    for in_order in [false, true] {
        for times in [two_minutes(), shuffled.clone()] {
            let got = counted(&times, &slack, shape, in_order);
            assert_eq!(got, Counted { windows: expected.clone(), late: 0, unused: 0 });
        }
    }
    // One by one, each after the engine has come to rest.
    let engine = engine(2);
    let query = Query::new("slow replay");
    let (handle, stream) = query.push_source("times", |&time: &i64| at(time));
    let out =
        stream.watermarks(slack).window(shape).aggregate(mizzle::aggregate::count()).collect();
    let query = engine.submit(query).unwrap();
    for (number, time) in two_minutes().into_iter().enumerate() {
        handle.push(time).unwrap();
        let taken = || source_stats(&query, "times").events_in == number as u64 + 1;
        eventually("the event", taken);
    }
    drop(handle);
    completed(&query);
    assert_eq!(windows(&out), expected);
}
