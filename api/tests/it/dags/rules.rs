//! Rules, by looking at all earlier events each time.

use std::collections::HashMap;

use super::naive::{Timed, sequence};
use super::program::*;

/// What a rule makes of sorted events.
pub fn evaluate(events: &[Timed], rule: Rule, length: i64, ordered: bool) -> Vec<Timed> {
    match rule {
        Rule::Distinct => {
            let mut passed: HashMap<u32, i64> = HashMap::new();
            let passes = |&&(time, (key, _)): &&Timed| {
                let free = passed.get(&key).is_none_or(|last| time - last >= length);
                if free {
                    passed.insert(key, time);
                }
                free
            };
            events.iter().filter(passes).copied().collect()
        }
        Rule::Debounce => debounced(events, length),
        Rule::Throttle => throttled(events, length),
        Rule::Sort => {
            let mut events = events.to_vec();
            events.sort_by_key(|&(time, (_, number))| (time, number));
            events
        }
        Rule::Sample => sampled(events, length),
        Rule::Edges(n) => in_turn(by_key(events).iter().flat_map(|own| edges(own, n, length))),
        Rule::Expire => in_turn(by_key(events).iter().flat_map(|own| expiring(own, length))),
        _ => {
            let made = by_key(events).into_iter().flat_map(|own| {
                let at = |index: usize| at_event(rule, length, &own.events[..=index], ordered);
                let each = |index: usize| Some((own.events[index].0, 1, own.at[index], at(index)?));
                (0..own.events.len()).filter_map(each).collect::<Vec<_>>()
            });
            in_turn(made)
        }
    }
}

/// The events of a key, and which of all events they are.
#[derive(Default)]
struct Own {
    events: Vec<Timed>,
    at: Vec<usize>,
}

impl Own {
    /// At which of all events a key arrived, in front of its event `index`: it is forgotten once nothing
    /// has come for `length`.
    fn arrival(&self, mut index: usize, length: i64) -> usize {
        while index > 0 && self.events[index].0 - self.events[index - 1].0 < length {
            index -= 1;
        }
        self.at[index]
    }
}

fn by_key(events: &[Timed]) -> Vec<Own> {
    let mut keys: HashMap<u32, Own> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        let own = keys.entry(event.1.0).or_default();
        own.events.push(*event);
        own.at.push(index);
    }
    keys.into_values().collect()
}

/// A time, whether it comes with an event (1) or, before those, without (0), which event or which arrival
/// of a key, and what comes out.
type Made = (i64, u8, usize, Value);

fn in_turn(made: impl IntoIterator<Item = Made>) -> Vec<Timed> {
    let mut made: Vec<_> = made.into_iter().collect();
    made.sort_by_key(|&(time, with_event, index, _)| (time, with_event, index));
    made.into_iter().map(|(time, _, _, value)| (time, value)).collect()
}

/// How many events there were in the last while at the last of `own`.
fn within(own: &[Timed], length: i64) -> u64 {
    let now = own.last().expect("an event").0;
    own.iter().filter(|event| event.0 > now - length).count() as u64
}

/// What a rule says to the last of its key's events.
fn at_event(rule: Rule, length: i64, own: &[Timed], ordered: bool) -> Option<Value> {
    let (&(time, value), earlier) = own.split_last().expect("an event");
    let before = earlier.last().copied();
    match rule {
        Rule::Count => Some(with(value, within(own, length) as i64)),
        Rule::Aggregate => {
            let recent = own.iter().filter(|event| event.0 > time - length);
            let numbers: Vec<i64> = recent.map(|event| event.1.1).collect();
            Some(with(value, if ordered { sequence(&numbers) } else { numbers.iter().sum() }))
        }
        Rule::Reaches(n) => {
            let low = |before: Timed| before.0 <= time - length || within(earlier, length) < n;
            (within(own, length) >= n && before.is_none_or(low)).then_some(value)
        }
        Rule::Runs(n) => {
            let run = own.iter().rev().take_while(|event| holds(&event.1)).count();
            (run as u64 == n).then_some(value)
        }
        Rule::Edge { rising } => {
            let held = before.is_some_and(|before| holds(&before.1));
            (holds(&value) == rising && held != rising).then_some(value)
        }
        Rule::Changes => before.is_none_or(|it| third(&it.1) != third(&value)).then_some(value),
        Rule::Pairs => before.map(|before| joined(Some(before.1), Some(value))),
        Rule::Increase(bits) => before.map(|before| {
            let (was, is) = (before.1.1, value.1);
            let by = match bits {
                None => {
                    if is < was {
                        is
                    } else {
                        is - was
                    }
                }
                Some(bits) => (is - was).rem_euclid(1 << bits),
            };
            with(value, by * 31 + time - before.0)
        }),
        _ => unreachable!("others are evaluated as a whole"),
    }
}

