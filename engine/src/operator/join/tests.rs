use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::harness::{Element, Input, OperatorHarness, Probe};
use crate::operator::{Consumer, OpId, Phase, Trigger, Updatable, WindowKind, Windowed, Windows};
use crate::state::Codec;
use crate::time::{SignedDuration, Timestamp};

/// A row: its side, its key, its number.
type Item = Either<(u8, usize), (u8, usize)>;
/// Numbers of a left row and a right row.
type Joined = (Option<usize>, Option<usize>);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn key(item: &Item) -> u8 {
    let (Either::Left((key, _)) | Either::Right((key, _))) = item;
    *key
}

/// Rows as numbers, whatever the join.
trait Numbers {
    fn numbers(self) -> Joined;
}

impl Numbers for ((u8, usize), (u8, usize)) {
    fn numbers(self) -> Joined {
        (Some(self.0.1), Some(self.1.1))
    }
}

impl Numbers for ((u8, usize), Option<(u8, usize)>) {
    fn numbers(self) -> Joined {
        (Some(self.0.1), self.1.map(|row| row.1))
    }
}

impl Numbers for (Option<(u8, usize)>, (u8, usize)) {
    fn numbers(self) -> Joined {
        (self.0.map(|row| row.1), Some(self.1.1))
    }
}

impl Numbers for (Option<(u8, usize)>, Option<(u8, usize)>) {
    fn numbers(self) -> Joined {
        (self.0.map(|row| row.1), self.1.map(|row| row.1))
    }
}

/// Rows in order of arrival, with promises among them.
#[derive(Clone, Debug)]
struct Script {
    inputs: Vec<Input<Item>>,
    /// Those on time, in order of arrival.
    rows: Vec<(Timestamp, Item)>,
}

/// Events of two sides and few keys, each with the time by which it is delayed; a promise after some of
/// them, which the last ones may break.
fn scripts(ordered: bool) -> impl Strategy<Value = Script> {
    let event = (any::<bool>(), 0_u8..3, 0_i64..40, 0_i64..12, any::<bool>());
    (prop::collection::vec(event, 0..60), 0_i64..12).prop_map(move |(mut events, slack)| {
        events.sort_by_key(|&(.., time, delay, _)| if ordered { time } else { time + delay });
        let (mut inputs, mut rows) = (Vec::new(), Vec::new());
        let mut promised = Timestamp::MIN;
        for (number, (left, key, time, _, promises)) in events.into_iter().enumerate() {
            let row = (key, number);
            let item = if left { Either::Left(row) } else { Either::Right(row) };
            let time = at(time);
            if time < promised {
                inputs.push(Input::LateEvent(time, item));
            } else {
                inputs.push(Input::Event(time, item));
                rows.push((time, item));
            }
            if promises {
                let slack = if ordered { 0 } else { slack };
                promised = promised.max(time - Duration::from_micros(slack as u64));
                inputs.push(Input::Watermark(promised));
            }
        }
        inputs.push(Input::End);
        Script { inputs, rows }
    })
}

/// What a join of `rows` gives, by looking at every two of them.
fn naive(rows: &[(Timestamp, Item)], (lower, upper): (i64, i64), sides: (bool, bool)) -> Out {
    let mut out = Vec::new();
    let mut matched = [false; 60];
    let lefts = || {
        rows.iter().filter_map(|&(t, item)| matches!(item, Either::Left(_)).then_some((t, item)))
    };
    let rights = || {
        rows.iter().filter_map(|&(t, item)| matches!(item, Either::Right(_)).then_some((t, item)))
    };
    for (l, left) in lefts() {
        for (r, right) in rights() {
            let apart = r.as_micros() - l.as_micros();
            if key(&left) == key(&right) && lower <= apart && apart <= upper {
                out.push((l.max(r), (Some(number(left)), Some(number(right)))));
                (matched[number(left)], matched[number(right)]) = (true, true);
            }
        }
    }
    let lone = |item| !matched[number(item)];
    let after = |time: Timestamp, by: i64| at(time.as_micros() + by.max(0));
    for (l, left) in lefts().filter(|&(_, left)| sides.0 && lone(left)) {
        out.push((after(l, upper), (Some(number(left)), None)));
    }
    for (r, right) in rights().filter(|&(_, right)| sides.1 && lone(right)) {
        out.push((after(r, -lower), (None, Some(number(right)))));
    }
    out.sort();
    out
}

