//! Events that differ from the one before.

use std::marker::PhantomData;

use super::{Answer, Rule};
use crate::event::Event;

/// Lets an event pass if what a function makes of it differs from what it made of the event of its key
/// before; the first always passes. What does not equal itself, as NaN, always differs.
pub struct Changes<F, V> {
    of: F,
    values: PhantomData<fn() -> V>,
}

impl<F, V> Changes<F, V> {
    /// Changes of what `of` makes of an event.
    pub fn new(of: F) -> Self {
        Self { of, values: PhantomData }
    }
}

impl<T, V, F> Rule<T> for Changes<F, V>
where
    T: Send + 'static,
    V: PartialEq + Send + 'static,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    /// What it was at the event before.
    type State = Option<V>;
    type Out = T;

    const LASTS: bool = true;

    fn start(&self) -> Option<V> {
        None
    }

    #[inline]
    fn event(&self, before: &mut Option<V>, event: Event<T>, _: bool) -> Answer<T> {
        let now = Some((self.of)(&event.value));
        if *before == now {
            return Answer::Nothing;
        }
        *before = now;
        Answer::Emit(event.value)
    }
}
