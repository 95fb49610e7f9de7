//! State windows: from an event that opens one to the next that closes it.
//!
//! | an event of a key | while none is open | while one is open |
//! |---|---|---|
//! | opens | it is the first of a window | it is in the window |
//! | closes | it is in none | it is the last of the window |
//! | does both | it is a window | it is the last of the window |
//! | neither | it is in none | it is in the window |

use super::driven::{Driven, DrivenState, Rule, Stretch, driven_kind};
use super::{InvalidWindow, Windows};
use crate::operator::aggregate::Aggregate;
use crate::time::Timestamp;

/// State windows: made by [`Windows::between`].
#[derive(Clone, Copy, Debug)]
pub struct Between<O, C> {
    opens: O,
    closes: C,
}

impl Windows {
    /// Windows of a key's events from one that `opens` to the next that `closes`, both included. What
    /// lies outside is filtered out. At the end of the stream what is open closes.
    pub fn between<T, O, C>(opens: O, closes: C) -> Between<O, C>
    where
        O: Fn(&T) -> bool,
        C: Fn(&T) -> bool,
    {
        Between { opens, closes }
    }
}

/// What is kept of a key.
type Held<Acc> = Option<Stretch<Acc>>;

impl<T, O, C> Rule<T> for Between<O, C>
where
    T: Send + 'static,
    O: Fn(&T) -> bool + Send + Sync + 'static,
    C: Fn(&T) -> bool + Send + Sync + 'static,
{
    type Held<Acc: Send + 'static> = Held<Acc>;

    fn begins(&self, value: &T) -> bool {
        (self.opens)(value)
    }

    fn nothing<Acc: Send + 'static>(&self) -> Held<Acc> {
        None
    }

    #[inline]
    fn take<A: Aggregate<T>>(
        &self,
        aggregate: &A,
        held: &mut Held<A::Acc>,
        time: Timestamp,
        value: &T,
    ) -> Option<Stretch<A::Acc>> {
        match held {
            Some(window) => window.add(aggregate, time, value),
            None => *held = Some(Stretch::of(aggregate, time, value)),
        }
        if (self.closes)(value) { held.take() } else { None }
    }

    fn is_over<Acc: Send + 'static>(&self, held: &Held<Acc>) -> bool {
        held.is_none()
    }

    fn rest<A: Aggregate<T>>(&self, _: &A, held: Held<A::Acc>) -> Option<Stretch<A::Acc>> {
        held
    }
}

driven_kind!([O: Predicate<T>, C: Predicate<T>] Between<O, C>, Held, |_| Ok(()));

/// A function that says whether.
pub trait Predicate<T>: Fn(&T) -> bool {}

impl<T, F: Fn(&T) -> bool> Predicate<T> for F {}
