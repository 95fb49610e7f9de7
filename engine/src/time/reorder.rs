//! Puts the events of one disordered source in order.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::buckets::Buckets;
use super::sort::Scratch;
use super::{Timestamp, is_due};
use crate::event::Event;

/// Holds events back until the watermark says that nothing earlier will come.
///
/// Events leave in order of time, those of one time in order of arrival.
///
/// Inside, the earliest events stand in the head, and are sorted when some of them are about to
/// leave. While there is little disorder all events are there. Once that means to sort the same
/// events again and again, the later ones go into buckets of time, and a bucket is sorted when it
/// becomes the head. Every time belongs to exactly one place, so the order of arrival is never lost.
///
/// ```
/// use mizzle_engine::{Event, time::{Reorder, Timestamp}};
/// let mut reorder = Reorder::new();
/// for t in [20, 15, 22, 14] {
///     reorder.push(Event::new(Timestamp::from_secs(t), ()));
/// }
/// let mut seen = Vec::new();
/// reorder.release(Timestamp::from_secs(15), &mut |event: Event<()>| seen.push(event.time));
/// assert_eq!(seen, [14, 15].map(Timestamp::from_secs));
/// ```
pub struct Reorder<T> {
    /// Every event held that is not later than `head_through`: first those in order.
    head: VecDeque<Event<T>>,
    /// How many at the end of the head came out of order, with all that came since.
    unsorted: usize,
    /// The earliest of these.
    earliest_unsorted: Timestamp,
    /// [`Timestamp::MAX`] while there are no buckets.
    head_through: Timestamp,
    /// The later events.
    buckets: Buckets<T>,
    /// What sorting the head has cost beyond what the events released meanwhile are worth.
    debt: usize,
    scratch: Scratch,
}

/// So many events are put in their places one by one.
const FEW: usize = 16;
/// So many events out of order, or so much debt, is too much.
const MANY: usize = 4_096;
/// A head with fewer events than this is never spread over buckets.
const SMALL_HEAD: usize = 256;
/// A head that had room for more gives it back when nothing is held.
const KEPT_CAPACITY: usize = 8_192;

impl<T> Default for Reorder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Reorder<T> {
    /// Holds nothing, and allocates nothing until it does.
    pub fn new() -> Self {
        Self {
            head: VecDeque::new(),
            unsorted: 0,
            earliest_unsorted: Timestamp::MAX,
            head_through: Timestamp::MAX,
            buckets: Buckets::new(),
            debt: 0,
            scratch: Scratch::default(),
        }
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.head.len() + self.buckets.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A time before which no watermark releases anything: that of the earliest event held, or a
    /// little less where they are many; after a release up to that time, exactly that. `None` if it
    /// holds none.
    pub fn earliest(&self) -> Option<Timestamp> {
        match self.head.front() {
            _ if self.is_empty() => None,
            Some(first) => Some(first.time.min(self.earliest_unsorted)),
            None => self.buckets.earliest().max(Some(self.head_through)),
        }
    }

    /// The events it holds; those of one time in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Event<T>> {
        self.head.iter().chain(self.buckets.iter())
    }

