use super::*;
use crate::harness::{Element, Input, OperatorHarness, Probe};
use crate::operator::Map;

fn at(time: i64) -> Timestamp {
    Timestamp::from_micros(time)
}

/// What an event tells the operator under test to do with its key.
#[derive(Clone, Debug, PartialEq)]
enum Do {
    Set(i64),
    Cancel(i64),
    SetClock(i64),
    CancelClock(i64),
    Clear,
    Panic,
}

/// Emits "event n" for the n-th event of a key and "timer n at due" for a timer after n events. A
/// timer due at 50 sets another at 40, and one due at 60 another at 70; so it does with timers of
/// processing time, of which it emits "clock" and what the clock shows. One of those due at 80 sets one of
/// event time at 3.
struct Obey;

impl ProcessOp<char, (char, Vec<Do>)> for Obey {
    type State = u32;
    type Out = String;
    type Side = String;

    fn event(
        &self,
        cx: &mut ProcessCx<'_, char, String, String>,
        events: &mut u32,
        (_, orders): (char, Vec<Do>),
    ) {
        *events += 1;
        cx.emit(format!("{} event {events}", cx.key()));
        if cx.is_late() {
            cx.emit_side(format!("{} late", cx.key()));
        }
        for order in orders {
            match order {
                Do::Set(due) => cx.set_timer(at(due)),
                Do::Cancel(due) => cx.cancel_timer(at(due)),
                Do::SetClock(due) => cx.set_processing_timer(at(due)),
                Do::CancelClock(due) => cx.cancel_processing_timer(at(due)),
                Do::Clear => cx.clear(),
                Do::Panic => panic!("as told"),
            }
        }
    }

    fn timer(
        &self,
        cx: &mut ProcessCx<'_, char, String, String>,
        events: &mut u32,
        due: Timestamp,
    ) {
        cx.emit(format!("{} timer {events} at {}", cx.key(), due.as_micros()));
        match due.as_micros() {
            50 => cx.set_timer(at(40)),
            60 => cx.set_timer(at(70)),
            _ => {}
        }
    }

    fn processing_timer(
        &self,
        cx: &mut ProcessCx<'_, char, String, String>,
        events: &mut u32,
        due: Timestamp,
    ) {
        let (now, due) = (cx.now().as_micros(), due.as_micros());
        cx.emit(format!("{} clock {events} at {due}, {now}", cx.key()));
        match due {
            50 => cx.set_processing_timer(at(40)),
            60 => cx.set_processing_timer(at(70)),
            80 => cx.set_timer(at(3)),
            _ => {}
        }
    }
}

fn obey(probe: Probe<String>) -> impl Consumer<(char, Vec<Do>), State: Send> {
    let side = probe.port(1);
    let key = |event: &(char, Vec<Do>)| event.0;
    Process::new(OpId(1), key, Obey, Some(Codec::new("obey")), true, probe, side)
}

fn event(time: i64, key: char, orders: &[Do]) -> Input<(char, Vec<Do>)> {
    Input::Event(at(time), (key, orders.to_vec()))
}

/// The time and text of all that came out.
fn run(ordered: bool, inputs: &[Input<(char, Vec<Do>)>]) -> Vec<(i64, String)> {
    let outcome = OperatorHarness::new(obey).ordered(ordered).restoring().run(inputs);
    outcome.events().map(|(time, text)| (time.as_micros(), text.clone())).collect()
}

fn texts(seen: &[(i64, &str)]) -> Vec<(i64, String)> {
    seen.iter().map(|&(time, text)| (time, text.to_owned())).collect()
}

#[test]
fn timers_fire_in_order_of_due_time_and_arrival_of_the_key() {
    let inputs = [
        event(1, 'b', &[Do::Set(20), Do::Set(10), Do::Set(10)]),
        event(2, 'a', &[Do::Set(10), Do::Set(30), Do::Set(15), Do::Cancel(15)]),
        Input::Watermark(at(9)),
        Input::Watermark(at(20)),
    ];
    let expected = [
        (1, "b event 1"),
        (2, "a event 1"),
        (10, "b timer 1 at 10"),
        (10, "a timer 1 at 10"),
        (20, "b timer 1 at 20"),
    ];
    assert_eq!(run(false, &inputs), texts(&expected));
}

