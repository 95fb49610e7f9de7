//! W4: the union of two streams in order, then a stateful difference.

use mizzle::{Engine, Event, Query, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::{Random, Reader, in_order};

pub(super) const UNION: Workload = Workload {
    name: "union",
    about: "union of two streams in order, difference to the value before; in order",
    order_shows: true,
    prepare,
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// One stream, dealt at random to two.
fn prepare(setting: &Setting) -> Prepared {
    let mut random = Random::new(setting.seed ^ 1);
    let mut streams = [Vec::new(), Vec::new()];
    for event in in_order(setting.events, setting.keys(), setting.seed).iter() {
        streams[random.below(2) as usize].push(*event);
    }
    Prepared { streams: streams.into_iter().map(Into::into).collect(), ..Prepared::default() }
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|sum, event: &Event<i64>| mix(sum, event.value as u64));
    let query = Query::new("union");
    let left = query.source("left", source::events(Reader::new(&prepared.streams[0])));
    let right = query.source("right", source::events(Reader::new(&prepared.streams[1])));
    left.union(right)
        .apply_stateful(0i64, |last, reading| {
            reading.value - std::mem::replace(last, reading.value)
        })
        .in_order_if(setting.in_order)
        .sink(sink);
    run(engine, query, &result)
}

fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let (left, right) = (&prepared.streams[0], &prepared.streams[1]);
    let (mut l, mut r, mut last, mut checksum) = (0, 0, 0i64, 0);
    while l < left.len() || r < right.len() {
        let from_left = r == right.len() || (l < left.len() && left[l].time <= right[r].time);
        let value = if from_left { left[l].value.value } else { right[r].value.value };
        l += usize::from(from_left);
        r += usize::from(!from_left);
        checksum = mix(checksum, (value - last) as u64);
        last = value;
    }
    Outcome::by_hand(checksum)
}
