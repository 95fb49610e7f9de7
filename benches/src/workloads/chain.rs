//! W1: map, filter half, map, filter half, a running sum.

use mizzle::{Engine, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::{Reader, Reading, in_order};

pub(super) const CHAIN: Workload = Workload {
    name: "chain",
    about: "map, filter half, map, filter half, running sum; in order",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![in_order(setting.events, setting.keys(), setting.seed)],
        ..Prepared::default()
    },
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|sum, event: &mizzle::Event<i64>| mix(sum, event.value as u64));
    let query = Query::new("chain");
    query
        .source("readings", source::events(Reader::new(&prepared.streams[0])))
        .map(|r| Reading { key: r.key, value: r.value * 3 })
        .filter(|r| r.key & 1 == 0)
        .map(|r| r.value + 1)
        .filter(|value| value & 2 == 0)
        .apply_stateful(0i64, |sum, value| {
            *sum = sum.wrapping_add(value);
            *sum
        })
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let (mut sum, mut checksum) = (0i64, 0);
    for event in prepared.streams[0].iter() {
        let scaled = event.value.value * 3;
        if event.value.key & 1 == 0 {
            let value = scaled + 1;
            if value & 2 == 0 {
                sum = sum.wrapping_add(value);
                checksum = mix(checksum, sum as u64);
            }
        }
    }
    Outcome::by_hand(checksum)
}
