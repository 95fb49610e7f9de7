//! Which members an event is for.

use std::hash::Hash;
use std::marker::PhantomData;

use hashbrown::HashTable;

use super::pages::Places;
use super::BUCKETS;
use crate::state::hash;

/// How events find the members that they are for.
pub trait Select: Send + Sync + 'static {
    /// What is selected.
    type Event: Clone + Send + 'static;
    /// What a member says that it wants.
    type On: Clone + Send + 'static;
    /// What finds the members of a lane.
    type Index: Default + Send + 'static;

    /// Whether members that one event is for may live in different lanes, so that every lane must see
    /// every event. Else an event goes to the lane of its [`route`](Select::route).
    const SPREADS: bool;

    /// The hash by which an event finds its lane; what it means where selection spreads is nothing.
    fn route(&self, event: &Self::Event) -> u64;

    /// The bucket of a member that selects `on`; `None`: any.
    fn bucket(on: &Self::On) -> Option<u32>;

    /// Refuses what could never select anything, and says why.
    ///
    /// # Errors
    /// The reason.
    fn check(_on: &Self::On) -> Result<(), String> {
        Ok(())
    }

    /// Adds the member at `place`.
    fn insert(index: &mut Self::Index, place: u32, places: &mut impl Places<Self::On>);

    /// Takes the member at `place` out.
    fn remove(index: &mut Self::Index, place: u32, places: &mut impl Places<Self::On>);

    /// Hands `hit` the places of all members that `event` is for, in the order of their addition.
    fn matches(
        &self,
        index: &Self::Index,
        event: &Self::Event,
        places: &impl Places<Self::On>,
        hit: impl FnMut(u32),
    );
}

/// The bucket of a hash: the same bits in the same way as a router picks a shard, so that the lane of
/// a bucket is the lane of its events.
pub(super) fn bucket_of(hash: u64) -> u32 {
    ((u64::from((hash >> 24) as u32) * u64::from(BUCKETS)) >> 32) as u32
}

/// Members on a key: an event is for those of its own key.
pub struct ByKey<T, K, F> {
    key: F,
    types: PhantomData<fn(T) -> K>,
}

impl<T, K, F: Fn(&T) -> K> ByKey<T, K, F> {
    /// By the key that `key` finds in an event.
    pub fn new(key: F) -> Self {
        Self { key, types: PhantomData }
    }
}

impl<T, K, F> Select for ByKey<T, K, F>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    type Event = T;
    type On = K;
    /// Of each key the member added last: the ring's tail.
    type Index = HashTable<u32>;

    const SPREADS: bool = false;

    #[inline]
    fn route(&self, event: &T) -> u64 {
        hash(&(self.key)(event))
    }

    fn bucket(on: &K) -> Option<u32> {
        Some(bucket_of(hash(on)))
    }

    fn insert(index: &mut HashTable<u32>, place: u32, places: &mut impl Places<K>) {
        let hashed = hash(places.on(place));
        let same = |&tail: &u32| places.on(tail) == places.on(place);
        if let Some(tail) = index.find_mut(hashed, same) {
            let before = std::mem::replace(tail, place);
            places.link(place, before);
        } else {
            index.insert_unique(hashed, place, |&place| hash(places.on(place)));
        }
    }

    fn remove(index: &mut HashTable<u32>, place: u32, places: &mut impl Places<K>) {
        let hashed = hash(places.on(place));
        let same = |&tail: &u32| places.on(tail) == places.on(place);
        let Ok(mut entry) = index.find_entry(hashed, same) else { return };
        match places.unlink(place) {
            Some(before) if *entry.get() == place => *entry.get_mut() = before,
            Some(_) => {}
            None => {
                entry.remove();
                if index.capacity() > 8 * index.len().max(8) {
                    index.shrink_to(2 * index.len(), |&place| hash(places.on(place)));
                }
            }
        }
    }

    #[inline]
    fn matches(
        &self,
        index: &HashTable<u32>,
        event: &T,
        places: &impl Places<K>,
        mut hit: impl FnMut(u32),
    ) {
        let key = (self.key)(event);
        let Some(&tail) = index.find(hash(&key), |&tail| *places.on(tail) == key) else { return };
        let mut place = tail;
        loop {
            place = places.behind(place);
            hit(place);
            if place == tail {
                return;
            }
        }
    }
}