    /// The values of the events it holds, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.head.iter_mut().chain(self.buckets.iter_mut()).map(|event| &mut event.value)
    }

    /// Holds `event` until it is released.
    #[inline]
    pub fn push(&mut self, event: Event<T>) {
        if event.time > self.head_through {
            self.buckets.push(event);
            return;
        }
        if self.unsorted > 0 || self.head.back().is_some_and(|last| event.time < last.time) {
            self.unsorted += 1;
            self.earliest_unsorted = self.earliest_unsorted.min(event.time);
        }
        self.head.push_back(event);
        if self.unsorted >= MANY {
            self.sort_head();
            self.spread_if_in_debt();
        }
    }

    /// Hands out every event that is not later than `watermark`. An event at the watermark may go:
    /// one that comes later at the same time belongs behind it. Should `f` panic, only the event it
    /// was given is gone.
    pub fn release(&mut self, watermark: Timestamp, f: &mut impl FnMut(Event<T>)) {
        loop {
            if self.unsorted > 0 && is_due(self.earliest_unsorted, watermark) {
                self.sort_head();
            }
            self.release_sorted(watermark, f);
            if !self.head.is_empty() || !self.next_head(watermark) {
                break;
            }
        }
        self.spread_if_in_debt();
    }

    #[inline]
    fn release_sorted(&mut self, watermark: Timestamp, f: &mut impl FnMut(Event<T>)) {
        let sorted = self.head.len() - self.unsorted;
        let Some(last) = sorted.checked_sub(1) else { return };
        let due = if is_due(self.head[last].time, watermark) {
            sorted
        } else {
            // Nothing that is out of order is due, so the search finds the end among the others.
            self.count_due(watermark)
        };
        self.debt = self.debt.saturating_sub(4 * due);
        for _ in 0..due {
            if let Some(event) = self.head.pop_front() {
                f(event);
            }
        }
    }

    /// How many at the beginning of the head are due. They are few, if it is asked often.
    #[inline]
    fn count_due(&self, watermark: Timestamp) -> usize {
        let is_due = |event: &Event<T>| is_due(event.time, watermark);
        if self.head.get(FEW).is_some_and(is_due) {
            self.head.partition_point(is_due)
        } else {
            self.head.iter().take_while(|event| is_due(event)).count()
        }
    }

    /// Makes the earliest bucket the head, if any of it can be due.
    fn next_head(&mut self, watermark: Timestamp) -> bool {
        if self.buckets.is_empty() {
            self.head_through = Timestamp::MAX;
            self.debt = 0;
            if self.head.capacity() > KEPT_CAPACITY {
                *self = Self::new();
            }
            return false;
        }
        let Some((mut bucket, last)) = self.buckets.pop_due(watermark) else { return false };
        self.scratch.sort(&mut bucket);
        self.buckets.recycle(std::mem::replace(&mut self.head, bucket.into()).into());
        self.head_through = last;
        true
    }

    /// Brings the whole head in order.
    fn sort_head(&mut self) {
        if self.head.capacity() < 2 * self.head.len() {
            // With room to spare the ring is seldom in two parts, which must be moved together.
            self.head.reserve(self.head.len());
        }
        let head = self.head.make_contiguous();
        let sorted = head.len() - self.unsorted;
        let from = head[..sorted].partition_point(|event| event.time <= self.earliest_unsorted);
        if self.unsorted <= FEW {
            for i in sorted..head.len() {
                let time = head[i].time;
                let place = from + head[from..i].partition_point(|event| event.time <= time);
                head[place..=i].rotate_right(1);
                self.debt += (i - place) / 8;
            }
        } else {
            self.scratch.sort(&mut head[from..]);
            self.debt += head.len() - from;
        }
        self.unsorted = 0;
        self.earliest_unsorted = Timestamp::MAX;
    }

    /// Leaves the first events in the head and puts the others into buckets, if keeping the head
    /// in order has become dear.
    fn spread_if_in_debt(&mut self) {
        if self.debt < MANY || self.head.len() < SMALL_HEAD {
            return;
        }
        if self.unsorted > 0 {
            self.sort_head();
        }
        self.debt = 0;
        let mut times = Vec::new();
        for event in &self.head {
            times.push(event.time);
        }
        self.buckets.choose_width(&times, self.len());
        self.head_through = times[Buckets::<T>::size_for(self.len()).min(times.len()) / 2];
        let keep = times.partition_point(|time| *time <= self.head_through);
        for event in self.head.split_off(keep) {
            self.buckets.push(event);
        }
        self.head.shrink_to(KEPT_CAPACITY);
        if self.buckets.is_empty() {
            self.head_through = Timestamp::MAX;
        }
    }
}

impl<T> FromIterator<Event<T>> for Reorder<T> {
    fn from_iter<I: IntoIterator<Item = Event<T>>>(events: I) -> Self {
        let mut reorder = Self::new();
        events.into_iter().for_each(|event| reorder.push(event));
        reorder
    }
}

