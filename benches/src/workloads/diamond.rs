//! A stream shared by two branches that meet again, in order.

use mizzle::{Engine, Event, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::Reader;

pub(super) const DIAMOND: Workload = Workload {
    name: "diamond",
    about: "one stream, two branches, their union, difference to the value before; in order",
    order_shows: true,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|sum, event: &Event<i64>| mix(sum, event.value as u64));
    let query = Query::new("diamond");
    let readings =
        query.source("readings", source::events(Reader::new(&prepared.streams[0]))).share();
    let all = readings.clone().map(|reading| reading.value * 3);
    let even = readings.filter(|reading| reading.key & 1 == 0).map(|reading| reading.value + 1);
    all.union(even)
        .apply_stateful(0i64, |last, value| value - std::mem::replace(last, value))
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let (mut last, mut checksum) = (0i64, 0);
    let mut take = |value: i64| {
        checksum = mix(checksum, (value - last) as u64);
        last = value;
    };
    for event in prepared.streams[0].iter() {
        take(event.value.value * 3);
        if event.value.key & 1 == 0 {
            take(event.value.value + 1);
        }
    }
    Outcome::by_hand(checksum)
}
