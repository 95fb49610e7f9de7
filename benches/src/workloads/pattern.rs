//! A pattern over a million keys: A, then B of the same key within a time.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use mizzle::pattern::{Pattern, step};
use mizzle::{Engine, Event, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run, scatter};
use crate::data::{Reader, Reading, in_order};

pub(super) const PATTERN: Workload = Workload {
    name: "pattern",
    about: "A, then B of the same key within a second, 1 million keys; a quarter of the events are A",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![in_order(setting.events, setting.keys.unwrap_or(KEYS), setting.seed)],
        ..Prepared::default()
    },
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

const KEYS: u64 = 1_000_000;
const WITHIN_MICROS: i64 = 1_000_000;

fn is_a(reading: &Reading) -> bool {
    reading.value & 3 == 0
}

fn is_b(reading: &Reading) -> bool {
    reading.value & 3 == 1
}

/// The same for any order of matches.
#[inline]
fn word(key: u64, a: i64, b: i64) -> u64 {
    scatter(mix(mix(key, a as u64), b as u64))
}

fn mizzle(prepared: &Prepared, _: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<u64>| all.wrapping_add(event.value));
    let query = Query::new("pattern");
    query
        .source("readings", source::events(Reader::new(&prepared.streams[0])))
        .key_by(|reading| reading.key)
        .pattern(
            Pattern::new(step("a", is_a).then(step("b", is_b)))
                .within(Duration::from_micros(WITHIN_MICROS as u64)),
            |events| word(events["a"].key, events["a"].value, events["b"].value),
        )
        .sink(sink);
    run(engine, query, &result)
}

/// The A of a key that are not too old, oldest first: mostly one.
struct Waiting {
    first: (i64, i64),
    more: VecDeque<(i64, i64)>,
}

/// A hash map of the A that wait, and a queue of their ages.
fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let mut waiting: HashMap<u64, Waiting> = HashMap::new();
    let mut ages: VecDeque<(i64, u64)> = VecDeque::new();
    let mut checksum = 0u64;
    for event in prepared.streams[0].iter() {
        let (time, reading) = (event.time.as_micros(), event.value);
        while let Some(&(begun, key)) = ages.front()
            && begun + WITHIN_MICROS <= time
        {
            ages.pop_front();
            // Unless a B has taken it: then the oldest of its key is another, or there is none.
            if let Entry::Occupied(mut of_key) = waiting.entry(key)
                && of_key.get().first.0 == begun
            {
                match of_key.get_mut().more.pop_front() {
                    Some(next) => of_key.get_mut().first = next,
                    None => drop(of_key.remove()),
                }
            }
        }
        if is_a(&reading) {
            let a = (time, reading.value);
            ages.push_back((time, reading.key));
            match waiting.entry(reading.key) {
                Entry::Occupied(mut of_key) => of_key.get_mut().more.push_back(a),
                Entry::Vacant(place) => {
                    place.insert(Waiting { first: a, more: VecDeque::new() });
                }
            }
        } else if is_b(&reading)
            && let Some(Waiting { first, more }) = waiting.remove(&reading.key)
        {
            for (_, a) in std::iter::once(first).chain(more) {
                checksum = checksum.wrapping_add(word(reading.key, a, reading.value));
            }
        }
    }
    Outcome::by_hand(checksum)
}
