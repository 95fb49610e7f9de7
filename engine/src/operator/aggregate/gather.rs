//! All values, kept.

use super::{Aggregate, Overflow};

/// See [`to_vec`].
#[derive(Clone, Copy, Debug)]
pub struct ToVec<F>(F);

/// What `value` gives of every event, as a list: `to_vec(Event::clone)` has the events themselves.
/// The only aggregate besides [`quantiles`](super::quantiles) that keeps something of each event.
///
/// In the order of event time where the window is flagged in-order, else in that of arrival.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, to_vec};
/// let all = to_vec(i32::clone);
/// let mut acc = all.create();
/// [3, 9, 4].iter().for_each(|value| all.add(&mut acc, value));
/// assert_eq!(all.finish(&acc), Ok(vec![3, 9, 4]));
/// ```
pub fn to_vec<T, V: Clone, F: Fn(&T) -> V>(value: F) -> ToVec<F> {
    ToVec(value)
}

impl<T, V, F> Aggregate<T> for ToVec<F>
where
    V: Clone + Send + 'static,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = Vec<V>;
    type Out = Vec<V>;

    fn create(&self) -> Vec<V> {
        Vec::new()
    }

    #[inline]
    fn add(&self, acc: &mut Vec<V>, value: &T) {
        acc.push((self.0)(value));
    }

    fn merge(&self, acc: &mut Vec<V>, other: &Vec<V>) {
        acc.extend_from_slice(other);
    }

    fn finish(&self, acc: &Vec<V>) -> Result<Vec<V>, Overflow> {
        Ok(acc.clone())
    }
}
