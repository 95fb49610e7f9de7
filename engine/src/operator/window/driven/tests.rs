use proptest::prelude::*;

use super::*;
use crate::harness::{Grammar, Input, OperatorHarness, Outcome, Probe};
use crate::operator::aggregate::to_vec;
use crate::operator::window::{WindowKind, Windows};
use crate::state::Codec;

type Value = (u8, i64);
type Result = Windowed<u8, Vec<i64>>;

fn at(time: i64) -> Timestamp {
    Timestamp::from_micros(time)
}

fn run<W>(windows: impl Fn() -> W, ordered: bool, inputs: &[Input<Value>]) -> Outcome<Result>
where
    W: WindowKind<Value, u8>,
    W::State<Vec<i64>>: Serialize + serde::de::DeserializeOwned,
{
    let harness = OperatorHarness::new(|probe: Probe<Result>| {
        let (key, codec) = (|value: &Value| value.0, Some(Codec::new("windows")));
        let values = to_vec(|value: &Value| value.1);
        windows().operator(OpId(1), key, values, codec, Grammar::new(probe))
    });
    harness.ordered(ordered).restoring().run(inputs)
}

fn values<W>(windows: impl Fn() -> W, values: &[i64]) -> Vec<Vec<i64>>
where
    W: WindowKind<Value, u8>,
    W::State<Vec<i64>>: Serialize + serde::de::DeserializeOwned,
{
    let mut inputs: Vec<_> = values.iter().map(|&v| Input::Event(at(v), (0, v))).collect();
    inputs.push(Input::End);
    run(windows, false, &inputs).values().map(|result| result.value.clone()).collect()
}

