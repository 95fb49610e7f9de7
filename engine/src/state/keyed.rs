//! One state per key, in the order in which the keys arrived.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::marker::PhantomData;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Fixed, so that a key goes to the same shard in every run and after every restore.
const HASHER: FixedState = FixedState::with_seed(0x6d69_7a7a_6c65);

/// Below this many places a map is too small for giving room back to be worth it.
const SMALL: usize = 64;

/// The hash of a key: the same in every run, for tables and for routing to shards.
///
/// A table takes its place in it from the lowest bits and a tag from the highest seven; what routes
/// keys to tables should take bits from the middle, or each table gets keys that collide.
///
/// ```
/// use mizzle_engine::state::hash;
/// assert_eq!(hash(&"pump-7"), hash(&String::from("pump-7")));
/// ```
#[inline(always)]
pub fn hash<K: Hash + ?Sized>(key: &K) -> u64 {
    HASHER.hash_one(key)
}

/// A map from keys to states that keeps the order of arrival of its keys.
///
/// Every entry knows when it last changed, so that a checkpoint can write down only what did: see
/// [`mark`](Keyed::mark). A key that was removed and comes back arrives anew.
///
/// ```
/// use mizzle_engine::state::Keyed;
/// let mut counts = Keyed::new();
/// for word in ["to", "be", "or", "not", "to", "be"] {
///     *counts.entry(word, || 0) += 1;
/// }
/// let seen: Vec<_> = counts.iter().collect();
/// assert_eq!(seen, [(&"to", &2), (&"be", &2), (&"or", &1), (&"not", &1)]);
/// ```
pub struct Keyed<K, S> {
    /// Positions in `places` of the keys that are there.
    index: HashTable<u32>,
    /// In order of arrival; a removed key leaves a hole until holes are as many as keys.
    places: Vec<Place<K, S>>,
    epoch: u32,
    /// Keys that were there at the last mark and no longer are; `None` until the first mark.
    removed: Option<Vec<K>>,
}

struct Place<K, S> {
    /// The epoch of the last change.
    changed: u32,
    /// The epoch of the arrival.
    arrived: u32,
    entry: Option<(K, S)>,
}

/// What happened to a key since the last [`mark`](Keyed::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a, K, S> {
    /// It was there and has been removed; it may have arrived again since, see `Changed`.
    Removed(&'a K),
    /// It arrived, or its state was handed out to be changed.
    Changed(&'a K, &'a S),
}

impl<K, S> Default for Keyed<K, S> {
    fn default() -> Self {
        Self { index: HashTable::new(), places: Vec::new(), epoch: 0, removed: None }
    }
}

impl<K, S> Keyed<K, S> {
    /// An empty map. Allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The keys and their states, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.places.iter().filter_map(|place| place.entry.as_ref()).map(|(key, state)| (key, state))
    }

    /// Starts a new epoch: from now on [`changed`](Keyed::changed) tells what changes after this
    /// call. Removed keys are recorded from the first call on; without one they cost nothing.
    pub fn mark(&mut self) {
        self.epoch += 1;
        self.removed.get_or_insert_default().clear();
    }

    /// What changed since the last mark, or ever if there was none: first the keys removed, then the
    /// entries changed, in order of arrival. Done to a copy in this order, it makes the copy equal.
    pub fn changed(&self) -> impl Iterator<Item = Change<'_, K, S>> {
        let removed = self.removed.iter().flatten().map(Change::Removed);
        let changed = self.places.iter().filter(|place| place.changed == self.epoch);
        removed.chain(changed.filter_map(|place| {
            place.entry.as_ref().map(|(key, state)| Change::Changed(key, state))
        }))
    }
}

impl<K: Hash + Eq, S> Keyed<K, S> {
    /// The state of `key`, which is what `init` makes if the key is new. Marks the entry.
    ///
    /// # Panics
    ///
    /// If this were the 2^32nd key.
    #[inline]
    pub fn entry(&mut self, key: K, init: impl FnOnce() -> S) -> &mut S {
        self.entry_with_key(key, init).1
    }

    /// Like [`entry`](Keyed::entry), with the key as the map holds it.
    #[inline]
    pub fn entry_with_key(&mut self, key: K, init: impl FnOnce() -> S) -> (&K, &mut S) {
        let hash = hash(&key);
        let position = match self.position(hash, &key) {
            Some(position) => position,
            None => self.arrive(hash, key, init()),
        };
        let place = &mut self.places[position];
        place.changed = self.epoch;
        match &mut place.entry {
            Some((key, state)) => (key, state),
            None => unreachable!("the index points at a hole"),
        }
    }

