//! Quantiles, exactly.

use super::{Aggregate, InvalidAggregate, Overflow, Summable};

/// See [`quantiles`].
#[derive(Clone, Copy, Debug)]
pub struct Quantiles<F, const N: usize> {
    parts: [f64; N],
    value: F,
}

/// The values below which these parts of all lie: `quantiles([0.5, 0.99], ..)` are the median and the
/// 99th percentile. `0.0` is the smallest, `1.0` the largest.
///
/// Of `n` values in order, numbered from zero, the quantile `q` is the one at `q * (n - 1)`; between two
/// of them it is in between likewise. Keeps every value until the window is over; where they are very
/// many, [`approx_quantiles`](super::approx_quantiles) does not.
///
/// NaN is ignored; `None` if all are. A part that is not between 0 and 1 is refused.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, quantiles};
/// let middle = quantiles([0.5, 0.75], |v: &i32| *v);
/// let mut acc = middle.create();
/// [1, 2, 3, 4].iter().for_each(|value| middle.add(&mut acc, value));
/// assert_eq!(middle.finish(&acc), Ok(Some([2.5, 3.25])));
/// ```
pub fn quantiles<T, V, F, const N: usize>(parts: [f64; N], value: F) -> Quantiles<F, N>
where
    V: Summable,
    F: Fn(&T) -> V,
{
    Quantiles { parts, value }
}

/// Whether these are parts of a whole.
pub(super) fn check_parts(parts: &[f64]) -> Result<(), InvalidAggregate> {
    match parts.iter().find(|part| !(0.0..=1.0).contains(*part)) {
        Some(&part) => Err(InvalidAggregate::Quantile(part)),
        None => Ok(()),
    }
}

/// The quantile `part` of `sorted`, which is not empty.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    // Two infinities have no distance.
    if below == above { below } else { below + (above - below) * at.fract() }
}

impl<T, V, F, const N: usize> Aggregate<T> for Quantiles<F, N>
where
    V: Summable,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    type Acc = Vec<f64>;
    type Out = Option<[f64; N]>;

    fn check(&self) -> Result<(), InvalidAggregate> {
        check_parts(&self.parts)
    }

    fn create(&self) -> Vec<f64> {
        Vec::new()
    }

    #[inline]
    fn add(&self, acc: &mut Vec<f64>, value: &T) {
        let value = (self.value)(value).as_f64();
        if !value.is_nan() {
            acc.push(value);
        }
    }

    fn merge(&self, acc: &mut Vec<f64>, other: &Vec<f64>) {
        acc.extend_from_slice(other);
    }

    fn finish(&self, acc: &Vec<f64>) -> Result<Option<[f64; N]>, Overflow> {
        let mut sorted = acc.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let some = !sorted.is_empty();
        Ok(some.then(|| self.parts.map(|part| quantile(&sorted, part))))
    }
}
