//! The events of a key that something holds.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// No event.
pub(super) const NIL: u32 = u32::MAX;

/// Events by the numbers of their places, each with how often it is held.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Store<E> {
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    /// How many events have been processed.
    arrivals: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Slot<E> {
    held: u32,
    arrival: u64,
    time: Timestamp,
    value: Option<E>,
}

impl<E> Store<E> {
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), arrivals: 0 }
    }

    /// How many events are held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes in an event, which is held once. It has not [arrived](Self::arrive) yet.
    ///
    /// # Panics
    /// If this were the 2^32nd event that is held.
    #[inline]
    pub fn admit(&mut self, time: Timestamp, value: E) -> u32 {
        let slot = Slot { held: 1, arrival: 0, time, value: Some(value) };
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                assert!(self.slots.len() < NIL as usize, "a key holds 2^32 - 1 events");
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The event at a place.
    ///
    /// # Panics
    /// If none is there.
    #[inline(always)]
    pub fn at(&self, at: u32) -> &E {
        match &self.slots[at as usize].value {
            Some(value) => value,
            None => panic!("no event is held at place {at}"),
        }
    }

    pub fn time(&self, at: u32) -> Timestamp {
        self.slots[at as usize].time
    }

    /// The event at a place is processed: it comes after all that were before.
    #[inline]
    pub fn arrive(&mut self, at: u32) {
        self.arrivals += 1;
        self.slots[at as usize].arrival = self.arrivals;
    }

    /// The order of arrival of the event at a place.
    #[inline(always)]
    pub fn arrival(&self, at: u32) -> u64 {
        self.slots[at as usize].arrival
    }

    /// It is held once more.
    #[inline]
    pub fn hold(&mut self, at: u32) {
        self.slots[at as usize].held += 1;
    }

    /// It is held once less; if that was the last time it goes.
    #[inline]
    pub fn release(&mut self, at: u32) {
        drop(self.take(at));
    }

    /// As `release`: gives the event if it goes.
    #[inline]
    pub fn take(&mut self, at: u32) -> Option<E> {
        let slot = &mut self.slots[at as usize];
        slot.held -= 1;
        if slot.held > 0 {
            return None;
        }
        self.free.push(at);
        slot.value.take()
    }

    /// Gives room back, if much of it is not used any more.
    pub fn tidy(&mut self) {
        if self.slots.len() > 64 && self.slots.len() == self.free.len() {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_goes_when_nothing_holds_it_and_its_place_is_used_again() {
        let mut store = Store::new();
        let time = Timestamp::EPOCH;
        let a = store.admit(time, 'a');
        store.arrive(a);
        store.hold(a);
        assert_eq!(store.take(a), None);
        assert_eq!((*store.at(a), store.arrival(a), store.len()), ('a', 1, 1));
        assert_eq!(store.take(a), Some('a'));
        let b = store.admit(time, 'b');
        store.arrive(b);
        assert_eq!((b, *store.at(b), store.arrival(b), store.len()), (a, 'b', 2, 1));
    }

    #[test]
    fn many_places_that_are_empty_are_given_back() {
        let mut store = Store::new();
        let places: Vec<_> = (0..100).map(|n| store.admit(Timestamp::EPOCH, n)).collect();
        store.tidy();
        assert_eq!(store.slots.len(), 100);
        places.into_iter().for_each(|at| store.release(at));
        store.tidy();
        assert_eq!((store.slots.capacity(), store.len()), (0, 0));
    }
}
