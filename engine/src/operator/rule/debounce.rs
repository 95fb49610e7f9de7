//! The last event before it is quiet.

use std::time::Duration;

use super::{Answer, Length, Rule, keep_latest};
use crate::event::Event;
use crate::time::Timestamp;

/// Gives the last event of a burst once nothing has come for a quiet time, at the moment at which that
/// is over. An event exactly then begins the next burst.
pub struct Debounce {
    quiet: Length,
}

impl Debounce {
    /// A burst is over after `quiet` without an event.
    pub fn new(quiet: Duration) -> Self {
        Self { quiet: Length::new(quiet) }
    }
}

impl<T: Send + 'static> Rule<T> for Debounce {
    /// The latest event of the burst, and its time.
    type State = Option<(Timestamp, T)>;
    type Out = T;

    fn start(&self) -> Self::State {
        None
    }

    fn event(&self, latest: &mut Self::State, event: Event<T>, _: bool) -> Answer<T> {
        keep_latest(latest, event);
        Answer::Nothing
    }

    fn due(&self, latest: &Self::State) -> Option<Timestamp> {
        latest.as_ref().map(|held| self.quiet.after(held.0))
    }

    fn wake(&self, latest: &mut Self::State, due: Timestamp) -> Option<Event<T>> {
        latest.take().map(|(_, value)| Event::new(due, value))
    }
}
