//! The window operator.

use std::hash::Hash;

use super::slices::{Closed, Nowhere};
use super::{Grid, Phase, WindowState, Windowed, Windows};
use crate::event::Event;
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

/// An aggregate over windows of event time, per key.
///
/// In an ordered chain a late event is only counted. Elsewhere it counts in each of its windows that
/// is still open, and only as late if there is none. The results of one window come in order of
/// arrival of their keys in that window. A result that its type cannot hold is counted as failed.
pub struct Window<K, KF, A, N, Acc> {
    op: OpId,
    grid: Grid,
    key: KF,
    aggregate: A,
    codec: Option<Codec<WindowState<K, Acc>>>,
    next: N,
}

impl<K, KF, A, N, Acc> Window<K, KF, A, N, Acc> {
    /// `aggregate` over each of `windows` and each key that `key` gives, in front of `next`. A
    /// window over all events has the key `()`.
    ///
    /// # Panics
    ///
    /// If [`windows.check()`](Windows::check) fails.
    pub fn new(
        op: OpId,
        windows: Windows,
        key: KF,
        aggregate: A,
        codec: Option<Codec<WindowState<K, Acc>>>,
        next: N,
    ) -> Self {
        if let Err(invalid) = windows.check() {
            panic!("{invalid}");
        }
        Self { op, grid: Grid::new(&windows), key, aggregate, codec, next }
    }

    /// What follows it.
    pub(super) fn next(&self) -> &N {
        &self.next
    }

    /// Closes every window that is due at `clock`. Kept out of the loop over events: compiled into it,
    /// it took the registers that the loop needs.
    #[cold]
    #[inline(never)]
    fn close_due<T>(
        &self,
        (state, next): &mut (WindowState<K, Acc>, N::State),
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        K: Hash + Eq + Clone + Send + 'static,
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        // What a window gives is on time, whatever the event before it was.
        cx.late = false;
        while let Some(due) = state.slices.due().filter(|&due| is_due(due, clock)) {
            let time = due.previous();
            let close = || state.close_next(&self.grid, &self.aggregate);
            let Closed { start, end, mut table } = cx.call(self.op, time, close);
            for (key, acc) in table.drain() {
                match cx.call(self.op, time, || self.aggregate.finish(&acc)) {
                    Ok(value) => {
                        let result = Windowed { key, start, end, phase: Phase::Final, value };
                        self.next.event(next, cx, Event::new(time, result));
                    }
                    Err(Overflow) => cx.counters.failed += 1,
                }
            }
            state.keep(table);
        }
        state.slices.close_until(clock);
    }
}

impl<K, KF, A, N, Acc> Window<K, KF, A, N, Acc> {
    /// Makes the slice of an event at `time` the recent one, where that is not so already; fires what
    /// is due first. `false`: the event is not taken.
    #[cold]
    #[inline(never)]
    fn find_slice<T>(
        &self,
        state: &mut (WindowState<K, Acc>, N::State),
        cx: &mut Cx,
        time: Timestamp,
    ) -> bool
    where
        K: Hash + Eq + Clone + Send + 'static,
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        if cx.ordered {
            if cx.refuses_late() {
                return false;
            }
            if let Some(clock) = state.0.slices.closes_at(time) {
                self.close_due(state, cx, clock);
            }
        }
        match state.0.find_or_open(&self.grid, time) {
            Ok(()) => return true,
            Err(Nowhere::Closed) => cx.counters.late += 1,
            Err(Nowhere::Gap) => {}
        }
        false
    }
}

impl<T, K, KF, A, N> Consumer<T> for Window<K, KF, A, N, A::Acc>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    A: Aggregate<T>,
    N: Consumer<Windowed<K, A::Out>>,
{
    type State = (WindowState<K, A::Acc>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (WindowState::new(), self.next.state())
    }

    // Always, and with one place where the aggregate is fed: a call costs as much as what it does.
    #[inline(always)]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, Event { time, value }: Event<T>) {
        let refused = cx.late & cx.ordered;
        if (refused || !state.0.slices.is_recent(time)) && !self.find_slice(state, cx, time) {
            return;
        }
        let table = state.0.slices.recent();
        let on_panic = cx.on_panic(self.op, time);
        let acc = table.entry((self.key)(&value), || self.aggregate.create());
        self.aggregate.add(acc, &value);
        on_panic.disarm();
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.close_due(state, cx, watermark);
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        self.close_due(state, cx, Timestamp::MAX);
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        earlier(state.0.slices.due(), self.next.next_timer(&state.1))
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