type Out = Vec<(Timestamp, Joined)>;

fn number(item: Item) -> usize {
    let (Either::Left((_, number)) | Either::Right((_, number))) = item;
    number
}

/// Runs a join in every way; what came out, in order, and how many rows were late.
fn run<M>(script: &Script, bounds: (i64, i64), ordered: bool, matching: M) -> (Out, u64)
where
    M: Matching<(u8, usize), (u8, usize)> + Copy,
    M::Out: Numbers + std::fmt::Debug + Clone,
{
    let micros = SignedDuration::from_micros;
    let interval = Interval::from(micros(bounds.0)..=micros(bounds.1));
    let harness = OperatorHarness::new(move |probe: Probe<M::Out>| {
        IntervalJoin::new(OpId(1), interval, key, matching, Some(Codec::new("rows")), probe)
    });
    let outcome = harness.ordered(ordered).restoring().run(&script.inputs);
    let out = outcome.events().map(|(time, out)| (time, out.clone().numbers())).collect();
    (out, outcome.counters.late)
}

fn check<M>(script: &Script, bounds: (i64, i64), ordered: bool, matching: M, sides: (bool, bool))
where
    M: Matching<(u8, usize), (u8, usize)> + Copy,
    M::Out: Numbers + std::fmt::Debug + Clone,
{
    let (mut out, late) = run(script, bounds, ordered, matching);
    if ordered {
        assert!(out.is_sorted_by_key(|&(time, _)| time), "in order: {out:?}");
    }
    out.sort();
    assert_eq!(out, naive(&script.rows, bounds, sides));
    let events =
        script.inputs.iter().filter(|it| matches!(it, Input::Event(..) | Input::LateEvent(..)));
    assert_eq!(late, (events.count() - script.rows.len()) as u64);
}

fn check_all(script: &Script, bounds: (i64, i64), ordered: bool) {
    check(script, bounds, ordered, Inner, (false, false));
    check(script, bounds, ordered, Left, (true, false));
    check(script, bounds, ordered, Right, (false, true));
    check(script, bounds, ordered, Full, (true, true));
}

fn bounds() -> impl Strategy<Value = (i64, i64)> {
    (-15_i64..15, 0_i64..12).prop_map(|(lower, width)| (lower, lower + width))
}

proptest! {
    #[test]
    fn interval_joins_are_nested_loops(script in scripts(false), bounds in bounds()) {
        check_all(&script, bounds, false);
    }

    #[test]
    fn interval_joins_in_order_are_nested_loops(script in scripts(true), bounds in bounds()) {
        check_all(&script, bounds, true);
    }

    #[test]
    fn as_of_finds_the_newest(
        script in scripts(false),
        in_order in scripts(true),
        age in prop::option::of(0_u64..15),
    ) {
        for (script, ordered) in [(script, false), (in_order, true)] {
            check_as_of(script, ordered, age);
        }
    }
}

/// In an ordered chain right rows of a time come first.
fn rights_first(inputs: &mut [Input<Item>]) {
    let key = |input: &Input<Item>| match input {
        Input::Event(time, item) => (*time, matches!(item, Either::Left(_))),
        _ => unreachable!("only events are sorted"),
    };
    for events in inputs.split_mut(|input| !matches!(input, Input::Event(..))) {
        events.sort_by_key(key);
    }
}

