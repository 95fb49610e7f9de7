//! A stream that is steered by another one.

use serde::{Deserialize, Serialize};

use super::Either;
use super::sorted::Sorted;
use crate::event::Event;
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, StateError, Visit, show};
use crate::time::{Timestamp, is_late};

/// What a [`Control`] remembers: what the control stream has made of its state, and in a chain that is
/// not ordered the rows whose time the watermark has not passed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ControlState<S, L, R> {
    current: S,
    #[serde(bound(
        serialize = "L: Serialize, R: Serialize",
        deserialize = "L: Deserialize<'de>, R: Deserialize<'de>"
    ))]
    waiting: Sorted<L, R>,
    clock: Timestamp,
}

/// Right rows change one state; each left row sees it as of its time.
///
/// A right row of the same time is seen. In a chain that is not ordered rows of both sides wait until the
/// watermark has passed their time; then they are taken in order of time.
pub struct Control<S, L, R, G, F, N> {
    op: OpId,
    initial: S,
    change: G,
    f: F,
    codec: Option<Codec<ControlState<S, L, R>>>,
    next: N,
}

impl<S, L, R, G, F, N> Control<S, L, R, G, F, N> {
    /// A state that starts as `initial` and that `change` applies right rows to; what `f` makes of it and
    /// a left row goes on to `next`.
    pub fn new(
        op: OpId,
        initial: S,
        change: G,
        f: F,
        codec: Option<Codec<ControlState<S, L, R>>>,
        next: N,
    ) -> Self {
        Self { op, initial, change, f, codec, next }
    }

    /// Takes a row, now that all before it are through.
    fn take<U>(
        &self,
        current: &mut S,
        next: &mut N::State,
        cx: &mut Cx,
        time: Timestamp,
        row: Either<L, R>,
    ) where
        G: Fn(&mut S, R) + Send + Sync + 'static,
        F: Fn(&S, L) -> Option<U> + Send + Sync + 'static,
        N: Consumer<U>,
    {
        let out = cx.call(self.op, time, || match row {
            Either::Left(left) => (self.f)(current, left),
            Either::Right(right) => {
                (self.change)(current, right);
                None
            }
        });
        if let Some(out) = out {
            self.next.event(next, cx, Event::new(time, out));
        }
    }
}

impl<S, L, R, U, G, F, N> Consumer<Either<L, R>> for Control<S, L, R, G, F, N>
where
    S: Clone + Send + Sync + 'static,
    L: Send + 'static,
    R: Send + 'static,
    U: Send + 'static,
    G: Fn(&mut S, R) + Send + Sync + 'static,
    F: Fn(&S, L) -> Option<U> + Send + Sync + 'static,
    N: Consumer<U>,
{
    type State = (ControlState<S, L, R>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        let (current, waiting) = (self.initial.clone(), Sorted::default());
        (ControlState { current, waiting, clock: Timestamp::MIN }, self.next.state())
    }

    fn event(&self, (own, next): &mut Self::State, cx: &mut Cx, event: Event<Either<L, R>>) {
        if cx.refuses_late() {
            return cx.discard(self.op, event.time, event.value);
        }
        if is_late(event.time, own.clock) {
            cx.counters.late += 1;
            return cx.discard(self.op, event.time, event.value);
        }
        if cx.ordered {
            self.take(&mut own.current, next, cx, event.time, event.value);
        } else {
            own.waiting.push(event);
        }
    }

    fn watermark(&self, (own, next): &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        cx.late = false;
        let ControlState { current, waiting, clock } = own;
        waiting.release(watermark, &mut |time, row| self.take(current, next, cx, time, row));
        *clock = (*clock).max(watermark);
        self.next.watermark(next, cx, watermark);
    }

    fn end(&self, (own, next): &mut Self::State, cx: &mut Cx) {
        cx.late = false;
        let ControlState { current, waiting, .. } = own;
        let take = &mut |time, row| self.take(current, next, cx, time, row);
        waiting.release_through(Timestamp::MAX, take);
        self.next.end(next, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        earlier(state.0.waiting.due(), self.next.next_timer(&state.1))
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
