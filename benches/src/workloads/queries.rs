//! W5: a great many small queries on one stream, as a group: filter by key, map, running average; the
//! same with windows, and with members that nothing matches.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use mizzle::aggregate::{count, max, sum};
use mizzle::source::{BadRecord, Pull, Source};
use mizzle::stream::Member;
use mizzle::time::Timestamp;
use mizzle::{Engine, Event, Group, MemberId, Query, QueryHandle, Status, Windows};

use super::{
    KeyKind, Many, Outcome, Prepared, Setting, Workload, checksum, late, mix, scatter, window_word,
};
use crate::counting::bytes_of;
use crate::data::{Reader, Reading, in_order};
use crate::measure::stopwatch;

pub(super) const QUERIES: Workload = Workload {
    name: "queries",
    about: "a query per key, all in one group: a running average of its readings",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![in_order(setting.events, setting.queries as u64, setting.seed)],
        ..Prepared::default()
    },
    mizzle: by_kind,
    baseline: Some(hashed),
    second_baseline: Some(sharded),
};

/// How many members of the workload `members` are matched.
const MATCHED: u64 = 100;

pub(super) const MEMBERS: Workload = Workload {
    name: "members",
    about: "as queries, but 100 of the queries get all events: others must cost nothing",
    order_shows: false,
    prepare: |setting| {
        let matched = MATCHED.min(setting.queries as u64);
        Prepared {
            streams: vec![in_order(setting.events, matched, setting.seed)],
            ..Prepared::default()
        }
    },
    mizzle: by_kind,
    baseline: Some(hashed),
    second_baseline: None,
};

/// Of a hundred members of the workload `group-window` one has open windows.
const OPEN: u64 = 100;
/// The windows of `group-window`, in microseconds.
const SIZE: i64 = 100_000;

pub(super) const GROUP_WINDOW: Workload = Workload {
    name: "group-window",
    about: "a query per key with windows of 100 ms, 1 % of them open: count and sum",
    order_shows: false,
    prepare: |setting| {
        let open = (setting.queries as u64).div_ceil(OPEN);
        Prepared {
            streams: vec![in_order(setting.events, open, setting.seed)],
            ..Prepared::default()
        }
    },
    mizzle: windows,
    baseline: Some(windows_by_hand),
    second_baseline: None,
};

/// What keys are made of.
trait Key: Clone + Hash + Eq + Send + Sync + 'static {
    /// The keys below `queries`.
    fn all(queries: usize) -> Vec<Self>;
}

impl Key for u64 {
    fn all(queries: usize) -> Vec<Self> {
        (0..queries as u64).collect()
    }
}

/// As a device's name: counted references, so that a reading does not copy it.
impl Key for Arc<str> {
    fn all(queries: usize) -> Vec<Self> {
        (0..queries).map(|key| format!("device-{key:08}").into()).collect()
    }
}

fn by_kind(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    match setting.key {
        KeyKind::U64 => mizzle::<u64>(prepared, setting, engine),
        KeyKind::String => mizzle::<Arc<str>>(prepared, setting, engine),
    }
}

fn hashed(prepared: &Prepared, setting: &Setting) -> Outcome {
    match setting.key {
        KeyKind::U64 => hashed_by::<u64>(prepared, setting),
        KeyKind::String => hashed_by::<Arc<str>>(prepared, setting),
    }
}

fn sharded(prepared: &Prepared, setting: &Setting) -> Outcome {
    match setting.key {
        KeyKind::U64 => sharded_by::<u64>(prepared, setting),
        KeyKind::String => sharded_by::<Arc<str>>(prepared, setting),
    }
}

/// A reading with a key of any kind; the key's number is for the checksum.
#[derive(Clone)]
struct Keyed<K> {
    key: K,
    number: u64,
    value: i64,
}

#[inline]
fn keyed<K: Key>(keys: &[K], reading: &Reading) -> Keyed<K> {
    Keyed { key: keys[reading.key as usize].clone(), number: reading.key, value: reading.value }
}

