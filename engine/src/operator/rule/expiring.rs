//! State that does not outlive a silence.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::operator::earlier;
use crate::time::Timestamp;

/// A rule whose keys are forgotten when nothing has come for a time to live, counted from the newest event
/// of the key. What is to be said of a key then comes out at the moment at which it is forgotten.
pub struct Expiring<R, L> {
    rule: R,
    ttl: Length,
    last: L,
}

impl<R, L> Expiring<R, L> {
    /// `rule`, with keys that live for `ttl` without an event. `last` is asked for a last word about the
    /// state of a key that is forgotten.
    pub fn new(rule: R, ttl: Duration, last: L) -> Self {
        Self { rule, ttl: Length::new(ttl), last }
    }
}

/// A state, and when the newest event of its key was.
#[derive(Debug, Serialize, Deserialize)]
pub struct Touched<S> {
    state: S,
    at: Option<Timestamp>,
}

impl<T, R, L> Rule<T> for Expiring<R, L>
where
    R: Rule<T>,
    L: Fn(R::State) -> Option<R::Out> + Send + Sync + 'static,
{
    type State = Touched<R::State>;
    type Out = R::Out;

    const WAITS: bool = R::WAITS;

    fn start(&self) -> Self::State {
        Touched { state: self.rule.start(), at: None }
    }

    #[inline]
    fn event(&self, touched: &mut Self::State, event: Event<T>, late: bool) -> Answer<R::Out> {
        touched.at = touched.at.max(Some(event.time));
        self.rule.event(&mut touched.state, event, late)
    }

    fn due(&self, touched: &Self::State) -> Option<Timestamp> {
        let at = touched.at?;
        earlier(Some(self.ttl.after(at)), self.rule.due(&touched.state))
    }

    fn wake(&self, touched: &mut Self::State, due: Timestamp) -> Option<Event<R::Out>> {
        if self.rule.due(&touched.state) == Some(due) {
            return self.rule.wake(&mut touched.state, due);
        }
        touched.at = None;
        let state = std::mem::replace(&mut touched.state, self.rule.start());
        (self.last)(state).map(|word| Event::new(due, word))
    }
}
