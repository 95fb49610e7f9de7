//! One state per key, each at a place with a number.

use std::fmt;
use std::hash::Hash;

use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{empty, hash, shrink};

/// Below this many places giving room back is not worth it.
const SMALL: usize = 1_024;

/// A map from keys to states for keys that come and go all the time: a key keeps its place, which has
/// a number by which it is found without its key, and its place is given to another when it goes.
///
/// The order of arrival of the keys is not kept; where that is wanted, see
/// [`Keyed`](crate::state::Keyed).
pub(crate) struct Slots<K, S> {
    index: HashTable<u32>,
    slots: Vec<Option<Slot<K, S>>>,
    /// The places of keys that have gone.
    free: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct Slot<K, S> {
    hash: u64,
    key: K,
    state: S,
}

impl<K, S> Default for Slots<K, S> {
    fn default() -> Self {
        Self { index: HashTable::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K, S> Slots<K, S> {
    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// One more than the last place at which a key may be.
    pub(crate) fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The state at `place`.
    ///
    /// # Panics
    ///
    /// If no key is there.
    #[inline(always)]
    pub(crate) fn at(&mut self, place: u32) -> &mut S {
        match &mut self.slots[place as usize] {
            Some(slot) => &mut slot.state,
            None => panic!("no key is at place {place}"),
        }
    }

    /// The state at `place`, if a key is there.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut S> {
        self.slots.get_mut(place as usize)?.as_mut().map(|slot| &mut slot.state)
    }

    /// Takes everything out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = S> {
        std::mem::take(self).slots.into_iter().flatten().map(|slot| slot.state)
    }

    /// Takes out the key at `place`, with its state.
    #[inline]
    pub(crate) fn remove(&mut self, place: u32) {
        if let Some(slot) = self.slots[place as usize].take() {
            if let Ok(found) = self.index.find_entry(slot.hash, |&other| other == place) {
                found.remove();
            }
            self.free.push(place);
        }
    }

    /// Whether far more places are kept than there are keys.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.slots.len() > SMALL.max(8 * self.index.len())
    }

    /// Moves the keys together and gives room back. What is returned says where the key at each of the
    /// old places is now.
    pub(crate) fn close_up(&mut self) -> Vec<u32> {
        let mut next = 0;
        let moved = self.slots.iter().map(|slot| {
            let place = next;
            next += u32::from(slot.is_some());
            place
        });
        let moved = moved.collect();
        self.slots.retain(Option::is_some);
        shrink(&mut self.slots);
        self.free = Vec::new();
        self.index_all();
        moved
    }

    fn index_all(&mut self) {
        empty(&mut self.index);
        let slots = &self.slots;
        let rehash = |&place: &u32| slot_hash(slots, place);
        for (place, slot) in slots.iter().enumerate() {
            if let Some(slot) = slot {
                self.index.insert_unique(slot.hash, place as u32, rehash);
            }
        }
    }
}

impl<K: Hash + Eq, S> Slots<K, S> {
    /// Where `key` is, if it is there.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        self.find_hashed(hash(key), key)
    }

    /// Where `key` is; a key that is new has the state that `init` makes.
    ///
    /// # Panics
    ///
    /// If this were the 2^32nd key.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, key: K, init: impl FnOnce() -> S) -> u32 {
        let hash = hash(&key);
        match self.find_hashed(hash, &key) {
            Some(place) => place,
            None => self.insert(hash, key, init()),
        }
    }

    /// As [`find`](Self::find), for a key with that [`hash`](super::hash).
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, key: &K) -> Option<u32> {
        let is =
            |&place: &u32| matches!(&self.slots[place as usize], Some(slot) if slot.key == *key);
        self.index.find(hash, is).copied()
    }

    /// Puts a key with that hash, which is not there, at a place.
    ///
    /// # Panics
    ///
    /// If this were the 2^32nd key.
    pub(crate) fn insert(&mut self, hash: u64, key: K, state: S) -> u32 {
        let place = match self.free.last() {
            Some(&place) => place,
            None => u32::try_from(self.slots.len()).expect("fewer than 2^32 keys"),
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, place, |&place| slot_hash(slots, place));
        let slot = Some(Slot { hash, key, state });
        if self.free.pop().is_some() {
            self.slots[place as usize] = slot;
        } else {
            self.slots.push(slot);
        }
        place
    }
}

