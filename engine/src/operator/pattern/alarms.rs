//! When keys are to be woken.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::operator::earlier;
use crate::time::Timestamp;

/// Below this many alarms it is not worth looking for stale ones.
const FEW: usize = 1024;

/// Alarms, by due time and their key's arrival.
///
/// A time limit makes alarms that are due in the order in which they are set: those lie in a queue, and
/// cost no search. An alarm that is no longer meant stays until it is due, or until half of all are like it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Alarms {
    in_order: VecDeque<Alarm>,
    rest: BinaryHeap<Reverse<Alarm>>,
    /// About how many are no longer meant.
    stale: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Alarm {
    pub due: Timestamp,
    /// The order of arrival of its key.
    pub arrival: u64,
    /// Where its key is.
    pub place: u32,
}

impl Alarms {
    pub fn len(&self) -> usize {
        self.in_order.len() + self.rest.len()
    }

    #[inline]
    pub fn set(&mut self, alarm: Alarm) {
        if self.in_order.back().is_none_or(|last| *last <= alarm) {
            self.in_order.push_back(alarm);
        } else {
            self.rest.push(Reverse(alarm));
        }
    }

    /// When the first alarm is due.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        let rest = self.rest.peek().map(|Reverse(alarm)| alarm.due);
        earlier(self.in_order.front().map(|alarm| alarm.due), rest)
    }

    /// Takes out the first alarm, if it `is_due`.
    pub fn pop_if(&mut self, is_due: impl Fn(Timestamp) -> bool) -> Option<Alarm> {
        let first = self.in_order.front();
        match self.rest.peek() {
            Some(Reverse(rest)) if first.is_none_or(|first| rest < first) => {
                is_due(rest.due).then(|| self.rest.pop().map(|Reverse(alarm)| alarm))?
            }
            _ if first.is_some_and(|first| is_due(first.due)) => self.in_order.pop_front(),
            _ => None,
        }
    }

    /// One that was set is no longer meant.
    #[inline]
    pub fn gave_up(&mut self) {
        self.stale += 1;
    }

    /// One that was no longer meant has rung.
    #[inline]
    pub fn rang_for_nothing(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }

    /// Whether many of them are no longer meant.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale > FEW.max(self.len() / 2)
    }

    /// Keeps those that are `meant`.
    pub fn retain(&mut self, mut meant: impl FnMut(&Alarm) -> bool) {
        self.in_order.retain(&mut meant);
        self.rest.retain(|Reverse(alarm)| meant(alarm));
        self.in_order.shrink_to(2 * self.in_order.len());
        self.stale = 0;
    }

    /// The keys have moved: `moved` says where each is now. All alarms must be of keys that are there.
    pub fn relocate(&mut self, moved: &[u32]) {
        let to = |place: &mut u32| *place = moved[*place as usize];
        self.in_order.iter_mut().for_each(|alarm| to(&mut alarm.place));
        let mut rest = std::mem::take(&mut self.rest).into_vec();
        rest.iter_mut().for_each(|Reverse(alarm)| to(&mut alarm.place));
        self.rest = rest.into();
    }
}
