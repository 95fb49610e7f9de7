//! More than one result of a window: early ones, and corrected ones after late events.

use std::time::Duration;

use super::{InvalidWindow, Phase, Windowed, check_duration, not_zero};
use crate::event::Event;
use crate::operator::{Consumer, Cx};
use crate::time::{Timestamp, micros};

/// When a window gives early results, before it is over.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::operator::Trigger;
/// let often = Trigger::events(100);
/// let regularly = Trigger::interval(Duration::from_secs(1));
/// assert_ne!(often, regularly);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger(When);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Events(u64),
    Interval(Duration),
}

impl Trigger {
    /// After every `n`th event of a key in a window, at that event.
    pub const fn events(n: u64) -> Self {
        Self(When::Events(n))
    }

    /// Whenever event time comes to a multiple of `interval`, counted from time 0: for each key in each
    /// open window that has had an event since its last early result.
    pub const fn interval(interval: Duration) -> Self {
        Self(When::Interval(interval))
    }
}

/// What a kind of windows gives besides one final result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    lateness: Duration,
    events: Option<u64>,
    interval: Option<Duration>,
}

impl Updates {
    /// Keeps every window for this much longer than its end.
    pub fn allow(&mut self, lateness: Duration) {
        self.lateness = lateness;
    }

    /// Adds a trigger; one of each sort can be.
    pub fn early(&mut self, Trigger(when): Trigger) {
        match when {
            When::Events(n) => self.events = Some(n),
            When::Interval(interval) => self.interval = Some(interval),
        }
    }

    pub(super) fn check(&self) -> Result<(), InvalidWindow> {
        check_duration("lateness", self.lateness)?;
        not_zero("trigger", self.events != Some(0))?;
        if let Some(interval) = self.interval {
            not_zero("trigger", !interval.is_zero())?;
            check_duration("trigger", interval)?;
        }
        Ok(())
    }

    pub(super) fn started(&self) -> Pace {
        let lateness = micros(self.lateness);
        Pace { lateness, events: self.events, interval: self.interval.map(micros) }
    }
}

/// Kinds of windows that can give more than one result.
#[diagnostic::on_unimplemented(
    message = "`allowed_lateness` and `early` are for windows of event time",
    label = "these windows are over when an event says so, so none is late for them",
    note = "they stand behind `Windows::tumbling`, `hopping`, `cumulative`, `daily`, `weekly`, \
            `monthly` and `session`"
)]
pub trait Updatable: Sized {
    /// The kind of windows that does.
    type Updating: Updatable<Updating = Self::Updating>;

    /// The same windows, with what `change` changes.
    fn updated(self, change: impl FnOnce(&mut Updates)) -> Self::Updating;
}

/// The same in an operator, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    lateness: i64,
    events: Option<u64>,
    interval: Option<i64>,
}

/// The time so many microseconds after `time`; saturates.
#[inline(always)]
pub(super) fn after(time: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}

impl Pace {
    /// When a window that ends at `end` is let go of.
    #[inline]
    pub(super) fn kept_until(&self, end: Timestamp) -> Timestamp {
        after(end, self.lateness)
    }

    /// Every window that ends at or before this is let go of when the clock shows `clock`.
    #[inline]
    pub(super) fn gone(&self, clock: Timestamp) -> Timestamp {
        if clock == Timestamp::MAX { clock } else { after(clock, -self.lateness) }
    }

    #[inline]
    pub(super) fn corrects(&self) -> bool {
        self.lateness > 0
    }

    /// Whether an early result is due with the `count`th event.
    #[inline]
    pub(super) fn is_due_at(&self, count: u64) -> bool {
        self.events.is_some_and(|events| count.is_multiple_of(events))
    }

    /// The next time after `time` at which early results are due.
    #[inline]
    pub(super) fn tick_after(&self, time: Timestamp) -> Option<Timestamp> {
        let interval = self.interval?;
        let behind = time.as_micros().rem_euclid(interval);
        Some(after(time, interval - behind))
    }
}

/// Passes a result on. A corrected one, and any that a late event has called for, is late where later
/// results have been passed on already.
pub(super) fn pass_on<K, Out, N>(
    next: &N,
    state: &mut N::State,
    cx: &mut Cx,
    event: Event<Windowed<K, Out>>,
) where
    N: Consumer<Windowed<K, Out>>,
{
    let late = cx.late;
    cx.late = (late || event.value.phase == Phase::Corrected) && cx.is_past_correcting();
    next.event(state, cx, event);
    cx.late = late;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_multiples_of_the_interval_also_below_zero() {
        let mut updates = Updates::default();
        assert_eq!(updates.started().tick_after(Timestamp::EPOCH), None);
        updates.early(Trigger::interval(Duration::from_micros(10)));
        let after = |time| updates.started().tick_after(Timestamp::from_micros(time));
        assert_eq!(after(0), Some(Timestamp::from_micros(10)));
        assert_eq!(after(19), Some(Timestamp::from_micros(20)));
        assert_eq!(after(-1), Some(Timestamp::EPOCH));
        assert_eq!(after(-10), Some(Timestamp::EPOCH));
        assert_eq!(after(i64::MAX - 1), Some(Timestamp::MAX));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let text = |change: fn(&mut Updates)| {
            let mut updates = Updates::default();
            change(&mut updates);
            updates.check().unwrap_err().to_string()
        };
        assert_eq!(text(|it| it.early(Trigger::events(0))), "the window trigger is zero");
        let never = |it: &mut Updates| it.early(Trigger::interval(Duration::ZERO));
        assert_eq!(text(never), "the window trigger is zero");
        let fraction = text(|it| it.allow(Duration::from_nanos(1)));
        assert!(fraction.contains("lateness"), "{fraction}");
    }
}
