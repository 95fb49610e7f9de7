//! The operators that remember nothing. One that `SKIPS` goes on after a panic of its function, without
//! the event; a parameter of the type, so that those that do not pay nothing for it.

use std::fmt::{Debug, Write};

use super::{Consumer, Cx, OpId, pass_on};
use crate::event::Event;
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// Each value becomes another.
pub struct Map<F, N, U, const SKIPS: bool = false> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> U>,
}

impl<F, N, U, const SKIPS: bool> Map<F, N, U, SKIPS> {
    /// `f` applied to each value, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, F, N, const SKIPS: bool> Consumer<T> for Map<F, N, U, SKIPS>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> U + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let value = cx.attempt::<SKIPS, _>(self.op, event.time, || (self.f)(event.value));
        if let Some(value) = value {
            self.next.event(state, cx, Event::new(event.time, value));
        }
    }
}

/// Only values that satisfy a predicate go on.
pub struct Filter<F, N, const SKIPS: bool = false> {
    op: OpId,
    predicate: F,
    next: N,
}

impl<F, N, const SKIPS: bool> Filter<F, N, SKIPS> {
    /// Values for which `predicate` holds, in front of `next`.
    pub fn new(op: OpId, predicate: F, next: N) -> Self {
        Self { op, predicate, next }
    }
}

impl<U, F, N, const SKIPS: bool> Consumer<U> for Filter<F, N, SKIPS>
where
    U: Send + 'static,
    F: Fn(&U) -> bool + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<U>) {
        let holds = cx.attempt::<SKIPS, _>(self.op, event.time, || (self.predicate)(&event.value));
        if holds == Some(true) {
            self.next.event(state, cx, event);
        } else {
            cx.discard(self.op, event.time, event.value);
        }
    }
}

/// Each value becomes another or nothing.
pub struct FilterMap<F, N, U, const SKIPS: bool = false> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> U>,
}

impl<F, N, U, const SKIPS: bool> FilterMap<F, N, U, SKIPS> {
    /// What `f` makes of each value, where it makes something, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, F, N, const SKIPS: bool> Consumer<T> for FilterMap<F, N, U, SKIPS>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> Option<U> + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let value = cx.attempt::<SKIPS, _>(self.op, event.time, || (self.f)(event.value));
        if let Some(value) = value.flatten() {
            self.next.event(state, cx, Event::new(event.time, value));
        }
    }
}

/// Each value becomes any number of others, all at its time.
pub struct FlatMap<F, N, I: IntoIterator, const SKIPS: bool = false> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> I>,
}

impl<F, N, I: IntoIterator, const SKIPS: bool> FlatMap<F, N, I, SKIPS> {
    /// All that `f` makes of each value, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, I, F, N, const SKIPS: bool> Consumer<T> for FlatMap<F, N, I, SKIPS>
where
    T: Send + 'static,
    U: Send + 'static,
    I: IntoIterator<Item = U> + 'static,
    F: Fn(T) -> I + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let values = || (self.f)(event.value).into_iter();
        let Some(mut values) = cx.attempt::<SKIPS, _>(self.op, event.time, values) else { return };
        // The iterator is the user's too: each step of it is guarded, what follows is not.
        while let Some(Some(value)) = cx.attempt::<SKIPS, _>(self.op, event.time, || values.next())
        {
            self.next.event(state, cx, Event::new(event.time, value));
        }
        cx.discard(self.op, event.time, values);
    }
}

/// A look at each event as it passes.
pub struct Inspect<F, N, const SKIPS: bool = false> {
    op: OpId,
    look: F,
    next: N,
}

impl<F, N, const SKIPS: bool> Inspect<F, N, SKIPS> {
    /// `look` at each event, in front of `next`.
    pub fn new(op: OpId, look: F, next: N) -> Self {
        Self { op, look, next }
    }
}

impl<U, F, N, const SKIPS: bool> Consumer<U> for Inspect<F, N, SKIPS>
where
    U: Send + 'static,
    F: Fn(Timestamp, &U) + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<U>) {
        let look = || (self.look)(event.time, &event.value);
        if cx.attempt::<SKIPS, _>(self.op, event.time, look).is_some() {
            self.next.event(state, cx, event);
        }
    }
}

/// Keeps each event in words while it is processed further down, for a report should that fail.
pub struct DebugEvents<N> {
    next: N,
}

impl<N> DebugEvents<N> {
    /// In front of `next`, whose failures are to show the event.
    pub fn new(next: N) -> Self {
        Self { next }
    }
}

impl<U, N> Consumer<U> for DebugEvents<N>
where
    U: Debug + Send + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<U>) {
        let shown = cx.shown.get_or_insert_default();
        shown.clear();
        // Writing to a string does not fail, but the user's `Debug` may; then there is less to show.
        let _ = write!(shown, "{:?}", event.value);
        self.next.event(state, cx, event);
        if let Some(shown) = &mut cx.shown {
            shown.clear();
        }
    }
}
