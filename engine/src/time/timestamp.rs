//! A point in event time.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in event time: microseconds since the Unix epoch, negative before it.
///
/// Arithmetic saturates at [`Timestamp::MIN`] and [`Timestamp::MAX`] and never wraps, so that an
/// absurd time stamp in the data cannot turn a watermark around.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::time::Timestamp;
/// let t = Timestamp::from_millis(1_500);
/// assert_eq!((t + Duration::from_millis(1)).as_micros(), 1_501_000);
/// assert_eq!(Timestamp::MIN - Duration::from_secs(1), Timestamp::MIN);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Before every event: the watermark of a stream that has promised nothing yet.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After every event: the watermark of a stream that has ended.
    pub const MAX: Timestamp = Timestamp(i64::MAX);
    /// The Unix epoch.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the epoch; saturates.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// From seconds since the epoch; saturates.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The earliest time that is later than this one.
    ///
    /// What is due *after* an inclusive bound is armed here.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The latest time that is earlier than this one.
    ///
    /// A window's result carries the time before the window's end.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(i128::from(self.0).saturating_sub(i128::from(earlier.0)).max(0) as u64)
    }
}

/// A duration in whole microseconds, saturated to what a time stamp can hold.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(micros(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros(duration)))
    }
}

/// ISO 8601 in UTC where a calendar can express it, else microseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Timestamp::MIN => f.write_str("-inf"),
            Timestamp::MAX => f.write_str("+inf"),
            Timestamp(micros) => match jiff::Timestamp::from_microsecond(micros) {
                Ok(calendar) => calendar.fmt(f),
                Err(_) => write!(f, "{micros}us"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX + Duration::from_micros(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN - Duration::MAX, Timestamp::MIN);
        assert_eq!(Timestamp::from_secs(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.next(), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.previous(), Timestamp::MIN);
    }

    #[test]
    fn since_spans_the_whole_range() {
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN), Duration::from_micros(u64::MAX));
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn display_is_readable_at_both_ends() {
        assert_eq!(Timestamp::EPOCH.to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::MIN.to_string(), "-inf");
        assert_eq!(Timestamp::from_micros(i64::MAX - 1).to_string(), "9223372036854775806us");
    }

    #[test]
    fn milliseconds_round_down_below_zero() {
        assert_eq!(Timestamp::from_micros(-1).as_millis(), -1);
    }
}
