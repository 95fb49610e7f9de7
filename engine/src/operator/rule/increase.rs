//! By how much a counter grows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, InvalidRule, Rule};
use crate::event::Event;
use crate::time::{Timestamp, is_late};

/// What a counter does that is lower than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// It was reset and has counted from zero since: what it shows is the increase.
    Resets,
    /// It has so many bits, and has gone past its highest value, to zero and on.
    Wraps(u32),
}

impl Counter {
    /// Whether there can be such a counter.
    pub fn check(self) -> Result<(), InvalidRule> {
        match self {
            Counter::Wraps(bits) if !(1..=64).contains(&bits) => Err(InvalidRule::Bits(bits)),
            _ => Ok(()),
        }
    }

    /// By how much it has grown that showed `before` and shows `now`.
    fn increase(self, before: u64, now: u64) -> u64 {
        match self {
            Counter::Resets if now < before => now,
            Counter::Resets => now - before,
            Counter::Wraps(bits) => now.wrapping_sub(before) & (u64::MAX >> (64 - bits)),
        }
    }
}

/// How a counter has grown from one event to the next of its key. Never less than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Increase<T> {
    /// The event.
    pub value: T,
    /// By how much.
    pub by: u64,
    /// Since when: the time between the two events.
    pub over: Duration,
}

impl<T> Increase<T> {
    /// The rate: the increase per second; `None` if no time passed between the two events.
    pub fn per_second(&self) -> Option<f64> {
        (!self.over.is_zero()).then(|| self.by as f64 / self.over.as_secs_f64())
    }
}

/// Gives by how much a counter has grown at each event but the first of a key. Unflagged, an event that
/// comes after a newer one is counted as late: what it shows would look like a reset.
pub struct Increases<F> {
    counter: F,
    kind: Counter,
}

impl<F> Increases<F> {
    /// The counter that `counter` finds in an event.
    pub fn new(counter: F, kind: Counter) -> Self {
        Self { counter, kind }
    }
}

impl<T, F> Rule<T> for Increases<F>
where
    T: Send + 'static,
    F: Fn(&T) -> u64 + Send + Sync + 'static,
{
    /// The time of the event before, and what the counter showed.
    type State = Option<(Timestamp, u64)>;
    type Out = Increase<T>;

    const LASTS: bool = true;

    fn start(&self) -> Self::State {
        None
    }

    fn event(&self, before: &mut Self::State, event: Event<T>, _: bool) -> Answer<Increase<T>> {
        let Event { time, value } = event;
        if before.is_some_and(|(newest, _)| is_late(time, newest)) {
            return Answer::Late;
        }
        let now = (self.counter)(&value);
        let before = before.replace((time, now));
        let increase = before.map(|(since, before)| {
            let by = self.kind.increase(before, now);
            Increase { value, by, over: time.since(since) }
        });
        increase.into()
    }
}
