//! The latest event of every period.

use std::time::Duration;

use super::{Answer, Length, Rule, keep_latest};
use crate::event::Event;
use crate::time::Timestamp;

/// Gives the latest event of each period that has one, as a window would: periods are side by side and
/// aligned to zero, include their beginning and exclude their end, and what comes out happens one
/// microsecond before the end. Of events at one time the last to arrive is the latest.
pub struct Sample {
    period: Length,
}

impl Sample {
    /// One event per `period`; less than a microsecond counts as one.
    pub fn new(period: Duration) -> Self {
        Self { period: Length(Length::new(period).0.max(1)) }
    }

    /// The end of the period that `time` is in.
    fn end(&self, time: Timestamp) -> Timestamp {
        let phase = time.as_micros().rem_euclid(self.period.0);
        Timestamp::from_micros(time.as_micros().saturating_add(self.period.0 - phase))
    }
}

impl<T: Send + 'static> Rule<T> for Sample {
    /// The latest event of the period, and its time.
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
        latest.as_ref().map(|held| self.end(held.0))
    }

    fn wake(&self, latest: &mut Self::State, due: Timestamp) -> Option<Event<T>> {
        latest.take().map(|(_, value)| Event::new(due.previous(), value))
    }
}
