//! Every join against a naive one, under disorder, with one to four workers, batches of any size, flagged
//! and not: the same results, and flagged in the same order.

use std::fmt::Debug;

use mizzle::time::{SignedDuration, Timestamp, Watermarks};
use mizzle::{BoxedStream, Engine, Interval, Query, Windows, source};
use proptest::prelude::*;

use super::{at, completed, late_unused, ms};

/// A row: time, key, number.
type Row = (i64, u8, usize);
/// Numbers of a left row and a right row.
type Pair = (Option<usize>, Option<usize>);
type Out = Vec<(Timestamp, Pair)>;

/// What is joined, and how the two streams arrive.
#[derive(Clone, Debug)]
struct Rows {
    left: Vec<Row>,
    right: Vec<Row>,
    /// No row comes later than this after one with a greater time.
    slack: u64,
}

fn rows() -> impl Strategy<Value = Rows> {
    let side = || prop::collection::vec((0_i64..60, 0_u8..3, 0_i64..20), 0..60);
    (side(), side(), 0_i64..20).prop_map(|(left, right, slack)| {
        let arrive = |mut rows: Vec<(i64, u8, i64)>| {
            rows.sort_by_key(|&(time, _, delay)| time + delay.min(slack));
            let rows = rows.into_iter().enumerate();
            rows.map(|(number, (time, key, _))| (time, key, number)).collect()
        };
        Rows { left: arrive(left), right: arrive(right), slack: slack as u64 }
    })
}

/// All rows by time, of one time those of one side first, of one side in order of arrival.
fn in_order(rows: &Rows, left_first: bool) -> Vec<(bool, Row)> {
    let left = rows.left.iter().map(|&row| (true, row));
    let mut all: Vec<_> = left.chain(rows.right.iter().map(|&row| (false, row))).collect();
    all.sort_by_key(|&(is_left, (time, ..))| (time, is_left != left_first));
    all
}

/// Runs what `describe` makes of both streams in many ways. Flagged, `expected` must come out in order,
/// if there is an `order`; unflagged the same in any order.
fn check(
    rows: &Rows,
    expected: &Out,
    order: bool,
    describe: impl Fn(BoxedStream<Row>, BoxedStream<Row>, bool) -> BoxedStream<Pair>,
) {
    let ways = [(1, 1_024, false), (1, 1, true), (2, 3, false), (4, 1, false), (4, 7, true)];
    let mut flagged_gave = None;
    for (workers, batch, flagged) in ways {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let query = Query::new("join");
        let side = |name, side: &[Row]| {
            let side = source::from_iter(side.to_vec(), |&(time, ..)| at(time));
            query.source(name, side).watermarks(Watermarks::bounded(ms(rows.slack))).boxed()
        };
        let (left, right) = (side("left", &rows.left), side("right", &rows.right));
        let out = describe(left, right, flagged).collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        assert_eq!(late_unused(&query), 0);
        let got = out.take().into_iter().map(|event| (event.time, event.value));
        let (mut got, mut expected) = (got.collect::<Out>(), expected.clone());
        if flagged {
            let first = flagged_gave.get_or_insert_with(|| got.clone());
            assert_eq!(got, *first, "flagged, always the same");
        }
        if !(flagged && order) {
            got.sort();
            expected.sort();
        }
        assert_eq!(got, expected, "{workers} workers, batches of {batch}, flagged: {flagged}");
    }
}

/// A row that the naive join keeps.
struct Kept {
    is_left: bool,
    row: Row,
    /// The time of its last possible partner.
    last: i64,
    matched: bool,
}

/// The interval join, one row after the other, looking at all rows that are kept.
struct Naive {
    bounds: (i64, i64),
    sides: (bool, bool),
    kept: Vec<Kept>,
    out: Out,
}

impl Naive {
    fn run(rows: &Rows, bounds: (i64, i64), sides: (bool, bool)) -> Out {
        let mut naive = Self { bounds, sides, kept: Vec::new(), out: Vec::new() };
        for (is_left, row) in in_order(rows, true) {
            naive.fire(row.0);
            naive.take(is_left, row);
        }
        naive.fire(i64::MAX);
        naive.out
    }

    fn take(&mut self, is_left: bool, row: Row) {
        let (lower, upper) = self.bounds;
        let mut matched = false;
        let mut partners: Vec<&mut Kept> = self
            .kept
            .iter_mut()
            .filter(|kept| {
                let (l, r) = if is_left { (row.0, kept.row.0) } else { (kept.row.0, row.0) };
                kept.is_left != is_left && kept.row.1 == row.1 && (lower..=upper).contains(&(r - l))
            })
            .collect();
        partners.sort_by_key(|kept| kept.row.0);
        for kept in partners {
            (matched, kept.matched) = (true, true);
            let (l, r) = if is_left { (row, kept.row) } else { (kept.row, row) };
            self.out.push((at(l.0.max(r.0)), (Some(l.2), Some(r.2))));
        }
        let last = row.0 + if is_left { upper } else { -lower };
        self.kept.push(Kept { is_left, row, last, matched });
        // No partner can come any more: it is let go at once.
        if last < row.0 {
            let kept = self.kept.pop().expect("just kept");
            self.let_go(kept);
        }
    }

    fn fire(&mut self, clock: i64) {
        let (mut due, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.kept).into_iter().partition(|kept| kept.last < clock);
        self.kept = kept;
        due.sort_by_key(|kept| (kept.last, !kept.is_left));
        due.into_iter().for_each(|kept| self.let_go(kept));
    }

