//! Variances, kept as Welford does, so that large values with small differences keep their digits.

use serde::{Deserialize, Serialize};

use super::{Aggregate, Overflow, Summable};

/// How many values there are, their mean, and the sum of their squared distances from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        let before = self.count as f64;
        self.count += 1;
        let count = self.count as f64;
        let distance = value - self.mean;
        self.mean += distance / count;
        // Never negative, whatever is rounded.
        self.squares += distance * distance * (before / count);
    }

    /// The sum of squares; NaN, wherever in the order it came, once a value was not finite.
    fn squares(&self) -> f64 {
        if self.mean.is_finite() { self.squares } else { f64::NAN }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let both = own + others;
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * (others / both);
        self.squares += other.squares + distance * distance * (own * others / both);
    }
}

macro_rules! variance {
    ($name:ident, $function:ident, $divisor:literal, $spare:literal, $doc:literal, $four:literal) => {
        #[doc = concat!("See [`", stringify!($function), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<F>(F);

        #[doc = $doc]
        ///
        #[doc = concat!("The squared distances from the mean are divided by ", $divisor, ".")]
        /// Never negative; NaN if a value is NaN or infinite. Its square root is the standard deviation.
        ///
        /// ```
        #[doc = concat!(
            "use mizzle_engine::operator::aggregate::{Aggregate, ", stringify!($function), "};"
        )]
        #[doc = concat!("let spread = ", stringify!($function), "(|v: &f64| *v);")]
        /// let mut acc = spread.create();
        /// [4.0, 7.0, 13.0, 16.0].iter().for_each(|value| spread.add(&mut acc, value));
        #[doc = concat!("assert_eq!(spread.finish(&acc), Ok(Some(", $four, ")));")]
        /// ```
        pub fn $function<T, V: Summable, F: Fn(&T) -> V>(value: F) -> $name<F> {
            $name(value)
        }

        impl<T, V, F> Aggregate<T> for $name<F>
        where
            V: Summable,
            F: Fn(&T) -> V + Send + Sync + 'static,
        {
            type Acc = Moments;
            type Out = Option<f64>;

            fn create(&self) -> Moments {
                Moments::default()
            }

            #[inline(always)]
            fn add(&self, acc: &mut Moments, value: &T) {
                acc.add((self.0)(value).as_f64());
            }

            fn merge(&self, acc: &mut Moments, other: &Moments) {
                acc.merge(other);
            }

            fn finish(&self, acc: &Moments) -> Result<Option<f64>, Overflow> {
                let divisor = acc.count.checked_sub($spare).filter(|&divisor| divisor > 0);
                Ok(divisor.map(|divisor| acc.squares() / divisor as f64))
            }
        }
    };
}

variance!(
    PopulationVariance,
    population_variance,
    "their number",
    0,
    "The variance of what `value` gives, where the window's events are all there are.",
    "22.5"
);
variance!(
    SampleVariance,
    sample_variance,
    "their number less one",
    1,
    "The variance of what `value` gives, where the window's events are a sample of more: `None` of a \
     single one.",
    "30.0"
);
