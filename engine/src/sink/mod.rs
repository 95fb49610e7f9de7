//! Where events go to.
//!
//! A [`Sink`] is the last in a chain: [`SinkOp`] puts it there. It is handed events one at a time, in
//! the chain's order, and told when a batch is over, which is when what it has gathered should leave.

mod collect;
mod csv;
#[cfg(test)]
mod disk;
mod for_each;
mod json_lines;

pub use self::csv::{Csv, csv, csv_file};
pub use collect::{Collect, Collected, collect};
pub use for_each::{ForEach, for_each};
pub use json_lines::{JsonLines, json_lines, json_lines_file};

use std::error::Error;

use crate::event::Event;
use crate::operator::{Consumer, Cx, Flow, OpId};
use crate::state::{StateError, Visit};
use crate::sync::Mutex;
use crate::time::Timestamp;

/// Something outside that events are handed to.
pub trait Sink<T>: Send + 'static {
    /// Takes an event. What goes wrong is reported by the next [`flush`](Self::flush).
    fn event(&mut self, event: Event<T>);

    /// A batch is over: what has been taken should leave.
    ///
    /// # Errors
    /// If something could not be handed on; the query ends then.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// The stream has ended. Called once, after the last event.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    fn end(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink could not hand events on.
#[derive(Debug, thiserror::Error)]
#[error("the sink failed: {source}")]
#[non_exhaustive]
pub struct SinkError {
    /// What it met.
    source: Box<dyn Error + Send + Sync>,
}

impl SinkError {
    /// An error with a reason: another error, or a text.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into() }
    }
}

/// The end of a chain: hands its events to a sink.
///
/// The sink is the operator's state, so whoever runs the chain has it to themselves.
pub struct SinkOp<S> {
    op: OpId,
    sink: Mutex<Option<S>>,
}

impl<S> SinkOp<S> {
    /// `sink` as operator `op`.
    pub fn new(op: OpId, sink: S) -> Self {
        Self { op, sink: Mutex::new(Some(sink)) }
    }

    fn report(&self, cx: &mut Cx, outcome: Result<(), SinkError>) {
        if let Err(error) = outcome {
            cx.fail(self.op, None, error.to_string());
        }
    }
}

impl<T, S> Consumer<T> for SinkOp<S>
where
    T: Send + 'static,
    S: Sink<T>,
{
    type State = S;

    /// # Panics
    /// The second time: there is one sink.
    fn state(&self) -> S {
        self.sink.lock().take().expect("a chain with a sink has one state, not several")
    }

    #[inline]
    fn event(&self, sink: &mut S, cx: &mut Cx, event: Event<T>) {
        cx.counters.out += 1;
        cx.call(self.op, event.time, || sink.event(event));
    }

    fn watermark(&self, _: &mut S, _: &mut Cx, _: Timestamp) {}

    fn end(&self, sink: &mut S, cx: &mut Cx) {
        let outcome = cx.call(self.op, Timestamp::MAX, || sink.end());
        self.report(cx, outcome);
    }

    fn flush(&self, sink: &mut S, cx: &mut Cx) {
        // Not at the time of any event: all of them are behind it.
        let halted = cx.flow == Flow::Halted;
        let outcome = cx.call(self.op, Timestamp::MIN, || {
            // Nothing fires any more, but what was taken must not stay behind.
            if halted { sink.end() } else { sink.flush() }
        });
        self.report(cx, outcome);
    }

    fn next_timer(&self, _: &S) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut S, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full {
        taken: usize,
    }

    impl Sink<u8> for Full {
        fn event(&mut self, event: Event<u8>) {
            assert_ne!(event.value, 9, "nine");
            self.taken += 1;
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            if self.taken > 2 { Err(SinkError::new("no room for more than two")) } else { Ok(()) }
        }
    }

    fn event(value: u8) -> Event<u8> {
        Event::new(Timestamp::from_secs(1), value)
    }

    #[test]
    fn events_are_counted_and_an_error_ends_the_query() {
        let sink = SinkOp::new(OpId(4), Full { taken: 0 });
        let (mut state, mut cx) = (Consumer::<u8>::state(&sink), Cx::default());
        (0..2).for_each(|value| sink.event(&mut state, &mut cx, event(value)));
        Consumer::<u8>::flush(&sink, &mut state, &mut cx);
        assert!(cx.take_failure().is_none());
        sink.event(&mut state, &mut cx, event(2));
        Consumer::<u8>::flush(&sink, &mut state, &mut cx);
        let failure = cx.take_failure().unwrap();
        assert_eq!((failure.operator, failure.time), (Some(OpId(4)), None));
        assert_eq!(failure.message, "the sink failed: no room for more than two");
        assert_eq!(cx.counters.out, 3);
        Consumer::<u8>::end(&sink, &mut state, &mut cx);
        assert!(cx.take_failure().is_none());
    }

    #[test]
    fn a_panic_in_a_sink_is_blamed_on_it() {
        let sink = SinkOp::new(OpId(4), Full { taken: 0 });
        let (mut state, mut cx) = (Consumer::<u8>::state(&sink), Cx::default());
        let run = std::panic::AssertUnwindSafe(|| sink.event(&mut state, &mut cx, event(9)));
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(cx.take_blame(), Some((OpId(4), Timestamp::from_secs(1))));
    }

    #[test]
    #[should_panic(expected = "one state")]
    fn a_sink_is_handed_over_once() {
        let sink = SinkOp::new(OpId(4), Full { taken: 0 });
        let _: (Full, Full) = (Consumer::<u8>::state(&sink), Consumer::<u8>::state(&sink));
    }
}
