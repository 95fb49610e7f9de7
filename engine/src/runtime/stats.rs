//! What is counted about a chain: once per batch, always on.

use crate::operator::{Counters, Flow};
use crate::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::time::Timestamp;

use super::intake::{Progress, Pulled};

/// A chain's counters. All Relaxed: each is a sum of its own and orders nothing.
#[derive(Debug)]
pub(super) struct Counts {
    events_in: AtomicU64,
    events_out: AtomicU64,
    batches: AtomicU64,
    late: AtomicU64,
    late_unused: AtomicU64,
    late_by_idle: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    rejected: AtomicU64,
    lost: AtomicU64,
    held: AtomicUsize,
    held_max: AtomicUsize,
    watermark: AtomicI64,
    /// The input that holds the watermark back, plus one; 0 for none.
    holding: AtomicUsize,
    latency_count: AtomicU64,
    latency_sum: AtomicU64,
    latency_max: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            events_in: AtomicU64::new(0),
            events_out: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            late: AtomicU64::new(0),
            late_unused: AtomicU64::new(0),
            late_by_idle: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            held_max: AtomicUsize::new(0),
            watermark: AtomicI64::new(Timestamp::MIN.as_micros()),
            holding: AtomicUsize::new(0),
            latency_count: AtomicU64::new(0),
            latency_sum: AtomicU64::new(0),
            latency_max: AtomicU64::new(0),
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

impl Counts {
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
        add(&self.late, pulled.late);
        add(&self.late_by_idle, pulled.late_by_idle);
        add(&self.refused, pulled.refused);
        add(&self.lost, pulled.lost);
        self.held.store(held, Ordering::Relaxed);
        self.held_max.fetch_max(held, Ordering::Relaxed);
        let watermark = match progress.flow {
            Flow::Ended => Timestamp::MAX,
            _ => progress.watermark,
        };
        self.watermark.fetch_max(watermark.as_micros(), Ordering::Relaxed);
        self.holding.store(holding.map_or(0, |input| input + 1), Ordering::Relaxed);
    }

    /// Records that the source could not read.
    pub(super) fn rejected(&self, records: u64) {
        add(&self.rejected, records);
    }

    /// What the operators counted.
    pub(super) fn operators(&self, counters: Counters) {
        add(&self.events_out, counters.out);
        add(&self.late_unused, counters.late);
        add(&self.dropped, counters.dropped);
        add(&self.failed, counters.failed);
    }

    /// `events` reached a sink, `nanos` after the oldest of their batch entered the engine.
    pub(super) fn latency(&self, events: u64, nanos: u64) {
        add(&self.latency_count, events);
        add(&self.latency_sum, events.saturating_mul(nanos));
        self.latency_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(super) fn read(&self, depth: usize) -> ChainStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ChainStats {
            events_in: read(&self.events_in),
            events_out: read(&self.events_out),
            batches: read(&self.batches),
            late: read(&self.late),
            late_unused: read(&self.late_unused),
            late_by_idle: read(&self.late_by_idle),
            dropped: read(&self.dropped),
            failed: read(&self.failed),
            refused: read(&self.refused),
            rejected: read(&self.rejected),
            lost: read(&self.lost),
            inbox_depth: depth,
            held: self.held.load(Ordering::Relaxed),
            held_max: self.held_max.load(Ordering::Relaxed),
            watermark: Timestamp::from_micros(self.watermark.load(Ordering::Relaxed)),
            holding: self.holding.load(Ordering::Relaxed).checked_sub(1),
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
