//! Counts of different values, exactly.

use std::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Aggregate, Overflow};

/// See [`distinct_count`].
#[derive(Clone, Copy, Debug)]
pub struct DistinctCount<F>(F);

/// How many different values `value` gives, as `u64`. Keeps each of them until the window is over;
/// where they are very many, [`approx_distinct_count`](super::approx_distinct_count) does not.
///
/// Floats as [`FloatKey`](crate::state::FloatKey).
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, distinct_count};
/// let letters = distinct_count(|v: &char| *v);
/// let mut acc = letters.create();
/// "mizzle".chars().for_each(|letter| letters.add(&mut acc, &letter));
/// assert_eq!(letters.finish(&acc), Ok(5));
/// ```
pub fn distinct_count<T, V: Hash + Eq + Clone, F: Fn(&T) -> V>(value: F) -> DistinctCount<F> {
    DistinctCount(value)
}

/// The different values so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Different<V: Hash + Eq>(HashSet<V, FixedState>);

impl<V: Hash + Eq + Serialize> Serialize for Different<V> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de, V: Hash + Eq + Deserialize<'de>> Deserialize<'de> for Different<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|values| Self(values.into_iter().collect()))
    }
}

impl<T, V, F> Aggregate<T> for DistinctCount<F>
where
    V: Hash + Eq + Clone + Send + 'static,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = Different<V>;
    type Out = u64;

    fn create(&self) -> Different<V> {
        Different(HashSet::with_hasher(FixedState::default()))
    }

    #[inline]
    fn add(&self, acc: &mut Different<V>, value: &T) {
        acc.0.insert((self.0)(value));
    }

    fn merge(&self, acc: &mut Different<V>, other: &Different<V>) {
        for value in &other.0 {
            if !acc.0.contains(value) {
                acc.0.insert(value.clone());
            }
        }
    }

    fn finish(&self, acc: &Different<V>) -> Result<u64, Overflow> {
        Ok(acc.0.len() as u64)
    }
}
