//! The workloads. Each has a Mizzle query and, but for Nexmark's, a hand-written program for the same data.

mod chain;
mod contexts;
mod diamond;
mod heavy;
mod join;
mod latency;
mod nexmark;
mod pattern;
mod pushed;
mod queries;
mod separate;
mod situations;
mod union;
mod window;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mizzle::sink::{Sink, SinkError};
use mizzle::{Engine, Event, Histogram, Query, QueryHandle, Status};
use serde::Serialize;

pub use queries::{average, word as average_word};
pub use window::{SIZE_MICROS as WINDOW_MICROS, word as window_word};

use crate::data::{Data, in_order};
use crate::measure::Took;
use crate::nexmark::Entry;

/// What keys are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyKind {
    /// Numbers.
    U64,
    /// Names.
    String,
}

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Events of all sources together.
    pub events: usize,
    /// Distinct keys, if it was said how many.
    pub keys: Option<u64>,
    /// Queries, where there are many.
    pub queries: usize,
    /// What their keys are made of.
    pub key: KeyKind,
    /// Worker threads.
    pub workers: usize,
    /// Events per batch, at most.
    pub batch: usize,
    /// Whether the stateful operator is flagged in-order.
    pub in_order: bool,
    /// How late events may come, where the workload is about that.
    pub disorder: Duration,
    /// How many candidates are held, in percent of those that may be, where the workload is about that.
    pub occupancy: usize,
    /// Events per second, where they are sent at a rate.
    pub rate: u64,
    /// What the data is made from.
    pub seed: u64,
    /// Timed runs.
    pub repeat: usize,
    /// Whether the hand-written program runs in turn with Mizzle.
    pub versus_baseline: bool,
}

impl Setting {
    /// How many keys the events of a few queries have.
    pub fn keys(&self) -> u64 {
        self.keys.unwrap_or(1_000)
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What the results come to.
    pub checksum: u64,
    /// Late events.
    pub late: u64,
    /// What it took, where it was measured without the preparations.
    pub took: Option<Took>,
    /// What one of many queries takes, and what adding them took.
    pub many: Option<Many>,
    /// How long events took, where that was measured.
    pub latency: Option<Latency>,
}

/// How long events took, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half of them at most.
    pub p50: f64,
    /// 99 of 100 at most.
    pub p99: f64,
    /// 999 of 1,000 at most.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    fn of(nanos: &Histogram<u64>) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: nanos.max() as f64 / 1e3 }
    }
}

/// What hosting many queries costs, apart from their events.
#[derive(Clone, Copy, Debug)]
pub struct Many {
    /// Bytes that one of them takes, where the program's allocator counts.
    pub bytes_per_query: f64,
    /// How many are added per CPU second.
    pub adds_per_cpu_s: f64,
    /// How many are removed per CPU second, where that was measured.
    pub removes_per_cpu_s: Option<f64>,
}

/// Data of one run, made before it is timed.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// A stream per source.
    pub streams: Vec<Data>,
    /// What happens in an auction house, where the workload is about that.
    pub entries: Arc<[Event<Entry>]>,
}

impl Prepared {
    /// One stream of so many events, in order.
    fn in_order(setting: &Setting, events: usize) -> Self {
        let streams = vec![in_order(events, setting.keys(), setting.seed)];
        Self { streams, ..Self::default() }
    }

    /// Events of all streams together.
    pub fn events(&self) -> usize {
        self.entries.len() + self.streams.iter().map(|stream| stream.len()).sum::<usize>()
    }
}

impl Outcome {
    /// What a hand-written program came to.
    fn by_hand(checksum: u64) -> Self {
        Self { checksum, late: 0, took: None, many: None, latency: None }
    }
}

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether results unflagged are those of some order only, so that no two runs need agree.
    pub order_shows: bool,
    /// Makes its data.
    pub prepare: fn(&Setting) -> Prepared,
    /// Runs it on Mizzle.
    pub mizzle: fn(&Prepared, &Setting, &Engine) -> Outcome,
    /// Runs the hand-written program, where there is one.
    pub baseline: Option<fn(&Prepared, &Setting) -> Outcome>,
    /// Runs another hand-written program.
    pub second_baseline: Option<fn(&Prepared, &Setting) -> Outcome>,
}

impl Workload {
    /// The workload of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[
    chain::CHAIN,
    window::WINDOW,
    window::WINDOW_DISORDER,
    union::UNION,
    diamond::DIAMOND,
    join::JOIN,
    pattern::PATTERN,
    situations::SITUATIONS,
    situations::BY_TRIGGER,
    situations::BY_TRACK_DATA,
    pushed::PUSHED,
    heavy::HEAVY,
    latency::LATENCY,
    queries::QUERIES,
    queries::MEMBERS,
    queries::GROUP_WINDOW,
    separate::SEPARATE,
    contexts::IDLE,
    contexts::PING_PONG,
    contexts::ROUTE,
    nexmark::Q0,
    nexmark::Q1,
    nexmark::Q2,
    nexmark::Q3,
    nexmark::Q4,
    nexmark::Q5,
    nexmark::Q6,
    nexmark::Q7,
    nexmark::Q8,
    nexmark::Q11,
    nexmark::Q12,
    nexmark::Q15,
    nexmark::Q17,
    nexmark::Q19,
];

/// Mixes a word into a checksum that depends on order.
#[inline]
pub fn mix(checksum: u64, word: u64) -> u64 {
    (checksum.rotate_left(5) ^ word).wrapping_add(word)
}

/// What a word adds to a checksum that is the same for any order of words.
#[inline]
fn scatter(word: u64) -> u64 {
    word.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A sink that folds events into a checksum and leaves it behind when the stream ends.
struct Checksum<F> {
    sum: u64,
    fold: F,
    result: Arc<Mutex<Option<u64>>>,
}

impl<T, F: Fn(u64, &Event<T>) -> u64 + Send + 'static> Sink<T> for Checksum<F> {
    #[inline]
    fn event(&mut self, event: Event<T>) {
        self.sum = (self.fold)(self.sum, &event);
    }

    fn end(&mut self) -> Result<(), SinkError> {
        *self.result.lock().map_err(|_| SinkError::new("poisoned"))? = Some(self.sum);
        Ok(())
    }
}

/// Where a checksum is found after the run.
struct Left(Arc<Mutex<Option<u64>>>);

fn checksum<F>(fold: F) -> (Checksum<F>, Left) {
    let result = Arc::new(Mutex::new(None));
    (Checksum { sum: 0, fold, result: result.clone() }, Left(result))
}

/// Submits `query`, waits for it, and reads what its sink left.
fn run(engine: &Engine, query: Query, result: &Left) -> Outcome {
    let handle =
        engine.submit(query).unwrap_or_else(|error| panic!("the workload is wrong: {error}"));
    let status = handle.wait();
    assert_eq!(status, Status::Completed);
    let checksum = result.0.lock().expect("no sink panicked").expect("the sink has ended");
    Outcome { late: late(&handle), ..Outcome::by_hand(checksum) }
}

fn late(handle: &QueryHandle) -> u64 {
    handle.chains().iter().map(|chain| chain.stats.late).sum()
}
