//! Separate queries, each on one key of a shared source: map, running average, a sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use mizzle::sink::{Sink, SinkError};
use mizzle::{Engine, Event, Query, QueryHandle, SharedSource, Status, source};

use super::{Many, Outcome, Prepared, Setting, Workload, mix};
use crate::counting::bytes_of;
use crate::data::{Reader, Reading, in_order};
use crate::measure::stopwatch;

pub(super) const SEPARATE: Workload = Workload {
    name: "separate",
    about: "--queries separate queries on one key each: map, running average; in order",
    order_shows: false,
    prepare: |setting| Prepared {
        streams: vec![in_order(setting.events, keys(setting), setting.seed)],
        ..Prepared::default()
    },
    mizzle,
    baseline: Some(baseline),
    second_baseline: None,
};

/// Folds what it gets into a checksum, and adds that to all others' at the end.
struct Fold {
    sum: u64,
    all: Arc<AtomicU64>,
}

impl Sink<u64> for Fold {
    #[inline]
    fn event(&mut self, event: Event<u64>) {
        self.sum = mix(self.sum, event.value);
    }

    fn end(&mut self) -> Result<(), SinkError> {
        self.all.fetch_add(self.sum, Ordering::Relaxed);
        Ok(())
    }
}

/// How many events there were, and their sum.
type Average = (u64, i64);

#[inline]
fn average((events, sum): &mut Average, value: i64) -> u64 {
    (*events, *sum) = (*events + 1, *sum + value);
    (*sum as f64 / *events as f64).to_bits()
}

/// As many as queries, unless asked otherwise: an event is for one of them.
fn keys(setting: &Setting) -> u64 {
    setting.keys.unwrap_or(setting.queries as u64)
}

/// Submits the queries, which are fed once `readings` is started.
fn submit(
    engine: &Engine,
    readings: &SharedSource<Reading>,
    setting: &Setting,
    all: &Arc<AtomicU64>,
) -> Vec<QueryHandle> {
    let keyed = readings.key_by(|reading| reading.key);
    let mut queries = Vec::with_capacity(setting.queries);
    for number in 0..setting.queries as u64 {
        let query = Query::new("separate");
        query
            .subscribe(&keyed.at(number % keys(setting)))
            .map(|reading| reading.value * 3)
            .apply_stateful((0, 0), average)
            .in_order_if(setting.in_order)
            .sink(Fold { sum: 0, all: all.clone() });
        queries.push(engine.submit(query).unwrap_or_else(|error| panic!("wrong: {error}")));
    }
    queries
}

fn mizzle(prepared: &Prepared, setting: &Setting, engine: &Engine) -> Outcome {
    let all = Arc::new(AtomicU64::new(0));
    let readings = engine
        .shared_source("readings", source::events(Reader::new(&prepared.streams[0])))
        .open()
        .unwrap_or_else(|error| panic!("wrong: {error}"));
    let watch = stopwatch();
    let (queries, bytes) = bytes_of(|| {
        let queries = submit(engine, &readings, setting, &all);
        settle(engine);
        queries
    });
    let adding = watch();
    let watch = stopwatch();
    readings.start();
    queries.iter().for_each(|query| assert_eq!(query.wait(), Status::Completed));
    let took = watch();
    let late = readings.query().chains().iter().map(|chain| chain.stats.late).sum();
    let many = Many {
        bytes_per_query: bytes as f64 / setting.queries as f64,
        adds_per_cpu_s: setting.queries as f64 / adding.cpu_seconds,
        removes_per_cpu_s: None,
    };
    let checksum = all.load(Ordering::Relaxed);
    Outcome { late, took: Some(took), many: Some(many), ..Outcome::by_hand(checksum) }
}

/// Waits until the new queries have had their first look at nothing.
fn settle(engine: &Engine) {
    let is_quiet = |query: &QueryHandle| {
        query.chains().iter().all(|chain| ["idle", "waiting for room"].contains(&chain.state))
    };
    while !engine.queries().iter().all(is_quiet) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One query by hand: it adds its checksum to all others' when it is dropped.
struct ByHand {
    state: Average,
    fold: Fold,
}

impl Drop for ByHand {
    fn drop(&mut self) {
        self.fold.all.fetch_add(self.fold.sum, Ordering::Relaxed);
    }
}

/// A hash index from keys to boxed closures, each with its state.
fn baseline(prepared: &Prepared, setting: &Setting) -> Outcome {
    type Run = Box<dyn FnMut(i64)>;
    let mut index: HashMap<u64, Vec<Run>> = HashMap::new();
    let all = Arc::new(AtomicU64::new(0));
    for number in 0..setting.queries as u64 {
        let mut query = ByHand { state: (0, 0), fold: Fold { sum: 0, all: all.clone() } };
        let run = Box::new(move |value: i64| {
            let query = &mut query;
            query.fold.sum = mix(query.fold.sum, average(&mut query.state, value * 3));
        });
        index.entry(number % keys(setting)).or_default().push(run);
    }
    let watch = stopwatch();
    for event in prepared.streams[0].iter() {
        if let Some(queries) = index.get_mut(&event.value.key) {
            queries.iter_mut().for_each(|run| run(event.value.value));
        }
    }
    drop(index);
    let took = watch();
    Outcome { took: Some(took), ..Outcome::by_hand(all.load(Ordering::Relaxed)) }
}
