//! Which members an event is for.

use std::hash::Hash;
use std::marker::PhantomData;

use hashbrown::HashTable;

use super::BUCKETS;
use super::intervals::{Intervals, Span};
use super::pages::Places;
use crate::state::{Keyed, hash};

/// How events find the members that they are for.
pub trait Select: Send + Sync + 'static {
    /// What is selected.
    type Event: Clone + Send + 'static;
    /// What a member says that it wants.
    type On: Clone + Send + 'static;
    /// What finds the members of a lane.
    type Index: Default + Send + 'static;

    /// The bucket of a member that selects `on`, in the lane that events for it are routed to. `None`:
    /// any; then every lane must see every event.
    fn bucket(on: &Self::On) -> Option<u32>;

    /// Refuses what could never select anything, and says why.
    ///
    /// # Errors
    /// The reason.
    fn check(_on: &Self::On) -> Result<(), String> {
        Ok(())
    }

    /// Adds the member at `seat`.
    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>);

    /// Takes the member at `seat` out.
    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>);

    /// Hands `hit` the seats of all members that `event` is for: those on a key in the order of their
    /// addition, those on intervals in no particular order.
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

    fn bucket(on: &K) -> Option<u32> {
        Some(bucket_of(hash(on)))
    }

    fn insert(index: &mut HashTable<u32>, seat: u32, places: &mut impl Places<K>) {
        let hashed = hash(places.on(seat));
        let same = |&tail: &u32| places.on(tail) == places.on(seat);
        if let Some(tail) = index.find_mut(hashed, same) {
            let before = std::mem::replace(tail, seat);
            places.link(seat, before);
        } else {
            index.insert_unique(hashed, seat, |&seat| hash(places.on(seat)));
        }
    }

    fn remove(index: &mut HashTable<u32>, seat: u32, places: &mut impl Places<K>) {
        let hashed = hash(places.on(seat));
        let same = |&tail: &u32| places.on(tail) == places.on(seat);
        let Ok(mut entry) = index.find_entry(hashed, same) else { return };
        match places.unlink(seat) {
            Some(before) if *entry.get() == seat => *entry.get_mut() = before,
            Some(_) => {}
            None => {
                entry.remove();
                if index.capacity() > 8 * index.len().max(8) {
                    index.shrink_to(2 * index.len(), |&seat| hash(places.on(seat)));
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
        let mut seat = tail;
        loop {
            seat = places.behind(seat);
            hit(seat);
            if seat == tail {
                return;
            }
        }
    }
}

/// Members on intervals: an event is for those whose interval its value lies in.
pub struct ByRange<T, V, F> {
    value: F,
    types: PhantomData<fn(T) -> V>,
}

impl<T, V, F: Fn(&T) -> V> ByRange<T, V, F> {
    /// By the value that `value` finds in an event.
    pub fn new(value: F) -> Self {
        Self { value, types: PhantomData }
    }
}

/// Refuses an interval that no value lies in.
fn check_span<V: PartialOrd>(span: &Span<V>) -> Result<(), String> {
    span.fault().map_or(Ok(()), |fault| Err(fault.to_owned()))
}

impl<T, V, F> Select for ByRange<T, V, F>
where
    T: Clone + Send + 'static,
    V: PartialOrd + Clone + Send + 'static,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Event = T;
    type On = Span<V>;
    type Index = Intervals<V>;

    fn bucket(_: &Span<V>) -> Option<u32> {
        None
    }

    fn check(on: &Span<V>) -> Result<(), String> {
        check_span(on)
    }

    fn insert(index: &mut Intervals<V>, seat: u32, places: &mut impl Places<Span<V>>) {
        index.insert(places.on(seat).clone(), seat);
    }

    fn remove(index: &mut Intervals<V>, seat: u32, places: &mut impl Places<Span<V>>) {
        index.remove(places.on(seat), seat);
    }

    #[inline]
    fn matches(
        &self,
        index: &Intervals<V>,
        event: &T,
        _: &impl Places<Span<V>>,
        hit: impl FnMut(u32),
    ) {
        index.find(&(self.value)(event), hit);
    }
}

/// Members on a key and an interval: an event is for those of its own key whose interval its value
/// lies in.
pub struct ByKeyAndRange<T, K, V, F, G> {
    key: F,
    value: G,
    types: PhantomData<fn(T) -> (K, V)>,
}

impl<T, K, V, F: Fn(&T) -> K, G: Fn(&T) -> V> ByKeyAndRange<T, K, V, F, G> {
    /// By the key and the value that `key` and `value` find in an event.
    pub fn new(key: F, value: G) -> Self {
        Self { key, value, types: PhantomData }
    }
}

impl<T, K, V, F, G> Select for ByKeyAndRange<T, K, V, F, G>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    V: PartialOrd + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
    G: Fn(&T) -> V + Send + Sync + 'static,
{
    type Event = T;
    type On = (K, Span<V>);
    type Index = Keyed<K, Intervals<V>>;

    fn bucket((key, _): &Self::On) -> Option<u32> {
        Some(bucket_of(hash(key)))
    }

    fn check((_, span): &Self::On) -> Result<(), String> {
        check_span(span)
    }

    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>) {
        let (key, span) = places.on(seat).clone();
        index.entry(key, Intervals::default).insert(span, seat);
    }

    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>) {
        let (key, span) = places.on(seat);
        let Some(intervals) = index.get_mut(key) else { return };
        intervals.remove(span, seat);
        if intervals.is_empty() {
            index.remove(key);
        }
    }

    #[inline]
    fn matches(
        &self,
        index: &Self::Index,
        event: &T,
        _: &impl Places<Self::On>,
        hit: impl FnMut(u32),
    ) {
        if let Some(intervals) = index.get(&(self.key)(event)) {
            intervals.find(&(self.value)(event), hit);
        }
    }
}

/// Members on sets of keys: an event is for those whose set its key is in.
pub struct BySet<T, K, F> {
    key: F,
    types: PhantomData<fn(T) -> K>,
}

impl<T, K, F: Fn(&T) -> K> BySet<T, K, F> {
    /// By the key that `key` finds in an event.
    pub fn new(key: F) -> Self {
        Self { key, types: PhantomData }
    }
}

impl<T, K, F> Select for BySet<T, K, F>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    type Event = T;
    /// A key that comes twice counts once.
    type On = Vec<K>;
    type Index = Keyed<K, Vec<u32>>;

    fn bucket(_: &Vec<K>) -> Option<u32> {
        None
    }

    fn check(on: &Vec<K>) -> Result<(), String> {
        if on.is_empty() { Err("the set is empty".to_owned()) } else { Ok(()) }
    }

    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Vec<K>>) {
        for key in places.on(seat) {
            let seats = index.entry(key.clone(), Vec::new);
            // A member is added as a whole, so a key that came before has it at the end.
            if seats.last() != Some(&seat) {
                seats.push(seat);
            }
        }
    }

    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Vec<K>>) {
        for key in places.on(seat) {
            if let Some(seats) = index.get_mut(key) {
                seats.retain(|&other| other != seat);
                if seats.is_empty() {
                    index.remove(key);
                }
            }
        }
    }

    #[inline]
    fn matches(
        &self,
        index: &Self::Index,
        event: &T,
        _: &impl Places<Vec<K>>,
        hit: impl FnMut(u32),
    ) {
        if let Some(seats) = index.get(&(self.key)(event)) {
            seats.iter().copied().for_each(hit);
        }
    }
}