    /// The state of `key`, if it is there.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&S> {
        let position = self.position(hash(key), key)?;
        self.places[position].entry.as_ref().map(|(_, state)| state)
    }

    /// The state of `key`, if it is there, to be changed. Marks the entry.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut S> {
        let position = self.position(hash(key), key)?;
        let place = &mut self.places[position];
        place.changed = self.epoch;
        place.entry.as_mut().map(|(_, state)| state)
    }

    /// Takes `key` out. Nothing of it stays behind, apart from the record of its removal where
    /// [`mark`](Keyed::mark) is used.
    pub fn remove(&mut self, key: &K) -> Option<S> {
        let places = &self.places;
        let found = self.index.find_entry(hash(key), |&position| places[position as usize].is(key));
        let (position, _) = found.ok()?.remove();
        let place = &mut self.places[position as usize];
        let old = place.arrived < self.epoch;
        let (key, state) = place.entry.take()?;
        if let Some(removed) = self.removed.as_mut().filter(|_| old) {
            removed.push(key);
        }
        if self.places.len() >= 2 * self.index.len() {
            self.close_up();
        }
        Some(state)
    }

    /// Takes everything out, in order of arrival. Room for about as many keys is kept.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, S)>
    where
        K: Clone,
    {
        let epoch = self.epoch;
        if let Some(removed) = &mut self.removed {
            let old = self.places.iter().filter(|place| place.arrived < epoch);
            removed
                .extend(old.filter_map(|place| place.entry.as_ref()).map(|(key, _)| key.clone()));
        }
        self.forget_all();
        self.places.drain(..).filter_map(|place| place.entry)
    }

    /// Removes everything. Room for about as many keys is kept.
    pub fn clear(&mut self) {
        self.forget_all();
        let epoch = self.epoch;
        let places = self.places.drain(..);
        if let Some(removed) = &mut self.removed {
            let old = places.filter(|place| place.arrived < epoch);
            removed.extend(old.filter_map(|place| place.entry).map(|(key, _)| key));
        }
    }

    #[inline]
    fn position(&self, hash: u64, key: &K) -> Option<usize> {
        let found = self.index.find(hash, |&position| self.places[position as usize].is(key));
        found.map(|&position| position as usize)
    }

    #[cold]
    fn arrive(&mut self, hash: u64, key: K, state: S) -> usize {
        let position = u32::try_from(self.places.len()).expect("fewer than 2^32 keys");
        let epoch = self.epoch;
        let places = &self.places;
        self.index.insert_unique(hash, position, |&position| places[position as usize].hash());
        self.places.push(Place { changed: epoch, arrived: epoch, entry: Some((key, state)) });
        position as usize
    }

    /// Moves the entries over the holes. Called when at least half are holes, so each removal pays
    /// for moving at most one entry.
    fn close_up(&mut self) {
        self.places.retain(|place| place.entry.is_some());
        shrink(&mut self.places);
        empty(&mut self.index);
        let places = &self.places;
        for (position, place) in places.iter().enumerate() {
            let rehash = |&position: &u32| places[position as usize].hash();
            self.index.insert_unique(place.hash(), position as u32, rehash);
        }
    }

    fn forget_all(&mut self) {
        empty(&mut self.index);
        shrink(&mut self.places);
    }
}

/// Gives room back where there is far more of it than use.
pub(crate) fn shrink<T>(places: &mut Vec<T>) {
    if places.capacity() > SMALL.max(8 * places.len()) {
        places.shrink_to(2 * places.len());
    }
}

/// Takes everything out of an index, and gives room back where there was far more of it than use.
pub(crate) fn empty(index: &mut HashTable<u32>) {
    let used = index.len();
    index.clear();
    if index.capacity() > SMALL.max(8 * used) {
        index.shrink_to(2 * used, |_| 0);
    }
}

impl<K: Hash + Eq, S> Place<K, S> {
    #[inline]
    fn is(&self, key: &K) -> bool {
        matches!(&self.entry, Some((own, _)) if own == key)
    }

    fn hash(&self) -> u64 {
        self.entry.as_ref().map_or(0, |(key, _)| hash(key))
    }
}

