//! At most one event per period: the first at once, then the latest.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::time::{Timestamp, is_late};

/// Lets the first event pass and begins a period with it; what came last in a period comes out at its
/// end, at that time, and begins the next one. After a period without events the next one passes at
/// once again.
pub struct Latest {
    period: Length,
}

impl Latest {
    /// At most one event in any `period`.
    pub fn new(period: Duration) -> Self {
        Self { period: Length::new(period) }
    }
}

/// A period, and the latest event in it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Waiting<T> {
    until: Option<Timestamp>,
    newest: Timestamp,
    held: Option<T>,
}

impl<T: Send + 'static> Rule<T> for Latest {
    type State = Waiting<T>;
    type Out = T;

    fn start(&self) -> Waiting<T> {
        Waiting { until: None, newest: Timestamp::MIN, held: None }
    }

    fn event(&self, state: &mut Waiting<T>, event: Event<T>, _: bool) -> Answer<T> {
        let Event { time, value } = event;
        if state.until.is_none() {
            state.until = Some(self.period.after(time));
            state.newest = time;
            return Answer::Emit(value);
        }
        if !is_late(time, state.newest) {
            state.newest = time;
            state.held = Some(value);
        }
        Answer::Nothing
    }

    fn due(&self, state: &Waiting<T>) -> Option<Timestamp> {
        state.until
    }

    fn wake(&self, state: &mut Waiting<T>, due: Timestamp) -> Option<Event<T>> {
        let held = state.held.take();
        state.until = held.is_some().then(|| self.period.after(due));
        held.map(|value| Event::new(due, value))
    }
}
