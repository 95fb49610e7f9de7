use std::time::Duration;

use super::*;
use crate::harness::{Element, Input, OperatorHarness, Probe};
use crate::operator::{Consumer, Cx, OpId};
use crate::state::Codec;

type Value = (char, i64);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn event(time: i64, key: char, value: i64) -> Input<Value> {
    Input::Event(at(time), (key, value))
}

fn key(value: &Value) -> char {
    value.0
}

#[test]
fn wake_ups_of_one_time_come_in_order_of_arrival_of_their_keys() {
    let harness = OperatorHarness::new(|probe: Probe<Value>| {
        let codec = Some(Codec::new("debounce"));
        Ruled::new(OpId(1), key, Debounce::new(us(10)), codec, false, probe)
    });
    let inputs = [
        event(1, 'c', 0),
        event(2, 'a', 0),
        event(3, 'b', 0),
        event(5, 'c', 1),
        event(5, 'b', 1),
        event(5, 'a', 1),
        Input::Watermark(at(15)),
        Input::Watermark(at(16)),
    ];
    let outcome = harness.ordered(true).restoring().run(&inputs);
    assert_eq!(outcome.values().collect::<Vec<_>>(), [&('c', 1), &('a', 1), &('b', 1)]);
    assert!(outcome.events().all(|(time, _)| time == at(15)));
}

#[test]
fn a_key_says_no_more_than_is_due_before_the_next_alarm() {
    let harness = OperatorHarness::new(|probe: Probe<Value>| {
        let codec = Some(Codec::new("throttle"));
        Ruled::new(OpId(1), key, Latest::new(us(10)), codec, false, probe)
    });
    // Key a is due at 10 and, as it says something then, at 20; key b at 11 and 21.
    let inputs = [
        event(0, 'a', 0),
        event(1, 'b', 0),
        event(2, 'a', 1),
        event(3, 'b', 1),
        Input::Watermark(at(90)),
        event(95, 'a', 2),
        Input::End,
    ];
    let outcome = harness.ordered(true).restoring().run(&inputs);
    let seen: Vec<_> = outcome.events().map(|(time, value)| (time.as_micros(), *value)).collect();
    let expected = [(0, ('a', 0)), (1, ('b', 0)), (10, ('a', 1)), (11, ('b', 1)), (95, ('a', 2))];
    assert_eq!(seen, expected);
}

#[test]
fn what_is_due_in_the_past_comes_at_the_watermark_and_is_on_time() {
    let debounce = |probe: Probe<Value>| {
        let codec = Some(Codec::new("debounce"));
        Ruled::new(OpId(1), key, Debounce::new(us(10)), codec, false, probe)
    };
    let inputs =
        [Input::Watermark(at(100)), Input::LateEvent(at(20), ('a', 1)), Input::Watermark(at(101))];
    let outcome = OperatorHarness::new(debounce).restoring().run(&inputs);
    assert_eq!(outcome.port(0)[1], Element::Event(at(100), ('a', 1), false));
    let outcome = OperatorHarness::new(debounce).ordered(true).run(&inputs);
    assert_eq!((outcome.events().count(), outcome.counters.late), (0, 1));
}

#[test]
fn unflagged_a_straggler_does_not_take_the_newest_ones_place() {
    fn seen<R: Rule<Value, Out = Value>>(make: impl Fn() -> R) -> Vec<(i64, i64)> {
        let harness = OperatorHarness::new(|probe: Probe<Value>| {
            Ruled::new(OpId(1), key, make(), None, false, probe)
        });
        let inputs = [event(30, 'a', 1), event(34, 'a', 2), event(12, 'a', 3), Input::End];
        let outcome = harness.run(&inputs);
        outcome.events().map(|(time, value)| (time.as_micros(), value.1)).collect()
    }
    assert_eq!(seen(|| Latest::new(us(10))), [(30, 1), (40, 2)]);
    assert_eq!(seen(|| Sample::new(us(10))), [(39, 2)]);
    assert_eq!(seen(|| Debounce::new(us(10))), [(44, 2)]);
    // It is no duplicate of what passed ten microseconds later; and it counts as if it came then.
    assert_eq!(seen(|| First::new(us(10))), [(30, 1), (12, 3)]);
    assert_eq!(seen(|| CountReaches::new(3, us(10))), [(12, 3)]);
}

#[test]
fn a_counter_that_comes_late_is_not_a_reset() {
    let harness = OperatorHarness::new(|probe: Probe<Increase<Value>>| {
        let counter = |value: &Value| value.1 as u64;
        Ruled::new(OpId(1), key, Increases::new(counter, Counter::Resets), None, false, probe)
    });
    let inputs = [event(1, 'a', 100), event(3, 'a', 120), event(2, 'a', 110), event(4, 'a', 125)];
    let outcome = harness.run(&inputs);
    let increases: Vec<_> = outcome.values().map(|increase| increase.by).collect();
    assert_eq!((increases, outcome.counters.late), (vec![20, 5], 1));
}

