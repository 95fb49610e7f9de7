//! What a window computes, one event at a time.
//!
//! Every aggregate can merge two of its accumulators, and none ever takes a value back out: a
//! hopping window is put together from slices, so a NaN or an infinity leaves with its slice.

use serde::{Deserialize, Serialize};

/// A result that its type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result does not fit its type")]
pub struct Overflow;

/// A way to sum up values of type `T`.
///
/// Tuples of two to six aggregates are aggregates: they take all of them in one pass.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, count, max, sum};
/// let total = (count(), sum(|v: &i32| *v), max(|v: &i32| *v));
/// let mut acc = total.create();
/// for value in [3, 9, 4] {
///     total.add(&mut acc, &value);
/// }
/// assert_eq!(total.finish(&acc), Ok((3, 16, Some(9))));
/// ```
pub trait Aggregate<T>: Send + Sync + 'static {
    /// What is kept while values come in.
    type Acc: Send + 'static;
    /// The result.
    type Out: Send + 'static;

    /// The accumulator of no values.
    fn create(&self) -> Self::Acc;

    /// Adds one value.
    fn add(&self, acc: &mut Self::Acc, value: &T);

    /// Adds all that `other` holds; it holds later values.
    fn merge(&self, acc: &mut Self::Acc, other: &Self::Acc);

    /// The result of what was added so far.
    fn finish(&self, acc: &Self::Acc) -> Result<Self::Out, Overflow>;
}

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

mod sealed {
    pub trait Sealed {}
}

/// A number that [`sum`] and [`mean`] take: every integer up to 64 bits, `f32` and `f64`.
pub trait Summable: Copy + Send + sealed::Sealed + 'static {
    /// What the sum is kept in.
    type Total: Copy + Default + Send + 'static;

    /// Adds a value.
    fn add_to(self, total: &mut Self::Total);

    /// Adds a sum to a sum.
    fn merge(total: &mut Self::Total, other: Self::Total);

    /// The sum in the type of its values.
    fn fit(total: Self::Total) -> Result<Self, Overflow>;

    /// The sum as a float, for dividing it.
    fn approximate(total: Self::Total) -> f64;
}

/// A sum of integers in 128 bits: 2^63 values of any of our types cannot overflow it.
///
/// In two halves because an `i128` wants to lie at multiples of 16 bytes, which would make the
/// entries of a window half as large again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    low: u64,
    high: i64,
}

impl Total {
    /// The sum.
    #[inline(always)]
    pub fn get(self) -> i128 {
        (i128::from(self.high) << 64) | i128::from(self.low)
    }

    #[inline(always)]
    fn add(&mut self, value: i128) {
        let sum = self.get().wrapping_add(value);
        *self = Self { low: sum as u64, high: (sum >> 64) as i64 };
    }
}

macro_rules! summable_integers {
    ($($integer:ty)*) => { $(
        impl sealed::Sealed for $integer {}

        impl Summable for $integer {
            type Total = Total;

            #[inline(always)]
            fn add_to(self, total: &mut Total) {
                total.add(self as i128);
            }

            fn merge(total: &mut Total, other: Total) {
                total.add(other.get());
            }

            fn fit(total: Total) -> Result<Self, Overflow> {
                Self::try_from(total.get()).map_err(|_| Overflow)
            }

            fn approximate(total: Total) -> f64 {
                total.get() as f64
            }
        }
    )* };
}

summable_integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! summable_floats {
    ($($float:ty)*) => { $(
        impl sealed::Sealed for $float {}

        impl Summable for $float {
            type Total = f64;

            #[inline(always)]
            fn add_to(self, total: &mut f64) {
                *total += f64::from(self);
            }

            fn merge(total: &mut f64, other: f64) {
                *total += other;
            }

            fn fit(total: f64) -> Result<Self, Overflow> {
                Ok(total as $float)
            }

            fn approximate(total: f64) -> f64 {
                total
            }
        }
    )* };
}

summable_floats!(f32 f64);

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

