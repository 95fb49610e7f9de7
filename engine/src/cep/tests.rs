//! Patterns that cannot be, and what random patterns have shown.

use std::time::Duration;

use super::*;
use crate::event::Event;
use crate::time::Timestamp;

pub(crate) fn step(kinds: &'static str) -> Step<char> {
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
pub(crate) fn one(kinds: &'static str) -> Expr<char> {
    Expr::Step(step(kinds))
}

pub(crate) fn then(to: Expr<char>) -> Link<char> {
    Link::To(Contiguity::Relaxed, to)
}

pub(crate) fn next(to: Expr<char>) -> Link<char> {
    Link::To(Contiguity::Strict, to)
}

pub(crate) fn not_then(kinds: &'static str) -> Link<char> {
    Link::Not(Negation::Until, step(kinds))
}

pub(crate) fn not_next(kinds: &'static str) -> Link<char> {
    Link::Not(Negation::Next, step(kinds))
}

pub(crate) fn sequence(links: impl IntoIterator<Item = Link<char>>) -> Expr<char> {
    Expr::Sequence(links.into_iter().collect())
}

pub(crate) fn repeat(of: Expr<char>, times: Times<char>) -> Expr<char> {
    Expr::Repeat(Box::new(of), times)
}

pub(crate) fn optional(of: Expr<char>) -> Expr<char> {
    repeat(of, Times::new(..=1))
}

pub(crate) fn until(kinds: &'static str, times: Times<char>) -> Times<char> {
    let ends = move |event: &char, _: &Bound<'_, char>| kinds.contains(*event);
    Times { until: Some(std::sync::Arc::new(ends)), ..times }
}

pub(crate) fn absent(of: Expr<char>) -> Expr<char> {
    Expr::Absent(Box::new(of))
}

pub(crate) fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub(crate) fn pattern(expr: Expr<char>) -> Pattern<char> {
    Pattern::new(expr, Starts::EachEvent)
}

pub(crate) fn within(length: u64, pattern: Pattern<char>) -> Pattern<char> {
    Pattern { within: Some(Limit::below(us(length))), ..pattern }
}

/// What a pattern finds in a text whose characters come one a microsecond, and at its end: the places of the
/// events of matches, and of timeouts with a `!`.
fn found(pattern: &Pattern<char>, text: &str) -> Vec<String> {
    found_at(pattern, text).into_iter().map(|(_, said)| said).collect()
}

/// Likewise, each with the time at which it was found.
fn found_at(pattern: &Pattern<char>, text: &str) -> Vec<(i64, String)> {
    let program = pattern.compile().expect("the pattern can be");
    let mut room = Room::default();
    let mut said = Vec::new();
    let mut hear = |at: Timestamp, found: Found<'_, char>| {
        let (events, mark) = match found {
            Found::Match(events) => (events, ""),
            Found::Timeout(events) => (events, "!"),
        };
        let places = events.events().into_iter().map(|taken| taken.time.as_micros().to_string());
        said.push((at.as_micros(), places.collect::<Vec<_>>().join(" ") + mark));
    };
    let mut matches = program.fresh(Timestamp::EPOCH, &mut room);
    for (place, event) in text.chars().enumerate() {
        let now = Timestamp::from_micros(place as i64);
        program.clock(&mut matches, &mut room, (now, false), &mut hear);
        let facts = program.facts(&event);
        program
            .event(&mut matches, &mut room, Event::new(now, event), facts, &mut |it| hear(now, it));
    }
    program.clock(&mut matches, &mut room, (Timestamp::MAX, true), &mut hear);
    program.end(&mut matches, &mut room, Timestamp::MAX, &mut |it| hear(Timestamp::MAX, it));
    assert!(program.is_fresh(&matches) || pattern.starts == Starts::Once);
    assert_eq!(matches.held(), 0, "nothing is held after the end");
    said
}

