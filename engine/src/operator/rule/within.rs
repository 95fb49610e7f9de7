//! An aggregate over the last while, at every event.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Length, Rule};
use crate::event::Event;
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::time::{Timestamp, is_due};

/// Gives each event with what an aggregate makes of the events of its key in `(time - window, time]`,
/// itself included. One that comes after a newer one counts as if it happened then.
///
/// Nothing is ever taken back out of an accumulator: an event costs two merges on average, however many
/// there are in the window.
pub struct AggregateWithin<A> {
    window: Length,
    aggregate: A,
}

impl<A> AggregateWithin<A> {
    /// `aggregate` over the last `window`.
    pub fn new(window: Duration, aggregate: A) -> Self {
        Self { window: Length::new(window), aggregate }
    }
}

/// The events in a window: two stacks of accumulators.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recent<Acc> {
    /// The oldest event last; each with all events here that are later.
    older: Vec<(Timestamp, Acc)>,
    /// The newest event last; each alone.
    newer: Vec<(Timestamp, Acc)>,
    /// All of `newer`.
    total: Acc,
}

impl<Acc> Recent<Acc> {
    fn newest(&self) -> Option<Timestamp> {
        self.newer.last().or(self.older.first()).map(|event| event.0)
    }

    /// Lets those go that have left the window at `now`.
    fn leave<T, A: Aggregate<T, Acc = Acc>>(&mut self, now: Timestamp, by: &AggregateWithin<A>) {
        let left = |event: &(Timestamp, Acc)| is_due(by.window.after(event.0), now);
        if self.older.is_empty() && self.newer.first().is_some_and(left) {
            self.turn(&by.aggregate);
        }
        while self.older.last().is_some_and(left) {
            self.older.pop();
            if self.older.is_empty() && self.newer.first().is_some_and(left) {
                self.turn(&by.aggregate);
            }
        }
    }

    fn turn<T, A: Aggregate<T, Acc = Acc>>(&mut self, aggregate: &A) {
        for (time, mut acc) in self.newer.drain(..).rev() {
            if let Some((_, later)) = self.older.last() {
                aggregate.merge(&mut acc, later);
            }
            self.older.push((time, acc));
        }
        self.total = aggregate.create();
    }
}

impl<T, A> Rule<T> for AggregateWithin<A>
where
    T: Send + 'static,
    A: Aggregate<T>,
{
    type State = Recent<A::Acc>;
    type Out = (T, A::Out);

    fn start(&self) -> Self::State {
        Recent { older: Vec::new(), newer: Vec::new(), total: self.aggregate.create() }
    }

    fn event(&self, recent: &mut Self::State, event: Event<T>, _: bool) -> Answer<Self::Out> {
        let Event { time, value } = event;
        let now = recent.newest().map_or(time, |newest| newest.max(time));
        recent.leave(now, self);
        let mut alone = self.aggregate.create();
        self.aggregate.add(&mut alone, &value);
        self.aggregate.add(&mut recent.total, &value);
        recent.newer.push((now, alone));
        let made = match recent.older.last() {
            None => self.aggregate.finish(&recent.total),
            Some((_, older)) => {
                let mut all = self.aggregate.create();
                self.aggregate.merge(&mut all, older);
                self.aggregate.merge(&mut all, &recent.total);
                self.aggregate.finish(&all)
            }
        };
        match made {
            Ok(made) => Answer::Emit((value, made)),
            Err(Overflow) => Answer::Failed,
        }
    }

    fn due(&self, recent: &Self::State) -> Option<Timestamp> {
        recent.newest().map(|newest| self.window.after(newest))
    }

    fn wake(&self, recent: &mut Self::State, _: Timestamp) -> Option<Event<Self::Out>> {
        *recent = Rule::<T>::start(self);
        None
    }
}
