//! Every rule against what it is worked out to give from the whole list of a key's events.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use mizzle::Event;
use mizzle::aggregate::{count, fold};
use mizzle::time::Timestamp;
use mizzle_engine::harness::{Element, Input, OperatorHarness, Outcome, Probe};
use mizzle_engine::operator::rule::*;
use mizzle_engine::operator::{Consumer, Cx, OpId};
use mizzle_engine::state::Codec;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A time, a key and a value.
type Event3 = (i64, u8, i64);
type Value = (u8, i64);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Runs the rule that `make` makes over `events`, saved and restored after every step, in ordered chains and
/// others. Watermarks follow as far as they can behind every `every`-th event.
fn run<R>(
    make: impl Fn() -> R + Copy,
    events: &[Event3],
    every: usize,
    ordered: bool,
) -> Outcome<R::Out>
where
    R: Rule<Value, Out: Clone + Debug, State: Serialize + DeserializeOwned>,
{
    let build = |probe: Probe<R::Out>| {
        let codec = Some(Codec::new("rule"));
        Ruled::new(OpId(1), |value: &Value| value.0, make(), codec, false, probe)
    };
    let mut inputs = Vec::new();
    for (index, &(time, key, value)) in events.iter().enumerate() {
        inputs.push(Input::Event(at(time), (key, value)));
        let next = events[index + 1..].iter().map(|event| event.0).min();
        if let Some(next) = next.filter(|_| index % every == 0) {
            inputs.push(Input::Watermark(at(next)));
        }
    }
    inputs.push(Input::End);
    OperatorHarness::new(build).ordered(ordered).restoring().run(&inputs)
}

fn sorted(events: &[Event3]) -> Vec<Event3> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.0);
    events
}

/// What came out, by key in order.
fn by_key<U: Clone>(outcome: &Outcome<U>, key: impl Fn(&U) -> u8) -> BTreeMap<u8, Vec<(i64, U)>> {
    let mut keys: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    for (time, out) in outcome.events() {
        keys.entry(key(out)).or_default().push((time.as_micros(), out.clone()));
    }
    keys
}

/// Checks a rule against `naive`, which works out what a key gives, and when, from its times and values.
fn check<R>(
    (events, every): &(Vec<Event3>, usize),
    make: impl Fn() -> R + Copy,
    key: impl Fn(&R::Out) -> u8 + Copy,
    naive: impl Fn(&[(i64, Value)]) -> Vec<(i64, R::Out)>,
) -> Result<(), TestCaseError>
where
    R: Rule<Value, Out: Clone + Debug + PartialEq, State: Serialize + DeserializeOwned>,
{
    let events = sorted(events);
    let mut lists: BTreeMap<u8, Vec<(i64, Value)>> = BTreeMap::new();
    for &(time, key, value) in &events {
        lists.entry(key).or_default().push((time, (key, value)));
    }
    let mut expected: BTreeMap<_, _> =
        lists.iter().map(|(&key, list)| (key, naive(list))).collect();
    expected.retain(|_, list| !list.is_empty());

    let ordered = run(make, &events, *every, true);
    prop_assert_eq!(&by_key(&ordered, key), &expected);
    let times: Vec<_> = ordered.events().map(|(time, _)| time).collect();
    prop_assert!(times.is_sorted(), "an ordered chain gives its events in order: {:?}", times);
    // Unflagged the same, as long as each key's events come in order.
    prop_assert_eq!(&by_key(&run(make, &events, *every, false), key), &expected);
    let mut keys = events.clone();
    keys.sort_by_key(|event| event.1);
    let apart = run(make, &keys, *every, false);
    prop_assert_eq!(&by_key(&apart, key), &expected);
    prop_assert_eq!(ordered.counters.late + apart.counters.late, 0);
    Ok(())
}

fn own(value: &Value) -> u8 {
    value.0
}

/// How many of `list` are in the window that ends with the event at `index`, itself the last.
fn within(list: &[(i64, Value)], index: usize, window: i64) -> u64 {
    let now = list[index].0;
    list[..=index].iter().filter(|event| event.0 > now - window).count() as u64
}

fn passing_first(list: &[(i64, Value)], lifetime: i64) -> Vec<(i64, Value)> {
    let mut passed: Vec<(i64, Value)> = Vec::new();
    for &(time, value) in list {
        if passed.last().is_none_or(|last| time - last.0 >= lifetime) {
            passed.push((time, value));
        }
    }
    passed
}

