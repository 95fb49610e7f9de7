//! State that grows, and state that forgets the wrong thing. `st_03` is with the groups.

use mizzle::rule::Crossing;
use mizzle::time::Watermarks;
use mizzle::{BoxedStream, Engine, Event, Query, source};
use mizzle_engine::harness::Probe;
use mizzle_engine::operator::rule::{First, Ruled};
use mizzle_engine::operator::{Consumer, Cx, OpId};

use super::{at, budget, completed, ms, total};

#[test]
fn st_01_duplicates_are_remembered_for_a_while_and_no_longer() {
    let lifetime = ms(10_000);
    let ids = budget(100_000, 1_000_000) as i64;
    let operator =
        Ruled::new(OpId(1), |id: &i64| *id, First::new(lifetime), None, false, Probe::new());
    for ordered in [true, false] {
        let (mut state, mut cx) = (operator.state(), Cx::new(ordered, 0));
        for id in 0..ids {
            operator.event(&mut state, &mut cx, Event::new(at(id), id));
            if !ordered && id % 1_000 == 0 {
                operator.watermark(&mut state, &mut cx, at(id));
            }
            let (keys, most) = (state.keys(), if ordered { 10_000 } else { 11_000 });
            assert!(keys.len() <= most && keys.alarms() <= keys.len(), "{} ids", keys.len());
        }
        operator.watermark(&mut state, &mut cx, at(ids + 10_000));
        assert!(state.keys().is_empty());
    }

    let events = [(0, 'x'), (5_000, 'x'), (7_000, 'y'), (20_000, 'x')];
    for workers in [1, 2, 4] {
        let engine = super::engine(workers);
        let query = Query::new("once");
        let once = query
            .source("events", source::from_iter(events, |event| at(event.0)))
            .key_by(|event| event.1)
            .distinct_for(lifetime)
            .in_order()
            .collect();
        completed(&engine.submit(query).unwrap());
        assert_eq!(once.values(), [(0, 'x'), (7_000, 'y'), (20_000, 'x')]);
    }
}

/// What `describe` makes of events that arrive up to a second out of order, in every way.
fn throttled(
    describe: impl Fn(BoxedStream<(i64, &'static str, char)>) -> BoxedStream<(i64, &'static str, char)>,
) -> Vec<(i64, char)> {
    let events =
        [(150, "k2", 'x'), (0, "k1", 'a'), (200, "k1", 'c'), (100, "k1", 'b'), (1_500, "k1", 'd')];
    let ways = [(1, 1), (1, 1_024), (2, 1), (4, 1_024)].map(|(workers, batch)| {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let query = Query::new("throttle");
        let events = query
            .source("events", source::from_iter(events, |event| at(event.0)))
            .watermarks(Watermarks::bounded(ms(1_000)))
            .boxed();
        let out = describe(events).collect();
        completed(&engine.submit(query).unwrap());
        let out = out.events();
        out.into_iter().map(|event| (event.time.as_millis(), event.value.2)).collect::<Vec<_>>()
    });
    ways.iter().for_each(|way| assert_eq!(*way, ways[0]));
    ways[0].clone()
}

#[test]
fn st_04_throttling_keeps_the_first_or_the_latest() {
    let first = |events: BoxedStream<(i64, &'static str, char)>| {
        events.key_by(|event| event.1).throttle_first(ms(1_000)).in_order().boxed()
    };
    assert_eq!(throttled(first), [(0, 'a'), (150, 'x'), (1_500, 'd')]);
    // What comes out at the end of a period begins the next.
    let latest = |events: BoxedStream<(i64, &'static str, char)>| {
        events.key_by(|event| event.1).throttle_latest(ms(1_000)).in_order().boxed()
    };
    assert_eq!(throttled(latest), [(0, 'a'), (150, 'x'), (1_000, 'c'), (2_000, 'd')]);
}

/// The other half of `st_03`: what leaves a sliding window is no longer counted, though nothing comes.
#[test]
fn st_03_a_sliding_count_goes_back_as_events_leave() {
    let engine = super::engine(1);
    let query = Query::new("count");
    let edges = query
        .source("times", source::from_iter([0, 4, 8, 30, 31], |&time| at(time)))
        .count_edges(3, ms(10))
        .in_order()
        .collect();
    let query = engine.submit(query).unwrap();
    completed(&query);
    let edges = edges.events();
    let seen: Vec<_> = edges.iter().map(|edge| (edge.time.as_millis(), edge.value)).collect();
    assert_eq!(seen, [(8, Crossing::Rising(8)), (10, Crossing::Falling(8))]);
    assert_eq!(total(&query, |stats| stats.late), 0);
}