impl<K: Hash + Eq, S> FromIterator<(K, S)> for Keyed<K, S> {
    /// Of a key that comes twice, the place of the first and the state of the last counts.
    fn from_iter<I: IntoIterator<Item = (K, S)>>(pairs: I) -> Self {
        let mut keyed = Self::new();
        for (key, state) in pairs {
            let mut state = Some(state);
            let held = keyed.entry(key, || state.take().expect("called once"));
            if let Some(state) = state {
                *held = state;
            }
        }
        keyed
    }
}

impl<K: fmt::Debug, S: fmt::Debug> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Pairs in order of arrival.
impl<K: Serialize, S: Serialize> Serialize for Keyed<K, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let mut pairs = serializer.serialize_seq(Some(self.len()))?;
        for pair in self.iter() {
            pairs.serialize_element(&pair)?;
        }
        pairs.end()
    }
}

impl<'de, K, S> Deserialize<'de> for Keyed<K, S>
where
    K: Deserialize<'de> + Hash + Eq,
    S: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_pairs(deserializer)
    }
}

/// Reads a sequence of pairs into a collection, without a list in between.
pub(crate) fn read_pairs<'de, K, S, C, D>(deserializer: D) -> Result<C, D::Error>
where
    K: Deserialize<'de>,
    S: Deserialize<'de>,
    C: FromIterator<(K, S)>,
    D: Deserializer<'de>,
{
    struct Pairs<K, S, C>(PhantomData<(K, S, C)>);

    impl<'de, K, S, C> Visitor<'de> for Pairs<K, S, C>
    where
        K: Deserialize<'de>,
        S: Deserialize<'de>,
        C: FromIterator<(K, S)>,
    {
        type Value = C;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("keys with their states")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<C, A::Error> {
            std::iter::from_fn(|| pairs.next_element::<(K, S)>().transpose()).collect()
        }
    }

    deserializer.deserialize_seq(Pairs(PhantomData))
}

/// A float that can be a key: `0.0` and `-0.0` are one key, and so are all NaN.
///
/// NaN is after every number. It holds one value of those that are equal, so equality, order, hash
/// and the encoded form always agree.
///
/// ```
/// use mizzle_engine::state::{FloatKey, hash};
/// assert_eq!(FloatKey::new(0.0), FloatKey::new(-0.0));
/// assert_eq!(hash(&FloatKey::new(f64::NAN)), hash(&FloatKey::new(-f64::NAN)));
/// ```
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct FloatKey(f64);

impl FloatKey {
    /// `value` as a key.
    #[inline]
    pub fn new(value: f64) -> Self {
        if value.is_nan() {
            Self(f64::NAN)
        } else {
            // Turns -0.0 into 0.0 and leaves every other number as it is.
            Self(value + 0.0)
        }
    }

    /// The number; of those that are one key always the same.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl From<f64> for FloatKey {
    fn from(value: f64) -> Self {
        Self::new(value)
    }
}

impl From<FloatKey> for f64 {
    fn from(key: FloatKey) -> Self {
        key.0
    }
}

impl PartialEq for FloatKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for FloatKey {}

