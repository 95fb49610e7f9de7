//! A state and a function of it and the event: running reduce, stateful map, state machines.

use std::hash::Hash;
use std::marker::PhantomData;

use super::{Consumer, Cx, OpId};
use crate::event::Event;
use crate::state::{Codec, Keyed, StateError, Visit, show};
use crate::time::Timestamp;

/// One state for all events.
pub struct Apply<S, F, N, U> {
    op: OpId,
    initial: S,
    f: F,
    codec: Option<Codec<S>>,
    next: N,
    out: PhantomData<fn() -> U>,
}

impl<S, F, N, U> Apply<S, F, N, U> {
    /// `f` applied to the state, which starts as `initial`, and each value; what it returns goes on
    /// to `next`.
    pub fn new(op: OpId, initial: S, f: F, codec: Option<Codec<S>>, next: N) -> Self {
        Self { op, initial, f, codec, next, out: PhantomData }
    }
}

impl<T, U, S, F, N> Consumer<T> for Apply<S, F, N, U>
where
    T: Send + 'static,
    U: Send + 'static,
    S: Clone + Send + Sync + 'static,
    F: Fn(&mut S, T) -> Option<U> + Send + Sync + 'static,
    N: Consumer<U>,
{
    type State = (S, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (self.initial.clone(), self.next.state())
    }

    #[inline]
    fn event(&self, (state, next): &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, event.time, event.value);
        }
        let Event { time, value } = event;
        if let Some(value) = cx.call(self.op, time, || (self.f)(state, value)) {
            self.next.event(next, cx, Event::new(time, value));
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        self.next.next_timer(&state.1)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}

/// One state per key.
pub struct ApplyKeyed<K, KF, S, F, N, U> {
    op: OpId,
    key: KF,
    initial: S,
    f: F,
    codec: Option<Codec<Keyed<K, S>>>,
    reset_on_panic: bool,
    next: N,
    out: PhantomData<fn() -> U>,
}

impl<K, KF, S, F, N, U> ApplyKeyed<K, KF, S, F, N, U> {
    /// `f` applied to the state of each value's key, which starts as `initial`, and the value; what
    /// it returns goes on to `next`. With `reset_on_panic` a key whose `f` panics starts afresh.
    pub fn new(
        op: OpId,
        key: KF,
        initial: S,
        f: F,
        codec: Option<Codec<Keyed<K, S>>>,
        reset_on_panic: bool,
        next: N,
    ) -> Self {
        Self { op, key, initial, f, codec, reset_on_panic, next, out: PhantomData }
    }
}

impl<T, U, K, KF, S, F, N> Consumer<T> for ApplyKeyed<K, KF, S, F, N, U>
where
    T: Send + 'static,
    U: Send + 'static,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
    F: Fn(&mut S, T) -> Option<U> + Send + Sync + 'static,
    N: Consumer<U>,
{
    type State = (Keyed<K, S>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (Keyed::new(), self.next.state())
    }

    #[inline]
    fn event(&self, (keyed, next): &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, event.time, event.value);
        }
        let Event { time, value } = event;
        let made = if self.reset_on_panic {
            cx.caught(|| {
                let state = keyed.entry((self.key)(&value), || self.initial.clone());
                // The key holds its initial state while `f` works on a copy, so that is what it has
                // if `f` does not return.
                let mut working = std::mem::replace(state, self.initial.clone());
                let made = (self.f)(&mut working, value);
                *state = working;
                made
            })
            .flatten()
        } else {
            cx.call(self.op, time, || {
                let state = keyed.entry((self.key)(&value), || self.initial.clone());
                (self.f)(state, value)
            })
        };
        if let Some(value) = made {
            self.next.event(next, cx, Event::new(time, value));
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        self.next.next_timer(&state.1)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