fn slot_hash<K, S>(slots: &[Option<Slot<K, S>>], place: u32) -> u64 {
    slots[place as usize].as_ref().map_or(0, |slot| slot.hash)
}

impl<K: fmt::Debug, S: fmt::Debug> fmt::Debug for Slots<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.slots.iter().flatten().map(|it| (&it.key, &it.state))).finish()
    }
}

/// The places in order, those without a key too: what knows a key by its place finds it again.
impl<K: Serialize, S: Serialize> Serialize for Slots<K, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.slots.serialize(serializer)
    }
}

impl<'de, K, S> Deserialize<'de> for Slots<K, S>
where
    K: Deserialize<'de> + Hash + Eq,
    S: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let slots = Vec::<Option<Slot<K, S>>>::deserialize(deserializer)?;
        let free = |(place, slot): (usize, &Option<_>)| slot.is_none().then_some(place as u32);
        let free = slots.iter().enumerate().filter_map(free).collect();
        let mut slots = Self { index: HashTable::new(), slots, free };
        slots.index_all();
        Ok(slots)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a standard map, with a copy through its encoded form after every few steps.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0_u8..5, 0_u8..20), 0..200)) {
            let (mut slots, mut map) = (Slots::<u8, u32>::default(), HashMap::new());
            for (step, (action, key)) in steps.into_iter().enumerate() {
                match action {
                    0..3 => {
                        let place = slots.find_or_insert(key, || 7);
                        *slots.at(place) += step as u32;
                        *map.entry(key).or_insert(7) += step as u32;
                    }
                    3 => {
                        let place = slots.find(&key);
                        prop_assert_eq!(place.is_some(), map.remove(&key).is_some());
                        place.into_iter().for_each(|place| slots.remove(place));
                    }
                    _ => {
                        let before: Vec<_> = map.keys().map(|key| slots.find(key)).collect();
                        let bytes = postcard::to_stdvec(&slots).unwrap();
                        slots = postcard::from_bytes(&bytes).unwrap();
                        let after: Vec<_> = map.keys().map(|key| slots.find(key)).collect();
                        prop_assert_eq!(before, after);
                    }
                }
                prop_assert_eq!(slots.len(), map.len());
                for (key, state) in &map {
                    let place = slots.find(key).unwrap();
                    prop_assert_eq!(slots.at(place), state);
                }
            }
        }
    }

    #[test]
    fn keys_that_go_leave_no_room_behind_and_those_that_stay_are_found() {
        let mut slots = Slots::default();
        let places: Vec<_> =
            (0..100_000_u32).map(|key| slots.find_or_insert(key, || key)).collect();
        let stays = |key: u32| key % 1_000 == 7;
        (0..100_000).filter(|&key| !stays(key)).for_each(|key| slots.remove(places[key as usize]));
        assert!(slots.is_sparse());
        let moved = slots.close_up();
        assert!(!slots.is_sparse());
        assert!(slots.slots.capacity() < 1_000 && slots.index.capacity() < 1_000);
        for key in (0..100_000).filter(|&key| stays(key)) {
            let place = moved[places[key as usize] as usize];
            assert_eq!((slots.find(&key), *slots.at(place)), (Some(place), key));
        }
    }

    #[test]
    fn a_place_is_used_again() {
        let mut slots = Slots::default();
        for key in 0..10_000_u32 {
            let place = slots.find_or_insert(key, || ());
            assert_eq!(place, 0);
            slots.remove(place);
        }
        assert_eq!(slots.len(), 0);
    }
}
