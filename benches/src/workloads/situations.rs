//! The published experiment with situations: an alert for each trigger, and a track for each trigger and track
//! data of one target; ten candidates each.

use std::collections::VecDeque;

use mizzle::situation::{AtCap, Lifespan, Situation, Situations, operand};
use mizzle::time::Timestamp;
use mizzle::{Engine, Event, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::{Data, Random, Reader, Reading};

pub(super) const SITUATIONS: Workload = Workload {
    name: "situations",
    about: "alerts and tracks of targets, 10 candidates each: a mixed random stream, and by occupancy",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![mixed(setting.events, setting.seed)],
        ..Prepared::default()
    },
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// Triggers that complete a track, where so many candidates are held.
pub(super) const BY_TRIGGER: Workload = Workload {
    name: "situations-trigger",
    about: "the same, where triggers complete tracks and the candidates are so many all the time",
    prepare: |setting| at_occupancy(setting, TRACK_DATA),
    ..SITUATIONS
};

/// Track data that completes one.
pub(super) const BY_TRACK_DATA: Workload = Workload {
    name: "situations-track",
    about: "the same, where track data completes them",
    prepare: |setting| at_occupancy(setting, TRIGGER),
    ..SITUATIONS
};

/// How many candidates an operand keeps.
const CANDIDATES: usize = 10;
/// Targets of the mixed stream.
const TARGETS: u64 = 16;

const TRIGGER: i64 = 0;
const TRACK_DATA: i64 = 1;
const ALERT_TRACK: i64 = 2;
const ALERT: i64 = 3;

/// A reading stands for an event about a target: its type in the two lowest bits of its value, its number above.
fn signal(target: u64, number: i64, of: i64) -> Reading {
    Reading { key: target, value: number << 2 | of }
}

fn stream(signals: impl Iterator<Item = (u64, i64)>) -> Data {
    let numbered = signals.enumerate();
    numbered
        .map(|(n, (target, of))| {
            Event::new(Timestamp::from_micros(n as i64), signal(target, n as i64, of))
        })
        .collect()
}

fn mixed(events: usize, seed: u64) -> Data {
    let mut random = Random::new(seed);
    stream((0..events).map(|_| {
        let target = random.below(TARGETS);
        (target, random.below(2) as i64)
    }))
}

/// First `held` minus one of either type about targets of which nothing else comes; then pairs: one of type
/// `first`, and one of the other that completes it. So that meets `held` of the other operand, and one less of its own.
fn held(events: usize, held: usize, first: i64) -> Data {
    let events = events.saturating_sub(2 * (held - 1));
    let fill = (0..2 * (held - 1)).map(|n| (1_000_000 + n as u64, (n % 2) as i64));
    let pairs = (0..events / 2).flat_map(move |n| {
        let target = (n % 1_000) as u64;
        [(target, first), (target, 1 - first)]
    });
    stream(fill.chain(pairs))
}

fn at_occupancy(setting: &Setting, first: i64) -> Prepared {
    let candidates = (CANDIDATES * setting.occupancy).div_ceil(100).max(1);
    Prepared { streams: vec![held(setting.events, candidates, first)], ..Prepared::default() }
}

fn rules() -> Situations<Reading> {
    type Rule = Situation<Reading>;
    let of = |of: i64| operand(of as u16).max_candidates(CANDIDATES as u32, AtCap::RefuseNewest);
    Situations::new(|reading: &Reading| (reading.value & 3) as u16)
        .lifespan(Lifespan::always("watch"))
        .situation(
            Rule::all("alert track", [of(TRIGGER), of(TRACK_DATA)])
                .during("watch")
                .when(|found| found[0].key == found[1].key)
                .derives(ALERT_TRACK as u16, |found| {
                    signal(found[0].key, found[0].value ^ found[1].value << 8, ALERT_TRACK)
                }),
        )
        .situation(
            Rule::all("alert", [of(TRIGGER)])
                .during("watch")
                .derives(ALERT as u16, |found| signal(found[0].key, found[0].value, ALERT)),
        )
}

#[inline]
fn fold(all: u64, reading: &Reading) -> u64 {
    mix(all, mix(reading.key, reading.value as u64))
}

fn mizzle(prepared: &Prepared, _: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<Reading>| fold(all, &event.value));
    let query = Query::new("situations");
    query
        .source("signals", source::events(Reader::new(&prepared.streams[0])))
        .situations(rules())
        .sink(sink);
    run(engine, query, &result)
}

/// Exactly these two rules by hand: two queues of ten.
fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let mut triggers: VecDeque<Reading> = VecDeque::with_capacity(CANDIDATES);
    let mut tracks: VecDeque<Reading> = VecDeque::with_capacity(CANDIDATES);
    let mut checksum = 0u64;
    let tracked = |trigger: &Reading, track: &Reading| {
        signal(trigger.key, trigger.value ^ track.value << 8, ALERT_TRACK)
    };
    for event in prepared.streams[0].iter() {
        let reading = event.value;
        if reading.value & 3 == TRIGGER {
            if triggers.len() < CANDIDATES {
                match tracks.iter().position(|track| track.key == reading.key) {
                    Some(place) => {
                        checksum = fold(checksum, &tracked(&reading, &tracks[place]));
                        tracks.remove(place);
                    }
                    None => triggers.push_back(reading),
                }
            }
            checksum = fold(checksum, &signal(reading.key, reading.value, ALERT));
        } else if tracks.len() < CANDIDATES {
            match triggers.iter().position(|trigger| trigger.key == reading.key) {
                Some(place) => {
                    checksum = fold(checksum, &tracked(&triggers[place], &reading));
                    triggers.remove(place);
                }
                None => tracks.push_back(reading),
            }
        }
    }
    Outcome::by_hand(checksum)
}
