//! Processing time: what the clock shows, for the operators that go by it.
//!
//! | what | how it is |
//! |---|---|
//! | what the time is | what the engine's clock shows when the first event of a batch asks; the same for all events of the batch, and it never goes back, whatever is done to the clock |
//! | an event | is never counted at an earlier time than that at which it was pushed or read |
//! | something due at `d` | happens when the clock reaches `d`, though no event comes, and before events that come then |
//! | who waits | the engine's one timer queue; a query with nothing due costs nothing |
//! | a full inbox downstream, a busy worker | it happens later, and once |
//! | end of the stream, drain | everything pending fires once, behind the event-time timers; what is set meanwhile is dropped |
//! | stop, cancel | nothing fires |
//! | saved and restored | what is due stays due; what became due meanwhile fires at the first look |
//! | an ordered chain | gets its events in order of event time, and processing time is when they come out of the reorder stage |
//! | results | are not reproducible: another run has another clock |
//! | the event time of what is emitted | of a timer the newest that its operator has seen, of a window one microsecond before its end, and in no case before the watermark |
//! | a group's members | have no processing time: a window by it is refused in their template, and who asks for it fails |

use std::sync::Arc;

use super::Cx;
use crate::time::{Clock, Timestamp};

/// What a chain knows of processing time.
pub(super) struct ProcessingTime {
    clock: Arc<dyn Clock>,
    /// What the clock showed when it was last asked; never goes back.
    now: Timestamp,
    /// Whether it was asked in this batch.
    is_fresh: bool,
    /// When the chain is to be run though nothing comes.
    wake_at: Option<Timestamp>,
}

impl Cx {
    /// For a chain with an operator that goes by `clock`.
    pub fn by_clock(&mut self, clock: Arc<dyn Clock>) {
        let time = ProcessingTime { clock, now: Timestamp::MIN, is_fresh: false, wake_at: None };
        self.processing = Some(Box::new(time));
    }

    /// The processing time of this batch. `None`: nobody here goes by it.
    #[inline]
    pub fn now(&mut self) -> Option<Timestamp> {
        let time = self.processing.as_mut()?;
        if !time.is_fresh {
            time.is_fresh = true;
            time.now = time.now.max(time.clock.now());
        }
        Some(time.now)
    }

    /// Has the chain run when the clock shows `due`, though nothing comes. Said anew at each
    /// [`flush`](super::Consumer::flush); the earliest counts.
    pub(super) fn wake_at(&mut self, due: Timestamp) {
        if let Some(time) = &mut self.processing {
            time.wake_at = super::earlier(time.wake_at, Some(due));
        }
    }

    /// Another batch begins: the clock may have moved on, and what is to be woken for is said anew.
    #[inline]
    pub(crate) fn begin_batch(&mut self) {
        if let Some(time) = &mut self.processing {
            time.is_fresh = false;
            time.wake_at = None;
        }
    }

    /// When the chain is to be run though nothing comes.
    pub(crate) fn waking_at(&self) -> Option<Timestamp> {
        self.processing.as_ref()?.wake_at
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::ManualClock;

    #[test]
    fn the_time_stands_still_within_a_batch_and_never_goes_back() {
        let mut cx = Cx::default();
        assert_eq!(cx.now(), None);
        struct Back(ManualClock);
        impl Clock for Back {
            fn now(&self) -> Timestamp {
                Timestamp::EPOCH - self.0.monotonic()
            }
            fn monotonic(&self) -> Duration {
                self.0.monotonic()
            }
        }
        let clock = ManualClock::default();
        cx.by_clock(Arc::new(clock.clone()));
        cx.begin_batch();
        assert_eq!(cx.now(), Some(Timestamp::EPOCH));
        clock.advance(Duration::from_secs(1));
        assert_eq!(cx.now(), Some(Timestamp::EPOCH));
        cx.begin_batch();
        assert_eq!(cx.now(), Some(Timestamp::from_secs(1)));
        cx.by_clock(Arc::new(Back(clock.clone())));
        let before = cx.now();
        clock.advance(Duration::from_secs(1));
        cx.begin_batch();
        assert_eq!(cx.now(), before);
    }

    #[test]
    fn the_earliest_that_was_said_in_the_last_flush_counts() {
        let mut cx = Cx::default();
        cx.by_clock(Arc::new(ManualClock::default()));
        let at = Timestamp::from_secs;
        cx.begin_batch();
        [at(5), at(3), at(4)].into_iter().for_each(|due| cx.wake_at(due));
        assert_eq!(cx.waking_at(), Some(at(3)));
        cx.begin_batch();
        assert_eq!(cx.waking_at(), None);
    }
}
