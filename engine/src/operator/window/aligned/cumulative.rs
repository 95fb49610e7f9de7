//! Windows that start together and grow.

use std::time::Duration;

use super::super::{InvalidWindow, check_duration, not_zero};
use super::{Aligned, Bounds, Laid, Layout};

/// Windows that start together and grow: made by [`Windows::cumulative`](super::Windows::cumulative).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cumulative {
    size: Duration,
    step: Duration,
    offset: Duration,
}

impl Cumulative {
    pub(super) fn new(size: Duration, step: Duration) -> Self {
        Self { size, step, offset: Duration::ZERO }
    }
}

impl Aligned<Cumulative> {
    /// The same windows, later by `offset`.
    pub fn offset(mut self, offset: Duration) -> Self {
        self.windows.offset = offset;
        self
    }
}

/// The same in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    size: i128,
    step: i128,
    offset: i128,
}

impl Laid for Cumulative {
    type Layout = Steps;

    fn layout(&self) -> Result<Steps, InvalidWindow> {
        for (parameter, duration) in
            [("size", self.size), ("step", self.step), ("offset", self.offset)]
        {
            not_zero(parameter, !duration.is_zero() || parameter == "offset")?;
            check_duration(parameter, duration)?;
        }
        let micros = |duration: Duration| duration.as_micros() as i128;
        let (size, step, offset) = (micros(self.size), micros(self.step), micros(self.offset));
        Ok(Steps { size, step, offset })
    }
}

impl Steps {
    fn first(&self, time: i128) -> i128 {
        time - (time - self.offset).rem_euclid(self.size)
    }

    /// The end of the first window from `start` on that ends later than `after`.
    fn end(&self, start: i128, after: i128) -> i128 {
        let steps = (after - start).max(0).div_euclid(self.step) + 1;
        start + (steps * self.step).min(self.size)
    }
}

impl Layout for Steps {
    const NESTED: bool = true;

    fn is_single(&self) -> bool {
        false
    }

    fn next(&self, time: i64, after: i128) -> Option<Bounds> {
        let start = self.first(time.into());
        let end = self.end(start, after.max(time.into()));
        (end > after).then_some(Bounds { start, end })
    }

    fn end_after(&self, after: i64) -> i128 {
        let after = i128::from(after);
        self.end(self.first(after), after)
    }
}
