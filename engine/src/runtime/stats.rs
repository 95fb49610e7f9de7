//! What is counted about a chain: once per batch, always on.

use crate::operator::{Counters, Flow};
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::time::Timestamp;

use super::intake::{Progress, Pulled};

/// A chain's counters. All Relaxed: each is a sum of its own and orders nothing.
#[derive(Debug)]
pub(super) struct Counts {
    events_in: AtomicU64,
    events_out: AtomicU64,
    batches: AtomicU64,
    watermark: AtomicI64,
    latency_count: AtomicU64,
    latency_sum: AtomicU64,
    latency_max: AtomicU64,
    /// Made when one of them is more than 0: there may be a great many chains that never need them.
    rare: OnceLock<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    late: AtomicU64,
    late_unused: AtomicU64,
    late_by_idle: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    refused: AtomicU64,
    rejected: AtomicU64,
    lost: AtomicU64,
    held: AtomicUsize,
    held_max: AtomicUsize,
    /// The input that holds the watermark back, plus one; 0 for none.
    holding: AtomicUsize,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            events_in: AtomicU64::new(0),
            events_out: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            watermark: AtomicI64::new(Timestamp::MIN.as_micros()),
            latency_count: AtomicU64::new(0),
            latency_sum: AtomicU64::new(0),
            latency_max: AtomicU64::new(0),
            rare: OnceLock::new(),
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

impl Counts {
    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    fn add_rare(&self, counter: impl FnOnce(&Rare) -> &AtomicU64, by: u64) {
        if by > 0 {
            add(counter(self.rare()), by);
        }
    }

    /// What a look at the intake brought.
    pub(super) fn pulled(
        &self,
        pulled: &Pulled,
        progress: Progress,
        held: usize,
        holding: Option<usize>,
    ) {
        add(&self.events_in, pulled.taken);
        add(&self.batches, 1);
        self.add_rare(|rare| &rare.late, pulled.late);
        self.add_rare(|rare| &rare.late_by_idle, pulled.late_by_idle);
        self.add_rare(|rare| &rare.refused, pulled.refused);
        self.add_rare(|rare| &rare.lost, pulled.lost);
        if held > 0 || holding.is_some() || self.rare.get().is_some() {
            let rare = self.rare();
            rare.held.store(held, Ordering::Relaxed);
            rare.held_max.fetch_max(held, Ordering::Relaxed);
            rare.holding.store(holding.map_or(0, |input| input + 1), Ordering::Relaxed);
        }
        let watermark = match progress.flow {
            Flow::Ended => Timestamp::MAX,
            _ => progress.watermark,
        };
        self.watermark.fetch_max(watermark.as_micros(), Ordering::Relaxed);
    }

    /// Records that the source could not read.
    pub(super) fn rejected(&self, records: u64) {
        self.add_rare(|rare| &rare.rejected, records);
    }

    /// What the operators counted.
    pub(super) fn operators(&self, counters: Counters) {
        add(&self.events_out, counters.out);
        self.add_rare(|rare| &rare.late_unused, counters.late);
        self.add_rare(|rare| &rare.dropped, counters.dropped);
        self.add_rare(|rare| &rare.failed, counters.failed);
        self.add_rare(|rare| &rare.given_up, counters.given_up);
    }

    /// `events` reached a sink, `nanos` after the oldest of their batch entered the engine.
    pub(super) fn latency(&self, events: u64, nanos: u64) {
        add(&self.latency_count, events);
        add(&self.latency_sum, events.saturating_mul(nanos));
        self.latency_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(super) fn read(&self, depth: usize) -> ChainStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let known = self.rare.get();
        let rare = |counter: fn(&Rare) -> &AtomicU64| known.map_or(0, |rare| read(counter(rare)));
        let size = |counter: fn(&Rare) -> &AtomicUsize| {
            known.map_or(0, |rare| counter(rare).load(Ordering::Relaxed))
        };
        ChainStats {
            events_in: read(&self.events_in),
            events_out: read(&self.events_out),
            batches: read(&self.batches),
            late: rare(|rare| &rare.late),
            late_unused: rare(|rare| &rare.late_unused),
            late_by_idle: rare(|rare| &rare.late_by_idle),
            dropped: rare(|rare| &rare.dropped),
            failed: rare(|rare| &rare.failed),
            given_up: rare(|rare| &rare.given_up),
            refused: rare(|rare| &rare.refused),
            rejected: rare(|rare| &rare.rejected),
            lost: rare(|rare| &rare.lost),
            inbox_depth: depth,
            held: size(|rare| &rare.held),
            held_max: size(|rare| &rare.held_max),
            watermark: Timestamp::from_micros(self.watermark.load(Ordering::Relaxed)),
            holding: size(|rare| &rare.holding).checked_sub(1),
            latency: LatencyStats {
                count: read(&self.latency_count),
                sum_nanos: read(&self.latency_sum),
                max_nanos: read(&self.latency_max),
            },
        }
    }
}

/// What a chain has counted since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainStats {
    /// Events taken from its source or inbox.
    pub events_in: u64,
    /// Events that left for other chains and sinks.
    pub events_out: u64,
    /// Batches run.
    pub batches: u64,
    /// Late events among those taken.
    pub late: u64,
    /// Late events that an operator did not take into account.
    pub late_unused: u64,
    /// Late events that are late only because an idle input came back.
    pub late_by_idle: u64,
    /// Events that went nowhere: a stream nobody uses, or a sink that drops.
    pub dropped: u64,
    /// Events whose result failed or whose panic was skipped.
    pub failed: u64,
    /// Partial matches of patterns that were dropped at a cap.
    pub given_up: u64,
    /// Events refused for a time stamp too far in the future.
    pub refused: u64,
    /// Records of the source that could not be read.
    pub rejected: u64,
    /// Events of a shared source that were lost by lagging behind.
    pub lost: u64,
    /// Events in the inbox.
    pub inbox_depth: usize,
    /// Events that a reorder stage or a merge holds.
    pub held: usize,
    /// The most that it has held between two batches.
    pub held_max: usize,
    /// The newest watermark.
    pub watermark: Timestamp,
    /// Which input holds the watermark back, where there are several.
    pub holding: Option<usize>,
    /// How long events took from their source to a sink of this chain.
    pub latency: LatencyStats,
}

/// Count, sum and maximum of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats {
    /// Events that reached a sink.
    pub count: u64,
    /// The sum of their latencies.
    pub sum_nanos: u64,
    /// The largest.
    pub max_nanos: u64,
}

impl LatencyStats {
    /// The mean latency, if any event reached a sink.
    pub fn mean_nanos(&self) -> Option<u64> {
        self.sum_nanos.checked_div(self.count)
    }
}
