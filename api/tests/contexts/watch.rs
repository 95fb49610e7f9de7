//! Patterns that contexts listen for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mizzle::context::{Handlers, Stepped};
use mizzle::pattern::{Found, InvalidPattern, Pattern, step};
use mizzle::time::ManualClock;

use super::common::eventually;

type Said = Arc<Mutex<Vec<String>>>;
type Named = (char, u32);

fn a_then_b() -> Pattern<Named> {
    Pattern::new(
        step("a", |event: &Named| event.0 == 'a').then(step("b", |event: &Named| event.0 == 'b')),
    )
}

fn say(said: &Said, what: String) {
    said.lock().unwrap().push(what);
}

/// On every A followed by the next B.
#[test]
fn every_a_followed_by_the_next_b_routed_ones_included() {
    let stepped = Stepped::new();
    let handlers = Handlers::new()
        .on(
            |event: &Named| (event.0 == 'r').then_some(event),
            |_: &mut Said, event, cx| cx.route(('b', event.1)),
        )
        .on_pattern(a_then_b(), |said: &mut Said, found, cx| {
            say(said, format!("{}-{}", found["a"].1, found["b"].1));
            cx.route(('m', found["b"].1));
        })
        .unwrap()
        .on(
            |event: &Named| (event.0 == 'm').then_some(event),
            |said, event, _| {
                say(said, format!("m{}", event.1));
            },
        )
        .unmatched(
            |event: &Named| Some(event),
            |said, event, _| {
                say(said, format!("?{}{}", event.0, event.1));
            },
        );
    let said = Said::default();
    let context = stepped.context("listener").start(handlers, said.clone());
    for event in [('a', 1), ('a', 2), ('x', 3), ('b', 4), ('b', 5), ('a', 6), ('r', 7), ('b', 8)] {
        context.try_send(event).unwrap();
    }
    stepped.run(&context);
    let expected =
        ["?a1", "?a2", "?x3", "1-4", "2-4", "m4", "m4", "?b5", "?a6", "6-7", "m7", "?b8"];
    assert_eq!(*said.lock().unwrap(), expected);
}

#[test]
fn its_time_bounds_go_by_the_clock_without_any_event() {
    let clock = ManualClock::default();
    let stepped = Stepped::with_clock(clock.clone());
    let handlers = Handlers::new()
        .on_pattern_or_timeout(
            a_then_b().within(Duration::from_secs(10)),
            |said: &mut Said, found, cx| match found {
                Found::Match(found) => say(said, format!("{}-{}", found["a"].1, found["b"].1)),
                Found::Timeout(found) => {
                    say(said, format!("{} alone", found["a"].1));
                    cx.route(('t', 0));
                }
            },
        )
        .unwrap()
        .on(
            |event: &Named| (event.0 == 't').then_some(event),
            |said, _, _| say(said, "t".to_owned()),
        );
    let said = Said::default();
    let context = stepped.context("listener").start(handlers, said.clone());
    let mut at = 0;
    let mut wait_until = |second: u64| {
        clock.advance(Duration::from_secs(second - at));
        at = second;
    };
    context.try_send(('a', 1)).unwrap();
    stepped.run(&context);
    wait_until(9);
    context.try_send(('b', 2)).unwrap();
    context.try_send(('a', 3)).unwrap();
    stepped.run(&context);
    // An event at the very end of the time comes too late.
    wait_until(19);
    context.try_send(('b', 4)).unwrap();
    stepped.run(&context);
    context.try_send(('a', 5)).unwrap();
    stepped.run(&context);
    assert_eq!(*said.lock().unwrap(), ["1-2", "3 alone", "t"]);
    wait_until(29);
    // The engine's timer wakes it.
    eventually("its time is over", || {
        stepped.run(&context);
        said.lock().unwrap().len() == 5
    });
    assert_eq!(said.lock().unwrap()[3..], ["5 alone", "t"]);
}

#[test]
fn what_is_no_pattern_is_refused() {
    let empty = Pattern::new(step("a", |event: &Named| event.0 == 'a').optional());
    let refused = Handlers::<Named, ()>::new().on_pattern(empty, |(), _, _| {});
    let Err(reason) = refused else { panic!("it can match nothing") };
    assert!(!reason.to_string().is_empty());
    let _: InvalidPattern = reason;
}