fn throttled(list: &[(i64, Value)], period: i64) -> Vec<(i64, Value)> {
    let mut out: Vec<(i64, Value)> = Vec::new();
    let mut rest = list;
    while let Some((&first, mut behind)) = rest.split_first() {
        out.push(first);
        let mut end = first.0 + period;
        loop {
            let inside = behind.iter().take_while(|event| event.0 < end).count();
            let Some(latest) = behind[..inside].last() else { break };
            out.push((end, latest.1));
            behind = &behind[inside..];
            end += period;
        }
        rest = behind;
    }
    out
}

fn sampled(list: &[(i64, Value)], period: i64) -> Vec<(i64, Value)> {
    let periods: BTreeMap<i64, Value> =
        list.iter().map(|&(time, value)| (time.div_euclid(period), value)).collect();
    periods.into_iter().map(|(number, value)| ((number + 1) * period - 1, value)).collect()
}

fn debounced(list: &[(i64, Value)], quiet: i64) -> Vec<(i64, Value)> {
    let last =
        |index: usize| list.get(index + 1).is_none_or(|next| next.0 - list[index].0 >= quiet);
    let ends = (0..list.len()).filter(|&index| last(index));
    ends.map(|index| (list[index].0 + quiet, list[index].1)).collect()
}

/// Looks at every instant: what leaves first, then each event.
fn crossings(list: &[(i64, Value)], n: u64, window: i64) -> Vec<(i64, Crossing<Value>)> {
    let (Some(first), Some(last)) = (list.first(), list.last()) else { return Vec::new() };
    let (mut out, mut high, mut seen) = (Vec::new(), false, 0);
    for now in first.0..=last.0 + window {
        let count =
            |seen: usize| list[..seen].iter().filter(|event| event.0 > now - window).count() as u64;
        if high && count(seen) < n {
            high = false;
            out.push((now, Crossing::Falling(list[seen - 1].1)));
        }
        while list.get(seen).is_some_and(|event| event.0 == now) {
            seen += 1;
            if !high && count(seen) >= n {
                high = true;
                out.push((now, Crossing::Rising(list[seen - 1].1)));
            }
        }
    }
    out
}

/// The running sums of stretches without a silence, and of each stretch the last word.
fn expiring_sums(list: &[(i64, Value)], ttl: i64) -> Vec<(i64, Value)> {
    let mut out = Vec::new();
    for stretch in list.chunk_by(|a, b| b.0 - a.0 < ttl) {
        let mut sum = 0;
        for &(time, (key, value)) in stretch {
            sum += value;
            out.push((time, (key, sum)));
        }
        let (time, (key, _)) = stretch[stretch.len() - 1];
        out.push((time + ttl, (key, 1_000 + sum)));
    }
    out
}

/// Events of three keys, some at one time, and behind how many of them a watermark comes.
fn events() -> impl Strategy<Value = (Vec<Event3>, usize)> {
    let event = (-30i64..60, 0u8..3, 0i64..6);
    (prop::collection::vec(event, 0..40), 1usize..9)
}

fn add((key, sum): &mut (u8, i64), (of, value): Value) -> Option<Value> {
    *key = of;
    *sum += value;
    Some((of, *sum))
}

