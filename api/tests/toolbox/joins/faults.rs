//! Faults that users met in joins of other engines (`tests/cases/faults.jsonl`, area JO), each test named
//! after its id.

use mizzle::sink::Collected;
use mizzle::time::Timestamp;
use mizzle::{BoxedStream, Engine, Interval, PushHandle, Query, QueryHandle, Windows};
use mizzle_engine::Event;
use mizzle_engine::harness::Probe;
use mizzle_engine::operator::join::{Either, Inner, IntervalJoin};
use mizzle_engine::operator::{Consumer, Cx, OpId};
use mizzle_engine::state::{Cell, Codec, StateError, Visit};

use super::{GUARD, at, completed, late_unused, ms};

/// A row: key, and the time at which it happened.
type Row = (&'static str, i64);

/// A query with two streams that are pushed to.
struct Two {
    engine: Engine,
    left: PushHandle<Row>,
    right: PushHandle<Row>,
    query: QueryHandle,
}

impl Two {
    fn run<U>(
        workers: usize,
        describe: impl FnOnce(BoxedStream<Row>, BoxedStream<Row>) -> Collected<U>,
    ) -> (Self, Collected<U>) {
        let engine = Engine::builder().workers(workers).batch(1).build().unwrap();
        let query = Query::new("two");
        let (left, lefts) = query.push_source("left", |row: &Row| at(row.1));
        let (right, rights) = query.push_source("right", |row: &Row| at(row.1));
        let out = describe(lefts.boxed(), rights.boxed());
        let query = engine.submit(query).unwrap();
        (Self { engine, left, right, query }, out)
    }

    /// Both sides promise, and all chains know it.
    fn advance(&self, millis: i64) {
        [&self.left, &self.right].into_iter().for_each(|side| side.advance(at(millis)));
        self.settle(|watermark| watermark >= at(millis));
    }

    fn settle(&self, reached: impl Fn(Timestamp) -> bool) {
        let begun = std::time::Instant::now();
        while !self.query.chains().iter().all(|chain| reached(chain.stats.watermark)) {
            assert!(begun.elapsed() < GUARD, "{:#?}", self.query.chains());
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    fn end(self) {
        let Self { left, right, query, engine } = self;
        drop((left, right));
        completed(&query);
        drop(engine);
    }
}

/// Times of the pairs, sorted; -1 for a row that is missing.
fn sorted(mut pairs: Vec<(Row, Option<Row>)>) -> Vec<(i64, Option<i64>)> {
    pairs.sort();
    pairs.into_iter().map(|(left, right)| (left.1, right.map(|right| right.1))).collect()
}

#[test]
fn jo_03_one_sided_bounds() {
    for (workers, flagged) in [(1, false), (2, true), (4, false)] {
        let (two, out) = Two::run(workers, |left, right| {
            let joined = left.key_by(|row| row.0).join(right.key_by(|row| row.0));
            joined.within(Interval::after(ms(100))).left().in_order_if(flagged).collect()
        });
        [("a", 0), ("b", 0), ("c", 1)].into_iter().for_each(|row| two.left.push(row).unwrap());
        [("c", 0), ("a", 100)].into_iter().for_each(|row| two.right.push(row).unwrap());
        two.advance(100);
        let known = sorted(out.values());
        assert!(known.iter().all(|pair| *pair == (0, Some(100))), "too early: {known:?}");
        two.right.push(("b", 101)).unwrap();
        two.advance(1_000);
        two.end();
        assert_eq!(sorted(out.values()), [(0, Some(100)), (0, None), (1, None)]);
        let times: Vec<_> =
            out.take().into_iter().map(|event| (event.value.0.0, event.time)).collect();
        assert!(times.contains(&("b", at(100))) && times.contains(&("c", at(101))), "{times:?}");
    }
}

#[test]
fn jo_04_a_matched_row_is_never_unmatched() {
    for (workers, flagged) in [(1, false), (2, true), (4, false)] {
        let (two, out) = Two::run(workers, |left, right| {
            let joined = left.key_by(|row| row.0).join(right.key_by(|row| row.0));
            joined.within(Interval::after(ms(5))).left().in_order_if(flagged).collect()
        });
        two.left.push(("k", 0)).unwrap();
        two.right.push(("k", 0)).unwrap();
        [3, 10, 100].into_iter().for_each(|promise| two.advance(promise));
        two.end();
        assert_eq!(sorted(out.values()), [(0, Some(0))]);
    }
}

/// How many rows and keys a saved state holds, and how many places it has for keys.
struct Held {
    rows: usize,
    keys: usize,
    places: usize,
}

impl Visit for Held {
    fn state(&mut self, _: OpId, cell: &mut dyn Cell) -> Result<(), StateError> {
        let state: serde_json::Value = serde_json::from_str(&cell.json().unwrap()).unwrap();
        let keys = state["keys"].as_array().unwrap();
        self.rows =
            ["left", "right"].map(|side| state[side].as_array().unwrap().len()).iter().sum();
        self.keys = keys.iter().filter(|key| !key.is_null()).count();
        self.places = keys.len();
        Ok(())
    }
}

#[test]
fn jo_05_rows_go_as_time_passes() {
    for ordered in [false, true] {
        let key = |row: &Either<i64, i64>| match row {
            Either::Left(key) | Either::Right(key) => *key,
        };
        let around = Interval::around(ms(10));
        let codec = Some(Codec::new("rows"));
        let join = IntervalJoin::new(OpId(0), around, key, Inner, codec, Probe::new());
        let (mut state, mut cx) = (join.state(), Cx::new(ordered, 0));
        let mut held = Held { rows: 0, keys: 0, places: 0 };
        for n in 0..1_000_000 {
            join.event(&mut state, &mut cx, Event::new(at(n), Either::Left(n)));
            join.watermark(&mut state, &mut cx, at(n));
            if n % 10_000 == 9_999 {
                join.visit(&mut state, &mut held).unwrap();
                assert!(held.rows <= 11 && held.keys <= 11 && held.places <= 1_024);
            }
        }
        join.watermark(&mut state, &mut cx, at(1_010_000));
        join.visit(&mut state, &mut held).unwrap();
        assert_eq!((held.rows, held.keys), (0, 0));
    }
}

#[test]
fn jo_06_unmatched_left_rows_are_there() {
    for (workers, flagged) in [(1, false), (2, true), (4, false)] {
        let (two, out) = Two::run(workers, |left, right| {
            let latest = left.key_by(|row| row.0).as_of(right.key_by(|row| row.0));
            latest.left().in_order_if(flagged).collect()
        });
        two.left.push(("WSO2", 1)).unwrap();
        two.right.push(("WSO2", 2)).unwrap();
        two.left.push(("MBI", 3)).unwrap();
        two.left.push(("WSO2", 4)).unwrap();
        two.end();
        let expected = [("MBI", 3, None), ("WSO2", 1, None), ("WSO2", 4, Some(2))];
        let mut rows = out.values();
        rows.sort();
        let rows: Vec<_> = rows.into_iter().map(|(l, r)| (l.0, l.1, r.map(|r| r.1))).collect();
        assert_eq!(rows, expected);
    }
}

#[test]
fn jo_08_a_late_probe_meets_no_newer_version() {
    for (workers, flagged) in [(1, false), (2, true), (4, false)] {
        let (two, out) = Two::run(workers, |left, right| {
            let found = left.key_by(|row| row.0).lookup(right.key_by(|row| row.0));
            found.left().in_order_if(flagged).collect()
        });
        two.right.push(("k", 0)).unwrap();
        two.right.push(("k", 10)).unwrap();
        two.advance(20);
        two.left.push(("k", 5)).unwrap();
        two.left.push(("k", 25)).unwrap();
        let query = two.query.clone();
        two.end();
        assert_eq!(sorted(out.values()), [(25, Some(10))]);
        assert_eq!(late_unused(&query), 1);
    }
}

#[test]
fn jo_09_a_window_join_waits_for_both_sides() {
    for round in 0..1_000 {
        let workers = [1, 2, 4][round % 3];
        let (two, out) = Two::run(workers, |left, right| {
            let joined = left.key_by(|row| row.0).join(right.key_by(|row| row.0));
            let joined = joined.window(Windows::tumbling(ms(3_000))).inner();
            joined.in_order_if(round % 5 == 0).collect()
        });
        if round % 2 == 0 {
            two.left.push(("1", 500)).unwrap();
            two.right.push(("1", 2_900)).unwrap();
        } else {
            two.right.push(("1", 2_900)).unwrap();
            two.left.push(("1", 500)).unwrap();
        }
        [&two.left, &two.right].into_iter().for_each(|side| side.advance(at(10_000)));
        two.end();
        let windows = out.values();
        assert_eq!(windows.len(), 1, "round {round}: {windows:?}");
        assert_eq!(windows[0].value, (("1", 500), ("1", 2_900)));
        assert_eq!((windows[0].start, windows[0].end), (at(0), at(3_000)));
    }
}
