//! Keyed work of about a microsecond an event: what running keys in parallel gains over order.

use hashbrown::HashMap;
use mizzle::{Engine, Event, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run, scatter};
use crate::data::Reader;

pub(super) const HEAVY: Workload = Workload {
    name: "heavy",
    about: "keyed work of about 1 us an event; a tenth of --events",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events.div_ceil(10)),
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// Steps that depend on each other: about a microsecond at 3 GHz.
const STEPS: u32 = 600;

fn work(state: u64, value: i64) -> u64 {
    (0..STEPS).fold(state ^ value as u64, |mixed, _| {
        mixed.rotate_left(5) ^ mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<(u64, u64)>| {
        all.wrapping_add(scatter(mix(event.value.0, event.value.1)))
    });
    let query = Query::new("heavy");
    query
        .source("readings", source::events(Reader::new(&prepared.streams[0])))
        .key_by(|reading| reading.key)
        .apply_stateful(0u64, |state: &mut u64, reading| {
            *state = work(*state, reading.value);
            (reading.key, *state)
        })
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

/// One thread: a loop and a hash map.
fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let mut states: HashMap<u64, u64> = HashMap::new();
    let all = prepared.streams[0].iter().fold(0u64, |all, event| {
        let state = states.entry(event.value.key).or_default();
        *state = work(*state, event.value.value);
        all.wrapping_add(scatter(mix(event.value.key, *state)))
    });
    Outcome::by_hand(all)
}
