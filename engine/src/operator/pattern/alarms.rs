//! When keys are to be woken.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Below this many alarms it is not worth looking for stale ones.
const FEW: usize = 1024;

/// Alarms, by due time and their key's arrival.
///
/// A time limit makes alarms that are due in the order in which they are set: those lie in a queue, and
/// cost no search. An alarm that is no longer meant stays until it is due, or until half of all are like it.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de>"))]
pub(super) struct Alarms<K> {
    in_order: VecDeque<Alarm<K>>,
    rest: BTreeMap<(Timestamp, u64), K>,
    /// About how many are no longer meant.
    stale: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Alarm<K> {
    pub due: Timestamp,
    /// The order of arrival of its key.
    pub arrival: u64,
    pub key: K,
}

impl<K> Alarm<K> {
    fn at(&self) -> (Timestamp, u64) {
        (self.due, self.arrival)
    }
}

impl<K> Alarms<K> {
    pub fn new() -> Self {
        Self { in_order: VecDeque::new(), rest: BTreeMap::new(), stale: 0 }
    }

    pub fn len(&self) -> usize {
        self.in_order.len() + self.rest.len()
    }

    #[inline]
    pub fn set(&mut self, alarm: Alarm<K>) {
        if self.in_order.back().is_none_or(|last| last.at() <= alarm.at()) {
            self.in_order.push_back(alarm);
        } else {
            self.rest.insert(alarm.at(), alarm.key);
        }
    }

    /// When the first alarm is due.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        let rest = self.rest.first_key_value().map(|(&(due, _), _)| due);
        crate::operator::earlier(self.in_order.front().map(|alarm| alarm.due), rest)
    }

    /// Takes out the first alarm, if it `is_due`.
    pub fn pop_if(&mut self, is_due: impl Fn(Timestamp) -> bool) -> Option<Alarm<K>> {
        let first = self.in_order.front().map(Alarm::at);
        match self.rest.first_entry() {
            Some(rest) if first.is_none_or(|first| *rest.key() < first) => {
                let due = is_due(rest.key().0);
                due.then(|| rest.remove_entry()).map(|((due, arrival), key)| Alarm {
                    due,
                    arrival,
                    key,
                })
            }
            _ if first.is_some_and(|(due, _)| is_due(due)) => self.in_order.pop_front(),
            _ => None,
        }
    }

    /// One that was set is no longer meant. Now and then those that are not `meant` are dropped.
    #[inline]
    pub fn took_back(&mut self, meant: impl Fn(&Alarm<K>) -> bool)
    where
        K: Clone,
    {
        self.stale += 1;
        if self.stale > FEW.max(self.len() / 2) {
            self.in_order.retain(&meant);
            self.rest
                .retain(|&(due, arrival), key| meant(&Alarm { due, arrival, key: key.clone() }));
            self.stale = 0;
        }
    }

    /// One that was no longer meant has rung.
    #[inline]
    pub fn was_stale(&mut self) {
        self.stale = self.stale.saturating_sub(1);
    }
}
