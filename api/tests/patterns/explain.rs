//! What a plan shows of a pattern, and what is refused or warned about.

use std::time::Duration;

use mizzle::pattern::{Pattern, absent, all_of, step, wait};
use mizzle::time::Timestamp;
use mizzle::{Query, source};

use super::common::engine;

fn is(wanted: i64) -> impl Fn(&i64) -> bool + Send + Sync + 'static {
    move |n| *n == wanted
}

fn query(pattern: Pattern<i64>) -> Query {
    let query = Query::new("q");
    query
        .source("numbers", source::from_iter([1], |&n| Timestamp::from_secs(n)))
        .key_by(|n| n % 2)
        .pattern(pattern, |_| ())
        .for_each(drop);
    query
}

fn explained(pattern: Pattern<i64>) -> String {
    query(pattern).plan(2).explain()
}

fn refusal(pattern: Pattern<i64>) -> String {
    engine(1).submit(query(pattern)).map(drop).unwrap_err().to_string()
}

#[test]
fn a_plan_draws_the_automaton_of_a_pattern() {
    let pattern = || {
        let quiet = all_of([wait(Duration::from_secs(5)), absent(step("c", is(3)))]);
        let part = step("a", is(1)).then_any(step("b", is(2)).one_or_more().consecutive());
        Pattern::new(part.then(quiet)).within(Duration::from_secs(60))
    };
    let text = explained(pattern());
    for line in [
        "pattern (in order) per key",
        "begins with each event, within 60000000 us",
        ": a -> s",
        ": b (any) -> s",
        ": b (next) -> s",
        "after 5000000 us -> s",
        "must not be -> s",
        "complete -> match",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("warning"), "{text}");
    let diagram = query(pattern()).plan(2).explain_mermaid();
    for line in ["subgraph i1[\"pattern\"]", "-->|\"a\"|", "o1 -.- i1", "((match))"] {
        assert!(diagram.contains(line), "{line:?} is not in\n{diagram}");
    }
}

#[test]
fn what_is_held_for_ever_is_warned_about() {
    let pair = || step("a", is(1)).then(step("b", is(2)));
    assert!(explained(Pattern::new(pair())).contains("kept until they match"));
    assert!(!explained(Pattern::new(pair()).within(Duration::from_secs(1))).contains("warning"));
    let strict = step("a", is(1)).next(step("b", is(2)));
    assert!(!explained(Pattern::new(strict)).contains("warning"));
    assert!(explained(Pattern::once(step("a", is(1)))).contains("remembered for ever"));
    assert!(!explained(Pattern::once(step("a", is(1)).every())).contains("warning"));
}

#[test]
fn a_pattern_stays_in_order_whatever_is_said() {
    let query = Query::new("q");
    query
        .source("numbers", source::from_iter([1], |&n| Timestamp::from_secs(n)))
        .pattern(Pattern::new(step("a", is(1))), |_| ())
        .in_order_if(false)
        .for_each(drop);
    assert!(query.plan(2).explain().contains("pattern (in order)"));
}

#[test]
fn a_refusal_names_operator_line_and_reason() {
    let everything = refusal(Pattern::new(step("a", is(1)).optional()));
    assert!(everything.contains("everything matches"), "{everything}");
    assert!(everything.contains("pattern") && everything.contains("explain.rs:"), "{everything}");
    let never = step("a", is(1)).not_then(step("b", is(2)));
    assert!(refusal(Pattern::new(never)).contains("has no end"));
    let long = step("a", is(1)).then(wait(Duration::from_secs(9)));
    let long = refusal(Pattern::new(long).within(Duration::from_secs(9)));
    assert!(long.contains("9s") && long.contains("nothing can match"), "{long}");
}
