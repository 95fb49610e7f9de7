//! What the tests of several kinds of windows try them with.

use std::time::Duration;

use super::{Phase, Window, WindowKind, Windowed, Windows};
use crate::harness::{Element, Input, Outcome, Probe};
use crate::operator::aggregate::count;
use crate::operator::{Consumer, Cx, OpId};
use crate::time::Timestamp;

/// A key and a number.
pub type Event = (u8, i64);
/// How many events, and the sum of their numbers.
pub type Result = Windowed<u8, (u64, i64)>;
/// Time, key, start, end, phase and value of a result.
pub type Row = (i64, u8, i64, i64, Phase, (u64, i64));

pub fn at(time: i64) -> Timestamp {
    Timestamp::from_micros(time)
}

pub fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros as u64)
}

/// Makes a stream: what is earlier than the last watermark is late.
pub fn stream(ordered: bool, steps: &[(u8, i64, u8)]) -> Vec<Input<Event>> {
    let (mut clock, mut newest, mut inputs) = (-50, -50, Vec::new());
    for (position, &(kind, by, key)) in steps.iter().enumerate() {
        let value = (key, 1 << (position % 40));
        match kind {
            0 | 1 => {
                clock += by.max(0);
                inputs.push(Input::Watermark(at(clock)));
            }
            2 => inputs.push(Input::LateEvent(at(clock - by.abs() - 1), value)),
            _ if ordered => {
                newest = clock.max(newest) + by.max(0);
                inputs.push(Input::Event(at(newest), value));
            }
            _ => inputs.push(Input::Event(at(clock + by.abs()), value)),
        }
    }
    inputs.push(Input::End);
    inputs
}

/// What came out.
pub fn seen(outcome: &Outcome<Result>) -> Vec<Row> {
    let row = |(time, r): (Timestamp, &Result)| {
        (time.as_micros(), r.key, r.start.as_micros(), r.end.as_micros(), r.phase, r.value)
    };
    outcome.events().map(row).collect()
}

/// As a member of a group is driven: told of nothing but what its next timer asks for, a window of ten
/// microseconds behind `windows` hears of the time when it is due.
pub fn a_second_window_is_due_when_it_hears_of_it(windows: impl WindowKind<Event, ()>) {
    let probe = Probe::<Windowed<(), u64>>::default();
    let second = Window::new(
        OpId(2),
        Windows::tumbling(micros(10)),
        |_: &Windowed<(), u64>| (),
        count(),
        None,
        probe.port(0),
    );
    let first = windows.operator(OpId(1), |_: &Event| (), count(), None, second);
    let (mut state, mut cx) = (Consumer::<Event>::state(&first), Cx::default());
    for time in [1, 2, 14, 31] {
        first.event(&mut state, &mut cx, crate::Event::new(at(time), (0, 1)));
    }
    let mut told = Vec::new();
    while let Some(due) = Consumer::<Event>::next_timer(&first, &state) {
        assert!(told.last().is_none_or(|&last| last < due), "{due:?} again after {told:?}");
        told.push(due);
        Consumer::<Event>::watermark(&first, &mut state, &mut cx, due);
    }
    let results = probe.take().into_iter();
    assert_eq!(results.filter(|it| matches!(it, Element::Event(..))).count(), 3);
}