#[test]
fn an_ordered_chain_fires_before_the_event_at_the_due_time() {
    let inputs = [event(1, 'a', &[Do::Set(10)]), event(9, 'b', &[]), event(10, 'a', &[])];
    let expected = [(1, "a event 1"), (9, "b event 1"), (10, "a timer 1 at 10"), (10, "a event 2")];
    assert_eq!(run(true, &inputs), texts(&expected));
    // Without order only the watermark moves the clock.
    assert_eq!(run(false, &inputs).len(), 3);
}

#[test]
fn a_timer_at_or_before_the_clock_fires_at_once_at_the_clock() {
    let inputs = [Input::Watermark(at(30)), event(35, 'a', &[Do::Set(20), Do::Set(33)])];
    let expected = [(35, "a event 1"), (30, "a timer 1 at 20")];
    assert_eq!(run(false, &inputs), texts(&expected));
    let expected = [(35, "a event 1"), (35, "a timer 1 at 20"), (35, "a timer 1 at 33")];
    assert_eq!(run(true, &inputs), texts(&expected));
}

#[test]
fn while_a_timer_fires_the_clock_is_its_due_time() {
    let inputs =
        [event(1, 'a', &[Do::Set(50), Do::Set(60), Do::Set(65)]), Input::Watermark(at(99))];
    let expected = [
        (1, "a event 1"),
        (50, "a timer 1 at 50"),
        (50, "a timer 1 at 40"),
        (60, "a timer 1 at 60"),
        (65, "a timer 1 at 65"),
        (70, "a timer 1 at 70"),
    ];
    assert_eq!(run(false, &inputs), texts(&expected));
}

#[test]
fn at_the_end_pending_timers_fire_once_and_new_ones_are_dropped() {
    let inputs = [event(1, 'b', &[Do::Set(60)]), event(2, 'a', &[Do::Set(55)]), Input::End];
    let expected =
        [(1, "b event 1"), (2, "a event 1"), (55, "a timer 1 at 55"), (60, "b timer 1 at 60")];
    assert_eq!(run(true, &inputs), texts(&expected));
}

#[test]
fn late_events_are_told_so_and_an_ordered_chain_refuses_them() {
    let inputs = [
        Input::Watermark(at(10)),
        Input::LateEvent(at(5), ('a', vec![Do::Set(7)])),
        Input::Watermark(at(20)),
        Input::End,
    ];
    let outcome = OperatorHarness::new(obey).restoring().run(&inputs);
    let (main, side) = (outcome.port(0), outcome.port(1));
    assert_eq!(main[1], Element::Event(at(5), "a event 1".to_owned(), true));
    assert_eq!(main[2], Element::Event(at(10), "a timer 1 at 7".to_owned(), false));
    let late = Element::Event(at(5), "a late".to_owned(), true);
    let (first, second) = (Element::Watermark(at(10)), Element::Watermark(at(20)));
    assert_eq!(side, [first, late, second, Element::End]);

    let outcome = OperatorHarness::new(obey).ordered(true).run(&inputs);
    assert_eq!((outcome.values().count(), outcome.counters.late), (0, 1));
    outcome.assert_conserved(0, |_| 1);
}

#[test]
fn lateness_is_as_it_was_for_what_the_same_event_brings_next() {
    let twice = |event: (char, Vec<Do>)| [event.clone(), event];
    let harness = OperatorHarness::new(|probe: Probe<String>| {
        crate::operator::FlatMap::<_, _, _, false>::new(OpId(2), twice, obey(probe))
    });
    let late = Input::LateEvent(at(5), ('a', vec![Do::Set(7)]));
    let outcome = harness.run(&[Input::Watermark(at(10)), late]);
    assert_eq!(outcome.values().filter(|text| *text == "a late").count(), 2);
}

#[test]
fn a_cleared_key_leaves_nothing() {
    let operator = obey_concrete();
    let (mut run, mut cx) = (operator.state(), Cx::default());
    cx.by_clock(std::sync::Arc::new(crate::time::ManualClock::default()));
    for time in 0..1000 {
        let key = char::from_u32(time as u32).unwrap();
        let orders = vec![Do::Set(time + 5), Do::SetClock(time + 9), Do::Set(time + 9), Do::Clear];
        operator.event(&mut run, &mut cx, Event::new(at(time), (key, orders)));
    }
    assert!(run.own.keys.is_empty() && run.own.event.is_empty() && run.own.processing.is_empty());
    assert_eq!(operator.next_timer(&run), None);
}

