//! Tumbling and hopping windows of event time, over all events or per key.
//!
//! A window is `[start, end)`. It closes when the clock reaches its end, before the watermark is
//! passed on or the event at that time is taken, and gives one result per key that has an event in
//! it. Windows are kept as slices: the stretches between neighbouring bounds of any window, at most
//! two per hop. An event goes into one slice; a window that closes is merged from its slices.

mod operator;
mod slices;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use operator::Window;
pub use slices::WindowState;
pub(super) use slices::{Nowhere, Slices, clock_at};

use crate::time::Timestamp;

/// Which windows there are.
///
/// Without an offset one of them starts at the epoch; there are windows before it too. Where a hop
/// is longer than the size, an event in a gap belongs to no window: it is filtered out, uncounted.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::operator::Windows;
/// let ten_every_three = Windows::hopping(Duration::from_secs(10), Duration::from_secs(3));
/// assert!(ten_every_three.check().is_ok());
/// let empty = Windows::tumbling(Duration::ZERO).check().unwrap_err();
/// assert_eq!(empty.to_string(), "the window size is zero");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    size: Duration,
    hop: Duration,
    offset: Duration,
}

/// Windows that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWindow {
    /// A size or a hop of nothing.
    #[error("the window {parameter} is zero")]
    Zero {
        /// "size" or "hop".
        parameter: &'static str,
    },
    /// Time stamps are whole microseconds, and so are the bounds of windows.
    #[error("the window {parameter} {duration:?} is not a whole number of microseconds")]
    Fraction {
        /// "size", "hop" or "offset".
        parameter: &'static str,
        /// What was given.
        duration: Duration,
    },
    /// Longer than time stamps reach.
    #[error("the window {parameter} {duration:?} is longer than 2^63 microseconds")]
    TooLong {
        /// "size", "hop" or "offset".
        parameter: &'static str,
        /// What was given.
        duration: Duration,
    },
}

impl Windows {
    /// Windows of `size` side by side.
    pub const fn tumbling(size: Duration) -> Self {
        Self::hopping(size, size)
    }

    /// Windows of `size`, one starting every `hop`. Neither needs to divide the other.
    pub const fn hopping(size: Duration, hop: Duration) -> Self {
        Self { size, hop, offset: Duration::ZERO }
    }

    /// The same windows, later by `offset`.
    pub const fn offset(self, offset: Duration) -> Self {
        Self { offset, ..self }
    }

    /// Whether there can be such windows.
    pub fn check(&self) -> Result<(), InvalidWindow> {
        for (parameter, duration) in
            [("size", self.size), ("hop", self.hop), ("offset", self.offset)]
        {
            if duration.is_zero() && parameter != "offset" {
                return Err(InvalidWindow::Zero { parameter });
            }
            if !duration.subsec_nanos().is_multiple_of(1_000) {
                return Err(InvalidWindow::Fraction { parameter, duration });
            }
            if i64::try_from(duration.as_micros()).is_err() {
                return Err(InvalidWindow::TooLong { parameter, duration });
            }
        }
        Ok(())
    }
}

/// What a window gives for a key. Its event time is one microsecond before the window's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Windowed<K, V> {
    /// The key; `()` where the window is over all events.
    pub key: K,
    /// The first instant in the window.
    pub start: Timestamp,
    /// The first instant after the window.
    pub end: Timestamp,
    /// The aggregate's result.
    pub value: V,
}

/// The bounds of windows in microseconds, 128 bits wide so that they go on past both ends of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    size: i128,
    hop: i128,
    offset: i128,
}

impl Grid {
    pub fn new(windows: &Windows) -> Self {
        let micros = |duration: Duration| duration.as_micros() as i128;
        Self {
            size: micros(windows.size),
            hop: micros(windows.hop),
            offset: micros(windows.offset),
        }
    }

    /// The first and the last instant of the slice that `time` falls into; `None` in a gap.
    fn slice(&self, time: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let time = i128::from(time.as_micros());
        let phase = (time - self.offset).rem_euclid(self.hop);
        let base = time - phase;
        // In each hop a window starts at its beginning, and one ends this far into it.
        let cut = self.size % self.hop;
        let (from, to) = if cut == 0 {
            (base, base + self.hop)
        } else if phase < cut {
            (base, base + cut)
        } else if self.hop > self.size {
            return None;
        } else {
            (base + cut, base + self.hop)
        };
        Some((saturated(from), saturated(to - 1)))
    }

    /// The earliest end of a window that is later than `time`.
    fn end_after(&self, time: i128) -> i128 {
        let first = self.offset + self.size;
        first + ((time - first).div_euclid(self.hop) + 1) * self.hop
    }
}

fn saturated(micros: i128) -> Timestamp {
    Timestamp::from_micros(micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(all(test, not(loom)))]
mod tests;