fn check_as_of(mut script: Script, ordered: bool, age: Option<u64>) {
    if ordered {
        // Promises between equal times would part them.
        script.inputs.retain(|input| !matches!(input, Input::Watermark(_)));
        rights_first(&mut script.inputs);
        let events = script.inputs.iter().filter_map(|input| match input {
            Input::Event(time, item) => Some((*time, *item)),
            _ => None,
        });
        script.rows = events.collect();
    }
    let age = age.map(Duration::from_micros);
    let removes = |row: &(u8, usize)| row.1.is_multiple_of(5);
    let harness = OperatorHarness::new(move |probe: Probe<_>| {
        let lifetime = Lifetime { age, removes: Some(Box::new(removes)) };
        AsOf::new(OpId(1), key, lifetime, Left, Some(Codec::new("newest")), probe)
    });
    let outcome = harness.ordered(ordered).restoring().run(&script.inputs);
    let mut out: Out = outcome.events().map(|(t, out)| (t, Numbers::numbers(*out))).collect();
    assert!(out.is_sorted_by_key(|&(time, _)| time), "in order: {out:?}");
    let mut expected = Vec::new();
    for &(t, left) in script.rows.iter().filter(|(_, row)| matches!(row, Either::Left(_))) {
        let mut newest: Option<(Timestamp, (u8, usize))> = None;
        for &(time, row) in &script.rows {
            if let Either::Right(row) = row
                && row.0 == key(&left)
                && time <= t
                && newest.is_none_or(|(newest, _)| newest <= time)
            {
                newest = Some((time, row));
            }
        }
        let fresh = |time: Timestamp| age.is_none_or(|age| t <= time + age);
        let found = newest.filter(|&(time, row)| fresh(time) && !removes(&row));
        expected.push((t, (Some(number(left)), found.map(|(_, row)| row.1))));
    }
    out.sort();
    expected.sort();
    assert_eq!(out, expected);
}

fn json<T>(operator: &impl Consumer<T>, inputs: Vec<Input<T>>) -> serde_json::Value {
    struct Json(String);
    impl crate::state::Visit for Json {
        fn state(
            &mut self,
            _: OpId,
            cell: &mut dyn crate::state::Cell,
        ) -> Result<(), crate::state::StateError> {
            self.0 = cell.json().expect("it has a name");
            Ok(())
        }
    }
    let (mut state, mut cx) = (operator.state(), crate::operator::Cx::default());
    for input in inputs {
        match input {
            Input::Event(time, value) | Input::LateEvent(time, value) => {
                operator.event(&mut state, &mut cx, crate::event::Event::new(time, value));
            }
            Input::Watermark(watermark) => operator.watermark(&mut state, &mut cx, watermark),
            Input::Clock(_) => unreachable!("joins do not look at the clock"),
            Input::End => operator.end(&mut state, &mut cx),
        }
    }
    let mut json = Json(String::new());
    operator.visit(&mut state, &mut json).unwrap();
    serde_json::from_str(&json.0).unwrap()
}

#[test]
fn rows_go_when_no_partner_can_come_and_their_room_with_them() {
    let join = || {
        let interval = Interval::around(Duration::from_micros(10));
        let key = |item: &Item| match item {
            Either::Left((_, n)) | Either::Right((_, n)) => *n,
        };
        IntervalJoin::new(OpId(1), interval, key, Inner, Some(Codec::new("rows")), Probe::new())
    };
    let kept = |upto: i64, last: i64| {
        let mut inputs: Vec<_> =
            (0..upto).map(|n| Input::Event(at(n), Either::Left((0, n as usize)))).collect();
        inputs.push(Input::Watermark(at(last)));
        let state = json(&join(), inputs);
        let keys = state["keys"].as_array().unwrap().len();
        (state["left"].as_array().unwrap().len(), keys)
    };
    assert_eq!(kept(5_000, 5_000).0, 10);
    assert!(kept(5_000, 5_000).1 <= 1_024, "{:?}", kept(5_000, 5_000));
    assert_eq!(kept(5_000, 15_000), (0, 0));
}

#[test]
fn a_row_comes_out_unmatched_once_and_not_before_its_last_partner_can() {
    let interval = Interval::after(Duration::from_micros(100));
    let harness = OperatorHarness::new(move |probe: Probe<_>| {
        IntervalJoin::new(OpId(1), interval, key, Left, Some(Codec::new("rows")), probe)
    });
    let inputs = [
        Input::Event(at(0), Either::Left((0, 1))),
        Input::Watermark(at(100)),
        Input::Watermark(at(101)),
        Input::Watermark(at(300)),
        Input::End,
    ];
    let outcome = harness.restoring().run(&inputs);
    let expected = [
        Element::Watermark(at(100)),
        Element::Event(at(100), ((0, 1), None), false),
        Element::Watermark(at(101)),
        Element::Watermark(at(300)),
        Element::End,
    ];
    assert_eq!(outcome.port(0), expected);
}