/// The latest event of a key in each period, in order of the ends of periods and then of arrival.
fn sampled(events: &[Timed], period: i64) -> Vec<Timed> {
    let mut latest: Vec<(i64, Value)> = Vec::new();
    for &(time, value) in events {
        let end = time - time.rem_euclid(period) + period;
        match latest.iter_mut().find(|it| it.0 == end && it.1.0 == value.0) {
            Some(it) => it.1 = value,
            None => latest.push((end, value)),
        }
    }
    latest.sort_by_key(|it| it.0);
    latest.into_iter().map(|(end, value)| (end - 1, value)).collect()
}

/// When as many events of a key as `n` come to be within a while, and when no more.
fn edges(own: &Own, n: u64, length: i64) -> Vec<Made> {
    let (events, mut made, mut high) = (&own.events, Vec::new(), false);
    for index in 0..=events.len() {
        if high {
            let (before, newest) = (&events[..index], events[index - 1]);
            // The earliest of the newest `n` leaves.
            let falls = before[index - n as usize].0 + length;
            if events.get(index).is_none_or(|event| falls <= event.0) {
                made.push((falls, 0, own.arrival(index - 1, length), with(newest.1, 1)));
                high = false;
            }
        }
        if let Some(&(time, value)) = events.get(index)
            && !high
            && within(&events[..=index], length) >= n
        {
            made.push((time, 1, own.at[index], with(value, 2)));
            high = true;
        }
    }
    made
}

/// As without a time to live, but with a new state after each silence.
fn expiring(own: &Own, ttl: i64) -> Vec<Made> {
    let (mut made, mut state) = (Vec::new(), 0);
    for (index, &(time, value)) in own.events.iter().enumerate() {
        made.push((time, 1, own.at[index], apply(&mut state, value)));
        let next = own.events.get(index + 1);
        if next.is_none_or(|next| next.0 - time >= ttl) {
            let arrival = own.arrival(index, ttl);
            let word = last_word(std::mem::take(&mut state));
            made.extend(word.map(|word| (time + ttl, 0, arrival, word)));
        }
    }
    made
}

/// Per key the last events of bursts; those of one moment by the order in which their bursts began.
fn debounced(events: &[Timed], quiet: i64) -> Vec<Timed> {
    let (mut made, mut bursts) = (Vec::new(), Vec::<(u32, Timed)>::new());
    let end = events.last().map_or(0, |last| last.0 + quiet);
    for &(time, value) in events.iter().chain([&(end, (u32::MAX, 0))]) {
        while let Some(over) = bursts.iter().map(|burst| burst.1.0 + quiet).min()
            && over <= time
        {
            let first = bursts.iter().position(|burst| burst.1.0 + quiet == over);
            let (_, (_, value)) = bursts.remove(first.expect("a burst is over"));
            made.push((over, value));
        }
        match bursts.iter_mut().find(|burst| burst.0 == value.0) {
            Some(burst) => burst.1 = (time, value),
            None => bursts.push((value.0, (time, value))),
        }
    }
    made
}

/// The first event, then the latest of each period.
fn throttled(events: &[Timed], period: i64) -> Vec<Timed> {
    let (mut made, mut rest) = (Vec::new(), events);
    while let Some((first, mut behind)) = rest.split_first() {
        made.push(*first);
        let mut end = first.0 + period;
        while let Some(latest) = behind.iter().take_while(|event| event.0 < end).last() {
            made.push((end, latest.1));
            behind = &behind[behind.iter().take_while(|event| event.0 < end).count()..];
            end += period;
        }
        rest = behind;
    }
    made
}
