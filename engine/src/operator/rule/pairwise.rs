//! Each event with the one before.

use super::{Answer, Rule};
use crate::event::Event;

/// Gives each event but the first of a key with the one before it: `(before, now)`.
pub struct Pairwise;

impl<T: Clone + Send + 'static> Rule<T> for Pairwise {
    /// The event before.
    type State = Option<T>;
    type Out = (T, T);

    const LASTS: bool = true;

    fn start(&self) -> Option<T> {
        None
    }

    #[inline]
    fn event(&self, before: &mut Option<T>, event: Event<T>, _: bool) -> Answer<(T, T)> {
        let now = event.value;
        before.replace(now.clone()).map(|before| (before, now)).into()
    }
}