#[test]
fn a_control_stream_steers_as_of_its_time() {
    for ordered in [false, true] {
        let harness = OperatorHarness::new(|probe: Probe<(i64, i64)>| {
            let f = |limit: &i64, n: i64| (n > *limit).then_some((*limit, n));
            let set = |limit: &mut i64, new: i64| *limit = new;
            Control::new(OpId(1), 10, set, f, Some(Codec::new("limit")), probe)
        });
        let left = |t, n| Input::Event(at(t), Either::Left(n));
        let right = |t, n| Input::Event(at(t), Either::Right(n));
        let watermark = |t| Input::Watermark(at(t));
        let inputs = if ordered {
            vec![left(1, 12), left(1, 9), right(2, 5), left(2, 8), left(3, 6), Input::End]
        } else {
            let first = vec![left(3, 6), left(1, 12), left(2, 8), watermark(1), left(1, 9)];
            [first, vec![right(2, 5), watermark(3), Input::End]].concat()
        };
        let outcome = harness.ordered(ordered).restoring().run(&inputs);
        let out: Vec<_> = outcome.events().map(|(t, out)| (t.as_micros(), *out)).collect();
        assert_eq!(out, [(1, (10, 12)), (2, (5, 8)), (3, (5, 6))]);
    }
}

/// What a join of tumbling windows gives that give early and corrected results too.
fn windows_with_updates(inputs: &[Input<Item>]) -> (Vec<(Phase, Vec<Joined>)>, u64) {
    let micros = Duration::from_micros;
    type Rows = Vec<(Option<(u8, usize)>, Option<(u8, usize)>)>;
    let harness = OperatorHarness::new(|probe: Probe<Windowed<u8, Rows>>| {
        let windows = Windows::tumbling(micros(10)).updated(|it| {
            it.allow(micros(5));
            it.early(Trigger::events(2));
        });
        windows.operator(OpId(1), key, Pairs::new(Full), Some(Codec::new("rows")), probe)
    });
    let outcome = harness.restoring().run(inputs);
    let rows = |rows: &Rows| rows.iter().map(|rows| rows.numbers()).collect();
    let windows = outcome.values().map(|window| (window.phase, rows(&window.value)));
    (windows.collect(), outcome.counters.late)
}

#[test]
fn a_window_join_is_corrected_by_a_late_row() {
    let (left, right) = (|number| Either::Left((0, number)), |number| Either::Right((0, number)));
    let (given, late) = windows_with_updates(&[
        Input::Event(at(1), left(1)),
        Input::Watermark(at(10)),
        Input::LateEvent(at(2), right(2)),
        Input::LateEvent(at(3), left(3)),
        Input::Watermark(at(15)),
        Input::LateEvent(at(4), left(4)),
        Input::End,
    ]);
    let (alone, pair) = ((Some(1), None), (Some(1), Some(2)));
    let corrected = |rows: &[Joined]| (Phase::Corrected, rows.to_vec());
    let expected = [
        (Phase::Final, vec![alone]),
        // It matches now: all rows of the window come again, in the place of that one.
        corrected(&[pair]),
        corrected(&[pair, (Some(3), Some(2))]),
    ];
    assert_eq!((given, late), (expected.to_vec(), 1));
}

#[test]
fn early_results_of_a_window_join_are_its_rows_so_far() {
    let (left, right) = (|number| Either::Left((0, number)), |number| Either::Right((0, number)));
    let (given, late) = windows_with_updates(&[
        Input::Event(at(1), left(1)),
        Input::Event(at(2), left(2)),
        Input::Event(at(3), right(3)),
        Input::End,
    ]);
    let alone = [1, 2].map(|left| (Some(left), None)).to_vec();
    let pairs = [1, 2].map(|left| (Some(left), Some(3))).to_vec();
    assert_eq!((given, late), (vec![(Phase::Early, alone), (Phase::Final, pairs)], 0));
}