/// The aggregate that keeps the one value that is `$before` all others.
macro_rules! extreme {
    ($name:ident, $function:ident, $before:tt, $what:literal) => {
        #[doc = concat!("See [`", stringify!($function), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<F>(F);

        #[doc = concat!("The ", $what, " of what `value` gives; of equal ones the first.")]
        ///
        /// A value that does not equal itself, as NaN does not, is ignored. A window has at least
        /// one event, so the result is `None` only if all its values were such.
        pub fn $function<T, V: PartialOrd + Clone, F: Fn(&T) -> V>(value: F) -> $name<F> {
            $name(value)
        }

        impl<T, V, F> Aggregate<T> for $name<F>
        where
            V: PartialOrd + Clone + Send + 'static,
            F: Fn(&T) -> V + Send + Sync + 'static,
        {
            type Acc = Option<V>;
            type Out = Option<V>;

            fn create(&self) -> Option<V> {
                None
            }

            #[inline(always)]
            fn add(&self, acc: &mut Option<V>, value: &T) {
                let value = (self.0)(value);
                let better = match acc {
                    Some(best) => value $before *best,
                    // Only NaN and its like are not equal to themselves.
                    #[allow(clippy::eq_op)]
                    None => value == value,
                };
                if better {
                    *acc = Some(value);
                }
            }

            fn merge(&self, acc: &mut Option<V>, other: &Option<V>) {
                if let Some(value) = other
                    && acc.as_ref().is_none_or(|best| value $before best)
                {
                    *acc = Some(value.clone());
                }
            }

            fn finish(&self, acc: &Option<V>) -> Result<Option<V>, Overflow> {
                Ok(acc.clone())
            }
        }
    };
}

extreme!(Min, min, <, "smallest");
extreme!(Max, max, >, "largest");

/// See [`fold`].
#[derive(Clone, Copy, Debug)]
pub struct Fold<I, A, M, F> {
    init: I,
    add: A,
    merge: M,
    finish: F,
}

/// An aggregate of your own: `init` makes the accumulator of no values, `add` adds a value, `merge`
/// adds another accumulator that holds later values, `finish` gives the result.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, fold};
/// let longest = fold(
///     || 0,
///     |acc: &mut usize, word: &&str| *acc = word.len().max(*acc),
///     |acc: &mut usize, other: &usize| *acc = *other.max(acc),
///     |acc: &usize| *acc,
/// );
/// let mut acc = longest.create();
/// longest.add(&mut acc, &"mizzle");
/// assert_eq!(longest.finish(&acc), Ok(6));
/// ```
pub fn fold<T, Acc, Out, I, A, M, F>(init: I, add: A, merge: M, finish: F) -> Fold<I, A, M, F>
where
    I: Fn() -> Acc,
    A: Fn(&mut Acc, &T),
    M: Fn(&mut Acc, &Acc),
    F: Fn(&Acc) -> Out,
{
    Fold { init, add, merge, finish }
}

impl<T, Acc, Out, I, A, M, F> Aggregate<T> for Fold<I, A, M, F>
where
    Acc: Send + 'static,
    Out: Send + 'static,
    I: Fn() -> Acc + Send + Sync + 'static,
    A: Fn(&mut Acc, &T) + Send + Sync + 'static,
    M: Fn(&mut Acc, &Acc) + Send + Sync + 'static,
    F: Fn(&Acc) -> Out + Send + Sync + 'static,
{
    type Acc = Acc;
    type Out = Out;

    fn create(&self) -> Acc {
        (self.init)()
    }

    #[inline(always)]
    fn add(&self, acc: &mut Acc, value: &T) {
        (self.add)(acc, value);
    }

    fn merge(&self, acc: &mut Acc, other: &Acc) {
        (self.merge)(acc, other);
    }

    fn finish(&self, acc: &Acc) -> Result<Out, Overflow> {
        Ok((self.finish)(acc))
    }
}

macro_rules! tuple_of_aggregates {
    ($($aggregate:ident $position:tt),*) => {
        impl<T, $($aggregate: Aggregate<T>),*> Aggregate<T> for ($($aggregate,)*) {
            type Acc = ($($aggregate::Acc,)*);
            type Out = ($($aggregate::Out,)*);

            fn create(&self) -> Self::Acc {
                ($(self.$position.create(),)*)
            }

            #[inline(always)]
            fn add(&self, acc: &mut Self::Acc, value: &T) {
                $(self.$position.add(&mut acc.$position, value);)*
            }

            fn merge(&self, acc: &mut Self::Acc, other: &Self::Acc) {
                $(self.$position.merge(&mut acc.$position, &other.$position);)*
            }

            fn finish(&self, acc: &Self::Acc) -> Result<Self::Out, Overflow> {
                Ok(($(self.$position.finish(&acc.$position)?,)*))
            }
        }
    };
}

