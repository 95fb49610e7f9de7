//! What an open lifespan remembers.

use serde::{Deserialize, Serialize};

use super::rule::How;
use super::store::NIL;
use crate::time::Timestamp;

/// An open lifespan, with what each situation of its type has come to in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Life {
    /// When it opened; the beginning of time: at start-up.
    pub since: Timestamp,
    /// When it ends; the end of time: not by time.
    pub ends: Timestamp,
    /// Whether what ends then is given up.
    pub discards: bool,
    /// The event that opened it.
    pub opener: u32,
    pub rings: Box<[Ring]>,
    pub tallies: Box<[Tally]>,
}

/// The candidates of an operand, oldest first, as places in the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ring {
    items: Vec<u32>,
    /// How many at the front are gone.
    gone: u32,
    /// Whether there has been one: with absolute first there is no second.
    pub seen: bool,
}

/// What a situation has counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tally {
    /// What the weights come to.
    pub sum: i128,
    /// How many operands.
    pub count: u64,
    /// How many of them satisfy the condition of a percentage.
    pub hits: u64,
    /// The sum, the least, the greatest or the latest of their values.
    pub value: f64,
    /// The latest of them, if it is kept.
    pub latest: u32,
    /// Nothing more comes of it; of `crosses`: it is at or above the bound.
    pub done: bool,
    /// When it is due next.
    pub next: Timestamp,
}

impl Ring {
    #[inline]
    pub fn len(&self) -> usize {
        self.items.len() - self.gone as usize
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[u32] {
        &self.items[self.gone as usize..]
    }

    pub fn first(&self) -> Option<u32> {
        self.as_slice().first().copied()
    }

    #[inline]
    pub fn push(&mut self, at: u32) {
        // Only where that makes much room: else a long ring would be moved at every push.
        let makes_room = 2 * self.gone as usize >= self.items.len();
        if self.items.len() == self.items.capacity() && self.gone > 0 && makes_room {
            self.items.drain(..self.gone as usize);
            self.gone = 0;
        }
        self.items.push(at);
    }

    #[inline]
    pub fn pop_first(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.gone += 1;
        if self.gone as usize == self.items.len() {
            self.items.clear();
            self.gone = 0;
        }
        Some(first)
    }

    /// Takes out the one at place `at` of the store, if it is here.
    #[inline]
    pub fn remove(&mut self, at: u32) -> bool {
        let place = self.as_slice().iter().position(|&other| other == at);
        place.is_some_and(|place| self.take(place) == at)
    }

    /// Takes out that which is behind `place` others.
    #[inline]
    pub fn take(&mut self, place: usize) -> u32 {
        let at = self.as_slice()[place];
        if place == 0 {
            self.pop_first();
        } else if place < self.len() / 2 {
            let gone = self.gone as usize;
            self.items.copy_within(gone..gone + place, gone + 1);
            self.gone += 1;
        } else {
            self.items.remove(self.gone as usize + place);
        }
        at
    }

    /// Keeps those for which `stays` holds.
    pub fn retain(&mut self, mut stays: impl FnMut(u32) -> bool) {
        self.items.drain(..self.gone as usize);
        self.gone = 0;
        self.items.retain(|&at| stays(at));
    }

    /// Nothing is or was here.
    pub fn is_blank(&self) -> bool {
        self.len() == 0 && !self.seen
    }
}

impl Tally {
    /// Nothing has come.
    pub fn new(how: Option<How>) -> Self {
        // Of the least and the greatest, what is ignored: there is none yet.
        let value = if matches!(how, Some(How::Min | How::Max)) { f64::NAN } else { 0.0 };
        let (latest, next) = (NIL, Timestamp::MAX);
        Self { sum: 0, count: 0, hits: 0, value, latest, done: false, next }
    }

    /// Takes in a value. What the aggregate is now.
    pub fn add(&mut self, how: How, value: f64) -> f64 {
        self.count += 1;
        match how {
            How::Count => self.value += 1.0,
            How::Min => self.value = self.value.min(value),
            How::Max => self.value = self.value.max(value),
            How::Sum | How::Average => self.value += value,
            How::Latest => self.value = value,
        }
        self.read(how)
    }

    /// What the aggregate is.
    pub fn read(&self, how: How) -> f64 {
        if how == How::Average { self.value / self.count as f64 } else { self.value }
    }

    /// Nothing is or was counted.
    pub fn is_blank(&self) -> bool {
        self.count == 0 && self.sum == 0 && self.latest == NIL && !self.done
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ring_agrees_with_a_queue(steps in prop::collection::vec((0_u8..4, 0_usize..12), 0..200)) {
            let (mut ring, mut queue, mut next) = (Ring::default(), VecDeque::new(), 0);
            let mut most = 0;
            for (action, place) in steps {
                match action {
                    0 | 1 => {
                        ring.push(next);
                        queue.push_back(next);
                        next += 1;
                    }
                    2 => prop_assert_eq!(ring.pop_first(), queue.pop_front()),
                    _ => {
                        let at = queue.get(place).copied().unwrap_or(NIL);
                        prop_assert_eq!(ring.remove(at), queue.remove(place).is_some());
                    }
                }
                prop_assert!(ring.as_slice().iter().eq(&queue));
                most = queue.len().max(most);
                prop_assert!(ring.items.capacity() <= 4 * most.max(2), "room for what was never there");
            }
            ring.retain(|at| at % 2 == 0);
            queue.retain(|at| at % 2 == 0);
            prop_assert!(ring.as_slice().iter().eq(&queue));
        }
    }

    #[test]
    fn aggregates_of_some_values() {
        let all = |how| {
            let mut tally = Tally::new(Some(how));
            [f64::NAN, 4.0, -1.0, 3.0].map(|value| tally.add(how, value))
        };
        assert_eq!(all(How::Count), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(all(How::Min)[1..], [4.0, -1.0, -1.0]);
        assert_eq!(all(How::Max)[1..], [4.0, 4.0, 4.0]);
        assert!(
            all(How::Min)[0].is_nan() && all(How::Sum)[3].is_nan() && all(How::Average)[3].is_nan()
        );
        assert_eq!(all(How::Latest)[1..], [4.0, -1.0, 3.0]);
        let mut tally = Tally::new(Some(How::Average));
        assert_eq!([1.0, 2.0, 6.0].map(|value| tally.add(How::Average, value)), [1.0, 1.5, 3.0]);
    }
}
