//! Operators: one element at a time, code by `&self`, state outside.
//!
//! An operator is a [`Consumer`]: it takes elements, keeps its state in a plain value that it is
//! handed with each of them, and pushes what it makes into the next consumer, which it owns. A chain
//! of operators is therefore one nested type, compiled into one piece of code, and its state is one
//! nested value, up to a [`Linked`] consumer, where the next such piece begins. An operator never meets a thread, a lock or an atomic: who may run it, and when, is
//! decided by [`runtime`](crate::runtime).
//!
//! The elements on every edge follow the grammar `(Event | Watermark)* End?`; watermarks never go
//! back, and no event that is not late is earlier than the last watermark.

mod alarms;
mod apply;
mod branch;
mod context;
mod link;
mod pattern;
mod process;
mod processing_time;
mod situations;
mod stateless;
mod window;

pub mod aggregate;
pub mod group;
pub mod join;
pub mod rule;

pub use apply::{Apply, ApplyKeyed};
pub use branch::{Branch, Predicate, SplitLate};
pub use context::{Counters, Cx, Failure, Flow, Note, Parcel};
pub(crate) use context::{Lasting, contained, panic_message};
pub use link::Linked;
pub use pattern::{Nowhere, PatternMatch, PatternState, Select};
pub use process::{Process, ProcessCx, ProcessOp, ProcessState};
pub use situations::{
    Closure, NO_ACTIONS, OneByOne, Reporting, SituationMatch, SituationState, SteeredSituations,
    Together,
};
pub use stateless::{DebugEvents, Filter, FilterMap, FlatMap, Inspect, Map};
pub use window::{
    Aligned, AlignedState, AlignedWindow, Between, Bounds, Calendar, CountWindows, Counted,
    Cumulative, Driven, DrivenState, InvalidWindow, Laid, Layout, Phase, ProcessingWindow, Rule,
    SessionState, SessionWindow, Sessions, Stretch, Trigger, Updatable, Updates, Window,
    WindowKind, WindowState, Windowed, Windows,
};

use crate::event::{Batch, Event};
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// Names an operator within its query: its position in the query's list of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

/// Something that elements can be pushed into: an operator together with all that follows it.
pub trait Consumer<T>: Send + Sync + 'static {
    /// What this operator and all that follow it remember.
    type State: Send + 'static;

    /// The state before the first element.
    fn state(&self) -> Self::State;

    /// Whether it gains by having a batch as a whole, in [`batch`](Consumer::batch). Else a source may
    /// hand its events on one by one, without a batch between.
    const WHOLE_BATCHES: bool = false;

    /// Whether it remembers something, or what follows it in the same chain does: then no two workers run it
    /// at a time, and it need not be compiled for that.
    const REMEMBERS: bool = false;

    /// Takes one event. Whether it is late stands in [`Cx::late`].
    ///
    /// In an ordered chain ([`Cx::ordered`]) the event's own time is the clock: a timed operator
    /// fires what is due at or before it first.
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>);

    /// Takes the events of a batch, in order, and leaves it empty.
    #[inline]
    fn batch(&self, state: &mut Self::State, cx: &mut Cx, batch: &mut Batch<T>) {
        batch.drain(|event, late| {
            cx.late = late;
            self.event(state, cx, event);
        });
    }

    /// Takes a note that was put into the chain's inbox, behind the events before it.
    fn note(&self, _state: &mut Self::State, _cx: &mut Cx, _note: Note) {}

    /// Takes the promise that no later event is earlier than `watermark`, fires what is due, and
    /// passes on this operator's own promise.
    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp);

    /// The input has ended: everything still open fires once, then the end is passed on.
    fn end(&self, state: &mut Self::State, cx: &mut Cx);

    /// A batch is over: what was buffered for other chains or outside goes to [`Cx::outbox`].
    fn flush(&self, state: &mut Self::State, cx: &mut Cx);

    /// When the earliest timer of this operator or one behind it is due, if there is one.
    fn next_timer(&self, state: &Self::State) -> Option<Timestamp>;

    /// Shows every piece of state to `visit`, in a fixed order.
    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError>;
}

/// The earlier of two timers.
#[inline]
pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// Passes everything but events straight to the next consumer: the part of a stateless operator
/// that is the same for all of them.
macro_rules! pass_on {
    ($next:ty) => {
        type State = <$next as Consumer<U>>::State;

        const REMEMBERS: bool = <$next as Consumer<U>>::REMEMBERS;

        fn state(&self) -> Self::State {
            self.next.state()
        }

        fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
            self.next.watermark(state, cx, watermark);
        }

        fn end(&self, state: &mut Self::State, cx: &mut Cx) {
            self.next.end(state, cx);
        }

        fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
            self.next.flush(state, cx);
        }

        fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
            self.next.next_timer(state)
        }

        fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
            self.next.visit(state, visit)
        }
    };
}
pub(crate) use pass_on;