type Nowhere = Map<fn(String), crate::operator::Filter<fn(&()) -> bool, Probe<()>>, ()>;
type KeyOf = fn(&(char, Vec<Do>)) -> char;

/// Like `obey`, with a type whose state can be looked into.
fn obey_concrete() -> Process<(char, Vec<Do>), char, KeyOf, Obey, Nowhere, Nowhere> {
    let nowhere = || -> Nowhere {
        let never: fn(&()) -> bool = |()| false;
        let probe = Probe::default();
        Map::<_, _, _, false>::new(
            OpId(2),
            (|_| ()) as fn(String),
            crate::operator::Filter::<_, _, false>::new(OpId(3), never, probe),
        )
    };
    Process::new(OpId(1), |event| event.0, Obey, None, true, nowhere(), nowhere())
}

#[test]
fn a_key_whose_handler_panics_starts_afresh_without_timers() {
    let probe = Probe::default();
    let operator = obey(probe.port(0));
    let (mut run, mut cx) = (operator.state(), Cx::default());
    for (key, orders) in [('a', vec![Do::Set(10)]), ('b', vec![Do::Set(10)])] {
        operator.event(&mut run, &mut cx, Event::new(at(1), (key, orders)));
    }
    let told = Event::new(at(2), ('a', vec![Do::Set(20), Do::Panic]));
    operator.event(&mut run, &mut cx, told);
    assert_eq!(cx.counters.failed, 1);
    operator.event(&mut run, &mut cx, Event::new(at(3), ('a', vec![Do::Set(30)])));
    operator.watermark(&mut run, &mut cx, at(100));
    let seen: Vec<_> = probe.take().into_iter().filter_map(text).collect();
    let expected = ["a event 1", "b event 1", "a event 1", "b timer 1 at 10", "a timer 1 at 30"];
    assert_eq!(seen, expected);
}

fn text(element: Element<String>) -> Option<String> {
    match element {
        Element::Event(_, text, _) => Some(text),
        _ => None,
    }
}

fn clock(now: i64) -> Input<(char, Vec<Do>)> {
    Input::Clock(at(now))
}

/// As `run`, in a chain that is ordered and in one that is not, which must be the same.
fn run_both(inputs: &[Input<(char, Vec<Do>)>]) -> Vec<(i64, String)> {
    let seen = run(true, inputs);
    assert_eq!(run(false, inputs), seen);
    seen
}

#[test]
fn timers_by_the_clock_fire_in_order_though_no_event_comes() {
    let inputs = [
        event(1, 'b', &[Do::SetClock(20), Do::SetClock(10), Do::SetClock(10), Do::SetClock(12)]),
        event(2, 'a', &[Do::SetClock(10), Do::SetClock(15), Do::CancelClock(15), Do::Cancel(10)]),
        clock(9),
        clock(10),
        event(5, 'b', &[Do::CancelClock(12)]),
        clock(30),
    ];
    let expected = [
        (1, "b event 1"),
        (2, "a event 1"),
        (2, "b clock 1 at 10, 10"),
        (2, "a clock 1 at 10, 10"),
        (5, "b event 2"),
        (5, "b clock 2 at 20, 30"),
    ];
    assert_eq!(run_both(&inputs), texts(&expected));
}

#[test]
fn flink_timer_06_both_kinds_of_timers_are_saved_and_restored() {
    let inputs = [
        event(2, 'a', &[Do::SetClock(5), Do::Set(6)]),
        clock(5),
        Input::Watermark(at(6)),
        clock(9),
    ];
    let expected = [(2, "a event 1"), (2, "a clock 1 at 5, 5"), (6, "a timer 1 at 6")];
    assert_eq!(run_both(&inputs), texts(&expected));
}

#[test]
fn what_a_timer_by_the_clock_emits_is_never_before_the_watermark() {
    let inputs = [event(2, 'a', &[Do::SetClock(5)]), Input::Watermark(at(90)), clock(5)];
    let expected = [(2, "a event 1"), (90, "a clock 1 at 5, 5")];
    assert_eq!(run_both(&inputs), texts(&expected));
}