#[test]
fn wi_21_what_is_left_at_the_end_is_a_window_of_its_own() {
    let seen = values(|| Windows::count(3), &[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seen, [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
    let seen = values(|| Windows::count(3), &[1, 2, 3]);
    assert_eq!(seen, [[1, 2, 3]]);
}

#[test]
fn what_is_left_at_the_end_comes_behind_all_that_came_before() {
    let event = |time, key| Input::Event(at(time), (key, time));
    let inputs = [event(1, 0), event(2, 1), event(5, 1), Input::Watermark(at(3)), Input::End];
    let outcome = run(|| Windows::count(2), true, &inputs);
    let seen: Vec<_> = outcome.events().map(|(time, result)| (time, result.key)).collect();
    assert_eq!(seen, [(at(5), 1), (at(5), 0)]);
    let inputs = [event(1, 0), Input::Watermark(at(3)), Input::End];
    let outcome = run(|| Windows::count(2), true, &inputs);
    assert_eq!(outcome.events().map(|(time, _)| time).collect::<Vec<_>>(), [at(3)]);
}

#[test]
fn sliding_windows_are_full_and_none_that_was_out_comes_again_at_the_end() {
    let seen = values(|| Windows::sliding_count(4, 1), &[1, 2, 3, 4, 5]);
    assert_eq!(seen, [[1, 2, 3, 4], [2, 3, 4, 5]]);
    let seen = values(|| Windows::sliding_count(4, 2), &[1, 2, 3, 4, 5]);
    assert_eq!(seen, [vec![1, 2, 3, 4], vec![3, 4, 5]]);
    let seen = values(|| Windows::sliding_count(2, 5), &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(seen, [[1, 2], [6, 7]]);
}

#[test]
fn a_result_covers_its_events_and_comes_with_the_last() {
    let inputs = [9, 4, 6].map(|time| Input::Event(at(time), (0, time)));
    let outcome = run(|| Windows::count(3), false, &inputs);
    let (time, result) = outcome.events().next().unwrap();
    assert_eq!((time, result.start, result.end), (at(6), at(4), at(10)));
}

#[test]
fn a_key_takes_no_room_between_its_windows() {
    let windows = Windows::count(2);
    let probe = Probe::<Windowed<u8, Vec<i64>>>::default();
    let values = to_vec(|value: &Value| value.1);
    let window = windows.operator(OpId(1), |value: &Value| value.0, values, None, probe);
    let (mut state, mut cx) = (Consumer::<Value>::state(&window), Cx::default());
    for n in 0..1_000 {
        window.event(&mut state, &mut cx, Event::new(at(n), ((n % 7) as u8, n)));
        assert!(state.0.keys.len() <= 7);
    }
    assert_eq!(state.0.keys.len(), (0..7).filter(|key| (1_000 - key + 6) / 7 % 2 == 1).count());
}

#[test]
fn windows_between_two_events_hold_both() {
    let between = || Windows::between(|v: &Value| v.1 % 10 == 1, |v: &Value| v.1 % 10 == 5);
    let seen = values(between, &[0, 1, 3, 5, 6, 11, 21, 25, 30, 41, 42]);
    assert_eq!(seen, [vec![1, 3, 5], vec![11, 21, 25], vec![41, 42]]);
    let both = || Windows::between(|_: &Value| true, |v: &Value| v.1 % 2 == 0);
    assert_eq!(values(both, &[2, 3, 4, 6]), [vec![2], vec![3, 4], vec![6]]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let text = |windows: super::super::CountWindows| {
        WindowKind::<Value, u8>::check(&windows).unwrap_err().to_string()
    };
    assert_eq!(text(Windows::count(0)), "the window count is zero");
    assert_eq!(text(Windows::sliding_count(1, 0)), "the window hop is zero");
}

/// The windows of one key's values by definition, and where in the values each was complete; the rest
/// at the end.
fn by_definition(n: usize, every: usize, values: &[i64]) -> (Vec<(usize, Vec<i64>)>, Vec<i64>) {
    let starts = (0..values.len()).step_by(every);
    let full = starts.clone().filter(|start| start + n <= values.len());
    let full = full.map(|start| (start + n - 1, values[start..start + n].to_vec()));
    let full: Vec<_> = full.collect();
    let out = full.last().map_or(0, |(last, _)| last + 1);
    let open = starts.clone().find(|start| start + n > values.len());
    let rest = open.filter(|_| out < values.len()).map_or(&[][..], |start| &values[start..]);
    (full, rest.to_vec())
}

proptest! {
    #[test]
    fn agrees_with_the_definition(
        n in 1_usize..7,
        every in 1_usize..9,
        ordered: bool,
        steps in prop::collection::vec((0_u8..8, 0_i64..20, 0_u8..3), 0..60),
    ) {
        let (mut inputs, mut taken, mut clock, mut newest) = (Vec::new(), Vec::new(), 0, 0);
        for (position, &(kind, by, key)) in steps.iter().enumerate() {
            let value = (key, position as i64);
            match kind {
                0 => {
                    clock += by;
                    inputs.push(Input::Watermark(at(clock)));
                    continue;
                }
                1 => {
                    inputs.push(Input::LateEvent(at(clock - by - 1), value));
                    if ordered {
                        continue;
                    }
                }
                _ => {
                    newest = if ordered { newest.max(clock) + by / 4 } else { clock + by };
                    inputs.push(Input::Event(at(newest), value));
                }
            }
            taken.push(value);
        }
        inputs.push(Input::End);
        let outcome = run(|| Windows::sliding_count(n as u64, every as u64), ordered, &inputs);
        let mut seen: Vec<_> = outcome.values().map(|r| (r.key, r.value.clone())).collect();
        let (mut expected, mut rests) = (Vec::new(), Vec::new());
        for key in 0..3 {
            let own: Vec<_> = taken.iter().filter(|it| it.0 == key).map(|it| it.1).collect();
            let (full, rest) = by_definition(n, every, &own);
            expected.extend(full.into_iter().map(|(last, values)| (own[last], key, values)));
            rests.extend((!rest.is_empty()).then_some((key, rest)));
        }
        expected.sort();
        let mut at_end = seen.split_off(expected.len());
        at_end.sort();
        let expected: Vec<_> = expected.into_iter().map(|(_, key, values)| (key, values)).collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(at_end, rests);
        let late = inputs.iter().filter(|it| matches!(it, Input::LateEvent(..))).count() as u64;
        prop_assert_eq!(outcome.counters.late, if ordered { late } else { 0 });
    }
}
