//! Keeps events in memory.

use std::fmt;
use std::sync::Arc;

use super::{Sink, SinkError};
use crate::event::Event;
use crate::sync::Mutex;

/// A sink that keeps all it gets, and a handle to look at it: after each batch the handle shows the
/// events of that batch too.
///
/// ```
/// use mizzle_engine::{Event, sink::{Sink, collect}, time::Timestamp};
/// let (mut sink, collected) = collect();
/// sink.event(Event::new(Timestamp::EPOCH, "a"));
/// assert_eq!(collected.len(), 0);
/// sink.flush().unwrap();
/// assert_eq!(collected.take()[0].value, "a");
/// assert!(collected.is_empty());
/// ```
pub fn collect<T>() -> (Collect<T>, Collected<T>) {
    let collected = Collected { events: Arc::new(Mutex::new(Vec::new())) };
    (Collect { batch: Vec::new(), collected: collected.clone() }, collected)
}

/// The sink that [`collect`] returns.
pub struct Collect<T> {
    batch: Vec<Event<T>>,
    collected: Collected<T>,
}

/// The handle that [`collect`] returns. Clones show the same events.
pub struct Collected<T> {
    events: Arc<Mutex<Vec<Event<T>>>>,
}

impl<T> Collected<T> {
    /// Takes out all events so far, in the order in which they came.
    pub fn take(&self) -> Vec<Event<T>> {
        std::mem::take(&mut *self.events.lock())
    }

    /// A copy of the events so far, in the order in which they came.
    pub fn events(&self) -> Vec<Event<T>>
    where
        T: Clone,
    {
        self.events.lock().clone()
    }

    /// A copy of the values so far, in the order in which they came.
    pub fn values(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.events.lock().iter().map(|event| event.value.clone()).collect()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Collected<T> {
    fn clone(&self) -> Self {
        Self { events: self.events.clone() }
    }
}

impl<T> fmt::Debug for Collected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").field("len", &self.len()).finish()
    }
}

impl<T: Send + 'static> Sink<T> for Collect<T> {
    #[inline]
    fn event(&mut self, event: Event<T>) {
        self.batch.push(event);
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if !self.batch.is_empty() {
            self.collected.events.lock().append(&mut self.batch);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), SinkError> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn events_show_in_order_after_their_batch() {
        let (mut sink, collected) = collect();
        let other = collected.clone();
        let event = |value| Event::new(Timestamp::from_secs(value), value);
        sink.event(event(2));
        sink.event(event(1));
        assert!(other.is_empty());
        sink.flush().unwrap();
        sink.event(event(3));
        assert_eq!(other.events(), [event(2), event(1)]);
        sink.end().unwrap();
        assert_eq!((other.len(), collected.take()), (3, [2, 1, 3].map(event).to_vec()));
        assert!(other.is_empty());
    }
}
