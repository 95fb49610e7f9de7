//! Calls a function.

use super::Sink;
use crate::event::Event;

/// A sink that calls `f` with each event.
///
/// ```
/// use mizzle_engine::{Event, sink::{Sink, for_each}, time::Timestamp};
/// let mut sum = 0;
/// let mut sink = for_each(move |event: Event<i32>| {
///     sum += event.value;
///     assert!(sum < 10);
/// });
/// sink.event(Event::new(Timestamp::EPOCH, 7));
/// ```
pub fn for_each<T, F: FnMut(Event<T>)>(f: F) -> ForEach<F> {
    ForEach { f }
}

/// What [`for_each`] returns.
#[derive(Debug)]
pub struct ForEach<F> {
    f: F,
}

impl<T, F: FnMut(Event<T>) + Send + 'static> Sink<T> for ForEach<F> {
    #[inline]
    fn event(&mut self, event: Event<T>) {
        (self.f)(event);
    }
}
