//! Events by spans of time, unsorted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Timestamp, is_due};
use crate::event::Event;

/// Events in buckets, each for a span of time, in order of arrival.
///
/// All spans have the same width, which follows from how dense the events are. A bucket without
/// events does not exist, so a gap costs nothing, however long.
pub(super) struct Buckets<T> {
    /// By time >> `shift`.
    buckets: HashMap<i64, Vec<Event<T>>, FixedState>,
    /// The numbers of the buckets, earliest first.
    order: BinaryHeap<Reverse<i64>>,
    shift: u32,
    /// A bucket as long as this is too long.
    long: usize,
    len: usize,
    /// Events that came since the width was last chosen.
    since_choice: usize,
    /// Emptied buckets, to be used again.
    spare: Vec<Vec<Event<T>>>,
}

/// How many events a bucket should hold, at least and at most.
const LEAST: usize = 64;
const MOST: usize = 1_024;
/// More buckets than this must hold some events each.
const MANY_BUCKETS: usize = 256;
/// Buckets of 2 to the power of this, in microseconds, make do for all of time.
const WIDEST: u32 = 62;
/// Emptied buckets kept.
const SPARES: usize = 64;

impl<T> Buckets<T> {
    pub(super) fn new() -> Self {
        Self {
            buckets: HashMap::with_hasher(FixedState::default()),
            order: BinaryHeap::new(),
            shift: 0,
            long: usize::MAX,
            len: 0,
            since_choice: 0,
            spare: Vec::new(),
        }
    }

    /// How many events they hold.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many buckets there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.buckets.len()
    }

    /// The events; those of one time in order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event<T>> {
        self.buckets.values().flatten()
    }

    /// As `iter`, to be changed; their times must stay.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Event<T>> {
        self.buckets.values_mut().flatten()
    }

    /// Takes an event into the bucket of its time.
    #[inline]
    pub(super) fn push(&mut self, event: Event<T>) {
        let number = event.time.as_micros() >> self.shift;
        self.len += 1;
        self.since_choice += 1;
        if let Some(bucket) = self.buckets.get_mut(&number) {
            bucket.push(event);
            if bucket.len() >= self.long {
                self.narrow(number);
            }
        } else {
            self.open(number, event);
        }
    }

    fn open(&mut self, number: i64, event: Event<T>) {
        let mut bucket = self.spare.pop().unwrap_or_default();
        bucket.push(event);
        self.buckets.insert(number, bucket);
        self.order.push(Reverse(number));
        if self.buckets.len() > MANY_BUCKETS {
            self.widen_if_sparse();
        }
    }

    /// Where the span of the earliest bucket begins.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        let &Reverse(number) = self.order.peek()?;
        Some(Timestamp::from_micros(number << self.shift))
    }

    /// Takes out the earliest bucket, if its span has begun at `watermark`, with the latest time
    /// that belongs to it.
    pub(super) fn pop_due(&mut self, watermark: Timestamp) -> Option<(Vec<Event<T>>, Timestamp)> {
        let &Reverse(number) = self.order.peek()?;
        if !is_due(Timestamp::from_micros(number << self.shift), watermark) {
            return None;
        }
        self.order.pop();
        let bucket = self.buckets.remove(&number)?;
        self.len -= bucket.len();
        let last = (number << self.shift) | ((1 << self.shift) - 1);
        Some((bucket, Timestamp::from_micros(last)))
    }

    /// Takes an emptied bucket back.
    pub(super) fn recycle(&mut self, bucket: Vec<Event<T>>) {
        if self.spare.len() < SPARES {
            self.spare.push(bucket);
        }
    }

    /// How many events a bucket should hold when there are `total`.
    pub(super) fn size_for(total: usize) -> usize {
        (total / 16).clamp(LEAST, MOST)
    }

    /// Takes the width that suits these sorted times, of `total` events: any if there are no
    /// buckets, else only a narrower one. Not before the events have been renewed to a good part,
    /// so that each is moved a few times at most.
    pub(super) fn choose_width(&mut self, times: &[Timestamp], total: usize) -> bool {
        let size = Self::size_for(total);
        let Some(shift) = fitting_shift(times, size) else { return false };
        if self.is_empty() {
            self.shift = shift;
        } else if shift < self.shift && self.since_choice >= self.len / 2 {
            self.rebuild(shift);
        } else {
            return false;
        }
        self.long = 4 * size;
        true
    }

    /// A bucket has become long.
    fn narrow(&mut self, number: i64) {
        let long = 4 * Self::size_for(self.len);
        if self.buckets[&number].len() < long {
            // Not for as many as there are by now.
            self.long = long;
            return;
        }
        let mut times = Vec::new();
        for event in &self.buckets[&number] {
            times.push(event.time);
        }
        sort(&mut times);
        if !self.choose_width(&times, self.len) {
            // Too many at one time, or too soon: look again when there are twice as many.
            self.long = 2 * times.len();
        }
    }

    fn widen_if_sparse(&mut self) {
        let sparse = self.len < 8 * self.buckets.len();
        if sparse && self.since_choice > self.len {
            let by = (LEAST * self.buckets.len() / self.len).ilog2();
            self.rebuild((self.shift + by).min(WIDEST));
            self.long = 4 * Self::size_for(self.len);
        }
    }

    /// Changes the width. Events of one time stay in one bucket, in their order.
    fn rebuild(&mut self, shift: u32) {
        self.shift = shift;
        self.len = 0;
        self.order.clear();
        // Nothing is too long or too sparse on the way.
        self.long = usize::MAX;
        self.since_choice = 0;
        for (_, mut bucket) in std::mem::take(&mut self.buckets) {
            for event in bucket.drain(..) {
                self.push(event);
            }
            self.recycle(bucket);
        }
        self.since_choice = 0;
    }
}

/// Compiled once, and not for each type of payload.
fn sort(times: &mut [Timestamp]) {
    times.sort_unstable();
}

/// The width, as a power of two, with which buckets of `size` are about full where the middle half
/// of these sorted times lies; a few that are far off do not matter. `None` if all are the same.
fn fitting_shift(times: &[Timestamp], size: usize) -> Option<u32> {
    let n = times.len();
    let span = |from: usize, to: usize| times[to].as_micros().abs_diff(times[from].as_micros());
    let (span, count) = match span(n / 4, n - 1 - n / 4) {
        0 => (span(0, n - 1), n),
        middle => (middle, n / 2),
    };
    let width = u128::from(span) * size as u128 / count.max(1) as u128;
    (span > 0).then(|| width.max(1).ilog2().min(WIDEST))
}