tuple_of_aggregates!(A 0, B 1);
tuple_of_aggregates!(A 0, B 1, C 2);
tuple_of_aggregates!(A 0, B 1, C 2, D 3);
tuple_of_aggregates!(A 0, B 1, C 2, D 3, E 4);
tuple_of_aggregates!(A 0, B 1, C 2, D 3, E 4, F 5);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The result over all values, added half by half and merged.
    fn halves<T, A: Aggregate<T>>(aggregate: &A, values: &[T]) -> Result<A::Out, Overflow> {
        let mut accs = [aggregate.create(), aggregate.create()];
        for (position, value) in values.iter().enumerate() {
            aggregate.add(&mut accs[2 * position / values.len()], value);
        }
        let [mut first, second] = accs;
        aggregate.merge(&mut first, &second);
        aggregate.finish(&first)
    }

    #[test]
    fn integer_sums_are_kept_wide_and_must_fit_at_the_end() {
        let total = sum(|v: &i64| *v);
        assert_eq!(halves(&total, &[i64::MAX, i64::MAX, -1, i64::MIN]), Ok(i64::MAX - 2));
        assert_eq!(halves(&total, &[i64::MAX, 1]), Err(Overflow));
        assert_eq!(halves(&sum(|v: &u64| *v), &[u64::MAX, 1]), Err(Overflow));
        assert_eq!(halves(&sum(|v: &i8| *v), &[-100, -28]), Ok(-128));
        let both = (count(), sum(|v: &i8| *v));
        assert_eq!(halves(&both, &[100, 28]), Err(Overflow));
    }

    #[test]
    fn nan_propagates_through_sum_and_mean_and_is_ignored_by_min_and_max() {
        let values = [f64::NAN, 2.0, 1.0, f64::NAN];
        let all = (sum(|v: &f64| *v), mean(|v: &f64| *v), min(|v: &f64| *v), max(|v: &f64| *v));
        let (sum, mean, min, max) = halves(&all, &values).unwrap();
        assert!(sum.is_nan() && mean.is_nan());
        assert_eq!((min, max), (Some(1.0), Some(2.0)));
        assert_eq!(halves(&super::min(|v: &f64| *v), &[f64::NAN; 3]), Ok(None));
    }

    #[test]
    fn the_mean_of_huge_integers_does_not_overflow() {
        assert_eq!(halves(&mean(|v: &u64| *v), &[1 << 63, 1 << 63, 1 << 63]), Ok(2_f64.powi(63)));
        assert_eq!(halves(&mean(|v: &i32| *v), &[-1, 2]), Ok(0.5));
    }

    #[test]
    fn of_equal_extremes_the_first_is_kept() {
        #[derive(Clone, Debug)]
        struct Tagged(u8, char);
        impl PartialEq for Tagged {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }
        impl PartialOrd for Tagged {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.0.partial_cmp(&other.0)
            }
        }
        let values = [Tagged(1, 'a'), Tagged(1, 'b'), Tagged(1, 'c'), Tagged(1, 'd')];
        let least = halves(&min(|v: &Tagged| v.clone()), &values).unwrap().unwrap();
        let most = halves(&max(|v: &Tagged| v.clone()), &values).unwrap().unwrap();
        assert_eq!((least.1, most.1), ('a', 'a'));
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_computation(values in prop::collection::vec(any::<i64>(), 1..50)) {
            let wide: i128 = values.iter().map(|&v| i128::from(v)).sum();
            let expected = i64::try_from(wide).map_err(|_| Overflow);
            prop_assert_eq!(halves(&sum(|v: &i64| *v), &values), expected);
            let rest = (count(), mean(|v: &i64| *v), min(|v: &i64| *v), max(|v: &i64| *v));
            let n = values.len() as u64;
            let mean = wide as f64 / n as f64;
            let (least, most) = (values.iter().min().copied(), values.iter().max().copied());
            prop_assert_eq!(halves(&rest, &values), Ok((n, mean, least, most)));
        }
    }
}
