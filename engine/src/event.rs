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

    /// Hands out each event with whether it is late, in order.
    #[inline]
    pub fn consume(self, mut f: impl FnMut(Event<T>, bool)) {
        if self.late.is_empty() {
            self.events.into_iter().for_each(|event| f(event, false));
        } else {
            let mut late = self.late.into_iter().peekable();
            for (position, event) in self.events.into_iter().enumerate() {
                let is_late = late.next_if_eq(&(position as u32)).is_some();
                f(event, is_late);
            }
        }
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
}