impl<T: fmt::Debug> fmt::Debug for Reorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The events it holds, as a sequence.
impl<T: Serialize> Serialize for Reorder<T> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        // Their number first: some encodings want to know it.
        serializer.collect_seq(self.iter().collect::<Vec<_>>())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reorder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Event<T>>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// A reorder stage next to a plain list that is sorted when asked.
    #[derive(Default)]
    struct Checked {
        reorder: Reorder<usize>,
        list: Vec<Event<usize>>,
        pushed: usize,
    }

    impl Checked {
        fn push(&mut self, time: i64) {
            let event = Event::new(at(time), self.pushed);
            self.pushed += 1;
            self.reorder.push(event);
            self.list.push(event);
        }

        fn release(&mut self, watermark: Timestamp) {
            let mut seen = Vec::new();
            self.reorder.release(watermark, &mut |event| seen.push(event));
            let (mut expected, held): (Vec<_>, Vec<_>) =
                self.list.drain(..).partition(|event| event.time <= watermark);
            expected.sort_by_key(|event| event.time);
            assert_eq!(seen, expected);
            assert_eq!(self.reorder.len(), held.len());
            let earliest = held.iter().map(|event| event.time).min();
            assert!(self.reorder.earliest() <= earliest);
            self.list = held;
            if let Some(time) = self.reorder.earliest().filter(|&time| Some(time) < earliest) {
                self.release(time);
                assert_eq!(self.reorder.earliest(), earliest);
            }
        }

        /// Goes on with what a copy through its encoded form gives.
        fn save_and_restore(&mut self) {
            let bytes = postcard::to_stdvec(&self.reorder).unwrap();
            self.reorder = postcard::from_bytes(&bytes).unwrap();
        }
    }

    /// Numbers that look random, always the same ones.
    fn noise(below: u64) -> impl FnMut() -> i64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below) as i64
        }
    }

    #[test]
    fn un_02_disorder_within_the_slack_is_mended() {
        let mut reorder = Reorder::new();
        let mut seen = Vec::new();
        let mut newest = i64::MIN;
        for t in [20, 15, 22, 14, 40] {
            reorder.push(Event::new(at(t), ()));
            newest = newest.max(t);
            reorder.release(at(newest - 10), &mut |event| seen.push(event.time.as_micros()));
        }
        reorder.release(Timestamp::MAX, &mut |event| seen.push(event.time.as_micros()));
        assert_eq!(seen, [14, 15, 20, 22, 40]);
    }

    #[test]
    fn events_at_the_watermark_leave_and_later_ones_follow_them() {
        let mut checked = Checked::default();
        [5, 3, 5].into_iter().for_each(|t| checked.push(t));
        checked.release(at(5));
        checked.push(5);
        checked.release(at(5));
        assert!(checked.reorder.is_empty());
    }

    #[test]
    fn much_disorder_released_in_steps() {
        let (mut checked, mut delay) = (Checked::default(), noise(5_000));
        for now in 0..20_000 {
            checked.push(now - delay());
            if now % 700 == 0 {
                checked.release(at(now - 5_000));
            }
            if now == 9_000 {
                checked.save_and_restore();
            }
        }
        assert!(checked.reorder.buckets.count() > 4, "the case must reach the buckets");
        checked.release(Timestamp::MAX);
    }

    #[test]
    fn one_event_at_a_time() {
        let (mut checked, mut delay) = (Checked::default(), noise(3_000));
        for now in 0..6_000 {
            checked.push(now - delay());
            checked.release(at(now - 3_000));
        }
    }

    #[test]
    fn ties_in_buckets_keep_their_order() {
        let (mut checked, mut time) = (Checked::default(), noise(7));
        (0..30_000).for_each(|_| checked.push(time() * 1_000_000));
        checked.save_and_restore();
        (0..7).for_each(|s| checked.release(Timestamp::from_secs(s)));
        assert!(checked.reorder.is_empty());
    }

    #[test]
    fn density_changes_and_the_width_follows() {
        let (mut checked, mut noise) = (Checked::default(), noise(1 << 40));
        let mut start = 0;
        for span in [1 << 34, 4_000, 1 << 40, 2_000, 1 << 22] {
            (0..6_000).for_each(|_| checked.push(start + noise() % span));
            start += span;
            checked.release(at(start - span / 3));
            let buckets = checked.reorder.buckets.count();
            assert!(buckets < 2_000, "{buckets} buckets for {} events", checked.reorder.len());
        }
        checked.release(Timestamp::MAX);
    }

    #[test]
    fn decades_and_extremes_cost_nothing_extra() {
        let (mut checked, mut noise) = (Checked::default(), noise(10_000));
        for i in 0..5_000 {
            checked.push(noise());
            if i % 10 == 0 {
                checked.push(i * 1_000_000_000_000);
            }
        }
        [i64::MAX, i64::MIN, i64::MAX, i64::MIN, 0].into_iter().for_each(|t| checked.push(t));
        assert!(checked.reorder.buckets.count() < 1_000);
        checked.release(Timestamp::MIN);
        checked.release(at(5_000));
        checked.release(at(i64::MAX - 1));
        checked.release(Timestamp::MAX);
    }

    #[test]
    fn memory_is_given_back() {
        let mut checked = Checked::default();
        let mut time = noise(1 << 30);
        (0..50_000).for_each(|_| checked.push(time()));
        assert!(checked.reorder.buckets.count() > 4, "the case must reach the buckets");
        checked.release(Timestamp::MAX);
        assert!(checked.reorder.head.capacity() <= KEPT_CAPACITY);
        assert_eq!(checked.reorder.buckets.count(), 0);
    }

    #[test]
    fn a_panic_loses_only_its_event() {
        let (mut reorder, mut time) = (Reorder::new(), noise(5_000));
        (0..5_000).for_each(|i| reorder.push(Event::new(at(time()), i)));
        let mut left = 1_234;
        let run = std::panic::AssertUnwindSafe(|| {
            reorder.release(Timestamp::MAX, &mut |_| {
                left -= 1;
                assert!(left > 0);
            });
        });
        assert!(std::panic::catch_unwind(run).is_err());
        let mut rest = Vec::new();
        reorder.release(Timestamp::MAX, &mut |event| rest.push(event.time));
        assert_eq!(rest.len(), 5_000 - 1_234);
        assert!(rest.is_sorted());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sorted_by_time_and_arrival(
            parts in prop::collection::vec(
                (0u32..45, prop::collection::vec((any::<i64>(), 0u8..50), 0..900), any::<i64>()),
                1..6,
            ),
        ) {
            let mut checked = Checked::default();
            for (bits, events, base) in parts {
                let base = base >> 20;
                for (noise, release) in events {
                    let time = base + (noise & ((1 << bits) - 1));
                    checked.push(time);
                    if release == 0 {
                        checked.release(at(time));
                    }
                }
            }
            checked.release(Timestamp::MAX);
        }
    }
}
