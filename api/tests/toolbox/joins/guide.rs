//! What the guide says about joins, line by line, where no other test does.

use mizzle::plan::{Piece, Reorder};
use mizzle::time::{ManualClock, SignedDuration, Timestamp, Watermarks};
use mizzle::{BoxedStream, BuildError, Engine, Interval, PushHandle, Query, QueryHandle, Status};
use mizzle::{Phase, Trigger, Windowed, Windows, source};

use super::{GUARD, at, completed, late_unused, ms};

/// A row: key and time.
type Row = (u8, i64);

fn rows(query: &Query, name: &str, rows: &[Row]) -> BoxedStream<Row> {
    query.source(name, source::from_iter(rows.to_vec(), |row| at(row.1))).boxed()
}

fn pushed(query: &Query, name: &str) -> (PushHandle<Row>, BoxedStream<Row>) {
    let (handle, stream) = query.push_source(name, |row: &Row| at(row.1));
    (handle, stream.boxed())
}

fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !reached() {
        assert!(begun.elapsed() < GUARD, "never came: {what}");
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

fn watermark_of(query: &QueryHandle, name: &str) -> Timestamp {
    let chains = query.chains();
    let reads = |chain: &&mizzle::ChainReport| chain.operators.iter().any(|it| it == name);
    chains.iter().filter(reads).map(|chain| chain.stats.watermark).min().expect("a chain")
}

#[test]
fn the_types_of_results_follow_from_what_is_asked_for() {
    let query = Query::new("types");
    let key = |row: &Row| row.0;
    let stream = || rows(&query, "rows", &[(1, 1)]);
    let join = || stream().key_by(key).join(stream().key_by(key));
    let within = || join().within(Interval::around(ms(1)));
    let inner: BoxedStream<(Row, Row)> = within().inner().boxed();
    let left: BoxedStream<(Row, Option<Row>)> = within().left().boxed();
    let right: BoxedStream<(Option<Row>, Row)> = within().right().boxed();
    let full: BoxedStream<(Option<Row>, Option<Row>)> = within().full().boxed();
    let times: BoxedStream<i64> = within().inner_with(|left, right| left.1 + right.1).boxed();
    let windows: BoxedStream<Windowed<u8, (Row, Option<Row>)>> =
        join().window(Windows::tumbling(ms(10))).left().boxed();
    let found: BoxedStream<(Row, Option<Row>)> = stream().as_of(stream()).left().boxed();
    let inner = (inner.collect(), windows.collect(), times.collect());
    let outer = (left.collect(), right.collect(), full.collect(), found.collect());
    completed(&Engine::new().unwrap().submit(query).unwrap());
    let row = (1, 1);
    assert_eq!((inner.0.values(), inner.2.values()), (vec![(row, row)], vec![2]));
    assert_eq!(inner.1.values()[0].value, (row, Some(row)));
    assert_eq!(outer.0.values(), [(row, Some(row))]);
    assert_eq!(outer.1.values(), [(Some(row), row)]);
    assert_eq!(outer.2.values(), [(Some(row), Some(row))]);
    assert_eq!(outer.3.values(), [(row, Some(row))]);
}

#[test]
fn a_stream_joins_itself() {
    for (workers, flagged) in [(1, true), (2, false), (4, true), (4, false)] {
        let engine = Engine::builder().workers(workers).batch(16).build().unwrap();
        let query = Query::new("self");
        let numbers = source::from_iter(0..2_000i64, |&n| at(n));
        let numbers = query.source("numbers", numbers).share();
        let out = numbers
            .clone()
            .key_by(|n| n % 7)
            .join(numbers.key_by(|n| n % 7))
            .within(SignedDuration::from_millis(1)..=SignedDuration::from_millis(14))
            .inner()
            .in_order_if(flagged)
            .collect();
        completed(&engine.submit(query).unwrap());
        let mut got = out.values();
        if !flagged {
            got.sort_by_key(|&(left, right)| (right, left));
        }
        // Each number with those seven and fourteen before it.
        let before = |n: i64| [n - 14, n - 7].into_iter().filter(|&n| n >= 0).map(move |l| (l, n));
        assert_eq!(got, (0..2_000).flat_map(before).collect::<Vec<_>>());
    }
}

#[test]
fn late_rows_are_joined_where_the_watermark_of_both_has_not_passed() {
    for (flagged, expected, unused) in [(false, vec![(5, 4)], 1), (true, vec![], 2)] {
        let engine = Engine::builder().workers(1).batch(1).build().unwrap();
        let query = Query::new("late");
        let (left, lefts) = pushed(&query, "left");
        let (right, rights) = pushed(&query, "right");
        let joined = lefts.join(rights).within(Interval::before(ms(1))).inner();
        let out = joined.in_order_if(flagged).map(|(left, right)| (left.1, right.1)).collect();
        let query = engine.submit(query).unwrap();
        right.push((0, 4)).unwrap();
        eventually("the right row", || watermark_of(&query, "right") == at(4));
        left.push((0, 9)).unwrap();
        eventually("the left row", || watermark_of(&query, "left") == at(9));
        // Late at its source, but not behind 4; then behind that, too.
        left.push((0, 5)).unwrap();
        left.push((0, 3)).unwrap();
        drop((left, right));
        completed(&query);
        assert_eq!((out.values(), late_unused(&query)), (expected, unused), "{flagged}");
    }
}

#[test]
fn a_silent_side_holds_results_back_until_it_is_idle_or_over() {
    for over in [false, true] {
        let clock = ManualClock::default();
        let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
        let query = Query::new("silent");
        let (left, lefts) = pushed(&query, "left");
        let (right, rights) = query.push_source("right", |row: &Row| at(row.1));
        let joined = lefts.key_by(|row| row.0).join(rights.idle_after(ms(100)).key_by(|row| row.0));
        let out = joined.within(Interval::after(ms(5))).left().collect();
        let query = engine.submit(query).unwrap();
        left.push((1, 0)).unwrap();
        left.push((2, 50)).unwrap();
        eventually("both rows", || watermark_of(&query, "left") == at(50));
        assert!(out.is_empty());
        if over {
            drop(right);
        } else {
            clock.advance(ms(100));
        }
        eventually("the first row", || out.values() == [((1, 0), None)]);
        query.cancel();
        assert_eq!(query.wait(), Status::Cancelled);
    }
}

#[test]
fn a_pair_does_not_wait_for_a_watermark() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let query = Query::new("at once");
    let (left, lefts) = pushed(&query, "left");
    let (right, rights) = pushed(&query, "right");
    let joined = lefts.key_by(|row| row.0).join(rights.key_by(|row| row.0));
    let out = joined.within(Interval::around(ms(5))).inner().collect();
    let query = engine.submit(query).unwrap();
    left.push((1, 3)).unwrap();
    right.push((1, 1)).unwrap();
    eventually("the pair", || out.values() == [((1, 3), (1, 1))]);
    drop((left, right));
    completed(&query);
}

