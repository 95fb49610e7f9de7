//! So many in a row.

use super::{Answer, Rule};
use crate::event::Event;

/// Lets the `n`-th event of an unbroken run pass: events of a key, one after the other, for which a
/// condition holds. Once per run.
pub struct RunsOf<F> {
    n: u64,
    holds: F,
}

impl<F> RunsOf<F> {
    /// `n` events running for which `holds`.
    pub fn new(n: u64, holds: F) -> Self {
        Self { n, holds }
    }
}

impl<T, F> Rule<T> for RunsOf<F>
where
    T: Send + 'static,
    F: Fn(&T) -> bool + Send + Sync + 'static,
{
    /// How long the run is by now.
    type State = u64;
    type Out = T;

    const LASTS: bool = true;

    fn start(&self) -> u64 {
        0
    }

    #[inline]
    fn event(&self, running: &mut u64, event: Event<T>, _: bool) -> Answer<T> {
        *running = if (self.holds)(&event.value) { *running + 1 } else { 0 };
        (*running == self.n).then_some(event.value).into()
    }
}