#[test]
fn the_end_behind_a_negation_gives_up_a_possessive_loop() {
    let possessive = Times { possessive: true, ..Times::new(1..) };
    let links = [then(one("a")), then(repeat(one("b"), possessive)), not_next("x")];
    let best = Pattern { report: Report::Best, ..pattern(sequence(links)) };
    // The y decides: it is the end, and the loop does not wait for the b behind it.
    assert_eq!(found_at(&best, "abyb"), [(2, "0 1".to_owned())]);
    assert_eq!(found_at(&best, "abbyb"), [(3, "0 1 2".to_owned())]);
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

#[test]
fn a_timeout_tells_what_parts_side_by_side_have_taken_but_not_what_must_not_come() {
    let forbidden = absent(sequence([then(one("x")), then(one("y"))]));
    let parts = vec![one("b"), one("c"), one("d"), forbidden];
    let expr = sequence([then(one("a")), then(Expr::AllOf(parts))]);
    let whole = within(9, pattern(expr));
    assert_eq!(found(&whole, "acxb"), ["0 1 3!"]);
    assert_eq!(found(&whole, "acxbd"), ["0 1 3 4"]);
    assert_eq!(found(&whole, "ax"), ["0!"]);
}

#[test]
fn an_event_that_begins_at_a_higher_level_is_kept_from_lower_steps() {
    let high = Expr::Step(Step { level: 1, ..step("a") });
    let whole = pattern(sequence([then(high), then(one("ab"))]));
    assert_eq!(found(&whole, "aab"), ["0 2", "1 2"]);
    let parts = vec![Expr::Step(Step { level: 1, ..step("a") }), one("c")];
    let whole = pattern(sequence([then(Expr::AllOf(parts)), then(one("ab"))]));
    assert_eq!(found(&whole, "acab"), ["0 1 3", "1 2 3"]);
}

#[test]
fn an_event_that_is_both_what_comes_and_what_must_not_is_what_must_not() {
    let whole = pattern(sequence([then(one("a")), not_then("b"), then(one("bc"))]));
    assert_eq!(found(&whole, "abc"), [""; 0]);
    let whole = pattern(sequence([then(one("a")), not_next("b"), then(one("bc"))]));
    assert_eq!(found(&whole, "axb"), ["0 2"]);
    assert_eq!(found(&whole, "ab"), [""; 0]);
}

#[test]
fn memory_follows_what_can_still_match() {
    let some = repeat(one("a"), Times::new(1..));
    let program = within(10, pattern(sequence([then(some), then(one("b"))]))).compile().unwrap();
    let mut room = Room::default();
    let mut matches = program.fresh(Timestamp::EPOCH, &mut room);
    let (mut most, mut timeouts) = ((0, 0), 0);
    for time in 0..100_000 {
        let now = Timestamp::from_micros(time);
        program.clock(&mut matches, &mut room, (now, false), &mut |_, _| timeouts += 1);
        let (event, facts) = (Event::new(now, 'a'), program.facts(&'a'));
        program.event(&mut matches, &mut room, event, facts, &mut |_| panic!("there is no b"));
        most = (most.0.max(matches.len()), most.1.max(matches.held()));
    }
    // Of each of the last ten events one run for each number of events behind it.
    assert_eq!(most.0, (1..=10).sum::<usize>());
    assert!(most.1 <= 2 * 10 + 9, "{} events are held", most.1);
    assert!(timeouts > 900_000);
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    use InvalidPattern::*;
    let refused = |pattern: Pattern<char>| pattern.compile().err().expect("it is refused");
    let of = |expr| refused(pattern(expr));
    let ab = || sequence([then(one("a")), then(one("b"))]);
    let wait = |length| Expr::Wait(us(length));
    assert_eq!(of(sequence([])), Nothing);
    assert_eq!(of(Expr::AllOf(vec![])), Nothing);
    assert_eq!(of(Expr::Either(vec![])), Nothing);
    assert_eq!(of(repeat(one("a"), Times::new(0..=0))), Nothing);
    assert_eq!(of(optional(one("a"))), Everything);
    assert_eq!(of(sequence([then(optional(one("a"))), not_next("b")])), Everything);
    assert_eq!(of(Expr::AllOf(vec![one("a"), optional(one("b"))])), Everything);
    assert_eq!(of(repeat(optional(one("a")), Times::new(1..))), Endless);
    let between = sequence([then(optional(one("a"))), not_next("b"), then(optional(one("c")))]);
    assert_eq!(of(repeat(between, Times::new(1..))), Endless);
    assert_eq!(of(Expr::Every(Box::new(optional(one("a"))), EVERY)), Endless);
    assert_eq!(of(sequence([then(one("a")), not_then("b")])), Unending);
    assert_eq!(of(Expr::AllOf(vec![absent(one("a"))])), Unending);
    assert_eq!(of(absent(one("a"))), LoneAbsence);
    assert_eq!(of(sequence([then(one("a")), then(absent(one("b")))])), LoneAbsence);
    assert_eq!(of(sequence([not_next("a"), then(one("b"))])), NegationBefore);
    let ends = sequence([then(one("a")), not_next("b")]);
    assert_eq!(of(sequence([then(ends), then(one("c"))])), NegationBefore);
    let all = || Expr::AllOf(vec![one("b"), one("c")]);
    assert_eq!(of(sequence([then(one("a")), not_next("x"), then(all())])), NegationBefore);
    assert_eq!(of(sequence([then(wait(5)), then(one("a"))])), WaitsFirst);
    assert_eq!(of(sequence([then(optional(one("a"))), then(wait(5)), then(one("b"))])), WaitsFirst);
    let late = sequence([then(one("a")), then(wait(5)), then(wait(5))]);
    assert_eq!(refused(within(10, pattern(late))), TooShort { waits: us(10), within: us(10) });
    assert!(matches!(of(sequence([then(one("a")), then(wait(0))])), Zero(_)));
    assert!(matches!(refused(within(0, pattern(ab()))), Zero(_)));
    let each = Some(Limit::below(us(0)));
    assert!(matches!(refused(Pattern { within_each: each, ..pattern(ab()) }), Zero(_)));
    let at_once = Report::BestAt(us(0));
    assert!(matches!(refused(Pattern { report: at_once, ..pattern(ab()) }), Zero(_)));
    let skip = Skip::ToLast("z".to_owned());
    assert_eq!(refused(Pattern { skip, ..pattern(ab()) }), UnknownStep("z".to_owned()));
    assert_eq!(of(sequence([then(one("x")), next(all())])), AllNext);
    assert_eq!(refused(Pattern { report: Report::Best, ..pattern(all()) }), NotRanked);
    let many = |n| Expr::Either((0..n).map(|_| one("a")).collect());
    assert!(pattern(many(64)).compile().is_ok());
    assert!(matches!(of(many(65)), TooLarge(_)));
    let guarded = |n| sequence([then(one("a")), not_next("x"), then(many(n))]);
    assert!(pattern(guarded(32)).compile().is_ok());
    assert!(matches!(of(guarded(300)), TooLarge(_)));
    assert!(matches!(of(repeat(one("a"), Times::new(70_000..))), TooLarge(_)));
}

const EVERY: Again = Again { complete: true, impossible: true };

#[test]
fn a_refusal_says_what_can_be_done() {
    let whole = pattern(sequence([then(one("a")), not_then("b")]));
    let unending = whole.compile().err().unwrap().to_string();
    assert!(unending.contains("add `within`"), "{unending}");
    let short = within(3, pattern(sequence([then(one("a")), then(Expr::Wait(us(5)))])));
    let short = short.compile().err().unwrap().to_string();
    assert!(short.contains("5µs") && short.contains("3µs"), "{short}");
}
