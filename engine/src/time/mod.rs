//! Event time: time stamps, the two comparisons everything rests on, watermarks and disorder.
//!
//! One sentence holds the rest together: **a watermark `w` promises that no later event is earlier
//! than `w`**. An event with a time below the promise is late, one exactly at it is on time
//! ([`is_late`]); what is due at `d` happens when the clock reaches `d`, before events at `d`
//! ([`is_due`]). No other code compares a time with a watermark.

mod buckets;
mod clock;
mod inputs;
mod merge;
mod reorder;
mod sort;
mod timestamp;
mod turns;
mod watermark;

pub use clock::{Clock, ManualClock, SystemClock};
pub use inputs::{Inputs, Status};
/// A duration that may be negative: bounds of joins.
pub use jiff::SignedDuration;
pub use merge::Merge;
pub use reorder::Reorder;
pub use timestamp::Timestamp;
pub(crate) use timestamp::micros;
pub use watermark::{InvalidWatermarks, Plain, Timing, Verdict, WatermarkGenerator, Watermarks};

/// Whether an event at `time` breaks the promise of `watermark`.
///
/// ```
/// use mizzle_engine::time::{Timestamp, is_late};
/// let w = Timestamp::from_millis(10);
/// assert!(is_late(Timestamp::from_millis(9), w));
/// assert!(!is_late(Timestamp::from_millis(10), w));
/// ```
#[inline(always)]
pub fn is_late(time: Timestamp, watermark: Timestamp) -> bool {
    time < watermark
}

/// Whether something due at `due` must happen once the clock shows `clock`.
///
/// ```
/// use mizzle_engine::time::{Timestamp, is_due};
/// let window_end = Timestamp::from_millis(10);
/// assert!(is_due(window_end, Timestamp::from_millis(10)));
/// assert!(!is_due(window_end, Timestamp::from_millis(9)));
/// ```
#[inline(always)]
pub fn is_due(due: Timestamp, clock: Timestamp) -> bool {
    due <= clock
}
