//! Events by time, and those of one time by something else.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::time::{Timestamp, is_late};

/// Holds events back and gives them in order of time, those of one time in order of what a function makes
/// of them, and where that is equal too as they came.
///
/// An event comes out, at its own time, when the clock has passed it, or before that when one of its key
/// has come that is more than the bound later. One that comes after a later one has come out is handed on
/// at once.
pub struct Sort<F, O> {
    bound: Length,
    by: F,
    keys: PhantomData<fn() -> O>,
}

impl<F, O> Sort<F, O> {
    /// Sorts events that are at most `bound` out of order, by time and then `by`.
    pub fn new(bound: Duration, by: F) -> Self {
        Self { bound: Length::new(bound), by, keys: PhantomData }
    }
}

/// Events that are being sorted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "T: Serialize, O: Serialize",
    deserialize = "T: Deserialize<'de>, O: Deserialize<'de> + Ord"
))]
pub struct Sorting<T, O> {
    held: BTreeMap<(Timestamp, O, u64), T>,
    arrivals: u64,
    newest: Timestamp,
    released: Timestamp,
}

impl<T, O, F> Rule<T> for Sort<F, O>
where
    T: Send + 'static,
    O: Ord + Send + 'static,
    F: Fn(&T) -> O + Send + Sync + 'static,
{
    type State = Sorting<T, O>;
    type Out = T;

    const WAITS: bool = true;

    fn start(&self) -> Self::State {
        let (newest, released) = (Timestamp::MIN, Timestamp::MIN);
        Sorting { held: BTreeMap::new(), arrivals: 0, newest, released }
    }

    fn event(&self, state: &mut Self::State, event: Event<T>, late: bool) -> Answer<T> {
        let Event { time, value } = event;
        if late || is_late(time, state.released) {
            return Answer::Emit(value);
        }
        state.arrivals += 1;
        state.newest = state.newest.max(time);
        state.held.insert((time, (self.by)(&value), state.arrivals), value);
        Answer::Nothing
    }

    fn due(&self, state: &Self::State) -> Option<Timestamp> {
        let (&(first, _, _), _) = state.held.first_key_value()?;
        let overdue = is_late(self.bound.after(first), state.newest);
        Some(if overdue { Timestamp::MIN } else { first.next() })
    }

    fn wake(&self, state: &mut Self::State, _: Timestamp) -> Option<Event<T>> {
        let ((time, _, _), value) = state.held.pop_first()?;
        state.released = time;
        Some(Event::new(time, value))
    }
}
