//! A condition begins or ends to hold.

use super::{Answer, Rule};
use crate::event::Event;

/// Lets an event pass if a condition holds for it and did not for the event of its key before (rising), or
/// the other way round (falling). The first event of a key rises if the condition holds, and never falls.
pub struct Edge<F> {
    holds: F,
    rising: bool,
}

impl<F> Edge<F> {
    /// Where `holds` begins to hold.
    pub fn rising(holds: F) -> Self {
        Self { holds, rising: true }
    }

    /// Where `holds` ceases to hold.
    pub fn falling(holds: F) -> Self {
        Self { holds, rising: false }
    }
}

impl<T, F> Rule<T> for Edge<F>
where
    T: Send + 'static,
    F: Fn(&T) -> bool + Send + Sync + 'static,
{
    /// Whether the condition held for the event before.
    type State = bool;
    type Out = T;

    const LASTS: bool = true;

    fn start(&self) -> bool {
        false
    }

    #[inline]
    fn event(&self, held: &mut bool, event: Event<T>, _: bool) -> Answer<T> {
        let holds = (self.holds)(&event.value);
        let before = std::mem::replace(held, holds);
        (before != holds && holds == self.rising).then_some(event.value).into()
    }
}
