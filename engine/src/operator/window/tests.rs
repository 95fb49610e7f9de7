use std::collections::BTreeMap;

use proptest::prelude::*;

use super::slices::Nowhere;
use super::*;
use crate::harness::{Element, Grammar, Input, OperatorHarness, Outcome, Probe};
use crate::operator::aggregate::{Aggregate, count, max, mean, min, sum};
use crate::operator::{Consumer, Filter, OpId};
use crate::state::{Codec, FloatKey};

fn at(time: i64) -> Timestamp {
    Timestamp::from_micros(time)
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn tumbling(size: u64) -> Windows {
    Windows::tumbling(micros(size))
}

fn hopping(size: u64, hop: u64) -> Windows {
    Windows::hopping(micros(size), micros(hop))
}

fn events<T: Clone>(events: &[(i64, T)]) -> Vec<Input<T>> {
    events.iter().map(|(time, value)| Input::Event(at(*time), value.clone())).collect()
}

/// All of one stream, each event on time, then the end.
fn whole<T, A>(windows: Windows, aggregate: A, input: &[(i64, T)]) -> Vec<(i64, i64, A::Out)>
where
    T: Clone + Send + 'static,
    A: Aggregate<T, Acc: serde::Serialize + serde::de::DeserializeOwned> + Clone,
    A::Out: Clone + std::fmt::Debug + 'static,
{
    let mut inputs = events(input);
    inputs.push(Input::End);
    bounds(&run(windows, aggregate, false, &inputs))
}

fn run<T, A>(
    windows: Windows,
    aggregate: A,
    ordered: bool,
    inputs: &[Input<T>],
) -> Outcome<Windowed<(), A::Out>>
where
    T: Clone + Send + 'static,
    A: Aggregate<T, Acc: serde::Serialize + serde::de::DeserializeOwned> + Clone,
    A::Out: Clone + std::fmt::Debug + 'static,
{
    let harness = OperatorHarness::new(|probe: Probe<Windowed<(), A::Out>>| {
        let (aggregate, codec) = (aggregate.clone(), Some(Codec::new("window")));
        Window::new(OpId(1), windows, |_: &T| (), aggregate, codec, Grammar::new(probe))
    });
    harness.ordered(ordered).restoring().run(inputs)
}

fn bounds<K, V: Clone>(outcome: &Outcome<Windowed<K, V>>) -> Vec<(i64, i64, V)> {
    let results = outcome.events().inspect(|(time, result)| {
        assert_eq!(*time, result.end.previous(), "a result carries the time before its end");
    });
    let results = results.map(|(_, result)| result);
    results.map(|r| (r.start.as_micros(), r.end.as_micros(), r.value.clone())).collect()
}

#[test]
fn wi_01_an_event_on_a_bound_is_in_one_window() {
    let input = [0, 9, 10, 19, 20].map(|time| (time, ()));
    assert_eq!(whole(tumbling(10), count(), &input), [(0, 10, 2), (10, 20, 2), (20, 30, 1)]);
}

#[test]
fn wi_03_every_full_hopping_window_has_all_its_events() {
    let input: Vec<_> = (1..=30).map(|time| (time, ())).collect();
    let seen = whole(hopping(5, 1), count(), &input);
    let expected: Vec<_> =
        (2..=35).map(|end| (end - 5, end, (end.min(31) - (end - 5).max(1)) as u64)).collect();
    assert_eq!(seen, expected);
    assert!(seen.iter().filter(|(start, end, _)| *start >= 1 && *end <= 31).all(|w| w.2 == 5));
}

#[test]
fn wi_04_times_before_zero() {
    let input = [-1, -10, -11, 0].map(|time| (time, ()));
    assert_eq!(whole(tumbling(10), count(), &input), [(-20, -10, 1), (-10, 0, 2), (0, 10, 1)]);
    let input = [-1, -6, -5].map(|time| (time, ()));
    let windows = tumbling(10).offset(micros(5));
    assert_eq!(whole(windows, count(), &input), [(-15, -5, 1), (-5, 5, 2)]);
}

#[test]
fn wi_06_windows_may_start_before_zero() {
    let input = [(3, ()), (5, ())];
    assert_eq!(whole(hopping(10, 5), count(), &input), [(-5, 5, 1), (0, 10, 2), (5, 15, 1)]);
}

#[test]
fn wi_08_the_hop_need_not_divide_the_size() {
    assert_eq!(whole(hopping(10, 3), count(), &[(11, ())]), [(3, 13, 1), (6, 16, 1), (9, 19, 1)]);
}

fn partly_late() -> Vec<Input<i64>> {
    vec![
        Input::Event(at(3), 1),
        Input::Watermark(at(3)),
        Input::Event(at(10), 1),
        Input::Watermark(at(10)),
        Input::LateEvent(at(8), 100),
        Input::Event(at(20), 1),
        Input::Watermark(at(20)),
        Input::End,
    ]
}

#[test]
fn wi_10_a_late_event_counts_where_a_window_is_open_and_leaves_no_residue() {
    let ends =
        |fifth| [(-5, 5, 1), (0, 10, 1), (5, 15, fifth), (10, 20, 1), (15, 25, 1), (20, 30, 1)];
    let outcome = run(hopping(10, 5), sum(|v: &i64| *v), false, &partly_late());
    assert_eq!(bounds(&outcome), ends(101));
    assert_eq!(outcome.counters.late, 0);
    let outcome = run(hopping(10, 5), sum(|v: &i64| *v), true, &partly_late());
    assert_eq!(bounds(&outcome), ends(1));
    assert_eq!(outcome.counters.late, 1);
}

#[test]
fn an_event_whose_windows_have_all_closed_is_late_and_one_in_a_gap_is_not() {
    let windows = hopping(4, 10);
    let inputs = [
        Input::Event(at(1), ()),
        Input::Event(at(4), ()),
        Input::Event(at(13), ()),
        Input::Watermark(at(12)),
        Input::LateEvent(at(3), ()),
        Input::LateEvent(at(5), ()),
        Input::LateEvent(at(11), ()),
        Input::End,
    ];
    let outcome = run(windows, count(), false, &inputs);
    assert_eq!(bounds(&outcome), [(0, 4, 1), (10, 14, 2)]);
    assert_eq!(outcome.counters.late, 1);
    outcome.assert_conserved(2, |result| result.value);
}

#[test]
fn wi_19_bounds_are_event_time() {
    let input = [(1_000_003, ()), (1_000_012, ())];
    let expected = [(1_000_000, 1_000_010, 1), (1_000_010, 1_000_020, 1)];
    assert_eq!(whole(tumbling(10), count(), &input), expected);
}

#[test]
fn wi_26_a_jump_of_decades_walks_no_empty_windows() {
    let second = 1_000_000;
    let windows = Windows::hopping(Duration::from_secs(10), Duration::from_secs(1));
    let far = 1_585_200_000 * second;
    let inputs = [Input::Event(at(1_000), ()), Input::Event(at(far), ()), Input::End];
    let starts = (-9..=0).chain(1_585_199_991..=1_585_200_000);
    let expected: Vec<_> = starts.map(|s| (s * second, (s + 10) * second, 1)).collect();
    for ordered in [false, true] {
        assert_eq!(bounds(&run(windows, count(), ordered, &inputs)), expected);
    }
    // The watermark alone jumps too, and further.
    let inputs = [Input::Event(at(1_000), ()), Input::Watermark(at(i64::MAX - 1)), Input::End];
    assert_eq!(bounds(&run(windows, count(), false, &inputs)), expected[..10]);
}

#[test]
fn wm_10_the_extremes_of_time_saturate() {
    let (low, high) = (-9_000_000_000_000_000_000, i64::MAX);
    let input = [(1_000, ()), (low, ()), (high, ()), (i64::MIN, ())];
    let expected = [
        (i64::MIN, i64::MIN + 8, 1),
        (low, low + 10, 1),
        (1_000, 1_010, 1),
        (i64::MAX - 7, i64::MAX, 1),
    ];
    assert_eq!(whole(tumbling(10), count(), &input), expected);

    // In order, two events at the last instant are in the same window.
    let input = [(i64::MIN, ()), (high - 8, ()), (high, ()), (high, ())];
    let mut inputs = events(&input);
    inputs.push(Input::End);
    let seen = bounds(&run(tumbling(10), count(), true, &inputs));
    let expected = [
        (i64::MIN, i64::MIN + 8, 1),
        (i64::MAX - 17, i64::MAX - 7, 1),
        (i64::MAX - 7, i64::MAX, 2),
    ];
    assert_eq!(seen, expected);
    assert_eq!(whole(hopping(10, 5), count(), &[(high, ())]).len(), 2);
    let longest = Windows::hopping(micros(i64::MAX as u64), micros(i64::MAX as u64 / 2));
    // Of 2h + 1 every h: each instant but the first of every h is in two of them.
    assert_eq!(whole(longest, count(), &[(high, ()), (i64::MIN, ())]).len(), 4);
}

#[test]
fn ag_05_float_keys_are_grouped_by_value() {
    let harness = OperatorHarness::new(|probe: Probe<Windowed<FloatKey, u64>>| {
        let codec = Some(Codec::new("by value"));
        Window::new(OpId(1), tumbling(10), |v: &f64| FloatKey::new(*v), count(), codec, probe)
    });
    let values = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0];
    let mut inputs = events(&values.map(|value| (1, value)));
    inputs.push(Input::End);
    let outcome = harness.restoring().run(&inputs);
    let seen: Vec<_> = outcome.values().map(|result| (result.key, result.value)).collect();
    let key = FloatKey::new;
    assert_eq!(seen, [(key(0.0), 2), (key(f64::NAN), 2), (key(1.0), 1)]);
}