fn last_word((key, sum): (u8, i64)) -> Option<Value> {
    Some((key, 1_000 + sum))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first(events in events(), length in 1u64..20) {
        let naive = |list: &[_]| passing_first(list, length as i64);
        check(&events, || First::new(us(length)), own, naive)?;
    }

    #[test]
    fn latest(events in events(), length in 1u64..20) {
        check(&events, || Latest::new(us(length)), own, |list| throttled(list, length as i64))?;
    }

    #[test]
    fn sample(events in events(), length in 1u64..20) {
        check(&events, || Sample::new(us(length)), own, |list| sampled(list, length as i64))?;
    }

    #[test]
    fn debounce(events in events(), length in 1u64..20) {
        check(&events, || Debounce::new(us(length)), own, |list| debounced(list, length as i64))?;
    }

    #[test]
    fn count_within(events in events(), length in 1u64..20) {
        let naive = |list: &[(i64, Value)]| {
            let count = |index: usize| (list[index].0, (list[index].1, within(list, index, length as i64)));
            (0..list.len()).map(count).collect()
        };
        check(&events, || CountWithin::new(us(length)), |out| out.0.0, naive)?;
    }

    #[test]
    fn aggregate_within(events in events(), length in 1u64..20) {
        let naive = |list: &[(i64, Value)]| {
            let values = |index: usize| {
                let count = within(list, index, length as i64) as usize;
                list[index + 1 - count..=index].iter().map(|event| event.1.1).collect::<Vec<_>>()
            };
            (0..list.len()).map(|index| (list[index].0, (list[index].1, values(index)))).collect()
        };
        let gather = || {
            let add = |values: &mut Vec<i64>, value: &Value| values.push(value.1);
            let merge = |values: &mut Vec<i64>, later: &Vec<i64>| values.extend(later);
            AggregateWithin::new(us(length), fold(Vec::new, add, merge, Vec::clone))
        };
        check(&events, gather, |out| out.0.0, naive)?;
    }

    #[test]
    fn count_reaches(events in events(), n in 1u64..5, length in 1u64..20) {
        let window = length as i64;
        let naive = |list: &[(i64, Value)]| {
            let reached = |index: &usize| {
                let recent = *index > 0 && list[index - 1].0 > list[*index].0 - window;
                let before = if recent { within(list, index - 1, window) } else { 0 };
                before < n && within(list, *index, window) >= n
            };
            (0..list.len()).filter(reached).map(|index| list[index]).collect()
        };
        check(&events, || CountReaches::new(n, us(length)), own, naive)?;
    }

    #[test]
    fn count_edges(events in events(), n in 1u64..5, length in 1u64..20) {
        let key = |out: &Crossing<Value>| match out {
            Crossing::Rising(value) | Crossing::Falling(value) => value.0,
        };
        let naive = |list: &[_]| crossings(list, n, length as i64);
        check(&events, || CountEdges::new(n, us(length)), key, naive)?;
    }

    #[test]
    fn increase(events in events(), wraps in any::<bool>()) {
        let kind = if wraps { Counter::Wraps(3) } else { Counter::Resets };
        let naive = |list: &[(i64, Value)]| {
            let grown = |pair: &[(i64, Value)]| {
                let (before, now) = (pair[0].1.1, pair[1].1.1);
                let by = match kind {
                    Counter::Wraps(_) => (now - before).rem_euclid(8),
                    Counter::Resets => if now < before { now } else { now - before },
                };
                let over = us((pair[1].0 - pair[0].0) as u64);
                (pair[1].0, Increase { value: pair[1].1, by: by as u64, over })
            };
            list.windows(2).map(grown).collect()
        };
        let make = || Increases::new(|value: &Value| value.1 as u64, kind);
        check(&events, make, |out| out.value.0, naive)?;
    }

    #[test]
    fn runs_of(events in events(), n in 1u64..4) {
        let high = |value: &Value| value.1 > 2;
        let naive = |list: &[(i64, Value)]| {
            let runs = list.chunk_by(|a, b| high(&a.1) == high(&b.1));
            let runs = runs.filter(|run| high(&run[0].1));
            runs.filter_map(|run| run.get(n as usize - 1)).copied().collect()
        };
        check(&events, || RunsOf::new(n, high), own, naive)?;
    }

    #[test]
    fn edge(events in events(), rising in any::<bool>()) {
        let high = |value: &Value| value.1 > 2;
        let naive = |list: &[(i64, Value)]| {
            let runs: Vec<_> = list.chunk_by(|a, b| high(&a.1) == high(&b.1)).collect();
            let begins = runs.iter().map(|run| run[0]).enumerate();
            begins
                .filter(|(run, first)| high(&first.1) == rising && (rising || *run > 0))
                .map(|(_, first)| first)
                .collect()
        };
        let make = || if rising { Edge::rising(high) } else { Edge::falling(high) };
        check(&events, make, own, naive)?;
    }

    #[test]
    fn changes(events in events()) {
        let of = |value: &Value| value.1 / 2;
        let naive = |list: &[(i64, Value)]| {
            list.chunk_by(|a, b| of(&a.1) == of(&b.1)).map(|same| same[0]).collect()
        };
        check(&events, || Changes::new(of), own, naive)?;
    }

    #[test]
    fn pairwise(events in events()) {
        let naive = |list: &[(i64, Value)]| {
            list.windows(2).map(|pair| (pair[1].0, (pair[0].1, pair[1].1))).collect()
        };
        check(&events, || Pairwise, |out| out.1.0, naive)?;
    }

    #[test]
    fn sort(events in events(), bound in 0u64..20) {
        let naive = |list: &[(i64, Value)]| {
            let mut list = list.to_vec();
            list.sort_by_key(|&(time, (_, value))| (time, -value));
            list
        };
        check(&events, || Sort::new(us(bound), |value: &Value| -value.1), own, naive)?;
    }

    /// Unflagged it also mends disorder of the events, as far as its bound reaches.
    #[test]
    fn sort_mends_disorder((events, every) in events(), shift in 0i64..20) {
        let mut disordered = sorted(&events);
        let mut delayed: Vec<_> = disordered
            .iter()
            .enumerate()
            .map(|(index, event)| (event.0 + (index as i64 * 7) % (shift + 1), *event))
            .collect();
        delayed.sort_by_key(|event| event.0);
        disordered = delayed.into_iter().map(|event| event.1).collect();
        let make = || Sort::new(us(shift as u64), |value: &Value| value.1);
        let outcome = run(make, &disordered, every, false);
        for (_, list) in by_key(&outcome, own) {
            prop_assert!(list.is_sorted_by_key(|&(time, (_, value))| (time, value)), "{:?}", list);
        }
        prop_assert_eq!(outcome.events().count(), events.len());
    }

    #[test]
    fn expiring(events in events(), ttl in 1u64..20) {
        let make = || Expiring::new(Fold::new((0, 0), add), us(ttl), last_word);
        check(&events, make, own, |list| expiring_sums(list, ttl as i64))?;
    }

    /// A time to live in front of the rule's own times, and behind them.
    #[test]
    fn expiring_within(events in events(), ttl in 1u64..20, length in 1u64..20) {
        let naive = |list: &[(i64, Value)]| {
            let stretches = list.chunk_by(|a, b| b.0 - a.0 < ttl as i64);
            stretches.flat_map(|stretch| passing_first(stretch, length as i64)).collect()
        };
        check(&events, || Expiring::new(First::new(us(length)), us(ttl), |_| None), own, naive)?;
    }

    /// Whatever the disorder, nothing breaks the grammar, every alarm is for a key that is there, and
    /// nothing is left when all is over.
    #[test]
    fn nothing_is_left((events, every) in events(), ordered in any::<bool>(), length in 1u64..20) {
        let events = if ordered { sorted(&events) } else { events };
        let rest = |left: usize| {
            prop_assert_eq!(left, 0);
            Ok::<_, TestCaseError>(())
        };
        let length = us(length);
        rest(left(First::new(length), &events, every, ordered))?;
        rest(left(Latest::new(length), &events, every, ordered))?;
        rest(left(Sample::new(length), &events, every, ordered))?;
        rest(left(Debounce::new(length), &events, every, ordered))?;
        rest(left(CountWithin::new(length), &events, every, ordered))?;
        rest(left(AggregateWithin::new(length, count()), &events, every, ordered))?;
        rest(left(CountReaches::new(2, length), &events, every, ordered))?;
        rest(left(CountEdges::new(2, length), &events, every, ordered))?;
        rest(left(Sort::new(length, |value: &Value| value.1), &events, every, ordered))?;
        rest(left(Expiring::new(Pairwise, length, |_| None), &events, every, ordered))?;
    }
}

/// How many keys and alarms are left when all events have come, some of them late, and the watermark has
/// passed all that is due.
fn left<R: Rule<Value>>(rule: R, events: &[Event3], every: usize, ordered: bool) -> usize {
    let probe = Probe::new();
    let operator = Ruled::new(OpId(1), own, rule, None, false, probe.port(0));
    let (mut state, mut cx) = (operator.state(), Cx::new(ordered, 0));
    let (mut newest, mut watermark) = (Timestamp::MIN, Timestamp::MIN);
    for (index, &(time, key, value)) in events.iter().enumerate() {
        let time = at(time);
        cx.late = time < watermark;
        operator.event(&mut state, &mut cx, Event::new(time, (key, value)));
        newest = newest.max(time);
        if index % every == 0 {
            watermark = newest - us(5);
            operator.watermark(&mut state, &mut cx, watermark);
        }
    }
    operator.watermark(&mut state, &mut cx, at(1_000));
    let on_time = |element: &Element<R::Out>| matches!(element, Element::Event(_, _, false));
    assert!(probe.take().iter().filter(|element| on_time(element)).count() <= 2 * events.len());
    state.keys().len() + state.keys().alarms()
}
