//! The only place that reads the clock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Timestamp;
use crate::sync::atomic::{AtomicI64, Ordering};

/// Processing time, as the engine sees it.
///
/// Tests hand the engine a [`ManualClock`]; everything else uses [`SystemClock`].
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary origin; never goes back.
    fn monotonic(&self) -> Duration;

    /// Whether somebody moves it by hand, so that waiting does not make it go on.
    fn is_manual(&self) -> bool {
        false
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::EPOCH + after,
            Err(before) => Timestamp::EPOCH - before.duration(),
        }
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that stands still until it is told to move.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::time::{Clock, ManualClock, Timestamp};
/// let clock = ManualClock::default();
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Timestamp::from_secs(2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    micros: Arc<AtomicI64>,
}

impl ManualClock {
    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        // Relaxed: the clock orders nothing but itself.
        self.micros.fetch_add(super::timestamp::micros(by), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed).max(0) as u64)
    }

    fn is_manual(&self) -> bool {
        true
    }
}