/// A key's count and sum.
type Average = (i64, i64);

/// Counts `value` in, and gives the average so far.
#[inline]
pub fn average(state: &mut Average, value: i64) -> i64 {
    state.0 += 1;
    state.1 += value;
    state.1 / state.0
}

/// What a key's average adds to the checksum, which is the same for any order of results.
#[inline]
pub fn word(key: u64, average: i64) -> u64 {
    scatter(mix(key, average as u64))
}

fn mizzle<K: Key>(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<(_, (u64, i64))>| {
        let (_, (key, average)) = event.value;
        all.wrapping_add(word(key, average))
    });
    let keys = K::all(setting.queries);
    let many = membership(&keys, setting, engine);
    let query = Query::new("queries");
    let gate = Arc::new(AtomicBool::new(false));
    let readings = Gated { reader: Reader::new(&prepared.streams[0]), gate: gate.clone() };
    let names = keys.clone();
    let (group, results) = query
        .source("readings", readings)
        .map(move |reading: Reading| keyed(&names, &reading))
        .key_by(|reading| reading.key.clone())
        .group("averages", |member: Member<(), _>| {
            member
                .map(|((), reading)| reading)
                .apply_stateful((0, 0), |state: &mut Average, reading: Keyed<K>| {
                    (reading.number, average(state, reading.value))
                })
                .in_order_if(setting.in_order)
        });
    results.sink(sink);
    let handle = fill(engine, query, &group, keys);
    let watch = stopwatch();
    gate.store(true, Ordering::Release);
    assert_eq!(handle.wait(), Status::Completed);
    let took = watch();
    let checksum = result.0.lock().expect("no sink panicked").expect("the sink has ended");
    Outcome {
        late: late(&handle),
        took: Some(took),
        many: Some(many),
        ..Outcome::by_hand(checksum)
    }
}

/// Submits `query` and adds a member for each of `keys`, all of them there when it returns.
fn fill<K: Key, R: Send + 'static>(
    engine: &Engine,
    query: Query,
    group: &Group<K, (), R>,
    keys: Vec<K>,
) -> QueryHandle {
    let handle =
        engine.submit(query).unwrap_or_else(|error| panic!("the workload is wrong: {error}"));
    let queries = keys.len();
    group.add_all(keys.into_iter().map(|key| (key, ()))).expect("it runs");
    // A lane heeds what is said to it in order; so when all have answered, all members are there.
    assert_eq!(group.members().expect("it runs").len(), queries);
    handle
}

