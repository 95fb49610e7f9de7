//! The closed table: each operator, flagged or not, on one worker and on four. What is behind the
//! source is `map`, the operator, `map`, and a sink.

use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::plan::{Piece, Reorder};
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{ProcessCx, ProcessOp, Query, Windows, source};

/// The pieces of a query with the given operators, in short: mode, with shards, reordering and ticket
/// order where there are any. A macro, because the stream's type has no name.
macro_rules! table {
    ($workers:expr, |$stream:ident| $described:expr) => {{
        let query = Query::new("table");
        let none = source::from_iter(Vec::<i64>::new(), |_| Timestamp::MIN);
        let numbers = query.source("numbers", none);
        let $stream = numbers.watermarks(Watermarks::bounded(Duration::from_secs(1))).map(|n| n);
        $described;
        let plan = query.plan($workers);
        plan.pieces().iter().map(short).collect::<Vec<_>>().join(" | ")
    }};
}

fn short(piece: &Piece) -> String {
    let mut text = piece.mode.to_string();
    if piece.shards > 1 {
        text += &format!(" x{}", piece.shards);
    }
    match piece.reorder {
        Reorder::Never => {}
        Reorder::Stage => text += ", stage",
        Reorder::Merge => text += ", merge",
    }
    if piece.ticket_order {
        text += ", tickets";
    }
    text
}

struct Nothing;

impl ProcessOp<i64, i64> for Nothing {
    type State = ();
    type Out = i64;
    type Side = i64;

    fn event(&self, _: &mut ProcessCx<'_, i64, i64, i64>, (): &mut (), _: i64) {}
}

const ORDERED: &str = "ordered, stage";

#[test]
fn without_state() {
    for (workers, expected) in [(1, "guarded"), (4, "parallel | guarded")] {
        assert_eq!(table!(workers, |s| s.filter(|_| true).for_each(drop)), expected);
        assert_eq!(table!(workers, |s| s.filter_map(Some).for_each(drop)), expected);
        assert_eq!(table!(workers, |s| s.flat_map(Some).for_each(drop)), expected);
        assert_eq!(table!(workers, |s| s.inspect(|_, _| ()).for_each(drop)), expected);
    }
}

#[test]
fn one_state_for_all_events() {
    for workers in [1, 4] {
        for flag in [false, true] {
            let expected = match (flag, workers) {
                (true, _) => ORDERED,
                (false, 1) => "guarded",
                (false, _) => "parallel, tickets | guarded",
            };
            let apply = |s: &mut i64, n| *s + n;
            let applied = table!(workers, |s| {
                s.apply_stateful(0, apply).in_order_if(flag).map(|n| n).for_each(drop);
            });
            assert_eq!(applied, expected, "apply_stateful, {flag}, {workers}");
            let reduced = table!(workers, |s| {
                s.reduce(|a, b| a + b).in_order_if(flag).map(|n| n).for_each(drop);
            });
            assert_eq!(reduced, expected, "reduce, {flag}, {workers}");
            let moved = table!(workers, |s| {
                s.state_transition(0, |_, _| None, |_| true).in_order_if(flag).for_each(drop);
            });
            assert_eq!(moved, expected, "state_transition, {flag}, {workers}");
            let counted = table!(workers, |s| {
                let windows = s.window(Windows::tumbling(Duration::from_secs(1)));
                windows.aggregate(count()).in_order_if(flag).for_each(drop);
            });
            assert_eq!(counted, expected, "window, {flag}, {workers}");
        }
    }
}

#[test]
fn a_state_per_key() {
    for workers in [1, 4] {
        for flag in [false, true] {
            let expected = match (flag, workers) {
                (true, _) => ORDERED,
                (false, 1) => "parallel",
                (false, _) => "parallel | parallel x4 | guarded",
            };
            let applied = table!(workers, |s| {
                s.key_by(|n| *n).apply_stateful(0, |s, n| *s + n).in_order_if(flag).for_each(drop);
            });
            assert_eq!(applied, expected, "apply_stateful, {flag}, {workers}");
            let reduced = table!(workers, |s| {
                s.key_by(|n| *n).reduce(|a, b| a + b).in_order_if(flag).for_each(drop);
            });
            assert_eq!(reduced, expected, "reduce, {flag}, {workers}");
            let processed = table!(workers, |s| {
                s.key_by(|n| *n).process(Nothing).0.in_order_if(flag).for_each(drop);
            });
            assert_eq!(processed, expected, "process, {flag}, {workers}");
            let counted = table!(workers, |s| {
                let windows = s.key_by(|n| *n).window(Windows::tumbling(Duration::from_secs(1)));
                windows.aggregate(count()).in_order_if(flag).for_each(drop);
            });
            assert_eq!(counted, expected, "window, {flag}, {workers}");
        }
    }
}

/// A side output demands order of its operator, not of what else follows that.
#[test]
fn a_side_output_stands_behind_its_operator() {
    let planned = table!(4, |s| {
        let (main, side) = s.key_by(|n| *n).process(Nothing);
        main.key_by(|n| *n).reduce(|a, b| a + b).for_each(drop);
        side.apply_stateful(0, |s, n| *s + n).in_order().for_each(drop);
    });
    assert_eq!(planned, "ordered, stage | parallel x4 | guarded | ordered");
}

/// The lines' numbers are taken off, so that this file can change.
fn without_lines(text: &str) -> String {
    let line = |line: &str| match line.split_once("modes.rs:") {
        Some((before, _)) => format!("{}modes.rs", before),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn example() -> Query {
    let query = Query::new("example");
    let numbers = query.source("numbers", source::from_iter(0..9i64, |&n| Timestamp::from_secs(n)));
    let shared = numbers.watermarks(Watermarks::bounded(Duration::from_secs(1))).share();
    let odd = shared.clone().filter(|n| n % 2 == 1).name("odd");
    let sums = shared.map(|n| n * 2).union(odd).apply_stateful(0, |s, n| *s + n).in_order();
    sums.name("sums").for_each(drop);
    query
}

#[test]
fn explain_as_text() {
    insta::assert_snapshot!("explain_text", without_lines(&example().plan(4).explain()));
}

#[test]
fn explain_as_mermaid() {
    insta::assert_snapshot!("explain_mermaid", example().plan(4).explain_mermaid());
}
