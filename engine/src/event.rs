//! What travels the edges between operators.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A payload with the event time at which it happened.
///
/// ```
/// use mizzle_engine::{Event, time::Timestamp};
/// let event = Event::new(Timestamp::from_secs(1), "door opened");
/// assert_eq!(event.map(str::len).value, 11);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event<T> {
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub value: T,
}

impl<T> Event<T> {
    /// An event of `value` at `time`.
    pub const fn new(time: Timestamp, value: T) -> Self {
        Self { time, value }
    }

    /// The same time with another payload.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Event<U> {
        Event { time: self.time, value: f(self.value) }
    }
}

/// Events that travel together, in their order.
///
/// Whether an event is late was decided once, at its source; that travels beside the events, as the
/// ascending positions of the late ones, because nearly all batches have none.
#[derive(Debug)]
pub struct Batch<T> {
    events: Vec<Event<T>>,
    late: Vec<u32>,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { events: Vec::new(), late: Vec::new() }
    }
}

impl<T> Batch<T> {
    /// An empty batch with room for `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { events: Vec::with_capacity(capacity), late: Vec::new() }
    }

    /// Adds an event at the end.
    #[inline(always)]
    pub fn push(&mut self, event: Event<T>, late: bool) {
        if late {
            self.late.push(self.events.len() as u32);
        }
        self.events.push(event);
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether it uses at least half of the memory that it holds.
    pub fn is_full_enough(&self) -> bool {
        2 * self.len() >= self.events.capacity()
    }

    /// How many of its events are late.
    pub fn late_count(&self) -> usize {
        self.late.len()
    }

    /// The events, to give them other times; which are late stays as it is.
    pub fn events_mut(&mut self) -> &mut [Event<T>] {
        &mut self.events
    }

    /// Takes the events from position `from` on out, in order.
    pub fn split_off(&mut self, from: usize) -> Vec<Event<T>> {
        keep_below(&mut self.late, from);
        self.events.split_off(from)
    }

    /// None of its events is late any more: their times have changed.
    pub fn forgive(&mut self) {
        self.late.clear();
    }

    /// Where on-time events can be added to the end.
    pub fn on_time_end(&mut self) -> &mut Vec<Event<T>> {
        &mut self.events
    }

    /// The events, if none of them is late.
    pub fn on_time(self) -> Result<Vec<Event<T>>, Self> {
        if self.late.is_empty() { Ok(self.events) } else { Err(self) }
    }

    /// Adds the events of `other` at the end. An empty batch becomes the other, without moving events.
    pub fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            shift_into(&other.late, self.len(), &mut self.late);
            self.events.extend(other.events);
        }
    }

    /// Marks as late those events from position `from` on that `is_late` says are; how many were not
    /// so before.
    #[inline]
    pub fn mark_late(&mut self, from: usize, mut is_late: impl FnMut(Timestamp) -> bool) -> u64 {
        let mut found = Vec::new();
        for (position, event) in self.events.iter().enumerate().skip(from) {
            if is_late(event.time) {
                found.push(position as u32);
            }
        }
        merge_into(&mut self.late, found)
    }

    /// Hands out each event with whether it is late, in order. The room stays for the next events.
    #[inline]
    pub fn drain(&mut self, mut f: impl FnMut(Event<T>, bool)) {
        if self.late.is_empty() {
            for event in self.events.drain(..) {
                f(event, false);
            }
        } else {
            // Through a pointer: what is rare is not compiled in a second time.
            self.drain_with_late(&mut f);
        }
    }

    /// Its events, and the ascending positions of the late ones, which are none afterwards.
    pub fn parts(&mut self) -> (&mut Vec<Event<T>>, Vec<u32>) {
        (&mut self.events, std::mem::take(&mut self.late))
    }

    fn drain_with_late(&mut self, f: &mut dyn FnMut(Event<T>, bool)) {
        let late = std::mem::take(&mut self.late);
        let (mut position, mut next) = (0, 0);
        for event in self.events.drain(..) {
            let is_late = late.get(next) == Some(&position);
            next += usize::from(is_late);
            position += 1;
            f(event, is_late);
        }
    }

    /// The events, in order, each with whether it is late.
    pub fn iter(&self) -> impl Iterator<Item = (&Event<T>, bool)> {
        let mut late = self.late.iter().peekable();
        self.events.iter().enumerate().map(move |(position, event)| {
            (event, late.next_if(|&&next| next as usize == position).is_some())
        })
    }

    /// Adds copies of the events of `other` at the end.
    pub fn extend_from(&mut self, other: &Self)
    where
        T: Clone,
    {
        shift_into(&other.late, self.len(), &mut self.late);
        self.events.extend_from_slice(&other.events);
    }

    /// Removes all events. The room stays for the next ones.
    pub fn clear(&mut self) {
        self.events.clear();
        self.late.clear();
    }

    /// As [`drain`](Self::drain), for the last time.
    #[inline]
    pub fn consume(mut self, f: impl FnMut(Event<T>, bool)) {
        self.drain(f);
    }
}

impl<T: Clone> Clone for Batch<T> {
    fn clone(&self) -> Self {
        Self { events: self.events.clone(), late: self.late.clone() }
    }
}

impl<T> From<Vec<Event<T>>> for Batch<T> {
    fn from(events: Vec<Event<T>>) -> Self {
        Self { events, late: Vec::new() }
    }
}

// What follows knows only positions: it is compiled once, and not for each type of payload.

/// Adds `positions`, each `by` further on, to `into`.
fn shift_into(positions: &[u32], by: usize, into: &mut Vec<u32>) {
    into.extend(positions.iter().map(|position| by as u32 + position));
}

/// Keeps those ascending positions that are below `from`.
fn keep_below(positions: &mut Vec<u32>, from: usize) {
    positions.truncate(positions.partition_point(|&position| (position as usize) < from));
}

/// Adds ascending positions to others; how many were not among them.
fn merge_into(positions: &mut Vec<u32>, found: Vec<u32>) -> u64 {
    if found.is_empty() {
        return 0;
    }
    let before = positions.len();
    positions.extend(found);
    positions.sort_unstable();
    positions.dedup();
    (positions.len() - before) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_stays_with_its_event() {
        let mut batch = Batch::default();
        for (value, late) in [(0, false), (1, true), (2, false), (3, true)] {
            batch.push(Event::new(Timestamp::from_micros(value), value), late);
        }
        let mut seen = Vec::new();
        batch.consume(|event, late| seen.push((event.value, late)));
        assert_eq!(seen, [(0, false), (1, true), (2, false), (3, true)]);
    }

    #[test]
    fn lateness_is_marked_once_and_survives_appending() {
        let batch = |times: &[(i64, bool)]| {
            let mut batch = Batch::default();
            for &(time, late) in times {
                batch.push(Event::new(Timestamp::from_micros(time), time), late);
            }
            batch
        };
        let mut all = batch(&[(5, false)]);
        all.extend_from(&batch(&[(1, true)]));
        let listed: Vec<_> = all.iter().map(|(event, late)| (event.value, late)).collect();
        assert_eq!(listed, [(5, false), (1, true)]);
        all.append(batch(&[(2, true), (7, false), (3, false)]));
        let below_4 = |time: Timestamp| time < Timestamp::from_micros(4);
        assert_eq!(all.mark_late(2, below_4), 1);
        let mut seen = Vec::new();
        all.drain(|event, late| seen.push((event.value, late)));
        assert_eq!(seen, [(5, false), (1, true), (2, true), (7, false), (3, true)]);
        assert!(all.is_empty() && all.late_count() == 0);
    }
}
