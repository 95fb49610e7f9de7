//! One event passes, and then none for a while.

use std::time::Duration;

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::time::{Timestamp, is_due};

/// Lets an event pass unless one of its key passed less than a lifetime before it.
///
/// What is suppressed does not make the lifetime longer. Unflagged, an event that comes after a newer one
/// passes if the two are at least a lifetime apart.
pub struct First {
    lifetime: Length,
}

impl First {
    /// What passes is remembered for `lifetime`.
    pub fn new(lifetime: Duration) -> Self {
        Self { lifetime: Length::new(lifetime) }
    }
}

impl<T: Send + 'static> Rule<T> for First {
    /// When the newest event passed.
    type State = Option<Timestamp>;
    type Out = T;

    fn start(&self) -> Self::State {
        None
    }

    #[inline]
    fn event(&self, passed: &mut Self::State, event: Event<T>, _: bool) -> Answer<T> {
        let Event { time, value } = event;
        match *passed {
            Some(at) if is_due(self.lifetime.after(time), at) => {}
            Some(at) if !is_due(self.lifetime.after(at), time) => return Answer::Nothing,
            _ => *passed = Some(time),
        }
        Answer::Emit(value)
    }

    fn due(&self, passed: &Self::State) -> Option<Timestamp> {
        passed.map(|at| self.lifetime.after(at))
    }

    fn wake(&self, passed: &mut Self::State, _: Timestamp) -> Option<Event<T>> {
        *passed = None;
        None
    }
}
