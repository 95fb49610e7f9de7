//! W1: map, filter half, map, filter half, a running sum.

use mizzle::{Build, Engine, Query, Stream, source};

use super::{Outcome, Prepared, Setting, Workload, checksum, mix, run};
use crate::data::{Reader, Reading};

pub(super) const CHAIN: Workload = Workload {
    name: "chain",
    about: "map, filter half, map, filter half, running sum; in order",
    order_shows: false,
    prepare: |setting| Prepared::in_order(setting, setting.events),
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|sum, event: &mizzle::Event<i64>| mix(sum, event.value as u64));
    let query = Query::new("chain");
    let readings = query.source("readings", source::events(Reader::new(&prepared.streams[0])));
    sums(readings, setting).sink(sink);
    run(engine, query, &result)
}

/// The operators of the chain.
pub(super) fn sums<B: Build<Out = Reading>>(
    readings: Stream<B>,
    setting: &Setting,
) -> Stream<impl Build<Out = i64>> {
    readings
        .map(|r| Reading { key: r.key, value: r.value * 3 })
        .filter(|r| r.key & 1 == 0)
        .map(|r| r.value + 1)
        .filter(|value| value & 2 == 0)
        .apply_stateful(0i64, |sum, value| {
            *sum = sum.wrapping_add(value);
            *sum
        })
        .in_order_if(setting.in_order)
}

/// The same by hand.
#[derive(Default)]
pub(super) struct Sum {
    sum: i64,
    pub checksum: u64,
}

impl Sum {
    /// Whether the reading comes through to the sum.
    #[inline(always)]
    pub fn take(&mut self, reading: Reading) -> bool {
        let scaled = reading.value * 3;
        if reading.key & 1 != 0 {
            return false;
        }
        let value = scaled + 1;
        let through = value & 2 == 0;
        if through {
            self.sum = self.sum.wrapping_add(value);
            self.checksum = mix(self.checksum, self.sum as u64);
        }
        through
    }
}

fn baseline(prepared: &Prepared, _: &Setting) -> Outcome {
    let mut sum = Sum::default();
    for event in prepared.streams[0].iter() {
        sum.take(event.value);
    }
    Outcome::by_hand(sum.checksum)
}