    fn let_go(&mut self, Kept { is_left, row, last, matched }: Kept) {
        let asked = if is_left { self.sides.0 } else { self.sides.1 };
        if asked && !matched {
            let out = if is_left { (Some(row.2), None) } else { (None, Some(row.2)) };
            self.out.push((at(row.0.max(last)), out));
        }
    }
}

fn interval((lower, upper): (i64, i64)) -> Interval {
    let millis = SignedDuration::from_millis;
    Interval::from(millis(lower)..=millis(upper))
}

/// Each join in turn; one type of chain each.
fn check_interval(rows: &Rows, bounds: (i64, i64)) {
    let naive = |sides| Naive::run(rows, bounds, sides);
    let within = interval(bounds);
    check(rows, &naive((false, false)), true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).within(within);
        joined.inner().in_order_if(flag).map(|(l, r)| (Some(l.2), Some(r.2))).boxed()
    });
    check(rows, &naive((false, false)), true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).within(within);
        joined.inner_with(|l, r| (Some(l.2), Some(r.2))).in_order_if(flag).boxed()
    });
    check(rows, &naive((true, false)), true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).within(within);
        joined.left().in_order_if(flag).map(|(l, r)| (Some(l.2), r.map(|r| r.2))).boxed()
    });
    check(rows, &naive((false, true)), true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).within(within);
        joined.right().in_order_if(flag).map(|(l, r)| (l.map(|l| l.2), Some(r.2))).boxed()
    });
    check(rows, &naive((true, true)), true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).within(within);
        joined.full().in_order_if(flag).map(|(l, r)| (l.map(|l| l.2), r.map(|r| r.2))).boxed()
    });
}

/// A row whose number ends so removes what its key has.
fn removes(row: &Row) -> bool {
    row.2 % 5 == 4
}

/// What each left row finds.
fn naive_as_of(rows: &Rows, age: Option<i64>, keyed: bool) -> Out {
    let mut newest: [Option<Row>; 3] = [None; 3];
    let mut out = Vec::new();
    for (is_left, row) in in_order(rows, false) {
        let newest = &mut newest[if keyed { usize::from(row.1) } else { 0 }];
        if is_left {
            let fresh = |found: &Row| age.is_none_or(|age| row.0 - found.0 <= age);
            out.push((at(row.0), (Some(row.2), newest.filter(fresh).map(|found| found.2))));
        } else {
            *newest = Some(row).filter(|row| !(keyed && removes(row)));
        }
    }
    out
}

fn check_as_of(rows: &Rows, age: i64) {
    check(rows, &naive_as_of(rows, None, true), true, |left, right, flag| {
        let found = left.key_by(|row| row.1).lookup(right.key_by(|row| row.1)).removed_if(removes);
        found.left().in_order_if(flag).map(|(l, r)| (Some(l.2), r.map(|r| r.2))).boxed()
    });
    let mut found_only = naive_as_of(rows, Some(age), true);
    found_only.retain(|(_, (_, found))| found.is_some());
    check(rows, &found_only, true, |left, right, flag| {
        let joined = left.key_by(|row| row.1).as_of(right.key_by(|row| row.1));
        let joined = joined.removed_if(removes).no_older_than(ms(age as u64));
        joined.inner().in_order_if(flag).map(|(l, r)| (Some(l.2), Some(r.2))).boxed()
    });
    check(rows, &naive_as_of(rows, None, false), true, |left, right, flag| {
        let joined = left.as_of(right).left().in_order_if(flag);
        joined.map(|(l, r)| (Some(l.2), r.map(|r| r.2))).boxed()
    });
    check(rows, &naive_as_of(rows, None, false), true, |left, right, flag| {
        let latest = |state: &mut Option<usize>, row: Row| *state = Some(row.2);
        let steered =
            left.with_control(right, None, latest).map(|state, row| (Some(row.2), *state));
        steered.in_order_if(flag).boxed()
    });
}

/// Rows of the same key and window, and those of windows without the other side.
fn naive_window(rows: &Rows, size: i64, every: i64) -> Out {
    let mut out = Vec::new();
    for start in (-size..60).filter(|start| start % every == 0) {
        for key in 0..3 {
            let inside = |rows: &[Row]| -> Vec<usize> {
                let holds = |row: &&Row| row.1 == key && (start..start + size).contains(&row.0);
                rows.iter().filter(holds).map(|row| row.2).collect()
            };
            let (left, right) = (inside(&rows.left), inside(&rows.right));
            let time = at(start + size).previous();
            if right.is_empty() {
                out.extend(left.iter().map(|&l| (time, (Some(l), None))));
            }
            if left.is_empty() {
                out.extend(right.iter().map(|&r| (time, (None, Some(r)))));
            }
            for &l in &left {
                out.extend(right.iter().map(|&r| (time, (Some(l), Some(r)))));
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn interval_joins(rows in rows(), lower in -15_i64..15, width in 0_i64..12) {
        check_interval(&rows, (lower, lower + width));
    }

    #[test]
    fn as_of_lookup_and_control(rows in rows(), age in 0_i64..15) {
        check_as_of(&rows, age);
    }

    #[test]
    fn window_joins(rows in rows(), size in 1_i64..20, every in 1_i64..20) {
        let every = every.min(size);
        let windows = Windows::hopping(ms(size as u64), ms(every as u64));
        // Windows of one instant come by the arrival of their keys, which the naive join does not know.
        check(&rows, &naive_window(&rows, size, every), false, |left, right, flag| {
            let joined = left.key_by(|row| row.1).join(right.key_by(|row| row.1)).window(windows);
            let joined = joined.full().in_order_if(flag).map(|window| window.value);
            joined.map(|(l, r)| (l.map(|l| l.2), r.map(|r| r.2))).boxed()
        });
    }
}