#[test]
fn sorting_hands_on_at_once_what_comes_too_late() {
    let harness = OperatorHarness::new(|probe: Probe<Value>| {
        let by = |value: &Value| value.1;
        Ruled::new(OpId(1), |_: &Value| (), Sort::new(us(10), by), None, false, probe)
    });
    let inputs = [
        event(5, 'a', 2),
        event(5, 'a', 1),
        event(3, 'a', 9),
        event(16, 'a', 0),
        event(4, 'b', 0),
        Input::Watermark(at(8)),
        Input::LateEvent(at(7), ('c', 0)),
        event(8, 'd', 0),
        Input::Watermark(at(9)),
        Input::End,
    ];
    let outcome = harness.run(&inputs);
    let seen: Vec<_> = outcome.events().map(|(time, value)| (time.as_micros(), *value)).collect();
    let expected = [
        (3, ('a', 9)),
        (5, ('a', 1)),
        (5, ('a', 2)),
        (4, ('b', 0)),
        (7, ('c', 0)),
        (8, ('d', 0)),
        (16, ('a', 0)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn st_01_what_has_passed_is_forgotten_after_its_lifetime() {
    let probe = Probe::new();
    let lifetime = Duration::from_secs(10);
    let operator = Ruled::new(OpId(1), |id: &u32| *id, First::new(lifetime), None, false, probe);
    let (mut state, mut cx) = (operator.state(), Cx::new(true, 0));
    for id in 0..100_000u32 {
        let time = Timestamp::from_millis(i64::from(id));
        operator.event(&mut state, &mut cx, Event::new(time, id));
        let kept = state.keys();
        assert!(kept.len() <= 10_000 && kept.alarms() <= kept.len(), "{} ids", kept.len());
    }
}

#[test]
fn a_key_that_is_touched_often_has_one_alarm() {
    let operator = Ruled::new(
        OpId(1),
        key,
        Expiring::new(Pairwise, us(10), |_| None),
        None,
        false,
        Probe::new(),
    );
    let (mut state, mut cx) = (operator.state(), Cx::new(true, 0));
    for time in 0..1_000 {
        operator.event(&mut state, &mut cx, Event::new(at(time), ('a', time)));
        assert_eq!((state.keys().len(), state.keys().alarms()), (1, 1));
    }
    operator.watermark(&mut state, &mut cx, at(1_009));
    assert!(state.keys().is_empty());
    assert_eq!(operator.next_timer(&state), None);
}

#[test]
fn a_key_whose_rule_panics_starts_afresh() {
    let probe = Probe::new();
    let high = |value: &Value| if value.1 < 0 { panic!("as told") } else { value.1 > 2 };
    let rule = Expiring::new(RunsOf::new(2, high), us(100), |_| None);
    let operator = Ruled::new(OpId(1), key, rule, None, true, probe.port(0));
    let (mut state, mut cx) = (operator.state(), Cx::default());
    for (time, (key, value)) in
        [('a', 3), ('b', 3), ('a', -1), ('a', 3), ('b', 4), ('a', 5)].into_iter().enumerate()
    {
        operator.event(&mut state, &mut cx, Event::new(at(time as i64), (key, value)));
    }
    let seen: Vec<_> = probe.take();
    let expected = [(4, ('b', 4)), (5, ('a', 5))];
    assert_eq!(seen, expected.map(|(time, value)| Element::Event(at(time), value, false)));
    assert_eq!((cx.counters.failed, state.keys().len(), state.keys().alarms()), (1, 2, 2));
}

#[test]
fn lengths_and_counts_of_nothing_are_refused() {
    let said = |checked: Result<(), InvalidRule>| checked.unwrap_err().to_string();
    assert_eq!(said(InvalidRule::check("period", Duration::ZERO)), "the period is zero");
    let odd = InvalidRule::check("period", Duration::from_nanos(1_500));
    assert_eq!(said(odd), "the period 1.5µs is not a whole number of microseconds");
    assert_eq!(said(InvalidRule::check_count(0)), "the count is zero");
    assert_eq!(said(Counter::Wraps(65).check()), "a counter has 1 to 64 bits, not 65");
    assert!(InvalidRule::check("period", Duration::MAX).is_err());
    assert!(InvalidRule::check("lifetime", Duration::from_secs(u64::MAX)).is_ok());
}

#[test]
fn a_lifetime_without_end_does_not_wrap() {
    let harness = OperatorHarness::new(|probe: Probe<Value>| {
        let rule = First::new(Duration::from_secs(u64::MAX));
        Ruled::new(OpId(1), key, rule, None, false, probe)
    });
    let inputs = [event(1, 'a', 1), event(i64::MAX - 1, 'a', 2), Input::Watermark(Timestamp::MAX)];
    let outcome = harness.run(&inputs);
    assert_eq!(outcome.values().collect::<Vec<_>>(), [&('a', 1)]);
}
