//! When keys are to be woken, and keys that are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::operator::earlier;
use crate::state::Slots;
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
    pub fn retain(&mut self, meant: impl FnMut(&Alarm) -> bool) {
        let rest = std::mem::take(&mut self.rest).into_iter().map(|Reverse(alarm)| alarm);
        let mut all: Vec<_> =
            std::mem::take(&mut self.in_order).into_iter().chain(rest).filter(meant).collect();
        all.sort_unstable();
        // One that was set, given up for an earlier one, and set again is there more than once.
        all.dedup();
        all.shrink_to(2 * all.len());
        self.in_order = all.into();
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

/// A state per key, and alarms: a key's first alarm rings no later than something is due for it.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, S: Deserialize<'de>"
))]
pub(super) struct AlarmedKeys<K, S> {
    keys: Slots<K, Alarmed<S>>,
    alarms: Alarms,
    arrivals: u64,
}

/// What is held of a key.
#[derive(Serialize, Deserialize)]
struct Alarmed<S> {
    state: S,
    arrival: u64,
    /// When its alarm rings, if it has one that was set for what is due first.
    alarm: Option<Timestamp>,
}

impl<S> Alarmed<S> {
    fn is_rung_by(&self, alarm: &Alarm) -> bool {
        self.arrival == alarm.arrival && self.alarm.is_none_or(|set| set == alarm.due)
    }
}

impl<K, S> Default for AlarmedKeys<K, S> {
    fn default() -> Self {
        Self { keys: Slots::default(), alarms: Alarms::default(), arrivals: 0 }
    }
}

impl<K: Hash + Eq, S> AlarmedKeys<K, S> {
    /// How many keys something is remembered of.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many alarms are held, with those that are no longer meant.
    pub fn alarms(&self) -> usize {
        self.alarms.len()
    }

    /// When the first alarm rings.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        self.alarms.next()
    }

    /// Takes out the first alarm, if it `is_due`.
    pub fn pop_if(&mut self, is_due: impl Fn(Timestamp) -> bool) -> Option<Alarm> {
        self.alarms.pop_if(is_due)
    }

    /// Where `key` is, if it is there.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.keys.find(key)
    }

    /// Where a key with that hash is, if it is there.
    #[inline]
    pub fn find_hashed(&self, hash: u64, key: &K) -> Option<u32> {
        self.keys.find_hashed(hash, key)
    }

    /// The state at a place.
    ///
    /// # Panics
    /// If no key is there.
    #[inline(always)]
    pub fn at(&mut self, place: u32) -> &mut S {
        &mut self.keys.at(place).state
    }

    /// Puts a key with that hash, which is not there, at a place.
    pub fn insert(&mut self, hash: u64, key: K, state: S) -> u32 {
        self.arrivals += 1;
        self.keys.insert(hash, key, Alarmed { state, arrival: self.arrivals, alarm: None })
    }

    /// Sets the alarm of the key at `place`, if it has none that rings by `due`.
    #[inline]
    pub fn wake_by(&mut self, place: u32, due: Timestamp) {
        let held = self.keys.at(place);
        if held.alarm.is_some_and(|set| set <= due) {
            return;
        }
        let before = held.alarm.replace(due);
        self.alarms.set(Alarm { due, arrival: held.arrival, place });
        if before.is_some() {
            self.alarms.gave_up();
            if self.alarms.is_stale() {
                self.clear_away();
            }
        }
    }

    /// Drops the alarms that are no longer meant.
    fn clear_away(&mut self) {
        let keys = &mut self.keys;
        self.alarms
            .retain(|alarm| keys.get_mut(alarm.place).is_some_and(|held| held.is_rung_by(alarm)));
    }

    /// The state of the key that an alarm is meant for, which has none then; `None`: it is meant no longer.
    pub fn rung_by(&mut self, alarm: &Alarm) -> Option<&mut S> {
        let held = self.keys.get_mut(alarm.place).filter(|held| held.is_rung_by(alarm));
        match held {
            Some(held) => {
                held.alarm = None;
                Some(&mut held.state)
            }
            None => {
                self.alarms.rang_for_nothing();
                None
            }
        }
    }

    /// Sets one more alarm of the key at `place`, whatever others it has.
    #[inline]
    pub fn wake_also(&mut self, place: u32, due: Timestamp) {
        let arrival = self.keys.at(place).arrival;
        self.alarms.set(Alarm { due, arrival, place });
    }

    /// Takes everything out: the states in the order in which their keys came.
    pub fn take_all(&mut self) -> Vec<S> {
        let mut all: Vec<Alarmed<S>> = self.keys.take_all().collect();
        all.sort_by_key(|held| held.arrival);
        all.into_iter().map(|held| held.state).collect()
    }

    /// Forgets the key at `place`, which may have an alarm that was set [also](Self::wake_also). Now and then
    /// what is left of such keys is cleared away.
    pub fn forget(&mut self, place: u32, also: bool) {
        if also || self.keys.get_mut(place).is_some_and(|held| held.alarm.is_some()) {
            self.alarms.gave_up();
        }
        self.keys.remove(place);
        let sparse = self.keys.is_sparse();
        if sparse || self.alarms.is_stale() {
            self.clear_away();
        }
        if sparse {
            // Every alarm that is left is of a key that is there.
            self.alarms.relocate(&self.keys.close_up());
        }
    }

    /// Changes the state of every key, and sets its alarm for when it is `due` then.
    pub fn change_all(
        &mut self,
        mut change: impl FnMut(&mut S),
        due: impl Fn(&S) -> Option<Timestamp>,
    ) {
        for place in 0..self.keys.places() {
            let Some(held) = self.keys.get_mut(place) else { continue };
            change(&mut held.state);
            if let Some(due) = due(&held.state) {
                self.wake_by(place, due);
            }
        }
    }
}