#[test]
fn ag_06_a_window_whose_events_are_filtered_out_has_no_row() {
    let harness = OperatorHarness::new(|probe: Probe<Windowed<(), _>>| {
        let all = (mean(|v: &f64| *v), min(|v: &f64| *v), max(|v: &f64| *v));
        let window = Window::new(OpId(2), tumbling(10), |_: &f64| (), all, None, probe);
        Filter::<_, _, false>::new(OpId(1), |v: &f64| *v > 0.0, window)
    });
    let mut inputs = events(&[(1, -1.0), (5, f64::NAN), (12, 4.0)]);
    inputs.push(Input::End);
    let outcome = harness.run(&inputs);
    assert_eq!(bounds(&outcome), [(10, 20, (4.0, Some(4.0), Some(4.0)))]);
}

#[test]
fn ag_07_a_nan_or_infinity_leaves_with_its_slice() {
    for poison in [f64::NAN, f64::INFINITY] {
        let input = [(1, poison), (6, 1.0), (11, 2.0), (16, 3.0)];
        let seen = whole(hopping(10, 5), sum(|v: &f64| *v), &input);
        assert!(seen[..2].iter().all(|(_, _, sum)| !sum.is_finite()), "{seen:?}");
        assert_eq!(seen[2..], [(5, 15, 3.0), (10, 20, 5.0), (15, 25, 3.0)]);
    }
}

