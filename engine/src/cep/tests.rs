//! Patterns that cannot be, and what random patterns have shown.

use std::time::Duration;

use super::*;
use crate::event::Event;
use crate::time::Timestamp;

fn step(kinds: &'static str) -> Step<char> {
    Step {
        name: kinds.into(),
        condition: std::sync::Arc::new(move |event: &char, _: &Bound<'_, char>| {
            kinds.contains(*event)
        }),
        alone: true,
        level: 0,
        max_pending: None,
    }
}

/// A step that takes any of these characters.
fn one(kinds: &'static str) -> Expr<char> {
    Expr::Step(step(kinds))
}

fn then(to: Expr<char>) -> Link<char> {
    Link::To(Contiguity::Relaxed, to)
}

fn next(to: Expr<char>) -> Link<char> {
    Link::To(Contiguity::Strict, to)
}

fn not_then(kinds: &'static str) -> Link<char> {
    Link::Not(Negation::Until, step(kinds))
}

fn not_next(kinds: &'static str) -> Link<char> {
    Link::Not(Negation::Next, step(kinds))
}

fn sequence(links: impl IntoIterator<Item = Link<char>>) -> Expr<char> {
    Expr::Sequence(links.into_iter().collect())
}

fn repeat(of: Expr<char>, times: Times<char>) -> Expr<char> {
    Expr::Repeat(Box::new(of), times)
}

fn optional(of: Expr<char>) -> Expr<char> {
    repeat(of, Times::new(..=1))
}

fn until(kinds: &'static str, times: Times<char>) -> Times<char> {
    let ends = move |event: &char, _: &Bound<'_, char>| kinds.contains(*event);
    Times { until: Some(std::sync::Arc::new(ends)), ..times }
}

fn absent(of: Expr<char>) -> Expr<char> {
    Expr::Absent(Box::new(of))
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn pattern(expr: Expr<char>) -> Pattern<char> {
    Pattern {
        expr,
        starts: Starts::EachEvent,
        within: None,
        within_each: None,
        report: Report::Each,
        skip: Skip::None,
        consume: Consume::Nothing,
        cap: None,
    }
}

fn within(length: u64, pattern: Pattern<char>) -> Pattern<char> {
    Pattern { within: Some(Limit::below(us(length))), ..pattern }
}

/// What a pattern finds in a text whose characters come one a microsecond, and at its end: the places of the
/// events of matches, and of timeouts with a `!`.
fn found(pattern: &Pattern<char>, text: &str) -> Vec<String> {
    let program = pattern.compile().expect("the pattern can be");
    let mut room = Room::default();
    let mut said = Vec::new();
    let mut hear = |found: Found<'_, char>| {
        let (events, mark) = match found {
            Found::Match(events) => (events, ""),
            Found::Timeout(events) => (events, "!"),
        };
        let places = events.events().into_iter().map(|taken| taken.time.as_micros().to_string());
        said.push(places.collect::<Vec<_>>().join(" ") + mark);
    };
    let mut matches = program.fresh(Timestamp::EPOCH, &mut room);
    for (place, event) in text.chars().enumerate() {
        let now = Timestamp::from_micros(place as i64);
        program.clock(&mut matches, &mut room, (now, false), &mut |_, found| hear(found));
        let facts = program.facts(&event);
        program.event(&mut matches, &mut room, Event::new(now, event), facts, &mut hear);
    }
    program.clock(&mut matches, &mut room, (Timestamp::MAX, true), &mut |_, found| hear(found));
    program.end(&mut matches, &mut room, Timestamp::MAX, &mut hear);
    assert!(program.is_fresh(&matches) || pattern.starts == Starts::Once);
    assert_eq!(matches.held(), 0, "nothing is held after the end");
    said
}

#[test]
fn what_ends_a_repetition_ends_those_within_it_too() {
    // Pairs of b, ended by x, as often as they come, ended by y.
    let pair = repeat(one("b"), until("x", Times::new(2..=2)));
    let pairs = repeat(pair, until("y", Times::new(1..)));
    let whole = pattern(sequence([then(one("a")), then(pairs)]));
    assert_eq!(found(&whole, "abb"), ["0 1 2"]);
    assert_eq!(found(&whole, "axbb"), [""; 0]);
    assert_eq!(found(&whole, "aybb"), [""; 0]);
    assert_eq!(found(&whole, "abyb"), [""; 0]);
}

#[test]
fn the_preferred_way_waits_before_the_one_that_is_taken_first() {
    let reluctant = |times| Times { preference: Preference::Reluctant, ..times };
    let some = |times| sequence([then(one("a")), then(repeat(one("b"), times)), then(one("c"))]);
    let best = |expr| Pattern { report: Report::Best, ..pattern(expr) };
    assert_eq!(found(&best(some(reluctant(Times::new(0..)))), "abc"), ["0 2"]);
    assert_eq!(found(&best(some(Times::new(0..))), "abc"), ["0 1 2"]);
    // What is left out is decided only when nothing preferred can come.
    assert_eq!(found(&best(some(Times::new(..=1))), "acbc"), ["0 2 3"]);
    // x is preferred to b, and b to y, though b comes first: they wait on both sides of it.
    let choice = sequence([
        then(one("a")),
        then(Expr::Either(vec![one("x"), sequence([then(one("b")), then(one("d"))]), one("y")])),
    ]);
    assert_eq!(found(&best(choice), "abydx"), ["0 4"]);
}

#[test]
fn preferred_matches_that_wait_for_an_absence_are_reported_once() {
    let some = repeat(one("b"), Times::new(1..));
    let quiet = sequence([then(one("a")), then(some), not_then("c")]);
    let best = within(5, Pattern { report: Report::Best, ..pattern(quiet) });
    assert_eq!(found(&best, "abb"), ["0 1 2"]);
}

#[test]
fn runs_that_wait_side_by_side_time_out_once() {
    let choice = Expr::Either(vec![one("x"), one("b"), one("y")]);
    let expr = sequence([then(one("a")), then(choice), then(one("c"))]);
    let best = within(5, Pattern { report: Report::Best, ..pattern(expr) });
    assert_eq!(found(&best, "ab"), ["0!", "0 1!"]);
}