#[test]
fn deleted_rows_are_found_no_more() {
    for (workers, flagged) in [(1, false), (4, false), (2, true)] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new("deleted");
        // The second number of a table's row is its time; one at a time that ends in 5 deletes.
        let table = rows(&query, "table", &[(1, 10), (2, 12), (1, 15), (1, 20)]);
        let probes = rows(&query, "probes", &[(1, 9), (1, 14), (1, 15), (2, 16), (1, 25)]);
        let found = probes.key_by(|row| row.0).lookup(table.key_by(|row| row.0));
        let out = found.removed_if(|row| row.1 % 10 == 5).left().in_order_if(flagged).collect();
        completed(&engine.submit(query).unwrap());
        let mut got: Vec<_> = out.values();
        got.sort_by_key(|(probe, _)| probe.1);
        let found: Vec<_> = got.into_iter().map(|(_, row)| row.map(|row| row.1)).collect();
        assert_eq!(found, [None, Some(10), None, Some(12), Some(20)]);
    }
}

/// Mode, shards, and what reorders, of each piece.
fn plan(workers: usize, describe: impl Fn(BoxedStream<Row>, BoxedStream<Row>)) -> String {
    let query = Query::new("plan");
    let side = |name| {
        let none = source::from_iter(Vec::<Row>::new(), |row| at(row.1));
        query.source(name, none).watermarks(Watermarks::bounded(ms(1))).boxed()
    };
    describe(side("left"), side("right"));
    let short = |piece: &Piece| {
        let shards = if piece.shards > 1 { format!(" x{}", piece.shards) } else { String::new() };
        let reorder = match piece.reorder {
            Reorder::Never => "",
            Reorder::Stage => ", stage",
            Reorder::Merge => ", merge",
        };
        format!("{}{shards}{reorder}", piece.mode)
    };
    let plan = query.plan(workers);
    let behind = plan.pieces().iter().filter(|piece| !piece.ops.is_empty());
    behind.map(short).collect::<Vec<_>>().join(" | ")
}

#[test]
fn joins_run_as_the_closed_table_says() {
    let within = Interval::around(ms(1));
    let keyed = |flag| {
        move |left: BoxedStream<Row>, right: BoxedStream<Row>| {
            let joined = left.key_by(|row| row.0).join(right.key_by(|row| row.0)).within(within);
            joined.inner().in_order_if(flag).for_each(drop);
        }
    };
    let whole = |flag| {
        move |left: BoxedStream<Row>, right: BoxedStream<Row>| {
            left.as_of(right).inner().in_order_if(flag).for_each(drop);
        }
    };
    assert_eq!(plan(4, keyed(false)), "parallel x4 | guarded");
    assert_eq!(plan(4, keyed(true)), "ordered, merge");
    assert_eq!(plan(4, whole(false)), "guarded");
    assert_eq!(plan(4, whole(true)), "ordered, merge");
    assert_eq!(plan(1, keyed(false)), "parallel");
    assert_eq!(plan(1, keyed(true)), "ordered, merge");
}

