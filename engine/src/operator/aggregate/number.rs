//! The numbers that aggregates take.

use serde::{Deserialize, Serialize};

use super::Overflow;

mod sealed {
    pub trait Sealed {}
}

/// A number that [`sum`](super::sum), [`mean`](super::mean) and their like take: every integer up to 64 bits, `f32` and `f64`.
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

    /// The number as a float: beyond 2^53 the nearest one.
    fn as_f64(self) -> f64;
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

            #[inline(always)]
            fn as_f64(self) -> f64 {
                self as f64
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

            #[inline(always)]
            fn as_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )* };
}

summable_floats!(f32 f64);
