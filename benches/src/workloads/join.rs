//! W7: an interval join of two streams in order, in which about one row in a hundred finds a partner.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use mizzle::{Engine, Event, Interval, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run, scatter};
use crate::data::{Random, Reader, Reading, in_order};

pub(super) const JOIN: Workload = Workload {
    name: "join",
    about: "interval join of two streams, 10 ms before and after, 1 % matching",
    order_shows: false,
    prepare,
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

const REACH_MICROS: i64 = 10_000;
/// In the 20 ms around a row lie 10,000 of the other stream, of one in a million keys each.
const KEYS: u64 = 1_000_000;

/// One stream, dealt at random to two.
fn prepare(setting: &Setting) -> Prepared {
    let mut random = Random::new(setting.seed ^ 1);
    let mut streams = [Vec::new(), Vec::new()];
    for event in in_order(setting.events, KEYS, setting.seed).iter() {
        streams[random.below(2) as usize].push(*event);
    }
    Prepared { streams: streams.into_iter().map(Into::into).collect(), ..Prepared::default() }
}

/// The same for any order of results.
#[inline]
fn word(key: u64, left: i64, right: i64) -> u64 {
    scatter(mix(mix(key, left as u64), right as u64))
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<(Reading, Reading)>| {
        let (left, right) = event.value;
        all.wrapping_add(word(left.key, left.value, right.value))
    });
    let query = Query::new("join");
    let left = query.source("left", source::events(Reader::new(&prepared.streams[0])));
    let right = query.source("right", source::events(Reader::new(&prepared.streams[1])));
    left.key_by(|reading| reading.key)
        .join(right.key_by(|reading| reading.key))
        .within(Interval::around(Duration::from_micros(REACH_MICROS as u64)))
        .inner()
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

/// The rows of a key that are not too old, oldest first: nearly always one.
struct Rows {
    first: i64,
    more: VecDeque<i64>,
}

/// One of the two streams: what it has within reach, by key and by age.
#[derive(Default)]
struct Side {
    rows: HashMap<u64, Rows>,
    ages: VecDeque<(i64, u64)>,
}

impl Side {
    fn expire(&mut self, now: i64) {
        while let Some(&(time, key)) = self.ages.front()
            && time + REACH_MICROS < now
        {
            self.ages.pop_front();
            if let Entry::Occupied(mut rows) = self.rows.entry(key) {
                match rows.get_mut().more.pop_front() {
                    Some(next) => rows.get_mut().first = next,
                    None => drop(rows.remove()),
                }
            }
        }
    }

    fn insert(&mut self, time: i64, row: Reading) {
        self.ages.push_back((time, row.key));
        match self.rows.entry(row.key) {
            Entry::Occupied(mut rows) => rows.get_mut().more.push_back(row.value),
            Entry::Vacant(place) => {
                place.insert(Rows { first: row.value, more: VecDeque::new() });
            }
        }
    }

    fn matches(&self, key: u64) -> impl Iterator<Item = i64> {
        let rows = self.rows.get(&key).into_iter();
        rows.flat_map(|rows| std::iter::once(rows.first).chain(rows.more.iter().copied()))
    }
}

/// Merges the two streams; each row first lets go of what is out of reach, then looks at the other side.
fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let (left, right) = (&prepared.streams[0], &prepared.streams[1]);
    let (mut lefts, mut rights) = (Side::default(), Side::default());
    let (mut l, mut r, mut checksum) = (0, 0, 0u64);
    while l < left.len() || r < right.len() {
        let from_left = r == right.len() || (l < left.len() && left[l].time <= right[r].time);
        let (event, own, other) = if from_left {
            l += 1;
            (&left[l - 1], &mut lefts, &mut rights)
        } else {
            r += 1;
            (&right[r - 1], &mut rights, &mut lefts)
        };
        let (time, row) = (event.time.as_micros(), event.value);
        own.expire(time);
        other.expire(time);
        for partner in other.matches(row.key) {
            let (left, right) = if from_left { (row.value, partner) } else { (partner, row.value) };
            checksum = checksum.wrapping_add(word(row.key, left, right));
        }
        own.insert(time, row);
    }
    Outcome::by_hand(checksum)
}