impl Hash for FloatKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl PartialOrd for FloatKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FloatKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(keyed: &Keyed<u8, u32>) -> Vec<(u8, u32)> {
        keyed.iter().map(|(&key, &state)| (key, state)).collect()
    }

    /// Brings `copy` up to date with what `keyed` says has changed.
    fn catch_up(copy: &mut Keyed<u8, u32>, keyed: &mut Keyed<u8, u32>) {
        for change in keyed.changed() {
            match change {
                Change::Removed(key) => drop(copy.remove(key)),
                Change::Changed(&key, &state) => *copy.entry(key, || 0) = state,
            }
        }
        keyed.mark();
    }

    proptest! {
        /// Against a plain list, with a copy that follows by changes and one that is decoded.
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec((0_u8..6, 0_u8..20), 0..200)) {
            let (mut keyed, mut list) = (Keyed::new(), Vec::<(u8, u32)>::new());
            let mut copy = Keyed::new();
            for (step, (action, key)) in steps.into_iter().enumerate() {
                let at = list.iter().position(|pair| pair.0 == key);
                match action {
                    0 | 1 => {
                        *keyed.entry(key, || 7) += step as u32;
                        match at {
                            Some(at) => list[at].1 += step as u32,
                            None => list.push((key, 7 + step as u32)),
                        }
                    }
                    2 | 3 => {
                        let removed = keyed.remove(&key);
                        prop_assert_eq!(removed, at.map(|at| list.remove(at).1));
                    }
                    4 => {
                        prop_assert_eq!(keyed.get(&key).copied(), at.map(|at| list[at].1));
                        if let Some(at) = at {
                            *keyed.get_mut(&key).unwrap() += 1;
                            list[at].1 += 1;
                        }
                    }
                    _ if key == 0 => {
                        keyed.clear();
                        list.clear();
                    }
                    _ if key == 1 => {
                        prop_assert_eq!(keyed.drain().collect::<Vec<_>>(), std::mem::take(&mut list));
                    }
                    _ => {
                        catch_up(&mut copy, &mut keyed);
                        prop_assert_eq!(pairs(&copy), pairs(&keyed));
                    }
                }
                prop_assert_eq!(keyed.len(), list.len());
                prop_assert_eq!(&pairs(&keyed), &list);
            }
            let bytes = postcard::to_stdvec(&keyed).unwrap();
            let decoded: Keyed<u8, u32> = postcard::from_bytes(&bytes).unwrap();
            prop_assert_eq!(pairs(&decoded), list);
        }
    }

    #[test]
    fn removed_keys_leave_no_room_behind() {
        let mut keyed = Keyed::new();
        keyed.entry(u64::MAX, || 0);
        for key in 0..100_000_u64 {
            keyed.entry(key, || 0);
            assert_eq!(keyed.remove(&key), Some(0));
        }
        assert_eq!(keyed.len(), 1);
        assert!(keyed.places.capacity() <= 8, "{}", keyed.places.capacity());
        assert!(keyed.index.capacity() <= 16, "{}", keyed.index.capacity());
    }

    #[test]
    fn a_map_that_was_large_once_shrinks_when_it_is_cleared_again() {
        let mut keyed: Keyed<u64, ()> = (0..100_000).map(|key| (key, ())).collect();
        keyed.clear();
        assert!(keyed.places.capacity() >= 100_000);
        keyed.entry(1, || ());
        keyed.clear();
        assert!(keyed.places.capacity() <= SMALL && keyed.index.capacity() <= SMALL);
    }

    #[test]
    fn removals_are_recorded_once_and_only_after_the_first_mark() {
        let mut keyed = Keyed::new();
        keyed.entry(1, || ());
        keyed.remove(&1);
        assert_eq!(keyed.changed().count(), 0);
        keyed.entry(2, || ());
        keyed.mark();
        for _ in 0..3 {
            keyed.remove(&2);
            keyed.entry(2, || ());
            keyed.entry(3, || ());
            keyed.remove(&3);
        }
        let changes: Vec<_> = keyed.changed().collect();
        assert_eq!(changes, [Change::Removed(&2), Change::Changed(&2, &())]);
    }

    #[test]
    fn a_panic_while_a_key_arrives_leaves_the_map_as_it_was() {
        let mut keyed = Keyed::new();
        keyed.entry(1, || 1);
        let arrive = std::panic::AssertUnwindSafe(|| *keyed.entry(2, || panic!("no state")));
        std::panic::catch_unwind(arrive).unwrap_err();
        assert_eq!(keyed.get(&2), None);
        assert_eq!(keyed.iter().collect::<Vec<_>>(), [(&1, &1)]);
    }

    #[test]
    fn ag_05_float_keys_agree_everywhere() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let mut counts = Keyed::new();
        for value in [0.0, -0.0, f64::NAN, -other_nan, 1.0] {
            *counts.entry(FloatKey::new(value), || 0) += 1;
        }
        let seen: Vec<_> = counts.iter().map(|(key, &n)| (key.value().to_bits(), n)).collect();
        assert_eq!(seen, [(0, 2), (f64::NAN.to_bits(), 2), (1.0_f64.to_bits(), 1)]);

        let bytes = postcard::to_stdvec(&-0.0_f64).unwrap();
        assert_eq!(postcard::from_bytes::<FloatKey>(&bytes).unwrap(), FloatKey::new(0.0));
        assert_eq!(FloatKey::new(-0.0).cmp(&FloatKey::new(0.0)), Ordering::Equal);
        assert_eq!(FloatKey::new(-f64::NAN).cmp(&FloatKey::new(f64::INFINITY)), Ordering::Greater);
        assert!(counts.remove(&FloatKey::new(other_nan)).is_some());
        assert_eq!(counts.len(), 2);
    }
}