#[test]
fn what_makes_no_sense_is_refused_where_it_is_written() {
    let refused = |query: Query| match Engine::builder().workers(1).build().unwrap().submit(query) {
        Err(BuildError::Operator { operator, location, reason }) => {
            assert!(location.contains("guide.rs"), "{location}");
            (operator, reason)
        }
        _ => panic!("accepted, or refused for another reason"),
    };
    let query = Query::new("empty interval");
    let secs = SignedDuration::from_secs;
    let joined = rows(&query, "left", &[]).join(rows(&query, "right", &[]));
    joined.within(secs(1)..=secs(0)).inner().for_each(drop);
    let reason = "the interval from 1000000 us to 0 us is empty";
    assert_eq!(refused(query), ("interval_join".to_owned(), reason.to_owned()));

    let query = Query::new("empty window");
    let joined = rows(&query, "left", &[]).join(rows(&query, "right", &[]));
    joined.window(Windows::tumbling(ms(0))).inner().for_each(drop);
    assert_eq!(refused(query).0, "window_join");

    let (query, other) = (Query::new("two"), Query::new("queries"));
    let found = rows(&query, "left", &[]).as_of(rows(&other, "right", &[]));
    found.inner().for_each(drop);
    assert_eq!(refused(query).1, "the other stream belongs to another query");
}

#[test]
fn a_panic_names_the_join_and_fails_its_query_alone() {
    let engine = Engine::builder().workers(2).build().unwrap();
    let query = Query::new("panics");
    let left = rows(&query, "left", &[(1, 7)]);
    let right = rows(&query, "right", &[(1, 7)]);
    let joined = left.key_by(|row| row.0).join(right.key_by(|row| row.0));
    let pair = |_: &Row, _: &Row| -> Row { panic!("no pair") };
    joined.within(Interval::around(ms(1))).inner_with(pair).name("match").for_each(drop);
    let Status::Failed(failure) = engine.submit(query).unwrap().wait() else {
        panic!("it went on")
    };
    assert_eq!((failure.operator.as_str(), failure.time), ("match", Some(at(7))));
    assert!(failure.location.contains("guide.rs"), "{failure}");
}

#[test]
fn a_control_stream_that_is_idle_is_not_waited_for() {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("steered");
    let (control, changes) = query.push_source("control", |row: &Row| at(row.1));
    let (events, stream) = query.push_source("events", |row: &Row| at(row.1));
    let out = stream
        .idle_after(ms(500))
        .with_control(changes.idle_after(ms(100)), 0, |state, change| *state = change.0)
        .map(|state, event| (*state, event.1))
        .collect();
    let query = engine.submit(query).unwrap();
    control.push((3, 10)).unwrap();
    for time in [9, 10, 11, 12] {
        events.push((0, time)).unwrap();
    }
    // What comes before 10 is known when both are there; the rest waits for the control stream.
    eventually("the first", || out.values() == [(0, 9)]);
    clock.advance(ms(100));
    eventually("all but the last", || out.values() == [(0, 9), (3, 10), (3, 11)]);
    drop((control, events));
    completed(&query);
    assert_eq!(out.values().last(), Some(&(3, 12)));
}

#[test]
fn a_late_row_corrects_what_a_window_join_gave() {
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).batch(1).build().unwrap();
        let query = Query::new("corrected");
        let (left, lefts) = pushed(&query, "left");
        let (right, rights) = pushed(&query, "right");
        let key = |row: &Row| row.0;
        let joined = lefts.key_by(key).join(rights.key_by(key)).window(Windows::tumbling(ms(10)));
        let joined = joined.allowed_lateness(ms(100)).early(Trigger::events(3)).left();
        let out = joined.collect();
        let query = engine.submit(query).unwrap();
        let reached = |time| {
            eventually("the watermark", || watermark_of(&query, "window_join") >= at(time));
        };
        left.push((1, 1)).unwrap();
        [&left, &right].into_iter().for_each(|side| side.advance(at(20)));
        reached(20);
        // Late, but the window is kept.
        right.push((1, 2)).unwrap();
        eventually("the correction", || out.values().len() == 2);
        left.push((1, 3)).unwrap();
        eventually("the next one", || out.values().len() == 4);
        [&left, &right].into_iter().for_each(|side| side.advance(at(200)));
        reached(200);
        right.push((1, 4)).unwrap();
        drop((left, right));
        completed(&query);
        let rows: Vec<_> = out.values().into_iter().map(|row| (row.phase, row.value)).collect();
        let (one, three) = ((1, 1), (1, 3));
        let corrected = |left, right| (Phase::Corrected, (left, Some(right)));
        let partner = (1, 2);
        assert_eq!(rows[0], (Phase::Final, (one, None)));
        assert_eq!(rows[1], corrected(one, partner));
        assert_eq!(rows[2..], [corrected(one, partner), corrected(three, partner)]);
        assert_eq!(late_unused(&query), 1);
    }
}
