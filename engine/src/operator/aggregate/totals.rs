//! Counts, sums and means.

use super::number::Summable;
use super::{Aggregate, Overflow};

/// See [`count`].
#[derive(Clone, Copy, Debug)]
pub struct Count;

/// How many values there are, as `u64`.
pub fn count() -> Count {
    Count
}

impl<T> Aggregate<T> for Count {
    type Acc = u64;
    type Out = u64;

    fn create(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn add(&self, acc: &mut u64, _: &T) {
        *acc += 1;
    }

    fn merge(&self, acc: &mut u64, other: &u64) {
        *acc += other;
    }

    fn finish(&self, acc: &u64) -> Result<u64, Overflow> {
        Ok(*acc)
    }
}

/// See [`sum`].
#[derive(Clone, Copy, Debug)]
pub struct Sum<F>(F);

/// The sum of what `value` gives, in the same type.
///
/// Integers are summed in 128 bits, and a sum that does not fit their type is an [`Overflow`].
/// Floats are summed in `f64`; NaN propagates.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, Overflow, sum};
/// let total = sum(|v: &u8| *v);
/// let mut acc = total.create();
/// total.add(&mut acc, &200);
/// total.add(&mut acc, &100);
/// assert_eq!(total.finish(&acc), Err(Overflow));
/// ```
pub fn sum<T, V: Summable, F: Fn(&T) -> V>(value: F) -> Sum<F> {
    Sum(value)
}

impl<T, V, F> Aggregate<T> for Sum<F>
where
    V: Summable,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = V::Total;
    type Out = V;

    fn create(&self) -> V::Total {
        V::Total::default()
    }

    #[inline(always)]
    fn add(&self, acc: &mut V::Total, value: &T) {
        (self.0)(value).add_to(acc);
    }

    fn merge(&self, acc: &mut V::Total, other: &V::Total) {
        V::merge(acc, *other);
    }

    fn finish(&self, acc: &V::Total) -> Result<V, Overflow> {
        V::fit(*acc)
    }
}

/// See [`mean`].
#[derive(Clone, Copy, Debug)]
pub struct Mean<F>(F);

/// The arithmetic mean of what `value` gives, as `f64`. The sum of integers is exact; NaN
/// propagates.
pub fn mean<T, V: Summable, F: Fn(&T) -> V>(value: F) -> Mean<F> {
    Mean(value)
}

impl<T, V, F> Aggregate<T> for Mean<F>
where
    V: Summable,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = (V::Total, u64);
    type Out = f64;

    fn create(&self) -> Self::Acc {
        (V::Total::default(), 0)
    }

    #[inline(always)]
    fn add(&self, (total, count): &mut Self::Acc, value: &T) {
        (self.0)(value).add_to(total);
        *count += 1;
    }

    fn merge(&self, (total, count): &mut Self::Acc, other: &Self::Acc) {
        V::merge(total, other.0);
        *count += other.1;
    }

    fn finish(&self, (total, count): &Self::Acc) -> Result<f64, Overflow> {
        Ok(V::approximate(*total) / *count as f64)
    }
}