#[test]
fn a_timer_by_the_clock_for_the_past_fires_at_once() {
    let inputs = [clock(30), event(1, 'a', &[Do::SetClock(30), Do::SetClock(7), Do::SetClock(31)])];
    let expected = [(1, "a event 1"), (1, "a clock 1 at 7, 30"), (1, "a clock 1 at 30, 30")];
    assert_eq!(run_both(&inputs), texts(&expected));
    let inputs = [event(1, 'a', &[Do::SetClock(50), Do::SetClock(60)]), clock(65), clock(70)];
    let expected = [
        (1, "a event 1"),
        (1, "a clock 1 at 50, 65"),
        (1, "a clock 1 at 40, 65"),
        (1, "a clock 1 at 60, 65"),
        (1, "a clock 1 at 70, 70"),
    ];
    assert_eq!(run_both(&inputs), texts(&expected));
}

#[test]
fn a_timer_for_the_past_that_one_by_the_clock_sets_fires_at_once() {
    let inputs = [event(5, 'a', &[Do::SetClock(80)]), Input::Watermark(at(5)), clock(80)];
    let seen = [(5, "a event 1"), (5, "a clock 1 at 80, 80"), (5, "a timer 1 at 3")];
    assert_eq!(run_both(&inputs), texts(&seen));
    let seen = [(5, "a event 1"), (5, "a clock 1 at 80, 90"), (5, "a timer 1 at 3")];
    assert_eq!(run_both(&[clock(90), inputs[1].clone(), inputs[0].clone()]), texts(&seen));
}

#[test]
fn at_the_end_timers_by_the_clock_fire_last_and_new_ones_are_dropped() {
    let orders = [Do::SetClock(60), Do::Set(9), Do::SetClock(7)];
    let inputs = [event(1, 'b', &orders), event(2, 'a', &[Do::SetClock(50)]), clock(3), Input::End];
    let expected = [
        (1, "b event 1"),
        (2, "a event 1"),
        (9, "b timer 1 at 9"),
        (9, "b clock 1 at 7, 3"),
        (9, "a clock 1 at 50, 3"),
        (9, "b clock 1 at 60, 3"),
    ];
    assert_eq!(run_both(&inputs), texts(&expected));
}

#[test]
fn without_a_clock_who_asks_for_it_is_told() {
    let operator = obey_concrete();
    let (mut run, mut cx) = (operator.state(), Cx::default());
    operator.event(&mut run, &mut cx, Event::new(at(1), ('a', vec![Do::Set(1)])));
    let told = Event::new(at(2), ('a', vec![Do::SetClock(20)]));
    operator.event(&mut run, &mut cx, told);
    // A panic of the handler, which this operator takes as the end of its key.
    assert_eq!((cx.counters.failed, cx.now()), (1, None));
}

/// Sets one timer per event, at the value.
struct Later;

impl ProcessOp<i64, i64> for Later {
    type State = ();
    type Out = i64;
    type Side = i64;

    fn event(&self, cx: &mut ProcessCx<'_, i64, i64, i64>, (): &mut (), value: i64) {
        cx.set_timer(at(value));
    }

    fn timer(&self, cx: &mut ProcessCx<'_, i64, i64, i64>, (): &mut (), due: Timestamp) {
        assert_eq!(due, at(*cx.key()));
        cx.emit(*cx.key());
        cx.clear();
    }
}

#[test]
fn ti_07_many_timers_fire_once_each_in_time_order_at_one_watermark() {
    let harness = OperatorHarness::new(|probe: Probe<i64>| {
        let side = probe.port(1);
        Process::new(OpId(1), |due: &i64| *due, Later, None, false, probe, side)
    });
    // 7919 is prime to 100,000: every due time once, in a scattered order.
    let dues = (0..100_000).map(|n| 100 + n * 7919 % 100_000);
    let mut inputs: Vec<_> = dues.map(|due| Input::Event(at(0), due)).collect();
    inputs.push(Input::Watermark(at(1_000_000)));
    let outcome = harness.run(&inputs);
    let seen: Vec<_> = outcome.events().map(|(time, due)| (time, *due)).collect();
    let expected: Vec<_> = (100..100_100).map(|due| (at(due), due)).collect();
    assert!(seen == expected, "{} timers fired, not each once in order", seen.len());
}
