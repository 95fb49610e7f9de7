//! A state and a function of it and the event.

use std::marker::PhantomData;

use super::{Answer, Rule};
use crate::event::Event;

/// What a function makes of a state and an event comes out: [`ApplyKeyed`](crate::operator::ApplyKeyed)
/// as a rule, so that its state can [expire](super::Expiring).
pub struct Fold<S, F, U> {
    initial: S,
    f: F,
    out: PhantomData<fn() -> U>,
}

impl<S, F, U> Fold<S, F, U> {
    /// `f` applied to the state of a key, which starts as `initial`, and each value.
    pub fn new(initial: S, f: F) -> Self {
        Self { initial, f, out: PhantomData }
    }
}

impl<T, S, F, U> Rule<T> for Fold<S, F, U>
where
    T: Send + 'static,
    S: Clone + Send + Sync + 'static,
    U: Send + 'static,
    F: Fn(&mut S, T) -> Option<U> + Send + Sync + 'static,
{
    /// The user's.
    type State = S;
    type Out = U;

    const LASTS: bool = true;

    fn start(&self) -> S {
        self.initial.clone()
    }

    #[inline]
    fn event(&self, state: &mut S, event: Event<T>, _: bool) -> Answer<U> {
        (self.f)(state, event.value).into()
    }
}