#[test]
fn a_sum_that_does_not_fit_is_a_failed_result() {
    let mut inputs = events(&[(1, 200_u8), (2, 100), (11, 7)]);
    inputs.push(Input::End);
    let outcome = run(tumbling(10), sum(|v: &u8| *v), false, &inputs);
    assert_eq!(bounds(&outcome), [(10, 20, 7)]);
    assert_eq!(outcome.counters.failed, 1);
}

#[test]
fn a_window_closes_before_its_watermark_passes_and_before_the_event_at_its_end() {
    let inputs = [Input::Event(at(1), ()), Input::Watermark(at(9)), Input::Event(at(10), ())];
    assert_eq!(bounds(&run(tumbling(10), count(), true, &inputs)), [(0, 10, 1)]);
    assert_eq!(bounds(&run(tumbling(10), count(), false, &inputs)), []);
    let inputs = [Input::Event(at(1), ()), Input::Watermark(at(10))];
    let seen = run(tumbling(10), count(), false, &inputs).port(0);
    assert!(matches!(seen[..], [Element::Event(..), Element::Watermark(_)]), "{seen:?}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let text = |windows: Windows| windows.check().unwrap_err().to_string();
    assert_eq!(text(tumbling(0)), "the window size is zero");
    assert_eq!(text(hopping(1, 0)), "the window hop is zero");
    let fraction = Windows::tumbling(Duration::from_nanos(1_500));
    assert_eq!(text(fraction), "the window size 1.5µs is not a whole number of microseconds");
    assert!(text(tumbling(1).offset(Duration::from_nanos(1))).contains("offset"));
    assert!(text(Windows::hopping(micros(1), Duration::MAX)).contains("hop"));
    assert!(text(Windows::tumbling(Duration::from_secs(1 << 62))).contains("longer than"));
    assert_eq!(hopping(3, 7).offset(micros(100)).check(), Ok(()));
}

#[test]
fn closed_windows_leave_nothing_of_their_keys() {
    let windows = tumbling(10);
    let grid = Grid::new(&windows);
    let mut state = WindowState::<u64, u64>::new();
    for key in 0..100_000 {
        assert!(state.find_or_open(&grid, at(1)).is_ok());
        *state.slices.recent().entry(key, || 0) += 1;
    }
    for window in 0..10 {
        assert!(state.find_or_open(&grid, at(window * 10 + 1)).is_ok());
        let mut closed = state.close_next(&grid, &count_of_units());
        closed.table.drain().for_each(drop);
        state.keep(closed.table);
    }
    assert_eq!(state.slices.due(), None);
    assert_eq!(state.find_or_open(&grid, at(99)).err(), Some(Nowhere::Closed));
    assert!(state.room() <= 128, "{}", state.room());
}

fn count_of_units() -> impl Aggregate<(), Acc = u64> {
    count()
}

/// One step of a random stream: an event (time, key) or a watermark.
type Step = (bool, i64, u8);

/// What the windows of `steps` are by definition: for each end in order, the keys in order of their
/// first event by slice; and how many events had no open window.
fn by_definition(
    (size, hop, offset): (i64, i64, i64),
    inputs: &[Input<(u8, i64)>],
) -> (Vec<(i64, i64, u8, i64)>, u64) {
    let mut windows = BTreeMap::<i64, Vec<(i64, u8, i64)>>::new();
    let (mut clock, mut late) = (i64::MIN, 0);
    for input in inputs {
        match *input {
            Input::Event(time, (key, value)) | Input::LateEvent(time, (key, value)) => {
                let time = time.as_micros();
                let starts = (time - size + 1..=time).filter(|s| (s - offset).rem_euclid(hop) == 0);
                let (open, all): (Vec<_>, Vec<_>) =
                    (starts.clone().filter(|s| s + size > clock).collect(), starts.collect());
                late += u64::from(open.is_empty() && !all.is_empty());
                for start in open {
                    windows.entry(start).or_default().push((time, key, value));
                }
            }
            Input::Watermark(watermark) => clock = watermark.as_micros(),
            Input::Clock(_) | Input::End => {}
        }
    }
    let mut results = Vec::new();
    for (start, mut events) in windows {
        let cuts = |time: i64| {
            let phase = (time - offset).rem_euclid(hop);
            (time - phase, size % hop != 0 && phase >= size % hop)
        };
        events.sort_by_key(|event| cuts(event.0));
        let mut keys = Vec::<(u8, i64)>::new();
        for (_, key, value) in events {
            match keys.iter_mut().find(|held| held.0 == key) {
                Some(held) => held.1 += value,
                None => keys.push((key, value)),
            }
        }
        results.extend(keys.into_iter().map(|(key, sum)| (start, start + size, key, sum)));
    }
    (results, late)
}

/// Makes a stream of `steps`: what is earlier than the last watermark is late.
fn stream(ordered: bool, steps: &[Step]) -> Vec<Input<(u8, i64)>> {
    let (mut clock, mut newest, mut inputs) = (-50, -50, Vec::new());
    for (position, &(is_event, by, key)) in steps.iter().enumerate() {
        let value = (key, 1 << (position % 40));
        if is_event && ordered {
            newest = clock.max(newest) + by.max(0);
            inputs.push(Input::Event(at(newest), value));
        } else if is_event {
            let time = clock + by;
            let input = if time < clock { Input::LateEvent } else { Input::Event };
            inputs.push(input(at(time), value));
        } else {
            clock += by.max(0);
            inputs.push(Input::Watermark(at(clock)));
        }
    }
    inputs.push(Input::End);
    inputs
}

proptest! {
    #[test]
    fn agrees_with_the_definition(
        size in 1_i64..20,
        hop in 1_i64..20,
        offset in 0_i64..40,
        ordered: bool,
        steps in prop::collection::vec((prop::bool::weighted(0.8), -15_i64..25, 0_u8..4), 0..60),
    ) {
        let windows = hopping(size as u64, hop as u64).offset(micros(offset as u64));
        let harness = OperatorHarness::new(|probe: Probe<Windowed<u8, (u64, i64)>>| {
            let total = (count(), sum(|event: &(u8, i64)| event.1));
            let codec = Some(Codec::new("sums"));
            let key = |event: &(u8, i64)| event.0;
            Window::new(OpId(1), windows, key, total, codec, Grammar::new(probe))
        });
        let inputs = stream(ordered, &steps);
        let outcome = harness.ordered(ordered).restoring().run(&inputs);
        let seen: Vec<_> = outcome
            .values()
            .map(|r| (r.start.as_micros(), r.end.as_micros(), r.key, r.value.1))
            .collect();
        let (expected, late) = by_definition((size, hop, offset), &inputs);
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(outcome.counters.late, late);
    }
}

#[test]
fn the_next_timer_is_the_next_end() {
    let probe = Probe::<Windowed<(), u64>>::default();
    let window = Window::new(OpId(1), hopping(10, 3), |_: &()| (), count(), None, probe);
    let (mut state, mut cx) = (Consumer::<()>::state(&window), crate::operator::Cx::default());
    assert_eq!(Consumer::<()>::next_timer(&window, &state), None);
    window.event(&mut state, &mut cx, crate::Event::new(at(11), ()));
    assert_eq!(Consumer::<()>::next_timer(&window, &state), Some(at(13)));
    Consumer::<()>::watermark(&window, &mut state, &mut cx, at(13));
    assert_eq!(Consumer::<()>::next_timer(&window, &state), Some(at(16)));
}
