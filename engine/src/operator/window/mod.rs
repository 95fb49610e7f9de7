//! Windows: over all events or per key.
//!
//! | made by | over | an operator in |
//! |---|---|---|
//! | [`Windows::tumbling`], [`hopping`](Windows::hopping) | event time | `operator.rs` |
//! | [`cumulative`](Windows::cumulative), [`daily`](Windows::daily), [`weekly`](Windows::weekly), [`monthly`](Windows::monthly) | event time | `aligned/` |
//! | [`session`](Windows::session) | event time, each key its own | `session.rs` |
//! | [`count`](Windows::count), [`sliding_count`](Windows::sliding_count) | numbers of events | `driven.rs`, `count.rs` |
//! | [`between`](Windows::between) | from one event to another | `driven.rs`, `between.rs` |
//!
//! Tumbling and hopping windows: a window is `[start, end)`. It closes when the clock reaches its end, before the watermark is
//! passed on or the event at that time is taken, and gives one result per key that has an event in
//! it. Windows are kept as slices: the stretches between neighbouring bounds of any window, at most
//! two per hop. An event goes into one slice; a window that closes is merged from its slices.

mod aligned;
mod between;
mod count;
mod driven;
mod kind;
mod operator;
mod processing;
mod session;
mod slices;
mod updates;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use aligned::{
    Aligned, AlignedState, AlignedWindow, Bounds, Calendar, Cumulative, Laid, Layout,
};
pub use between::Between;
pub use count::{CountWindows, Counted};
pub use driven::{Driven, DrivenState, Rule, Stretch};
pub use kind::WindowKind;
pub use operator::Window;
pub use processing::ProcessingWindow;
pub use session::{SessionState, SessionWindow, Sessions};
pub use slices::WindowState;
pub(super) use slices::{Nowhere, Slices, clock_at};
pub use updates::{Trigger, Updatable, Updates};

use crate::time::Timestamp;

/// Which windows there are: tumbling or hopping ones, if it is a value; other kinds are values of their
/// own types, made by functions here too.
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWindow {
    /// A size, a hop, a gap or a count of nothing.
    #[error("the window {parameter} is zero")]
    Zero {
        /// "size", "hop", "gap", "count", "trigger", ...
        parameter: &'static str,
    },
    /// Time stamps are whole microseconds, and so are the bounds of windows.
    #[error("the window {parameter} {duration:?} is not a whole number of microseconds")]
    Fraction {
        /// "size", "hop", "offset", "gap", "lateness", ...
        parameter: &'static str,
        /// What was given.
        duration: Duration,
    },
    /// A time zone that the system does not know.
    #[error("there is no time zone {zone:?}")]
    UnknownZone {
        /// What was given.
        zone: String,
    },
    /// An offset as long as the windows of a calendar or longer.
    #[error("the window offset {offset:?} is not less than the shortest window")]
    Offset {
        /// What was given.
        offset: Duration,
    },
    /// Longer than time stamps reach.
    #[error("the window {parameter} {duration:?} is longer than 2^63 microseconds")]
    TooLong {
        /// "size", "hop", "offset", "gap", "lateness", ...
        parameter: &'static str,
        /// What was given.
        duration: Duration,
    },
}

/// Whether the parameter is not zero.
fn not_zero(parameter: &'static str, holds: bool) -> Result<(), InvalidWindow> {
    if holds { Ok(()) } else { Err(InvalidWindow::Zero { parameter }) }
}

/// Whether the parameter can be added to time stamps.
fn check_duration(parameter: &'static str, duration: Duration) -> Result<(), InvalidWindow> {
    if !duration.subsec_nanos().is_multiple_of(1_000) {
        return Err(InvalidWindow::Fraction { parameter, duration });
    }
    if i64::try_from(duration.as_micros()).is_err() {
        return Err(InvalidWindow::TooLong { parameter, duration });
    }
    Ok(())
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
            not_zero(parameter, !duration.is_zero() || parameter == "offset")?;
            check_duration(parameter, duration)?;
        }
        Ok(())
    }
}

/// What a window gives for a key. Its event time is one microsecond before the window's end, that of an
/// early result the time at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Windowed<K, V> {
    /// The key; `()` where the window is over all events.
    pub key: K,
    /// The first instant in the window.
    pub start: Timestamp,
    /// The first instant after the window.
    pub end: Timestamp,
    /// Which of the window's results it is: the final one, unless more were asked for.
    pub phase: Phase,
    /// The aggregate's result.
    pub value: V,
}

impl<K, V> Windowed<K, V> {
    /// The same window with what `f` makes of its value.
    ///
    /// ```
    /// use mizzle_engine::operator::{Phase, Windowed};
    /// use mizzle_engine::time::Timestamp;
    /// let (start, end) = (Timestamp::EPOCH, Timestamp::from_secs(1));
    /// let window = Windowed { key: 'a', start, end, phase: Phase::Final, value: 20 };
    /// assert_eq!(window.map(|value| value + 1).value, 21);
    /// ```
    pub fn map<U>(self, f: impl FnOnce(V) -> U) -> Windowed<K, U> {
        let (window, value) = self.take();
        let Windowed { key, start, end, phase, value: () } = window;
        Windowed { key, start, end, phase, value: f(value) }
    }

    /// The window and its value, apart.
    pub fn take(self) -> (Windowed<K, ()>, V) {
        let Self { key, start, end, phase, value } = self;
        (Windowed { key, start, end, phase, value: () }, value)
    }
}

/// Which of a window's results one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// The window is not over: see [`Trigger`].
    Early,
    /// The window is over.
    #[default]
    Final,
    /// The window was over, and a late event has changed it: this result takes the place of those of all
    /// windows of its key within its bounds.
    Corrected,
}

/// The bounds of windows in microseconds, 128 bits wide so that they go on past both ends of time.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
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
#[cfg(all(test, not(loom)))]
mod trials;
