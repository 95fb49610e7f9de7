//! How many events there were in the last while.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::time::{Timestamp, is_due};

/// When the events in the window happened, in order. Of one that comes after a newer one it is noted
/// that it happened then.
type Times = VecDeque<Timestamp>;

/// Notes an event at `time`, and lets those go that have left the window.
#[inline]
fn note(times: &mut Times, window: Length, time: Timestamp) {
    let now = times.back().map_or(time, |&newest| newest.max(time));
    leave(times, window, now);
    times.push_back(now);
}

fn leave(times: &mut Times, window: Length, now: Timestamp) {
    while times.front().is_some_and(|&oldest| is_due(window.after(oldest), now)) {
        times.pop_front();
    }
}

/// When the window is empty, if nothing comes.
fn empty_at(times: &Times, window: Length) -> Option<Timestamp> {
    times.back().map(|&newest| window.after(newest))
}

/// Gives each event with the number of events of its key in `(time - window, time]`, itself included.
pub struct CountWithin {
    window: Length,
}

impl CountWithin {
    /// Counts the last `window`.
    pub fn new(window: Duration) -> Self {
        Self { window: Length::new(window) }
    }
}

impl<T: Send + 'static> Rule<T> for CountWithin {
    /// When the events in the window happened.
    type State = VecDeque<Timestamp>;
    type Out = (T, u64);

    fn start(&self) -> Times {
        Times::new()
    }

    #[inline]
    fn event(&self, times: &mut Times, event: Event<T>, _: bool) -> Answer<(T, u64)> {
        note(times, self.window, event.time);
        Answer::Emit((event.value, times.len() as u64))
    }

    fn due(&self, times: &Times) -> Option<Timestamp> {
        empty_at(times, self.window)
    }

    fn wake(&self, times: &mut Times, _: Timestamp) -> Option<Event<(T, u64)>> {
        times.clear();
        None
    }
}

/// Lets an event pass at which the number of events of its key in `(time - window, time]` reaches `n`,
/// if at the event before it, unless that has left the window too, the number was below `n`.
///
/// Remembers no more than `n` times of a key.
pub struct CountReaches {
    n: u64,
    window: Length,
}

impl CountReaches {
    /// `n` events within `window`.
    pub fn new(n: u64, window: Duration) -> Self {
        Self { n, window: Length::new(window) }
    }
}

impl<T: Send + 'static> Rule<T> for CountReaches {
    /// When the last `n` events in the window happened, and whether there were as many at the last.
    type State = (VecDeque<Timestamp>, bool);
    type Out = T;

    fn start(&self) -> Self::State {
        (Times::new(), false)
    }

    #[inline]
    fn event(&self, (times, high): &mut Self::State, event: Event<T>, _: bool) -> Answer<T> {
        note(times, self.window, event.time);
        if times.len() as u64 > self.n {
            times.pop_front();
        }
        let was = std::mem::replace(high, times.len() as u64 == self.n);
        if *high && !was { Answer::Emit(event.value) } else { Answer::Nothing }
    }

    fn due(&self, (times, _): &Self::State) -> Option<Timestamp> {
        empty_at(times, self.window)
    }

    fn wake(&self, (times, high): &mut Self::State, _: Timestamp) -> Option<Event<T>> {
        times.clear();
        *high = false;
        None
    }
}

/// A count has crossed a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Crossing<T> {
    /// With this event it has reached the threshold.
    Rising(T),
    /// It has fallen below the threshold; this was the newest event by then.
    Falling(T),
}

/// Gives the event at which the number of events of a key in `(now - window, now]` reaches `n`, and, at the
/// moment at which it falls below `n` again because one of them leaves the window, the newest event.
///
/// The count is looked at all the time, not only at events: where one leaves and another comes a little
/// later it falls and rises. Where both happen at one moment, it falls first.
pub struct CountEdges {
    n: u64,
    window: Length,
}

impl CountEdges {
    /// `n` events within `window`.
    pub fn new(n: u64, window: Duration) -> Self {
        Self { n, window: Length::new(window) }
    }
}

impl<T: Clone + Send + 'static> Rule<T> for CountEdges {
    /// When the last `n` events in the window happened, and the newest if there are as many.
    type State = (VecDeque<Timestamp>, Option<T>);
    type Out = Crossing<T>;

    fn start(&self) -> Self::State {
        (Times::new(), None)
    }

    fn event(
        &self,
        (times, newest): &mut Self::State,
        event: Event<T>,
        _: bool,
    ) -> Answer<Crossing<T>> {
        note(times, self.window, event.time);
        if times.len() as u64 > self.n {
            times.pop_front();
        }
        if newest.is_some() {
            *newest = Some(event.value);
        } else if times.len() as u64 == self.n {
            *newest = Some(event.value.clone());
            return Answer::Emit(Crossing::Rising(event.value));
        }
        Answer::Nothing
    }

    fn due(&self, (times, newest): &Self::State) -> Option<Timestamp> {
        match newest {
            Some(_) => times.front().map(|&oldest| self.window.after(oldest)),
            None => empty_at(times, self.window),
        }
    }

    fn wake(
        &self,
        (times, newest): &mut Self::State,
        due: Timestamp,
    ) -> Option<Event<Crossing<T>>> {
        leave(times, self.window, due);
        newest.take().map(|newest| Event::new(due, Crossing::Falling(newest)))
    }
}
