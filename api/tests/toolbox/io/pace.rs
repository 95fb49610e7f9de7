//! Replay at the pace of the events' times.

use mizzle::aggregate::count;
use mizzle::time::{ManualClock, Watermarks};
use mizzle::{Query, Status, Windows, source};

use crate::support::{at, completed, engine_by, eventually, ms};

fn numbers(numbers: &[i64]) -> impl source::Source<Item = i64> + use<> {
    source::from_iter(numbers.to_vec(), |&n| at(n))
}

#[test]
fn events_come_when_they_are_due_by_the_clock() {
    for workers in [1, 2, 4] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, workers);
        let query = Query::new("replay");
        let replay = source::paced(numbers(&[1_000, 1_060, 1_030, 1_200]), 60.0);
        let out = query
            .source("recorded", replay)
            .watermarks(Watermarks::bounded(ms(50)))
            .map(|n| n)
            .collect();
        let query = engine.submit(query).unwrap();
        eventually("the first", || out.values() == [1_000]);
        clock.advance(ms(1) - std::time::Duration::from_micros(1));
        // Were it there already, it would come before this query is over.
        let beside = Query::new("beside");
        let passed = beside.source("n", numbers(&[1, 2])).collect();
        completed(&engine.submit(beside).unwrap());
        assert_eq!((passed.len(), out.len()), (2, 1));
        clock.advance(std::time::Duration::from_micros(1));
        eventually("what waited behind it too", || out.values() == [1_000, 1_060, 1_030]);
        assert_eq!(query.status(), Status::Running);
        clock.advance(ms(3));
        completed(&query);
        assert_eq!(out.values(), [1_000, 1_060, 1_030, 1_200]);
    }
}

#[test]
fn windows_close_as_they_did_when_it_was_recorded() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 2);
    let query = Query::new("replay");
    let out = query
        .source("recorded", source::paced(numbers(&[0, 4_000, 11_000, 12_000]), 1_000.0))
        .window(Windows::tumbling(ms(10_000)))
        .aggregate(count())
        .in_order()
        .collect();
    let query = engine.submit(query).unwrap();
    let source = || query.chains()[0].stats.clone();
    eventually("the first", || source().events_in == 1);
    clock.advance(ms(10));
    eventually("the second", || source().events_in == 2);
    assert!(out.is_empty());
    clock.advance(ms(1));
    eventually("the window", || out.len() == 1);
    assert_eq!(source().events_in, 3);
    clock.advance(ms(1));
    completed(&query);
    assert_eq!(out.values().iter().map(|w| w.value).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn files_replayed_together_keep_their_distance() {
    for workers in [1, 2] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, workers);
        let query = Query::new("replay");
        let files = [numbers(&[1_000, 3_000]), numbers(&[2_000, 2_000, 5_000]), numbers(&[])];
        let out = query
            .sources("recorded", source::paced_together(files, 1_000.0))
            .apply_stateful((), |(), n| n)
            .in_order()
            .collect();
        let query = engine.submit(query).unwrap();
        // What is not due promises nothing: an event waits for the next of the other file.
        let taken = || query.chains()[0].stats.events_in;
        for (advance, due) in [(0, 1), (1, 3), (1, 4)] {
            clock.advance(ms(advance));
            eventually("what is due", || taken() == due);
        }
        assert_eq!(out.values(), [1_000, 2_000, 2_000]);
        clock.advance(ms(1_000));
        completed(&query);
        assert_eq!(out.values(), [1_000, 2_000, 2_000, 3_000, 5_000]);
    }
}

#[test]
fn a_replay_that_waits_ends_at_once_when_it_is_told_to() {
    let far = i64::MAX / 1_000;
    for how in ["drain", "stop", "cancel"] {
        let clock = ManualClock::default();
        let engine = engine_by(&clock, 2);
        let query = Query::new("replay");
        let out = query
            .source("recorded", source::paced(numbers(&[1, far]), 1e-9))
            .window(Windows::tumbling(ms(10)))
            .aggregate(count())
            .collect();
        let query = engine.submit(query).unwrap();
        eventually("the first", || query.chains()[0].stats.events_in == 1);
        match how {
            "drain" => query.drain(),
            "stop" => query.stop(),
            _ => query.cancel(),
        }
        let status = query.wait_timeout(crate::support::GUARD);
        let (expected, windows) = match how {
            "drain" => (Status::Completed, 1),
            "stop" => (Status::Stopped, 0),
            _ => (Status::Cancelled, 0),
        };
        assert_eq!((status, out.len()), (expected, windows), "{how}");
    }
}

#[test]
fn a_shared_source_can_be_paced() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 2);
    let shared = engine.shared_source("recorded", source::paced(numbers(&[0, 10, 20]), 1.0));
    let shared = shared.open().unwrap();
    let query = Query::new("reader");
    let out = query.subscribe(&shared).collect();
    let query = engine.submit(query).unwrap();
    // Its time counts from its start.
    clock.advance(ms(1_000));
    shared.start();
    eventually("the first", || out.values() == [0]);
    clock.advance(ms(10));
    eventually("the second", || out.values() == [0, 10]);
    clock.advance(ms(10));
    completed(&query);
    assert_eq!(out.values(), [0, 10, 20]);
}
