//! What a window computes, one event at a time.
//!
//! Every aggregate can merge two of its accumulators, and none ever takes a value back out: a
//! hopping window is put together from slices, so a NaN or an infinity leaves with its slice.
//!
//! | aggregate | gives | of values that are not finite |
//! |---|---|---|
//! | [`count`] | how many events | |
//! | [`sum`], [`mean`] | integers summed exactly, floats in `f64` | NaN goes through |
//! | [`population_variance`], [`sample_variance`] | mean squared distance from the mean | all give NaN |
//! | [`min`], [`max`] | the extreme, of equal ones the first | NaN is ignored |
//! | [`first`], [`last`] | what came first, last | |
//! | [`distinct_count`] | how many different ones | |
//! | [`approx_distinct_count`] | the same within a few percent, in a few kilobytes | |
//! | [`quantiles`] | exact, in between two values by their distance | NaN is ignored |
//! | [`approx_quantiles`] | within a percent of a value, in a few kilobytes | NaN is ignored |
//! | [`top`] | the events with the highest score | a score of NaN is ignored |
//! | [`to_vec`] | all of them | |
//! | [`fold`] | what you make of them | |
//!
//! What "first" and "last" mean, and in what order lists are, follows from the order in which events
//! come: that of event time where the window is flagged in-order, else that of arrival (in hopping
//! and cumulative windows, arrival within each stretch between two bounds).

mod approximate;
mod distinct;
mod fold;
mod gather;
mod number;
mod pick;
mod quantile;
mod top;
mod totals;
mod tuples;
mod variance;

pub use approximate::{
    ApproxDistinctCount, ApproxQuantiles, DistinctSketch, QuantileSketch, approx_distinct_count,
    approx_quantiles,
};
pub use distinct::{Different, DistinctCount, distinct_count};
pub use fold::{Fold, fold};
pub use gather::{ToVec, to_vec};
pub use number::{Summable, Total};
pub use pick::{First, Last, Max, Min, first, last, max, min};
pub use quantile::{Quantiles, quantiles};
pub use top::{Top, top};
pub use totals::{Count, Mean, Sum, count, mean, sum};
pub use variance::{
    Moments, PopulationVariance, SampleVariance, population_variance, sample_variance,
};

/// A result that its type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result does not fit its type")]
pub struct Overflow;

/// An aggregate that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAggregate {
    /// The best of none.
    #[error("top-n: n is zero")]
    TopOfNone,
    /// A quantile is a part of the whole.
    #[error("quantile {0} is not between 0 and 1")]
    Quantile(f64),
    /// An accuracy that a sketch cannot keep.
    #[error("the accuracy {0} is not between 0.0001 and 0.5")]
    Accuracy(f64),
}

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

    /// Whether its parameters make sense; looked at when a query is submitted.
    fn check(&self) -> Result<(), InvalidAggregate> {
        Ok(())
    }

    /// The accumulator of no values.
    fn create(&self) -> Self::Acc;

    /// Adds one value.
    fn add(&self, acc: &mut Self::Acc, value: &T);

    /// Adds all that `other` holds; it holds later values.
    fn merge(&self, acc: &mut Self::Acc, other: &Self::Acc);

    /// The result of what was added so far.
    fn finish(&self, acc: &Self::Acc) -> Result<Self::Out, Overflow>;
}

#[cfg(test)]
mod tests;
