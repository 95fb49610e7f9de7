//! W5: a great many small queries on one stream, as a group: filter by key, map, running average.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use mizzle::source::{BadRecord, Pull, Source};
use mizzle::stream::Member;
use mizzle::time::Timestamp;
use mizzle::{Engine, Event, MemberId, Query, Status};

use super::{Many, Outcome, Prepared, Setting, Workload, checksum, late, mix};
use crate::counting::bytes_of;
use crate::data::{Reader, Reading, in_order};
use crate::measure::stopwatch;

pub(super) const QUERIES: Workload = Workload {
    name: "queries",
    about: "a query per key, all in one group: a running average of its readings",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![in_order(setting.events, setting.queries as u64, setting.seed)],
    },
    mizzle,
    baseline: hashed,
    second_baseline: Some(sharded),
};

/// A key's count and sum.
type Average = (i64, i64);

#[inline]
fn average(state: &mut Average, value: i64) -> i64 {
    state.0 += 1;
    state.1 += value;
    state.1 / state.0
}

/// The same for any order of results.
#[inline]
fn word(key: u64, average: i64) -> u64 {
    mix(key, average as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<(_, (u64, i64))>| {
        let (_, (key, average)) = event.value;
        all.wrapping_add(word(key, average))
    });
    let many = membership(setting, engine);
    let query = Query::new("queries");
    let gate = Arc::new(AtomicBool::new(false));
    let (group, results) = query
        .source("readings", Gated { reader: Reader::new(&prepared.streams[0]), gate: gate.clone() })
        .key_by(|reading: &Reading| reading.key)
        .group("averages", |member: Member<(), _>| {
            member
                .map(|((), reading)| reading)
                .apply_stateful((0, 0), |state: &mut Average, reading: Reading| {
                    (reading.key, average(state, reading.value))
                })
                .in_order_if(setting.in_order)
        });
    results.sink(sink);
    let handle =
        engine.submit(query).unwrap_or_else(|error| panic!("the workload is wrong: {error}"));
    let members = group.add_all((0..setting.queries as u64).map(|key| (key, ()))).expect("it runs");
    let last = members[members.len() - 1];
    // A lane heeds what is said to it in order; so when all have answered, all members are there.
    assert_eq!(group.members().expect("it runs").len(), setting.queries);
    assert!(group.inspect(last).expect("it runs").is_some());
    let watch = stopwatch();
    gate.store(true, Ordering::Release);
    assert_eq!(handle.wait(), Status::Completed);
    let took = watch();
    let checksum = result.0.lock().expect("no sink panicked").expect("the sink has ended");
    Outcome { checksum, late: late(&handle), took: Some(took), many: Some(many) }
}

/// What members cost, and their coming and going: as many as there are queries, on a source that is
/// silent meanwhile.
fn membership(setting: &Setting, engine: &Engine) -> Many {
    let query = Query::new("membership");
    let (push, readings) = query.push_source("readings", |_: &Reading| Timestamp::from_secs(0));
    let (group, results) = readings.key_by(|reading: &Reading| reading.key).group(
        "averages",
        |member: Member<(), _>| {
            member.apply_stateful((0, 0), |state: &mut Average, ((), reading): ((), Reading)| {
                average(state, reading.value)
            })
        },
    );
    results.for_each(|_| ());
    let handle =
        engine.submit(query).unwrap_or_else(|error| panic!("the workload is wrong: {error}"));
    // All lanes have answered: what was said before is done.
    let members = || group.members().expect("it runs").len();
    assert_eq!(members(), 0);
    let keys: Vec<_> = (0..setting.queries as u64).map(|key| (key, ())).collect();
    let watch = stopwatch();
    let (ids, bytes) = bytes_of(|| {
        let ids = group.add_all(keys).expect("it runs");
        assert_eq!(members(), setting.queries);
        ids
    });
    let adding = watch();
    let watch = stopwatch();
    group.remove_all(&ids).expect("it runs");
    assert_eq!(members(), 0);
    let removing = watch();
    drop(push);
    handle.wait();
    // The list of ids is the caller's; the keys were, and are gone.
    let (ids, keys) =
        (ids.capacity() * size_of::<MemberId>(), setting.queries * size_of::<(u64, ())>());
    let added = (bytes - ids as i64 + keys as i64) as f64 / setting.queries as f64;
    Many {
        bytes_per_query: added - (size_of::<Average>() + size_of::<u64>()) as f64,
        adds_per_cpu_s: setting.queries as f64 / adding.cpu_seconds,
        removes_per_cpu_s: Some(setting.queries as f64 / removing.cpu_seconds),
    }
}

/// Gives nothing before its gate is open: until then queries are being added.
struct Gated {
    reader: Reader,
    gate: Arc<AtomicBool>,
}

impl Source for Gated {
    type Item = Reading;

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<Reading>),
        _: &mut Vec<BadRecord>,
    ) -> Pull {
        if !self.gate.load(Ordering::Acquire) {
            std::thread::yield_now();
            return Pull::More;
        }
        for _ in 0..budget {
            match self.reader.next() {
                Some(event) => emit(event),
                None => return Pull::Ended,
            }
        }
        Pull::More
    }
}

/// A hash index from key to state.
fn hashed(prepared: &Prepared, setting: &Setting) -> Outcome {
    let mut queries: HashMap<u64, Average> =
        (0..setting.queries as u64).map(|key| (key, (0, 0))).collect();
    let watch = stopwatch();
    let mut checksum = 0u64;
    for event in prepared.streams[0].iter() {
        if let Some(state) = queries.get_mut(&event.value.key) {
            checksum =
                checksum.wrapping_add(word(event.value.key, average(state, event.value.value)));
        }
    }
    Outcome { checksum, late: 0, took: Some(watch()), many: None }
}

const SHARDS: usize = 64;

/// An index per shard, over batches that are sorted by shard first (a counting sort).
fn sharded(prepared: &Prepared, setting: &Setting) -> Outcome {
    let shard = |key: u64| (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize;
    let mut shards: Vec<HashMap<u64, Average>> = (0..SHARDS).map(|_| HashMap::new()).collect();
    for key in 0..setting.queries as u64 {
        shards[shard(key)].insert(key, (0, 0));
    }
    let watch = stopwatch();
    let mut checksum = 0u64;
    let mut sorted: Vec<Reading> = Vec::new();
    for batch in prepared.streams[0].chunks(setting.batch) {
        let mut ends = [0u32; SHARDS];
        for event in batch {
            ends[shard(event.value.key)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            (*end, sum) = (sum, sum + *end);
        }
        sorted.resize(batch.len(), Reading { key: 0, value: 0 });
        for event in batch {
            let end = &mut ends[shard(event.value.key)];
            sorted[*end as usize] = event.value;
            *end += 1;
        }
        let mut start = 0;
        for (queries, &end) in shards.iter_mut().zip(&ends) {
            for reading in &sorted[start..end as usize] {
                if let Some(state) = queries.get_mut(&reading.key) {
                    checksum =
                        checksum.wrapping_add(word(reading.key, average(state, reading.value)));
                }
            }
            start = end as usize;
        }
    }
    Outcome { checksum, late: 0, took: Some(watch()), many: None }
}
