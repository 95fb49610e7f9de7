//! Quantiles and counts of different values in a few kilobytes, from sketches that others keep well.
//!
//! Both sketches are such that it does not matter how the values were divided and merged: the result
//! is the same for any number of workers, any batches and any slices.

use std::hash::Hash;

use datasketches::hll::{HllSketch, HllType, HllUnion};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sketches_ddsketch::{Config, DDSketch};

use super::quantile::check_parts;
use super::{Aggregate, InvalidAggregate, Overflow, Summable};

/// Values nearer to zero than this are zero to a sketch.
const SMALLEST: f64 = 1e-9;

/// Bins of a sketch: at one percent they reach over 17 orders of magnitude.
const BINS: u32 = 2_048;

/// 2 to the power of this is the number of registers of a distinct count.
const LOG_REGISTERS: u8 = 12;

/// See [`approx_quantiles`].
#[derive(Clone, Copy, Debug)]
pub struct ApproxQuantiles<F, const N: usize> {
    parts: [f64; N],
    accuracy: f64,
    value: F,
}

/// As [`quantiles`](super::quantiles), but each is only within a percent of a value that lies there;
/// [`accuracy`](ApproxQuantiles::accuracy) makes it more or less than a percent. It takes a few
/// kilobytes, however many values there are.
///
/// Values nearer to zero than 10^-9 count as zero. Where values differ by more than 17 orders of
/// magnitude, the percent holds for the largest of them.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, approx_quantiles};
/// let tail = approx_quantiles([0.5, 0.99], |v: &f64| *v);
/// let mut acc = tail.create();
/// (1..=1_000).for_each(|n| tail.add(&mut acc, &f64::from(n)));
/// let [half, most] = tail.finish(&acc).unwrap().unwrap();
/// assert!((half - 500.0).abs() <= 5.0 && (most - 990.0).abs() <= 9.9);
/// ```
pub fn approx_quantiles<T, V, F, const N: usize>(parts: [f64; N], value: F) -> ApproxQuantiles<F, N>
where
    V: Summable,
    F: Fn(&T) -> V,
{
    ApproxQuantiles { parts, accuracy: 0.01, value }
}

impl<F, const N: usize> ApproxQuantiles<F, N> {
    /// Within what part of itself a quantile is right: 0.01 is a percent. Refused where it is not
    /// between 0.0001 and 0.5.
    pub fn accuracy(self, accuracy: f64) -> Self {
        Self { accuracy, ..self }
    }
}

/// The values so far, by their order of magnitude.
#[derive(Clone, Serialize, Deserialize)]
pub struct QuantileSketch {
    finite: DDSketch,
    /// How many are infinite, below and above all others: no bin is for them.
    below: u64,
    above: u64,
}

impl QuantileSketch {
    fn quantile(&self, part: f64) -> f64 {
        let finite = self.finite.count() as u64;
        let at = part * (self.below + finite + self.above - 1) as f64;
        if at < self.below as f64 {
            return f64::NEG_INFINITY;
        }
        let at = at - self.below as f64;
        if finite == 0 || at > (finite - 1) as f64 {
            return f64::INFINITY;
        }
        let part = if finite == 1 { 0.0 } else { (at / (finite - 1) as f64).min(1.0) };
        self.finite.quantile(part).ok().flatten().unwrap_or(f64::NAN)
    }
}

impl<T, V, F, const N: usize> Aggregate<T> for ApproxQuantiles<F, N>
where
    V: Summable,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = QuantileSketch;
    type Out = Option<[f64; N]>;

    fn check(&self) -> Result<(), InvalidAggregate> {
        if !(0.000_1..=0.5).contains(&self.accuracy) {
            return Err(InvalidAggregate::Accuracy(self.accuracy));
        }
        check_parts(&self.parts)
    }

    fn create(&self) -> QuantileSketch {
        let finite = DDSketch::new(Config::new(self.accuracy, BINS, SMALLEST));
        QuantileSketch { finite, below: 0, above: 0 }
    }

    #[inline]
    fn add(&self, acc: &mut QuantileSketch, value: &T) {
        let value = (self.value)(value).as_f64();
        if value.is_finite() {
            acc.finite.add(value);
        } else {
            acc.below += u64::from(value == f64::NEG_INFINITY);
            acc.above += u64::from(value == f64::INFINITY);
        }
    }

    fn merge(&self, acc: &mut QuantileSketch, other: &QuantileSketch) {
        acc.finite.merge(&other.finite).expect("sketches of one aggregate are alike");
        acc.below += other.below;
        acc.above += other.above;
    }

    fn finish(&self, acc: &QuantileSketch) -> Result<Option<[f64; N]>, Overflow> {
        let some = acc.finite.count() > 0 || acc.below + acc.above > 0;
        Ok(some.then(|| self.parts.map(|part| acc.quantile(part))))
    }
}

/// See [`approx_distinct_count`].
#[derive(Clone, Copy, Debug)]
pub struct ApproxDistinctCount<F>(F);

/// About how many different values `value` gives, as `u64`: up to a few dozen exactly, beyond within
/// about 1.6 % as a rule (one standard deviation). It takes up to four kilobytes, however many there
/// are.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, approx_distinct_count};
/// let visitors = approx_distinct_count(|v: &u64| *v);
/// let mut acc = visitors.create();
/// (0..100_000).for_each(|n| visitors.add(&mut acc, &(n % 20_000)));
/// assert!(visitors.finish(&acc).unwrap().abs_diff(20_000) < 1_000);
/// ```
pub fn approx_distinct_count<T, V: Hash, F: Fn(&T) -> V>(value: F) -> ApproxDistinctCount<F> {
    ApproxDistinctCount(value)
}

/// What is left of the different values so far.
#[derive(Clone)]
pub struct DistinctSketch(HllSketch);

/// The bytes in which all implementations of this sketch write it.
impl Serialize for DistinctSketch {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        self.0.serialize().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DistinctSketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        HllSketch::deserialize(&bytes).map(Self).map_err(D::Error::custom)
    }
}

impl<T, V, F> Aggregate<T> for ApproxDistinctCount<F>
where
    V: Hash,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = DistinctSketch;
    type Out = u64;

    fn create(&self) -> DistinctSketch {
        let sketch = HllSketch::new(LOG_REGISTERS, HllType::Hll8);
        DistinctSketch(sketch.expect("so many registers are possible"))
    }

    #[inline]
    fn add(&self, acc: &mut DistinctSketch, value: &T) {
        acc.0.update((self.0)(value));
    }

    fn merge(&self, acc: &mut DistinctSketch, other: &DistinctSketch) {
        let mut union = HllUnion::new(LOG_REGISTERS).expect("so many registers are possible");
        union.update(&acc.0);
        union.update(&other.0);
        acc.0 = union.to_sketch(HllType::Hll8);
    }

    fn finish(&self, acc: &DistinctSketch) -> Result<u64, Overflow> {
        // Unlike the sketch's own best guess this does not depend on the order of values.
        Ok(acc.0.composite_estimate().round() as u64)
    }
}
