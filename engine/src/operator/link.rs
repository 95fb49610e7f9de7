//! A consumer behind a virtual call.

use std::sync::Arc;

use super::{Consumer, Cx, Note};
use crate::event::{Batch, Event};
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// A consumer of which nothing but the payload is known: what stands before it is compiled once,
/// whatever follows. An event, or a batch, passes through one virtual call, and the state behind it lies
/// in a box of its own. It is for what follows an operator that remembers something.
///
/// ```
/// use mizzle_engine::harness::{Input, OperatorHarness, Probe};
/// use mizzle_engine::operator::{Linked, Map, OpId};
/// use mizzle_engine::time::Timestamp;
/// let harness = OperatorHarness::new(|probe: Probe<i32>| {
///     Linked::new(Map::<_, _, _, false>::new(OpId(1), |n: i32| n * 2, probe))
/// });
/// let outcome = harness.run(&[Input::Event(Timestamp::EPOCH, 21), Input::End]);
/// assert_eq!(outcome.values().collect::<Vec<_>>(), [&42]);
/// ```
pub struct Linked<T> {
    start: Box<dyn Fn() -> Box<dyn Running<T>> + Send + Sync>,
}

impl<T: Send + 'static> Linked<T> {
    /// `consumer` behind a virtual call.
    pub fn new<C: Consumer<T>>(consumer: C) -> Self {
        let consumer = Arc::new(consumer);
        let start = move || -> Box<dyn Running<T>> {
            Box::new(Run { state: consumer.state(), consumer: consumer.clone() })
        };
        Self { start: Box::new(start) }
    }
}

/// A consumer with its state.
struct Run<C, S> {
    consumer: Arc<C>,
    state: S,
}

/// What [`Consumer`] says, of a consumer with its state.
pub trait Running<T>: Send {
    fn event(&mut self, cx: &mut Cx, event: Event<T>);
    fn batch(&mut self, cx: &mut Cx, batch: &mut Batch<T>);
    fn note(&mut self, cx: &mut Cx, note: Note);
    fn watermark(&mut self, cx: &mut Cx, watermark: Timestamp);
    fn end(&mut self, cx: &mut Cx);
    fn flush(&mut self, cx: &mut Cx);
    fn next_timer(&self) -> Option<Timestamp>;
    fn visit(&mut self, visit: &mut dyn Visit) -> Result<(), StateError>;
}

impl<T, C: Consumer<T>> Running<T> for Run<C, C::State> {
    fn event(&mut self, cx: &mut Cx, event: Event<T>) {
        self.consumer.event(&mut self.state, cx, event);
    }

    fn batch(&mut self, cx: &mut Cx, batch: &mut Batch<T>) {
        self.consumer.batch(&mut self.state, cx, batch);
    }

    fn note(&mut self, cx: &mut Cx, note: Note) {
        self.consumer.note(&mut self.state, cx, note);
    }

    fn watermark(&mut self, cx: &mut Cx, watermark: Timestamp) {
        self.consumer.watermark(&mut self.state, cx, watermark);
    }

    fn end(&mut self, cx: &mut Cx) {
        self.consumer.end(&mut self.state, cx);
    }

    fn flush(&mut self, cx: &mut Cx) {
        self.consumer.flush(&mut self.state, cx);
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.consumer.next_timer(&self.state)
    }

    fn visit(&mut self, visit: &mut dyn Visit) -> Result<(), StateError> {
        self.consumer.visit(&mut self.state, visit)
    }
}

impl<T: Send + 'static> Consumer<T> for Linked<T> {
    type State = Box<dyn Running<T>>;

    // As what stands before it does.
    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (self.start)()
    }

    const WHOLE_BATCHES: bool = true;

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        state.event(cx, event);
    }

    fn batch(&self, state: &mut Self::State, cx: &mut Cx, batch: &mut Batch<T>) {
        state.batch(cx, batch);
    }

    fn note(&self, state: &mut Self::State, cx: &mut Cx, note: Note) {
        state.note(cx, note);
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        state.watermark(cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        state.end(cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        state.flush(cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        state.next_timer()
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        state.visit(visit)
    }
}