/// What members cost, and their coming and going: as many as there are queries, on a source that is
/// silent meanwhile.
fn membership<K: Key>(keys: &[K], setting: &Setting, engine: &Engine) -> Many {
    let query = Query::new("membership");
    let (push, readings) = query.push_source("readings", |_: &Keyed<K>| Timestamp::from_secs(0));
    let (group, results) = readings.key_by(|reading| reading.key.clone()).group(
        "averages",
        |member: Member<(), _>| {
            member.apply_stateful((0, 0), |state: &mut Average, ((), reading): ((), Keyed<K>)| {
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
    let keys: Vec<_> = keys.iter().map(|key| (key.clone(), ())).collect();
    let held = keys.capacity() * size_of::<(K, ())>();
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
    let ids = ids.capacity() * size_of::<MemberId>();
    let added = (bytes - ids as i64 + held as i64) as f64 / setting.queries as f64;
    Many {
        bytes_per_query: added - (size_of::<Average>() + size_of::<K>()) as f64,
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
fn hashed_by<K: Key>(prepared: &Prepared, setting: &Setting) -> Outcome {
    let keys = K::all(setting.queries);
    let mut queries: HashMap<K, Average> = keys.iter().map(|key| (key.clone(), (0, 0))).collect();
    let watch = stopwatch();
    let mut checksum = 0u64;
    for event in prepared.streams[0].iter() {
        let reading = keyed(&keys, &event.value);
        if let Some(state) = queries.get_mut(&reading.key) {
            checksum = checksum.wrapping_add(word(reading.number, average(state, reading.value)));
        }
    }
    Outcome { took: Some(watch()), ..Outcome::by_hand(checksum) }
}

const SHARDS: usize = 64;

/// An index per shard, over batches that are sorted by shard first (a counting sort).
fn sharded_by<K: Key>(prepared: &Prepared, setting: &Setting) -> Outcome {
    let shard = |key: u64| (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize;
    let keys = K::all(setting.queries);
    let mut shards: Vec<HashMap<K, Average>> = (0..SHARDS).map(|_| HashMap::new()).collect();
    for (number, key) in keys.iter().enumerate() {
        shards[shard(number as u64)].insert(key.clone(), (0, 0));
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
                let reading = keyed(&keys, reading);
                if let Some(state) = queries.get_mut(&reading.key) {
                    let average = average(state, reading.value);
                    checksum = checksum.wrapping_add(word(reading.number, average));
                }
            }
            start = end as usize;
        }
    }
    Outcome { took: Some(watch()), ..Outcome::by_hand(checksum) }
}

fn windows(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let (sink, result) = checksum(|all: u64, event: &Event<(MemberId, Closed)>| {
        let (key, start, count, sum) = event.value.1;
        all.wrapping_add(window_word(key, start, count, sum))
    });
    let query = Query::new("group-window");
    let gate = Arc::new(AtomicBool::new(false));
    let readings = Gated { reader: Reader::new(&prepared.streams[0]), gate: gate.clone() };
    let (group, results) = query
        .source("readings", readings)
        .key_by(|reading: &Reading| reading.key)
        .group("windows", |member: Member<(), _>| {
            member
                .window(Windows::tumbling(Duration::from_micros(SIZE as u64)))
                .aggregate((
                    max(|((), reading): &((), Reading)| reading.key),
                    count(),
                    sum(|((), reading): &((), Reading)| reading.value),
                ))
                .in_order_if(setting.in_order)
                .map(|window| {
                    let (key, count, sum) = window.value;
                    (key.unwrap_or(0), window.start.as_micros(), count, sum)
                })
        });
    results.sink(sink);
    let handle = fill(engine, query, &group, u64::all(setting.queries));
    let watch = stopwatch();
    gate.store(true, Ordering::Release);
    assert_eq!(handle.wait(), Status::Completed);
    let took = watch();
    let checksum = result.0.lock().expect("no sink panicked").expect("the sink has ended");
    Outcome { late: late(&handle), took: Some(took), ..Outcome::by_hand(checksum) }
}

/// A window that has closed: key, start, count, sum.
type Closed = (u64, i64, u64, i64);

/// A hash index from key to the open window, and the open windows in order of their ends.
fn windows_by_hand(prepared: &Prepared, setting: &Setting) -> Outcome {
    let mut queries: HashMap<u64, (i64, u64, i64)> =
        (0..setting.queries as u64).map(|key| (key, (0, 0, 0))).collect();
    let mut open: VecDeque<(i64, u64)> = VecDeque::new();
    let watch = stopwatch();
    let mut checksum = 0u64;
    for event in prepared.streams[0].iter() {
        let time = event.time.as_micros();
        while let Some(&(end, key)) = open.front()
            && end <= time
        {
            open.pop_front();
            checksum = checksum.wrapping_add(close(key, &mut queries));
        }
        if let Some((start, count, sum)) = queries.get_mut(&event.value.key) {
            if *count == 0 {
                *start = time - time % SIZE;
                open.push_back((*start + SIZE, event.value.key));
            }
            *count += 1;
            *sum += event.value.value;
        }
    }
    for (_, key) in open {
        checksum = checksum.wrapping_add(close(key, &mut queries));
    }
    Outcome { took: Some(watch()), ..Outcome::by_hand(checksum) }
}

fn close(key: u64, queries: &mut HashMap<u64, (i64, u64, i64)>) -> u64 {
    let Some(state) = queries.get_mut(&key) else { return 0 };
    let (start, count, sum) = std::mem::take(state);
    window_word(key, start, count, sum)
}
